"""Choice of the ``auto`` settings, which are representation, gamma and C, by rolling-origin errors of exact models.

Models are trained on the first part of the window. The models then move through the second part in blocks, and forecast
every block before they learn it [Tashman 2000]. One setting is varied after the other, starting from values that suit
most series: the representation, then gamma, then C. If models are not clearly better than naive forecasts, and the feed
has no blends, models that stay close to naive forecasts are tried too. All trials are kept with their errors, for
display.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.features import RowLayout
from livesvm.service.feeds.represent import reference, reference_at, represented
from livesvm.service.feeds.rows import Rows
from livesvm.service.feeds.spec import FeedSpec, Represent
from livesvm.service.feeds.step_model import Recipe, StepModel, weights

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST = 10_000  #: readings that are tried, the newest ones of a larger window
FIRST = 0.6  #: share of them that is learnt before the first forecast
BLOCKS = 10  #: in which the rest is
TRIED = 4  #: steps that are tried; others take what was chosen for the nearest
GAMMAS = (0.02, 0.1, 0.4)  #: times 1 / number of features
COSTS = (0.1, 0.3, 1.0, 3.0, 10.0)
CAUTIOUS = (0.01, 0.001)  #: C where nothing is clearly ahead of naive forecasts: models that hardly differ from them
START_GAMMA, START_C = 0.1, 1.0
LEAST = 10  #: examples of a first model
BETTER = 0.97  #: times the error of the settings so far, which others have to stay below


@dataclass(frozen=True)
class Trial:
    """A recipe with its error: the mean absolute error or, for directions, the share of wrong forecasts."""

    step: int
    recipe: Recipe
    error: float


@dataclass
class Choice:
    """The recipe chosen for each step, and all trials."""

    recipes: list[Recipe]
    trials: list[Trial] = field(default_factory=list)
    residuals: list[Floats] = field(default_factory=list)  #: of each step, reading minus forecast (minus quantiles)

    def table(self) -> list[dict[str, Any]]:
        """Return the trials as rows."""
        return [{"step": t.step, **t.recipe._asdict(), "error": t.error} for t in self.trials]


def examples(
    spec: FeedSpec, rows: Rows, step: int, represent: Represent, ordinals: Sequence[int]
) -> tuple[Floats, Floats]:
    """Return features (m, d) and targets (m,) of rows for ``step``, an index; unknown targets are NaN."""
    (shared, every), actual = rows.features(ordinals), rows.target[rows.places(ordinals), step]
    own = every[:, step]
    level = shared[:, 0] if spec.task == "direction" else reference(rows.layout, represent, shared, own)
    return represented(rows.layout, represent, shared, own), _relative(spec, actual, level)


def targets(spec: FeedSpec, rows: Rows, step: int, represent: Represent, ordinals: Ints) -> Floats:
    """Return the targets (m,) of rows for ``step``, an index, as :func:`examples` does, but not the features."""
    at = 0 if spec.task == "direction" else reference_at(rows.layout, represent)
    actual = rows.target[ordinals % rows.size, step]
    return _relative(spec, actual, rows.column(ordinals, step, at))


def _relative(spec: FeedSpec, actual: Floats, level: Floats) -> Floats:
    if spec.task == "direction":
        return np.where(np.isnan(actual), np.nan, np.where(actual > level, 1.0, -1.0))
    return actual - level


def rolling_forecasts(spec: FeedSpec, rows: Rows, step: int, recipe: Recipe) -> tuple[Floats, Floats]:
    """Return rolling-origin forecasts (m, models) and targets (m,) for the later part of the window.

    No reading of a block is known when the block is forecast: examples are learnt only after their targets have
    arrived. If the window is too short, both arrays are empty.
    """
    ordinals = rows.known(step)[-MOST:]
    X, y = examples(spec, rows, step, recipe.represent, ordinals)
    slots = rows.slot[rows.places(ordinals)]
    ahead = spec.horizons[step]
    ready = np.searchsorted(slots, slots - ahead, side="right")  # how many are known when each is forecast
    first = max(round(FIRST * len(y)), int(np.searchsorted(ready, LEAST)))
    edges = np.unique(np.linspace(first, len(y), BLOCKS + 1).astype(int))
    model, learnt, found = StepModel(spec, recipe), 0, []
    for start, end in pairwise(edges.tolist()):
        new = slice(learnt, int(ready[start]))
        keys = list(range(len(y)))[new]
        if model.scale is None:
            model.fit(X[new], y[new], keys)
        else:
            model.update(X[new], y[new], keys, [])
        learnt = int(ready[start])
        found.append(model.predict(X[start:end]))
    if not found:
        return np.empty((0, len(model.models))), np.empty(0)
    return np.concatenate(found), y[first:]


def choose(spec: FeedSpec, rows: Rows) -> Choice:
    """Choose the ``auto`` settings of every step, from the current window."""
    return tried_out(spec, rows, *choose_together(spec, [rows]))


def choose_together(spec: FeedSpec, windows: Sequence[Rows]) -> tuple[list[Recipe], list[Trial]]:
    """Choose the ``auto`` settings that feeds share, from their windows; return a recipe for each step, and all trials.

    All windows have the same layout of features. With several windows, each error is divided by the first recipe's
    error in the same window.
    """
    tried = tried_steps(spec.horizons)
    trials: list[Trial] = []
    best = {i: _search(spec, windows, i, trials) for i in tried}
    nearest = [min(tried, key=lambda i: abs(math.log(spec.horizons[i] / step))) for step in spec.horizons]
    return [best[i] for i in nearest], trials


def tried_out(spec: FeedSpec, rows: Rows, recipes: list[Recipe], trials: list[Trial]) -> Choice:
    """Return a choice of the given recipes, one for each step, with their residuals late in the window."""
    choice = Choice(recipes, trials)
    if spec.coverage is not None or spec.has_blends:
        for step, recipe in enumerate(choice.recipes):
            forecasts, y = rolling_forecasts(spec, rows, step, recipe)
            choice.residuals.append(y[:, None] - forecasts)
    return choice


def tried_steps(horizons: tuple[int, ...]) -> list[int]:
    """Return the indices of the steps to try: all steps if these are few, otherwise some at growing distances."""
    if len(horizons) <= TRIED:
        return list(range(len(horizons)))
    wanted = np.geomspace(horizons[0], horizons[-1], TRIED)
    return sorted({min(range(len(horizons)), key=lambda i: abs(horizons[i] - w)) for w in wanted})


def usual(spec: FeedSpec, layout: RowLayout) -> Recipe:
    """Return the recipe that suits most series; settings that are not ``auto`` stay."""
    represent: Represent = "change" if spec.represent == "auto" else spec.represent
    gamma = START_GAMMA / _size(spec, layout) if spec.gamma == "auto" else spec.gamma
    return Recipe(represent, gamma, START_C if spec.C == "auto" else spec.C)


def adapted(recipe: Recipe, of: tuple[FeedSpec, RowLayout], to: tuple[FeedSpec, RowLayout]) -> Recipe:
    """Adapt a recipe for the features ``of`` one feed to the fewer features ``to``; gamma keeps its effect."""
    spec, layout = to
    if recipe.represent == "seasonal-change" and not layout.seasons:
        recipe = recipe._replace(represent="change")
    return recipe if spec.gamma != "auto" else recipe._replace(gamma=recipe.gamma * _size(*of) / _size(*to))


def _size(spec: FeedSpec, layout: RowLayout) -> float:
    """Return the number of features, in which each counts as its squared factor."""
    return float((weights(spec, layout.shared + layout.own) ** 2).sum())


def _search(spec: FeedSpec, windows: Sequence[Rows], step: int, trials: list[Trial]) -> Recipe:
    layout = windows[0].layout
    represents: list[Represent] = ["change", "level"]
    if layout.seasons and spec.task == "value":
        represents.append("seasonal-change")
    gammas = [g / _size(spec, layout) for g in GAMMAS] if spec.gamma == "auto" else [spec.gamma]
    costs = list(COSTS) if spec.C == "auto" else [spec.C]
    start = usual(spec, layout)
    plain = spec.model_copy(update={"quantiles": None})
    known: dict[Recipe, float] = {}
    naive = math.inf  # the error of the references that changes were taken from, which are the naive forecasts
    units: list[float] = []

    def error(recipe: Recipe) -> float:
        nonlocal naive
        if recipe not in known:
            found = [rolling_forecasts(plain, rows, step, recipe) for rows in windows]
            errors = [_error(plain, forecasts, y) for forecasts, y in found]
            if not units:
                units.extend(one if 0 < one < math.inf and len(errors) > 1 else 1.0 for one in errors)
            known[recipe] = sum(one / unit for one, unit in zip(errors, units, strict=True)) / len(errors)
            if recipe.represent != "level" and found[0][1].size and spec.task == "value":
                reported = [float(np.abs(y).mean()) / unit for (_, y), unit in zip(found, units, strict=True)]
                naive = min(naive, sum(reported) / len(reported))
            trials.append(Trial(spec.horizons[step], recipe, known[recipe]))
        return known[recipe]

    best = start
    if spec.represent == "auto":
        best = _least(best, [best._replace(represent=r) for r in represents], error)
    best = _least(best, [best._replace(gamma=g) for g in gammas], error)
    best = _least(best, [best._replace(C=c) for c in costs], error)
    if spec.C != "auto" or spec.has_blends or error(best) < BETTER * naive:
        return best
    represent = best.represent if spec.represent != "auto" else "change"
    cautious = [best._replace(represent=represent, gamma=gammas[0], C=c) for c in CAUTIOUS]
    return min([best, *cautious], key=error)


def _least(best: Recipe, others: list[Recipe], error: Callable[[Recipe], float]) -> Recipe:
    """Return the recipe with the least error if it is clearly better than ``best``, otherwise ``best``."""
    if others == [best]:
        return best
    least = min(others, key=error)
    return least if error(least) < BETTER * error(best) else best


def _error(spec: FeedSpec, forecasts: Floats, y: Floats) -> float:
    if y.size == 0:
        return math.inf
    if spec.task == "direction":
        return float(np.mean((forecasts[:, 0] > 0) != (y > 0)))
    return float(np.abs(y - forecasts[:, 0]).mean())
