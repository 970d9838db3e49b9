"""Times in files: the format that reads a whole column, and the same times in ISO 8601.

What a feed reads by itself stays as it is: ISO 8601, dates in digits, seconds and their parts since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice

from livesvm.service.feeds import times
from livesvm.solvers.errors import InvalidInput

_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y %m %d",
    "%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%m/%d/%Y", "%m-%d-%Y", "%m.%d.%Y",
    "%d.%m.%y", "%d/%m/%y", "%d-%m-%y", "%m/%d/%y", "%m-%d-%y", "%m.%d.%y", "%y/%m/%d", "%y-%m-%d", "%y.%m.%d",
    "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d/%b/%Y", "%d. %b %Y", "%b %d, %Y", "%b %d %Y", "%Y-%b-%d", "%Y %b %d",
    "%b %Y", "%b-%Y", "%b-%y", "%Y %b", "%Y-%b", "%Y%m%d",
)  # fmt: skip
_CLOCKS = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%H", "%H%M%S")
_JOINS = (" ", "T", ", ", ":", "-")
_ZONE = re.compile(r"(.*\d)\s*(Z|UTC|GMT|CET|CEST|[+-]\d\d:?\d\d)")
_OFFSETS = {"Z": "+00:00", "UTC": "+00:00", "GMT": "+00:00", "CET": "+01:00", "CEST": "+02:00"}
_PERIOD = (
    re.compile(r"(?P<year>\d{4})\W?(?P<kind>[QW])(?P<number>\d{1,2})"),
    re.compile(r"(?P<kind>[QW])(?P<number>\d{1,2})\W(?P<year>\d{4})"),
)
_SERIAL = re.compile(r"[2-7]\d{4}([.,]\d+)?")  #: days from 1900, of the years 1954 to 2119
_EPOCHS = {9: "seconds", 10: "seconds", 13: "milliseconds", 16: "microseconds", 19: "nanoseconds"}
_DIGITS = "YYYYMMDDHHMMSS"
AS_IT_IS = ("ISO 8601", "digits", "since 1970")
NAMED = re.compile(
    r"(?i).*(time|date|stamp|epoch|datum|zeit|fecha|heure|period|last_changed|\bts\b|\bds\b|\bday\b|\bmtu\b|\bdt\b|month|week|year)"
    r".*"
)


@dataclass(frozen=True)
class TimeFormat:
    """How a column writes times: a name for people, and how a cell becomes ISO 8601; None: it stays as it is."""

    name: str
    read: Callable[[str], str] | None = None
    zoned: bool = False

    def reads(self, cells: Iterable[str]) -> bool:
        """Return whether it reads all of some cells; what a feed reads by itself has been read."""
        return all(_is_read(self, cell) for cell in cells)

    def whole(self) -> TimeFormat:
        """Return the same, with digits in ISO 8601 too."""
        return self if self.read is not None or not self.name.startswith("YYYY") else replace(self, read=_of_digits)


def find(cells: Sequence[str], name: str, *, alone: bool = False) -> list[TimeFormat]:
    """Return the formats that read all cells, one of each meaning; more than one: the cells do not decide.

    Parameters
    ----------
    name : of the column; numbers are times where it says so
    alone : whether the caller has named the column
    """
    cells = [cell.strip() for cell in cells]
    if not cells:
        return []
    is_named = alone or NAMED.fullmatch(name) is not None
    found = [one for one in (_as_it_is(cells, is_named), _serial(cells, is_named), _period(cells)) if one is not None]
    return found[:1] or _written(cells)


def by_format(given: str) -> TimeFormat:
    """Return the format that strptime reads by this text."""
    return TimeFormat(given, _reader(given))


def narrowed(formats: list[TimeFormat], cells: Iterable[str]) -> list[TimeFormat]:
    """Return those formats that read all these cells too; it ends where one is left."""
    column = iter(cells)
    while len(formats) > 1 and (block := {*islice(column, 4096)}):
        formats = [one for one in formats if one.reads(block)]
    return formats


def _is_read(one: TimeFormat, cell: str) -> bool:
    try:
        times.parse(cell, "time", 0) if one.read is None else one.read(cell)
    except ValueError:
        return False
    return True


def _of_digits(cell: str) -> str:
    return _iso(datetime.fromtimestamp(times.parse(cell, "time", 0).seconds, UTC).replace(tzinfo=None))


def _as_it_is(cells: list[str], is_named: bool) -> TimeFormat | None:
    """Return the format of what a feed reads by itself."""
    try:
        stamps, digits = times.column(cells, "time")
    except InvalidInput:
        return None
    if len({stamp.zoned for stamp in stamps}) > 1:
        return None
    zoned, first = stamps[0].zoned, cells[0].partition(".")[0].lstrip("-")
    if digits is None and not first.isdigit():
        return TimeFormat("ISO 8601", zoned=zoned)
    if not is_named:
        return None
    if digits == "dates":
        return TimeFormat(_DIGITS[: len(first)], zoned=False)
    if len(first) < 9:
        return None
    return TimeFormat(f"{_EPOCHS.get(len(first), 'seconds')} since 1970", zoned=True)


def _serial(cells: list[str], is_named: bool) -> TimeFormat | None:
    if not is_named or not all(map(_SERIAL.fullmatch, cells)):
        return None
    return TimeFormat("Excel's days since 1900", _of_serial)


def _of_serial(cell: str) -> str:
    milliseconds = round(float(cell.replace(",", ".")) * 86_400_000)
    nearest = round(milliseconds, -3)  # a second is 0.0000116 of a day, and cells are often cut
    return _iso(
        datetime(1899, 12, 30) + timedelta(milliseconds=nearest if abs(milliseconds - nearest) < 500 else milliseconds)
    )


def _period(cells: list[str]) -> TimeFormat | None:
    """Return the format of quarters and of ISO weeks, each by its first day."""
    try:
        for cell in cells:
            _of_period(cell)
    except ValueError:
        return None
    return TimeFormat("quarters" if "q" in cells[0].lower() else "ISO weeks", _of_period)


def _of_period(cell: str) -> str:
    found = next((match for one in _PERIOD if (match := one.fullmatch(cell.strip().upper()))), None)
    if found is None:
        raise ValueError(cell)
    year, number = int(found["year"]), int(found["number"])
    if found["kind"] == "W":
        return _iso(datetime.fromisocalendar(year, number, 1))
    return _iso(datetime(year, 3 * number - 2, 1))


def _written(cells: list[str]) -> list[TimeFormat]:
    """Return formats of strptime by their readings of all cells, of which no two are the same."""
    first, found = _begin(cells[0]), dict[tuple[str, ...], TimeFormat]()
    zone = _ZONE.fullmatch(first)
    shapes = {_shape(first), *([] if zone is None else [_shape(zone[1])])}
    for text in (text for shape in shapes for text in _all_formats().get(shape, [])):
        one = by_format(text)
        if not one.reads(cells):
            continue
        assert one.read is not None
        zoned = datetime.fromisoformat(one.read(cells[0])).tzinfo is not None
        found.setdefault(tuple(map(one.read, cells)), TimeFormat(one.name, one.read, zoned))
    return [*found.values()]


@lru_cache(1)
def _all_formats() -> dict[str, list[str]]:
    """Return formats by the shape of what they read."""
    dates = [*_DATES, *(date.replace("%b", "%B") for date in _DATES if "%b" in date)]
    found = dict[str, list[str]]()
    for text in sorted(
        {f"{date}{join if clock else ''}{clock}" for date in dates for clock in _CLOCKS for join in _JOINS}
    ):
        found.setdefault(_shape(re.sub("%[bBp]", "a", re.sub("%[YymdHIMSf]", "0", text))), []).append(text)
    return found


def _shape(text: str) -> str:
    """Return a text with 0 for its digits and a for its letters."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", re.sub(r"\s+", " ", text)))


