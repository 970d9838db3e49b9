"""The answer to an update, as the bytes that are sent, remembered and sent again."""

from __future__ import annotations

from pydantic_core import to_json

from livesvm.service.models.commands import Command
from livesvm.service.models.state import Outcome
from livesvm.service.store.base import Durability


def update_answer(version: int, command: Command, outcome: Outcome, durability: Durability) -> bytes:
    """JSON of :class:`livesvm.service.api.answers.UpdateAnswer`."""
    sizes = outcome.sizes
    return to_json(
        {
            "version": version,
            "added": command.added,
            "removed": command.remove,
            "changed": outcome.changed,
            "events": outcome.events,
            "n_examples": sizes.n_examples,
            "n_free": sizes.n_free,
            "n_bound": sizes.n_bound,
            "seconds": outcome.seconds,
            "max_violation": sizes.max_violation,
            "relative_gap": sizes.relative_gap,
            "durability": durability.value,
        }
    )


def restore_answer(version: int, restored: int, outcome: Outcome, durability: Durability) -> bytes:
    """JSON of :class:`livesvm.service.api.answers.RestoreAnswer`."""
    sizes = outcome.sizes
    return to_json(
        {
            "version": version,
            "restored": restored,
            "n_examples": sizes.n_examples,
            "n_free": sizes.n_free,
            "n_bound": sizes.n_bound,
            "max_violation": sizes.max_violation,
            "relative_gap": sizes.relative_gap,
            "durability": durability.value,
        }
    )
