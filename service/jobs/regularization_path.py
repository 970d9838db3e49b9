"""The job that computes a model's whole regularization path: the request, the result, and how to apply the result."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, Field

from livesvm.service.datasets.arrays import MOST_LABELS
from livesvm.service.errors import EmptyModel, NotApplicable
from livesvm.service.hosting.handle import Description
from livesvm.service.jobs import plots
from livesvm.service.jobs.kind import Document, Examples, JobKind, Order, check_known
from livesvm.service.jobs.plots import Curve, Extension
from livesvm.service.models.fields import Cost, Request
from livesvm.service.models.learners import task_of
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.service.models.table_rows import check_form, in_field
from livesvm.solvers.analyses.regularization.optima import ErrorCurve
from livesvm.solvers.analyses.regularization.pairwise import PairBreakpoints, PairwiseRegularizationPath
from livesvm.solvers.analyses.regularization.path import RegularizationPath
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.change import Change, Edits
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.tables import columns as table_columns

Path = RegularizationPath | PairwiseRegularizationPath

PLACES = 201
"""Number of values of the parameter at which coefficients are reported."""
LARGEST = 10
"""Number of coefficients that are reported at each value."""


class PathRequest(Request):
    """A request for the regularization path of a model's window, or of other examples with the model's kernel."""

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


def error_of(spec: ModelSpec) -> str:
    """Return the name of a model's measure of error."""
    return "mean pinball loss" if spec.loss == "pinball" else task_of(spec).error


def _ordered(request: PathRequest, spec: ModelSpec, now: Description) -> Order:
    if now.sizes.n_examples == 0:
        raise EmptyModel(f"model {spec.id} knows no example yet")
    parameter = request.parameter or task_of(spec).walks[0]
    low, high = _default_range(spec, now, parameter)
    low, high = request.minimum or low, request.maximum or high
    if not low < high:
        raise InvalidInput(f"must be above the minimum, {low:g}, not {high:g}", field="maximum")
    if parameter == "nu" and high > 1:
        raise InvalidInput(f"nu lies in (0, 1], not {high:g}", field="maximum")
    asked: Document = {"parameter": parameter, "minimum": low, "maximum": high}
    given: dict[str, Examples] = {}
    width = now.n_features
    if request.data is not None:
        task_of(spec).check_targets(request.data.y, "data.y")
        width = check_shape(request.data, "data", None, now)
        _check_learnable(request.data, spec)
        given["data"] = request.data
        asked["data_rows"] = len(request.data.features)
    if request.validation is not None:
        task = task_of(spec)
        (task.check_validation or task.check_targets)(request.validation.y, "validation.y")
        if request.data is None:
            check_known(request.validation.y, now, "validation.y")
        check_shape(request.validation, "validation", width, now)
        given["validation"] = request.validation
        asked["validation_rows"] = len(request.validation.features)
    return Order(asked, given)


def _default_range(spec: ModelSpec, now: Description, parameter: str) -> tuple[float, float]:
    walked, low, high = task_of(spec).walks
    if parameter == walked:
        return low, high
    if parameter == "epsilon" and (epsilon := now.parameters.get("epsilon", spec.first("epsilon"))):
        return epsilon / 10, epsilon * 10
    raise InvalidInput(f"{parameter} is no parameter of this model that can be moved", field="parameter")


def check_shape(given: Examples, name: str, width: int | None, now: Description) -> int:
    """Check the shape of examples in a request, and return their number of columns; raises InvalidInput."""
    known = now.parameters.get("columns")
    with in_field(f"{name}.{{}}"):
        check_form(given.features, has_columns=known is not None)
        columns = (given.X if known is None else given.rows.read_by(table_columns.given(known))).shape[1]
    if width is not None and columns != width:
        raise InvalidInput(f"has {columns} columns, there are {width} features", field=f"{name}.X", row=0)
    rows = len(given.features)
    for field, column in (("y", given.y), ("weights", given.weights)):
        if column is not None and len(column) != rows:
            raise InvalidInput(f"has {len(column)} entries for {rows} rows", field=f"{name}.{field}")
    return int(columns)


def _check_learnable(data: Examples, spec: ModelSpec) -> None:
    """Raise InvalidInput for examples without a path: all weights are 0, or there are too few or too many classes."""
    if data.weights is not None and not data.weights.any():
        raise InvalidInput("all weights are zero", field="data.weights")
    if not task_of(spec).has_classes or data.y is None:
        return
    n_classes = np.unique(data.y).size
    if n_classes < 2:
        raise InvalidInput("all examples have one class; a path needs two at least", field="data.y")
    if n_classes > MOST_LABELS:
        raise InvalidInput(f"has {n_classes} classes; at most {MOST_LABELS} are walked", field="data.y")


def walk(asked: Document, model: ModelCopy, progress: Progress) -> Document:
    """Return the whole regularization path of a window, or of the examples in the request."""
    estimator = _estimator(asked, model)
    find = getattr(estimator, "epsilon_path" if asked["parameter"] == "epsilon" else "regularization_path")
    ends = task_of(model.spec).ends_of(asked["minimum"], asked["maximum"])
    path: Path = find(*ends, progress=progress)
    found = _told(path, estimator) | model.on_scale
    if "validation" in asked:
        given: Examples = asked["validation"]
        curve = path.validation_error(given.features_of(estimator), given.y)
        found["validation"] = _curve_document(curve, error_of(model.spec))
    best = found.get("validation", {}).get("best", {}).get("value")
    found["coefficients"] = _coefficients(path, estimator, best)
    return found


def _estimator(asked: Document, model: ModelCopy) -> LiveEstimator:
    estimator = model.estimator()
    if "data" not in asked:
        return estimator
    given: Examples = asked["data"]
    fresh = estimator._like(gamma=estimator.gamma_)
    return fresh.fit(given.features_of(estimator), given.y, sample_weight=given.weights)


