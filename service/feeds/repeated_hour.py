"""The hour that comes twice when clocks go back: decide which of two times a row without a UTC offset means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo

from livesvm.service.feeds.interval import moment
from livesvm.solvers.errors import InvalidInput

Given = tuple[float | None, ...]


class RepeatedHour:
    """The rows of one call that lie in the hour that comes twice when clocks go back.

    Parameters
    ----------
    pairs : the times that each row of the call may have, one or two
    given : the values of rows that may have two, the target first
    known : returns the values of an earlier reading by its time, or None
    zone, field : the feed's place, and its column of times
    """

    def __init__(
        self,
        pairs: Sequence[tuple[float, ...]],
        given: Mapping[int, Given],
        known: Callable[[float], Given | None],
        zone: tzinfo,
        field: str,
    ) -> None:
        self._pairs, self._given, self._known, self._zone, self._field = pairs, given, known, zone, field
        self._count = Counter(pairs[row] for row in given)
        self._taken: dict[float, Given] = {}  # with the values of the row
        self.again: dict[int, float] = {}  #: rows that came before with the same values, and when
        for row, values in given.items():
            if same := [time for time in pairs[row] if known(time) == values]:
                self.again[row] = next((time for time in same if time not in self._taken), same[0])
                self._taken[self.again[row]] = values

    def time_of(self, row: int, newest: float | None) -> float:
        """Return the time of a row; ``newest`` is the newest time of earlier rows and readings; raises InvalidInput."""
        if row in self.again:
            return self.again[row]
        pair, values = self._pairs[row], self._given[row]
        same = [time for time in pair if self._taken.get(time) == values]
        if same and self._count[pair] > 2:
            return same[0]
        time = self._left(row, [time for time in pair if time not in self._taken] or [pair[1]], newest)
        self._taken[time] = values
        return time

    def _left(self, row: int, times: Sequence[float], newest: float | None) -> float:
        """Return which of ``times`` a row means, if the row repeats no earlier reading."""
        new = [time for time in times if newest is None or time > newest]
        if new or len(times) == 1 or self._count[self._pairs[row]] > 1:
            return (new or times)[0]
        known = {time: values for time in times if (values := self._known(time)) is not None}
        missing = [time for time, values in known.items() if values[0] is None]
        if len(missing) == 1 or not known:
            return (missing or times)[0]
        first, second = (moment(time, self._zone).isoformat() for time in self._pairs[row])
        reason = f"comes twice as clocks go back, and neither has these values; write {first} or {second}"
        raise InvalidInput(reason, field=self._field, row=row)
