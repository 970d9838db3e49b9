"""Outliers: a single reading far from all before it is treated as missing, two such readings in a row as a level shift.

A level shift ends with a reading on the level before the shift, as after a few bad readings or a flood. Readings are
compared with earlier readings as if those before a shift had the new level. A smaller shift, within the range of the
window, is noticed by the errors of forecasts that were made before it, after ``SETTLED`` readings or half a season.
Bands learn nothing from a sensor that hangs, which is one with far more equal readings in a row than ever before.

A reading is suspected to be an outlier if it lies further outside the range of the window than the range is wide. A
reading is also suspected if its change from the reading before is more than three times the largest change in the
window. If none of 200 readings was negative, a reading is suspected if it is as far below 0 as their median is above 0.
If fewer than half of the changes differ from zero, or few readings are known, the limit is a hundred times the range,
as demand that is mostly zero may come in sizes not seen before. Once a hundredth of the readings in the window are
suspects, no further reading is suspected, because such values belong to the series. Readings beyond a hundred times the
range are suspected until a tenth of the readings are suspects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.erased_times import Forgotten
from livesvm.service.feeds.features import MOST_BACK
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.timeline import Reading

Floats = NDArray[np.float64]

NEAR = 16  #: newest readings that are looked at first
LEAST, ENOUGH = 8, 40  #: readings from which any is suspected, and from which the usual changes are known
CHANGES = 3.0  #: times the largest change of the window, which are suspicious
EXTREME = 100.0  #: ranges of the window that are suspicious where little is known
LEAST_ABOVE = 200  #: readings, none of which is below 0, after which none is expected to be
OFTEN_ZERO, CAUTION = 0.25, 1.0  #: a share of zeros from which 0 may be forecast; standard errors where it is a half
FEW_SHIFTS = 4  #: in a window; with more of them, the levels belong to the series
SETTLED = 12  #: readings on a new level within the range of the window, at least, after which it is a level shift
CLEAR, CROSSINGS = 1.35, 16  #: times the largest mean of as many errors before it, which changed its sign so often
STEADY = 2.0  #: times the spread of errors before: more is no level
USUAL, USUAL_EXTREME = 0.01, 0.1  #: shares of the readings from which nothing is suspected any more


class SuspectReading(NamedTuple):
    """A suspect: a reading far from all before it, which may be an outlier."""

    slot: int
    value: float
    held: float  #: what stands in its place


class Shift(NamedTuple):
    """A level shift: from ``slot`` on, the series is higher by ``change``."""

    slot: int
    change: float
    known: int  #: the slot from which on the shift was known; a later one than ``slot`` if errors have shown it

    @property
    def is_settled(self) -> bool:
        """Whether forecast errors have shown the shift, so that the rows of models were raised to the new level."""
        return self.known > self.slot


class Bounds(NamedTuple):
    """The range to which forecasts are limited, and the condition for a forecast of 0."""

    low: float
    high: float
    zero: float | None = None  #: standard errors by which others have to be better than 0; None: it is not forecast

    def inside(self, value: float) -> float:
        """Return the value, limited to the range."""
        return self.low if value < self.low else self.high if value > self.high else value

    def yields_to_zero(self, value: float, gain: float, squares: float) -> bool:
        """Say whether 0 is to be forecast instead of ``value``.

        Parameters
        ----------
        gain : the errors of 0 minus those of such forecasts so far, summed
        squares : the sum of the squares of these differences; the present forecast counts as one more that may fail
        """
        return self.zero is not None and gain < self.zero * math.sqrt(squares + value * value)


class Verdict(NamedTuple):
    """Judged readings: suspects are marked as missing, and hold the last value, or their own value once confirmed."""

    readings: list[Reading]
    suspects: list[SuspectReading]
    cleared: list[SuspectReading]  #: of a new level; the readings of earlier calls among them are to be put right
    plausibility: Plausibility  #: of the next readings


class Plausibility:
    """The search for outliers: its suspects, and the level shifts of the series.

    Parameters
    ----------
    window : readings that are looked back on
    least, most : values that can be; any other one is suspected
    """

    def __init__(self, window: int, least: float | None = None, most: float | None = None) -> None:
        self.window = window
        self.least, self.most = least, most
        self.suspects: list[SuspectReading] = []  #: of the window, oldest first
        self.open: SuspectReading | None = None  #: the newest reading, if it is one
        self.shifts: list[Shift] = []  #: of all that is held of the target, oldest first

    def judge(self, values: Floats, readings: Sequence[Reading], season: int = 0) -> Verdict:
        """Judge readings that follow ``values`` (n,), oldest first; this object stays unchanged.

        ``season`` is the period of the season in readings, or 0; it improves the estimates of level shifts.
        """
        is_plain = len(readings) == 1 and not (self.suspects or self.shifts or readings[0].held)  # as nearly always
        if is_plain and not (len(values) and self._suspects(values[-self.window :], readings[0])):
            return Verdict(list(readings), [], [], self)
        after = Plausibility(self.window, self.least, self.most)
        after.suspects, after.open, after.shifts = self.suspects.copy(), self.open, self.shifts.copy()
        out, cleared = list(readings), list[SuspectReading]()
        n, is_one = len(values), len(readings) == 1  # after which nothing is judged
        seen = values if is_one else np.concatenate([values, np.empty(len(readings))])
        for i, reading in enumerate(readings):
            value, first = reading.values[0], after.open
            known = after._on_one_level(seen[max(0, n - self.window) : n], reading.slot - 1)
            if reading.held:
                if first is not None:
                    out[i] = _holding(reading, first.held)
            elif first is not None and after._is_new_level(first, value):
                back = reading.slot - first.slot
                if not is_one:
                    seen[n - back] = first.value
                if back <= i:
                    out[i - back] = _holding(readings[i - back], first.value)
                cleared.append(first)
                after._clear(first, value, _mean_before(known, back, season))
            elif after._ends_shift(reading, known):
                after.open = None
                after.shifts.append(Shift(reading.slot, -after.shifts[-1].change, reading.slot))
            elif not (n and after._suspects(known, reading)):
                after.open = None
            else:
                after.open = SuspectReading(reading.slot, value, float(seen[n - 1]))
                after.suspects.append(after.open)
                out[i] = _holding(reading, after.open.held)
            if not is_one:
                seen[n] = out[i].values[0]
            n += 1
        if readings:
            oldest = readings[-1].slot - self.window
            after.suspects = [one for one in after.suspects if one.slot > oldest]
            after.shifts = [one for one in after.shifts if one.slot > min(oldest, readings[-1].slot - MOST_BACK)]
        new = [one for one in after.suspects if readings and one.slot >= readings[0].slot]
        return Verdict(out, new, cleared, after)

    def _is_possible(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def _suspects(self, values: Floats, reading: Reading) -> bool:
        """Say whether a reading that follows ``values`` (n,) is suspected to be an outlier."""
        value, n = reading.values[0], len(values)
        if not self._is_possible(value):
            return True
        if n < LEAST:
            return False
        near = values[-NEAR:].tolist()
        step = abs(value - near[-1])
        is_usual = step <= CHANGES * max(abs(near[-1] - near[-2]), abs(near[-2] - near[-3]))
        if is_usual and min(near) <= value <= max(near):
            return False
        low, high = float(np.minimum.reduce(values)), float(np.maximum.reduce(values))
        beyond, width = max(low - value, value - high), high - low
        scale = width or abs(high)
        if beyond > EXTREME * scale and (scale or n >= ENOUGH):
            return self._count(reading.slot) < max(1.0, USUAL_EXTREME * n if scale else 1.0)
        if n < ENOUGH:
            return False
        if beyond <= 0.0 and is_usual:
            return False
        is_below = value < 0.0 <= low and n >= LEAST_ABOVE and -value > np.median(values)  # such as -999 of counts
        if _is_mostly_still(values):
            return False
        changes = np.abs(np.diff(values))
        is_far = is_below or beyond > width or step > CHANGES * np.maximum.reduce(changes)
        return bool(is_far) and self._count(reading.slot) < max(1.0, USUAL * n)

    def _count(self, slot: int) -> int:
        return sum(one.slot > slot - self.window for one in self.suspects)

    def _is_new_level(self, first: SuspectReading, value: float) -> bool:
        """Say whether the reading after a suspect confirms that both are no outliers."""
        is_nearer = abs(value - first.value) < abs(value - first.held)
        return is_nearer and self._is_possible(first.value) and self._is_possible(value)

    def _on_one_level(self, values: Floats, newest: int) -> Floats:
        """Return values (n,) up to slot ``newest`` as :meth:`levelled` does, or as they are if levels shift often."""
        return self.levelled(values, newest) if len(self.shifts) <= FEW_SHIFTS else values

    def _ends_shift(self, reading: Reading, values: Floats) -> bool:
        """Say whether a reading after ``values`` (n,) of one level is back on the level before the last shift."""
        if not self.shifts or (len(self.shifts) > 1 and self.shifts[-1].change == -self.shifts[-2].change):
            return False
        if self.shifts[-1].is_settled:  # within the range of the window, where a reading tells nothing
            return False
        (slot, change, _), value = self.shifts[-1], reading.values[0]
        before = values[: max(0, len(values) - (reading.slot - slot))]
        if not len(before):
            return False
        beyond = np.minimum.reduce(before) - value if change > 0.0 else value - np.maximum.reduce(before)
        return bool(0.5 < beyond / abs(change) < 1.5)

    def _clear(self, first: SuspectReading, value: float, before: float) -> None:
        """Confirm a suspect, and record a level shift if the next reading, ``value``, is close to the suspect.

        ``before`` is the mean that was expected of these two readings.
        """
        self.suspects.remove(first)
        self.open = None
        if abs(value - first.value) < abs(first.value - first.held) / 2:
            self.shifts.append(Shift(first.slot, (first.value + value) / 2 - before, first.slot))

    def levelled(self, values: Floats, newest: int) -> Floats:
        """Return values (n,) up to slot ``newest``, with level shifts added to the values before each shift."""
        if not (self.shifts and (known := [one for one in self.shifts if one.slot <= newest])):
            return values
        out = values.copy()
        for slot, change, _ in known:
            out[: max(0, len(out) - 1 - newest + slot)] += change
        return out

    def lift(self, slots: NDArray[np.int64]) -> Floats:
        """Return how much higher the level is now than in the rows of some slots, (n,)."""
        return self._since(slots, [one for one in self.shifts if not one.is_settled])

    def raised(self, slots: NDArray[np.int64]) -> Floats:
        """Return by how much the rows of some slots were raised to the level of later ones, (n,)."""
        return self._since(slots, [one for one in self.shifts if one.is_settled])

    def _since(self, slots: NDArray[np.int64], shifts: Sequence[Shift]) -> Floats:
        found = np.zeros(len(slots))
        for slot, change, _ in shifts:
            found[slots < slot] += change
        return found

    def moved(self, made: int, slot: int) -> float | None:
        """Return by how much the level has shifted up to ``slot``, unknown at the earlier slot ``made``; None: not."""
        if not self.shifts:
            return None
        changes = [one.change for one in self.shifts if made < one.known and one.slot <= slot]
        return sum(changes) if changes else None

    def settled(self, errors: Floats, values: Floats, step: int, slot: int, season: int) -> Shift | None:
        """Return the level shift that the errors (n,) of forecasts ``step`` ahead show at ``slot``, the newest error's.

        The newest errors, of at least half a ``season`` and all of forecasts from before the shift, are much alike.
        Their mean is larger than that of as many errors ever was before. Series with a level that wanders have such
        means all the time, or these have not changed their sign often enough to tell. There is no shift where the
        ``values`` (m,) up to this slot stood still, as those of a sensor that hangs.
        """
        least = max(SETTLED, season // 2)
        mean, spread = float(errors[-least:].mean()), float(errors[-least:].std())
        off = np.flatnonzero(errors[-step:] * math.copysign(1.0, mean) < abs(mean) / 2)
        n = step - (int(off[-1]) + 1 if off.size else 0)
        before, first = errors[: max(0, errors.size - n)], slot - n + 1
        is_long = n >= least and before.size >= ENOUGH + least and spread <= STEADY * float(before.std())
        if not is_long or (self.shifts and self.shifts[-1].known > first - step) or self.count(slot) >= FEW_SHIFTS:
            return None
        sums = np.cumsum(before)
        means = (sums[least:] - sums[:-least]) / least
        crossings = np.count_nonzero(np.diff(np.signbit(means)))
        if crossings < CROSSINGS or not abs(mean) - spread > CLEAR * float(np.abs(means).max()) > 0.0:
            return None
        if np.convolve(np.diff(values[-n - 2 * step :]) == 0.0, np.ones(SETTLED - 1)).max(initial=0.0) == SETTLED - 1:
            return None
        return Shift(first, float(np.median(errors[-n:])), slot)

    def count(self, slot: int) -> int:
        """Return how many level shifts there are in the window that ends at a slot."""
        return sum(one.slot > slot - self.window for one in self.shifts)

    def with_shift(self, new: Shift) -> Plausibility:
        """Return a copy with a further shift."""
        after = Plausibility(self.window, self.least, self.most)
        after.suspects, after.open, after.shifts = self.suspects, self.open, [*self.shifts, new]
        return after

    def drop(self, slot: int) -> bool:
        """Remove the suspect at a slot with a corrected value; return whether there was one."""
        left = [one for one in self.suspects if one.slot != slot]
        was = len(left) < len(self.suspects)
        self.suspects, self.open = left, None if self.open is not None and self.open.slot == slot else self.open
        return was

    def forget(self, forgotten: Forgotten) -> list[Shift]:
        """Remove suspects and level shifts that involve erased readings; return those shifts that errors had shown."""
        self.suspects = [one for one in self.suspects if not forgotten.concerns(one.slot - 1, one.slot + 1)]
        first = [0 if one.is_settled else one.slot - 1 for one in self.shifts]  # all readings before led to its errors
        last = [max(one.slot + 1, one.known) for one in self.shifts]
        gone = [one for one, *ends in zip(self.shifts, first, last, strict=True) if forgotten.concerns(*ends)]
        known = {abs(one.change) for one in gone}
        self.shifts = [one for one in self.shifts if abs(one.change) not in known]  # with those that reverse them
        self.open = self.open if self.open in self.suspects else None
        return [one for one in gone if one.is_settled]

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as a dictionary; empty if there are no suspects and level shifts."""
        if not (self.suspects or self.shifts):
            return {}
        suspects, shifts = np.array(self.suspects, np.float64), np.array(self.shifts, np.float64)
        return {
            "suspects": suspects.reshape(-1, 3), "shifts": shifts.reshape(-1, 3), "is_open": self.open is not None,
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state from the dictionary that ``to_arrays`` returned."""
        if not arrays:
            return
        self.suspects = [SuspectReading(int(slot), value, held) for slot, value, held in arrays["suspects"].tolist()]
        found = [(*one, one[0])[:3] for one in arrays["shifts"].tolist()]  # all were known at once before
        self.shifts = [Shift(int(slot), change, int(known)) for slot, change, known in found]
        self.open = self.suspects[-1] if arrays["is_open"] else None


def hanging(values: Floats) -> int:
    """Return how many of the newest ``values`` (n,) are equal if a sensor seems to hang, or 0.

    They are at least ``SETTLED``, and more than twice as many as ever were equal before.
    """
    if values.size < ENOUGH or values[-1] != values[-SETTLED]:  # as mostly
        return 0
    changed = np.flatnonzero(np.diff(values))
    run = values.size - 1 - int(changed[-1]) if changed.size else 0
    return run if run >= SETTLED and run > 2 * int(np.diff(changed, prepend=-1).max()) else 0


def is_of_hanging(values: Floats, step: int) -> bool:
    """Say whether a sensor seems to hang at the newest of ``values`` (n,), or at the one ``step`` before."""
    backs = {0, step, max(0, step - SETTLED + 1)}  # the last: it began to hang then, as later readings say
    return any(hanging(values[: values.size - back]) for back in backs)


def _mean_before(values: Floats, back: int, season: int) -> float:
    """Return the expected mean of two readings: a suspect, the ``back``-th newest of ``values`` (n,), and the next one.

    The mean is computed from the values a season before, if those are usually nearer than the last value.
    """
    known = values[: len(values) - back]
    if back < season and 2 * season <= len(known):
        off, changes = known[season:] - known[:-season], np.diff(known)
        if np.median(np.abs(off)) < np.median(np.abs(changes)):
            return float(known[len(known) - season] + values[len(values) - season]) / 2
    return float(known[-1])


def _is_mostly_still(values: Floats) -> bool:
    """Say whether most values repeat the one before."""
    return bool(2 * np.count_nonzero(values[1:] != values[:-1]) < len(values) - 1)


def bounds_of(values: Floats, spec: FeedSpec) -> Bounds:
    """Return the range of forecasts from ``values`` (n,), and the condition for a forecast of 0.

    The range is bounded by the limits in ``spec``, by 0 if no value is negative, and by the least and the largest value
    if most values repeat the one before. A forecast of 0 is possible only if at least a quarter of the values are 0. If
    half of them are, it is the forecast until another one is better by :data:`CAUTION` standard errors. Zeros before
    the first two other values in a row do not count, as those of a first night.
    """
    (least, most), n = spec.limits, len(values)
    low, high = -math.inf if least is None else least, math.inf if most is None else most
    if spec.task == "direction" or spec.minimum is None or not n:
        return Bounds(low, high)
    lowest = float(np.minimum.reduce(values))
    others, counted = n if lowest > 0.0 else int(np.count_nonzero(values)), n
    has_zeros = n >= LEAST and others <= (1.0 - OFTEN_ZERO) * n
    if spec.minimum == "auto" and lowest >= 0.0 and (has_zeros or n >= min(LEAST_ABOVE, spec.window)):
        low = 0.0
    if values[0] == 0.0 and others > 1 and values[first := int(np.argmax(values != 0.0)) + 1] != 0.0:
        counted = n - first + 1
    may_be_zero = low <= 0.0 <= high and counted >= LEAST and others <= (1.0 - OFTEN_ZERO) * counted
    is_rare = may_be_zero and 2 * others <= counted
    if spec.finds_outliers and n >= ENOUGH and _is_mostly_still(values):
        low, high = max(low, lowest), min(high, float(np.maximum.reduce(values)))
    return Bounds(low, max(low, high), CAUTION * is_rare if may_be_zero else None)


def _holding(reading: Reading, value: float) -> Reading:
    return reading._replace(values=(value, *reading.values[1:]), held=True)
