"""Translate the replies of Redis into the results and errors of its store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from livesvm.service.store.base import Durability, Fenced, Head, Indexed, Lease, ModelGone, SnapshotInfo, StoreDamaged
from livesvm.service.store.chunks import Pointer
from livesvm.service.store.sealed import LONGEST
from livesvm.service.store.seals import open_summary

ADVICE = "as after an eviction; restore a backup of Redis"


def torn(model: str) -> str:
    """Return the error message for a model that Redis has lost keys of."""
    return f"Redis has lost keys of model {model}, {ADVICE}, write the model back, or delete it"


def checked(answer: list[Any], model: str) -> list[Any]:
    """Return the answer of a script; raises ModelGone, StoreDamaged or Fenced if it is a refusal."""
    if answer[0] == b"gone":
        raise ModelGone(f"model {model} is no longer stored")
    if answer[0] == b"unindexed":
        raise StoreDamaged(f"Redis has lost its index of models with model {model}, or its documents: {ADVICE}")
    if answer[0] == b"torn":
        raise StoreDamaged(torn(model))
    if answer[0] == b"fenced":
        raise Fenced(f"model {model} was taken over by another writer (lease {answer[1].decode()})")
    return answer


def head(model: str, lease: bytes, sequence: bytes) -> Head:
    """Return the head of a model from the bytes that Redis stores for its lease and for its newest record."""
    epoch, _, writer = lease.decode().partition(":")
    return Head(Lease(model, int(epoch), writer), int(sequence))


def indexed(model: str, found: Sequence[bytes | None], gone: Collection[bytes]) -> Indexed:
    """Return the index entry of a model from its fields sequence, described, summary and holder."""
    sequence, described, value, holder = (part or b"" for part in found)
    number = int(described) if described.isdigit() and len(described) <= LONGEST else 0
    held_by = b"" if holder in gone else holder
    return Indexed(model, int(sequence), *open_summary(model, number, value), held_by.decode())


def snapshot(sequence: int, pointer: bytes) -> SnapshotInfo:
    """Return the description of a snapshot from its pointer, marked as damaged if the pointer is."""
    try:
        return Pointer.decode(pointer, sequence).info(sequence)
    except StoreDamaged:
        return SnapshotInfo(sequence, 0, 0.0, 0, is_damaged=True)


WANTED = {
    "appendonly": ("yes",),
    "appendfsync": ("always", "everysec"),
    "no-appendfsync-on-rewrite": ("no",),
    "maxmemory-policy": ("noeviction",),
}
"""Settings of the server without which it may lose what it has acknowledged, and their values."""


def level(settings: Mapping[str, str]) -> Durability:
    """Return the durability that the server's settings promise; the least if the server does not show them."""
    if weakness_of(settings) is not None:
        return Durability.MEMORY
    return Durability.FSYNCED if settings["appendfsync"] == "always" else Durability.LOGGED


def weakness_of(settings: Mapping[str, str]) -> str | None:
    """Return a message about settings that may lose acknowledged records, or cannot be read; None if there are none."""
    if unread := [name for name in WANTED if name not in settings]:
        return f"Redis does not show {', '.join(unread)} to this user: allow it +config|get"
    wrong = [f"{name} {settings[name] or '(empty)'}" for name, values in WANTED.items() if settings[name] not in values]
    wanted = ", ".join(f"{name} {' or '.join(values)}" for name, values in WANTED.items())
    return f"Redis may lose what it acknowledges with {', '.join(wrong)}: set {wanted}" if wrong else None


def why(error: Exception) -> str:
    """Return a message that says what an error of Redis means, and what to do."""
    said = str(error) or type(error).__name__
    if said.startswith("OOM") or "used memory > 'maxmemory'" in said:
        return f"it is full: raise its maxmemory, or delete models ({said})"
    if "read only replica" in said:
        return f"it is a replica, which takes no writes: give the service the primary, or Sentinel ({said})"
    return said
