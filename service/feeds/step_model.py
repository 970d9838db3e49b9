"""The exact live models of one step: raw rows in, forecasts out, in units of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.represent import StepScale, fitted, has_moved, scaled
from livesvm.service.feeds.spec import FeedSpec, Represent
from livesvm.solvers.estimators.classification import LiveSVC
from livesvm.solvers.estimators.regression import LiveSVR
from livesvm.solvers.models.slide import LARGEST, Objective, Sliding, Standing, decide, slide, stand

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EPSILON = 0.05
NOTHING = -1  #: key of what a model without examples learns and forgets, so that it knows its features
CACHE_MB = 64
KEPT_BYTES = 42  #: of an example of a cool model: key, target, mostly no weight, coefficient, f, segment and side
STANDING = ("f", "events")  #: of a cool model, and not of a snapshot, which belongs to the data alone

Models = list[LiveSVR | LiveSVC]


class FeaturesOf(Protocol):
    """Gives the features of examples by their keys, ascending."""

    def of(self, ordinals: Sequence[int], /) -> Floats:
        """Return them, (n, d), not scaled."""

    def write(self, ordinals: Ints, scale: StepScale, out: Floats, /) -> None:
        """Write them scaled to the first columns of ``out`` (d, n or more)."""


@dataclass(slots=True)
class Cool:
    """What is kept of models that gave up all that can be made again."""

    objectives: tuple[Objective, ...]  #: of each model
    arrays: list[dict[str, Any]]  #: of each model, but for its features
    features: FeaturesOf
    is_slidable: bool  #: whether ``arrays`` are all that ``slide`` needs; they stay so
    slides: bool = True  #: whether the next small update is made where they lie; models that are called again come back


class Recipe(NamedTuple):
    """What is chosen of a step's model."""

    represent: Represent
    gamma: float
    C: float


def new_models(spec: FeedSpec, recipe: Recipe, core: float = 1.0) -> Models:
    """Return untrained models: of the forecast, then of the band's quantiles, if it has any.

    The tube without loss is ``core`` times as wide as usual: where two thirds of the targets are the same, it is their
    noise that would fill it.
    """
    return _made(_losses_of(spec, core), recipe)


class _LossesOf(NamedTuple):
    """What losses the models of a step have: of directions, or with a tube, and those of quantiles."""

    is_direction: bool
    epsilon: float
    quantiles: tuple[float, ...]


def _losses_of(spec: FeedSpec, core: float) -> _LossesOf:
    epsilon = EPSILON * core if spec.epsilon == "auto" else spec.epsilon
    return _LossesOf(spec.task == "direction", epsilon, spec.levels)


def _made(losses: _LossesOf, recipe: Recipe) -> Models:
    common: dict[str, Any] = {"C": recipe.C, "gamma": recipe.gamma, "cache_mb": CACHE_MB}
    if losses.is_direction:
        return [LiveSVC(classes=(-1.0, 1.0), **common)]
    pinballs = (LiveSVR(loss="pinball", quantile=q, **common) for q in losses.quantiles)
    return [LiveSVR(epsilon=losses.epsilon, **common), *pinballs]


@lru_cache(maxsize=256)
def _objectives(losses: _LossesOf, recipe: Recipe) -> tuple[Objective, ...]:
    """Return what such models minimize."""
    return tuple(map(Objective.of, _made(losses, recipe)))


def weights(spec: FeedSpec, d: int) -> Floats:
    """Return what each of ``d`` scaled features is multiplied by: lags count less the further they lie back."""
    found = np.ones(d)
    if spec.generation > 1:
        found[: len(spec.lag_list)] = np.arange(1, len(spec.lag_list) + 1) ** -0.5
    return found


