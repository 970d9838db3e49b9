"""The outcome of a command, and the bytes of its answer: sent, remembered, and sent again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from livesvm.service.store.base import Durability


@dataclass(frozen=True)
class Sizes:
    """What the newest update left: examples by side, and how well the optimality conditions hold."""

    n_examples: int = 0
    n_free: int = 0
    n_bound: int = 0
    max_violation: float = 0.0
    relative_gap: float | None = None  #: not known of an update that an older version of this service applied


@dataclass(frozen=True)
class Outcome:
    """What one command did: the sizes after it, the path's events, its seconds, and how many that stayed changed.

    ``more`` is what else is reported of it: warnings, what a change of parameters made of those, and a path given up.
    """

    sizes: Sizes
    events: int = 0
    seconds: float = 0.0
    changed: int = 0
    more: dict[str, Any] = field(default_factory=dict)

    def answer(self, version: int, durability: Durability, **reported: Any) -> bytes:
        """JSON of what the command made of the model, and of what else is ``reported``."""
        return to_json({"version": version, **reported, **vars(self.sizes), "durability": durability.value})
