"""Readings far from everything before them: one alone is held as a missing one, two in a row are a new level.

A reading is suspected where it lies further outside the range of the window than that range is wide, or changes by more
than three times the largest change in the window. Where fewer than half of the changes are other than zero, or few
readings are known, it takes a hundred of these ranges, as demand that is mostly zero has rare sizes. What comes in a
hundredth of the readings, or as much further out in a tenth, is what the series does.
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

LEAST, ENOUGH = 8, 40  #: readings from which any is suspected, and from which the usual changes are known
CHANGES = 3.0  #: times the largest change of the window, which are suspicious
EXTREME = 100.0  #: ranges of the window that are suspicious where little is known
LEAST_ABOVE = 200  #: readings, none of which is below 0, after which none is expected to be
FEW, CLEARLY = 10, 0.3  #: values other than 0 are few, of which forecasts need clearly smaller errors than 0 has
USUAL, USUAL_EXTREME = 0.01, 0.1  #: shares of the readings from which nothing is suspected any more


class SuspectReading(NamedTuple):
    """A reading that is far from all before it."""

    slot: int
    value: float
    held: float  #: what stands in its place


class Shift(NamedTuple):
    """A level that is ``change`` higher from a slot on."""

    slot: int
    change: float


class Bounds(NamedTuple):
    """Between which values forecasts are, and when it is 0 that is forecast."""

    low: float
    high: float
    zero: float = 0.0  #: the share of the errors of 0 that others have to stay below; 0: it is not forecast

    def inside(self, value: float) -> float:
        """Return the nearest value that can be."""
        return min(max(value, self.low), self.high)


class Verdict(NamedTuple):
    """Readings as they are taken: suspects are missing ones, which hold the last value, or their own if it is right."""

    readings: list[Reading]
    suspects: list[SuspectReading]
    cleared: list[SuspectReading]  #: of a new level; the readings of earlier calls among them are to be put right
    plausibility: Plausibility  #: of the next readings


class Plausibility:
    """What is known of suspects and of levels.

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

    def judge(self, values: Floats, readings: Sequence[Reading]) -> Verdict:
        """Say how readings behind ``values`` (n,), oldest first, are to be taken; nothing is changed."""
        after = Plausibility(self.window, self.least, self.most)
        after.suspects, after.open, after.shifts = self.suspects.copy(), self.open, self.shifts.copy()
        out, cleared = list(readings), list[SuspectReading]()
        seen, n = np.concatenate([values, np.empty(len(readings))]), len(values)
        for i, reading in enumerate(readings):
            value, first = reading.values[0], after.open
            if reading.held:
                if first is not None:
                    out[i] = _holding(reading, first.held)
            elif first is not None and after._is_new_level(first, value):
                back = reading.slot - first.slot
                seen[n - back] = first.value
                if back <= i:
                    out[i - back] = _holding(readings[i - back], first.value)
                cleared.append(first)
                after._clear(first, value)
            elif not (n and after._suspects(seen[max(0, n - self.window) : n], reading)):
                after.open = None
            else:
                after.open = SuspectReading(reading.slot, value, float(seen[n - 1]))
                after.suspects.append(after.open)
                out[i] = _holding(reading, after.open.held)
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
        """Say whether a reading is suspected behind ``values`` (n,)."""
        value, n = reading.values[0], len(values)
        if not self._is_possible(value):
            return True
        if n < LEAST:
            return False
        low, high = float(np.minimum.reduce(values)), float(np.maximum.reduce(values))
        beyond, width = max(low - value, value - high), high - low
        scale = width or abs(high)
        if beyond > EXTREME * scale and (scale or n >= ENOUGH):
            return self._count(reading.slot) < max(1.0, USUAL_EXTREME * n if scale else 1.0)
        if n < ENOUGH:
            return False
        step = abs(value - values[-1])
        if beyond <= 0.0 and step <= CHANGES * max(abs(values[-1] - values[-2]), abs(values[-2] - values[-3])):
            return False
        changes = np.abs(np.diff(values))
        if _is_mostly_still(changes):
            return False
        is_far = beyond > width or step > CHANGES * np.maximum.reduce(changes)
        return bool(is_far) and self._count(reading.slot) < max(1.0, USUAL * n)

    def _count(self, slot: int) -> int:
        return sum(one.slot > slot - self.window for one in self.suspects)

    def _is_new_level(self, first: SuspectReading, value: float) -> bool:
        """Say whether a reading behind a suspect shows that both are right."""
        is_nearer = abs(value - first.value) < abs(value - first.held)
        return is_nearer and self._is_possible(first.value) and self._is_possible(value)

    def _clear(self, first: SuspectReading, value: float) -> None:
        """Take a suspect for right; of one that ``value`` is close to, the level changes."""
        self.suspects.remove(first)
        self.open = None
        if abs(value - first.value) < abs(first.value - first.held) / 2:
            self.shifts.append(Shift(first.slot, (first.value + value) / 2 - first.held))

    def levelled(self, values: Floats, newest: int) -> Floats:
        """Return values (n,) up to a slot ``newest`` as if every one had its level."""
        known = [one for one in self.shifts if one.slot <= newest]
        if not known:
            return values
        out = values.copy()
        for slot, change in known:
            out[: max(0, len(out) - 1 - newest + slot)] += change
        return out

    def lift(self, slots: NDArray[np.int64]) -> Floats:
        """Return by how much the level is higher now than at some slots, (n,)."""
        found = np.zeros(len(slots))
        for slot, change in self.shifts:
            found[slots < slot] += change
        return found

    def has_shifted(self, made: int, slot: int) -> bool:
        """Say whether the level is another one at ``slot`` than it was at an earlier one, ``made``."""
        return any(made < one.slot <= slot for one in self.shifts)

    def drop(self, slot: int) -> bool:
        """SuspectReading a slot no more, as its value is another one; say whether it was."""
        left = [one for one in self.suspects if one.slot != slot]
        was = len(left) < len(self.suspects)
        self.suspects, self.open = left, None if self.open is not None and self.open.slot == slot else self.open
        return was

    def forget(self, forgotten: Forgotten) -> None:
        """Forget what comes of readings that are forgotten."""
        self.suspects = [one for one in self.suspects if not forgotten.concerns(one.slot - 1, one.slot + 1)]
        self.shifts = [one for one in self.shifts if not forgotten.concerns(one.slot - 1, one.slot + 1)]
        self.open = self.open if self.open in self.suspects else None

    def to_arrays(self) -> dict[str, Any]:
        """Return what it knows; nothing of a feed that never had a suspect."""
        if not (self.suspects or self.shifts):
            return {}
        suspects, shifts = np.array(self.suspects, np.float64), np.array(self.shifts, np.float64)
        return {
            "suspects": suspects.reshape(-1, 3), "shifts": shifts.reshape(-1, 2), "is_open": self.open is not None,
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Take over what ``to_arrays`` returned."""
        if not arrays:
            return
        self.suspects = [SuspectReading(int(slot), value, held) for slot, value, held in arrays["suspects"].tolist()]
        self.shifts = [Shift(int(slot), change) for slot, change in arrays["shifts"].tolist()]
        self.open = self.suspects[-1] if arrays["is_open"] else None


def _is_mostly_still(changes: Floats) -> bool:
    return bool(2 * np.count_nonzero(changes) < len(changes))


def bounds_of(values: Floats, spec: FeedSpec) -> Bounds:
    """Return between which values forecasts from ``values`` (n,) are.

    These are the limits that are given, 0 where nothing was below it, and the range of values that are mostly still. It
    may be 0 that is forecast where half of the values are.
    """
    least, most = spec.limits
    low, high = -math.inf if least is None else least, math.inf if most is None else most
    if spec.task == "direction" or spec.minimum is None or not len(values):
        return Bounds(low, high)
    lowest = float(np.minimum.reduce(values))
    others = int(np.count_nonzero(values))
    is_rare = low <= 0.0 <= high and len(values) >= LEAST and 2 * others <= len(values)
    if spec.minimum == "auto" and lowest >= 0.0 and (is_rare or len(values) >= min(LEAST_ABOVE, spec.window)):
        low = 0.0
    if spec.finds_outliers and len(values) >= ENOUGH and _is_mostly_still(np.diff(values)):
        low, high = max(low, lowest), min(high, float(np.maximum.reduce(values)))
    return Bounds(low, max(low, high), (CLEARLY if others < FEW else 1.0) if is_rare else 0.0)


def _holding(reading: Reading, value: float) -> Reading:
    return reading._replace(values=(value, *reading.values[1:]), held=True)
