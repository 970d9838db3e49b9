"""Schemas of answers that describe models and their newest updates."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from livesvm.service.models.types import ServingState
from livesvm.solvers.tables.cells import Kind
from livesvm.solvers.tables.columns import Encoding


class Warned(BaseModel):
    """A reason why a model may be useless, and advice how to improve the model."""

    name: Literal[
        "kernel_is_constant",
        "kernel_is_identity",
        "one_feature_decides",
        "gap_is_large",
        "most_are_free",
        "nothing_is_flagged",
        "everything_is_flagged",
        "waits",
        "untrained",
    ]
    message: str


class RobustLosses(BaseModel):
    """A robust model's losses: beyond the cutoff `s`, their slope is reduced to `theta` times the usual slope."""

    theta: float
    s: float
    n_outliers: int


class Recovery(BaseModel):
    """How the service restored the model from the store when the service last started."""

    snapshot_version: int = Field(description="Of the snapshot used; 0: there was none, only the log.")
    replayed: int = Field(description="Commands of the log that were applied again.")
    damaged_snapshots: int = Field(description="Snapshots that were damaged and passed over.")
    set_aside: int = Field(description="Updates that were never answered and took too long again.")


class ClassCount(BaseModel):
    """A class, and the number of its examples in the window."""

    label: int | str
    n_examples: int


class EstimatedPrior(BaseModel):
    """A class prior, estimated by best bin estimation [Garg et al. 2021], with an interval and a bound."""

    prior: float
    low: float = Field(description="Of the interval that holds 90 of 100 estimates when both samples are drawn again.")
    high: float
    bound: float = Field(description="The true one is below with probability 0.9, whatever the distributions.")
    threshold: float = Field(description="Share of held-out positives above the threshold that was chosen.")


class DriftAlarm(BaseModel):
    """A change of the data that a statistical test for drift has found."""

    began: float = Field(description="Unix time of the example at which it most likely began.")
    n_since: int = Field(description="Examples since then.")
    at: float = Field(description="Unix time of the example that gave the alarm.")
    classes: list[int | str] = Field(
        description="Classes in which a test found it; none if only the test of all classes together did."
    )
    log10_evidence: float = Field(description="Decimal logarithm of the capital of the test, which starts at 1.")
    version: int | None = Field(default=None, description="Version that gave the alarm, if errors before learning did.")


class Watched(BaseModel):
    """The model's errors on the newest examples before it learnt these, and the drift test on these errors."""

    false_alarms: float = Field(description="Largest probability of a false alarm in 5,000 examples.")
    n_scored: int = Field(description="Examples so far.")
    alarms: int = Field(description="So far.")
    error: float | None = Field(description="Mean over the newest 1,000.")
    evidence: float = Field(description="At 1 there is an alarm.")
    alarm: DriftAlarm | None = Field(description="Stands until the window holds nothing from before it.")


class Chosen(BaseModel):
    """The parameters that a model has chosen for itself from the examples in its window."""

    version: int = Field(description="That holds the choice.")
    at: datetime
    reason: Literal["first", "drift", "doubled", "full", "renewed", "asked", "erased"] = Field(
        description="`first`: 40 examples were there. `doubled`: the window held twice as many as at the choice "
        "before. `full`: as many as it may. `renewed`: as many had come since as it held. `drift`: after an alarm. "
        "`asked`: by a job. `erased`: without examples that were erased."
    )
    parameters: dict[str, float | str | None] = Field(
        description="C, gamma, epsilon, target_scale, components (null: the whole kernel); `pu`: lam. `columns` have "
        "their own place."
    )
    changes: bool = Field(description="False where nothing was clearly better than what the model had.")
    n_examples: int
    loss: float | None = Field(
        description="Of held-out examples: `svc` log loss and twice the share of wrong labels, `svr` the error, `pu` "
        "the estimated risk."
    )
    present: float | None = Field(description="The same with the parameters that the model had before.")
    defaults: float | None = Field(description="The same with the defaults of a model that does not tune itself.")
    seconds: float = Field(description="Processor time of the choice.")


class TuningShown(BaseModel):
    """The last choice of parameters by a model that tunes itself, and the number of examples since then."""

    chosen: Chosen | None = Field(description="The last choice; null before the first, at 40 examples.")
    n_since: int = Field(description="Examples that have come since.")


class ModelColumn(BaseModel):
    """A column of the tables that a model learns from."""

    name: str
    kind: Kind
    encoding: Encoding = Field(description="What is done with it; `ignored`: nothing can be learnt from it.")
    relevance: float = Field(description="Multiplies squared distances along it.")


class RecordScore(BaseModel):
    """The mean loss of the model's predictions for examples that it had not learnt yet."""

    n: float = Field(description="Examples; of the newer ones the sum of their weights.")
    error: float | None = Field(description="As `loss` says; null without examples.")
    naive_error: float | None = Field(description="That of the majority, median or quantile of the window.")


