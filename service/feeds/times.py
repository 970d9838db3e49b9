"""Times in readings: ISO 8601 with or without a zone, digits of a date like 20240131, or seconds since 1970.

Whole numbers are dates if all of them in a column can be read as dates, otherwise seconds since 1970. If some whole
numbers of 8 or more digits can be read as dates, and others cannot, the column is refused. The first call of a feed
decides for all its later calls whether whole numbers are dates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from livesvm.service.feeds.interval import seconds_of
from livesvm.service.models.arrays import CLEAR, date_of
from livesvm.solvers.errors import InvalidInput

_MONTH = re.compile(r"^\d{4}-\d{2}$")
_EPOCH = re.compile(r"^-?\d{9,}(\.\d+)?$")
_WHOLE = re.compile(r"^(\d{1,15})(?:\.0*)?$")
_LATEST = 253402300800.0  # the year 10000
MILLISECONDS = 1e11  # larger epochs count milliseconds, then micro- and nanoseconds


Digits = Literal["dates", "epochs"]
"""What the whole numbers of a column of times are."""


class Stamp(NamedTuple):
    """A parsed time, and whether it was written with a zone."""

    seconds: float  #: since 1970; of a time without a zone, as if it were UTC
    zoned: bool


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its IANA name; raises InvalidInput."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise InvalidInput(
            f"there is no time zone {name[:64]!r}; one is like Europe/Berlin", field="timezone"
        ) from None


def parse(value: Any, field: str, row: int) -> Stamp:
    """Parse a single time; raises InvalidInput that names ``field`` and ``row``."""
    digits = _digits(value)
    date = None if digits is None else date_of(digits)
    return _read(value, field, row) if date is None else Stamp(date, False)


def column(values: Sequence[Any], field: str, known: Digits | None = None) -> tuple[list[Stamp], Digits | None]:
    """Parse the times of a column; return the times, and the kind of its whole numbers, or ``known`` if it has none.

    Parameters
    ----------
    known : what earlier ones were

    Raises
    ------
    InvalidInput : names ``field`` and row
    """
    digits = [_digits(value) for value in values]
    dates = [None if one is None else date_of(one) for one in digits]
    known = _decided(values, digits, dates, field, known)
    if known != "dates":
        return [_read(value, field, row) for row, value in enumerate(values)], known
    found = zip(values, dates, strict=True)
    return [
        _read(value, field, row) if date is None else Stamp(date, False) for row, (value, date) in enumerate(found)
    ], known


def _decided(
    values: Sequence[Any], digits: Sequence[str | None], dates: Sequence[float | None], field: str, known: Digits | None
) -> Digits | None:
    """Return the kind of a column's whole numbers, dates or epochs; raises InvalidInput if that is ambiguous."""
    whole = [row for row, one in enumerate(digits) if one is not None]
    others = [row for row in whole if dates[row] is None]
    if not whole or known == "epochs":
        return known
    if not others:
        return "dates"
    if known == "dates":
        reason = f"{str(values[others[0]])[:32]!r} is no date, and the whole numbers of earlier rows are"
    else:
        clear = [row for row in whole if dates[row] is not None and len(digits[row] or "") >= CLEAR]
        if not clear:
            if not all(_reads_in_another_order(digits[row] or "") for row in whole):
                return "epochs"
            reason = f"{str(values[whole[0]])[:32]!r} reads as a date whose year is not in front with four digits"
            raise InvalidInput(f"{reason}; write 2024-01-31 or 20240131", field=field, row=whole[0])
        one, other = str(values[clear[0]])[:32], str(values[others[0]])[:32]
        reason = f"{one!r} reads as a date, {other!r} in the same column does not"
    raise InvalidInput(f"{reason}; write times in ISO 8601, such as 2024-01-31T23:00", field=field, row=others[0])


def _digits(value: Any) -> str | None:
    """Return the digits of a whole number, or of a text that is a whole number; None for any other value."""
    if isinstance(value, str):
        return _digits_of(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15 or value != int(value):
        return None
    return str(int(value))


@lru_cache(maxsize=1024)
def _digits_of(text: str) -> str | None:
    found = _WHOLE.match(text.strip())
    return None if found is None else found[1]


def _reads_in_another_order(digits: str) -> bool:
    """Return whether digits may be a date such as 31012024, 1312024, 24013123 or 240131, also without a leading 0."""
    whole = digits.zfill(8)
    first, second, year = whole[:2], whole[2:4], whole[4:]
    others = [year + first + second, year + second + first] if len(digits) in (7, 8) else []
    if len(digits) in (6, 8):
        others.append(f"20{digits}")
    return any(date_of(one) is not None for one in others)


def _read(value: Any, field: str, row: int) -> Stamp:
    """Parse a time that is not a date written in digits."""
    if value is None:
        raise InvalidInput("every row needs its time", field=field, row=row)
    if isinstance(value, str):
        try:
            return _of_text(value)
        except InvalidInput as error:
            raise InvalidInput(error.reason, field=field, row=row) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInput(f"a time is ISO 8601 or seconds since 1970, not {str(value)[:32]!r}", field=field, row=row)
    return _of_epoch(float(value), field, row)


def _of_epoch(seconds: float, field: str | None = None, row: int | None = None) -> Stamp:
    for _ in range(3):
        if abs(seconds) >= MILLISECONDS:
            seconds /= 1000.0
    return Stamp(_checked(seconds, field, row), True)


@lru_cache(maxsize=1024)
def _of_text(text: str) -> Stamp:
    """Parse a time in a text; the result is cached, as many series have readings at one time; raises InvalidInput."""
    text = text.strip()
    if _EPOCH.match(text):
        return _of_epoch(float(text))
    try:
        when = datetime.fromisoformat(f"{text}-01" if _MONTH.match(text) else text)
    except ValueError:
        raise InvalidInput(f"is no time in ISO 8601: {text[:32]!r}") from None
    zoned = when.tzinfo is not None
    return Stamp(_checked(seconds_of(when if zoned else when.replace(tzinfo=UTC))), zoned)


def _checked(seconds: float, field: str | None = None, row: int | None = None) -> float:
    if not -_LATEST / 4 <= seconds < _LATEST:
        raise InvalidInput("lies outside the years 1 to 9999", field=field, row=row)
    return seconds


def places(seconds: float, zone: tzinfo, field: str, row: int) -> tuple[float, ...]:
    """Convert a wall-clock time, in seconds as if it were UTC, to the UTC times at which clocks of ``zone`` show it.

    The result has two times in the hour that comes twice when clocks go back, and otherwise one.

    Raises
    ------
    InvalidInput : clocks skip that time
    """
    wall = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    first, second = (wall.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall:
        raise InvalidInput(f"clocks of {zone} skip {wall.isoformat()}", field=field, row=row)
    both = seconds_of(first), seconds_of(second)
    return both if both[0] < both[1] else both[:1]


def at_place(seconds: float, zone: tzinfo, newest: float | None, field: str, row: int) -> float:
    """Return the first of a wall-clock time's :func:`places`, or the second if ``newest`` is not before the first."""
    found = places(seconds, zone, field, row)
    return found[-1] if newest is not None and found[0] <= newest < found[-1] else found[0]
