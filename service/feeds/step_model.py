"""The exact live models of one forecast step: they learn examples, and forecast in units of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
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
    """The source of features for examples, by the examples' ascending keys."""

    def of(self, ordinals: Sequence[int], /) -> Floats:
        """Return the unscaled features of examples, (n, d)."""

    def write(self, scale: StepScale, ordinals: Ints, out: Floats, /) -> None:
        """Write the scaled features of examples to the first columns of ``out`` (d, n or more)."""


@dataclass(slots=True)
class Cool:
    """The compact form of models, called cool: everything that cannot be computed again."""

    objectives: tuple[Objective, ...]  #: of each model
    arrays: list[dict[str, Any]]  #: of each model, but for its features
    features: FeaturesOf
    is_slidable: bool  #: whether ``arrays`` are all that ``slide`` needs; they stay so
    slides: bool = True  #: whether the next small update is made where they lie; models that are called again come back


class Recipe(NamedTuple):
    """The chosen settings of one step's models."""

    represent: Represent
    gamma: float
    C: float


def new_models(spec: FeedSpec, recipe: Recipe, core: float = 1.0) -> Models:
    """Return untrained models: first that of the forecast, then those of the band's quantiles, if there are any.

    The tube in which errors cost nothing is ``core`` times as wide as usual; it is narrower if two thirds of the
    targets are equal.
    """
    return _made(_losses_of(spec, core), recipe)


class _LossesOf(NamedTuple):
    """The losses of a step's models: for the forecast, that of directions or an epsilon tube; one for each quantile."""

    is_direction: bool
    epsilon: float
    quantiles: tuple[float, ...]
    components: int | None  #: landmarks of their kernel


def _losses_of(spec: FeedSpec, core: float) -> _LossesOf:
    epsilon = EPSILON * core if spec.epsilon == "auto" else spec.epsilon
    return _LossesOf(spec.task == "direction", epsilon, spec.levels, spec.components)


def _made(losses: _LossesOf, recipe: Recipe) -> Models:
    common: dict[str, Any] = {
        "C": recipe.C,
        "gamma": recipe.gamma,
        "cache_mb": CACHE_MB,
        "components": losses.components,
    }
    if losses.is_direction:
        return [LiveSVC(classes=(-1.0, 1.0), **common)]
    pinballs = (LiveSVR(loss="pinball", quantile=q, **common) for q in losses.quantiles)
    return [LiveSVR(epsilon=losses.epsilon, **common), *pinballs]


@lru_cache(maxsize=256)
def _objectives(losses: _LossesOf, recipe: Recipe) -> tuple[Objective, ...]:
    """Return the objectives that a step's models minimize."""
    return tuple(map(Objective.of, _made(losses, recipe)))


def weights(spec: FeedSpec, d: int) -> Floats:
    """Return the factor of each of ``d`` scaled features; the factors of lags decrease with the lag."""
    found = np.ones(d)
    if spec.generation > 1:
        found[: len(spec.lag_list)] = np.arange(1, len(spec.lag_list) + 1) ** -0.5
    return found


