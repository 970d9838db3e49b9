"""The job that chooses a model's parameters by the model's window: the request, the result, and how to apply it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import ConfigDict, Field, model_validator

from livesvm.service.errors import EmptyModel, NoPlot, NotApplicable
from livesvm.service.hosting.handle import Description
from livesvm.service.jobs import plots
from livesvm.service.jobs.kind import Document, JobKind, Order
from livesvm.service.jobs.plots import Extension
from livesvm.service.jobs.regularization_path import error_of
from livesvm.service.models.fields import SHORT, Cost, Request
from livesvm.service.models.learners import task_of
from livesvm.service.models.self_tuning import chosen
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.solvers.analyses.tuning.automatic import LEAST, choose
from livesvm.solvers.analyses.tuning.tune import tune
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.change import TUNED, Change, Edits
from livesvm.solvers.runtime.progress import Progress

Range = Annotated[list[Cost], Field(min_length=2, max_length=2)]
MOST_GAMMAS = 50


class TuneRequest(Request):
    """How to tune a model: the parameter values to try, and which examples of its window are held out to judge them."""

    most_bytes = SHORT
    model_config = ConfigDict(json_schema_extra={"examples": [{"judge": "k-fold", "folds": 5}]})

    gammas: Annotated[list[Cost], Field(min_length=1, max_length=MOST_GAMMAS)] | None = Field(
        default=None, description="Values to try; a grid around `scale` when absent."
    )
    C: Range = Field(
        default=[2.0**-5, 2.0**15],
        description="From, to. `svr` by folds: every value between is tried; `svc`: one an octave, and 9 at least; 9 "
        "in all by `leave-one-out`, with balanced classes, and of `pu`.",
    )
    epsilon: Range | None = Field(default=None, description="`svr`: from, to; left as it is when absent.")
    judge: Literal["k-fold", "leave-one-out", "rolling-origin", "evidence"] | None = Field(
        default=None,
        description="What is held out: folds, every example once, or stretches of time, by `times`. `evidence`: the "
        "model chooses as it tunes itself, and stands alone. Absent: that where a model tunes itself and nothing else "
        "is asked for; else `k-fold`.",
    )
    folds: int = Field(default=5, ge=2, le=1000, description="Of `k-fold` and `rolling-origin`.")

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        for name, given in (("C", self.C), ("epsilon", self.epsilon)):
            if given is not None and not given[0] < given[1]:
                raise InvalidInput(f"must be an ascending range, not {given}", field=name)
        return self


def _ordered(request: TuneRequest, spec: ModelSpec, now: Description) -> Order:
    if not (task_of(spec).is_changeable and spec.has_C):
        raise NotApplicable(f"models of task {spec.task} are not tuned")
    n = now.sizes.n_examples
    if n == 0:
        raise EmptyModel(f"model {spec.id} knows no example yet")
    if request.judge is None:
        alone = now.tuning is not None and not request.model_fields_set - {"judge"}
        request.judge = "evidence" if alone else "k-fold"
    if request.judge == "evidence":
        return _to_choose(request, n, now)
    if request.epsilon is not None and (spec.epsilon is None or request.judge == "leave-one-out"):
        raise InvalidInput("is chosen for the loss epsilon_insensitive, by folds", field="epsilon")
    if request.judge != "leave-one-out" and request.folds > max(n // 2, 1):
        raise InvalidInput(f"asks for {2 * request.folds} examples at least, the window holds {n}", field="folds")
    if now.counts is not None and sum(count > 0 for count in now.counts.values()) < 2:
        raise InvalidInput("all examples have one class; there is nothing to choose by", field="window")
    return Order(request.model_dump(exclude_none=True))


def _to_choose(request: TuneRequest, n: int, now: Description) -> Order:
    """Return the Order for a job in which a self-tuning model chooses its parameters; raises InvalidInput."""
    if now.tuning is None:
        raise InvalidInput("is for models that tune themselves; change C to auto", field="judge")
    for name in request.model_fields_set - {"judge"}:
        raise InvalidInput("is left to the model; evidence stands alone", field=name)
    if n < LEAST:
        raise InvalidInput(f"holds {n} examples; {LEAST} are needed to choose by", field="window")
    return Order({"judge": request.judge})


def work(asked: Document, model: ModelCopy, progress: Progress) -> Document:
    """Return the best parameters for a window, and the error of all parameters that were tried."""
    estimator: Any = model.estimator()
    if asked["judge"] == "evidence":
        return {"judge": "evidence", **chosen(choose(estimator), "asked", is_first=not estimator.chosen_)}
    epsilon = asked.get("epsilon")
    found = tune(
        estimator,
        gammas=asked.get("gammas"),
        C=(asked["C"][0], asked["C"][1]),
        epsilon=None if epsilon is None else (epsilon[0], epsilon[1]),
        judge=asked["judge"].replace("-", "_"),
        folds=asked["folds"],
        times=model.times,
        progress=progress,
    )
    return {
        "parameters": found.parameters,
        "error": found.error,
        "what": error_of(model.spec),
        **model.on_scale,
        "judge": asked["judge"],
        "gammas": found.gammas.tolist(),
        "C": found.C.tolist(),
        "errors": [[value if np.isfinite(value) else None for value in line] for line in found.errors.tolist()],
        "n_examples": estimator.n_window_,
        "seconds": found.seconds,
    }


def take_over(result: Document, choice: Document) -> Change:
    """Return the update that gives a live model the parameters found, or the parameters that ``choice`` has instead."""
    found = result["parameters"]
    if result.get("judge") == "evidence":
        if choice:
            raise InvalidInput("there is nothing to choose of what a model has chosen itself", field="choice")
        return Change(edits=Edits(change={TUNED: {name: result[name] for name in result if name != "judge"}}))
    for name, value in choice.items():
        if name not in found:
            raise InvalidInput(f"is none of {', '.join(found)}", field=f"choice.{name}")
        if type(value) not in (int, float) or not 0 < value <= 1e8:
            raise InvalidInput(f"must be a number above 0, not {value!r}", field=f"choice.{name}")
    return Change(edits=Edits(change={name: float(choice.get(name, value)) for name, value in found.items()}))


def plot(result: Document, extension: Extension) -> bytes:
    """Draw the error over gamma and C, or over C alone for a kernel without gamma; raises NoPlot."""
    if result.get("judge") == "evidence":
        raise NoPlot("what a model has chosen itself has no plot")
    errors = np.array(result["errors"], np.float64)
    title = f"Error of {result['n_examples']} examples ({result['judge']}), at best {result['error']:.4g}"
    if len(errors) == 1:
        curve = plots.Curve(result["what"], result["C"], errors[0].tolist())
        return plots.draw(extension, title, "C", [curve], (result["parameters"]["C"],) * 2)
    best = result["parameters"]["C"], result["parameters"]["gamma"]
    labels = "C", "gamma", result["what"]
    return plots.draw_field(extension, title, labels, result["C"], result["gammas"], errors, best)


KIND = JobKind(
    path="tune",
    summary="Choose gamma and C, by the window itself",
    description="""
Try gamma on a grid and C (`svr`: on request epsilon) along exact paths. Judge each by examples of the window that the
model did not see: folds, leave-one-out, or intervals of time after the examples learnt. These use the `times` of the
examples, or their arrival.

The result holds the best `parameters` with their `error`, the least of `errors`. These, which `plot` shows, have a list
over `C` for each of `gammas`, null where a gamma was given up early. Where values of `C` in a row have the least error,
the middle one of the longest row is best. To apply the job changes the live model to the best
parameters, or to `{"choice": {"C": .., "gamma": ..}}`, as one logged update. A model that tunes itself keeps these.

By `evidence` a model that tunes itself chooses again, `columns`, `epsilon` and `target_scale` too. The result holds
`parameters`, their `loss` of held-out examples, and that of the `present` parameters and of the `defaults`. To apply it
is one logged update, after which the model goes on tuning itself; it `changes` nothing where nothing is clearly better.
""",
    request=TuneRequest,
    check=_ordered,
    run=work,
    apply=take_over,
    plot=plot,
    copies=3,
    family=("regularization paths", "assessments"),
)