def _begin(cell: str) -> str:
    """Return the first of two times, such as 01.01.2024 00:00 - 01.01.2024 01:00."""
    first, dash, second = cell.strip().partition(" - ")
    return first if dash and ":" in first and ":" in second else cell.strip()


def _reader(text: str) -> Callable[[str], str]:
    day, _, clock = text.rpartition(" ")
    is_split = clock in ("%H:%M", "%H:%M:%S")  # days and times of the day come again: each is read once

    @lru_cache(4096)
    def part(cell: str, wanted: str) -> str:
        return _iso(datetime.strptime(cell, wanted))

    def whole(cell: str) -> str:
        if not is_split or " " not in cell:
            return _iso(datetime.strptime(cell, text))
        first, _, second = cell.rpartition(" ")
        return part(first.rstrip(), day)[:11] + part(second, clock)[11:]

    def read(cell: str) -> str:
        """Read a cell; raises ValueError."""
        written = _begin(cell)
        zone = None if text.endswith("%z") else _ZONE.fullmatch(written)
        if zone is not None:
            try:
                return whole(zone[1]) + _OFFSETS.get(zone[2], zone[2])
            except ValueError:  # -2024 may be a year
                pass
        return whole(written)

    return read


def _iso(when: datetime) -> str:
    return when.isoformat()


def localized(zone: str, in_order: bool = True) -> Callable[[str, str], str]:
    """Return what gives times without an offset that of a zone; in the hour that comes twice, by their order.

    It takes the time and the name of its series. Times that are not ``in_order`` are in the first of two hours.
    """
    known, place = dict[str, datetime](), times.zone_of(zone)

    def offset(text: str, series: str) -> str:
        """Return the time with its offset."""
        when = datetime.fromtimestamp(times.parse(text, "time", 0).seconds, UTC).replace(tzinfo=place)
        before = known.get(series)
        if in_order and before is not None and when.replace(tzinfo=UTC) <= before:
            when = when.replace(fold=1)
        known[series] = max(when.replace(tzinfo=UTC), before or when.replace(tzinfo=UTC))
        return when.isoformat()

    return offset
