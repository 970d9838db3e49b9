"""Schemas of answers to questions about a model: the effect of a change, the causes of decisions, and drift."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from livesvm.service.api.answers.certificates import Certificate
from livesvm.service.api.answers.learn import AnswerKeys
from livesvm.service.api.answers.models import DriftAlarm, Warned, Watched

LARGEST_MOVE = "Largest difference of a decision; null if there is none, or if the classes would change."
N_CHANGED = "How many get another label; null for regression."


class Decided(BaseModel):
    """The decision values and predictions that one version of a model computes for rows."""

    decision: list[float] | list[list[float]]
    prediction: list[float | str]
    classes: list[int | str] | None = None


class RowsThen(BaseModel):
    """Predictions for rows before and after the change; `after` is null if the changed model could not predict."""

    before: Decided
    after: Decided | None
    n_changed: int | None = Field(description=N_CHANGED)
    largest_move: float | None = Field(description=LARGEST_MOVE)


class WindowThen(BaseModel):
    """How much the change would alter the model's decisions for the examples that stay in the window."""

    n_stay: int
    n_changed: int | None = Field(description=N_CHANGED)
    largest_move: float | None = Field(description=LARGEST_MOVE)


class WhatIfAnswer(BaseModel):
    """What a model would be like after a change that is only tried on a copy."""

    version: int = Field(description="The version that the change would be made to.")
    target_scale: str | None = Field(default=None, description="Of decisions and losses; null: that of y.")
    added: AnswerKeys
    removed: AnswerKeys = Field(description="Also those that would leave to make space.")
    ignored: AnswerKeys | None = Field(
        default=None, description="Keys of rows that were left out, as they were known; absent if there are none."
    )
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


class Because(BaseModel):
    """An example of the window, and a row's decision value if the model were trained without this example."""

    key: int | str
    target: int | float | str | None
    influence: float = Field(description="The decision less the decision without the example.")
    without: float


class Explained(BaseModel):
    """The prediction for a row, and the examples that influence its decision value the most."""

    prediction: int | float | str
    against: int | str | None = Field(
        description="Of several classes: the closest other one. Decisions are between these two."
    )
    decision: float
    because: list[Because]


class Worth(BaseModel):
    """How much the mean loss of the rows would grow if the model were trained without an example."""

    key: int | str
    target: int | float | str | None
    value: float = Field(description="The loss without the example, less the loss; below 0 the example does harm.")


class ExplainAnswer(BaseModel):
    """The window's examples that matter most for the rows, found by training the model without each example."""

    version: int
    target_scale: str | None = Field(default=None, description="Of decisions and losses; null: that of y.")
    n_examples: int = Field(description="Examples that the model depends on; no other one changes any decision.")
    events: int
    seconds: float
    rows: list[Explained] | None = Field(description="Null where targets were sent.")
    values: list[Worth] | None = Field(description="Harmful ones first; null where no targets were sent.")
    loss: float | None = Field(
        description="Mean loss of the rows: hinge loss for classes (for several, over the pairs of a row's class); for "
        "regression, the mean absolute error or mean pinball loss."
    )


class ClassError(BaseModel):
    """The mean error of the model on the examples of one class."""

    label: int | str
    n: int | None = Field(default=None, description="Examples, of errors before learning.")
    error: float


class BeforeLearning(Watched):
    """The model's errors on the newest examples before it learnt these, and the drift test on these errors."""

    n: int = Field(description="Newest examples that the errors are computed from.")
    rolling: list[float] = Field(description="Errors of consecutive parts, oldest first.")
    classes: list[ClassError] | None


class Remedy(BaseModel):
    """A possible change of a model, the changed model's error on the newest examples, and the update to make it."""

    kind: Literal["window", "C"]
    value: float = Field(description="Examples that stay, or C.")
    error: float = Field(description="Mean error of the newest examples by that model without them.")
    better: float = Field(description="The error of the present model less that.")
    spread: float = Field(description="Standard error of `better`.")
    update: dict[str, Any] = Field(
        description="Body of `POST /models/{id}/update`, or `/feeds/{id}/update`, that makes it."
    )


class StepAlarm(BaseModel):
    """A change of the data that a drift test has found in the window of one forecast step."""

    began: str | float = Field(description="Time of the reading at which it most likely began.")
    n_since: int = Field(description="Examples since then.")
    at: str | float = Field(description="Time of the reading that gave the alarm.")
    classes: list[float] = Field(description="For directions, those (-1 or 1) with a test that found it.")
    log10_evidence: float = Field(description="Decimal logarithm of the capital of the test, which starts at 1.")


class StepBeforeLearning(BaseModel):
    """Errors of a step's model on readings before it learnt these, and a drift test on errors of served forecasts."""

    false_alarms: float = Field(description="Largest probability of a false alarm of this step, in 1,000 errors.")
    n_scored: int = Field(description="Errors that the test has taken so far; for step h, each h-th.")
    error: float | None
    evidence: float = Field(description="At 1 there is an alarm.")
    n: int = Field(description="Newest readings that the errors are on.")
    rolling: list[float] = Field(description="Errors of consecutive parts, oldest first.")


class WindowDrift(BaseModel):
    """The changes of the data in one window, found by exact leave-one-out decisions, and possible remedies."""

    n_examples: int
    rolling: list[float] = Field(description="Errors of consecutive parts of the window, oldest first.")
    evidence: float = Field(description="Of the window's test; at 1 there is an alarm.")
    newest: int = Field(description="Newest examples that remedies are judged by.")
    present: float = Field(description="Leave-one-out error of these by the present model.")
    remedies: list[Remedy] = Field(description="All that were tried.")
    remedy: Remedy | None = Field(description="The best of those that are better by two standard errors.")
    seconds: float


class StepDrift(WindowDrift):
    """The changes of the data in the window of one forecast step; errors are in units of the target."""

    step: int
    error: float = Field(description="Leave-one-out: mean absolute error, or share of wrong directions.")
    classes: list[ClassError] | None = Field(description="The same by direction, -1 or 1; null of values.")
    alarm: StepAlarm | None = Field(description="The newest change in the window.")
    before_learning: StepBeforeLearning


class FeedDriftAnswer(BaseModel):
    """The changes of the data in the windows of all of a feed's steps, and possible remedies."""

    version: int
    false_alarms: float = Field(description="Largest probability of an alarm of any step where nothing has changed.")
    steps: list[StepDrift]
    update: dict[str, Any] | None = Field(description="Update with the remedies of all steps; null if there is none.")
    seconds: float


class DriftAnswer(WindowDrift):
    """The changes of the data in a model's window, found by exact leave-one-out decisions, and possible remedies."""

    version: int
    target_scale: str | None = Field(default=None, description="Of decisions and losses; null: that of y.")
    error: float = Field(description="Leave-one-out: share of wrong labels, or mean absolute error or pinball loss.")
    classes: list[ClassError] | None = Field(description="The same by class; null of regression.")
    false_alarms: float = Field(description="Largest probability of an alarm where nothing has changed.")
    alarm: DriftAlarm | None = Field(description="The newest change in the window.")
    before_learning: BeforeLearning | None = Field(description="Null of a model without `drift_alarms`.")
