"""Erase readings from the parts of a feed, as if these readings had been missing, with values held in their slots.

Features that were computed from an erased reading are computed again from the readings left; if too few are stored, the
row is removed. Scores that involve an erased reading are removed, and subtracted from the sums.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.features import History, RowLayout, seasonal_back
from livesvm.service.feeds.rows import Rows
from livesvm.service.feeds.timeline import Reading
from livesvm.solvers.runtime.cached import cached_property

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Forgotten:
    """The readings to erase, by slot.

    Parameters
    ----------
    gone : slots of the readings
    values : of all slots with changed values, and of missing ones that held those
    oldest : the first slot whose reading may still be known; None where that belongs to every slot
    """

    gone: frozenset[int]
    values: Mapping[int, tuple[float, ...]]
    oldest: int | None

    def names(self, slots: Ints) -> NDArray[np.bool_]:
        """Return which of these slots have an erased or changed value."""
        found = np.isin(slots, self._slots)
        return found if self.oldest is None else found | (slots < self.oldest)

    def concerns(self, first: int, last: int) -> bool:
        """Return whether a slot from ``first`` to ``last`` has an erased or changed value."""
        return (self.oldest is not None and first < self.oldest) or _is_between(self._slots, first, last)

    def takes(self, first: int, last: int) -> bool:
        """Return whether the reading of a slot from ``first`` to ``last`` is erased."""
        return _is_between(self._gone, first, last)

    @cached_property
    def _slots(self) -> list[int]:
        return sorted(self.values)

    @cached_property
    def _gone(self) -> list[int]:
        return sorted(self.gone)


def _is_between(slots: list[int], first: int, last: int) -> bool:
    place = bisect_left(slots, first)
    return place < len(slots) and slots[place] <= last


def from_history(history: History, newest: int, forgotten: Forgotten) -> None:
    """Replace the changed values in the history, which ends at slot ``newest``."""
    for slot, values in forgotten.values.items():
        history.correct(newest - slot, values[0])
    if forgotten.oldest is not None:
        for slot in range(newest - min(history.longest, history.count) + 1, forgotten.oldest):
            history.correct(newest - slot, history.back(newest - forgotten.oldest))


def from_rows(
    rows: Rows, steps: tuple[int, ...], history: History, newest: int, forgotten: Forgotten,
    levelled: Callable[[Floats, int], Floats],
) -> int:  # fmt: skip
    """Recompute affected rows from the changed history, or remove them; remove erased targets.

    ``levelled`` adjusts values up to a slot for level shifts. Return how many rows were changed or removed.
    """
    count = 0
    reach = rows.layout.reach
    values = history.newest(min(history.count, history.longest))
    first = newest - len(values) + 1
    ahead = steps[-1] if rows.layout.known else 0  # what was known ahead stands in earlier rows too
    for ordinal in range(max(0, rows.count - rows.size), rows.count):
        slot = int(rows.slot[ordinal % rows.size])
        begin = slot - reach + 1
        if slot < 0 or not forgotten.concerns(begin, slot + ahead):
            continue
        count += 1
        beyond = first if forgotten.oldest is None else max(first, forgotten.oldest)
        if begin < beyond or forgotten.takes(slot, slot + ahead):
            rows.drop(ordinal)
        else:
            past = levelled(values[: slot - first + 1], slot)
            rows.make_again(steps, ordinal, past, forgotten.values.get(slot))
    for slot in forgotten.gone:
        rows.come_true(slot, steps, np.nan)
    return count


def are_of(layout: RowLayout, seasons: Sequence[int], step: int, made: Ints, forgotten: Forgotten) -> NDArray[np.bool_]:
    """Return which of the forecasts made at the slots ``made``, ``step`` readings ahead, involve an erased reading.

    A forecast involves the reading that it forecasts, the one at which it was made, the one before that, and the
    seasonal values.
    """
    before = made - (layout.lags[1] - 1 if len(layout.lags) > 1 else 0)
    seasonal = [made - seasonal_back(season, step) for season in seasons]
    found = [forgotten.names(slots) for slots in (made, made + step, before, *seasonal)]
    return np.asarray(np.any(found, axis=0))


def first_readings(readings: Sequence[Reading], forgotten: Forgotten) -> list[Reading]:
    """Return the readings of a window that is filling, with erased ones marked as missing; empty if all are missing."""
    found = [
        reading._replace(values=forgotten.values.get(reading.slot, reading.values), held=held)
        for reading in readings
        for held in [reading.held or reading.slot in forgotten.gone]
    ]
    return found if any(not reading.held for reading in found) else []
