"""Erase readings from a feed, as if these readings had been missing, and models had never learnt them.

If the newest readings are erased, the feed goes back to the reading before them, and accepts any later time. Every
model is trained from scratch on the remaining readings, with a new scale, and tests for drift start again. Chosen
settings stay: the recipes, the season, and the errors of trials. Aggregates over readings older than the window stay
too: sums of errors, and the levels of bands.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds import model_selection
from livesvm.service.feeds.drift import tests_of
from livesvm.service.feeds.erased_times import Forgotten, are_of, first_readings, from_history, from_rows
from livesvm.service.feeds.features import Ahead, History, RowLayout
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.forecasts import Pending, PendingForecasts
from livesvm.service.feeds.plausible import Shift
from livesvm.service.feeds.rows import Rows
from livesvm.service.feeds.timeline import Reading


def forget(feed: Forecaster, times: Collection[float], *, beyond: bool = False) -> int | None:
    """Erase the readings of some times; return how many were erased, or None if the feed did not change.

    If too few examples are left, the window fills again. After SolverError the feed is unusable.

    Parameters
    ----------
    times : in seconds since 1970, or numbers of readings that have an order alone
    beyond : whether some before the oldest of the window are to be forgotten too: all are, then
    """
    timeline = feed.timeline
    waiting = timeline.n_waiting
    known = [past for time in times if (past := timeline.past.get(time)) is not None]
    oldest = next(iter(timeline.past.values())).slot if beyond and timeline.past else None
    gone = frozenset(past.slot for past in known)
    forgotten = Forgotten(gone, timeline.forget(times, beyond=beyond), oldest)
    waiting -= timeline.n_waiting
    shifts = feed.plausibility.forget(forgotten)
    if feed.newest_taken is not None:
        held = feed.newest_taken.held or feed.newest_taken.slot in gone
        feed.newest_taken = feed.newest_taken._replace(values=timeline.last or (), held=held)
    if feed.rows is None:
        _rewind(feed)
        feed.first = first_readings(feed.first, forgotten)
        feed.readings = sum(not reading.held for reading in feed.first)
        is_changed = bool(forgotten.values or waiting)
    else:
        is_changed = _forget_rows(feed, feed.rows, forgotten, shifts)
    if feed.rows is None:
        feed.begin_early()
        feed.forecast_first()
    return waiting + sum(not past.held for past in known) if is_changed else None


def _forget_rows(feed: Forecaster, rows: Rows, forgotten: Forgotten, shifts: Sequence[Shift]) -> bool:
    """Erase readings from the models' data, and retrain the models; return whether there was anything to erase."""
    newest, layout = feed.timeline.slot, rows.layout
    from_history(feed.history, newest, forgotten)
    for shift in reversed(shifts):
        feed.raise_rows(shift.slot, -shift.change)
    n_rows = from_rows(rows, feed.steps, feed.history, newest, forgotten, feed.plausibility.levelled)
    records = [_forget_record(feed, layout, i, forgotten) for i in range(len(feed.steps))]
    if not (forgotten.values or n_rows or any(record.any() for record in records)):
        return False
    feed.drifts, feed.choice_due = tests_of(feed.steps), False
    if layout.known and feed.timeline.last is not None:
        feed.ahead.newest = feed.timeline.last[1 + layout.others :]
    _rewind(feed)
    _forget_pending(feed, layout, feed.timeline.slot, forgotten)
    _learn_again(feed, rows, records)
    return True


def _rewind(feed: Forecaster) -> None:
    """Go back to the newest reading left in the window, if there is one."""
    timeline = feed.timeline
    count = timeline.rewind()
    if count == 0:
        return
    feed.newest_taken = timeline.newest
    feed.first = [reading for reading in feed.first if reading.slot <= timeline.slot]
    if feed.rows is not None:
        feed.history.drop(count)
        feed.ahead.reach(timeline.slot, feed.ahead.newest)


def _learn_again(feed: Forecaster, rows: Rows, records: list[NDArray[np.bool_]]) -> None:
    begun = [band is not None and band.forget(goes) for band, goes in zip(feed.bands, records, strict=True)]
    if min(len(rows.known(i)) for i in range(len(feed.steps))) < model_selection.LEAST:
        _begin_again(feed)
        return
    for i, with_residuals in enumerate(begun):
        feed.learn_again(i)
        feed.begin_blend_again(i)
        if with_residuals:
            _reseed(feed, rows, i)
    _forecast_again(feed, rows, feed.timeline.slot)


def _forget_record(feed: Forecaster, layout: RowLayout, i: int, forgotten: Forgotten) -> NDArray[np.bool_]:
    """Erase the scores of forecasts that involve erased readings; return which of the newest scores these are."""
    step = feed.steps[i]
    made = feed.scores[i].recent[:, 0].astype(np.int64) - step
    goes = are_of(layout, feed.blends[i].seasons, step, made, forgotten)
    if goes.any():
        feed.scores[i].forget(goes)
    return goes


def _forget_pending(feed: Forecaster, layout: RowLayout, newest: int, forgotten: Forgotten) -> None:
    """Drop pending forecasts that involve erased readings, and those from the newest reading, which are made again."""

    def stays(one: Pending) -> bool:
        made = one.forecast.slot - one.forecast.step
        return (
            made < newest
            and not are_of(layout, feed.blends[one.step].seasons, feed.steps[one.step], np.array([made]), forgotten)[0]
        )

    feed.pending.keep(stays)
    feed.latest = []


def _reseed(feed: Forecaster, rows: Rows, i: int) -> None:
    """Compute a band's first residuals again, from the remaining readings."""
    band = feed.bands[i]
    assert band is not None
    forecasts, y = model_selection.rolling_forecasts(feed.spec, rows, i, feed.models[i].recipe)
    found = (y[:, None] - forecasts).T
    low, high = (found[1], found[2]) if feed.spec.levels else (found[0], found[0])
    band.reseed(low, high)


def _forecast_again(feed: Forecaster, rows: Rows, newest: int) -> None:
    """Forecast from the newest row, or from held values if that row is erased; do nothing if no reading is left."""
    if not feed.timeline.past:
        return
    ordinal, reading = rows.by_slot.get(newest), feed.timeline.newest
    if ordinal is not None:
        feed.publish(reading, ordinal, feed.predict([ordinal])[0])
    else:
        feed.publish_held(reading)


def _begin_again(feed: Forecaster) -> None:
    """Set the feed back to filling its window, with the remaining readings in it."""
    left = [Reading(one.slot, time, one.values, one.held) for time, one in feed.timeline.past.items()]
    feed.first = first_readings(feed.judged_again(left), Forgotten(frozenset(), {}, None))
    feed.readings = sum(not reading.held for reading in feed.first)
    feed.rows, feed.models, feed.blends, feed.choice, feed.season = None, [], [], None, feed.spec.season
    feed.history, feed.ahead = History(feed.spec.window + 1), Ahead(len(feed.spec.known))
    feed.due = [[] for _ in feed.steps]
    feed.looked_at = 0
    feed.pending = PendingForecasts()