def _told(path: Path, estimator: LiveEstimator) -> Document:
    found, report = path.breakpoints, path.report
    free = found.after & 1 == 1
    start = path.sizes(path.minimum)
    return {
        "parameter": path.parameter,
        "minimum": path.minimum,
        "maximum": path.maximum,
        "n_examples": estimator.n_window_,
        "events": report.events,
        "last_resorts": report.last_resorts,
        "relative_gap": report.relative_gap,
        "seconds": report.seconds,
        "ended": [end._asdict() for end in report.ended],
        "at_minimum": {"n_free": start.n_free, "n_support": start.n_support},
        "breakpoints": {
            "value": found.value.tolist(),
            "key": [path.keys[i] for i in found.example],
            "becomes": np.where(free, "free", "bound").tolist(),
            "n_free": found.n_free.tolist(),
            "n_support": found.n_support.tolist(),
            **({"pair": found.pair.tolist()} if isinstance(found, PairBreakpoints) else {}),
        },
        **({"pairs": [list(two) for two in path.pairs]} if isinstance(path, PairwiseRegularizationPath) else {}),
    }


def _coefficients(path: Path, estimator: LiveEstimator, best: float | None) -> Document:
    """Return the largest coefficients and the intercepts at logarithmically spaced parameter values and the best value.

    With several classes, an example has a coefficient for each class but its own, and the largest of these counts.
    """
    values = np.geomspace(path.minimum, path.maximum, PLACES).clip(path.minimum, path.maximum)
    if best is not None:
        values = np.union1d(values, [best])
    found: Document = {"value": values.tolist(), "intercept": [], "key": [], "coefficient": []}
    places = []
    for value in values.tolist():
        beta = path.coefficients(value)
        largest = np.argsort(-np.abs(beta).reshape(beta.shape[0], -1).max(axis=1), kind="stable")[:LARGEST]
        places.append(largest)
        found["key"].append([path.keys[i] for i in largest])
        found["coefficient"].append(beta[largest].tolist())
        found["intercept"].append(
            path.intercepts(value).tolist() if isinstance(path, PairwiseRegularizationPath) else path.intercept(value)
        )
    if isinstance(path, PairwiseRegularizationPath):
        model: Any = estimator
        found |= {"classes": model.classes_.tolist(), "label": [model.window_y[chosen].tolist() for chosen in places]}
    return found


def _curve_document(curve: ErrorCurve, what: str) -> Document:
    return {
        "error": what,
        "edges": curve.edges.tolist(),
        "left": curve.left.tolist(),
        "right": curve.right.tolist(),
        "best": vars(curve.best()),
    }


def move_to(result: Document, choice: Document) -> Change:
    """Return the update that gives a live model a C of the path: the chosen one, or the best in validation."""
    if result["parameter"] != "C":
        raise NotApplicable(f"a path over {result['parameter']} cannot be applied; create a model with that value")
    for name in choice.keys() - {"C"}:
        raise InvalidInput("only C can be chosen", field=f"choice.{name}")
    C = choice.get("C", result.get("validation", {}).get("best", {}).get("value"))
    if C is None:
        raise InvalidInput("is needed: the path has no validation data that would name the best one", field="choice.C")
    if type(C) not in (int, float) or not result["minimum"] <= C <= result["maximum"]:
        reason = f"must be a number from {result['minimum']:g} to {result['maximum']:g}, not {C!r}"
        raise InvalidInput(reason, field="choice.C")
    return Change(edits=Edits(C=float(C)))


def plot(result: Document, extension: Extension) -> bytes:
    """Draw the validation error and the number of support vectors over the parameter."""
    found, start = result["breakpoints"], result["at_minimum"]
    x = np.concatenate([[result["minimum"]], np.repeat(found["value"], 2), [result["maximum"]]])
    supports = np.repeat([start["n_support"], *found["n_support"]], 2)
    curves = [Curve("support vectors", x.tolist(), supports.tolist())]
    best = None
    if "validation" in result:
        errors = result["validation"]
        edges = np.repeat(errors["edges"], 2)[1:-1]
        both = np.stack([errors["left"], errors["right"]], axis=1).ravel()
        curves.insert(0, Curve(f"validation: {errors['error']}", edges.tolist(), both.tolist()))
        best = errors["best"]["low"], errors["best"]["high"]
    title = f"Regularization path of {result['n_examples']} examples, {result['events']} breakpoints"
    return plots.draw(extension, title, result["parameter"], curves, best)


KIND = JobKind(
    summary="Walk the whole regularization path",
    description="""
Find the optimum for every C (`svr`: or epsilon; `oneclass`: nu) in a range, exactly.

The result holds the `breakpoints`, by ascending `value`. Each has the `key` of the example that changes its set,
whether it `becomes` free or bound, and how many examples are free and support vectors above the value. `coefficients`
has the intercept and the 10 largest signed coefficients at 201 logarithmically spaced values. With
`validation` data the result has the error, linear from `left` to `right` on each interval between `edges`, and the
`best` value with its interval. Applying the job moves the live model there, or to `{"choice": {"C": ..}}`. If double
precision ends the path before the range ends, `minimum` and `maximum` are the ends of the path, and `ended` holds the
`value` and the `reason`.

With more than two classes each of the `pairs` [a, b] has its path, and `pair` names the one of a breakpoint. An
example that is free, or a support vector, in several pairs counts once. A coefficient has a value for each other
class, in the order of `classes` without the example's own `label`, positive for the first of the two. The error is
that of the votes.
""",
    request=PathRequest,
    check=_ordered,
    run=walk,
    apply=move_to,
    plot=plot,
    family="regularization paths",
)
