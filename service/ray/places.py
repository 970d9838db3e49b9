"""Placement: the actor of a model or feed, and the resources of a node that actors and workers take."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from livesvm.service.history.names import is_feed
from livesvm.service.resources.memory import MEGABYTE

ACTOR_CORES = 0.001
"""Cores that an actor requests, so that Ray starts no actor on nodes without cores, which are for front ends."""
WORKER_CORES = 0.97
"""Cores that a job's worker requests; this leaves cores for actors on a node with a worker on each core."""
PROCESS_BYTES = 300 * MEGABYTE
"""Memory of an actor or worker besides models or rows: the interpreter, libraries, compiled code."""


@dataclass(frozen=True)
class Place:
    """An actor where models and feeds live.

    Parameters
    ----------
    name : name of the actor, the same after each restart
    model : stored name of the only replica that lives there; None if several may live there
    """

    name: str
    model: str | None = None

    @property
    def holder(self) -> str:
        """Name of the actor in the store, the same for all of its incarnations."""
        return f"ray-{self.name}"


def place_of(model: str, actors: int) -> Place:
    """Return the place of a replica; ``actors`` is the number of actors, or 0 if each replica has its own."""
    if not actors:
        return Place(model if is_feed(model) else f"model-{model}", model)
    return Place(f"models-{crc32(model.encode()) % actors}-of-{actors}")