class StepModel:
    """One step's models and their scale, over the examples that they are given.

    Parameters
    ----------
    spec, recipe : settings, and what has been chosen

    Examples are features ``X`` (m, d) and targets ``y`` (m,), not scaled yet; scaled, features beyond
    ``represent.MOST`` count as no further, so that what the window has not seen is near to the ends of what it has. Of
    directions ``y`` is -1 or 1.
    """

    def __init__(self, spec: FeedSpec, recipe: Recipe) -> None:
        self.spec, self.recipe = spec, recipe
        self._models = new_models(spec, recipe)
        self._cool: Cool | None = None
        self.scale: StepScale | None = None
        self.refits = 0

    @property
    def models(self) -> Models:
        """The models: the forecast's, then of the band's quantiles. Cool ones come back from their coefficients now.

        Raises
        ------
        NotOptimal : they cannot
        """
        if self._cool is not None:
            self._restore(self._cool.arrays, self._cool.features)
        return self._models

    @property
    def is_cool(self) -> bool:
        """Whether the models gave up what can be made again."""
        return self._cool is not None

    @property
    def count(self) -> int:
        """How many models there are, which does not bring cool ones back."""
        return len(self._models) if self._cool is None else len(self._cool.arrays)

    @property
    def level(self) -> int:
        """Which feature is the level of the series."""
        return len(self.spec.lag_list) if self.recipe.represent == "level" else 0

    def fit(self, X: Floats, y: Floats, keys: list[int]) -> None:
        """Learn from nothing, with a scale of these examples."""
        scale = fitted(X, y, self.level)
        self.scale = scale._replace(width=scale.width / weights(self.spec, X.shape[1]))
        self._models, self._cool = new_models(self.spec, self.recipe, self.scale.core), None
        self.refits += 1
        if keys:
            self.update(X, y, keys, [])
            return
        for model in self._models:  # until there are examples, forecasts are what targets are relative to
            model.update(add=(np.zeros((1, X.shape[1])), [1.0]), keys=[NOTHING])
            model.update(remove=[NOTHING])

    def update(self, X: Floats, y: Floats, keys: list[int], leaving: list[int]) -> None:
        """Learn examples and forget others, each along one path; raises NotOptimal, and MemoryLimit."""
        if keys or leaving:
            add = (self.scaled(X), self._targets(y)) if keys else None
            for model in self.models:
                model.update(add=add, remove=leaving, keys=keys if add else None)

    def change(self, leaving: list[int], C: float | None) -> None:
        """Forget examples, and have another C, each along one path with the scale as it is; raises NotOptimal."""
        for model in self.models:
            if leaving:
                model.update(remove=leaving)
            if C is not None:
                model.update(C=C)
        if C is not None:
            self.recipe = self.recipe._replace(C=C)

    def relabel(self, key: int, y: float) -> None:
        """Correct the target of an example."""
        target = float(self._targets(np.array([y]))[0])
        for model in self.models:
            model.update(relabel={key: target})

    def predict(self, X: Floats) -> Floats:
        """Return forecasts of targets (m, models): the forecast first, then quantiles, in ascending order."""
        rows = self.scaled(X)
        if self._cool is not None and self._cool.is_slidable:
            decided = [decide(model, stood, rows) for model, stood in self._sliding(self._cool)]
        else:
            decided = [model.predictor().decision_function(rows) for model in self.models]
        return self._forecasts(decided)

    def _forecasts(self, decided: list[Floats]) -> Floats:
        """Return what models decide, (m,) each, as forecasts (m, models)."""
        found = decided[0][:, None] if len(decided) == 1 else np.stack(decided, axis=1)
        if self.spec.task == "direction":
            return found
        found = self.in_units(found)
        if len(decided) > 1:
            found[:, 1:].sort(axis=1)
        return found

    def is_off_scale(self, levels: Floats, y: Floats) -> bool:
        """Say whether examples ask for another scale, by their feature ``level`` and targets, (n,) each."""
        assert self.scale is not None
        return has_moved(self.scale, y, levels)

    def gap(self) -> float:
        """Return the largest relative duality gap of the models, computed from the data."""
        return max(float(model.certificate().relative_gap) for model in self.models)

    def scaled(self, X: Floats) -> Floats:
        """Return features as models see them."""
        assert self.scale is not None
        return scaled(self.scale, X)

    def in_units(self, found: Floats) -> Floats:
        """Return what models say of targets in units of the target."""
        assert self.scale is not None
        return found * self.scale.unit + self.scale.middle

    def _targets(self, y: Floats) -> Floats:
        if self.spec.task == "direction":
            return y
        assert self.scale is not None
        return (y - self.scale.middle) / self.scale.unit

    # -- while they are cool -------------------------------------------------------------------------------------------

    @property
    def may_slide(self) -> bool:
        """Whether the models are cool, and a small update can be made where they lie."""
        return self._cool is not None and self._cool.slides and self._cool.is_slidable

    def slides(self, y: Floats, keys: Ints, leaving: list[int], ahead: Ints) -> Floats | None:
        """Make a small update of models that may slide, all or none, and forecast from examples ``ahead`` then.

        The targets ``y`` (m,) are not scaled; those ahead are newer than all. Returns forecasts as :meth:`predict`;
        None where it takes models to make it.
        """
        cool = self._cool
        assert cool is not None
        if cool.arrays[0]["keys"][: len(leaving)].tolist() != leaving:
            return None
        found: list[tuple[Standing, Floats]] = []
        targets = self._targets(y)
        for model, stood in self._sliding(cool):
            slid = slide(model, stood, keys, targets, len(leaving), ahead)
            if slid is None:
                return None
            found.append(slid)
        for arrays, (now, _) in zip(cool.arrays, found, strict=True):
            _note(arrays, now)
        cool.slides = False
        return self._forecasts([decided for _, decided in found])

    def _sliding(self, cool: Cool) -> list[tuple[Sliding, Standing]]:
        """Return each cool model as ``slide`` takes it."""
        scale, features = self.scale, cool.features
        assert scale is not None

        def write(keys: Ints, out: Floats) -> None:
            features.write(keys, scale, out)

        both, d = zip(cool.objectives, cool.arrays, strict=True), scale.centre.size
        return [(Sliding(objective, d, write), Standing.of(arrays)) for objective, arrays in both]

    # -- keeping -------------------------------------------------------------------------------------------------------

    def cool(self, features: FeaturesOf) -> None:
        """Keep of the models only what a snapshot would, until they are asked for; ``features`` gives theirs back."""
        if self._cool is None:
            self._cool, self._models = self._cooled([model.to_warm_arrays() for model in self._models], features), []
        self._cool.slides = True

    def _cooled(self, arrays: list[dict[str, Any]], features: FeaturesOf) -> Cool:
        assert self.scale is not None
        objectives, kept = _objectives(_losses_of(self.spec, self.scale.core), self.recipe), [*map(_small, arrays)]
        return Cool(objectives, kept, features, all(map(_is_slidable, kept)))

    @property
    def hot_bytes(self) -> int:
        """Bytes that :meth:`cool` gives back."""
        return sum([model.held_bytes - KEPT_BYTES * model.n_window_ for model in self._models])

    @property
    def held_bytes(self) -> int:
        """Bytes of all arrays."""
        if self._cool is not None:  # all have the same examples
            return KEPT_BYTES * len(self._cool.arrays) * len(self._cool.arrays[0]["keys"])
        return sum(model.held_bytes for model in self._models)

    def to_arrays(self) -> dict[str, Any]:
        """Return everything but the features, which the window of rows has."""
        assert self.scale is not None
        out: dict[str, Any] = dict(self.recipe._asdict(), refits=self.refits)
        out |= {f"scale.{name}": np.asarray(value) for name, value in self.scale._asdict().items()}
        for i, arrays in enumerate(self._arrays()):
            out |= {f"model{i}.{name}": value for name, value in arrays.items()}
        return out

    def _arrays(self) -> list[dict[str, Any]]:
        """Return everything but the features, of each model."""
        if self._cool is not None:
            kept = map(_whole, self._cool.arrays)
            return [{name: value for name, value in arrays.items() if name not in STANDING} for arrays in kept]
        found = [model.to_arrays() for model in self._models]
        for arrays in found:
            del arrays["X"]
        return found

    def _restore(self, kept: list[dict[str, Any]], features: FeaturesOf) -> None:
        """Have the models that ``kept`` was taken from, with features of the rows."""
        assert self.scale is not None
        models = new_models(self.spec, self.recipe, self.scale.core)
        for i, (model, arrays) in enumerate(zip(models, kept, strict=True)):
            parameters = {name: getattr(model, name) for name in model_parameters(model)}
            whole = _whole(arrays)
            models[i] = type(model).from_arrays(parameters, {**whole, "X": self.scaled(features.of(whole["keys"]))})
        self._models, self._cool = models, None

    def _stand(self, kept: list[dict[str, Any]], features: FeaturesOf) -> bool:
        """Be cool models of such arrays, with f computed afresh; False where they cannot slide, or at no optimum."""
        cool = self._cooled([{**arrays, "f": np.zeros(len(arrays["keys"])), "events": 0} for arrays in kept], features)
        if not cool.is_slidable:
            return False
        found = [stand(model, stood) for model, stood in self._sliding(cool)]
        for arrays, f in zip(cool.arrays, found, strict=True):
            if f is None:
                return False
            arrays["f"] = f
        self._models, self._cool = [], cool
        return True

    @classmethod
    def from_arrays(cls, spec: FeedSpec, arrays: Mapping[str, Any], features: FeaturesOf) -> StepModel:
        """Return the models that ``to_arrays`` was taken from; raises NotOptimal where they cannot be restored."""
        step = cls(spec, Recipe(arrays["represent"], float(arrays["gamma"]), float(arrays["C"])))
        step.refits = int(arrays["refits"])
        s = {name: np.asarray(arrays[f"scale.{name}"]) for name in StepScale._fields}
        spreads = (float(s["spreads"][0]), float(s["spreads"][1]))
        step.scale = StepScale(s["centre"], s["width"], float(s["middle"]), float(s["unit"]), spreads, float(s["core"]))
        kept: list[dict[str, Any]] = [{} for _ in step.models]
        for name, value in arrays.items():
            if name.startswith("model"):
                number, _, field = name.removeprefix("model").partition(".")
                kept[int(number)][field] = value
        if not step._stand(kept, features):
            step._restore(kept, features)
        return step


