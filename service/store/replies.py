"""What answers of Redis mean to its store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from livesvm.service.store.base import Durability, Fenced, Head, Lease, ModelGone, SnapshotInfo, StoreDamaged
from livesvm.service.store.chunks import Pointer


def checked(answer: list[Any], model: str) -> list[Any]:
    """What a script answered; raises ModelGone or Fenced."""
    if answer[0] == b"gone":
        raise ModelGone(f"model {model} is no longer stored")
    if answer[0] == b"fenced":
        raise Fenced(f"model {model} was taken over by another writer (lease {answer[1].decode()})")
    return answer


def head(model: str, lease: bytes, sequence: bytes) -> Head:
    """Where a model stands, by its lease and its newest record."""
    epoch, _, writer = lease.decode().partition(":")
    return Head(Lease(model, int(epoch), writer), int(sequence))


def snapshot(sequence: int, pointer: bytes) -> SnapshotInfo:
    """What a pointer says of its snapshot."""
    try:
        return Pointer.decode(pointer, sequence).info(sequence)
    except StoreDamaged:
        return SnapshotInfo(sequence, 0, 0.0, 0, is_damaged=True)


def level(settings: Mapping[str, str]) -> Durability:
    """What the server's own settings promise; the least where it does not say."""
    if settings.get("appendonly") != "yes" or settings.get("no-appendfsync-on-rewrite") != "no":
        return Durability.MEMORY
    levels = {"always": Durability.FSYNCED, "everysec": Durability.LOGGED}
    return levels.get(settings.get("appendfsync", ""), Durability.MEMORY)
