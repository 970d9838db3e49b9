"""The specification with which a model is created, and which is stored; the API uses the same class."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from livesvm.service.errors import not_among
from livesvm.service.models.arrays import LONGEST_LABEL
from livesvm.service.models.fields import SHORT, Columns, Cost, Gamma, HalfWidth, Id, Request
from livesvm.service.models.labels import MOST_NAMED, check_closed
from livesvm.service.models.tasks import LOSS_PARAMETERS, TASKS
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.cached import cached_property

OPTIONS = {
    "class_weight": None,
    "decision_function_shape": "ovr",
    "scale": "none",
    "components": None,
    "probability": False,
    "target_scale": None,
}
"""Fields that not every task has, with the value that they have for other tasks."""
ClassWeight = Annotated[float, Field(ge=0, le=1e8, allow_inf_nan=False)]
ClassWeights = (
    Literal["balanced"]
    | Annotated[dict[Annotated[str, Field(max_length=LONGEST_LABEL)], ClassWeight], Field(max_length=MOST_NAMED)]
)
Labels = Annotated[
    Any,
    PlainValidator(check_closed),
    WithJsonSchema(
        {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_NAMED,
            "uniqueItems": True,
            "anyOf": [
                {"items": {"type": "string", "minLength": 1, "maxLength": LONGEST_LABEL}},
                {"items": {"type": "integer"}},
            ],
        }
    ),
]
TargetScale = Literal["none", "log", "log1p", "auto"]
Components = Annotated[int, Field(ge=1, le=5000)] | Literal["auto"]
Scale = Literal["none", "standard", "minmax", "robust"]
REMEMBERED, MOST_REMEMBERED = 10_000, 10**6
"""How many keys of examples that left are remembered, for a window without a bound, and at most."""
Prior = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | Literal["estimate"]
Lam = Annotated[float, Field(ge=1e-8, le=1e8, allow_inf_nan=False)] | Literal["auto"]


class KernelSpec(Request):
    """The kernel: k(x, z) = x'z, exp(-gamma |x-z|^2), (gamma x'z + coef0)^degree, or tanh(gamma x'z + coef0).

    The Laplacian kernel is exp(-gamma sum_k |x_k-z_k|).
    """

    name: Literal["linear", "rbf", "laplacian", "poly", "polynomial", "sigmoid"] = "rbf"
    gamma: Gamma = Field(
        default="scale",
        description="Its coefficient; `scale` is 1 / (n_features * variance) of the first examples. With C `auto` it "
        "is chosen, unless it is a number.",
    )
    degree: int = Field(default=3, ge=1, le=10, description="`poly`: the exponent.")
    coef0: float = Field(
        default=0.0, ge=-1e8, le=1e8, allow_inf_nan=False, description="`poly`, `sigmoid`: what is added to gamma x'z."
    )

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
    """The limits of a model's window; the next update removes examples beyond the limits, oldest first."""

    max_examples: int | None = Field(default=None, ge=1, le=10**9, description="Most examples that it holds.")
    max_age_seconds: float | None = Field(
        default=None, gt=0, le=1e10, allow_inf_nan=False, description="Largest age of an example, by its time."
    )
    remember_keys: int | None = Field(
        default=None,
        ge=0,
        le=MOST_REMEMBERED,
        description="How many keys of examples that left, given by clients, are remembered, so that a repeat is "
        "recognised; the newest ones. As many as `max_examples` when absent, or 10,000 without that.",
    )

    @cached_property
    def n_remembered(self) -> int:
        """The number of keys that the model remembers after their examples have left the window."""
        given = self.remember_keys
        return min(self.max_examples or REMEMBERED, MOST_REMEMBERED) if given is None else given


def _or_default(schema: type[Request]) -> BeforeValidator:
    """Change a field, and its schema, to accept null in place of an absent value."""
    return BeforeValidator(lambda value: {} if value is None else value, json_schema_input_type=schema | None)


class ModelSpec(Request):
    """The specification of a model to create. Parameters that belong to another task or loss are refused, and absent
    parameters get their defaults."""

    most_bytes = SHORT
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"C": 10.0, "kernel": {"name": "rbf", "gamma": 0.1}, "window": {"max_examples": 365}}]
        }
    )

    id: Id | None = Field(default=None, description="Made up when absent.")
    task: str = Field(default="svc", description="What the model learns.", json_schema_extra={"enum": list(TASKS)})
    kernel: Annotated[KernelSpec, _or_default(KernelSpec)] = Field(
        default_factory=lambda: KernelSpec(), description="How similar two examples are."
    )
    C: Cost | Literal["auto"] | None = Field(
        default=None,
        description="`svc`, `svr`: weight of the losses. `auto`: the model tunes itself, with the kernel `rbf`: it "
        "chooses C by its window, and where they are not given gamma, `epsilon`, and how `columns` are encoded. "
        "Absent: `auto` where gamma and a number of `components` are absent too, or `components` is `auto`, and the "
        "kernel is `rbf`; else 1.",
    )
    loss: Literal["epsilon_insensitive", "absolute", "pinball"] | None = Field(
        default=None, description="`svr`: loss of a residual; `epsilon_insensitive` when absent."
    )
    epsilon: HalfWidth | Literal["auto"] | None = Field(
        default=None,
        description="Loss `epsilon_insensitive`: half width of the tube without loss, in units of f. Absent: `auto`, "
        "chosen with C, where C is; else 0.1.",
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
    prior: Prior | None = Field(
        default=None,
        description="`pu`: share of positives among the unlabelled, between 0 and 1, both excluded; `estimate`, which "
        "is also what holds when absent: estimated from the first examples, and kept.",
    )
    lam: Lam | None = Field(
        default=None,
        description="`pu`: weight of |w|^2; `auto`, which is also what holds when absent: chosen by the risk on "
        "folds of the first examples of both kinds. It is chosen again when a model with C `auto` would choose, until "
        "an update gives `C`, which is 1 / (2 lam).",
    )
    target_scale: TargetScale | None = Field(
        default=None,
        description="`svr`: the scale on which targets are learnt. `log` is of targets above 0, `log1p` also of 0; "
        "predictions and intervals are in units of y; `decision`, `epsilon` and all analyses are on the scale. `auto`: "
        "chosen with C, of skewed targets; a target that the scale does not have ends it. Absent: `auto` where C is, "
        "else `none`.",
    )
    fit_intercept: bool = Field(default=True, description="Whether the decision function has an intercept.")
    class_weight: ClassWeights | None = Field(
        default=None,
        description="`svc`: multiplies C by class, named by its label as text; 1 for others. `balanced`: the fewer "
        "examples of the window a class has, the more.",
    )
    labels: Labels | None = Field(
        default=None,
        description="`svc`, `l2svc`: the only labels there may be, strings or whole numbers; any when absent.",
    )
    scale: Scale = Field(
        default="none",
        description="Scaling of features before the kernel, fitted to the first examples and kept; not for `l2svc`.",
    )
    columns: Columns | None = Field(
        default=None,
        description="Columns of a table: examples come as `rows` with names; of `l2svc` in a dataset. `auto`: "
        "found in the first rows. Absent: examples come as numbers, `X`.",
    )
    components: Components | None = Field(
        default=None,
        description="The kernel has this rank, made of landmarks from the first examples; for windows in which "
        "thousands of examples are on the margin; not for `l2svc`. `auto`: chosen with C, the whole kernel where few "
        "are on the margin. Absent: the whole kernel.",
    )
    decision_function_shape: Literal["ovr", "ovo"] = Field(
        default="ovr",
        description="`svc`, `l2svc` of more than two classes: a decision value for each, or for each pair.",
    )
    probability: bool | Literal["platt", "isotonic"] = Field(
        default=False,
        description="`svc`: whether predictions can have probabilities; `true` is `platt`. They are fitted when they "
        "are first asked for after an update, to exact decisions of examples by models without their fold.",
    )
    drift_alarms: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        allow_inf_nan=False,
        description="`svc`, `svr`: each example is predicted before it is learnt, and a test raises an alarm when the "
        "errors grow. This is its largest probability of a false alarm in 5,000 examples. Absent: there is no test.",
    )
    record: bool = Field(
        default=True,
        description="`svc`, `svr`: each example is predicted before it is learnt, and the model keeps a record of how "
        "often it was right. `false` leaves that out.",
    )
    n_features: int | None = Field(
        default=None, ge=1, le=10**9, description="Taken from the first examples when absent."
    )
    window: Annotated[WindowSpec, _or_default(WindowSpec)] = Field(
        default_factory=lambda: WindowSpec(), description="How much the model remembers; without bounds all."
    )

    @field_validator("task")
    @classmethod
    def _supported(cls, task: str) -> str:
        if task not in TASKS:
            raise ValueError(f"this version learns {', '.join(TASKS)}, not {task[:32]!r}")
        return task

    @model_validator(mode="after")
    def _parameters_of_the_task(self) -> Self:
        """Refuse parameters that belong to another task or loss, and fill in defaults for absent parameters."""
        task = TASKS[self.task]
        own = task.parameters
        if "loss" in own:
            self.loss = self.loss or own["loss"]
            own = own | LOSS_PARAMETERS[self.loss]
        is_open = "gamma" not in self.kernel.model_fields_set and self.components is None
        if self.C is None and (is_open or self.components == "auto") and self._can_tune_itself:
            self.C = "auto"
        if self.C == "auto" and not self._can_tune_itself:
            raise InvalidInput("is chosen for `svc` and `svr` with the kernel rbf", field="C")
        if "epsilon" in own and self.C == "auto":
            self.epsilon = "auto" if self.epsilon is None else self.epsilon
        elif self.epsilon == "auto":
            raise InvalidInput("is chosen with C, which is not auto", field="epsilon")
        kind = self.task if self.loss is None else f"{self.task} with loss {self.loss}"
        for name in ("C", "loss", "epsilon", "quantile", "nu", "prior", "lam"):
            if getattr(self, name) is None:
                setattr(self, name, own.get(name))
            elif name not in own:
                raise InvalidInput(f"is no parameter of {kind}", field=name)
        if "target_scale" in task.options:
            self.target_scale = self.target_scale or ("auto" if self.C == "auto" else "none")
        if self.target_scale == "auto" and self.C != "auto":
            raise InvalidInput("is chosen with C, which is not auto", field="target_scale")
        for name, default in OPTIONS.items():
            of_labels = name == "decision_function_shape" or (name == "probability" and task.is_exact)
            its_own = name in task.options or (task.has_labels and of_labels)
            if not its_own and getattr(self, name) != default:
                raise InvalidInput(f"is no parameter of {kind}", field=name)
        if self.drift_alarms is not None and not self.has_errors:
            raise InvalidInput(f"is no parameter of {kind}", field="drift_alarms")
        if self.columns is not None and self.scale != "none":
            raise InvalidInput("scales numbers only; columns have encodings", field="scale")
        if self.components is not None and self.kernel.name == "sigmoid":
            raise InvalidInput("is for kernels other than sigmoid", field="components")
        if self.components == "auto" and self.C != "auto":
            reason = "chosen with C, which is not auto" if "C" in own else f"no choice for {kind}: give a number"
            raise InvalidInput(f"is {reason}", field="components")
        if self.labels is not None:
            self._check_named(task.has_labels, kind)
        if not task.has_free_intercept and not self.fit_intercept:
            raise InvalidInput("a model of this task always has an intercept", field="fit_intercept")
        return self

    def _check_named(self, has_labels: bool, kind: str) -> None:
        """Raise InvalidInput if the task has no labels, or if a class weight is for a label outside the given list."""
        if not has_labels:
            raise InvalidInput(f"is no parameter of {kind}", field="labels")
        names = list(map(str, self.labels or ()))
        for name in self.class_weight if isinstance(self.class_weight, dict) else ():
            if name not in names:
                raise InvalidInput(not_among(name, names), field=f"class_weight.{name}")

    @property
    def _can_tune_itself(self) -> bool:
        """Whether the model can choose its parameters itself by the examples in its window."""
        return TASKS[self.task].tuned_by == "C" and self.kernel.name == "rbf"

    def first(self, name: Literal["C", "epsilon"]) -> float | None:
        """Return the value of C or epsilon that the model uses before it first chooses its parameters."""
        value: float | str | None = getattr(self, name)
        own = TASKS[self.task].parameters | LOSS_PARAMETERS.get(self.loss or "", {})
        return float(own[name]) if isinstance(value, str) else value

    @property
    def has_errors(self) -> bool:
        """Whether the task's examples have leave-one-out errors, which can be tested for drift."""
        task = TASKS[self.task]
        return task.is_exact and (task.has_labels or task.has_values)

    @property
    def has_C(self) -> bool:
        """Whether C, the weight of the losses, can be changed."""
        return TASKS[self.task].has_cost
