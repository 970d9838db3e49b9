"""Placement: which actor a model or a feed lives in, and what that takes of a node."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from livesvm.service.history.names import is_feed
from livesvm.service.resources.memory import MEGABYTE

ACTOR_CORES = 0.001
"""What an actor asks for, so that it is started only where there are cores: not where front ends alone are."""
WORKER_CORES = 0.97
"""What a job's worker asks for: a node with as many as it has cores still takes actors that are started again."""
PROCESS_BYTES = 300 * MEGABYTE
"""What either takes besides models or rows: the interpreter, libraries, compiled code."""


@dataclass(frozen=True)
class Place:
    """An actor where models and feeds live.

    Parameters
    ----------
    name : by which it is found, and which it keeps when it is started again
    model : what one is stored under that lives there alone, if there is such a one
    """

    name: str
    model: str | None = None

    @property
    def holder(self) -> str:
        """What the store knows the actor as, whatever incarnation of it."""
        return f"ray-{self.name}"


def place_of(model: str, actors: int) -> Place:
    """Return where a model lives; ``actors`` is how many there are, 0 for one a model."""
    if not actors:
        return Place(model if is_feed(model) else f"model-{model}", model)
    return Place(f"models-{crc32(model.encode()) % actors}-of-{actors}")
