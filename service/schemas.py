"""Request and response models: the API's one source of truth. Requests are strict and refuse unknown fields."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from service import arrays, commands
from service.commands import NOTHING
from solvers.errors import InvalidInput

MODEL_ID = r"^[a-z0-9][a-z0-9_-]{0,63}$"
JOB_ID = r"^j-[0-9a-f]{12}$"

TASK_PARAMETERS: dict[str, dict[str, Any]] = {
    "svc": {"C": 1.0},
    "svr": {"C": 1.0, "loss": "epsilon_insensitive"},
    "oneclass": {"nu": 0.5},
}
"""The parameters of each task besides its kernel, with their defaults."""
LOSS_PARAMETERS: dict[str, dict[str, Any]] = {
    "epsilon_insensitive": {"epsilon": 0.1},
    "absolute": {},
    "pinball": {"quantile": 0.5},
}
"""The parameters of each loss of regression, with their defaults."""
SUPPORTED_TASKS = tuple(TASK_PARAMETERS)

_NUMBER = {"type": "number", "minimum": -arrays.MAX_MAGNITUDE, "maximum": arrays.MAX_MAGNITUDE}
_NUMBERS = {"type": "array", "minItems": 1, "items": _NUMBER}
_KEY = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": arrays.MAX_KEY_LENGTH},
        {"type": "integer", "minimum": 0, "maximum": arrays.MAX_KEY - 1},
    ]
}

Matrix = Annotated[
    Any,
    PlainValidator(arrays.matrix),
    WithJsonSchema({"type": "array", "minItems": 1, "items": _NUMBERS, "description": "(n, d), finite numbers"}),
]
Targets = Annotated[
    Any,
    PlainValidator(lambda value: arrays.vector(value, "y")),
    WithJsonSchema({**_NUMBERS, "description": "(n,): -1 or 1 for `svc`, numbers for `svr`, absent for `oneclass`"}),
]
Weights = Annotated[
    Any,
    PlainValidator(lambda value: _weights(value)),
    WithJsonSchema(
        {
            "type": "array",
            "minItems": 1,
            "items": {"type": "number", "minimum": 0, "maximum": 1e8},
            "description": "(n,), each multiplies C for its example",
        }
    ),
]
Keys = Annotated[
    Any,
    PlainValidator(arrays.keys),
    WithJsonSchema({"type": "array", "minItems": 1, "uniqueItems": True, "items": _KEY}),
]
Gamma = Annotated[
    Any,
    PlainValidator(lambda value: _gamma(value)),
    WithJsonSchema(
        {
            "anyOf": [{"const": "scale"}, {"type": "number", "exclusiveMinimum": 0, "maximum": 1e8}],
            "description": "`scale`: 1 / (features x variance) of the first examples",
        }
    ),
]
Cost = Annotated[float, Field(gt=0, le=1e8, allow_inf_nan=False)]
Decay = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
AnswerKeys = Annotated[list[int | str], WithJsonSchema({"type": "array", "items": _KEY})]


def _gamma(value: Any) -> float | str:
    if value == "scale":
        return "scale"
    if type(value) not in (int, float) or not 0 < value <= 1e8:
        raise ValueError("must be 'scale' or a number above 0 and at most 1e8")
    return float(value)


def _weights(value: Any) -> arrays.Vector:
    return check_weights(arrays.vector(value, "weights"))


def check_weights(weights: arrays.Vector, field: str = "weights") -> arrays.Vector:
    """The weights (n,) if each is between 0 and 1e8; raises InvalidInput otherwise."""
    for row, weight in enumerate(weights):
        if not 0 <= weight <= 1e8:
            raise InvalidInput(f"a weight is between 0 and 1e8, not {weight:g}", field=field, row=row)
    return weights


class Request(BaseModel):
    """Base of request bodies."""

    model_config = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)


class KernelSpec(Request):
    """The kernel: k(x, z) = x'z, exp(-gamma |x-z|^2), (gamma x'z + coef0)^degree, or tanh(gamma x'z + coef0)."""

    name: Literal["linear", "rbf", "poly", "polynomial", "sigmoid"] = "rbf"
    gamma: Gamma = "scale"
    degree: int = Field(default=3, ge=1, le=10)
    coef0: float = Field(default=0.0, ge=-1e8, le=1e8, allow_inf_nan=False)

    @field_validator("name", mode="before")
    @classmethod
    def _over_vectors(cls, name: Any) -> Any:
        if name == "precomputed":
            raise ValueError("a precomputed kernel is offered by the Python API only; send features")
        return name

    @model_validator(mode="after")
    def _convex(self) -> Self:
        if self.name in ("poly", "polynomial") and self.coef0 < 0:
            raise InvalidInput("a polynomial kernel needs coef0 >= 0 to be convex", field="coef0")
        return self


class WindowSpec(Request):
    """How much a model remembers; what is beyond leaves within the next update, oldest first."""

    max_examples: int | None = Field(default=None, ge=1, le=10**9)
    max_age_seconds: float | None = Field(default=None, gt=0, le=1e10, allow_inf_nan=False)


class ModelSpec(Request):
    """A model, as it is created. Parameters of another task or loss are refused, absent ones get their defaults."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"C": 10.0, "kernel": {"name": "rbf", "gamma": 0.1}, "window": {"max_examples": 365}}]
        }
    )

    id: str | None = Field(default=None, pattern=MODEL_ID, description="Made up when absent.")
    task: str = Field(default="svc", json_schema_extra={"enum": list(SUPPORTED_TASKS)})
    kernel: KernelSpec = Field(default_factory=lambda: KernelSpec())
    C: Cost | None = Field(default=None, description="`svc`, `svr`: weight of the losses; 1 when absent.")
    loss: Literal["epsilon_insensitive", "absolute", "pinball"] | None = Field(
        default=None, description="`svr`: of a residual; `epsilon_insensitive` when absent."
    )
    epsilon: float | None = Field(
        default=None,
        ge=0,
        le=1e8,
        allow_inf_nan=False,
        description="Loss `epsilon_insensitive`: half width of the tube without loss, in units of y; 0.1 when absent.",
    )
    quantile: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        allow_inf_nan=False,
        description="Loss `pinball`: which quantile of y given x is estimated; 0.5 when absent.",
    )
    nu: float | None = Field(
        default=None,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="`oneclass`: upper bound of the share of outliers; 0.5 when absent.",
    )
    fit_intercept: bool = True
    n_features: int | None = Field(
        default=None, ge=1, le=10**6, description="Taken from the first examples when absent."
    )
    window: WindowSpec = Field(default_factory=lambda: WindowSpec())

    @field_validator("task")
    @classmethod
    def _supported(cls, task: str) -> str:
        if task not in SUPPORTED_TASKS:
            raise ValueError(f"this version learns {', '.join(SUPPORTED_TASKS)}, not {task[:32]!r}")
        return task

    @field_validator("kernel", "window", mode="before")
    @classmethod
    def _absent(cls, value: Any) -> Any:
        return {} if value is None else value

    @model_validator(mode="after")
    def _parameters_of_the_task(self) -> Self:
        """Refuse what belongs to another task or loss, fill in the rest."""
        own = TASK_PARAMETERS[self.task]
        if "loss" in own:
            self.loss = self.loss or own["loss"]
            own = own | LOSS_PARAMETERS[self.loss]
        kind = self.task if self.loss is None else f"{self.task} with loss {self.loss}"
        for name in ("C", "loss", "epsilon", "quantile", "nu"):
            if getattr(self, name) is None:
                setattr(self, name, own.get(name))
            elif name not in own:
                raise InvalidInput(f"is no parameter of {kind}", field=name)
        if self.task == "oneclass" and not self.fit_intercept:
            raise InvalidInput("a one-class model always has an offset", field="fit_intercept")
        return self


class AddBatch(Request):
    """Examples to learn; keys are made up and returned when absent."""

    X: Matrix
    y: Targets | None = None
    keys: Keys | None = None
    weights: Weights | None = None

    def command(self) -> commands.Batch:
        """The batch for the model."""
        return commands.Batch(self.X, self.y, self.keys, self.weights)


class RemoveSpec(Request):
    """Examples to forget: by key, the oldest so many, or those that arrived before a time. Exactly one of them."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    keys: Keys | None = None
    oldest: int | None = Field(default=None, ge=1, le=10**9)
    older_than: AwareDatetime | None = Field(default=None, description="ISO 8601 with a UTC offset; none may match.")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [value for value in (self.keys, self.oldest, self.older_than) if value is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of keys, oldest and older_than")
        return self

    def command(self) -> commands.Removal:
        """The removal for the model."""
        older = None if self.older_than is None else self.older_than.timestamp()
        return commands.Removal(self.keys, self.oldest, older)


class RelabelSpec(Request):
    """Other targets for examples that stay."""

    keys: Keys
    y: Targets

    def by_key(self) -> dict[int | str, float]:
        """Target by key."""
        return commands.paired(self.keys, self.y, "relabel.y")


class ReweightSpec(Request):
    """Other weights for examples that stay."""

    keys: Keys
    weights: Weights

    def by_key(self) -> dict[int | str, float]:
        """Weight by key."""
        return commands.paired(self.keys, self.weights, "reweight.weights")


class UpdateRequest(Request):
    """One update, applied whole or not at all, along one path. Its verbs may be combined at will."""

    model_config = ConfigDict(
        json_schema_extra={
            "minProperties": 1,
            "examples": [
                {"add": {"X": [[0.1, 0.7], [0.9, 0.2]], "y": [1, -1], "keys": ["mon", "tue"]}},
                {"relabel": {"keys": ["tue"], "y": [1]}, "remove": {"keys": ["mon"]}},
            ],
        }
    )

    add: AddBatch | None = None
    remove: RemoveSpec | None = None
    relabel: RelabelSpec | None = None
    reweight: ReweightSpec | None = None
    decay: Decay | None = Field(
        default=None, description="Multiplies the weights of all examples that stay and are not reweighted."
    )
    C: Cost | None = Field(default=None, description="`svc`, `svr`: from now on the model's C.")

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if all(value is None for _, value in self):
            raise ValueError(NOTHING)
        return self

    def command(self) -> commands.Update:
        """The update for the model."""
        return commands.Update(
            None if self.add is None else self.add.command(),
            None if self.remove is None else self.remove.command(),
            self._edits(),
        )

    def _edits(self) -> commands.Edits | None:
        if all(value is None for value in (self.relabel, self.reweight, self.decay, self.C)):
            return None
        return commands.Edits(
            {} if self.relabel is None else self.relabel.by_key(),
            {} if self.reweight is None else self.reweight.by_key(),
            1.0 if self.decay is None else self.decay,
            self.C,
        )


class PredictRequest(Request):
    """Rows to predict."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"X": [[0.2, 0.5]]}]})

    X: Matrix


class AssessmentRequest(Request):
    """How to assess a model: by leaving out each example, or each of so many folds of consecutive examples."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"method": "leave-one-out"}]})

    method: Literal["leave-one-out", "k-fold"]
    folds: int | None = Field(default=None, ge=2, le=10**6, description="`k-fold`: how many; 10 when absent.")

    @model_validator(mode="after")
    def _folds_of_k_fold(self) -> Self:
        if self.method == "k-fold":
            self.folds = self.folds or 10
        elif self.folds is not None:
            raise InvalidInput("is no parameter of leave-one-out", field="folds")
        return self


class ApplyRequest(Request):
    """What to apply of a job's result, as its kind says."""

    choice: dict[str, Any] = Field(default_factory=dict)


class UpdateAnswer(BaseModel):
    """What an update did, and the version that holds it."""

    version: int
    added: AnswerKeys
    removed: AnswerKeys = Field(description="Also those that left to make room.")
    changed: int = Field(description="Examples that stayed and got another target, weight or C.")
    events: int = Field(description="Events on the solution path.")
    n_examples: int
    n_free: int = Field(description="Examples on the margin.")
    n_bound: int = Field(description="Examples at the bound.")
    seconds: float = Field(description="Time the path took.")
    max_violation: float = Field(description="Largest violation of the optimality conditions.")
    durability: Literal["fsynced", "logged", "memory"]


class PredictAnswer(BaseModel):
    """Decision values, predicted labels or values, and the version that answered."""

    version: int
    decision: list[float]
    prediction: list[float]
    stale: bool = Field(description="True when updates are refused now, so that newer data may be unknown.")


class Certificate(BaseModel):
    """Proof of optimality, recomputed from the window's data alone."""

    version: int
    relative_gap: float
    duality_gap: float
    max_violation: float
    primal: float
    dual: float
    n_examples: int


class Checkpoint(BaseModel):
    """The version that is now in a snapshot."""

    version: int
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


class RestoreRequest(Request):
    """The version to go back to."""

    version: int = Field(ge=0, le=2**53)


class RestoreAnswer(BaseModel):
    """The new version, which holds what the restored one held."""

    version: int
    restored: int
    n_examples: int
    n_free: int
    n_bound: int
    max_violation: float
    durability: Literal["fsynced", "logged", "memory"]


class Recovery(BaseModel):
    """How the model came back at the last start."""

    snapshot_version: int = Field(description="0: none was there, the log held everything.")
    replayed: int = Field(description="Commands of the log that were applied again.")
    damaged_snapshots: int = Field(description="Snapshots that were damaged and passed over.")


ServingState = Literal["live", "failed", "held", "fenced", "behind"]


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
    fit_intercept: bool
    window: dict[str, Any]
    version: int
    n_examples: int
    n_features: int | None
    n_free: int
    n_bound: int
    n_support: int
    max_violation: float
    durability: Literal["fsynced", "logged", "memory"] | None
    queue_depth: int
    updated_at: datetime | None
    recovery: Recovery | None = None
    error: str | None = None


class ModelList(BaseModel):
    """Every model, by id."""

    models: list[ModelDescription]


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
    asked: dict[str, Any]
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = Field(default=None, description="Problem document; `interrupted` after a restart.")


class JobList(BaseModel):
    """Every job, oldest first, without results."""

    jobs: list[Job]


class Health(BaseModel):
    """The service's state."""

    status: Literal["alive", "ready"]


class Fault(BaseModel):
    """One thing wrong with a request; rows and columns count from 0."""

    field: str
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
    errors: list[Fault] | None = None
