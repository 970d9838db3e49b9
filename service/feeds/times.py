"""Times as they come: ISO 8601 with or without a zone, or seconds since 1970."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from livesvm.service.feeds.interval import seconds_of
from livesvm.solvers.errors import InvalidInput

_MONTH = re.compile(r"^\d{4}-\d{2}$")
_EPOCH = re.compile(r"^-?\d{9,}(\.\d+)?$")
_LATEST = 253402300800.0  # the year 10000
_MILLISECONDS = 1e11  # larger epochs count milliseconds, then micro- and nanoseconds


class Stamp(NamedTuple):
    """A time as it was written."""

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
    """Read a time; raises InvalidInput naming ``field`` and ``row``."""
    if isinstance(value, str):
        text = value.strip()
        if not _EPOCH.match(text):
            return _iso(text, field, row)
        value = float(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInput(f"a time is ISO 8601 or seconds since 1970, not {str(value)[:32]!r}", field=field, row=row)
    seconds = float(value)
    for _ in range(3):
        if abs(seconds) >= _MILLISECONDS:
            seconds /= 1000.0
    return Stamp(_checked(seconds, field, row), True)


def _iso(text: str, field: str, row: int) -> Stamp:
    try:
        stamp = _stamp(text)
    except ValueError:
        raise InvalidInput(f"is no time in ISO 8601: {text[:32]!r}", field=field, row=row) from None
    _checked(stamp.seconds, field, row)
    return stamp


@lru_cache(maxsize=1024)
def _stamp(text: str) -> Stamp:
    """Read a time in ISO 8601, once for all series that have a reading then; raises ValueError."""
    when = datetime.fromisoformat(f"{text}-01" if _MONTH.match(text) else text)
    zoned = when.tzinfo is not None
    return Stamp(seconds_of(when if zoned else when.replace(tzinfo=UTC)), zoned)


def _checked(seconds: float, field: str, row: int) -> float:
    if not -_LATEST / 4 <= seconds < _LATEST:
        raise InvalidInput("lies outside the years 1 to 9999", field=field, row=row)
    return seconds


def at_place(seconds: float, zone: tzinfo, newest: float | None, field: str, row: int) -> float:
    """Return when the wall clock of ``zone`` shows what UTC's would at ``seconds``, in seconds since 1970.

    The hour that comes twice when clocks go back is the first one, unless ``newest`` is past that.

    Raises
    ------
    InvalidInput : clocks skip that time
    """
    wall = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    first, second = (wall.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall:
        raise InvalidInput(f"clocks of {zone} skip {wall.isoformat()}", field=field, row=row)
    is_second = newest is not None and seconds_of(first) <= newest < seconds_of(second)
    return seconds_of(second if is_second else first)