class Confused(BaseModel):
    """How often the model predicted the label `predicted` for examples with the label `label`."""

    label: str | int | float
    predicted: str | int | float
    n: int
    lately: float = Field(description="Of the newer examples, the sum of their weights.")


class KeptRecord(RecordScore):
    """How well a model predicted its examples before it learnt them."""

    loss: Literal["share of wrong labels", "mean absolute error", "mean pinball loss"]
    lately: RecordScore = Field(description="Of the newer examples: each counts 1/200 less than the next one.")
    confusion: list[Confused] | None = Field(description="By label and predicted label; null: it predicts numbers.")
    history: list[RecordScore] = Field(description="Consecutive parts, oldest first, all as long but the newest.")


class ModelDescription(BaseModel):
    """The present state of a model."""

    id: str
    state: ServingState = Field(
        description="Served; not restorable; held by another service; read-only as another service took it over; "
        "read-only as the store lost updates that it had acknowledged."
    )
    awake: bool = Field(
        default=True,
        description="Whether its state is in memory; one at rest is brought back by the call that needs it.",
    )
    task: str
    kernel: dict[str, Any]
    C: float | None = Field(description="The current one; an update can change it.")
    loss: str | None
    epsilon: float | None
    quantile: float | None
    target_scale: Literal["none", "log", "log1p"] | None = Field(
        default=None, description="`svr`: the scale on which targets are learnt; predictions are in units of y."
    )
    nu: float | None
    prior: float | Literal["estimate"] | None = Field(description="The one that counts; `estimate`: not yet known.")
    prior_estimate: EstimatedPrior | None = Field(default=None, description="Where it comes from; null: it was given.")
    lam: float | Literal["auto"] | None = Field(description="The current one: 1 / (2 C); `auto`: not yet chosen.")
    robust: RobustLosses | None = Field(
        default=None, description="Of a model that a job has made robust; an update with `robust: null` ends that."
    )
    fit_intercept: bool
    gamma: float | None = Field(default=None, description="Of the kernel, as a number, once that is known.")
    scale: Literal["none", "standard", "minmax", "robust"] = Field(
        default="none", description="How features are scaled first."
    )
    components: int | None = Field(
        default=None, description="The rank of its kernel, given or chosen; null: it is the whole kernel."
    )
    columns: list[ModelColumn] | Literal["auto"] | None = Field(
        default=None, description="Of a table, once they are known; null: examples are numbers, `X`."
    )
    class_weight: str | dict[str, float] | None = None
    probability: bool | Literal["platt", "isotonic"] = Field(default=False, description="Whether it has probabilities.")
    decision_function_shape: Literal["ovr", "ovo"] | None = Field(
        default=None, description="Of decisions of more than two classes: one for each, or one for each pair."
    )
    drift: Watched | None = Field(default=None, description="Of a model with `drift_alarms`.")
    record: KeptRecord | None = Field(
        default=None, description="Since the first examples, or since the last erasure; null: it keeps none."
    )
    tuning: TuningShown | None = Field(default=None, description="Of a model that tunes itself (C or lam `auto`).")
    labels: list[str] | list[int] | None = Field(default=None, description="The only ones there may be; null: any.")
    classes: list[ClassCount] | None = Field(default=None, description="In the order of decisions; null: has none.")
    window: dict[str, Any]
    version: int
    n_examples: int
    n_features: int | None
    n_free: int
    n_bound: int
    n_support: int
    max_violation: float
    relative_gap: float | None = Field(description="As the newest update left it; `l2svc`: the last training.")
    durability: Literal["fsynced", "logged", "memory"] | None
    queue_depth: int
    updated_at: datetime | None
    recovery: Recovery | None = None
    error: str | None = None
    warnings: list[Warned] = Field(default_factory=list, description="As of the last check for them.")


class ModelList(BaseModel):
    """Models, by id."""

    models: list[ModelDescription]
    next: str | None = Field(default=None, description="Id after which there are more: `after` of the next call.")


class RecentUpdate(BaseModel):
    """The numbers that describe the effect of one update; numbers that do not apply to the update are absent."""

    version: int
    at: datetime
    seconds: float = Field(description="Time the path took.")
    n_examples: int
    n_free: int
    n_bound: int
    relative_gap: float | None = None
    action: str
    added: int | None = None
    removed: int | None = None
    changed: int | None = None
    events: int | None = Field(default=None, description="Events on the solution path.")
    C: float | None = Field(default=None, description="The new one, where the update moved it.")
    restored: int | None = Field(default=None, description="The version that it went back to.")


class RecentUpdates(BaseModel):
    """The newest updates of a model since the service restored it, newest first."""

    updates: list[RecentUpdate]