def _small(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return arrays of a model without its features, in fewer bytes: segments are few, weights mostly ones."""
    found = {name: value for name, value in arrays.items() if name != "X"}
    found["keys"] = np.array(arrays["keys"], np.int64)
    if abs(arrays["segments"]).max(initial=0) < 2**7:
        found["segments"] = arrays["segments"].astype(np.int8)
    if (arrays["sample_weight"] == 1.0).all():
        found["sample_weight"] = None
    return found


def _is_slidable(arrays: Mapping[str, Any]) -> bool:
    """Say whether arrays of a cool model are all that ``slide`` needs: few, weights are ones, and f is as it stands."""
    return len(arrays["keys"]) <= LARGEST and arrays["sample_weight"] is None and "f" in arrays


def _note(arrays: dict[str, Any], now: Standing) -> None:
    """Have arrays of a cool model say how its examples stand now."""
    keys, y, beta, segments, f, intercept, events = now
    arrays.update(keys=keys, y=y, beta=beta, segments=segments, f=f, intercept=intercept, events=events)
    arrays.update(next_key=max(arrays["next_key"], int(keys[-1]) + 1), sides=np.zeros(keys.size, np.int8))


def _whole(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays as they were, or as a snapshot has them, without features."""
    keys = np.asarray(arrays["keys"], np.int64).tolist()
    weights = arrays["sample_weight"]
    found = {"sample_weight": np.ones(len(keys)) if weights is None else weights}
    return {**arrays, **found, "keys": keys, "segments": np.asarray(arrays["segments"], np.int64)}


def model_parameters(model: LiveSVR | LiveSVC) -> tuple[str, ...]:
    """Return the names of the parameters that a model was made with."""
    if isinstance(model, LiveSVC):
        return ("C", "gamma", "cache_mb", "classes")
    return ("C", "gamma", "cache_mb", "epsilon", "loss", "quantile")
