"""Search a copy of a model or a feed for drift, and for an update that would reduce the error."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from livesvm.service.feeds import presenter
from livesvm.service.feeds.drift import FALSE_ALARMS, RUN, before_learning, is_tested
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.size import feed_bytes
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.hosting.handle import FeedCopy
from livesvm.service.models.state import ModelCopy
from livesvm.solvers.analyses.drift.window import Drift, Remedy, drift
from livesvm.solvers.errors import InvalidInput

Document = dict[str, Any]
COPIES = 3
"""Copies of a model in memory while remedies are tried."""


@dataclass(frozen=True)
class DriftQuestion:
    """The parameters of a search for drift.

    Parameters
    ----------
    false_alarms : largest probability of an alarm without any drift; None: that of the model's watch, or 0.01
    newest : number of newest examples to judge remedies by; None: the default of
        :func:`~livesvm.solvers.analyses.drift.window.drift`
    steps : the steps of a feed to search; empty: all
    """

    false_alarms: float | None = None
    newest: int | None = None
    steps: tuple[int, ...] = ()


def look_for_drift(copy: ModelCopy, asked: DriftQuestion) -> Document:
    """Return the drift found in a model's window, and updates that would remedy it.

    Returns
    -------
    JSON values, as ``DriftAnswer`` names them

    Raises
    ------
    InvalidInput : a task without leave-one-out errors, or too few examples
    NotSolved, SolverError : a path could not be followed
    """
    if not copy.spec.has_errors:
        raise InvalidInput(f"models of task {copy.spec.task} have no leave-one-out errors", field="id")
    state = copy.state()
    state.published().check_known(copy.spec)
    rate = asked.false_alarms or (copy.watched or {}).get("false_alarms", 0.01)
    found = drift(state.estimator, false_alarms=rate, times=copy.times, newest=asked.newest)
    times = sorted(copy.times.tolist())
    reported = _told(found, lambda number: times[number - 1], _update_of_model)
    return {"version": copy.version, **copy.on_scale, "false_alarms": rate, "before_learning": copy.watched, **reported}


def look_for_drift_of_feed(copy: FeedCopy, asked: DriftQuestion) -> Document:
    """Return the drift found in the window of each of a feed's forecasting steps, and updates that would remedy the
    drift.

    Returns
    -------
    JSON values, as ``FeedDriftAnswer`` names them

    Raises
    ------
    InvalidInput : no models yet, a step that the feed does not have, or too few examples
    NotSolved, SolverError : a path could not be followed
    """
    started, feed = time.perf_counter(), copy.state().forecaster
    if not feed.models:
        raise InvalidInput("the feed has no models yet", field="id")
    steps = sorted(set(asked.steps or feed.steps))
    for step in steps:
        if step not in feed.steps:
            raise InvalidInput(f"{step} is none of the feed's steps", field="step")
    rate = asked.false_alarms or FALSE_ALARMS
    found = [_of_step(feed, feed.steps.index(step), rate / len(steps), asked.newest) for step in steps]
    changes = [change for one in found if one["remedy"] for change in one["remedy"]["update"]["steps"]]
    update = {"steps": changes} if changes else None
    seconds = time.perf_counter() - started
    return {"version": copy.version, "false_alarms": rate, "steps": found, "update": update, "seconds": seconds}


def feed_memory(spec: FeedSpec) -> int:
    """Return the bytes that a search for drift in a feed needs, for copies of the feed and of one step's models."""
    whole = feed_bytes(spec)
    return whole + COPIES * whole // len(spec.horizons)


def _of_step(feed: Forecaster, i: int, rate: float, newest: int | None) -> Document:
    """Return the drift in the window of the forecasting step with index ``i``, with errors in units of the target."""
    model, step, rows = feed.models[i], feed.steps[i], feed.rows
    assert rows is not None
    assert model.scale is not None
    forecaster = model.models[0]
    ordinals = np.array(forecaster.keys_)
    slots = rows.slot[rows.places(ordinals)]
    tested = is_tested(step, slots + step)
    found = drift(forecaster, false_alarms=rate, run=RUN, times=ordinals, tested=tested, newest=newest)
    of_readings, unit = np.sort(slots) + step, 1.0 if feed.spec.task == "direction" else model.scale.unit

    def update(one: Remedy, _: Drift) -> Document:
        """Return the request body of the update that applies a remedy."""
        changed = {"C": one.value} if one.kind == "C" else {"keep": int(one.value)}
        return {"steps": [{"step": step, **changed}]}

    reported = _told(found, lambda number: _time_of(feed, int(of_readings[number - 1])), update, unit)
    return {
        "step": step,
        "before_learning": before_learning(feed.drifts[i], feed.scores[i], feed.spec.task),
        **reported,
    }


def _time_of(feed: Forecaster, slot: int) -> str | float | None:
    """Return the time of the reading at an index of the timeline, in the format of the feed's readings."""
    line = feed.timeline
    assert line.every is not None
    assert line.time is not None
    return presenter.time_of(line, line.every.after(line.time, slot - line.slot))


def _told(
    found: Drift, time_of: Callable[[int], Any], update: Callable[[Remedy, Drift], Document], unit: float = 1.0
) -> Document:
    """Return a drift report as JSON values, with all errors multiplied by ``unit``."""
    alarm = found.alarm
    by_class = [{"label": label, "error": error} for label, error in found.errors.items()]

    def remedy(one: Remedy) -> Document:
        """Return a remedy as JSON values, with the update that applies it."""
        errors = {name: unit * getattr(one, name) for name in ("error", "better", "spread")}
        return {"kind": one.kind, "value": one.value, **errors, "update": update(one, found)}

    return {
        "n_examples": found.n,
        "error": unit * found.error,
        "classes": by_class or None,
        "rolling": (unit * found.rolling).tolist(),
        "evidence": found.evidence,
        "alarm": None
        if alarm is None
        else {
            "began": time_of(alarm.began),
            "n_since": found.n + 1 - alarm.began,
            "at": time_of(alarm.at),
            "classes": list(alarm.kinds),
            "log10_evidence": alarm.log10_evidence,
        },
        "newest": found.newest,
        "present": unit * found.present,
        "remedies": [remedy(one) for one in found.remedies],
        "remedy": None if found.proposed is None else remedy(found.proposed),
        "seconds": found.seconds,
    }


def _update_of_model(one: Remedy, found: Drift) -> Document:
    return {"C": one.value} if one.kind == "C" else {"remove": {"oldest": found.n - int(one.value)}}
