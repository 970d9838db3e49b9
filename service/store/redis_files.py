"""Rewrite the append-only file of a Redis server, so that it no longer holds removed data."""

from __future__ import annotations

import time
from typing import Any

import redis

REWRITE_SECONDS = 30.0
"""How long a rewriting is waited for; a longer one goes on by itself."""
_LOOK_SECONDS = 0.05

ELSEWHERE = {
    "snapshot file": "holds what it held until the server writes the next one",
    "replicas": "follow, and their files after them, which were not looked at",
}
"""Places that this client cannot write, each with what happens to removed data there."""


def rewrite_log(client: Any) -> str:
    """Make the server rewrite its append-only file from its memory; return the outcome as text."""
    end = time.monotonic() + REWRITE_SECONDS
    try:
        if not _state(client)["aof_enabled"]:
            return "none"
        _wait(client, end)  # one that is under way may have begun before
        try:
            client.bgrewriteaof()
        except redis.exceptions.NoPermissionError:
            raise
        except redis.ResponseError:
            pass  # another client has asked just now
        _wait(client, end)
        is_good = _state(client).get("aof_last_bgrewrite_status", "ok") == "ok"
    except redis.exceptions.NoPermissionError as error:
        refused = "BGREWRITEAOF" if "bgrewriteaof" in str(error).lower() else "INFO"
        return f"not known to be written again: Redis refuses {refused} to this user, allow it +{refused.lower()}"
    if time.monotonic() >= end:
        return "being written anew"
    return "written anew" if is_good else "not written: Redis failed to, as its log says; ask it for BGREWRITEAOF"


def _wait(client: Any, end: float) -> None:
    while time.monotonic() < end:
        state = _state(client)
        if not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"]):
            return
        time.sleep(_LOOK_SECONDS)


def _state(client: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.info("persistence")
    return found
