"""Answers, as OpenAPI describes them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, WithJsonSchema

from livesvm.service.models.fields import KEY_SCHEMA
from livesvm.service.models.types import ServingState

AnswerKeys = Annotated[list[int | str], WithJsonSchema({"type": "array", "items": KEY_SCHEMA})]


class Warned(BaseModel):
    """What makes a model useless, and what to do about it."""

    name: Literal["kernel_is_constant", "kernel_is_identity", "one_feature_decides"]
    message: str


class UpdateAnswer(BaseModel):
    """What an update did, and the version that holds it."""

    version: int
    added: AnswerKeys
    removed: AnswerKeys = Field(description="Also those that left to make room.")
    dropped: AnswerKeys | None = Field(
        default=None, description="Of examples that came late, and are too old for the window; absent where none are."
    )
    n_ahead: int | None = Field(
        default=None, description="Examples whose time has not come yet; absent where it has for all."
    )
    changed: int = Field(description="Examples that stayed and got another target, weight or C.")
    events: int = Field(description="Events on the solution path.")
    n_examples: int
    n_free: int = Field(description="Examples on the margin.")
    n_bound: int = Field(description="Examples at the bound.")
    seconds: float = Field(description="Time the path took.")
    max_violation: float = Field(description="Largest violation of the optimality conditions.")
    relative_gap: float | None = Field(description="Duality gap over the objective; no answer is better by more.")
    durability: Literal["fsynced", "logged", "memory"]
    gamma: float | None = Field(default=None, description="After a change of parameters: that of the kernel.")
    resolved: bool | None = Field(default=None, description="After one: whether the window was solved from nothing.")
    warnings: list[Warned] | None = Field(default=None, description="Absent where there are none.")


class PredictAnswer(BaseModel):
    """Decision values, predicted labels or values, and the version that answered.

    With other labels than -1 and 1 it names the `classes`: of two the decision is positive for the second; of more
    there is a value for each, or for each of the `pairs`, positive for the first of the two.
    """

    version: int
    decision: list[float] | list[list[float]]
    prediction: list[float | str]
    classes: list[int | str] | None = Field(default=None, description="In the order of decisions and probabilities.")
    pairs: list[list[int | str]] | None = None
    probability: list[list[float]] | None = Field(default=None, description="Of every class, where asked for.")
    stale: bool = Field(description="True when updates are refused now, so that newer data may be unknown.")


class RobustLosses(BaseModel):
    """Losses that grow by `theta` of their slope beyond a wall at `s`, and how many examples are there."""

    theta: float
    s: float
    n_outliers: int


class Robust(BaseModel):
    """Proof that a robust model is a local optimum: `violation` of the conditions, how close anybody is to a wall."""

    theta: float
    s: float
    n_outliers: int
    n_held: int
    violation: float
    wall_distance: float | None = None


class PairCertificate(BaseModel):
    """Proof of optimality of one pair of classes."""

    classes: list[int | str]
    relative_gap: float
    duality_gap: float
    max_violation: float
    n_examples: int


class Certificate(BaseModel):
    """Proof of optimality, recomputed from the window's data alone; of a robust model, given who its outliers are."""

    version: int
    relative_gap: float
    duality_gap: float
    max_violation: float
    primal: float
    dual: float
    n_examples: int
    robust: Robust | None = None
    pairs: list[PairCertificate] | None = Field(
        default=None, description="Of more than two classes; above are sums, and of gaps and violations the worst."
    )
    worst: list[int | str] | None = Field(default=None, description="The pair with the largest gap.")


class SparseExample(BaseModel):
    """Features of which only those are told that are not 0."""

    indices: list[int] = Field(description="From 0, ascending.")
    values: list[float]
    n_features: int


class Example(BaseModel):
    """One example of a window."""

    key: int | str
    x: list[float] | SparseExample = Field(description="Its features, as they came.")
    y: float | str = Field(description="Its target; 1 where the task has none.")
    weight: float
    time: datetime = Field(description="When it happened; when it arrived, if nothing was said of that.")
    side: Literal["free", "bound", "none"] = Field(description="On the margin, at the bound, without a coefficient.")
    coefficient: float | list[float] = Field(
        description="Signed; f(x) = sum of coefficient k(x_i, x), and an intercept. Of more than two classes one for "
        "each other class, of the pair with that."
    )
    outlier: bool = Field(description="Whether a robust model counts it as one.")


