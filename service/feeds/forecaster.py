"""The forecasting core of a feed: it takes readings, and gives forecasts, scores and events.

The readings of one call are processed in order, in batches of up to ``batch`` readings. The models learn a batch after
forecasts were made from all its readings but the last; forecasts from the last reading follow. No forecast depends on
later readings. With ``batch`` = 1, or one reading per call, every forecast uses all readings so far. Forecasts are
scored, and bands are adapted, in the order of the readings. If the newest reading is missing, forecasts are made from
held values, and are not scored.

The same calls in the same order give the same state: the state does not depend on clocks, chance or threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds import drift, model_selection
from livesvm.service.feeds.bands import Band, ConformalBand
from livesvm.service.feeds.blend import NO_EXPERTS, SEASONAL, Blend, history_size
from livesvm.service.feeds.features import Ahead, History, layout_of, natural_period, own_rows, shared_row
from livesvm.service.feeds.first_forecasts import naive_forecast
from livesvm.service.feeds.forecasts import Forecast, Pending, PendingForecasts, Served
from livesvm.service.feeds.interval import Every, found_in
from livesvm.service.feeds.knowledge import Knowledge
from livesvm.service.feeds.plausible import SETTLED, Plausibility, Shift, Verdict, bounds_of, hanging, is_of_hanging
from livesvm.service.feeds.represent import StepFeatures, reference, represented
from livesvm.service.feeds.rows import Rows
from livesvm.service.feeds.scores import ScoredForecast, StepScores
from livesvm.service.feeds.season import find_season
from livesvm.service.feeds.spec import FeedSpec, early_size, early_spec
from livesvm.service.feeds.step_model import Recipe, StepModel
from livesvm.service.feeds.timeline import Correction, Plan, Reading, Row, Timeline
from livesvm.solvers.errors import InvalidInput, SolverError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SEEN = 200  #: readings that a suspected one, or a forecast of 0, is compared with while the window fills
LOOKS = 20  #: how often in a window it is asked whether scales still fit


class FeedEvent(NamedTuple):
    """An event to announce: "live", "suspected", "shifted", "rescaled", "drift", "chosen", "known" or "updated"."""

    kind: str
    slot: int
    time: float | None
    detail: dict[str, Any]


class FeedOutcome(NamedTuple):
    """The results of one call."""

    accepted: int
    ignored: int
    corrected: int
    scored: list[tuple[int, ScoredForecast]]  #: with their steps
    forecasts: list[Forecast]  #: from the newest reading; naive ones while the window fills
    events: list[FeedEvent]
    announced: int = 0  #: rows with known columns of times to come


class Preset(NamedTuple):
    """Settings that replace a feed's own choice: the season, a recipe for each step, and the trials for the recipes."""

    season: int
    recipes: list[Recipe]
    trials: Sequence[model_selection.Trial] = ()


class StepUpdate(NamedTuple):
    """A change to one step's models: only the newest ``keep`` examples remain, or C has a new value."""

    step: int
    keep: int | None = None
    C: float | None = None


