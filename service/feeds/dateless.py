"""Tables with times of day without a date, or days without a year: the missing part is found and put before them.

Monitors such as sar write the day once, above the table or in the name of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from livesvm.service.feeds import file_times
from livesvm.service.files.dialect import Line

_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,:](\d{1,6})\d*)?)?(?: ?([AaPp])[Mm])?")
_YEARLESS = re.compile(r"[A-Z][a-z]{2} +\d{1,2}( \d{1,2}:\d\d(:\d\d)?)?")
_NTH = re.compile(r"(?i)(?:nth|n-ter) (hour|day|week|stunde|tag|woche)")
_LENGTHS = {"hour": 1, "stunde": 1, "day": 24, "tag": 24, "week": 168, "woche": 168}
"""Hours in the parts of time that a column may count from 0, as Google Analytics does."""
_DAY = re.compile(
    r"(?<!\d)(?:(?:19|20)\d\d([-_./]?)[01]\d\1[0-3]\d|\d{1,2}([-/.])\d{1,2}\2(?:\d{4}|\d\d)"
    r"|\d{1,2} [A-Za-z]{3,9} \d{4}|[A-Za-z]{3,9} \d{1,2},? \d{4})(?!\d)"
)
_GIVEN = re.compile(r"(\d{4}-\d\d-\d\d)[ T](.*%.*)")
NIGHT, WINTER = timedelta(hours=6), timedelta(days=90)
"""By how much times without a day, and days without a year, fall as the next one begins."""
MOST_FALLS = 0.05
"""Share of times that are before the one above them; durations often are."""


@dataclass(frozen=True)
class Dateless:
    """A column of times without a day or a year.

    Parameters
    ----------
    at : the column
    half : the column of AM and PM, if it is another one
    first : the first day; None if the file does not tell it
    has_days : whether the times have days without a year
    length : of what the column counts, if it counts
    """

    at: int
    half: int | None
    first: datetime | None
    has_days: bool
    length: timedelta | None = None


def split(time_format: str | None) -> tuple[datetime | None, str | None]:
    """Return the day with which a format of times of the day begins, as in "2024-01-31 %H:%M", and the whole format."""
    found = None if time_format is None else _GIVEN.fullmatch(time_format)
    return (None, time_format) if found is None else (datetime.fromisoformat(found[1]), f"%Y-%m-%d {found[2]}")


def found_in(
    names: Sequence[str], columns: Sequence[Sequence[str]], about: Sequence[str], first: datetime | None
) -> Dateless | None:
    """Return the first column of times without a day or a year; None if there is none.

    Parameters
    ----------
    names : of the columns
    about : other texts that may tell the first day: lines before the header, and the name of the file
    first : the first day, if it is given
    """
    about = [*about, *names]
    for at, cells in enumerate(columns):
        counts = _NTH.fullmatch(names[at])
        if counts is not None and all(map(str.isdigit, cells)):
            length = timedelta(hours=_LENGTHS[counts[1].lower()])
            return Dateless(at, None, first or _day_in(about, False), False, length)
        some = {cell.strip() for cell in cells[:50]} - {""}
        has_days = bool(some) and all(map(_YEARLESS.fullmatch, some))
        if not has_days and not (some and all(map(_CLOCK.fullmatch, some))):
            continue
        halves = {cell.strip().lower() for cell in columns[at + 1]} if at + 1 < len(columns) else set[str]()
        half = at + 1 if halves and halves <= {"am", "pm", ""} else None
        texts = [_text(cells[row], columns[half][row] if half else "") for row in range(min(len(cells), 5000))]
        found = [when for text in texts if (when := _moment(text, datetime(2000, 1, 1), has_days))]
        if sum(other < one for one, other in pairwise(found)) > max(1, MOST_FALLS * len(found)):
            continue
        is_american = half is not None or any(cell[-1] in "Mm" for cell in some)
        return Dateless(at, half, first or _day_in(about, is_american), has_days)
    return None


def rows_of(rows: Callable[[], Iterator[Line]], width: int, one: Dateless) -> Iterator[Line]:
    """Yield the rows with whole times in the column; the day or the year of the first row must be known."""
    assert one.first is not None
    begin, before = one.first, datetime.min
    for row in rows():
        if one.length is not None and len(row) == width and row[one.at].isdigit():
            row[one.at] = f"{begin + one.length * int(row[one.at]):%Y-%m-%d %H:%M:%S}"
        elif len(row) == width:
            text = _text(row[one.at], "" if one.half is None else row[one.half])
            when = _moment(text, begin, one.has_days)
            if when is not None and before - when > (WINTER if one.has_days else NIGHT):
                begin = begin.replace(year=begin.year + 1) if one.has_days else begin + timedelta(days=1)
                when = _moment(text, begin, one.has_days)
            if when is not None:
                before, row[one.at] = when, when.isoformat(" ")
        yield row


def _text(cell: str, half: str) -> str:
    return f"{cell.strip()} {half.strip()}".strip()


def _moment(text: str, begin: datetime, has_days: bool) -> datetime | None:
    """Return the time that a text means on the day, or in the year, of ``begin``; None for other texts."""
    if has_days:
        if not _YEARLESS.fullmatch(text):
            return None
        try:
            seconds = ":%S" if text.count(":") > 1 else ""
            clock = f" %H:%M{seconds}" if ":" in text else ""
            return datetime.strptime(f"{begin.year} {text}", f"%Y %b %d{clock}")
        except ValueError:
            return None
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    hour = int(found[1]) if found[5] is None else int(found[1]) % 12 + 12 * (found[5] in "Pp")
    micros = int((found[4] or "").ljust(6, "0"))
    return begin + timedelta(hours=hour, minutes=int(found[2]), seconds=int(found[3] or 0), microseconds=micros)


def _day_in(about: Sequence[str], is_american: bool) -> datetime | None:
    """Return the first day in these texts that can be read in one way only; None if there is none."""
    for text in about:
        for found in _DAY.finditer(text):
            cell = found[0].replace("_", "-")
            formats = file_times.find([cell], "date", alone=True)
            if is_american and len(formats) > 1:
                formats = [one for one in formats if one.name.startswith("%m")]
            if len(formats) == 1:
                read = formats[0].whole().read
                return datetime.fromisoformat(cell if read is None else read(cell))
    return None
