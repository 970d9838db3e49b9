"""The job that computes a model's outlier path: the request, the result, and how to apply the result."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from pydantic import ConfigDict, Field, model_validator

from livesvm.service.errors import EmptyModel, NotApplicable
from livesvm.service.hosting.handle import Description
from livesvm.service.jobs import plots
from livesvm.service.jobs.kind import Document, Examples, JobKind, Order, check_known
from livesvm.service.jobs.plots import Curve, Extension
from livesvm.service.jobs.regularization_path import check_shape, error_of
from livesvm.service.models.arrays import Key
from livesvm.service.models.fields import Request
from livesvm.service.models.learners import new_estimator, task_of
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.solvers.analyses.outlier.pairwise import PairwiseOutlierPath, pairwise_outlier_path
from livesvm.solvers.analyses.outlier.path import outlier_path
from livesvm.solvers.analyses.outlier.result import OutlierPath
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.change import Change, Edits
from livesvm.solvers.models.model_view import View
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.runtime.progress import Progress


class OutlierPathRequest(Request):
    """A request for the outlier path of a model's window: it finds robust models, and labels or targets in doubt."""

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
        default=None, gt=0, le=0.5, description="Or the share of the window to choose it by, along the rest's path."
    )

    @model_validator(mode="after")
    def _one_way_to_choose(self) -> Self:
        if self.validation is not None and self.hold_out is not None:
            raise InvalidInput("is for when there are no validation examples", field="hold_out")
        return self


def _ordered(request: OutlierPathRequest, spec: ModelSpec, now: Description) -> Order:
    if now.sizes.n_examples == 0:
        raise EmptyModel(f"model {spec.id} knows no example yet")
    new_estimator(spec, 1)._cutoff_rule(request.s)  # refuses an s that cannot be, and models without robust losses
    asked = request.model_dump(exclude={"validation"}, exclude_none=True)
    if request.hold_out is not None:
        _check_share(request.hold_out, now.sizes.n_examples)
    if request.validation is None:
        return Order(asked)
    task_of(spec).check_targets(request.validation.y, "validation.y")
    check_known(request.validation.y, now, "validation.y")
    check_shape(request.validation, "validation", now.n_features, now)
    return Order(asked | {"validation_rows": len(request.validation.features)}, {"validation": request.validation})


def _check_share(share: float, n: int) -> None:
    """Raise InvalidInput unless a share of ``n`` examples is at least one example, and leaves at least one example."""
    if n < 2 or share * n < 1.0:
        raise InvalidInput(f"is less than one of the window's {n} examples, or none would be left", field="hold_out")


def walk(asked: Document, model: ModelCopy, progress: Progress) -> Document:
    """Return the outlier path of a window, and the parameter value with the least error of validation examples.

    With more than two classes, every pair of classes has a path. If examples are held back, the best value is chosen
    along the path of the other examples, but the path of all examples is returned.
    """
    how = {"parameter": asked["parameter"], "theta": asked["theta"], "s": asked.get("s")}
    share = asked.get("hold_out")
    parts = 1 if share is None else 2
    estimator = model.estimator()
    path = _path(estimator, how, lambda done, of: progress(done, parts * of))
    found = (_told(path) if isinstance(path, OutlierPath) else _pairs_document(path)) | model.on_scale
    if "validation" in asked:
        given: Examples = asked["validation"]
        found["validation"] = _errors(path, given.features_of(estimator), given.y, model.spec)
    elif share is not None:
        every = round(1.0 / share)
        keys, X, y = estimator.keys_[::every], estimator.window_features[::every], estimator.window_y[::every]
        rest = model.estimator()
        rest.update(remove=keys)
        others = _path(rest, how, lambda done, of: progress(of + done, parts * of))
        found["validation"] = _errors(others, X, y, model.spec) | {"held_back": len(keys)}
    return found


def _path(estimator: LiveEstimator, how: Document, progress: Progress) -> OutlierPath | PairwiseOutlierPath:
    walk = pairwise_outlier_path if View(estimator).pairs else outlier_path
    return walk(estimator, **how, progress=progress)


def _told(path: OutlierPath) -> Document:
    order = path.order_of_outliers()
    return _head(path) | {
        "outliers_at_start": _at_start(path),
        "switches": _switches(path),
        "suspected": {"key": [key for key, _ in order], "value": [value for _, value in order]},
    }


def _pairs_document(path: PairwiseOutlierPath) -> Document:
    """Return the result for several classes: ``pair`` indexes ``pairs``; ``suspected`` is one list for all pairs."""
    sign = 1.0 if path.end >= path.start else -1.0
    starts, switches = ([of(one) for one in path.pairs.values()] for of in (_at_start, _switches))
    order = [one.order_of_outliers() for one in path.pairs.values()]
    moves = _with_pair(switches)
    along = sorted(range(len(moves["value"])), key=lambda i: sign * moves["value"][i])
    return _head(path) | {
        "pairs": [list(two) for two in path.pairs],
        "outliers_at_start": _with_pair(starts),
        "switches": {name: [column[i] for i in along] for name, column in moves.items()},
        "suspected": {
            "key": [one.key for one in path.suspects],
            "value": [one.value for one in path.suspects],
            "label": [one.label for one in path.suspects],
            "others": [list(one.others) for one in path.suspects],
        },
        "suspected_by_pair": [{"key": [key for key, _ in one], "value": [value for _, value in one]} for one in order],
    }


