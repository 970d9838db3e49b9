"""Placement: which actor a model or a feed lives in, and what that takes of a node."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from livesvm.service.history.names import is_feed

ACTOR_CORES = 0.001
"""What an actor asks for, so that it is started only where there are cores: not where front ends alone are."""
WORKER_CORES = 0.97
"""What a job's worker asks for: a node with as many as it has cores still takes actors that are started again."""


@dataclass(frozen=True)
class Place:
    """An actor by its name; ``model`` is all that lives there, else those whose turn among ``of`` it is do."""

    name: str
    model: str | None = None
    number: int = 0
    of: int = 0

    def holds(self, model: str) -> bool:
        """Return whether a model lives here."""
        return model == self.model if self.model is not None else _number(model, self.of) == self.number


def place_of(model: str, actors: int) -> Place:
    """Return where a model lives; ``actors`` is how many there are, 0 for one a model."""
    if not actors:
        return Place(model if is_feed(model) else f"model-{model}", model)
    number = _number(model, actors)
    return Place(f"models-{number}-of-{actors}", None, number, actors)


def _number(model: str, actors: int) -> int:
    return crc32(model.encode()) % actors