class Forecaster:
    """The forecasting core of one feed; a single thread uses it.

    Parameters
    ----------
    spec : its settings

    ``observe`` is the only thing that changes it. Should a solver's error come out of that, what it has learnt is not
    whole any more: the feed has to be made again from its log.
    """

    def __init__(self, spec: FeedSpec) -> None:
        self.spec = spec
        self.steps = spec.horizons
        self.timeline = Timeline(spec, spec.window)
        self.history = History(spec.window + 1)
        self.ahead = Ahead(len(spec.known))
        self.plausibility = Plausibility(spec.window, *spec.limits)
        self._shifts: list[Shift] = []  # of the call that is taken, which blends do not know yet
        self.first: list[Reading] = []  # until there are enough
        self.early: EarlyForecaster | None = None  # until there are enough
        self.rows: Rows | None = None
        self.season: int | None = spec.season
        self.models: list[StepModel] = []
        self.choice: model_selection.Choice | None = None
        coverage = spec.coverage
        self.scores = [StepScores(coverage, spec.window) for _ in self.steps]
        self.bands = [None if coverage is None else ConformalBand(coverage, spec.window) for _ in self.steps]
        self.drifts = drift.tests_of(self.steps)
        self.blends: list[Blend] = []
        self.knowledge = Knowledge(len(self.steps))
        self.pending = PendingForecasts()
        self.latest: list[Forecast] = []
        self.due: list[list[int]] = [[] for _ in self.steps]  # ordinals with targets that are known, and not learnt
        self.readings = 0
        self.looked_at = 0  # readings when scales were last looked at
        self._events: list[FeedEvent] = []
        self._scored: list[tuple[int, ScoredForecast]] = []
        self.newest_taken: Reading | None = None
        self.borrowed: Preset | None = None  #: what is not chosen once the window is full; of a fleet
        self._chooses = False
        self.choice_due = False  #: errors have grown, and what is ``auto`` is to be chosen before the next readings
        self._off_scale: list[int] = []  # steps with blends that are to see the window again, once it is scored
        self._due_scores: list[list[ScoredForecast]] = [[] for _ in self.steps]

    @property
    def state(self) -> str:
        """``filling`` until the window is full for the first time, then ``live``."""
        return "live" if self.models else "filling"

    # -- readings ------------------------------------------------------------------------------------------------------

    def observe(self, rows: Sequence[Row]) -> FeedOutcome:
        """Process the rows of one call, {column: number} each, and forecast from the newest reading.

        Raises
        ------
        InvalidInput : names row and column; nothing was changed
        SolverError : models could not learn; see above
        """
        return self.take(self.check(rows), chooses=True)

    def check(self, rows: Sequence[Row], **how: Any) -> Plan:
        """Return the plan for the rows of one call, as :meth:`~livesvm.service.feeds.timeline.Timeline.read` makes it.

        The feed stays unchanged. Raises InvalidInput, naming row and column.
        """
        return self.timeline.read(rows, **how)

    def take(self, plan: Plan, given: Preset | None = None, *, chooses: bool = False) -> FeedOutcome:
        """Carry out the plan of the next call, and forecast from the newest reading; raises SolverError.

        A feed that has models adopts ``given`` before it processes the readings. A feed without models uses ``given``
        from its first models on, instead of choosing settings itself. When errors grow, the feed chooses settings at
        once if ``chooses``, and otherwise waits for the next call.
        """
        self._events, self._scored = [], []
        if given is not None and self.rows is not None:
            self._adopt(model_selection.tried_out(self.spec, self.rows, given.recipes, list(given.trials)), "chosen")
        elif given is not None:
            self.borrowed, self.early = given, None  # those of other settings
        self.timeline, self._chooses = plan.timeline, chooses
        for slot, values in plan.ahead:
            self.ahead.announce(slot, values)
        for slot, values in plan.along:
            self.ahead.suppose(slot, values)
        readings = self._judged(plan.readings)
        for batch in self._batches(readings):
            self._take(batch)
        for correction in plan.corrections:
            self._correct(correction)
        if readings and readings[-1].held:
            self.publish_held(readings[-1])
        elif plan.ahead and plan.at_once and not plan.readings:
            self._forecast_again()
        if self.rows is None:
            self._take_early(plan._replace(readings=readings))
            self.forecast_first()
        counts = plan.accepted, plan.ignored, len(plan.corrections)
        return FeedOutcome(*counts, self._scored, list(self.latest), self._events, len(plan.ahead))

    def _verdict(self, readings: Sequence[Reading]) -> Verdict:
        """Say which of the next readings are outliers; the feed stays unchanged."""
        if self.rows is not None:
            values, season = self._window(), self.season
        else:
            values = np.array([reading.values[0] for reading in self.first[-SEEN:]])
            season = self.season_at_first(self.timeline.every)
        return self.plausibility.judge(values, readings, season or 0)

    def _judged(self, readings: list[Reading]) -> list[Reading]:
        """Return readings with outliers marked as missing; restore earlier suspects that began a level shift."""
        if not (self.spec.finds_outliers and readings):
            return readings
        verdict = self._verdict(readings)
        self._shifts = [one for one in verdict.plausibility.shifts if one not in self.plausibility.shifts]
        self.plausibility = verdict.plausibility
        times = {reading.slot: reading for reading in readings}
        for one in verdict.suspects:
            self._announce("suspected", {"value": one.value, "held": one.held}, times[one.slot])
        for one in verdict.cleared:
            if one.slot < readings[0].slot:
                self._put_right(one.slot, one.value, readings[0].slot)
            self._announce("shifted", {"from": one.held, "to": one.value}, times.get(one.slot, readings[0]))
        return verdict.readings

    def _settled(self, reading: Reading) -> Shift | None:
        """Return a level shift within the range of the window that the errors of forecasts a season ahead show."""
        season = self.season or 0
        i = next((i for i, step in enumerate(self.steps) if step >= max(SETTLED, season)), None)
        band = None if i is None or self.spec.task == "direction" or not self.spec.finds_outliers else self.bands[i]
        if i is None or band is None or not band.has_one_sign(SETTLED):  # as mostly
            return None
        values = self._values(reading.slot)
        return self.plausibility.settled(band.errors(), values, self.steps[i], reading.slot, season)

    def _follow_shifts(self, new: Shift | None, batch: list[Reading]) -> bool:
        """Raise rows, blends and models to the level after shifts; return whether any is known since a batch.

        ``new`` is a shift that the batch has shown; others are those of a feed whose early models are made again.
        """
        if new is not None:
            new = new._replace(known=self.entered)
            self.plausibility = self.plausibility.with_shift(new)
            is_single = self.plausibility.count(self.entered) == 1
            for band, scores in zip(self.bands, self.scores, strict=True):
                if band is not None:
                    band.follow_shift(new.change, scores.missed(new.slot), is_single=is_single)
            now = batch[-1].values[0]
            self._announce("shifted", {"from": now - new.change, "to": now}, batch[-1])
        shifts = self.plausibility.shifts
        known = [one for one in shifts if one.is_settled and batch[0].slot <= one.known <= batch[-1].slot]
        for one in known:
            self.raise_rows(one.slot, one.change)
            for blend in self.blends:
                blend.shift(one.change)
        for i in range(len(self.steps)) if known else ():
            self.learn_again(i)
        return bool(known)

    def _recent(self, slot: int) -> Floats:
        """Return the readings of a window up to a slot, in which a sensor may hang; none if that is not asked."""
        return self._values(slot)[-self.spec.window :] if self.spec.finds_outliers else np.empty(0)

    def raise_rows(self, slot: int, change: float) -> None:
        """Raise the rows before a slot by ``change``, and compute the rows since then again."""
        assert self.rows is not None
        self.rows.lift(self.steps, slot, change)
        for at, ordinal in self.rows.by_slot.items():
            if at >= slot:
                self.rows.make_again(self.steps, ordinal, self._values(at), None)

    def judged_again(self, readings: list[Reading]) -> list[Reading]:
        """Empty the feed, and return ``readings`` with outliers marked as missing, as if they were all new."""
        self.rows, self.first = None, []
        self.plausibility = Plausibility(self.spec.window, *self.spec.limits)
        return self._judged(readings)

    def _put_right(self, slot: int, value: float, next_slot: int) -> None:
        """Put the true value of a former suspect in place of its held value; the newest slot is ``next_slot`` - 1."""
        if self.rows is not None:
            self.history.correct(next_slot - 1 - slot, value)
            return
        if self.early is not None:
            self.early._put_right(slot, value, next_slot)
        at = len(self.first) - (next_slot - slot)
        self.first[at] = self.first[at]._replace(values=(value, *self.first[at].values[1:]))

    def _batches(self, readings: list[Reading]) -> list[list[Reading]]:
        """Return readings in batches; a batch ends where the window becomes full for the first time.

        A gap of many held readings begins a new batch, so that the history still has what the forecasts of the batch's
        first readings look back on.
        """
        out: list[list[Reading]] = [[]]
        total, size, most = self.readings, 0, self.spec.window // 2
        for reading in readings:
            if size and len(out[-1]) >= most and total >= self.spec.window:
                ended = next(at for at in range(len(out[-1]), 0, -1) if not out[-1][at - 1].held)
                out[-1:] = out[-1][:ended], out[-1][ended:]
                size = 0
            out[-1].append(reading)
            total, size = total + (not reading.held), size + (not reading.held)
            filling = total < self.spec.window
            if not reading.held and not filling and (size >= self.spec.batch or total == self.spec.window):
                out.append([])
                size = 0
        return [batch for batch in out if batch]

    def _take(self, batch: list[Reading]) -> None:
        self.readings += sum([not reading.held for reading in batch])
        self.newest_taken = batch[-1]
        if self.rows is not None:
            self._advance(batch)
            return
        self.first += batch
        if self.readings >= self.spec.window:
            self._start()

    def _start(self) -> None:
        """Start models when the window is full: find the season, compute rows, choose settings, train, and forecast."""
        given, self.borrowed = self._preset, None
        first = self._begin(None if given is None else given.season)
        assert self.rows is not None
        if given is None:
            self._choose("live")
        else:
            self._adopt(model_selection.tried_out(self.spec, self.rows, given.recipes, []), "live")
        self._look()
        at = self.rows.count - 1
        self.publish(first[-1] if not first[-1].held else self._newest(first), at, self.predict([at])[0])

    def _begin(self, season: int | None) -> list[Reading]:
        """Set the season, and compute the rows of all readings so far; return the readings."""
        every = self.timeline.every
        assert every is not None
        if self.season is None:
            self.season = season if season is not None else self._found_season()
        layout = layout_of(self.spec, self.season, every)
        self.rows, self.early = Rows(layout, len(self.steps), self.spec.window, self.spec.batch), None
        self.blends = [Blend(self.spec, layout, self.timeline, step) for step in self.steps]
        self.history = History(history_size(self.spec, layout, every))
        first, self.first = self.first, []
        for reading in first if layout.known else []:  # what came with them was known ahead
            supposed = self.ahead.announce if self.spec.generation == 1 else self.ahead.suppose
            supposed(reading.slot, reading.values[1 + layout.others :])
        for reading in first:
            self._enter(reading)
            self.knowledge.scored(reading.slot)
        for shift in self.plausibility.shifts:
            if shift.is_settled and shift.known <= first[-1].slot:
                self.rows.lift(self.steps, shift.slot, shift.change)
        lead = self.ahead.lead(first[-1].slot, self.steps)
        self._know(lead, lead)
        return first

    def _found_season(self) -> int:
        every = self.timeline.every
        assert every is not None
        values = np.array([reading.values[0] for reading in self.first])
        natural = 0 if self.spec.time is None else natural_period(every)
        return find_season(values, natural, self.spec.longest_back)

    @property
    def _preset(self) -> Preset | None:
        """The season and the recipes that are given to the feed; None if the feed chooses them."""
        if self.spec.recipes is None:
            return self.borrowed
        return Preset(self.spec.season or 0, [Recipe(one.represent, one.gamma, one.C) for one in self.spec.recipes])

    @property
    def may_borrow(self) -> bool:
        """Whether the feed has neither models of the whole window nor settings for such models."""
        return self.rows is None and self._preset is None

    def season_at_first(self, every: Every | None) -> int:
        """Return the period of the season in readings while the window fills; 0 if there is none."""
        if self.spec.season is not None:
            return self.spec.season
        if self.borrowed is not None:
            return self.borrowed.season
        return 0 if self.spec.time is None or every is None else natural_period(every)

    def fills_with(self, plan: Plan) -> bool:
        """Say whether a call fills the window for the first time, so that the feed has to choose settings."""
        if not self.may_borrow:
            return False
        readings = self._verdict(plan.readings).readings if self.spec.finds_outliers else plan.readings
        return self.readings + sum(not reading.held for reading in readings) >= self.spec.window

    def filled_by(self, plan: Plan) -> Forecaster:
        """Return a new forecaster without models, with the full window that a call's readings complete."""
        other = Forecaster(self.spec)
        other.timeline, other.plausibility, other.first = plan.timeline, self.plausibility, self.first.copy()
        readings = other._judged(plan.readings)
        other.readings = 0
        batches = other._batches([*other.first, *readings])
        other.first = batches[0]
        return other

    @staticmethod
    def _newest(readings: list[Reading]) -> Reading:
        return next(reading for reading in reversed(readings) if not reading.held)

    def _enter(self, reading: Reading) -> int | None:
        """Add a reading to the history, to the rows, and as the target of earlier rows; return its row's ordinal."""
        assert self.rows is not None
        layout = self.rows.layout
        self.history.append(reading.values[0])
        while self._shifts and self._shifts[0].slot <= reading.slot:
            change = self._shifts.pop(0).change
            for blend in self.blends:
                blend.shift(change)
        if layout.known:
            now = reading.values[1 + layout.others :]
            self.knowledge.compare(reading.slot, self.ahead.values.get(reading.slot), now)
            self.ahead.reach(reading.slot, now)
        if reading.held:
            return None
        for step, ordinal in self.rows.come_true(reading.slot, self.steps, reading.values[0]):
            if self.plausibility.moved(reading.slot - self.steps[step], reading.slot) is not None:
                self.rows.target[ordinal % self.rows.size, step] = np.nan
            else:
                self.due[step].append(ordinal)
        if self.history.count < layout.reach:
            return None
        lead = self.ahead.lead(reading.slot, self.steps)
        self.knowledge.longest = max(self.knowledge.longest, lead)
        return self.rows.append(reading.slot, *self._row(reading), reading.values[1 + layout.others :], lead)

    def _row(self, reading: Reading, ahead: Ahead | None = None) -> tuple[Floats, Floats]:
        """Return the newest reading's raw features: those that steps share, (s,), and each step's own, (steps, o)."""
        assert self.rows is not None
        assert self.timeline.every is not None
        layout = self.rows.layout
        newest = self.plausibility.levelled(self.history.newest(layout.reach), reading.slot)
        parts = newest, reading, ahead or self.ahead
        own = own_rows(layout, self.spec, self.timeline.every, self.timeline.zone, parts)
        return shared_row(layout, newest, reading), own

    def _advance(self, batch: list[Reading]) -> None:
        """Process a batch: forecast from all readings but the last, learn, forecast from the last, and score all."""
        ordinals = [self._enter(reading) for reading in batch]
        real = [n for n in ordinals if n is not None]
        found = dict(zip(real[:-1], self.predict(real[:-1]), strict=True)) if len(real) > 1 else {}
        if real:
            found[real[-1]] = self._learn(real[-1])
        shift, hung = None, math.inf
        for reading, ordinal in zip(batch, ordinals, strict=True):
            self._score(reading)
            if not reading.held and hanging(self._recent(reading.slot)) == SETTLED:
                hung = reading.slot - SETTLED + 1
            if ordinal is not None:
                shift = shift or self._settled(reading)
                self.publish(reading, ordinal, found[ordinal])
        for scores, scored in zip(self.scores, self._due_scores, strict=True):
            if scored:
                scores.learn(scored)
                scored.clear()
        for i in self._off_scale:
            lead = self.blends[i].lead
            self.begin_blend_again(i)
            self.blends[i].lead = lead  # over 0: what was forecast until now counts
        self._off_scale = []
        for band, scores in zip(self.bands, self.scores, strict=True):
            if band is not None and hung < math.inf:
                band.follow_shift(0.0, scores.missed(hung, hung + SETTLED), is_single=True)
        if self._follow_shifts(shift, batch) and real:
            newest = self._newest(batch)
            self.pending.keep(lambda one: one.forecast.slot - one.forecast.step != newest.slot)
            self.publish(newest, real[-1], self.predict([real[-1]])[0])

    # -- models --------------------------------------------------------------------------------------------------------

    def examples(self, step: int, ordinals: Sequence[int]) -> tuple[Floats, Floats]:
        """Return some rows as examples for the model of ``steps[step]``: unscaled features (n, d), targets (n,)."""
        assert self.rows is not None
        return model_selection.examples(self.spec, self.rows, step, self.models[step].recipe.represent, ordinals)

    def _targets(self, step: int, ordinals: Ints) -> Floats:
        assert self.rows is not None
        return model_selection.targets(self.spec, self.rows, step, self.models[step].recipe.represent, ordinals)

    def predict(self, ordinals: list[int]) -> Floats:
        """Return forecasts from rows, (rows, steps, models), in units of the target."""
        assert self.rows is not None
        return self._predicted(*self.rows.features(ordinals))

    def _predicted(self, shared: Floats, own: Floats) -> Floats:
        """Return forecasts from raw rows, ``shared`` (n, s) and ``own`` (n, steps, o)."""
        assert self.rows is not None
        out = np.empty((len(shared), len(self.steps), self.models[0].count))
        for i, model in enumerate(self.models):
            out[:, i] = model.predict(self._seen_by(i, shared, own)) + self._level(i, shared, own)
        return out

    def _seen_by(self, step: int, shared: Floats, own: Floats) -> Floats:
        """Return raw rows as features (n, d) for the model of ``step``, an index."""
        assert self.rows is not None
        return represented(self.rows.layout, self.models[step].recipe.represent, shared, own[:, step])

    def _level(self, step: int, shared: Floats, own: Floats) -> Floats:
        """Return each raw row's reference value, (n, 1), which is added to the forecast of ``step``, an index."""
        assert self.rows is not None
        if self.spec.task == "direction":
            return np.zeros((len(shared), 1))
        return reference(self.rows.layout, self.models[step].recipe.represent, shared, own[:, step])[:, None]

    def reference(self, step: int, ordinals: Sequence[int]) -> Floats:
        """Return the reference values (n,) that are subtracted from the targets of rows; zeros if the feed forecasts
        directions."""
        assert self.rows is not None
        return self._level(step, *self.rows.features(ordinals))[:, 0]

    def _learn(self, newest: int) -> Floats:
        """Learn new examples, forget those that left the window, and from time to time check whether scales still fit.

        Returns the updated models' forecasts from the ``newest`` row, an ordinal, (steps, models).
        """
        assert self.rows is not None
        rows, oldest = self.rows, self.rows.oldest
        row, ahead = rows.features([newest]), np.array([newest])
        out = np.empty((len(self.steps), self.models[0].count))
        for i, model in enumerate(self.models):
            new, self.due[i] = [n for n in self.due[i] if n >= oldest], []
            leaving = rows.leaving(i)
            found = None
            if model.may_slide and (new or leaving):
                keys = np.array(new, np.int64)
                found = model.slides(self._targets(i, keys), keys, leaving, ahead)
            if found is None:
                if new or leaving:
                    model.update(*self.examples(i, new), new, leaving)
                found = model.predict(self._seen_by(i, *row))
            for n in new:
                rows.learnt[n % rows.size, i] = True
            out[i] = found + self._level(i, *row)
        if self.readings - self.looked_at >= (self.spec.window // LOOKS or 1):
            self._look()  # which may change the newest row, too
            out = self.predict([newest])[0]
        return out

    def _look(self) -> None:
        """Rescale and retrain those models for which the spread of the examples has changed since the last scaling."""
        assert self.rows is not None
        self.looked_at = self.readings
        if self.rows.layout.known and self.knowledge.is_over():
            assert self.newest_taken is not None
            if self.knowledge.longest < self.knowledge.lead:
                self._know(self.knowledge.longest, self.knowledge.longest)
            self.knowledge.longest = self.ahead.lead(self.newest_taken.slot, self.steps)
        off = [i for i in range(len(self.models)) if self._is_off_scale(i)]
        for i in off:
            self.learn_again(i)
        self._off_scale = off
        if off:
            self._announce("rescaled", {"steps": [self.steps[i] for i in off]})

    def _is_off_scale(self, step: int) -> bool:
        assert self.rows is not None
        model, known = self.models[step], np.array(self.rows.known(step), np.int64)
        return model.is_off_scale(self.rows.column(known, step, model.level), self._targets(step, known))

    def learn_again(self, step: int) -> None:
        """Train the models of ``step``, an index, on the window from scratch, with a new scale; raises SolverError."""
        assert self.rows is not None
        known = self.rows.known(step)
        self.models[step].fit(*self.examples(step, known), known)
        self.rows.learnt[:, step] = False
        self.rows.learnt[self.rows.places(known), step] = True
        self.due[step] = []

    def _choose(self, kind: str) -> None:
        """Choose the settings that are ``auto``, and train the models with them."""
        assert self.rows is not None
        self._adopt(model_selection.choose(self.spec, self.rows), kind)

    def _choose_or_wait(self) -> None:
        """Choose settings now, or leave the choice to the next call, so that the log records the choice."""
        if self._chooses:
            self._choose("chosen")
        else:
            self.choice_due = True

    def best_now(self) -> Preset:
        """Return the best ``auto`` settings on the current window; raises SolverError."""
        assert self.rows is not None
        assert self.season is not None
        return Preset(self.season, *model_selection.choose_together(self.spec, [self.rows]))

    @property
    def made_with(self) -> Preset:
        """The season, and the recipes of the current models."""
        return Preset(self.season or 0, [model.recipe for model in self.models])

    def _adopt(self, choice: model_selection.Choice, kind: str) -> None:
        self.choice, self.choice_due = choice, False
        refits = [model.refits for model in self.models] or [0] * len(self.steps)
        self.models = [StepModel(self.spec, recipe) for recipe in self.choice.recipes]
        for i, model in enumerate(self.models):
            model.refits = refits[i]
            self.learn_again(i)
        for i, residuals in enumerate(self.choice.residuals):
            band, errors = self.bands[i], residuals[:, 0]
            if kind == "live":
                errors = self._begin_blend(i, errors)
            if band is not None and not band.sides[0].scores.size:
                low, high = residuals[:, 1:].T if self.spec.levels else (errors, errors)
                band.seed(low, high)
        self.choice = model_selection.Choice(choice.recipes, choice.trials)  # residuals have had their effect
        self._announce(kind, {"season": self.season, "every": str(self.timeline.every), "chosen": self.chosen()})

    def _begin_blend(self, step: int, residuals: Floats) -> Floats:
        """Train a step's blend on the window, given its model's ``residuals``; return the blend's residuals.

        Residuals are readings minus forecasts on the newest rows, (n,) each.
        """
        assert self.rows is not None
        if not self.spec.has_blends:
            return residuals
        at = self.rows.places(self.rows.known(step))
        actual, n = self.rows.target[at, step], len(residuals)
        newest = actual[len(actual) - n :]
        found = self._replayed(step, self.rows.slot[at], actual, newest - residuals)
        errors: Floats = newest - found
        return errors[np.isfinite(errors)]

    def begin_blend_again(self, step: int) -> None:
        """Train a step's blend again, on the readings left in the window, and on the scored forecasts of its model."""
        assert self.rows is not None
        if not self.spec.has_blends:
            return
        at = self.rows.places(self.rows.known(step))
        slots, actual, (scored, model) = self.rows.slot[at], self.rows.target[at, step], self.scores[step].of_models()
        said = dict(zip((scored - self.steps[step]).tolist(), model.tolist(), strict=True))
        given = np.array([said.get(slot, np.nan) for slot in slots.tolist()]) + self.plausibility.raised(slots)
        self._replayed(step, slots, actual, given)

    def _replayed(self, step: int, slots: Ints, actual: Floats, model: Floats) -> Floats:
        """Train a step's blend on past readings and model forecasts only; return its forecasts of these readings."""
        held, lift = min(self.history.count, self.history.longest), self.plausibility.lift(slots)
        values = self.plausibility.levelled(self.history.newest(held), self.entered)
        lifted = lift[len(lift) - len(model) :]
        found = self.blends[step].begin(values, self.entered, slots, actual + lift, model + lifted)
        out = np.asarray(found - lifted)
        for value, true in zip(out.tolist(), actual[len(actual) - len(out) :].tolist(), strict=True):
            self.blends[step].compare(value, true)
        return out

    @property
    def entered(self) -> int:
        """The slot of the newest value in the history."""
        return self.timeline.slot if self.newest_taken is None else self.newest_taken.slot

    def _window(self) -> Floats:
        """Return the newest values of the target: as many as a window has, and one more."""
        return self.history.newest(min(self.history.count, self.spec.window + 1))

    def _values(self, slot: int) -> Floats:
        """Return the history of the target up to a slot, adjusted for level shifts."""
        held, back = min(self.history.count, self.history.longest), self.entered - slot
        found = self.history.newest(held)
        if back:
            found = found[: held - back if held > back else 0]
        return self.plausibility.levelled(found, slot) if self.plausibility.shifts else found

    def chosen(self) -> list[dict[str, Any]]:
        """Return the recipe of each step; empty while the window fills."""
        steps = zip(self.steps, self.models, strict=False)
        return [{"step": step, **model.recipe._asdict(), "refits": model.refits} for step, model in steps]

    def adopt(self, recipes: Sequence[Recipe]) -> FeedOutcome:
        """Retrain the models on the window with new recipes, one for each step; earlier forecasts stay unchanged."""
        self._events, self._scored = [], []
        if self.choice is not None:
            self._adopt(model_selection.Choice(list(recipes), self.choice.trials), "chosen")
        return FeedOutcome(0, 0, 0, [], list(self.latest), self._events)

    def update(self, changes: Sequence[StepUpdate]) -> FeedOutcome:
        """Give models fewer examples, or another C, along solution paths; earlier forecasts stay unchanged."""
        assert self.rows is not None
        self._events, self._scored = [], []
        for change in changes:
            i = self.steps.index(change.step)
            leaving = [] if change.keep is None else self.rows.shorten(i, change.keep)
            self.models[i].change(leaving, change.C)
            self._announce("updated", {"step": change.step, "forgotten": len(leaving), "C": self.models[i].recipe.C})
        return FeedOutcome(0, 0, 0, [], list(self.latest), self._events)

    def gap(self) -> float:
        """Return the largest relative duality gap of all models, computed from the data."""
        return max((model.gap() for model in self.models), default=0.0)

    def cool(self) -> None:
        """Reduce readings and models to the compact form of a snapshot; the next call computes what was left out."""
        self.timeline.cool()
        self._events, self._scored = [], []
        if self.early is not None:
            self.early.cool()
        if self.rows is None:
            return
        for i, model in enumerate(self.models):
            model.cool(StepFeatures(self.rows, i, model.recipe.represent))
        self.rows.cool(self.steps)

    @property
    def is_cool(self) -> bool:
        """Whether the feed has models, and all of them are in the compact form that :meth:`cool` makes."""
        models = self.models if self.early is None else self.early.models
        return bool(models) and all(model.is_cool for model in models)

    @property
    def hot_bytes(self) -> int:
        """The memory in bytes that :meth:`cool` would free; 0 right after it."""
        models = self.models if self.early is None else self.early.models
        return self.timeline.hot_bytes + sum([model.hot_bytes for model in models])

    @property
    def held_bytes(self) -> int:
        """The memory of all arrays and of the window's readings in bytes, before :meth:`cool` frees some of it."""
        held = self.timeline.held_bytes + self.history.held_bytes + (0 if self.rows is None else self.rows.held_bytes)
        for part in (*self.scores, *self.models, *self.bands):
            held += 0 if part is None else part.held_bytes
        held += 0 if self.early is None else self.early.held_bytes
        return held + sum([test.nbytes for test in self.drifts])

    # -- forecasts and scores ------------------------------------------------------------------------------------------

    def publish(self, reading: Reading, ordinal: int, found: Floats) -> None:
        """Publish the forecasts ``found`` (steps, models) from a reading, and keep them until they can be scored."""
        assert self.rows is not None
        (shared, own), lead = self.rows.features([ordinal]), int(self.rows.lead[ordinal % self.rows.size])
        said = self._said(reading, shared[0], own[0], found, lead)
        for pending in said:
            self.pending.add(pending)
        self.latest = [pending.forecast for pending in said]

    def publish_held(self, reading: Reading) -> None:
        """Publish forecasts from the newest reading, which is missing; they are not kept for scoring."""
        if self.rows is None:
            return
        said = self._said(*self._from_now(reading))
        self.latest = [pending.forecast for pending in said]

    def _take_early(self, plan: Plan) -> None:
        """While the window fills, let models of a smaller window learn a call's readings, or begin such models."""
        size = early_size(self.spec, self.readings)
        if size and self.early is not None and self.early.spec.window == size:
            self._learn_early(self.early, plan, self._shifts)
        else:
            self.begin_early()

    def begin_early(self) -> None:
        """Begin models of a smaller window with all readings so far, if there are enough of them."""
        size, self.early = early_size(self.spec, self.readings), None
        if size:
            self.early = self.early_of(size)
            self.early.ahead.restore(self.ahead.to_arrays())
            plan = Plan(self.first, [], [], 0, 0, self.timeline, [], at_once=False)
            self._learn_early(self.early, plan, [one for one in self.plausibility.shifts if not one.is_settled])

    def early_of(self, size: int) -> EarlyForecaster:
        """Return new models of a smaller window of ``size`` readings."""
        return EarlyForecaster(self.spec, size, self._preset)

    def _learn_early(self, early: EarlyForecaster, plan: Plan, shifts: Sequence[Shift]) -> None:
        early.plausibility, early._shifts = self.plausibility, list(shifts)
        try:
            early.take(plan)
            self.plausibility = early.plausibility
            self._events += [event for event in early._events if event.kind == "shifted"]
        except SolverError:  # the window does not need them
            self.early = None

    def _first_readings(self) -> tuple[list[Reading], Every | None]:
        """Return the readings while the window fills, and their interval, which is preliminary for the first ones."""
        if self.timeline.every is not None or len(self.timeline.waiting) < 2:
            return self.first, self.timeline.every
        found = [
            Reading(slot, time, (math.nan if given[0] is None else given[0],), given[0] is None)
            for slot, (time, given) in enumerate(self.timeline.waiting)
        ]
        return found, found_in([reading.time for reading in found], self.timeline.zone)

    def forecast_first(self) -> None:
        """Publish naive forecasts, or those of early models, while the window fills; they are not kept for scoring."""
        first, every = self._first_readings()
        real = sum([not reading.held for reading in first])
        self.latest = []
        if real < 2 or every is None or not self.spec.has_blends:
            return
        early = {} if self.early is None else {one.step: one for one in self.early.latest}
        newest = first[-1]
        values = np.array([np.nan if reading.held else reading.values[0] for reading in first])
        bounds = bounds_of(np.array([reading.values[0] for reading in first if not reading.held]), self.spec)
        season, lead = self.season_at_first(every), self.ahead.lead(newest.slot, self.steps)
        for step in self.steps:
            known = step <= lead or not self.spec.known
            if not known and self.spec.unannounced == "refuse":
                continue
            if step in early:
                self.latest.append(early[step])
                continue
            value, half, last, seasonal, served = naive_forecast(values, step, season, self.spec.coverage, bounds)
            value = bounds.inside(value)
            band = Band(None, None) if half is None else Band(value - half, value + half).inside(bounds)
            slot, when = newest.slot + step, every.after(newest.time, step)
            experts = (None, last, seasonal, *NO_EXPERTS[3:])
            self.latest.append(Forecast(step, slot, when, newest.time, value, *band, served, known, experts))

    def _from_now(self, reading: Reading, ahead: Ahead | None = None) -> tuple[Reading, Floats, Floats, Floats, int]:
        """Return the newest reading, its raw row, the forecasts from it, and the last step with announced columns."""
        ahead = ahead or self.ahead
        shared, own = self._row(reading, ahead)
        return reading, shared, own, self._predicted(shared[None], own[None])[0], ahead.lead(reading.slot, self.steps)

    def forecasts_if(self, rows: Sequence[Row]) -> list[Forecast]:
        """Return the forecasts that would result if ``rows`` were announced; the feed stays unchanged.

        Raises
        ------
        InvalidInput : names row and column, or says that there are no models yet
        """
        if self.rows is None:
            raise InvalidInput("the feed has no models yet", field="id")
        plan = self.check(rows)
        if plan.readings or plan.corrections or not plan.ahead:
            raise InvalidInput("holds known columns of times to come only", field="rows")
        if_so = Ahead(len(self.spec.known))
        if_so.newest, if_so.values = self.ahead.newest, {**self.ahead.values, **dict(plan.ahead)}
        return [pending.forecast for pending in self._said(*self._from_now(self.timeline.newest, if_so))]

    def _forecast_again(self) -> None:
        """Forecast again from the newest reading, after more columns were announced for the time ahead."""
        if self.rows is None:
            return
        reading = self.timeline.newest
        lead = self.ahead.lead(reading.slot, self.steps)
        self.knowledge.longest = max(self.knowledge.longest, lead)
        if lead > self.knowledge.lead:
            self._know(lead, self.knowledge.lead)
        ordinal = self.rows.count - 1
        at = ordinal % self.rows.size
        if reading.held or self.rows.slot[at] != reading.slot:
            self.publish_held(reading)
            return
        self.rows.own[at], self.rows.lead[at] = self._row(reading)[1], lead
        self.pending.keep(lambda one: one.forecast.slot - one.forecast.step != reading.slot)
        self.publish(reading, ordinal, self.predict([ordinal])[0])

    def _know(self, lead: int, changed: int) -> None:
        """Retrain the models of steps beyond ``changed`` with known columns of up to ``lead`` steps ahead."""
        assert self.rows is not None
        self.knowledge.lead = lead
        affected = [i for i, step in enumerate(self.steps) if step > changed]
        if not (self.rows.layout.changes and affected):
            return
        self.rows.know(self.steps, changed, lead, self.ahead.values)
        if self.models:
            for i in affected:
                self.learn_again(i)
                self.blends[i].doubt()  # their record was of a model that knew otherwise
            self._announce("known", {"lead": lead})

    def _said(self, reading: Reading, shared: Floats, own: Floats, found: Floats, lead: int) -> list[Pending]:
        """Return the forecasts of all steps from a reading and its raw row, ``shared`` (s,) and ``own`` (steps, o)."""
        assert self.rows is not None
        assert self.timeline.every is not None
        layout, last, values = self.rows.layout, reading.values[0], self._values(reading.slot)
        recent = self.history.newest(min(self.history.count, max(SEEN, self.spec.window) + 1))
        bounds = bounds_of(recent, self.spec)
        change = last - float(shared[1]) if len(layout.lags) > 1 else 0.0
        said, reach = list[Pending](), (-math.inf, -math.inf)  # of the band of the step before
        for i, step in enumerate(self.steps):
            known = step <= lead or not layout.known
            if not known and self.spec.unannounced == "refuse":
                continue
            blend = self.blends[i]
            value, experts, weights = blend.forecast(values, reading.slot, float(found[i, 0]), bounds)
            longest = blend.longest_season(values)
            seasonal = experts[SEASONAL] if longest is None else longest
            weekly = last if seasonal is None else seasonal
            low, high = (float(found[i, 1]), float(found[i, 2])) if self.spec.levels else (value, value)
            held = self.bands[i]
            served: Served = "blend" if blend.is_served else "model"
            band = Band(None, None) if held is None else held.around(low, high, reach)
            if not (self.spec.levels or band.low is None or band.high is None):
                reach = low - band.low, band.high - high
            band = band.inside(bounds)
            if blend.yields_to_zero(value, bounds):
                season = self.season or self.season_at_first(self.timeline.every)
                naive = naive_forecast(recent, step, season, None, bounds)
                value, served = bounds.inside(naive.value), naive.served
                band = band.holding(value)
            when = self.timeline.every.after(reading.time, step)
            forecast = Forecast(
                step, reading.slot + step, when, reading.time, value, *band, served, known, experts, weights
            )
            said.append(Pending(i, forecast, low, high, change, weekly, forecast.mix()))
        return said

    def _score(self, reading: Reading) -> None:
        """Score the forecasts of a reading, or drop the forecasts if the reading is missing."""
        waiting = self.pending.take(reading.slot)
        if reading.held:
            self.knowledge.scored(reading.slot)
            return
        actual, recent = reading.values[0], self._recent(reading.slot)
        for i, forecast, low, high, change, weekly, mix in waiting:
            value, (model, last, seasonal, *_) = forecast.value, forecast.experts
            assert last is not None
            seasonal = last if seasonal is None else seasonal
            self.knowledge.score(i, reading.slot, was_known=forecast.known)
            made_at = reading.slot - forecast.step
            moved = self.plausibility.moved(made_at, reading.slot)
            if moved is None and (values := self._values(made_at)).size:
                self.blends[i].learn(values, made_at, forecast.experts, low, actual)
            below, above, made = forecast.low, forecast.high, (reading.slot, reading.time, forecast.made_at, value)
            ends = math.nan if below is None else below, math.nan if above is None else above
            alone = math.nan if model is None else model
            scored = ScoredForecast(*made, *ends, actual, last, seasonal, change, alone, weekly, mix)
            self._due_scores[i].append(scored)
            self._scored.append((forecast.step, scored))
            held = self.bands[i]
            if held is not None and is_of_hanging(recent, forecast.step):
                held.learn(value, value, value, Band(None, None))
            elif held is not None:
                known, band = (actual, Band(below, above)) if moved is None else (actual - moved, Band(None, None))
                held.learn(min(known, actual, key=lambda one: abs(one - value)), low, high, band)
            wrong = float((value > 0) != (actual > last)) if self.spec.task == "direction" else abs(actual - value)
            since = drift.learn(self.drifts[i], forecast.step, reading.slot, wrong)
            if since is not None:
                self._announce("drift", {"step": forecast.step, "since": since}, reading)
                if self.spec.on_drift == "choose":
                    self._choose_or_wait()
        self.knowledge.scored(reading.slot)

    def _announce(self, kind: str, detail: dict[str, Any], reading: Reading | None = None) -> None:
        reading = reading or self.newest_taken
        slot, time = (self.timeline.slot, self.timeline.time) if reading is None else (reading.slot, reading.time)
        self._events.append(FeedEvent(kind, slot, 0.0 if time is None else time, detail))

    def _correct(self, correction: Correction) -> None:
        """Correct the value of a reading in the history, and as the target of examples, also of learnt ones.

        Existing features and forecasts stay unchanged.
        """
        slot, value = correction.slot, correction.values[0]
        if self.rows is None:
            self.first = [r._replace(values=correction.values) if r.slot == slot else r for r in self.first]
            return
        self.history.correct(self.timeline.slot - slot, value)
        if correction.held or self.plausibility.drop(slot):
            return  # nothing was learnt of it
        value += float(self.plausibility.raised(np.array([slot]))[0])
        for i, ordinal in self.rows.come_true(slot, self.steps, value):
            if self.rows.learnt[ordinal % self.rows.size, i]:
                self.models[i].relabel(ordinal, float(self.examples(i, [ordinal])[1][0]))


class EarlyForecaster(Forecaster):
    """The models of a smaller window while the window of a feed fills; they choose nothing.

    Parameters
    ----------
    whole : the settings of the feed
    size : readings of the smaller window
    preset : the settings of the feed's models, which are adapted to the smaller window; None: the usual ones
    """

    def __init__(self, whole: FeedSpec, size: int, preset: Preset | None) -> None:
        super().__init__(early_spec(whole, size))
        self._whole, self._lent = whole, preset

    def _judged(self, readings: list[Reading]) -> list[Reading]:
        """Return readings as they are: the feed has judged them."""
        return readings

    def _found_season(self) -> int:
        if self._lent is not None and self._lent.season <= self.spec.window // 2:
            return self._lent.season
        return super()._found_season()

    def _choose(self, kind: str) -> None:
        assert self.rows is not None
        layout, every = self.rows.layout, self.timeline.every
        assert every is not None
        if self._lent is None:
            recipes = [model_selection.usual(self.spec, layout)] * len(self.steps)
        else:
            lent, of = self._lent.recipes, layout_of(self._whole, self._lent.season, every)
            recipes = [
                model_selection.adapted(recipe, (self._whole, of), (self.spec, layout))
                for step, recipe in zip(self._whole.horizons, lent, strict=True)
                if step in self.steps
            ]
        self._adopt(model_selection.tried_out(self.spec, self.rows, recipes, []), kind)


def choose_for(feeds: Sequence[Forecaster]) -> Preset:
    """Choose the settings that feeds of one specification share, from the full windows that :meth:`filled_by` made.

    The season is the one that most feeds have, or the shortest of several such seasons.
    """
    seasons = [feed._found_season() if feed.season is None else feed.season for feed in feeds]
    season = max(sorted(set(seasons)), key=seasons.count)
    windows = []
    for feed in feeds:
        feed._begin(season)
        assert feed.rows is not None
        windows.append(feed.rows)
    return Preset(season, model_selection.choose_together(feeds[0].spec, windows)[0])