def _with_pair(tables: list[Document]) -> Document:
    """Join the tables of all pairs to one table, with the index of the pair as a column."""
    joined = {name: [value for one in tables for value in one[name]] for name in tables[0]}
    return joined | {"pair": [number for number, one in enumerate(tables) for _ in one["key"]]}


def _head(path: OutlierPath | PairwiseOutlierPath) -> Document:
    names = ("parameter", "fixed", "start", "end", "note", "events", "d_steps")
    return {name: getattr(path, name) for name in names} | {"n_examples": len(path.keys)}


def _at_start(path: OutlierPath) -> Document:
    start = path.walked.legs[0].sides
    beyond = np.flatnonzero(start)
    return {"key": [path.keys[j] for j in beyond], "side": start[beyond].tolist()}


def _switches(path: OutlierPath) -> Document:
    switches = [(jump.value, j, side) for jump in path.walked.jumps for j, side in jump.switched]
    return {
        "value": [value for value, _, _ in switches],
        "key": [path.keys[j] for _, j, _ in switches],
        "side": [side for _, _, side in switches],
    }


def _errors(path: OutlierPath | PairwiseOutlierPath, X: Any, y: Any, spec: ModelSpec) -> Document:
    values, errors = path.validation_errors(X, y)
    i = int(np.argmin(errors))
    return {
        "what": error_of(spec),
        "value": values.tolist(),
        "error": errors.tolist(),
        "best": {"value": float(values[i]), "error": float(errors[i])},
    }


def make_robust(result: Document, choice: Document) -> Change:
    """Return the update that makes a live model robust, with the chosen value of the parameter or else the best."""
    if "pairs" in result:
        reason = "a robust model is of two classes; relabel or remove what is suspected, in one update"
        raise NotApplicable(reason)
    for name in choice.keys() - {"value"}:
        raise InvalidInput("only the value of the parameter can be chosen", field=f"choice.{name}")
    best = result.get("validation", {}).get("best", {}).get("value", result["end"])
    value = choice.get("value", best)
    low, high = sorted((result["start"], result["end"]))
    if type(value) not in (int, float) or not min(low, best) <= value <= max(high, best):
        raise InvalidInput(f"must be a number from {low:g} to {high:g}, not {value!r}", field="choice.value")
    theta, s = (value, result["fixed"]) if result["parameter"] == "theta" else (result["fixed"], value)
    sides = {key: side for (key, _), side in _sides_at(result, float(value)).items()}
    return Change(edits=Edits(robust=Robustness(float(theta), float(s), sides)))


def _sides_at(result: Document, value: float) -> dict[tuple[Key, int], int]:
    """Map each outlier at a parameter value, given by (key, pair or 0), to the side of the loss where it lies."""
    direction = 1.0 if result["end"] >= result["start"] else -1.0
    switches, first = result["switches"], result["outliers_at_start"]
    sides = dict(zip(_places(first), first["side"], strict=True))
    passed = zip(switches["value"], _places(switches), switches["side"], strict=True)
    sides.update((place, side) for at, place, side in passed if direction * at <= direction * value)
    return {place: side for place, side in sides.items() if side}


def _places(table: Document) -> list[tuple[Key, int]]:
    return list(zip(table["key"], table.get("pair", [0] * len(table["key"])), strict=True))


def plot(result: Document, extension: Extension) -> bytes:
    """Draw the validation error and the number of outliers over the parameter."""
    x, counts = [result["start"]], [len(set(result["outliers_at_start"]["key"]))]
    for value in dict.fromkeys(result["switches"]["value"]):
        x += [value, value]
        counts += [counts[-1], len({key for key, _ in _sides_at(result, value)})]
    curves = [Curve("outliers", [*x, result["end"]], [*counts, counts[-1]])]
    best = None
    if "validation" in result:
        found = result["validation"]
        curves.insert(0, Curve(f"validation: {found['what']}", found["value"], found["error"]))
        best = found["best"]["value"], found["best"]["value"]
    title = f"Outlier path of {result['n_examples']} examples, {result['d_steps']} changes of influence"
    return plots.draw(extension, title, result["parameter"], curves, best, logarithmic=False)


KIND = JobKind(
    summary="Walk the outlier path",
    description="""
Find which labels (`svr`: targets) look wrong, and robust models that do not follow them.

The result holds `suspected`: keys in the order in which they lost their influence, each with the `value` at which it
did. It holds all `switches` along the path. With `validation` data, or a share held back, it has the error at each
breakpoint and the `best` value. Applying the job makes the live model robust with that value, or with `{"choice":
{"value": ..}}`, and it stays so; a theta of 1 makes it convex again.

Of more than two classes there is a path for each of the `pairs` [a, b]: `pair` says of which one a switch is, and
`suspected_by_pair` lists each. `suspected` is one list by example, with its `label` and the `others` that it gave way
to, the likeliest first. Such a result cannot be applied: relabel or remove what is suspected in one update.
""",
    request=OutlierPathRequest,
    check=_ordered,
    run=walk,
    apply=make_robust,
    plot=plot,
    copies=3,
    family="outlier paths",
)
