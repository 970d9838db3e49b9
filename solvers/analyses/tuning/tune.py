"""Choice of gamma on a grid, and of C and epsilon along exact paths, by the errors of held-out examples."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.analyses.leave_one_out.assessment import in_order, leave_one_out
from livesvm.solvers.analyses.regularization.optima import ErrorCurve, mean_of
from livesvm.solvers.analyses.regularization.path import regularization_path
from livesvm.solvers.analyses.tuning.folds import Fold, Judge, Split, folds_of, splits
from livesvm.solvers.analyses.tuning.stepwise import FoldWorkspace
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.kernel import has_gamma
from livesvm.solvers.models import scaling
from livesvm.solvers.models.model_view import View
from livesvm.solvers.runtime.html import html_of
from livesvm.solvers.runtime.progress import Progress, Teller, steadily
from livesvm.solvers.runtime.types import Bools, Floats

STEP = 4.0
GAMMAS = STEP ** np.arange(-5.0, 4.0)  #: of the gamma called "scale"
POINTS = 15  #: values of C of the picture of a curve
STEPS = 9  #: values of C where there is no curve over all of them
SURE = 2.0  #: standard deviations by which one that was judged by next to no example would have to be behind
BEYOND = 3  #: so many more values of gamma are tried beyond an end that is the best


@dataclass(frozen=True)
class Tuning:
    """The parameters that were tried, with their errors, and the best parameters.

    Attributes
    ----------
    parameters : dict
        The best, to be handed to ``change``: gamma, C, and epsilon where that was asked for.
    error : float
        Of those, the least of ``errors``: share of wrong labels, or mean absolute error in units of y.
    gammas : ndarray, shape (g,)
        What was tried, ascending; empty for a kernel without.
    C : ndarray, shape (p,)
        Values of C, ascending, with the best one among them: all that were tried, but of regression by folds, which
        tries every value of the range, some of it.
    errors : ndarray, shape (g, p)
        The error there; NaN where it was plain before the end that a gamma is not the best. Those of the best gamma
        are with the best epsilon, where that was asked for.
    seconds : float
        Wall time.
    """

    parameters: dict[str, float]
    error: float
    gammas: Floats
    C: Floats
    errors: Floats
    seconds: float

    _repr_html_ = html_of

    def apply(self, model: Any) -> Any:
        """Give a live model the best parameters.

        Parameters
        ----------
        model : live estimator
            The model that was tuned.

        Returns
        -------
        UpdateReport
            What the update did.
        """
        return model.change(**self.parameters)


def tune(
    model: Any,
    *,
    gammas: Sequence[float] | None = None,
    C: tuple[float, float] = (2.0**-5, 2.0**15),
    epsilon: tuple[float, float] | None = None,
    judge: Judge = "k_fold",
    folds: int = 5,
    times: ArrayLike | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Return the best parameters of a fitted classifier or regressor for its window. The model stays as it is.

    The parameters with the least error are best. If consecutive values of C have the least error, the middle of the
    longest such run is chosen. If several gammas have the least error, the one that was tried first is chosen, which is
    nearest to the middle of the grid. Each training part is learnt with the model's other parameters, and the ``scale``
    of features is fitted to this part.

    Parameters
    ----------
    model : live estimator
        A fitted classifier or regressor; it is not changed.
    gammas : sequence of float, or None, default None
        Values to try; by default 9 around the one called "scale", without those with neighbours far from the
        best, and some beyond where the best is at an end.
    C : tuple of float, default (2**-5, 2**15)
        The range of C. In regression with folds every value is tried; of classifiers one an octave along the path, and
        9 at least; 9 in all with ``judge="leave_one_out"``, with balanced classes, and of positive and unlabelled
        examples.
    epsilon : tuple of float, or None, default None
        A range of half widths of the tube, in units of y; the best is searched at the best gamma and C, then C
        once more.
    judge : {"k_fold", "rolling_origin", "leave_one_out"}, default "k_fold"
        Which examples judge; of "rolling_origin" the past judges nothing.
    folds : int, default 5
        How many, of the first two.
    times : array_like, shape (n,), or None, default None
        When each of the window's examples happened (numbers, datetimes or ISO 8601 texts), by which they are
        ordered; by default, and of equals, as they came.
    progress : callable or None, default None
        Called with how much is done and how much there is; returning False raises Cancelled.

    Returns
    -------
    Tuning
        What was tried, and what is best.

    Raises
    ------
    InvalidInput
        Something cannot be used, or the kernel is precomputed.
    NotOptimal
        A path could not be followed.
    """
    started = time.perf_counter()
    view = View(model)
    if model.kernel == "precomputed":
        raise InvalidInput("a precomputed kernel has no parameters to choose", field="kernel")
    if not hasattr(model, "change") or not hasattr(model, "C"):
        raise InvalidInput("only classifiers and regressors are tuned", field="model")
    low, high = (validation.positive(value, "C", validation.LARGEST) for value in C)
    if not low < high:
        raise InvalidInput(f"must be an ascending range, not {C!r}", field="C")
    search = _Search(view, _values(view, low, high, judge), judge, folds, times, epsilon)
    tried = _gammas(model, gammas)
    with steadily(progress, 1000) as tell:
        search.tell = tell
        _over(search, tried, thin=gammas is None and len(tried) > 1)
        gamma = search.best()
        chosen = {"gamma": gamma} if has_gamma(model.kernel) else {}
        if epsilon is not None:
            chosen["epsilon"], search.lines[gamma] = search.with_epsilon(gamma, search.lines[gamma].C, epsilon)
    best, found = search.lines[gamma], dict(sorted(search.lines.items()))
    values = np.union1d(search.C, best.C)
    errors = np.array([line.on(values) for line in found.values()])
    kept = np.array(list(found)) if "gamma" in chosen else np.empty(0)
    return Tuning({"C": best.C, **chosen}, best.error, kept, values, errors, time.perf_counter() - started)


