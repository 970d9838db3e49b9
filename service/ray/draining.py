"""The node that an actor is on: Ray may drain it, and then the actor leaves, to be started on another."""

from __future__ import annotations

import logging
import time
from typing import Any

import ray
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # its stub leaves it out

LOOK_SECONDS = 3.0
"""Between two looks whether it is drained."""
ASK_SECONDS = 2.0

log = logging.getLogger(__name__)


class Node:
    """Where this process is. Which nodes are drained Ray tells by no public call; so does Ray Serve ask."""

    def __init__(self) -> None:
        context = ray.get_runtime_context()
        self.id = str(context.get_node_id())
        self.host = str(ray.util.get_node_ip_address())
        self._cluster: Any = GcsClient(address=context.gcs_address)
        self._looked_at = time.monotonic()

    @property
    def label(self) -> str:
        """As metrics and the log have it."""
        return self.id[:12]

    def is_to_be_left(self) -> bool:
        """Return whether it is drained, and there is another one that is not; asks Ray now and then."""
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return False
        self._looked_at = time.monotonic()
        try:
            drained = set(self._cluster.get_draining_nodes(timeout=ASK_SECONDS))
        except Exception as error:
            log.warning("Ray does not say which nodes are drained: %s", error)
            return False
        return self.id in drained and any(_takes_actors(node) and node["NodeID"] not in drained for node in ray.nodes())


def _takes_actors(node: dict[str, Any]) -> bool:
    return bool(node["Alive"] and node["Resources"].get("CPU", 0.0) > 0.0)
