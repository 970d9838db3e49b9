"""The demonstration over a Ray cluster of three nodes on this machine, with a Redis of its own.

python -m tests.demo_on_ray [--nodes 3] [what python -m livesvm.service.demo takes]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from livesvm.service.demo.main import main as demonstrate
from tests.contract.redis_server import RedisServer
from tests.support.ray_cluster import RayCluster


def main() -> int:
    """Start the cluster, run the demonstration, and stop both; the demonstration's status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=3)
    chosen, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as directory, RedisServer(Path(directory)) as redis:
        print(f"starting a Ray cluster with {chosen.nodes} nodes for models", flush=True)
        with RayCluster(chosen.nodes) as cluster:
            status = demonstrate(["--ray", cluster.address, "--redis-url", redis.url, *rest])
            print(f"\nactors of models on this cluster: {len(cluster.actors())}")
    return status


if __name__ == "__main__":
    sys.exit(main())
