"""Schemas of answers about the versions of a model that can be restored."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field


class SnapshotDescription(BaseModel):
    """A stored snapshot of a model."""

    version: int
    saved_at: datetime
    bytes: int


class Versions(BaseModel):
    """The versions of a model that can be restored: all from `oldest` to `current`."""

    current: int = Field(description="The newest that is known; `stale` if this service serves an older one.")
    oldest: int
    stale: bool = Field(description="True when updates are refused now, so that newer versions may be unknown.")
    erased_at: datetime | None = Field(
        default=None, description="When an erasure last removed all versions before its own; null if none did."
    )
    snapshots: list[SnapshotDescription] = Field(description="Newest first; a version near one is quick to restore.")


class RestoreAnswer(BaseModel):
    """The result of a restoration: the new version's number, and the number of the earlier version that it repeats."""

    version: int
    restored: int
    n_examples: int
    n_free: int
    n_bound: int
    max_violation: float
    relative_gap: float | None
    durability: Literal["fsynced", "logged", "memory"]