def _values(view: View, low: float, high: float, judge: Judge) -> Floats:
    """Return the values of C to try; a regression by folds tries every C, and reports the errors at these values."""
    if view.shares_costs or judge == "leave_one_out":
        return np.geomspace(low, high, STEPS)
    if hasattr(view.model, "classes_"):
        return np.geomspace(low, high, max(STEPS, math.ceil(math.log2(high / low)) + 1))
    return np.geomspace(low, high, POINTS)


def _gammas(model: Any, given: Sequence[float] | None) -> list[float]:
    """Return the values of gamma to try, ascending."""
    if not has_gamma(model.kernel):
        return [model.gamma_]
    if given is not None:
        out = sorted({validation.positive(value, "gammas") for value in given})
        if not out:
            raise InvalidInput("must hold a value at least", field="gammas")
        return out
    fresh = model._like(gamma="scale")
    rows, weights = model.window_features, model.window_sample_weight
    scale = fresh._scale_alone(rows, weights)
    middle = scaling.gamma(rows if scale is None else scale.apply(rows), weights, model.kernel)
    return [float(value) for value in middle * GAMMAS]


def _over(search: _Search, gammas: list[float], *, thin: bool) -> None:
    """Try gammas from the middle of the grid outwards: all gammas, or if ``thin``, first only every second one.

    If ``thin``, gammas further out than one that was given up are skipped. Then the neighbours of the best gamma are
    tried, and if the best gamma is at an end of the grid, also gammas beyond this end.
    """
    middle = len(gammas) // 2
    order = sorted(range(len(gammas)), key=lambda i: (abs(i - middle), i))
    first = [i for i in order if not thin or (i - middle) % 2 == 0]
    for i in first:
        inner = gammas[i + 2 if i < middle else i - 2] if thin and i != middle else None
        if inner is None or (inner in search.lines and not search.lines[inner].is_given_up):
            search.try_gamma(gammas[i])
    if thin:
        at = gammas.index(search.best())
        for i in (at - 1, at + 1):
            if 0 <= i < len(gammas):
                search.try_gamma(gammas[i])
        for end, factor in ((min, 1.0 / STEP), (max, STEP)):
            for _ in range(BEYOND if search.best() == end(search.lines) else 0):
                search.try_gamma(factor * end(search.lines))
                if search.best() != end(search.lines):
                    break


@dataclass(frozen=True)
class _Line:
    """The error as a function of C at one gamma: a curve, or values on a grid, or a bound if the gamma was given up."""

    C: float
    error: float  #: there, the least
    curve: ErrorCurve | None
    values: Floats | None = None
    wrong: Bools | None = None  #: the examples labelled wrongly there, by fold

    @property
    def is_given_up(self) -> bool:
        """Whether this gamma was given up, because it cannot be the best, before all folds were judged."""
        return self.curve is None and self.values is None

    def on(self, grid: Floats) -> Floats:
        """Return the errors at the values of C in ``grid``; NaN for a gamma that was given up."""
        if self.curve is not None:
            return np.array([self.curve(value) for value in grid])
        return np.full(grid.size, np.nan) if self.values is None else self.values


