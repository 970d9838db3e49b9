"""What a model would be after a change that is not made, why it decides as it does, and whether it drifts."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from livesvm.service.api.answers.certificates import Certificate
from livesvm.service.api.answers.learn import AnswerKeys
from livesvm.service.api.answers.models import DriftAlarm, Warned, Watched

LARGEST_MOVE = "Largest difference of a decision; null if there is none, or if the classes would change."
N_CHANGED = "How many get another label; null for regression."


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
    """How the model before and after the change decides the examples that would stay."""

    n_stay: int
    n_changed: int | None = Field(description=N_CHANGED)
    largest_move: float | None = Field(description=LARGEST_MOVE)


class WhatIfAnswer(BaseModel):
    """What the model would be after a change that is not made."""

    version: int = Field(description="The version that the change would be made to.")
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
    """An example of the window, and the decision without it."""

    key: int | str
    target: int | float | str | None
    influence: float = Field(description="The decision less the decision without the example.")
    without: float


class Explained(BaseModel):
    """A row, and the examples that move its decision the most."""

    prediction: int | float | str
    against: int | str | None = Field(
        description="Of several classes: the closest other one. Decisions are between these two."
    )
    decision: float
    because: list[Because]


class Worth(BaseModel):
    """The worth of an example for the loss of the rows."""

    key: int | str
    target: int | float | str | None
    value: float = Field(description="The loss without the example, less the loss; below 0 the example does harm.")


class ExplainAnswer(BaseModel):
    """The examples of the window that matter most for the rows, found by models that are trained without each."""

    version: int
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
    """The mean error of a class."""

    label: int | str
    n: int | None = Field(default=None, description="Examples, of errors before learning.")
    error: float


class BeforeLearning(Watched):
    """Errors of the newest examples before they were learnt, and the test on these errors."""

    n: int = Field(description="Newest examples that the errors are computed from.")
    rolling: list[float] = Field(description="Errors of consecutive parts, oldest first.")
    classes: list[ClassError] | None


class Remedy(BaseModel):
    """A possible change of a model, its error on the newest examples, and the update that makes it."""

    kind: Literal["window", "C"]
    value: float = Field(description="Examples that stay, or C.")
    error: float = Field(description="Mean error of the newest examples by that model without them.")
    better: float = Field(description="The error of the present model less that.")
    spread: float = Field(description="Standard error of `better`.")
    update: dict[str, Any] = Field(
        description="Body of `POST /models/{id}/update`, or `/feeds/{id}/update`, that makes it."
    )


class StepAlarm(BaseModel):
    """A change in the window of a step."""

    began: str | float = Field(description="Time of the reading at which it most likely began.")
    n_since: int = Field(description="Examples since then.")
    at: str | float = Field(description="Time of the reading that gave the alarm.")
    classes: list[float] = Field(description="For directions, those (-1 or 1) with a test that found it.")
    log10_evidence: float = Field(description="Decimal logarithm of the capital of the test, which starts at 1.")


class StepBeforeLearning(BaseModel):
    """Errors of a step's model on the newest readings before they were learnt, and the test on the forecasts served."""

    false_alarms: float = Field(description="Largest probability of a false alarm of this step, in 1,000 errors.")
    n_scored: int = Field(description="Errors that the test has taken so far; for step h, each h-th.")
    error: float | None
    evidence: float = Field(description="At 1 there is an alarm.")
    n: int = Field(description="Newest readings that the errors are on.")
    rolling: list[float] = Field(description="Errors of consecutive parts, oldest first.")


class WindowDrift(BaseModel):
    """Changes in one window, found by exact leave-one-out decisions, and possible remedies."""

    n_examples: int
    rolling: list[float] = Field(description="Errors of consecutive parts of the window, oldest first.")
    evidence: float = Field(description="Of the window's test; at 1 there is an alarm.")
    newest: int = Field(description="Newest examples that remedies are judged by.")
    present: float = Field(description="Leave-one-out error of these by the present model.")
    remedies: list[Remedy] = Field(description="All that were tried.")
    remedy: Remedy | None = Field(description="The best of those that are better by two standard errors.")
    seconds: float


class StepDrift(WindowDrift):
    """Changes in the window of one step; errors are in units of the target."""

    step: int
    error: float = Field(description="Leave-one-out: mean absolute error, or share of wrong directions.")
    classes: list[ClassError] | None = Field(description="The same by direction, -1 or 1; null of values.")
    alarm: StepAlarm | None = Field(description="The newest change in the window.")
    before_learning: StepBeforeLearning


class FeedDriftAnswer(BaseModel):
    """Changes in the windows of a feed's steps, and remedies."""

    version: int
    false_alarms: float = Field(description="Largest probability of an alarm of any step where nothing has changed.")
    steps: list[StepDrift]
    update: dict[str, Any] | None = Field(description="Update with the remedies of all steps; null if there is none.")
    seconds: float


class DriftAnswer(WindowDrift):
    """Changes in the window, found by exact leave-one-out decisions, and remedies."""

    version: int
    error: float = Field(description="Leave-one-out: share of wrong labels, or mean absolute error or pinball loss.")
    classes: list[ClassError] | None = Field(description="The same by class; null of regression.")
    false_alarms: float = Field(description="Largest probability of an alarm where nothing has changed.")
    alarm: DriftAlarm | None = Field(description="The newest change in the window.")
    before_learning: BeforeLearning | None = Field(description="Null of a model without `drift_alarms`.")
