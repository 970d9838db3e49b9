"""Requests: the API's one source of truth, strict, refusing unknown fields."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from livesvm.service import commands
from livesvm.service.commands import NOTHING
from livesvm.service.fields import MODEL_ID, Cost, Decay, Gamma, Keys, Matrix, Name, Number, Targets, Weights
from livesvm.solvers.errors import InvalidInput

TASK_PARAMETERS: dict[str, dict[str, Any]] = {
    "svc": {"C": 1.0},
    "svr": {"C": 1.0, "loss": "epsilon_insensitive"},
    "oneclass": {"nu": 0.5},
    "pu": {"prior": None, "lam": 0.01},
}
"""The parameters of each task besides its kernel, with their defaults."""
LOSS_PARAMETERS: dict[str, dict[str, Any]] = {
    "epsilon_insensitive": {"epsilon": 0.1},
    "absolute": {},
    "pinball": {"quantile": 0.5},
}
"""The parameters of each loss of regression, with their defaults."""
SHORT = 2**16
"""Bytes that a request without examples may have."""
MOST_OLDEST = 10**9
"""Examples that a removal may ask for."""
SUPPORTED_TASKS = tuple(TASK_PARAMETERS)


class Request(BaseModel):
    """Base of request bodies."""

    most_bytes: ClassVar[int | None] = None
    """A longer body is no such request, and is not parsed; None where it holds examples."""

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


def _or_default(schema: type[Request]) -> BeforeValidator:
    """Take null for what is absent, and say so in the schema."""
    return BeforeValidator(lambda value: {} if value is None else value, json_schema_input_type=schema | None)


class ModelSpec(Request):
    """A model, as it is created. Parameters of another task or loss are refused, absent ones get their defaults."""

    most_bytes = SHORT
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"C": 10.0, "kernel": {"name": "rbf", "gamma": 0.1}, "window": {"max_examples": 365}}]
        }
    )

    id: str | None = Field(default=None, pattern=MODEL_ID, description="Made up when absent.")
    task: str = Field(default="svc", json_schema_extra={"enum": list(SUPPORTED_TASKS)})
    kernel: Annotated[KernelSpec, _or_default(KernelSpec)] = Field(default_factory=lambda: KernelSpec())
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
    prior: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        allow_inf_nan=False,
        description="`pu`: share of positives among the unlabelled; has to be given.",
    )
    lam: float | None = Field(
        default=None,
        ge=1e-8,
        le=1e8,
        allow_inf_nan=False,
        description="`pu`: weight of |w|^2; 0.01 when absent. `C`, by which it is moved later, is 1 / (2 lam).",
    )
    fit_intercept: bool = True
    n_features: int | None = Field(
        default=None, ge=1, le=10**9, description="Taken from the first examples when absent."
    )
    window: Annotated[WindowSpec, _or_default(WindowSpec)] = Field(default_factory=lambda: WindowSpec())

    @field_validator("task")
    @classmethod
    def _supported(cls, task: str) -> str:
        if task not in SUPPORTED_TASKS:
            raise ValueError(f"this version learns {', '.join(SUPPORTED_TASKS)}, not {task[:32]!r}")
        return task

    @model_validator(mode="after")
    def _parameters_of_the_task(self) -> Self:
        """Refuse what belongs to another task or loss, fill in the rest."""
        own = TASK_PARAMETERS[self.task]
        if "loss" in own:
            self.loss = self.loss or own["loss"]
            own = own | LOSS_PARAMETERS[self.loss]
        kind = self.task if self.loss is None else f"{self.task} with loss {self.loss}"
        for name in ("C", "loss", "epsilon", "quantile", "nu", "prior", "lam"):
            if getattr(self, name) is None:
                setattr(self, name, own.get(name))
            elif name not in own:
                raise InvalidInput(f"is no parameter of {kind}", field=name)
        if self.task in ("oneclass", "pu") and not self.fit_intercept:
            raise InvalidInput("a model of this task always has an intercept", field="fit_intercept")
        if self.task == "pu" and self.prior is None:
            raise InvalidInput("is missing: the share of positives among the unlabelled", field="prior")
        return self

    @property
    def has_C(self) -> bool:
        """Whether the weight of the losses can be moved."""
        return self.C is not None or self.task == "pu"


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
    oldest: int | None = Field(default=None, ge=1, le=MOST_OLDEST)
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

    most_bytes = SHORT
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


class Examples(Request):
    """Examples that come with the request of a job and stay with it alone."""

    X: Matrix
    y: Targets | None = None
    weights: Weights | None = None

    def memory(self) -> int:
        """Bytes that they take."""
        return int(sum(array.nbytes for array in (self.X, self.y, self.weights) if array is not None))


class PathRequest(Request):
    """The regularization path of a model's window, or of other data with the model's kernel."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"minimum": 0.01, "maximum": 100.0, "validation": {"X": [[0.2, 0.5], [0.7, 0.1]], "y": [1, -1]}}
            ]
        }
    )

    parameter: Literal["C", "epsilon", "nu"] | None = Field(
        default=None,
        description="`svc`: `C`; `svr`: `C`, the default, or `epsilon`; `oneclass`: `nu`; `pu`: `C`, 1 / (2 lam).",
    )
    minimum: Cost | None = Field(default=None, description="1e-3 for C, 0.01 for nu, epsilon / 10 when absent.")
    maximum: Cost | None = Field(default=None, description="1e3 for C, 1 for nu, 10 epsilon when absent.")
    data: Examples | None = Field(default=None, description="Walk the path of these instead of the window.")
    validation: Examples | None = Field(default=None, description="Examples that the best value is chosen by.")


class OutlierPathRequest(Request):
    """The outlier path of a model's window: robust models, and which labels or targets look wrong."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"parameter": "s", "hold_out": 0.2}]})

    parameter: Literal["theta", "s"] = Field(
        default="theta",
        description="`theta`: the weight of outliers falls to `theta`; `s`: the margin or residual that makes one.",
    )
    theta: float = Field(default=0.0, ge=0, lt=1, description="Share of their slope that losses of outliers keep.")
    s: float | None = Field(
        default=None,
        ge=-1e12,
        le=1e12,
        description="`svc`: the margin below which a label is wrong, not positive, 0 when absent; `svr`: the residual "
        "above which a target is, positive; chosen from the residuals when absent.",
    )
    validation: Examples | None = Field(default=None, description="Examples that the best value is chosen by.")
    hold_out: float | None = Field(
        default=None, gt=0, le=0.5, description="Or by this share of the window, along the path of the rest."
    )

    @model_validator(mode="after")
    def _one_way_to_choose(self) -> Self:
        if self.validation is not None and self.hold_out is not None:
            raise InvalidInput("is for when there are no validation examples", field="hold_out")
        return self


class ApplyRequest(Request):
    """What to apply of a job's result, as its kind says."""

    most_bytes = SHORT
    choice: dict[Name, Number] = Field(default_factory=dict, max_length=8)


class RestoreRequest(Request):
    """The version to go back to."""

    most_bytes = SHORT
    version: int = Field(ge=0, le=2**53)
