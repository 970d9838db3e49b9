"""The exact live models of one step: raw rows in, forecasts out, in units of the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.represent import Scale, fitted, has_moved
from livesvm.service.feeds.spec import FeedSpec, Represent
from livesvm.solvers.estimators.classification import LiveSVC
from livesvm.solvers.estimators.regression import LiveSVR

Floats = NDArray[np.float64]

EPSILON = 0.05
MOST = 6.0  #: widths from the median: features count as no further
CACHE_MB = 64


class Recipe(NamedTuple):
    """What is chosen of a step's model."""

    represent: Represent
    gamma: float
    C: float


def new_models(spec: FeedSpec, recipe: Recipe, core: float = 1.0) -> list[LiveSVR | LiveSVC]:
    """Return untrained models: of the forecast, then of the band's quantiles, if it has any.

    The tube without loss is ``core`` times as wide as usual: where two thirds of the targets are the same, it is their
    noise that would fill it.
    """
    common: dict[str, Any] = {"C": recipe.C, "gamma": recipe.gamma, "cache_mb": CACHE_MB}
    if spec.task == "direction":
        return [LiveSVC(classes=(-1.0, 1.0), **common)]
    epsilon = EPSILON * core if spec.epsilon == "auto" else spec.epsilon
    levels = spec.quantiles or []
    return [LiveSVR(epsilon=epsilon, **common), *(LiveSVR(loss="pinball", quantile=q, **common) for q in levels)]


class StepModel:
    """One step's models and their scale, over the examples that they are told of.

    Parameters
    ----------
    spec, recipe : settings, and what has been chosen

    Examples are features ``X`` (m, d) and targets ``y`` (m,), not scaled yet; scaled, features beyond ``MOST`` count as
    no further, so that what the window has not seen is near to the ends of what it has. Of directions
    ``y`` is -1 or 1.
    """

    def __init__(self, spec: FeedSpec, recipe: Recipe) -> None:
        self.spec, self.recipe = spec, recipe
        self.models = new_models(spec, recipe)
        self.scale: Scale | None = None
        self.refits = 0

    @property
    def level(self) -> int:
        """Which feature is the level of the series."""
        return len(self.spec.lag_list) if self.recipe.represent == "level" else 0

    def fit(self, X: Floats, y: Floats, keys: list[int]) -> None:
        """Learn from nothing, with a scale of these examples."""
        self.scale = fitted(X, y, self.level)
        self.models = new_models(self.spec, self.recipe, self.scale.core)
        self.refits += 1
        self.update(X, y, keys, [])

    def update(self, X: Floats, y: Floats, keys: list[int], leaving: list[int]) -> None:
        """Learn examples and forget others, each along one path; raises NotOptimal, and MemoryLimit."""
        if keys or leaving:
            add = (self.scaled(X), self._targets(y)) if keys else None
            for model in self.models:
                model.update(add=add, remove=leaving, keys=keys if add else None)

    def relabel(self, key: int, y: float) -> None:
        """Correct the target of an example."""
        target = float(self._targets(np.array([y]))[0])
        for model in self.models:
            model.update(relabel={key: target})

    def predict(self, X: Floats) -> Floats:
        """Return forecasts of targets (m, models): the forecast first, then quantiles, in ascending order."""
        rows = self.scaled(X)
        found = np.stack([model.predictor().decision_function(rows) for model in self.models], axis=1)
        if self.spec.task == "direction":
            return found
        found = self.in_units(found)
        found[:, 1:].sort(axis=1)
        return found

    def is_off_scale(self, X: Floats, y: Floats) -> bool:
        """Say whether the window's examples ask for another scale."""
        assert self.scale is not None
        return has_moved(self.scale, y, X[:, self.level])

    def gap(self) -> float:
        """Return the largest relative duality gap of the models, computed from the data."""
        return max(float(model.certificate().relative_gap) for model in self.models)

    def scaled(self, X: Floats) -> Floats:
        """Return features as models see them."""
        assert self.scale is not None
        return np.ascontiguousarray(np.clip((X - self.scale.centre) / self.scale.width, -MOST, MOST))

    def in_units(self, found: Floats) -> Floats:
        """Return what models say of targets in units of the target."""
        assert self.scale is not None
        return found * self.scale.unit + self.scale.middle

    def _targets(self, y: Floats) -> Floats:
        if self.spec.task == "direction":
            return y
        assert self.scale is not None
        return (y - self.scale.middle) / self.scale.unit

    # -- keeping -------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """Return everything but the features, which the window of rows has."""
        assert self.scale is not None
        out: dict[str, Any] = dict(self.recipe._asdict(), refits=self.refits)
        out |= {f"scale.{name}": np.asarray(value) for name, value in self.scale._asdict().items()}
        for i, model in enumerate(self.models):
            arrays = model.to_arrays()
            del arrays["X"]
            out |= {f"model{i}.{name}": value for name, value in arrays.items()}
        return out

    @classmethod
    def from_arrays(cls, spec: FeedSpec, arrays: Mapping[str, Any], X_of: Any) -> StepModel:
        """Return the models that ``to_arrays`` was taken from; ``X_of`` gives features (n, d) of a list of keys."""
        step = cls(spec, Recipe(arrays["represent"], float(arrays["gamma"]), float(arrays["C"])))
        step.refits = int(arrays["refits"])
        s = {name: np.asarray(arrays.get(f"scale.{name}", 1.0)) for name in Scale._fields}  # feeds had no core before
        spreads = (float(s["spreads"][0]), float(s["spreads"][1]))
        step.scale = Scale(s["centre"], s["width"], float(s["middle"]), float(s["unit"]), spreads, float(s["core"]))
        step.models = new_models(spec, step.recipe, step.scale.core)
        for i, model in enumerate(step.models):
            kept = {k.removeprefix(f"model{i}."): v for k, v in arrays.items() if k.startswith(f"model{i}.")}
            kept["X"] = step.scaled(X_of(list(kept["keys"])))
            parameters = {name: getattr(model, name) for name in model_parameters(model)}
            step.models[i] = type(model).from_arrays(parameters, kept)
        return step


def model_parameters(model: LiveSVR | LiveSVC) -> tuple[str, ...]:
    """Return the names of the parameters that a model was made with."""
    if isinstance(model, LiveSVC):
        return ("C", "gamma", "cache_mb", "classes")
    return ("C", "gamma", "cache_mb", "epsilon", "loss", "quantile")