class StepModel:
    """The models of one step, with the scale of their features and targets.

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
        """The models: first the forecast's, then the band's quantiles'. Reading this property restores compact models.

        Raises
        ------
        NotOptimal : they cannot
        """
        if self._cool is not None:
            self._restore(self._cool.arrays, self._cool.features)
        return self._models

    @property
    def is_cool(self) -> bool:
        """Whether the models are in compact form."""
        return self._cool is not None

    @property
    def count(self) -> int:
        """The number of models, without restoring models in compact form."""
        return len(self._models) if self._cool is None else len(self._cool.arrays)

    @property
    def level(self) -> int:
        """The index of the feature that is the level of the series."""
        return len(self.spec.lag_list) if self.recipe.represent == "level" else 0

    def fit(self, X: Floats, y: Floats, keys: list[int]) -> None:
        """Train new models on these examples, with a newly fitted scale."""
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
        """Add examples, and remove others, each along a solution path; raises NotOptimal or MemoryLimit."""
        if keys or leaving:
            add = (self.scaled(X), self._targets(y)) if keys else None
            for model in self.models:
                model.update(add=add, remove=leaving, keys=keys if add else None)

    def change(self, leaving: list[int], C: float | None) -> None:
        """Remove examples, and change C, each along a solution path with the same scale; raises NotOptimal."""
        for model in self.models:
            if leaving:
                model.update(remove=leaving)
            if C is not None:
                model.update(C=C)
        if C is not None:
            self.recipe = self.recipe._replace(C=C)

    def relabel(self, key: int, y: float) -> None:
        """Correct the target of one example in all models."""
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
        """Return the decision values of the models, (m,) each, as forecasts (m, models)."""
        found = decided[0][:, None] if len(decided) == 1 else np.stack(decided, axis=1)
        if self.spec.task != "direction":
            found = self.in_units(found)
            if len(decided) > 1:
                found[:, 1:].sort(axis=1)
        return found

    def is_off_scale(self, levels: Floats, y: Floats) -> bool:
        """Say whether examples need a new scale, by the levels of the series and the targets, (n,) each."""
        assert self.scale is not None
        return has_moved(self.scale, y, levels)

    def gap(self) -> float:
        """Return the largest relative duality gap of the models, computed from the data."""
        return max(float(model.certificate().relative_gap) for model in self.models)

    def scaled(self, X: Floats) -> Floats:
        """Return features scaled for the models."""
        assert self.scale is not None
        return scaled(self.scale, X)

    def in_units(self, found: Floats) -> Floats:
        """Convert scaled forecasts to units of the target."""
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
        """Whether the models are in compact form, and a small update is possible without restoring them."""
        return self._cool is not None and self._cool.slides and self._cool.is_slidable

    def slides(self, y: Floats, keys: Ints, leaving: list[int], ahead: Ints) -> Floats | None:
        """Update compact models without restoring them, either all or none; then forecast from examples ``ahead``.

        The targets ``y`` (m,) of the new examples are not scaled; examples ``ahead`` are newer than all other examples.
        Returns forecasts as :meth:`predict` does; None if the update needs restored models.
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
        """Return each model in compact form as the arguments of ``slide``."""
        assert self.scale is not None
        write, d = partial(cool.features.write, self.scale), self.scale.centre.size
        if len(cool.arrays) == 1:  # as nearly always
            return [(Sliding(cool.objectives[0], d, write), Standing.of(cool.arrays[0]))]
        both = zip(cool.objectives, cool.arrays, strict=True)
        return [(Sliding(objective, d, write), Standing.of(arrays)) for objective, arrays in both]

    # -- keeping -------------------------------------------------------------------------------------------------------

    def cool(self, features: FeaturesOf) -> None:
        """Reduce the models to compact form until they are needed again; ``features`` then supplies their features."""
        if self._cool is None:
            self._cool, self._models = self._cooled([model.to_warm_arrays() for model in self._models], features), []
        self._cool.slides = True

    def _cooled(self, arrays: list[dict[str, Any]], features: FeaturesOf) -> Cool:
        assert self.scale is not None
        objectives, kept = _objectives(_losses_of(self.spec, self.scale.core), self.recipe), [*map(_small, arrays)]
        return Cool(objectives, kept, features, all(map(_is_slidable, kept)))

    @property
    def hot_bytes(self) -> int:
        """The memory in bytes that :meth:`cool` would free."""
        return sum([model.held_bytes - KEPT_BYTES * model.n_window_ for model in self._models])

    @property
    def held_bytes(self) -> int:
        """The memory of all arrays in bytes."""
        if self._cool is not None:  # all have the same examples
            landmarks: int = sum(arrays["landmarks"].nbytes for arrays in self._cool.arrays if "landmarks" in arrays)
            return KEPT_BYTES * len(self._cool.arrays) * len(self._cool.arrays[0]["keys"]) + landmarks
        return sum(model.held_bytes for model in self._models)

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as a dictionary, without the features, which the window of rows stores."""
        assert self.scale is not None
        out: dict[str, Any] = dict(self.recipe._asdict(), refits=self.refits)
        out |= {f"scale.{name}": np.asarray(value) for name, value in self.scale._asdict().items()}
        for i, arrays in enumerate(self._arrays()):
            out |= {f"model{i}.{name}": value for name, value in arrays.items()}
        return out

    def _arrays(self) -> list[dict[str, Any]]:
        """Return the arrays of each model, without the features."""
        if self._cool is not None:
            kept = map(_whole, self._cool.arrays)
            return [{name: value for name, value in arrays.items() if name not in STANDING} for arrays in kept]
        found = [model.to_arrays() for model in self._models]
        for arrays in found:
            del arrays["X"]
        return found

    def _restore(self, kept: list[dict[str, Any]], features: FeaturesOf) -> None:
        """Restore the models from their arrays ``kept``, and from the features of their examples."""
        assert self.scale is not None
        models = new_models(self.spec, self.recipe, self.scale.core)
        for i, (model, arrays) in enumerate(zip(models, kept, strict=True)):
            parameters = {name: getattr(model, name) for name in model_parameters(model)}
            whole = _whole(arrays)
            models[i] = type(model).from_arrays(parameters, {**whole, "X": self.scaled(features.of(whole["keys"]))})
        self._models, self._cool = models, None

    def _stand(self, kept: list[dict[str, Any]], features: FeaturesOf) -> bool:
        """Set compact models from arrays, and compute decisions; False if models cannot slide or are not optimal."""
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
        """Restore models from the dictionary that ``to_arrays`` returned; raises NotOptimal if that is impossible."""
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
    """Return a model's arrays in fewer bytes: without features, with small integers, and without weights of one."""
    found = {name: value for name, value in arrays.items() if name != "X"}
    found["keys"] = np.array(arrays["keys"], np.int64)
    if abs(arrays["segments"]).max(initial=0) < 2**7:
        found["segments"] = arrays["segments"].astype(np.int8)
    if (arrays["sample_weight"] == 1.0).all():
        found["sample_weight"] = None
    return found


