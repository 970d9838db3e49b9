"""Snapshots of a feed's whole state: arrays, numbers and strings by name; models are restored to the same optimum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import isnan
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds import drift
from livesvm.service.feeds.blend import EXPERTS, NO_EXPERTS, Blend, history_size
from livesvm.service.feeds.features import History, layout_of
from livesvm.service.feeds.forecaster import Forecaster, Preset
from livesvm.service.feeds.forecasts import FORECAST, Experts, Forecast
from livesvm.service.feeds.model_selection import Choice, Trial
from livesvm.service.feeds.represent import StepFeatures
from livesvm.service.feeds.rows import Rows
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.step_model import Recipe, StepModel
from livesvm.service.feeds.timeline import Reading, Timeline

Floats = NDArray[np.float64]
F = TypeVar("F", bound=Forecaster)


def to_arrays(feed: Forecaster) -> dict[str, Any]:
    """Return the state of a feed by dotted names: arrays, numbers, strings, None, and lists of these."""
    out: dict[str, Any] = {"season": feed.season, "readings": feed.readings, "looked_at": feed.looked_at}
    out |= {"choice_due": True} if feed.choice_due else {}
    out |= _under("timeline", feed.timeline.to_arrays())
    out |= _under("history", feed.history.to_arrays()) | _under("ahead", feed.ahead.to_arrays())
    out |= _under("knowledge", feed.knowledge.to_arrays()) | _under("plausibility", feed.plausibility.to_arrays())
    out["first"] = _readings(feed.first, len(feed.spec.columns))
    out["pending"] = feed.pending.to_array()
    out["latest"] = np.array([one.numbers() for one in feed.latest], np.float64).reshape(-1, FORECAST)
    out["weights"] = np.array([one.weights for one in feed.latest], np.float64).reshape(-1, len(EXPERTS))
    for i, scores in enumerate(feed.scores):
        out |= _under(f"scores.{i}", scores.to_arrays()) | _under(f"drift.{i}", feed.drifts[i].to_arrays())
        band = feed.bands[i]
        out |= {} if band is None else _under(f"band.{i}", band.to_arrays())
    if feed.borrowed is not None:
        out |= {"borrowed.season": feed.borrowed.season, "borrowed.recipes": [*map(list, feed.borrowed.recipes)]}
    if feed.early is not None:
        early = to_arrays(feed.early).items()
        out["early.window"] = feed.early.spec.window
        out |= {f"early.{name}": value for name, value in early if not name.startswith("timeline.")}
    if feed.rows is not None:
        out |= _under("rows", feed.rows.to_arrays()) | {"trials": _trials(feed)}
        for i, model in enumerate(feed.models):
            out |= _under(f"step.{i}", model.to_arrays())
            out[f"due.{i}"] = np.array(feed.due[i], np.int64)
            out |= _under(f"blend.{i}", feed.blends[i].to_arrays())
    return out


def from_arrays(spec: FeedSpec, arrays: Mapping[str, Any]) -> Forecaster:
    """Restore a feed from the result of ``to_arrays``; raises NotOptimal if a model cannot be restored."""
    return _restored(Forecaster(spec), arrays)


def _restored(feed: F, arrays: Mapping[str, Any]) -> F:
    spec, of = feed.spec, _by_name(arrays)
    feed.season, feed.readings, feed.looked_at = (arrays[name] for name in ("season", "readings", "looked_at"))
    feed.choice_due = bool(arrays.get("choice_due", False))
    feed.timeline = Timeline.from_arrays(spec, feed.timeline.longest, of["timeline"])
    feed.ahead.restore(of["ahead"])
    feed.first = [Reading(int(r[0]), r[1], tuple(r[3:]), bool(r[2])) for r in arrays["first"].tolist()]
    feed.knowledge.restore(of["knowledge"])
    feed.plausibility.restore(of.get("plausibility", {}))
    feed.pending.restore(arrays["pending"])
    latest = arrays["latest"].tolist()
    weights = [_said(row) for row in arrays["weights"].tolist()] if "weights" in arrays else [NO_EXPERTS] * len(latest)
    feed.latest = [Forecast.of(*both) for both in zip(latest, weights, strict=True)]
    for i, scores in enumerate(feed.scores):
        scores.restore(of[f"scores.{i}"])
        drift.restore(feed.drifts[i], of[f"drift.{i}"])
        band = feed.bands[i]
        if band is not None:
            band.restore(of[f"band.{i}"])
    if "borrowed.season" in arrays:
        recipes = [Recipe(*recipe) for recipe in arrays["borrowed.recipes"]]
        feed.borrowed = Preset(arrays["borrowed.season"], recipes)
    if "early.window" in arrays:
        early, timeline = of["early"], _under("timeline", of["timeline"])
        feed.early = _restored(feed.early_of(early["window"]), early | timeline)
        feed.early.timeline = feed.timeline
    if "rows.count" in arrays:
        _restore_models(feed, arrays, of)
    return feed


def _restore_models(feed: Forecaster, arrays: Mapping[str, Any], of: Mapping[str, dict[str, Any]]) -> None:
    spec, every = feed.spec, feed.timeline.every
    assert every is not None
    assert feed.season is not None
    rows = Rows(layout_of(spec, feed.season, every), len(feed.steps), spec.window, spec.batch)
    rows.restore(of["rows"])
    feed.rows, feed.history = rows, History(history_size(spec, rows.layout, every))
    feed.history.restore(of["history"])
    for i in range(len(feed.steps)):
        kept = of[f"step.{i}"]
        feed.models.append(StepModel.from_arrays(spec, kept, StepFeatures(rows, i, kept["represent"])))
        feed.due[i] = arrays[f"due.{i}"].tolist()
        feed.blends.append(Blend(spec, rows.layout, feed.timeline, feed.steps[i]))
        known = of.get(f"blend.{i}")
        if known is not None and len(known["state"]) == len(feed.blends[i].state):
            feed.blends[i].restore(known)
        else:  # feeds had nothing of it before, or fewer experts
            feed.begin_blend_again(i)
    trials = [
        Trial(int(step), Recipe(represent, gamma, C), error) for step, represent, gamma, C, error in arrays["trials"]
    ]
    feed.choice = Choice([model.recipe for model in feed.models], trials)


def _under(name: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}.{key}": value for key, value in arrays.items()}


def _by_name(arrays: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Group the entries of a snapshot by the first part of their dotted names, with its number if there is one."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for key, value in arrays.items():
        name, _, rest = key.partition(".")
        number, _, field = rest.partition(".")
        if field and number.isdigit():
            found[f"{name}.{number}"][field] = value
        else:
            found[name][rest] = value
    return found


def _said(numbers: list[float]) -> Experts:
    return (*[None if isnan(one) else one for one in numbers], *NO_EXPERTS)[: len(NO_EXPERTS)]


def _readings(readings: list[Reading], columns: int) -> Floats:
    rows = [[r.slot, r.time, r.held, *r.values] for r in readings]
    return np.array(rows, np.float64).reshape(-1, 3 + columns)


def _trials(feed: Forecaster) -> list[Any]:
    assert feed.choice is not None
    return [[t.step, *t.recipe, t.error] for t in feed.choice.trials]
