"""What a model would be after a change that is not made."""

from __future__ import annotations

from pydantic import BaseModel, Field

from livesvm.service.api.answers.certificates import Certificate
from livesvm.service.api.answers.learn import AnswerKeys
from livesvm.service.api.answers.models import Warned

LARGEST_MOVE = "Largest difference of a decision; null where there is none, or the classes would be others."
N_CHANGED = "How many get another label; null of regression."


class Decided(BaseModel):
    """Rows as one version decides them."""

    decision: list[float] | list[list[float]]
    prediction: list[float | str]
    classes: list[int | str] | None = None


class RowsThen(BaseModel):
    """Rows before and after the change; `after` is null where the model could not predict any more."""

    before: Decided
    after: Decided | None
    n_changed: int | None = Field(description=N_CHANGED)
    largest_move: float | None = Field(description=LARGEST_MOVE)


class WindowThen(BaseModel):
    """The examples that would stay, as the model before and after decides them."""

    n_stay: int
    n_changed: int | None = Field(description=N_CHANGED)
    largest_move: float | None = Field(description=LARGEST_MOVE)


class WhatIfAnswer(BaseModel):
    """What the model would be after a change that is not made."""

    version: int = Field(description="The version that the change would be made to.")
    added: AnswerKeys
    removed: AnswerKeys = Field(description="Also those that would leave to make room.")
    changed: int
    events: int
    seconds: float = Field(description="Time the path took.")
    warnings: list[Warned] | None = None
    n_examples: int
    n_free: int
    n_bound: int
    max_violation: float
    relative_gap: float | None
    can_predict: bool
    certificate: Certificate | None = Field(description="Recomputed from the window as it would be.")
    window: WindowThen | None = Field(description="Null where the model could not predict any more.")
    rows: RowsThen | None = Field(description="Null where no rows were sent.")