class ExamplePage(BaseModel):
    """Some of a window's examples, oldest first."""

    version: int = Field(description="Pages of one version are of one window.")
    n_examples: int = Field(description="In the whole window.")
    next: int | None = Field(description="The offset of the next page, if there is one.")
    examples: list[Example]


class ErasedKeys(BaseModel):
    """Which keys, to whoever knows them; of a feed the times of its readings."""

    count: int
    in_window: int = Field(description="How many examples of the window these were.")
    hash: str
    salt: str
    hashes: list[str]


class FeedProof(BaseModel):
    """Proof of optimality of all models of a feed: the worst of each."""

    version: int
    relative_gap: float
    max_violation: float
    n_examples: int


class Receipt(BaseModel):
    """What was erased, where, when and for whom; signed by the service's own key."""

    receipt: str
    model: str = Field(description="Its id, or that of the feed.")
    kind: Literal["model", "feed"]
    asked_at: datetime
    asked_by: str | None = Field(description="Label of the API key.")
    erased_at: datetime
    kept_until: datetime
    version_before: int
    version_after: int
    keys: ErasedKeys
    certificate: Certificate | FeedProof | None = Field(description="Of the optimum without them.")
    places: dict[str, str] = Field(description="What was searched and rewritten, and what was not.")
    public_key: str
    signature: str = Field(description="Ed25519, of the rest as JSON without spaces.")


class EraseAnswer(BaseModel):
    """The version that never knew them."""

    version: int
    removed: int
    receipt: Receipt


class ReceiptList(BaseModel):
    """Every receipt that is kept, oldest first."""

    receipts: list[Receipt]


class PublicKeys(BaseModel):
    """What receipts of this service are verified by."""

    public_key: str = Field(description="Ed25519, in hex; of receipts to come.")
    earlier: list[str] = Field(description="Of receipts of before, oldest first.")


class Verification(BaseModel):
    """Whether a receipt is as a service signed it."""

    verified: bool
    is_own: bool = Field(description="Whether the key that signed it is this service's, or was.")
    reason: str | None = Field(description="What is wrong with it.")
    receipt: dict[str, Any] | None = Field(description="What it says, once that is known to be what was signed.")


class Checkpoint(BaseModel):
    """The version that is now in a snapshot."""

    version: int
    seconds: float


class Writeback(BaseModel):
    """The version that the store has again."""

    version: int
    written: bool = Field(description="False when the store had lost nothing, and nothing was done.")
    seconds: float


class SnapshotDescription(BaseModel):
    """A kept snapshot."""

    version: int
    saved_at: datetime
    bytes: int


class Versions(BaseModel):
    """The versions that can be had: every one from the oldest to the current."""

    current: int
    oldest: int
    snapshots: list[SnapshotDescription] = Field(description="Newest first; a version near one is quick to restore.")


class RestoreAnswer(BaseModel):
    """The new version, which holds what the restored one held."""

    version: int
    restored: int
    n_examples: int
    n_free: int
    n_bound: int
    max_violation: float
    relative_gap: float | None
    durability: Literal["fsynced", "logged", "memory"]


class Recovery(BaseModel):
    """How the model came back at the last start."""

    snapshot_version: int = Field(description="0: none was there, the log held everything.")
    replayed: int = Field(description="Commands of the log that were applied again.")
    damaged_snapshots: int = Field(description="Snapshots that were damaged and passed over.")
    set_aside: int = Field(description="Updates that nobody was told of and that took too long again.")


class ClassCount(BaseModel):
    """A class, and its examples in the window."""

    label: int | str
    n_examples: int


class EstimatedPrior(BaseModel):
    """A class prior that was estimated, by best bin estimation [Garg et al. 2021], and how far it may be off."""

    prior: float
    low: float = Field(description="Of the interval that holds 90 of 100 estimates when both samples are drawn again.")
    high: float
    bound: float = Field(description="The true one is below with probability 0.9, whatever the distributions.")
    threshold: float = Field(description="Share of held-out positives above the threshold that was chosen.")


