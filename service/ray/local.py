"""A Ray cluster of several nodes on this machine, each with its own processes, for demonstrations and tests.

``python -m livesvm.service.ray.local --nodes 3`` prints the cluster's address as one line of JSON, and ends when its
standard input ends. An input line ``add`` adds a node. For each node the program prints a line with the id of the
process that starts the node's workers, and the node's id. With ``--redis``, the head stores its state in that Redis
server; an input line ``behead`` then kills the head's server, and ``head`` starts that server again at the same
address. The program answers the lines ``behead`` and ``head`` with an empty JSON object each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # models are not background work
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
}
"""Settings of Ray, here and elsewhere; by these, a stopped node is noticed within about 10 seconds."""
STORE_BYTES = 100 * 2**20


def main() -> int:
    """Start the nodes, and stop them when the input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--cpus", type=int, default=2, help="that each says it has")
    parser.add_argument("--redis", default="", help="host:port of a Redis for what the head knows")
    chosen = parser.parse_args()
    if chosen.redis:
        os.environ["RAY_REDIS_ADDRESS"] = chosen.redis
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from ray.cluster_utils import Cluster

    options: dict[str, Any] = {"num_cpus": chosen.cpus, "object_store_memory": STORE_BYTES}
    front = options | {"num_cpus": 0, "include_dashboard": False}
    cluster: Any = Cluster(initialize_head=True, head_node_args=front)
    try:
        _tell(address=cluster.address, **_facts(cluster.head_node))
        for _ in range(chosen.nodes):
            _tell(**_facts(cluster.add_node(**options)))
        _tell(ready=True)
        for line in sys.stdin:
            if line.strip() == "add":
                _tell(**_facts(cluster.add_node(**options)))
            elif line.strip() == "behead":
                cluster.head_node.kill_gcs_server(check_alive=False)
                _tell()
            elif line.strip() == "head":
                cluster.head_node.start_gcs_server()
                _tell()
    finally:
        cluster.shutdown()
    return 0


def _facts(node: Any) -> dict[str, Any]:
    """Return the id of the process that starts a node's workers, and the node's id."""
    return {"raylet": int(node.all_processes["raylet"][0].process.pid), "node": str(node.node_id)}


def _tell(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    sys.exit(main())
