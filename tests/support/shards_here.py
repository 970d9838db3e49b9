"""Shards of a training set in the process that searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from livesvm.solvers.frank_wolfe.shard import Shard

T = TypeVar("T")


class Here:
    """Shards in this process."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = list(shards)

    def prepare(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """Return what each of ``works`` returns of its own shard; none is ever lost."""
        return self.each(works)

    def everywhere(self, work: Callable[[Shard], T]) -> list[T]:
        """Return what ``work`` returns of each shard, one after the other."""
        return [work(shard) for shard in self.shards]

    def each(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """Return what each of ``works`` returns of its own shard."""
        return [work(shard) for work, shard in zip(works, self.shards, strict=True)]