def _is_slidable(arrays: Mapping[str, Any]) -> bool:
    """Say whether ``slide`` can update a model from its arrays: few examples, weights of one, stored decisions."""
    is_plain = arrays["sample_weight"] is None and "f" in arrays and "landmarks" not in arrays
    return len(arrays["keys"]) <= LARGEST and is_plain


def _note(arrays: dict[str, Any], now: Standing) -> None:
    """Write the new state of the examples to the arrays of a model in compact form."""
    arrays["keys"], arrays["y"], arrays["beta"], arrays["segments"], arrays["f"] = now[:5]
    arrays["intercept"], arrays["events"], arrays["sides"] = now.b, now.events, np.zeros(now.keys.size, np.int8)
    arrays["next_key"] = max(arrays["next_key"], int(now.keys[-1]) + 1)


def _whole(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of a model, without features, in the form before :func:`_small`."""
    keys = np.asarray(arrays["keys"], np.int64).tolist()
    weights = arrays["sample_weight"]
    found = {"sample_weight": np.ones(len(keys)) if weights is None else weights}
    return {**arrays, **found, "keys": keys, "segments": np.asarray(arrays["segments"], np.int64)}


def model_parameters(model: LiveSVR | LiveSVC) -> tuple[str, ...]:
    """Return the names of the constructor's parameters for a model of this kind."""
    if isinstance(model, LiveSVC):
        return ("C", "gamma", "cache_mb", "components", "classes")
    return ("C", "gamma", "cache_mb", "components", "epsilon", "loss", "quantile")
