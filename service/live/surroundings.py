"""What the models and the feeds of one service share."""

from __future__ import annotations

from dataclasses import dataclass, field

from livesvm.service.history.journal import Source
from livesvm.service.resources.memory import Budget
from livesvm.service.resources.turns import Turns
from livesvm.service.settings import Settings


@dataclass(frozen=True)
class Surroundings:
    """Settings, the store and what watches it, turns among solves, memory; ``holder`` is this service's name."""

    settings: Settings
    source: Source
    turns: Turns
    budget: Budget = field(default_factory=Budget)
    holder: str = "livesvm"