class ModelDescription(BaseModel):
    """A model as it is now."""

    id: str
    state: ServingState = Field(
        description="Served; not restorable; held by another service; read-only as another service took it over; "
        "read-only as the store lost updates that it had acknowledged."
    )
    task: str
    kernel: dict[str, Any]
    C: float | None = Field(description="The current one; an update can change it.")
    loss: str | None
    epsilon: float | None
    quantile: float | None
    nu: float | None
    prior: float | Literal["estimate"] | None = Field(description="The one that counts; `estimate`: not yet known.")
    prior_estimate: EstimatedPrior | None = Field(default=None, description="Where it comes from; null: it was given.")
    lam: float | None = Field(description="The current one: 1 / (2 C).")
    robust: RobustLosses | None = Field(
        default=None, description="Of a model that a job has made robust; an update with `robust: null` ends that."
    )
    fit_intercept: bool
    gamma: float | None = Field(default=None, description="Of the kernel, as a number, once that is known.")
    scale: Literal["none", "standard", "minmax", "robust"] = Field(
        default="none", description="What features go through first."
    )
    class_weight: str | dict[str, float] | None = None
    probability: bool | Literal["platt", "isotonic"] = Field(default=False, description="Whether it has some.")
    decision_function_shape: Literal["ovr", "ovo"] | None = Field(
        default=None, description="Of decisions of more than two classes: one for each, or one for each pair."
    )
    classes: list[ClassCount] | None = Field(default=None, description="In the order of decisions; null: has none.")
    window: dict[str, Any]
    version: int
    n_examples: int
    n_features: int | None
    n_free: int
    n_bound: int
    n_support: int
    max_violation: float
    relative_gap: float | None
    durability: Literal["fsynced", "logged", "memory"] | None
    queue_depth: int
    updated_at: datetime | None
    recovery: Recovery | None = None
    error: str | None = None
    warnings: list[Warned] = Field(default_factory=list, description="As of when they were last looked for.")


class ModelList(BaseModel):
    """Every model, by id."""

    models: list[ModelDescription]


class RecentUpdate(BaseModel):
    """What one update did, in numbers; those that its kind does not have are absent."""

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
    """The newest updates since the model came back, newest first."""

    updates: list[RecentUpdate]


class Access(BaseModel):
    """Who the caller is to the service, and what that allows."""

    keys: bool = Field(description="Whether the service asks for API keys.")
    label: str | None = Field(default=None, description="Of the key that was sent.")
    scope: Literal["read", "learn", "admin"] | None = Field(description="Null: nothing that needs a key.")
    paths: list[str] | None = Field(default=None, description="Those that this service has, for who may call any.")


class Job(BaseModel):
    """Long work on a copy of a model; fields that do not apply are absent."""

    id: str
    kind: str
    model: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: float = Field(description="From 0 to 1.")
    done: int = Field(description="Steps behind it.")
    total: int = Field(description="Steps in all; 0 as long as that is not known.")
    version: int | None = Field(default=None, description="Of the model that it works on, from when it runs.")
    waits_for: str | None = Field(default=None, description="What it waits for, as long as it does.")
    asked: dict[str, Any]
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = Field(default=None, description="Problem document; `interrupted` after a restart.")


class JobList(BaseModel):
    """Every job, oldest first, without results."""

    jobs: list[Job]


class Dataset(BaseModel):
    """A dataset as it is kept."""

    name: str
    format: Literal["npz", "svmlight", "csv", "parquet"]
    n_examples: int
    n_features: int
    is_sparse: bool = Field(description="Whether it is kept, and used, as CSR.")
    n_stored: int = Field(description="Entries of X that are stored.")
    labels: list[float] | list[str] | None = Field(description="Distinct targets, of at most 20.")
    has_targets: bool
    has_weights: bool
    has_keys: bool = Field(default=False, description="Whether erasures find rows by key.")
    bytes: int = Field(description="On disk, as numbers.")
    uploaded_bytes: int
    sha256: str = Field(description="Of what was uploaded; once rows were erased, of the checksums of its files.")
    created_at: datetime
    is_here: bool = Field(description="Whether its files are on the machine that answers; else upload it there.")


class DatasetList(BaseModel):
    """Every dataset, by name."""

    datasets: list[Dataset]


class ForecastTold(BaseModel):
    """What is said of a reading to come; times are as the feed's readings have them."""

    step: int
    time: str | float | None
    value: float = Field(description="Of a feed of directions the decision value, positive for up.")
    low: float | None = None
    high: float | None = None
    direction: Literal["up", "down"] | None = None


class ObservationAnswer(BaseModel):
    """What a call of readings did, and the forecasts from the newest of them."""

    accepted: int
    ignored: int = Field(description="Rows that the feed knew already, or leaves out.")
    corrected: int
    position: int = Field(description="Readings that were ever accepted.")
    time: str | float | None = Field(description="Of the newest reading.")
    state: Literal["filling", "live"] = Field(description="`filling` until the window is first full.")
    forecasts: list[ForecastTold]
    scored: int = Field(description="Forecasts that these readings were compared with.")
    events: list[dict[str, Any]] = Field(description="What the feed announced: live, rescaled, drift, chosen.")
    durability: Literal["fsynced", "logged", "memory"]


