"""The timeline of a feed, with the rules by which it accepts, ignores, holds, corrects or refuses readings.

Time is divided into numbered slots, ``every`` apart, and each reading has a slot. A call is checked as a whole before
any of its rows takes effect; an error names the row and the column.

- A row that repeats an earlier time with the same values is ignored. A row with other values for an earlier time in the
  window is refused, or corrects the reading if the setting ``late`` allows corrections. Rows for times before the
  window are refused.
- Only readings advance the feed's clock: rows without a target after the newest reading of a call are no readings. If a
  row without a target has every known column, it announces these columns for a future time; otherwise it is ignored.
- A reading is missing if its row has no value, or if there is a gap in time. With ``hold``, the slot of a missing
  reading holds the last value, which is neither learnt nor scored. At most as many slots of a gap are held as features
  look back, so that a long gap costs no more than one of a window's length. ``skip`` leaves missing readings out and
  closes the gap. ``refuse`` refuses the row, or the row after the gap. If a column other than the target is missing,
  this column holds its last value or, with ``skip``, the whole reading counts as missing.
- Text, truth values, infinities, numbers beyond 1e100, and a set of columns other than the first row's are refused.
- A time may deviate by a quarter of ``every`` from the feed's clock; with a larger deviation it is refused. A time more
  than a year and more than a window ahead is refused too: after a misspelt year, no later reading could follow.
- With ``align``, times are put on the grid of ``every`` first (:mod:`.align`). A row for a time of the grid that has a
  reading is ignored; with "nearest", the setting ``late`` may make it a correction.
- If ``every`` is not given, it is found from the first readings, eight or more. If one of the first readings does not
  fit this interval, readings before it are left out if they came in earlier calls.
- Times with and without a zone must not be mixed, unless ``timezone`` gives the zone of times without one. With
  ``timezone``, a time in the hour that clocks skip is refused, and days are calendar days. Without ``timezone``, times
  without a zone are from a clock that never changes: a skipped hour is a gap, and a repeated hour repeats earlier
  times.
- In the hour that comes twice when clocks go back, a row that repeats an earlier time with the same values is ignored.
  Any other row in the repeated hour means the first of its two times that is newer than all earlier readings and rows.
  If both times of such a row are past, two rows with its time in one call mean the first and the second time, and a
  single row means the time that has no value. If both times of a row have values, the row is refused. An ignored row
  may still be the next reading, with the same values as an hour ago. It becomes this reading if a later reading leaves
  the slot open.
- A time is refused if it is ahead of the service's clock by more than two intervals and ten minutes, unless ``ahead``
  says otherwise. Times without a zone may be local times, up to 14 hours ahead of UTC. Records of the log are not
  compared with the clock.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from sys import getsizeof
from typing import Any, NamedTuple

import numpy as np

from livesvm.service.feeds import align, times
from livesvm.service.feeds.align import Align, OpenInterval
from livesvm.service.feeds.interval import DAY, OFF, Every, duration, found_in, moment
from livesvm.service.feeds.repeated_hour import RepeatedHour
from livesvm.service.feeds.spec import FeedSpec
from livesvm.solvers.errors import InvalidInput

ENOUGH = 8  #: readings from which their distance is found
LARGEST = 1e100  #: of values
LEAP = 366 * DAY  #: that a gap may always be long
MOST_HELD = 10**5  #: readings of one call, those that gaps hold among them
LOOSE = 8  #: readings that a cool timeline has next to its arrays, so that few readings make these again
EARLY = 2  #: of their distances that readings may be ahead of the service's clock
LEAST_EARLY = 600.0  #: seconds that they may always be, as clocks differ
FURTHEST_ZONE = 14 * 3600.0  #: by which a local time may be ahead of UTC

PAST = ("time", "slot", "held", "given", "values")  #: what is kept of the last window

Row = Mapping[str, Any]
Given = tuple[float | None, ...]


class Reading(NamedTuple):
    """A reading, or a missing one with held values, in its slot."""

    slot: int
    time: float  #: seconds since 1970; the slot where readings have no times
    values: tuple[float, ...]  #: the target, the other columns; those that are missing hold their last value
    held: bool = False  #: whether the target is missing


class Correction(NamedTuple):
    """New values for a slot that has been processed."""

    slot: int
    values: tuple[float, ...]
    held: bool  #: whether it had no reading


class Plan(NamedTuple):
    """The checked effects of a call that is not yet carried out."""

    readings: list[Reading]
    corrections: list[Correction]
    ahead: list[tuple[int, tuple[float, ...]]]  #: known columns by slots to come
    accepted: int
    ignored: int
    timeline: Timeline  #: how it stands afterwards
    along: list[tuple[int, tuple[float, ...]]]  #: known columns by the slots of the readings that they came with
    at_once: bool  #: whether an announcement changes forecasts before the next reading


class Tail(NamedTuple):
    """A row without the target, after which no reading has followed yet."""

    row: int
    time: float | None
    cells: Row


class PastSlot(NamedTuple):
    """A slot in the past, with the values that its row gave, for comparison with later rows."""

    slot: int
    given: Given
    values: tuple[float, ...]
    held: bool


class Timeline:
    """The sequence of a feed's readings in time.

    Parameters
    ----------
    spec : the feed's settings
    longest : slots that features look back on; a longer gap is held for so many only, as more makes no difference
    """

    def __init__(self, spec: FeedSpec, longest: int) -> None:
        self.spec = spec
        self.longest = longest
        self.zone = None if spec.timezone is None else times.zone_of(spec.timezone)
        self.every: Every | None = None
        if spec.time is None:
            self.every = Every(seconds=1.0)
        elif spec.every is not None:
            self.every = duration(spec.every, self.zone)
        self.zoned: bool | None = None  # whether times came with a zone
        self.names: frozenset[str] | None = None  # of all columns
        self.time: float | None = None
        self.slot = -1
        self.last: tuple[float, ...] | None = None
        self._past: dict[float, PastSlot] = {}  # of a cool timeline those behind what is packed
        self._packed: Mapping[str, Any] | None = None  # the same as arrays, which nothing changes
        self.waiting: list[tuple[float, Given]] = []  # until the distance is found
        self.digits: times.Digits | None = None  # what whole numbers are in its column of times
        self.open: OpenInterval | None = None  # of readings that become one, with ``align``
        self.twins: list[tuple[float, Given]] = []  # of the second hour: ignored, and taken if their slots stay open
        self.may_leap = False
        self._now: float | None = None  # of the service's clock while a call is read, where that counts
        self._early = math.inf  # seconds that a reading may be ahead of that
        self._tail: list[Tail] = []  # of a call that is being read

    @property
    def past(self) -> dict[float, PastSlot]:
        """The past slots of the window by time, oldest first; packed slots are unpacked now."""
        if self._packed is not None:
            self._past, self._packed = _unpacked(self._packed) | self._past, None
            for time in list(self._past)[: max(0, len(self._past) - self.spec.window)]:
                del self._past[time]
        return self._past

    @property
    def newest(self) -> Reading:
        """The newest reading, which may be a missing one; the timeline must not be empty."""
        if self._past or self._packed is None:
            time, past = next(reversed(self._past.items()))
            return Reading(past.slot, time, past.values, past.held)
        slot, time, values, held = (self._packed[name][-1].tolist() for name in ("slot", "time", "values", "held"))
        return Reading(slot, time, tuple(values), held)

    @property
    def n_waiting(self) -> int:
        """The number of readings that wait: for the feed's interval to be found, or for the present interval to end."""
        return len(self.waiting) + (self.open is not None)

    def read(
        self, rows: Sequence[Row], *, now: float | None = None, logged: bool = False, is_first: bool = False
    ) -> Plan:
        """Check a call's rows, and return the plan of their effects; this timeline stays unchanged.

        Rows that are ``logged`` may be far apart in time, as they were accepted before. With ``is_first``, rows are
        read by the rules of the first release, 0.2.0. In 0.2.0, rows without the target advanced the feed's clock, and
        known columns of a row were unknown to other rows of the call. Whole numbers were seconds since 1970 in 0.2.0,
        and in the hour that comes twice only the order of rows counted.

        Parameters
        ----------
        now : Unix time of the service's clock; None: readings may have any time

        Raises
        ------
        InvalidInput : names row and column
        """
        after = self._copy()
        after.may_leap = logged
        plan = Plan([], [], [], 0, 0, after, [], not is_first)
        came: list[int | None] = [None] * len(self.waiting)  # of those that wait, the rows of this call
        accepted = ignored = 0
        found = after._times_of(rows, is_first)
        after._now, after._early = now, after._allowed(found)
        tails = [Tail(row, at, cells) for row, (cells, at) in enumerate(zip(rows, found, strict=True))]
        if self.spec.align is not None:
            tails, accepted, ignored = after._aligned(tails, self.spec.align)
        for one in tails:
            is_announced = bool(self.spec.known) and self.spec.target not in one.cells
            if is_announced and (is_first or after.every is not None):
                after._announce(plan, one.cells, one.time, one.row)
                continue
            if not is_first and (is_announced or after._is_ahead(one)):
                after._tail.append(one)
                continue
            for known in [*([] if is_first else after._overtaken(one.time)), one]:
                took = after._row(plan, known.cells, known.time, known.row)
                accepted, ignored = accepted + took, ignored + (not took)
                came += [known.row] * (len(after.waiting) - len(came))
        if after.every is None:
            after._begin(plan, came)
        if is_first:
            plan.along.clear()
        ignored += after._end(plan)
        return Plan(plan.readings, plan.corrections, plan.ahead, accepted, ignored, after, plan.along, plan.at_once)

    def on_grid(self, time: float) -> float:
        """Return the time of the grid that a reading of this time gets; without ``align``, the time itself."""
        if self.spec.align is None or self.every is None:
            return time
        return align.grid_time(time, self.every, self.spec.align)

    def _aligned(self, rows: Sequence[Tail], how: Align) -> tuple[list[Tail], int, int]:
        """Return rows to process, with times of the grid, the number of other accepted rows, and that of ignored rows.

        Rows that are joined into one reading are accepted now; this reading is processed when its interval is over.
        """
        found, accepted, ignored = list[Tail](), 0, 0
        for row, at, cells in rows:
            assert at is not None
            time, now = self.on_grid(at), self.open
            is_missing = _is_missing(cells.get(self.spec.target))
            if how == "nearest" or (is_missing and (now is None or time > now.time)):
                found.append(Tail(row, time, cells))
                continue
            self._check_names(cells, row)
            given = self.given_in(cells, row)
            self._check_clock(at, row)
            is_over = self.time is not None and time <= self.time
            if is_missing or is_over or (now is not None and at <= now.latest):
                ignored += 1  # nothing, a repetition, or a reading of an interval that is over
            elif now is not None and time == now.time:
                self.open, accepted = now.with_reading(at, given, how), accepted + 1
            else:
                self.open = align.opened(time, at, given)
                if now is None:
                    accepted += 1
                else:  # processing the reading of the interval before counts this row
                    values = dict(zip(self.spec.columns, now.given(how), strict=True))
                    found.append(Tail(row, now.time, {**cells, **values}))
        return found, accepted, ignored

    def _is_ahead(self, one: Tail) -> bool:
        """Say whether a row has an empty target, and a time after all readings so far."""
        if one.time is None or (self.spec.missing == "refuse" and not self.spec.known):
            return False
        return _is_missing(one.cells.get(self.spec.target, "")) and one.time > (self._newest() or -math.inf)

    def _newest(self) -> float | None:
        return self.waiting[-1][0] if self.waiting else self.time

    def _overtaken(self, time: float | None) -> list[Tail]:
        """Remove and return waiting rows without a target that lie before ``time``; they become missing readings.

        A waiting row at the time of the reading itself is removed as well, as the reading replaces it.
        """
        if not self._tail or time is None:
            return []
        tail, self._tail = self._tail, []
        missing = []
        for one in tail:
            assert one.time is not None
            if one.time > time or self.spec.target not in one.cells:
                self._tail.append(one)
            elif one.time < time:
                missing.append(one)
        return missing

    def _end(self, plan: Plan) -> int:
        """Process rows that no reading follows, as announcements if they are complete; return how many are ignored."""
        tail, self._tail = self._tail, []
        ignored = 0
        for row, time, cells in tail:
            if self.spec.target in cells:
                self._check_names(cells, row)
                given = self.given_in(cells, row)
                known = given[len(given) - len(self.spec.known) :]
                if not known or None in known or self.every is None or self.time is None or time is None:
                    ignored += 1
                elif (slot := self.slot + 1 + self._gap(time, row)) <= self.slot + self.spec.window:
                    plan.ahead.append((slot, tuple(one or 0.0 for one in known)))
                else:
                    ignored += 1
                continue
            self._announce(plan, cells, time, row)
        return ignored

    def _copy(self) -> Timeline:
        copy = Timeline.__new__(Timeline)
        copy.__dict__.update(self.__dict__, _past=self._past.copy(), waiting=self.waiting.copy(), _tail=[])
        return copy

    def given_in(self, cells: Row, row: int) -> Given:
        """Return the values of a row, with None for absent columns; raises InvalidInput."""
        return tuple([_number(cells.get(name), name, row) for name in self.spec.columns])

    def _row(self, plan: Plan, cells: Row, time: float | None, row: int) -> bool:
        """Process the row of one reading; return whether it changed anything."""
        self._check_names(cells, row)
        given = self.given_in(cells, row)
        if self.spec.missing == "refuse" and None in given:
            name = self.spec.columns[given.index(None)]
            raise InvalidInput("is missing; missing='hold' or 'skip' takes such rows", field=name, row=row)
        if self.every is None:
            return self._wait(time, given, row)
        if time is None:
            time = float(self.slot + 1)
        if self.time is not None and time <= self.time:
            return self._again(plan, time, given, row)
        if self.spec.missing == "skip" and None in given:
            return False
        self._check_clock(time, row)
        for twin, same in self.twins:
            if self.time is not None and self.time < twin < time:
                self._next(plan, twin, same, row)
        self.twins = [one for one in self.twins if one[0] > time]
        self._next(plan, time, given, row)
        return True

    def forget(self, times: Collection[float], *, beyond: bool) -> dict[int, tuple[float, ...]]:
        """Turn the readings of some times into missing ones; return the changed values by slot.

        A missing reading holds the last value before it, or the first value after it if there is none before. With
        ``beyond``, no value from before the window is held.
        """
        self.waiting, self.twins = [one for one in self.waiting if one[0] not in times], []
        if self.open is not None and self.open.time in times:
            self.open = None
        nothing: Given = (None,) * len(self.spec.columns)
        stay = [one.given for time, one in self.past.items() if time not in times]
        first = tuple(next((v for v in column if v is not None), 0.0) for column in zip(*stay, strict=True))
        before: tuple[float, ...] | None = None
        changed = {}
        for time, one in list(self.past.items()):
            given = nothing if time in times else one.given
            if before is None:
                before = (first or (0.0,) * len(nothing)) if beyond or time in times else one.values
            before = tuple(old if new is None else new for new, old in zip(given, before, strict=True))
            self.past[time] = PastSlot(one.slot, given, before, given[0] is None)
            if before != one.values or given != one.given:
                changed[one.slot] = before
        self.last = before
        return changed

    def rewind(self) -> int:
        """Go back to the newest slot with a reading that is not missing; return the number of slots removed.

        If no reading is left in the window, the result is 0; the next reading, with any time, then gets the next slot.
        """
        newest = self.slot
        if self.spec.time is None:
            return 0
        while self.past and next(reversed(self.past.values())).held:
            self.past.popitem()
        self.time = next(reversed(self.past), None)
        if self.time is not None:
            self.slot, self.last = self.past[self.time].slot, self.past[self.time].values
        return newest - self.slot

    def cool(self) -> None:
        """Pack the past slots into arrays until the next call; a few newer slots may stay unpacked."""
        if not self._is_cool:
            self._past, self._packed = {}, self._arrays_of_past()

    @property
    def _is_cool(self) -> bool:
        return len(self._past) < (1 if self._packed is None else LOOSE)

    @property
    def hot_bytes(self) -> int:
        """The memory in bytes that :meth:`cool` would free."""
        if self._is_cool:
            return 0
        newest = next(reversed(self._past.values()))
        objects = (newest, newest.slot, newest.values, *newest.values, 0.0)
        return getsizeof(self._past) + len(self._past) * (sum(map(getsizeof, objects)) - self._packed_bytes)

    @property
    def held_bytes(self) -> int:
        """The memory of the past slots, or of their arrays, in bytes, estimated from the newest slot."""
        count = len(self._past) + (0 if self._packed is None else len(self._packed["time"]))
        return self.hot_bytes + count * self._packed_bytes

    @property
    def _packed_bytes(self) -> int:
        """The memory of one past slot in arrays, in bytes."""
        return 17 + 16 * len(self.spec.columns)

    # -- keeping -------------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as a dictionary; missing values are NaN."""
        width = len(self.spec.columns)
        past = self._arrays_of_past() if self._past or self._packed is None else self._packed
        return {
            "every": [] if self.every is None else [self.every.seconds, self.every.months, self.every.day],
            "zoned": self.zoned,
            "names": None if self.names is None else sorted(self.names),
            "time": self.time,
            "slot": self.slot,
            "digits": self.digits,
            **({} if self.open is None else self.open.to_arrays()),
            **{f"past.{name}": array for name, array in past.items()},
            **{
                f"{name}.{part}": array
                for name, kept in (("waiting", self.waiting), ("twins", self.twins))
                for part, array in (
                    ("time", np.array([time for time, _ in kept])),
                    ("given", np.array([given for _, given in kept], np.float64).reshape(-1, width)),
                )
            },
        }

    def _arrays_of_past(self) -> dict[str, Any]:
        new = self._arrays_of_new()
        if self._packed is None:
            return new
        size = self.spec.window
        return {name: np.concatenate([self._packed[name], array])[-size:] for name, array in new.items()}

    def _arrays_of_new(self) -> dict[str, Any]:
        past, width = list(self._past.values()), len(self.spec.columns)
        return {
            "time": np.array(list(self._past)),
            "slot": np.array([p.slot for p in past], np.int64),
            "held": np.array([p.held for p in past], np.bool_),
            "given": np.array([p.given for p in past], np.float64).reshape(-1, width),
            "values": np.array([p.values for p in past]).reshape(-1, width),
        }

    @classmethod
    def from_arrays(cls, spec: FeedSpec, longest: int, arrays: Mapping[str, Any]) -> Timeline:
        """Restore a timeline from the dictionary that ``to_arrays`` returned."""
        out = cls(spec, longest)
        if len(arrays["every"]):
            seconds, months, day = arrays["every"]
            out.every = Every(float(seconds), int(months), out.zone, int(day))
        out.zoned, out.time, out.slot = arrays["zoned"], arrays["time"], int(arrays["slot"])
        out.names = None if arrays["names"] is None else frozenset(arrays["names"])
        out._packed = {name: arrays[f"past.{name}"] for name in PAST}
        values = out._packed["values"]
        out.last = tuple(values[-1].tolist()) if len(values) else None
        out.waiting, out.twins = _listed(arrays, "waiting"), _listed(arrays, "twins")
        out.digits, out.open = arrays.get("digits"), align.restored(arrays)
        return out

    # -- one row -------------------------------------------------------------------------------------------------------

    def _times_of(self, rows: Sequence[Row], is_first: bool) -> list[float | None]:
        """Return the times of a call's rows in seconds since 1970; raises InvalidInput."""
        name = self.spec.time
        if name is None:
            return [None] * len(rows)
        cells = [row.get(name) for row in rows]
        stamps, digits = times.column(cells, name, "epochs" if is_first else self.digits)
        if not is_first:
            self.digits = digits
        if self.zone is not None:
            return list(self._placed(rows, stamps, is_first))
        for row, stamp in enumerate(stamps):
            if self.zoned not in (None, stamp.zoned):
                reason = "times with and without a zone are mixed; the setting timezone says where those without are"
                raise InvalidInput(reason, field=name, row=row)
            self.zoned = stamp.zoned
        return [stamp.seconds for stamp in stamps]

    def _placed(self, rows: Sequence[Row], stamps: Sequence[times.Stamp], is_first: bool) -> list[float]:
        """Return the times of rows in the feed's time zone, where one hour may come twice; raises InvalidInput."""
        assert self.zone is not None
        name = self.spec.time or ""
        pairs = [
            (stamp.seconds,) if stamp.zoned else times.places(stamp.seconds, self.zone, name, row)
            for row, stamp in enumerate(stamps)
        ]
        given = {row: self.given_in(rows[row], row) for row, pair in enumerate(pairs) if len(pair) > 1}
        twice = RepeatedHour(pairs, given, self.known_at, self.zone, name)
        newest, found = self._newest(), list[float]()
        for row, pair in enumerate(pairs):
            if len(pair) == 1:
                time = pair[0]
            elif is_first:
                time = pair[1] if newest is not None and pair[0] <= newest < pair[1] else pair[0]
            else:
                time = twice.time_of(row, newest)
                if row in twice.again and newest is not None and time <= newest < pair[1]:
                    self.may_be_next(pair[1], given[row], newest)
            found.append(time)
            newest = time if newest is None else max(newest, time)
        return found

    def known_at(self, time: float) -> Given | None:
        """Return the values given for a time in the window, or for a waiting row; None if there are none."""
        if (past := self.past.get(time)) is not None:
            return past.given
        return next((given for waits, given in self.waiting if waits == time), None)

    def may_be_next(self, time: float, given: Given, newest: float) -> None:
        """Keep an ignored row, as it may be the reading of the slot after ``newest`` and after other such rows."""
        newest = max([newest, *(twin for twin, _ in self.twins)])
        if given[0] is not None and self.every is not None and round(self.every.between(newest, time)) == 1:
            self.twins = [*self.twins, (time, given)]

    def _allowed(self, found: Sequence[float | None]) -> float:
        """Return how many seconds the readings of a call with these times may be ahead of the service's clock."""
        if self.spec.ahead == "accept" or self.spec.time is None:
            return math.inf
        apart = 0.0
        if self.every is not None:
            apart = self.every.approximate_seconds()
        elif len(known := {one for one in (*found, *(time for time, _ in self.waiting)) if one is not None}) >= ENOUGH:
            apart = float(np.median(np.diff(sorted(known))))
        return max(LEAST_EARLY, EARLY * apart) + (FURTHEST_ZONE if self.zone is None and not self.zoned else 0.0)

    def _check_clock(self, time: float, row: int) -> None:
        """Raise InvalidInput for a reading too far ahead of the service's clock."""
        if self._now is None or time <= self._now + self._early:
            return
        reason = (
            f"lies {_span(time - self._now)} ahead of the service's clock, {moment(self._now).isoformat()}, "
            f"the most is {_span(self._early)}; correct the time or the clock, or create the feed with ahead='accept'"
        )
        raise InvalidInput(reason, field=self.spec.time, row=row)

    def _check_names(self, cells: Row, row: int) -> None:
        if self.names is not None and cells.keys() == self.names:
            return
        for name in self.spec.columns:
            if name not in cells:
                raise InvalidInput("this column is missing", field=name, row=row)
        if self.names is None:
            self.names = frozenset(cells)
            return
        other = next(iter(sorted(self.names ^ cells.keys())))
        verb = "is new" if other in cells else "is gone"
        raise InvalidInput(f"the columns have changed: {other!r} {verb}", field=other, row=row)

    def _wait(self, time: float | None, given: Given, row: int) -> bool:
        assert time is not None  # feeds without times know their distance
        if self.waiting and time <= self.waiting[-1][0]:
            if (time, given) in self.waiting:
                return False
            raise InvalidInput("times have to ascend", field=self.spec.time, row=row)
        self._check_clock(time, row)
        self.waiting.append((time, given))
        return True

    def _begin(self, plan: Plan, came: list[int | None]) -> None:
        """If there are enough first readings, find their interval and process them; ``came`` has their row numbers."""
        while len(self.waiting) >= ENOUGH:
            begun, found = self._copy(), plan._replace(readings=[], along=[])
            begun.waiting = []
            begun.every = found_in([time for time, _ in self.waiting], self.zone)
            number = 0
            try:
                for number, (time, given) in enumerate(self.waiting):
                    if self.spec.missing != "skip" or None not in given:
                        begun._next(found, time, given, came[number] or 0)
            except InvalidInput:
                if number == 0 or came[number - 1] is not None:
                    raise
                self.waiting, came = self.waiting[number:], came[number:]
                continue
            vars(self).update(vars(begun) | {"_tail": self._tail})
            plan.readings.extend(found.readings)
            plan.along.extend(found.along)
            return

    def _again(self, plan: Plan, time: float, given: Given, row: int) -> bool:
        """Process a row that is not newer than the newest reading: a repetition, or a correction."""
        known = self.past.get(time)
        if given[0] is None if known is None else known.given == given:
            return False
        if known is None:
            if self.spec.align is not None:
                return False
            reason = "is older than the newest reading, and no time that the window holds"
            raise InvalidInput(reason, field=self.spec.time, row=row)
        if self.spec.late == "refuse":
            if self.spec.align is not None:
                return False
            reason = "this time came before with other values; late='correct' takes such rows"
            raise InvalidInput(reason, field=self.spec.time, row=row)
        values = tuple(old if new is None else new for new, old in zip(given, known.values, strict=True))
        if given[0] is None:
            raise InvalidInput("a correction needs a value", field=self.spec.target, row=row)
        self.past[time] = known._replace(given=given, values=values)
        if known.slot == self.slot:
            self.last = values
        plan.corrections.append(Correction(known.slot, values, known.held))
        return True

    def _next(self, plan: Plan, time: float, given: Given, row: int) -> None:
        """Process a row that is newer than all before, and the gap before this row."""
        gap = 0 if self.time is None else self._gap(time, row)
        if gap and self.spec.missing == "refuse":
            reason = f"{gap} readings are missing before this one; missing='hold' or 'skip' takes such rows"
            raise InvalidInput(reason, field=self.spec.time, row=row)
        if gap and self.spec.missing == "hold" and self.last is not None and self.every is not None:
            nothing: Given = (None,) * len(given)
            if len(plan.readings) + min(gap, self.longest) > MOST_HELD:
                raise InvalidInput("with its gap the call is too large; send fewer rows", field=self.spec.time, row=row)
            for back in range(min(gap, self.longest), 0, -1):
                self._append(plan, self.every.after(time, -back), nothing)
        if self.every is not None:
            self.every = self.every.seen(time)
        self._append(plan, time, given)

    def _gap(self, time: float, row: int) -> int:
        assert self.every is not None
        assert self.time is not None
        passed = self.every.between(self.time, time)
        if passed == 1.0:
            return 0
        count = round(passed)
        if count < 1 or abs(passed - count) > OFF * (1 if count < 40 else count / 40):
            reason = f"comes {passed:.3g} times {self.every} after the one before, which is not on the clock"
            reason += "" if self.spec.align else "; feeds with `align` take it"
            raise InvalidInput(reason, field=self.spec.time, row=row)
        most = math.inf if self.may_leap or self.spec.time is None else LEAP / self.every.approximate_seconds()
        if count > max(self.spec.window, most):
            reason = f"comes {count} times {self.every} after the one before, more than a year and more than the window"
            raise InvalidInput(reason, field=self.spec.time, row=row)
        return count - 1

    def _append(self, plan: Plan, time: float, given: Given) -> None:
        held = given[0] is None
        before = self.last
        if before is None:
            if held:
                return  # nothing to hold yet
            before = (0.0,) * len(given)
        values = tuple([old if new is None else new for new, old in zip(given, before, strict=True)])
        self.slot += 1
        self.time, self.last = time, values
        self._past[time] = _past(self.slot, given, values, held)
        if self._packed is None and len(self._past) > self.spec.window:
            del self._past[next(iter(self._past))]
        plan.readings.append(Reading(self.slot, time, values, held))
        if self.spec.known and None not in (known := given[len(given) - len(self.spec.known) :]):
            plan.along.append((self.slot, values[len(values) - len(known) :]))

    def _announce(self, plan: Plan, cells: Row, time: float | None, row: int) -> None:
        """Plan the announcement of known columns for a future time."""
        allowed = {*self.spec.known, *([] if self.spec.time is None else [self.spec.time])}
        for name in cells:
            if name not in allowed:
                raise InvalidInput("a row without the target holds known columns only", field=name, row=row)
        if time is None or self.time is None or self.every is None or time <= self.time:
            raise InvalidInput("a row without the target is for a time to come", field=self.spec.target, row=row)
        values = []
        for name in self.spec.known:
            number = _number(cells.get(name), name, row)
            if number is None:
                raise InvalidInput("is missing", field=name, row=row)
            values.append(number)
        slot = self.slot + 1 + self._gap(time, row)
        if slot > self.slot + self.spec.window:
            raise InvalidInput("lies further ahead than a window", field=self.spec.time, row=row)
        plan.ahead.append((slot, tuple(values)))


