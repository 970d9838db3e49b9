"""Files of a Redis server, and their rewriting without what was removed."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import redis

REWRITE_SECONDS = 30.0
"""For which a rewriting is waited for; it goes on by itself."""
_LOOK_SECONDS = 0.05

ELSEWHERE = {
    "snapshot file": "holds what it held until the server writes the next one",
    "replicas": "follow, and their files after them, which were not looked at",
}
"""What is not in this client's hands."""


def rewrite_log(client: Any) -> str:
    """Have the server write its append-only file again, from what is in memory; what came of it."""
    end = time.monotonic() + REWRITE_SECONDS
    try:
        if not _state(client, "aof_enabled"):
            return "none"
        _wait(client, end)  # one that is under way may have begun before
        with suppress(redis.ResponseError):  # another client has asked just now
            client.bgrewriteaof()
        _wait(client, end)
    except redis.ResponseError:
        return "not rewritten: this user may not ask for it (BGREWRITEAOF, INFO)"
    return "written anew" if time.monotonic() < end else "being written anew"


def _wait(client: Any, end: float) -> None:
    while time.monotonic() < end:
        if not (_state(client, "aof_rewrite_in_progress") or _state(client, "aof_rewrite_scheduled")):
            return
        time.sleep(_LOOK_SECONDS)


def _state(client: Any, name: str) -> int:
    return int(client.info("persistence").get(name, 0))
