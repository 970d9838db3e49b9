"""The service's own tests where models live elsewhere.

With ``LIVESVM_TEST_RAY=2`` in the environment every service that they start is a front end of one Ray cluster, whose
models share 2 actors (0: one for each model); they are kept in one Redis.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from tests.contract.redis_server import RedisServer
from tests.support.ray_cluster import RayCluster

ACTORS = os.environ.pop("LIVESVM_TEST_RAY", None)
"""How many actors, if over Ray: taken out of the environment, where services look for their settings."""


def settings_for(data_dir: Path) -> dict[str, Any]:
    """Return what makes a service a front end; what has the same data directory has the same models."""
    if ACTORS is None:
        return {}
    address, url = _deployment()
    prefix = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:12]
    return {
        "ray": address,
        "redis_url": url,
        "redis_prefix": prefix,
        "ray_actors": int(ACTORS),
        "ray_actor_mb": 256,
        "ray_seconds": 28,
    }


@cache
def _deployment() -> tuple[str, str]:
    stack = ExitStack()
    directory = Path(tempfile.mkdtemp(prefix="livesvm-ray-"))
    stack.callback(shutil.rmtree, directory, ignore_errors=True)
    server = stack.enter_context(RedisServer(directory))
    cluster = stack.enter_context(RayCluster(2))
    atexit.register(stack.close)
    return cluster.address, server.url
