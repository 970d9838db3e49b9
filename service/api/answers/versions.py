"""Versions that can be restored."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field


class SnapshotDescription(BaseModel):
    """A kept snapshot."""

    version: int
    saved_at: datetime
    bytes: int


class Versions(BaseModel):
    """The versions that can be restored: every one from the oldest to the current."""

    current: int = Field(description="The newest that is known; `stale` if this service serves an older one.")
    oldest: int
    stale: bool = Field(description="True when updates are refused now, so that newer versions may be unknown.")
    erased_at: datetime | None = Field(
        default=None, description="When an erasure last removed all versions before its own; null if none did."
    )
    snapshots: list[SnapshotDescription] = Field(description="Newest first; a version near one is quick to restore.")


class RestoreAnswer(BaseModel):
    """The new version, with the content of the restored one."""

    version: int
    restored: int
    n_examples: int
    n_free: int
    n_bound: int
    max_violation: float
    relative_gap: float | None
    durability: Literal["fsynced", "logged", "memory"]