class ForecastAnswer(BaseModel):
    """The newest forecasts, made from all readings so far."""

    position: int
    time: str | float | None
    state: Literal["filling", "live"]
    forecasts: list[ForecastTold]
    stale: bool = Field(description="True when readings are refused now, so that newer ones may be unknown.")


class FeedSource(BaseModel):
    """Where a feed's readings come from, and how that goes; credentials are known to the service alone."""

    kind: Literal["redis-stream"]
    connection: str
    stream: str
    group: str
    dead_letters: str
    state: Literal["reading", "paused", "failing"]
    fault: str | None = Field(default=None, description="Why it is not read; it is tried again every second.")
    taken: str | None = Field(default=None, description="The newest entry that had its effect, or was refused.")
    backlog: int | None = Field(default=None, description="Entries that wait; null while that is not known.")
    backlog_at_least: bool = Field(default=False, description="Whether more may wait than were counted.")
    refused: int = Field(default=0, description="Entries that went to the dead letters.")


class FeedDescription(BaseModel):
    """A feed as it is now."""

    id: str
    state: Literal["filling", "live", "restoring", "failed", "held", "fenced", "behind"] = Field(
        description="`filling` until the window is first full; else as of models."
    )
    version: int = Field(default=0, description="Calls that had an effect.")
    position: int = Field(default=0, description="Readings that were ever accepted.")
    rows: int = Field(default=0, description="Rows that were taken note of, those that were ignored among them.")
    time: str | float | None = Field(default=None, description="Of the newest reading.")
    every: str | None = None
    season: int | None = Field(default=None, description="In readings; 0: there is none.")
    settings: dict[str, Any] | None = Field(
        default=None, description="All of them, with what was `chosen` and `tried`."
    )
    scores: list[dict[str, Any]] = Field(default_factory=list, description="Of each step, over everything.")
    recent: list[dict[str, Any]] = Field(default_factory=list, description="The same over the newest window.")
    events: list[dict[str, Any]] = Field(default_factory=list, description="The newest that were announced.")
    source: FeedSource | None = None
    durability: Literal["fsynced", "logged", "memory"] | None = None
    queue_depth: int = 0
    updated_at: datetime | None = None
    recovery: Recovery | None = None
    error: str | None = None


class FeedList(BaseModel):
    """Every feed, by id."""

    feeds: list[FeedDescription]


class HistoryRow(BaseModel):
    """A reading with the forecasts that were made for it."""

    time: str | float | None
    value: float | None
    held: bool = Field(description="True where there was no reading.")
    forecasts: list[dict[str, Any]]


class FeedHistory(BaseModel):
    """Readings of the window, oldest first; where there were too many, `every` so many one."""

    every: int
    rows: list[HistoryRow]


class StepCertificate(BaseModel):
    """Proof that a step's model is optimal, recomputed from the data of the window."""

    step: int
    model: str
    relative_gap: float
    max_violation: float
    n_examples: int


class FeedCertificate(BaseModel):
    """The proof of every step's models; `relative_gap` is the largest, null before there are any."""

    position: int
    relative_gap: float | None
    steps: list[StepCertificate]


class Health(BaseModel):
    """The service's state."""

    status: Literal["alive", "ready"]
    degraded: list[str] | None = Field(
        default=None,
        description="Why a ready service does not serve all of its models, some only for reading, or lets jobs wait.",
    )


class Fault(BaseModel):
    """One thing wrong with a request; rows and columns count from 0."""

    field: str = Field(description="`X`, `y`, `keys` and `weights` of what is added; else with dots: `remove.keys`.")
    pointer: str = Field(description="JSON pointer to it in the body.")
    reason: str
    row: int | None = None
    column: int | None = None


class Problem(BaseModel):
    """RFC 9457 problem document; rows and columns count from 0."""

    type: str = Field(description="Stable name of the kind of problem.")
    title: str
    status: int
    detail: str
    field: str | None = None
    pointer: str | None = None
    row: int | None = None
    column: int | None = None
    reason: str | None = None
    reasons: list[str] | None = Field(default=None, description="Every one why the service is not ready.")
    errors: list[Fault] | None = None