def _given_up(C: float, error: float, least: float) -> _Line:
    """Return the record of a gamma that cannot be the best, with an error above ``least``, the least error so far."""
    return _Line(C, max(error, math.nextafter(least, math.inf)), None)


def _least(errors: Floats) -> int:
    """Return the index of the least error; of several equal ones, the middle of their longest consecutive run."""
    least = np.flatnonzero(errors == errors.min())
    longest = max(np.split(least, np.flatnonzero(np.diff(least) > 1) + 1), key=len)
    return int(longest[(longest.size - 1) // 2])


def _is_behind(mine: Bools, best: Bools | None, share: float) -> bool:
    """Return whether ``mine`` has clearly more wrong labels than ``best``, for the ``share`` judged so far."""
    if best is None:
        return False
    best = best[: mine.size]
    more = np.count_nonzero(mine) - np.count_nonzero(best)
    return bool(more > SURE * (1.0 - share) * math.sqrt(np.count_nonzero(mine != best)))


@dataclass
class _Search:
    """The state of a search: the settings, and the errors of the gammas tried so far."""

    view: View
    C: Floats
    judge: Judge
    folds: int
    times: ArrayLike | None = None
    epsilon: tuple[float, float] | None = None  #: the range in which it is chosen
    lines: dict[float, _Line] = field(default_factory=dict)
    tell: Teller = field(default_factory=lambda: Teller(None, 1))
    laid_out: list[Fold] = field(default_factory=list)
    workspace: FoldWorkspace | None = None

    def __post_init__(self) -> None:
        model: Any = self.view.model
        order = in_order(self.times, model.n_window_)
        columns = (model.window_features, model.window_y, model.window_sample_weight)
        self.X, self.y, self.weights = (column[order] for column in columns)
        self.classes = hasattr(model, "classes_")
        self.parts: list[Split] = []
        if self.judge != "leave_one_out":
            self.parts = splits(self.y, self.judge, self.folds, classes=self.classes)
            if self.classes and not self.view.shares_costs:  # folds walk over C in compiled code, where that can be
                self.laid_out = folds_of(model, self.X, self.y, self.weights, self.parts)
                self.workspace = FoldWorkspace(max(learnt.size for learnt, _ in self.parts)) if self.laid_out else None
        elif self.y.size < 3:
            raise InvalidInput("at least three examples are needed", field="window")

    def best(self) -> float:
        """Return the gamma with the least error so far; of equal errors the one that was tried first."""
        return min(self.lines, key=lambda one: self.lines[one].error)

    def try_gamma(self, gamma: float) -> None:
        """Compute and store the errors of all values of C for this gamma."""
        self.tell(len(self.lines), len(GAMMAS))
        if self.judge == "leave_one_out":
            self.lines[gamma] = self._left_out(gamma)
        elif self.view.shares_costs and not self.view.pairs:
            self.lines[gamma] = self._together(gamma)
        elif self.classes:
            self.lines[gamma] = self._on_grid(gamma)
        else:
            limits = (float(self.C[0]), float(self.C[-1]))
            start = {"gamma": gamma, "C": limits[0]}
            if self.epsilon is not None and hasattr(self.view.model, "epsilon"):
                start["epsilon"] = float(np.clip(self.view.value_of("epsilon"), *self.epsilon))
            self.lines[gamma] = self._along(lambda part: regularization_path(part, "C", *limits), start)

    def with_epsilon(self, gamma: float, C: float, limits: tuple[float, float]) -> tuple[float, _Line]:
        """Return the best epsilon for the given gamma and C, and the errors over C with this epsilon."""
        if not self.parts or not hasattr(self.view.model, "epsilon_path"):
            raise InvalidInput("is chosen for regression, by folds", field="epsilon")
        start = {"gamma": gamma, "C": C, "epsilon": limits[0]}
        epsilon = self._along(lambda part: part.epsilon_path(*limits), start, bounded=False).C
        ends = (float(self.C[0]), float(self.C[-1]))
        start = {"gamma": gamma, "C": ends[0], "epsilon": epsilon}
        return epsilon, self._along(lambda part: regularization_path(part, "C", *ends), start, bounded=False)

    def _model(self, learnt: Any, parameters: dict[str, float]) -> Any:
        model: Any = self.view.model
        made = model._like(**parameters)
        made.update(add=(self.X[learnt], self.y[learnt]), sample_weight=self.weights[learnt])
        return made

    def _along(self, walk: Callable[[Any], Any], parameters: dict[str, float], *, bounded: bool = True) -> _Line:
        """Follow a path in each fold; give up once the errors so far exceed those of the best gamma in all folds."""
        least = min((line.error for line in self.lines.values()), default=math.inf) if bounded else math.inf
        curves, sizes, total = [], [], sum(judging.size for _, judging in self.parts)
        for learnt, judging in self.parts:
            path = walk(self._model(learnt, parameters))
            curves.append(path.validation_error(self.X[judging], self.y[judging]))
            sizes.append(judging.size)
            whole = mean_of(curves, np.array(sizes) / total)
            value = whole.best().value
            if whole(value) > least:
                return _given_up(value, whole(value) * total / sum(sizes), least)
        return _Line(value, whole(value), whole)

    def _on_grid(self, gamma: float) -> _Line:
        """Follow C from value to value in each fold, and count the held-out examples with a wrong label.

        The gamma is given up once the folds so far have more wrong labels than the best gamma has in all folds. A gamma
        is also given up once it has more wrong labels than the best gamma on the same examples, by more than chance
        explains, as in a race [Maron and Moore 1994]. The margin for chance shrinks towards the end, because the choice
        between two nearly equal gammas matters little.
        """
        best = min(self.lines.values(), key=lambda line: line.error, default=None)
        total, seen = sum(judging.size for _, judging in self.parts), 0
        wrong = np.empty((self.C.size, total), np.bool_)
        for fold, (_, judging) in enumerate(self.parts):
            wrong[:, seen : seen + judging.size] = self._wrong(fold, gamma)
            seen += judging.size
            errors = wrong[:, :seen].sum(axis=1) / total
            at = _least(errors)
            mine = wrong[at, :seen]
            if best is not None and (errors[at] > best.error or _is_behind(mine, best.wrong, seen / total)):
                return _given_up(float(self.C[at]), float(mine.mean()), best.error)
        return _Line(float(self.C[at]), float(errors[at]), None, errors, mine)

    def _wrong(self, fold: int, gamma: float) -> Bools:
        """Return a mask (p, m) of the wrongly labelled held-out examples of a fold, for each value of C."""
        model: Any = self.view.model
        if self.laid_out and self.workspace is not None:
            intercept = bool(model.fit_intercept)
            found = self.laid_out[fold].wrong(model._kernel(gamma), self.C, self.workspace, intercept=intercept)
            if found is not None:
                return found
        learnt, judging = self.parts[fold]
        return np.array([one.predict(self.X[judging]) != self.y[judging] for one in self._along_C(learnt, gamma)])

    def _along_C(self, learnt: Any, gamma: float) -> Iterator[Any]:
        """Yield a model trained on the examples ``learnt``, for one value of C after the other."""
        model = self._model(learnt, {"gamma": gamma, "C": float(self.C[0])})
        yield model
        for value in self.C[1:].tolist():
            model.update(C=value)
            yield model

    def _together(self, gamma: float) -> _Line:
        """Follow C from value to value in each fold, and compute one error from the held-out decisions of all folds.

        This method is for positive and unlabelled examples: their error is not a mean over examples, because their
        labels do not show which decisions are wrong.
        """
        f = np.empty((self.C.size, self.y.size))
        for learnt, judging in self.parts:
            for i, model in enumerate(self._along_C(learnt, gamma)):
                f[i, judging] = model.decision_function(self.X[judging])
        indices = np.concatenate([judging for _, judging in self.parts])
        targets = self.view.targets(self.y[indices], indices.size)
        return self._of_values(np.array([self.view.error(line, targets) for line in f[:, indices]]))

    def _left_out(self, gamma: float) -> _Line:
        """Follow C from value to value on the whole window, and compute the leave-one-out error at each value."""
        return self._of_values(np.array([leave_one_out(model).error for model in self._along_C(slice(None), gamma)]))

    def _of_values(self, errors: Floats) -> _Line:
        """Return the record of a gamma with these ``errors`` at the values of C."""
        at = _least(errors)
        return _Line(float(self.C[at]), float(errors[at]), None, errors)