def _span(seconds: float) -> str:
    """Return a duration as text for messages."""
    for unit, size in (("days", DAY), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds:.3g} seconds"


def _number(value: Any, name: str, row: int) -> float | None:
    """Return a value as a float, None if it is missing; raises InvalidInput for text, truth values and infinities."""
    if value is None or (type(value) is float and -LARGEST <= value <= LARGEST):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"must be a number, not {str(value)[:32]!r}", field=name, row=row)
    number = float(value)
    if math.isnan(number):
        return None
    if not abs(number) <= LARGEST:
        raise InvalidInput(f"must be a number up to 1e100, not {number}", field=name, row=row)
    return number


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _unpacked(arrays: Mapping[str, Any]) -> dict[float, PastSlot]:
    """Return the past slots in arrays, by their times."""
    columns = (arrays[name].tolist() for name in PAST)
    found = zip(*columns, strict=True)
    return {time: _past(slot, _given(given), tuple(values), held) for time, slot, held, given, values in found}


def _past(slot: int, given: Given, values: tuple[float, ...], held: bool) -> PastSlot:
    """Return a past slot, in which ``given`` and ``values`` share one tuple if they are equal."""
    return PastSlot(slot, values if given == values else given, values, held)


def _listed(arrays: Mapping[str, Any], name: str) -> list[tuple[float, Given]]:
    """Return pairs of a time and the values given for it, from arrays; empty if the snapshot lacks these arrays."""
    kept = (arrays[f"{name}.{part}"].tolist() if f"{name}.{part}" in arrays else [] for part in ("time", "given"))
    return [(time, _given(given)) for time, given in zip(*kept, strict=True)]


def _given(values: list[float]) -> Given:
    return tuple(None if math.isnan(value) else value for value in values)
