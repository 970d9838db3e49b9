"""Replies of Redis, and what they mean to its store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from livesvm.service.store.base import Durability, Fenced, Head, Indexed, Lease, ModelGone, SnapshotInfo, StoreDamaged
from livesvm.service.store.chunks import Pointer
from livesvm.service.store.sealed import LONGEST
from livesvm.service.store.seals import open_summary


def checked(answer: list[Any], model: str) -> list[Any]:
    """Return what a script answered; raises ModelGone or Fenced."""
    if answer[0] == b"gone":
        raise ModelGone(f"model {model} is no longer stored")
    if answer[0] == b"fenced":
        raise Fenced(f"model {model} was taken over by another writer (lease {answer[1].decode()})")
    return answer


def head(model: str, lease: bytes, sequence: bytes) -> Head:
    """Return where a model stands, by its lease and its newest record."""
    epoch, _, writer = lease.decode().partition(":")
    return Head(Lease(model, int(epoch), writer), int(sequence))


def indexed(model: str, found: Sequence[bytes | None], gone: Collection[bytes]) -> Indexed:
    """Return what a model's sequence, described, summary and holder say."""
    sequence, described, value, holder = (part or b"" for part in found)
    number = int(described) if described.isdigit() and len(described) <= LONGEST else 0
    held_by = b"" if holder in gone else holder
    return Indexed(model, int(sequence), *open_summary(model, number, value), held_by.decode())


def snapshot(sequence: int, pointer: bytes) -> SnapshotInfo:
    """Return what a pointer says of its snapshot."""
    try:
        return Pointer.decode(pointer, sequence).info(sequence)
    except StoreDamaged:
        return SnapshotInfo(sequence, 0, 0.0, 0, is_damaged=True)


def level(settings: Mapping[str, str]) -> Durability:
    """Return what the server's own settings promise; the least where it does not say."""
    if settings.get("appendonly") != "yes" or settings.get("no-appendfsync-on-rewrite") != "no":
        return Durability.MEMORY
    levels = {"always": Durability.FSYNCED, "everysec": Durability.LOGGED}
    return levels.get(settings.get("appendfsync", ""), Durability.MEMORY)
