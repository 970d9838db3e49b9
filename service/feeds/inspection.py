"""Inspection of data files: find the meaning of a file's columns, and convert its rows for a feed or a fleet.

The first 64 kB of a text file decide how it is read. One pass over the whole file counts the rows, finds the end of the
table, and settles what the first rows leave ambiguous. Only a sample of the rows is kept in memory.
"""

from __future__ import annotations

import csv
import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import combinations, groupby, islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds import align, dateless, file_times, frequencies, interval, times
from livesvm.service.feeds.align import Align, Times
from livesvm.service.feeds.file_times import TimeFormat
from livesvm.service.files import dialect, documents, raw_tables
from livesvm.service.files.dialect import FileOptions as FileOptions
from livesvm.service.files.dialect import Line
from livesvm.service.files.raw_tables import Raw
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.cached import cached_property

BLOCK, PORTION = 10_000, 250
"""Rows of which times are read at once, and rows that are held meanwhile: the collector counts 700 new lists."""
KEPT = 10_000
"""Rows at the beginning that are looked at one by one."""
ENOUGH = 40
"""Times that show the interval of a feed."""
FEW = 20
"""Least number of readings of a series that shares no times with other series."""
MOST_COLUMNS = 512
"""Largest number of columns of a call; of more, those that are used are sent."""
MOST_SERIES = 50
"""Largest number of series of which intervals are examined."""
EACH = 20
"""Rows of each later block that are."""
DAY = 86_400.0
LEAP, MOST_HELD = 366 * DAY, 1000
"""Seconds and intervals without a reading: feeds take gaps that are no longer than one of both."""
SORTED, MOST_TIMES = 200_000, 2**24
"""Most rows that are put in order in memory, and most times that are looked at."""
MOST_UNIQUE, FILLED = 0.98, 0.5
"""Least share of rows with a time of their own in a series, and of filled pairs of times and numbered series."""
OFTEN = 3
"""A mark such as -999 among its like comes more often than any other value by this factor."""
FEW_ODD = 0.01
"""Share of the cells of a column of numbers below which those that are none are missing values."""
IMPOSSIBLE, MANY_EMPTY = 0.1, 0.2
"""Largest share of times that may be no times, and of empty cells of a target of which times without it matter."""
BACK, AUTUMN = 2 * 3600.0, (4, 10, 11)
"""Seconds by which local times fall back at most without being out of order, and the months in which clocks do so."""
SUMMARY, NOTES = 5, 20
"""Most rows at the end that may be summaries, and notes with fewer or more cells than the table's rows."""
_OF_SERIES = re.compile(
    r"(?i)(series|entity_id|topic|(sensor|meter|station|device)([ _]?(id|name))?|symbol|metric|_field)"
)
"""Names of columns with the series, although no two rows have the same time."""
_SERIES = re.compile(
    r"(?i)(series|name|id|key|sensor|meter|station|entity_id|site|item|store|symbol|metric|_field|.*_id)"
)
_LENGTH = re.compile(
    r"(?i)(.*_)?((hour|min(ute)?|day)s?_?count|resolution|granularity|duration|aggregation|(averaging|sampling)_?(time|period))"
)
"""Names of columns with the length of time that a row covers."""
_CLOCK = re.compile(
    r"\d{1,2}[:.]\d\d([:.]\d\d([.,:]\d+)?)?( ?[AaPp][Mm]?|\s?[-\u2013]\s?\d{1,2}:\d\d.*)?"
    r"|\d{1,2}:\d{1,2}:\d{1,2}([.,:]\d+)?|\d\d\s?[-\u2013]\s?\d\d|[0-2]\d[0-5]\d ?(UTC|GMT)"
)
_CLOCKS = (
    *("hour", "hr", "he", "hourending", "hrend", "hourbeginning", "time", "hhmm", "clock", "stunde", "uhrzeit"),
    *("heure", "hora", "ora", "uur"),
)
_YEAR = re.compile(r"(1[6-9]|2[01])\d\d")
_PACKED_CLOCK = re.compile(r"([01]\d|2[0-4])[0-5]\d( ?(UTC|GMT|Z))?")
_PERIODS = re.compile(r"(?i)(settlement[ _]?)?period|sp|settlementperiod|intervall?|zeitintervall")
_TIMES = ("time", "timestamp", "datetime", "date", "_time", "ts", "ds")  #: names that are taken first
_RECORDED = re.compile(
    r"(?i)(.*[ _.])?(updat|creat|modifi|insert|upload|sync|import|ingest|process|retriev|download|receiv|publish)"
    r"(e|ed|ion)?([ _.]?(at|on|time|date|ts|timestamp|utc))*"
)
"""Names of columns of the times at which rows were written, which are those of readings where nothing else is."""
_FORECAST = re.compile(r"(?i).*(forecast|prognos|predict|planned|pr[eé\ufffd]visi|day-ahead total)")
_DIRECTION = re.compile(r"(?i)(^|[^a-z])(w?dir|mwd|wd)([^a-z]|$)|direction|richtung|bearing|azimuth")
"""Names of columns of degrees around the compass."""
_SIX_OR_EIGHT = re.compile(r"\d{6}(\d\d)?")
_CODE = re.compile(r"[1-9]\d{4,}|0\d+")
_TOTAL = re.compile(
    r"(?i)\W*(\w*summe|summa|(grand |sub-?)?total\w*|sum|soma|suma|somme|(sub)?totaal|moyenne|average|mean|mittel"
    r"|mittelwert|durchschnitt|media|promedio|gemiddelde|medel|razem|gesamt)\b.*"
)
"""What stands in place of a time in a row that sums up rows above it."""
_WHOLE = re.compile(r"-?\d{1,15}(\.0*)?")
_ORDER = re.compile(r"(?i)\b([dtmyj])\1*[./-]([dtmyj])\2*[./-]([dtmyj])\3*\b")
_PLAIN = re.compile(r"[+-]?\d+\.?\d*([eE][+-]?\d+)?")
_GROUPED = re.compile(r"[(+-]?[1-9]\d{0,2}\.\d{3}\)?")
_NINES = re.compile(r"[+-]?(?=(\D*9){3})9+([.,](9+|0*))?|-(99|[1-9]00+|3276[78])([.,]0*)?")
_MINUS_IS_SMALL = re.compile(r"-1 (for|voor|=|means) ?<")  #: as weather services write of rain
_TWO_NINES = re.compile(r"99([.,]0+)?")
_CODED, _SURELY_CODED = re.compile(r"[+-]?\d{4,5},\w"), re.compile(r"[+-]0\d{3},\w")
"""Numbers of a fixed width with a mark of their quality, such as +0123,1, as in the ISD of weather stations."""
_TARGET = re.compile(r"(?i)_?(value|y|target|state|load|demand|cnt)")
_CALENDAR = re.compile(
    r"(?i)(num|nr|row|seq(uence)?|serial|order|case|record)[ _.]?(no|nr|num(ber)?|id|os|seq(uence)?)"
    r"|((iso|mmwr|epi)[ _]?)?(week|year)|day[ _]?of[ _]?week|week[ _]?day|wo(chen)?tag|dow|month|day|hour|unix|epoch"
)
"""Names of columns of numbers that tell the time or number the rows."""
_NUMBERS = {"number", "missing"}
_COMMA_DATES = ("%d.%m.", "%d. ")
"""Begins of the formats of dates that are written where decimal marks are commas."""
_AUTUMN = {
    **{(10, -1, 1): "Europe/London", (10, -1, 2): "Europe/Berlin", (10, -1, 3): "Europe/Helsinki"},
    **{(11, 0, 1): "America/New_York", (11, 0, 2): "America/New_York", (4, 0, 2): "Australia/Sydney"},
}
"""Zones by the hour that comes twice on a Sunday: its month, 0 for the first week or -1 for the last one, and the hour.

Where hours have the time of their end, the one after it comes twice.
"""
NOTHING = FileOptions()


@dataclass
class InspectedTable:
    """The interpretation of a data file: its columns with their meanings, and its converted rows.

    Parameters
    ----------
    names, rows : as they are sent; ``rows`` begins at the first row each time
    time, series : the columns of times and of names of series, where there are any
    numbers : columns of numbers
    targets : those of them that change, the likeliest first
    likeliest : the first of them, if it is likelier than all others
    count : rows of the file
    said : what was understood, by what it is, for people
    times : all columns of times that are sent in ISO 8601
    zone : of times without one, as the file names it
    align : how the rows were put on a grid, as the option ``align`` has it
    every : the interval, if all times keep to it
    row_of : the number of a row of the file, from the number of the row that is sent; None where rows are joined
    """

    names: Line
    rows: Callable[[], Iterator[Line]]
    time: str | None = None
    series: str | None = None
    numbers: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    likeliest: str | None = None
    count: int = 0
    said: dict[str, Any] = field(default_factory=dict)
    is_wide: bool = False
    times: list[str] = field(default_factory=list)
    unread_times: str | None = None
    zone: str | None = None
    align: str | None = None
    every: str | None = None
    row_of: Callable[[int], int] | None = None

    def place_of(self, sent: int) -> str:
        """Return the place in the file of the row that is sent as row number ``sent``, from 0."""
        if self.row_of is None:
            return f"row {sent} of those that are sent"
        return f"row {self.row_of(sent)} of those under its names"

    @property
    def understood(self) -> dict[str, Any]:
        """The findings about the file, by name, without empty ones."""
        return {name: value for name, value in self.said.items() if value not in (None, "", [])}

    def fitting(self, used: Collection[str]) -> InspectedTable:
        """Keep the columns that are ``used``, of times and of series, if a call takes no more; return this table."""
        if len(self.names) > MOST_COLUMNS:
            kept = [at for at, name in enumerate(self.names) if name in {*used, self.time, self.series}]
            source, self.names = self.rows, [self.names[at] for at in kept]
            self.rows = lambda: ([row[at] for at in kept] for row in source())
        return self

    def named(self, **wanted: str | None) -> InspectedTable:
        """Rename the columns of times and of series to the names that a feed uses, and return this table."""
        for part, name in wanted.items():
            found = getattr(self, part)
            if name is not None and found is not None and name not in self.names:
                self.names = [name if one == found else one for one in self.names]
                setattr(self, part, name)
        return self


def table(
    path: Path, given: FileOptions = NOTHING, time: str | None = None, series: str | None = None
) -> InspectedTable:
    """Interpret a file of readings; raises OSError, or ValueError that names the option to set if it is ambiguous.

    Parameters
    ----------
    time, series : the columns of times and of names where the file has them, and none is ``given``
    """
    with _of_file(path):

        def read(raw: Raw) -> InspectedTable:
            """Interpret one table."""
            has_series = given.series is None and series in raw.names
            return _Reader(raw, replace(given, series=series) if has_series else given, time).table()

        return _largest(path, given, read)


def examples(path: Path, given: FileOptions = NOTHING) -> InspectedTable:
    """Interpret a file of examples, one in each row; the order of rows is kept; raises the errors of :func:`table`.

    All columns of times are converted to ISO 8601. Marks of missing values are recognized only in columns of numbers or
    times, as "unknown" may be an ordinary word elsewhere.
    """
    with _of_file(path):
        return _largest(path, given, lambda raw: _Reader(raw, given, None, of_examples=True).table(), needs_times=False)


def _largest(
    path: Path, given: FileOptions, read: Callable[[Raw], InspectedTable], *, needs_times: bool = True
) -> InspectedTable:
    """Return the table of a file; of several tables below each other, the largest with times; raises InvalidInput."""
    raw = None
    try:
        raw = replace(raw_tables.opened(path, given), name=path.name)
        lead = [line.partition(raw.separator)[0].strip('"') for line in raw.said.get("lines before the header") or ()]
        if raw.is_text and given.skip is None and [*map(dialect.kind_of, lead)].count("time") >= raw_tables.FEWEST_ROWS:
            return _one_of_several(path, given, read, needs_times) or read(raw)
        whole = read(raw)
        is_titled = raw.is_text and given.skip is None and needs_times and whole.unread_times is not None
        return (is_titled and _one_of_several(path, given, read, needs_times)) or whole
    except InvalidInput as error:
        may_have_more = (raw is None or raw.is_text) and given.skip is None and error.field == "rows"
        found = _one_of_several(path, given, read, needs_times) if may_have_more else None
        if found is None:
            raise
        return found


def _one_of_several(
    path: Path, given: FileOptions, read: Callable[[Raw], InspectedTable], needs_times: bool
) -> InspectedTable | None:
    """Return the largest table that can be read, and if ``needs_times``, has times; None if there is none."""
    for raw in raw_tables.tables_in(path, given):
        with suppress(InvalidInput):
            found = read(replace(raw, name=path.name))
            if (found.times and found.targets) or not needs_times:
                return found
    return None


@contextmanager
def _of_file(path: Path) -> Iterator[None]:
    """Turn InvalidInput into a ValueError with the file's path, the row and the option in its message."""
    try:
        yield
    except InvalidInput as error:
        where = "" if error.row is None else f"row {error.row + 1}: "
        what = "" if error.field in ("body", "rows") else f"{error.field}: "
        raise ValueError(f"{path}: {where}{what}{error.reason}") from error
    except csv.Error as error:
        raise ValueError(f"{path}: is no table: {error}") from error


class _Reader:
    """The reader of one file: finds the meaning of the columns, and converts their cells."""

    columns: list[Any]
    begin: int
    end: int

    def __init__(self, raw: Raw, given: FileOptions, time: str | None, *, of_examples: bool = False) -> None:
        if given.zone is not None:
            times.zone_of(given.zone)
        self.raw, self.given, self.said, self.of_examples = raw, given, dict[str, Any](raw.said), of_examples
        self.zones: dict[str, Any] = self.said.pop("zone", {})
        self.missing = {*given.missing}
        self.every: interval.Every | None = None
        self.grid: tuple[Align, interval.Every] | None = None
        self.order = ""
        self.places: NDArray[np.int64] | None = None
        self.left_out = np.empty(0, np.int64)
        self.has_repeats = False
        self.sorted: Path | None = None
        self.names = list[Any]()
        self.ends = timedelta(0)
        self._read_first()
        if not of_examples and (found := frequencies.finest(raw.names, self.columns)) is not None:
            self.raw = raw = replace(raw, rows=partial(frequencies.rows_of, raw.rows, raw.width, found))
            self.said["periods of several lengths"] = found.said
            self._read_first()
        self._without_codes()
        self.dateless, (first, time_format) = "", dateless.split(given.time_format)
        self.given = replace(given, time_format=time_format)
        timed = self._examples_time() if of_examples else self._time(time)
        if not of_examples and (first is not None or not timed[1]) and self._with_days(first):
            timed = self._time(time)
        self.parts, formats = timed if of_examples else self._with_zone(*timed)
        formats = self._look(formats)
        if not of_examples and len(formats) == 1 and (others := self._of_odd(formats[0])):
            formats = self._look(others)
        good = [row for row in self.kept[self.begin : self.end] if len(row) == raw.width] + self.later
        self.columns = [*zip(*good, strict=True)] if good else [()] * raw.width
        self.format = self._decided(self.parts, formats)
        self.seconds = next((seconds for one, seconds in self.read if one is self.format), np.empty(0))
        self.formats = self._formats_of_examples() if of_examples else {}
        if len(self.parts) == 1 and self.format is not None:
            self.formats[self.parts[0]] = self.format
        self.kinds = [self._kind_of(column) for column in self.columns]
        for at in {*self.parts, *self.formats}:
            self.kinds[at] = "time"
        self.series = self._series()
        self._check_lengths()
        counts = [Counter(map(str.strip, self.columns[at])) for at in self._of_kind("number")]
        often = {one for cells in counts for one, count in cells.items() if count > 1 and one}
        self.words = set() if of_examples else {one for one in often if not any(map(str.isdigit, one))}
        for at, cells in zip(self._of_kind("number"), counts, strict=True):
            odd = {one for one in cells if self._kind(dialect.unmarked(one)) not in _NUMBERS}
            has_units = dialect.have_units({one: cells[one] for one in cells if self._kind(one) != "missing"})
            if not of_examples and (has_units or sum(cells[one] for one in odd) < FEW_ODD * len(self.columns[at])):
                self.words |= odd
        numbers = [
            {plain for one in cells if self._kind(plain := dialect.unmarked(one)) == "number"} for cells in counts
        ]
        self.decimal, self.thousands = ".", ""
        self.has_signs = any(
            not {*cell}.isdisjoint(dialect.SIGNS) or dialect.unmarked(cell) != cell
            for cells in counts
            for cell in cells
        )
        if raw.is_text:
            usual = "," if self.format is not None and self.format.name.startswith(_COMMA_DATES) else None
            self.decimal, self.thousands = dialect.decimal_of(numbers, raw.separator, given.decimal, usual)
        points = [cell for cells in numbers for cell in cells if "." in cell]
        may_be_thousands = self.decimal == "." and raw.separator != "," and all(map(_GROUPED.fullmatch, points))
        if (may_be_thousands := may_be_thousands and raw.is_text and given.decimal is None and bool(points)) and (
            self.format is not None and self.format.name.startswith(_COMMA_DATES)
        ):
            self.decimal, self.thousands = ",", f"{self.thousands}."  # as in the countries of such dates
        self.says_point = may_be_thousands
        self.pattern = dialect.pattern_of(self.decimal)
        self.far = {} if of_examples or given.missing else self._far(_NINES)

    def _read_first(self) -> None:
        """Read the first rows, and their columns."""
        self.kept = [*islice(self.raw.rows(), KEPT)]
        good = [row for row in self.kept if len(row) == self.raw.width]
        self.columns = [*zip(*good, strict=True)] if good else [()] * self.raw.width

    def _without_codes(self) -> None:
        """Keep only the number of each cell, in columns with cells of a number, a comma and a mark of quality."""
        cells = [{*column} - {""} for column in self.columns]
        if self.raw.separator != "," or not any(map(_SURELY_CODED.fullmatch, set().union(*cells))):
            return
        coded = [at for at, one in enumerate(cells) if one and all(map(_CODED.fullmatch, one))]

        def rows(source: Callable[[], Iterator[Line]] = self.raw.rows) -> Iterator[Line]:
            """Yield the rows."""
            for row in source():
                if len(row) == self.raw.width:
                    for at in coded:
                        row[at] = row[at].partition(",")[0]
                yield row

        self.raw = replace(self.raw, rows=rows)
        self.said["marks of quality left out"] = ", ".join(self.raw.names[at] for at in coded)
        self._read_first()

    def _with_days(self, first: datetime | None) -> bool:
        """Put a day before times of day, or a year before days; return whether the file has such times."""
        about = [*(self.said.get("lines before the header") or ()), self.raw.name]
        found = dateless.found_in(self.raw.names, self.columns, about, first)
        if found is None or found.first is None:
            self.dateless = "" if found is None else self.raw.names[found.at]
            return False
        self.given = replace(self.given, time_format=None)
        self.raw = replace(self.raw, rows=partial(dateless.rows_of, self.raw.rows, self.raw.width, found))
        said = f"{found.first:%Y-%m-%d}, as times have none"
        self.said["first day"] = f"{said}; --time-format '2024-01-31 %H:%M:%S' takes another"
        self._read_first()
        return True

    def _kind_of(self, column: Sequence[str]) -> str:
        """Return the most frequent kind of a column's cells; in examples, numbers mixed with text count as text."""
        counts = Counter(column)
        kinds = {cell: self._kind(cell) for cell in counts}
        kind = dialect.commonest(kinds[cell] for cell in column)
        if kind in ("text", "time") and not self.of_examples:
            there = {cell: counts[cell] for cell in counts if kinds[cell] != "missing"}
            return "number" if dialect.have_units(there) else kind
        return "text" if self.of_examples and kind == "number" and not {*kinds.values()} <= _NUMBERS else kind

    def _far(self, marks: re.Pattern[str]) -> dict[int, set[str]]:
        """Return, by column, marks such as -999 that are farther from all other values than those from each other."""
        found = dict[int, set[str]]()
        for at in self._of_kind("number"):
            values = {
                cell: float(plain)
                for cell in map(str.strip, {*self.columns[at]})
                if _PLAIN.fullmatch(plain := dialect.number(cell, self.decimal, self.pattern))
            }
            others = [value for cell, value in values.items() if not marks.fullmatch(cell)]
            if len(others) > 2 and len(others) < len(values):
                low, high = min(others), max(others)
                far = {cell for cell, value in values.items() if not 2 * low - high <= value <= 2 * high - low}
                if far := {cell for cell in far if marks.fullmatch(cell)}:
                    found[at] = far
        return found

    def _with_zone(self, parts: tuple[int, ...], formats: list[TimeFormat]) -> tuple[tuple[int, ...], list[TimeFormat]]:
        """Add a column of zones to the parts of a time without a zone, or take one zone from a column or a name."""
        if not formats or formats[0].zoned or self.given.zone is not None or len(parts) > 5:
            return parts, formats
        for name, told in self.zones.items():
            if zone := file_times.zone_of_offset(told // 60) if isinstance(told, int) else file_times.zone_named(told):
                self._take_zone(zone, name)
                return parts, formats
        for at, cells in enumerate(self.columns):
            words = {cell.strip() for cell in cells} - {""}
            if at in parts or not 0 < len(words) < 5:
                continue
            if all(map(file_times.is_offset, words)) and (both := self._formats((*parts, at), True)):
                return (*parts, at), both
            if len(words) == 1 and file_times.is_zone(word := words.pop()):
                self._take_zone(word, self.raw.names[at])
                return parts, formats
        for text in (" ".join(self.raw.names[at] for at in parts), *self._cells(parts)[:1]):
            if zone := file_times.zone_in(text):
                self._take_zone(zone, text)
                return parts, formats
        about = [*(self.said.get("lines before the header") or ()), *(self.said.get("lines under the header") or ())]
        if zone := file_times.zone_within("; ".join(about)):
            self._take_zone(zone, next(line for line in about if zone in line)[:64])
        return parts, formats

    def _take_zone(self, zone: str, name: str) -> None:
        self.given = replace(self.given, zone=zone)
        self.said["zone"] = f"{zone}, as {name!r} says; --zone takes another"

    def _examples_time(self) -> tuple[tuple[int, ...], list[TimeFormat]]:
        """Return the columns that the option --time names, and their possible formats."""
        if self.given.time is None:
            return (), []
        parts = self._at(self.given.time, "--time")
        return parts, self._formats(parts, True)

    def _formats_of_examples(self) -> dict[int, TimeFormat]:
        """Return the format of each column with times as text, or with dates as digits; raises InvalidInput."""
        found = dict[int, TimeFormat]()
        for at in range(self.raw.width):
            cells = {*self._cells((at,))}
            first = next(iter(cells), "").strip()
            if at in self.parts or (dialect.kind_of(first) == "number" and len(first) < len("20240101")):
                continue
            formats = [one for one in self._formats((at,)) if not one.name.endswith(file_times.AS_IT_IS[-1])]
            formats = [one.whole() for one in formats]
            formats = [one for one in formats if one.reads(cells)]
            if formats:
                found[at] = self._decided((at,), formats) or formats[0]
        return found

    def _of_kind(self, kind: str) -> list[int]:
        held = {*self.parts, *self.series}
        return [at for at, one in enumerate(self.kinds) if one == kind and at not in held]

    def _kind(self, cell: str) -> str:
        return "missing" if cell.strip() in self.missing else dialect.kind_of(cell)

    def _is_missing(self, cell: str) -> bool:
        return dialect.is_missing(cell) or cell.strip() in self.missing

    def _at(self, names: str, option: str) -> tuple[int, ...]:
        """Return the columns that an option names: one column, or several with + between their names."""
        wanted = [names] if names in self.raw.names else names.split("+")
        for name in wanted:
            if name not in self.raw.names:
                reason = f"the file has no column {name!r}; it has {', '.join(self.raw.names)[:200]}"
                raise InvalidInput(reason, field=option)
        return tuple(map(self.raw.names.index, wanted))

    def _cells(self, parts: Sequence[int]) -> list[str]:
        """Return the times of the sampled rows, without missing times; the parts of a time are joined by a blank."""
        found = zip(*(self.columns[at] for at in parts), strict=True)
        return [file_times.joined(cells) for cells in found if not all(map(self._is_missing, cells))]

    def _formats(self, parts: tuple[int, ...], alone: bool = False) -> list[TimeFormat]:
        if len(parts) == 2 and (periods := self._periods(parts)):
            return periods
        if len(parts) > 1:
            about = " ".join([*self.raw.names, *(self.said.get("lines before the header") or ()), self.raw.name])
            for one in file_times.numbered(self.raw.names[parts[1]], about):
                if one.reads(self._cells(parts)):
                    return [one]
        cells, name = self._cells(parts), self.raw.names[parts[0]]
        few = [*cells[:50], *cells[len(cells) // 2 :][:20]]
        if not few:
            return []
        if self.given.time_format is not None:
            one = file_times.by_format(self.given.time_format)
            if alone or len(self.raw.names) == 1 or one.reads(few):
                return [one]
            if not self.of_examples:
                return []
        found = file_times.find(few, name, alone=alone)
        if not found and file_times.find(few[:1], name, alone=alone):  # some may be impossible
            good = [cell for cell in few if file_times.find([cell], name, alone=alone)]
            found = file_times.find(good, name, alone=alone) if len(good) > (1 - IMPOSSIBLE) * len(few) else []
        return found or (file_times.find(cells[:-SUMMARY], name, alone=alone) if len(cells) < 70 else [])

    def _periods(self, parts: tuple[int, ...]) -> list[TimeFormat]:
        """Return the formats of days with 48 or 96 numbered periods, as in electricity settlement data; else none."""
        numbers, name = {*map(str.strip, self.columns[parts[1]])}, self.raw.names[parts[1]]
        if not all(one.isdigit() for one in numbers):
            return []
        if name.lower() in _CLOCKS and {*map(int, numbers)} == {*range(1, 26)}:  # of the day on which clocks go back
            return self._numbered(parts, 24, 25)
        if not _PERIODS.fullmatch(name):
            return []
        count = next(
            (count for count, least, most in ((48, 46, 50), (96, 92, 100)) if least <= len(numbers) <= most), None
        )
        if count is None or min(map(int, numbers)) != 1:
            return []
        return self._numbered(parts, count, max(map(int, numbers)))

    def _numbered(self, parts: tuple[int, ...], count: int, most: int) -> list[TimeFormat]:
        """Return the formats of days with ``count`` periods; a zone is needed if a day has more; raises InvalidInput.

        Periods of an hour get the time at which they end, and other periods get the time at which they begin.
        """
        if most > count and self.given.zone is None:
            reason = f"has {most} periods of {1440 // count} minutes on a day, as clocks go back; say --zone"
            raise InvalidInput(reason, field=self.raw.names[parts[1]])
        days = self._formats(parts[:1], True)
        return [file_times.with_periods(one, count, self.given.zone, ends=count == 24) for one in days]

    def _time(self, usual: str | None) -> tuple[tuple[int, ...], list[TimeFormat]]:
        """Return the columns that make up the time, with the formats that read them; prefer the column ``usual``."""
        names = [name.lower() for name in self.raw.names]
        if self.given.time is not None:
            parts = self._at(self.given.time, "--time")
            return parts, self._formats(parts, True)
        parts = file_times.parts_in(self.raw.names)
        if usual not in self.raw.names and parts and (formats := self._formats(parts, True)):
            distinct, whole = len({*self._cells(parts)}), (*parts, parts[-1] + 1)
            is_numbered = len(parts) == 2 and file_times.numbered(names[parts[-1]]) != []
            has_clock = is_numbered and whole[-1] < len(names) and distinct < len({*self._cells(whole)})
            if has_clock and (hours := self._formats(whole, True)):  # 930 after the day of the year
                return whole, hours
            finer = [at for at in range(len(names)) if len({*self.columns[at]}) > distinct and self._formats((at,))]
            if not any(dialect.kind_of(next(iter(self.columns[at]), "")) == "time" for at in finer):
                clocks = [at for at, cells in enumerate(self.columns) if cells and _CLOCK.fullmatch(cells[0].strip())]
                for whole in ((*parts, at) for at in clocks if len(parts) == 3 and distinct < len(self.columns[0])):
                    if hours := self._formats(whole, True):
                        return whole, hours
                return parts, formats
        years = [at for at, cells in enumerate(self.columns) if cells and _YEAR.fullmatch(cells[0])]
        for pair in [(at, len(names) - 2) for at in years if self.raw.is_spread and names[-2] == "month"]:
            if both := self._formats(pair, True):
                return pair, both
        if usual in self.raw.names and (formats := self._formats((self.raw.names.index(usual),), True)):
            return (self.raw.names.index(usual),), formats
        found = {at: formats for at in range(len(names)) if (formats := self._formats((at,)))}
        if self.raw.said.get("header") == "none":
            for parts in file_times.parts_unnamed(self.columns):
                cells = self._cells(parts)
                if len({*cells}) == len(cells) and (formats := self._formats(parts, True)):
                    return parts, formats
        is_bare = (
            not found and self.raw.said.get("header") == "none" and len({*self.columns[0]}) == len(self.columns[0])
        )
        if is_bare and (formats := self._formats((0,), True)):
            return (0,), formats
        if not found and self.raw.said.get("header") == "none" and (bare := self._bare_dates()):
            return bare
        found = {at: formats for at, formats in found.items() if len({*self.columns[at]}) > 1} or found
        recorded = {at for at in found if _RECORDED.fullmatch(names[at])}
        found = {at: formats for at, formats in found.items() if at not in recorded} or found
        spoken = [at for at in found if dialect.kind_of(self.columns[at][0]) != "number" or names[at] in _TIMES]
        found = {at: found[at] for at in spoken or found}  # numbers are times where nothing else is
        clocks = [at for at, cells in enumerate(self.columns) if cells and _CLOCK.fullmatch(cells[0].strip())]
        named = [
            at
            for at, one in enumerate(names)
            if re.sub(r"[ _<>()\[\]]|(utc|gmt)\)?$", "", one) in _CLOCKS or _PERIODS.fullmatch(one)
        ]
        if not any(":" in self.columns[at][0] for at in clocks):  # 0.24 may be a number
            clocks = [at for at in named if not clocks or _are_hours({*map(str.strip, self.columns[at])})] + clocks
        guessed = (
            [] if clocks else [at for at, cells in enumerate(self.columns) if _are_hours({*map(str.strip, cells)})]
        )
        again = [at for at in found if len({*self.columns[at]}) < len(self.columns[at])]  # several times a day
        most = max((len({*self.columns[at]}) for at in found if ":" in self.columns[at][0]), default=0)
        for at in [at for at in again if ":" not in self.columns[at][0]]:
            for clock in (one for one in clocks or guessed if one != at):
                is_sure = clocks or len({*self._cells((at, clock))}) == len(self.columns[at])
                if len({*self._cells((at, clock))}) <= most:  # another column has whole times
                    continue
                if is_sure and (both := self._formats((at, clock), bool(guessed))):
                    return (at, clock), both
        for pair in [(at, at + 1) for at in years if not found and at + 1 < len(names)]:
            is_name = dialect.kind_of(self.columns[pair[1]][0]) == "text"  # of a month
            if is_name and (both := self._formats(pair, True)):
                return pair, both
        if not found:
            if self.given.time_format is not None:
                return (0,), [file_times.by_format(self.given.time_format)]
            return (), []
        best = min(found, key=lambda at: (_TIMES.index(names[at]) if names[at] in _TIMES else 9, at))
        if others := [self.raw.names[at] for at in sorted({*found, *recorded} - {best})]:
            self.said["other columns of times"] = f"{', '.join(others)}; --time takes another"
        return (best,), found[best]

    def _bare_dates(self) -> tuple[tuple[int, ...], list[TimeFormat]] | None:
        """Return the first column of six or eight digits that are dates at even steps, with their format."""
        for at, cells in enumerate(self.columns):
            days = [*dict.fromkeys(map(str.strip, cells))]
            if len(days) > FEW and all(map(_SIX_OR_EIGHT.fullmatch, days)):
                for one in file_times.find(days[:70], "date", alone=True):
                    steps = Counter(np.diff(np.sort(file_times.Seconds(one).of(days))).tolist())
                    if max(steps.values()) > 0.8 * len(days):
                        return (at,), [one]
        return None

    def _look(self, formats: list[TimeFormat]) -> list[TimeFormat]:
        """Read all rows once, and return the formats that read all times.

        Count the rows before a summary at the end, and keep their times in seconds, and a sample of each block.
        """
        self.later, stream, count, tail = list[Line](), self.raw.rows(), 0, list[Line]()
        has_time = (
            not self.parts or len(row) != self.raw.width or not all(self._is_missing(row[at]) for at in self.parts)
            for row in self.kept
        )
        self.begin = 0 if self.of_examples else next((at for at, has in enumerate(has_time) if has), 0)
        self.unread = dict[int, str]()
        readers, found = [*map(file_times.Seconds, formats)], [list[Times]() for _ in formats]
        cells, block = list[str](), [*islice(stream, PORTION)]
        self.empty = [Counter[str]() for _ in self.raw.names]
        marks = {one for column in self.columns for one in {*column} if self._is_missing(one)} | self.missing
        marks |= {"NaN", *(form(one) for one in dialect.MISSING for form in (str, str.upper, str.title))}
        while block:
            following, whole = [*islice(stream, PORTION)], self._whole(block)
            for missing, column in zip(self.empty, zip(*whole, strict=True), strict=True):
                for mark in marks.intersection(column):
                    missing[mark] += column.count(mark)
            if readers and count < MOST_TIMES:
                cells += self._stamps(whole)
            if cells and (len(cells) >= BLOCK or not following):
                for reader, times_of in zip(readers, found, strict=True):
                    times_of.append(self._read_by(reader, cells, count + len(block) - len(cells)))
                cells = []
                failed = [int(np.isnan(one[-1]).sum()) for one in found]
                if 0 in failed and max(failed) > NOTES:
                    good = [at for at, count in enumerate(failed) if count <= NOTES]
                    formats, readers = [formats[at] for at in good], [readers[at] for at in good]
                    found = [found[at] for at in good]
            begin, tail = count - len(tail), tail + block
            self._check_widths(tail[:-NOTES], begin)
            tail = tail[-NOTES:]
            if count >= KEPT and count % BLOCK == 0:
                self.later += block[: min(EACH, len(block) - len(tail))]
            count, block = count + len(block), following
        ends = len(tail)
        first = {self.kept[self.begin][at] for at in self.parts} if self.parts and count > ENOUGH else {""}
        while ends and (
            not self._is_reading(row := tail[ends - 1], formats)
            or (
                ends == len(tail)
                and first == {row[at] for at in self.parts}
                and self._is_total(tail[-2][self.parts[0]], row)
            )
        ):
            if len(row) == self.raw.width and ends <= len(tail) - SUMMARY:
                break
            ends -= 1
        self._check_widths(tail[:ends], count - len(tail))
        left_out, self.end = tail[ends:], count - len(tail) + ends
        self.begin = min(self.begin, self.end)
        self.count = self.end - self.begin
        self.said["rows at the beginning left out, as they have no time"] = self.begin or None
        self.said["lines at the end left out"] = [self.raw.separator.join(row) for row in left_out]
        if count > KEPT:
            self.later += tail[max(0, KEPT + len(tail) - count) : ends]
        for row in self._whole([*self.kept[: self.begin], *left_out]):
            for missing, cell in zip(self.empty, row, strict=True):
                missing[cell] -= 1
        seconds = [np.concatenate(one)[self.begin : self.end] if one else np.empty(0) for one in found]
        wrong = [int(np.isnan(one).sum()) for one in seconds]
        self.read = [(formats[at], seconds[at]) for at, count in enumerate(wrong) if count == min(wrong)]
        return [one for one, _ in self.read]

    def _whole(self, rows: list[Line]) -> list[Line]:
        """Return rows with empty cells in place of rows of another width than the table's."""
        if {*map(len, rows)} <= {self.raw.width}:
            return rows
        return [row if len(row) == self.raw.width else [""] * self.raw.width for row in rows]

    def _stamps(self, rows: list[Line]) -> list[str]:
        """Return the times of rows."""
        if len(self.parts) == 1:
            return [*map(str.strip, map(itemgetter(self.parts[0]), rows))]
        return [*map(file_times.joined, map(itemgetter(*self.parts), rows))]

    def _read_by(self, reader: file_times.Seconds, cells: list[str], begin: int) -> Times:
        """Return times in seconds, with NaN for times that cannot be read, and minus infinity for missing times."""
        found = reader.of(cells)
        for at in np.flatnonzero(np.isnan(found)).tolist():
            if all(map(self._is_missing, cells[at].split(" "))):
                found[at] = -np.inf
            elif len(self.unread) < BLOCK:
                self.unread[begin + at] = cells[at]
        return found

    def _of_odd(self, form: TimeFormat) -> list[TimeFormat]:
        """Return formats that read also the times that ``form`` does not read; leave out rows with impossible days.

        An empty list is returned if all times are read, or if a row has to be refused.
        """
        odd = np.flatnonzero(np.isnan(self.read[0][1])) + self.begin
        cells = [*dict.fromkeys(self.unread[at] for at in odd.tolist() if at in self.unread)]
        if not cells:
            return []
        name = self.raw.names[self.parts[0]]
        first = self._cells(self.parts)[:50]
        if len(odd) > FEW and (both := file_times.mixed([*first, *cells], name)):
            return both
        if form.read is None and (both := file_times.find([*first, *cells], name, alone=True)):
            return both  # 24:00, which no feed reads, may come late
        some = cells[:: 1 + len(cells) // 100]
        if (
            len(odd) > IMPOSSIBLE * self.count
            or len(self.unread) == BLOCK
            or any(
                not file_times.is_impossible(cell, self._cells(self.parts)[0])
                and not any(map(self._is_missing, cell.split(" ")))
                and not _TOTAL.fullmatch(cell)
                for cell in some
            )
        ):
            return []
        left_out, source = {*odd.tolist()}, self.raw.rows
        self.left_out = odd
        self.raw = replace(self.raw, rows=lambda: (row for at, row in enumerate(source()) if at not in left_out))
        shown = ", ".join(map(repr, some[:3]))
        self.said["rows left out, as they have no time that exists"] = f"{len(odd)}, such as {shown}"
        self._read_first()
        return [form]

    def _is_total(self, before: str, row: Line) -> bool:
        """Return whether a last row with the first row's time is a total, because times hardly ever repeat."""
        whole = [cells for cells in self.kept if len(cells) == self.raw.width]
        times_of = Counter(cells[self.parts[0]] for cells in whole)
        return before != row[self.parts[0]] and times_of[row[self.parts[0]]] < 3 and len(times_of) > 0.98 * len(whole)

    def _check_widths(self, rows: list[Line], begin: int) -> None:
        if {*map(len, rows)} <= {self.raw.width}:
            return
        for at, row in enumerate(rows, begin):
            if len(row) != self.raw.width:
                reason = f"has {len(row)} columns, the first line has {self.raw.width}; say --separator or --skip"
                raise InvalidInput(reason, field="rows", row=at)

    def _is_reading(self, row: Line, formats: list[TimeFormat]) -> bool:
        if len(row) != self.raw.width:
            return False
        if not self.parts or not formats:
            return True
        cell = self._stamps([row])[0]
        if formats[0].read is None:
            is_time = dialect.kind_of(cell) in ("time", "number") or formats[0].reads([cell])
            return is_time and any(map(str.isdigit, cell))
        return any(one.reads([cell]) for one in formats)

    def _decided(self, parts: tuple[int, ...], formats: list[TimeFormat]) -> TimeFormat | None:
        """Return the format of times, from the whole column if the first rows are ambiguous; raises InvalidInput."""
        if not parts:
            return None
        name = "+".join(self.raw.names[at] for at in parts)
        if not formats:
            if not self._cells(parts):
                return None
            raise InvalidInput(
                f"{self._cells(parts)[0][:32]!r} is no known time; say --time-format, as in '%d.%m.%Y %H:%M'",
                field=name,
            )
        if len(formats) > 1:
            rows = ([row[at] for at in parts] for row in islice(self.raw.rows(), self.begin, self.end))
            formats = file_times.narrowed(
                formats, (file_times.joined(row) for row in rows if not all(map(self._is_missing, row)))
            )
        if len(formats) > 1:
            cells = [*dict.fromkeys(self._cells(parts))]
            formats = [*{(*map(one.read or str, cells),): one for one in reversed(formats)}.values()][::-1]
        if len(formats) > 1 and not self.of_examples and (named := self._named(parts, formats)) is not None:
            self.said[named[0]] = f"{named[1].name}; --time-format takes another"
            return named[1]
        if len(formats) > 1 and not self.of_examples and (even := self._even(parts, formats)) is not None:
            self.said["chosen by even steps"] = f"{even.name}; --time-format takes another"
            return even
        if (
            len(formats) > 1
            and len(dots := [one for one in formats if not one.name.startswith(("%m.%d.", "%y.%m."))]) == 1
        ):
            self.said["chosen as the day is first between points"] = f"{dots[0].name}; --time-format takes another"
            return dots[0]
        if len(formats) != 1:
            fit = " and ".join(repr(one.name) for one in formats[:3]) or "no format"
            raise InvalidInput(f"{fit} fit all times, such as {self._cells(parts)[0]!r}; say --time-format", field=name)
        return formats[0]

    def _named(self, parts: tuple[int, ...], formats: list[TimeFormat]) -> tuple[str, TimeFormat] | None:
        """Return the only format with the order in the header, or with a first or last day in the file's name."""
        cells, digits = self._cells(parts), re.sub(r"\D", "", self.raw.name)
        header = " ".join([self.raw.names[parts[0]], *(self.said.get("lines under the header") or ())])
        order = _ORDER.search(header)
        if order is not None:
            letters = "".join(order.groups()).lower().translate(str.maketrans("tj", "dy"))
            found = [one for one in formats if letters == "".join(re.findall("%([dmy])", one.name.lower()))[:3]]
            if len(found) == 1:
                return "chosen by the header", found[0]
        days = [
            {when[:10].replace("-", "") for when in map(one.read, cells[:: max(1, len(cells) - 1)])}
            for one in formats
            if one.read
        ]
        found = [one for one, each in zip(formats, days, strict=False) if any(day in digits for day in each)]
        return ("chosen by the name of the file", found[0]) if len(found) == 1 else None

    def _even(self, parts: tuple[int, ...], formats: list[TimeFormat]) -> TimeFormat | None:
        """Return the only format by which times hardly ever fall or jump, or come monthly; else None."""
        breaks, monthly = list[tuple[int, bool]](), list[TimeFormat]()
        for one in formats:
            seconds = self._seconds([*dict.fromkeys(self._cells(parts)[:KEPT])], one)
            dates = [*map(interval.moment, seconds)]
            months = {abs(12 * (b.year - a.year) + b.month - a.month) for a, b in pairwise(dates)}
            if len(dates) > FEW and len({when.day for when in dates}) == 1 and months in ({1}, {3}):
                monthly.append(one)
            steps = [abs(other - first) for first, other in pairwise(seconds)]
            falls = sum(other < first for first, other in pairwise(seconds))
            turns = min(falls, len(steps) - falls)  # newest first, all fall
            breaks.append((turns + sum(step > 20 * DAY for step in steps), bool(steps) and 0 < min(steps) < DAY))
        if len(monthly) == 1:
            return monthly[0]
        best = min(range(len(formats)), key=lambda at: breaks[at][0])
        others = [count for at, (count, _) in enumerate(breaks) if at != best]
        is_clear = breaks[best][1] and min(others) >= max(3 * breaks[best][0], 1) and breaks[best][0] < KEPT // 1000
        return formats[best] if is_clear else None

    def _series(self) -> tuple[int, ...]:
        """Return the columns that name the series; empty if the file has a single series."""
        if self.given.series is not None:
            return self._at(self.given.series, "--series")
        if self.given.wide or self.of_examples or not self.parts:
            return ()
        stamps = self._times_without_repeats()
        if len({*stamps}) >= MOST_UNIQUE * len(stamps):
            names = [
                (at, Counter(self.columns[at])) for at, name in enumerate(self.raw.names) if _OF_SERIES.fullmatch(name)
            ]
            many = [
                at for at, each in names if self.kinds[at] == "text" and len(each) > 1 and min(each.values()) >= FEW
            ]
            return tuple(many[:1] or self._below_each_other(stamps))
        named = [at for at, name in enumerate(self.raw.names) if _SERIES.fullmatch(name) and at not in self.parts]
        dashed = [at for at, kind in enumerate(self.kinds) if kind == "time" and at not in self.parts]  # 02-00-00
        dashed = [at for at in dashed if not _CLOCK.fullmatch(self.columns[at][0].strip()) and not self._formats((at,))]
        words = [at for at, kind in enumerate(self.kinds) if kind == "text" or at in dashed]
        texts = [at for at in words if len({*self.columns[at]}) > 1 and at not in self.parts]
        numbers = [at for at, kind in enumerate(self.kinds) if kind == "number" and at not in self.parts]
        codes = [at for at in numbers if all(map(_CODE.fullmatch, {*self.columns[at]}))]
        wholes = [at for at in numbers if _are_names({*self.columns[at]})]
        sure = [*((at,) for at in [*named, *texts, *codes]), tuple(texts), *combinations(named, 2)]
        for tried in (*sure, *((at,) for at in wholes), *combinations([*texts[:FEW], *wholes[:FEW]], 2)):
            names = [*zip(*(self.columns[at] for at in tried), strict=True)] if tried else []
            pairs, several = {*zip(stamps, names, strict=True)} if names else set(), len({*names})
            if {*numbers} <= {*tried}:  # no values are left
                continue
            is_grid = tried in sure or len(pairs) > FILLED * several * len({*stamps})
            if len(pairs) >= MOST_UNIQUE * len(stamps) and 1 < several <= len(stamps) / 2 and is_grid:
                return tried
        are_few = len({*stamps}) < (0.8 if len(stamps) > FEW else 0.5) * len(stamps)
        if (are_few or len({*stamps}) == 1 < len(stamps)) and self.given.align in (None, "none"):
            some = [self.raw.names[at] for at in dict.fromkeys([*named, *texts, *wholes])][:3]
            series = f"--series COLUMN{', such as ' * bool(some)}{' or '.join(some)}, if the file has several series"
            one = "--align last, mean or sum, as in sum:1d, for one reading of each time"
            both = "--time A+B for a time in two columns"
            reason = f"several rows have the time {stamps[0]!r}; say {series}; {one}; or {both}"
            raise InvalidInput(reason, field="rows")
        return ()

    def _times_without_repeats(self) -> list[str]:
        """Return the times of the sampled rows; leave out rows that repeat others exactly if many times repeat.

        Numbers of rows may differ.
        """
        stamps = [" ".join(cells) for cells in zip(*(self.columns[at] for at in self.parts), strict=True)]
        others = [at for at in range(self.raw.width) if at in self.parts or not _are_numbered(self.columns[at])]
        self.compared = others if len(others) > len(self.parts) else [*range(self.raw.width)]
        if len({*stamps}) < MOST_UNIQUE * len(stamps):
            rows = {row: at for at, row in enumerate(zip(*(self.columns[at] for at in self.compared), strict=True))}
            self.has_repeats = len(rows) < len(stamps)
            self.columns = [[cells[at] for at in rows.values()] for cells in self.columns]
            stamps = [stamps[at] for at in rows.values()]
        return stamps

    def _check_lengths(self) -> None:
        """Raise InvalidInput if a column shows that the rows of a single series are of several lengths."""
        for name, cells in zip(self.raw.names, self.columns, strict=True):
            if (
                self.parts
                and not self.series
                and not self.given.wide
                and _LENGTH.fullmatch(name)
                and 1 < len({*cells}) < 6
            ):
                some = ", ".join(sorted({*cells}))
                reason = f"rows are of several lengths, {some} in {name!r}; say --series {name}"
                raise InvalidInput(reason, field=name)

    def _below_each_other(self, stamps: list[str]) -> list[int]:
        """Return the first column that changes just where times begin again, because one series is below the other."""
        rows = [*range(0, min(len(stamps), KEPT), EACH), *range(KEPT, len(stamps))]
        seconds = self._seconds([stamps[at] for at in rows]) if len(self.parts) == 1 else []
        falls = [at for at in range(1, len(seconds)) if seconds[at] < seconds[at - 1] - DAY]
        if not 0 < len(falls) <= len(seconds) // FEW:
            return []
        numbers = [self.columns[at] for at, kind in enumerate(self.kinds) if kind == "number"]
        groups = [rows[begin:end] for begin, end in pairwise([0, *falls, len(rows)])]
        filled = [[any(not self._is_missing(cells[row]) for row in group) for cells in numbers] for group in groups]
        if any(one != filled[0] for one in filled):  # rows of another kind
            return []
        for at, cells in enumerate(self.columns):
            names = [cells[row] for row in rows]
            changes = [row for row in range(1, len(names)) if names[row] != names[row - 1]]
            if at not in self.parts and changes == falls:
                return [at]
        return []

    @cached_property
    def targets(self) -> list[str]:
        """Columns of numbers that vary, the likeliest target first."""
        vary = [at for at in self._of_kind("number") if len({*self.columns[at]}) > 1]
        if self.series:  # a code of a series is none
            names = [*zip(*(self.columns[at] for at in self.series), strict=True)]
            most = len({*names}) if len(names) > 2 * len({*names}) else 0
            vary = [at for at in vary if len({*zip(names, self.columns[at], strict=True)}) > most] or vary
        return sorted((self.raw.names[at] for at in vary), key=self._unlikely)

    def table(self) -> InspectedTable:
        """Return the interpretation of the file."""
        raw, given = self.raw, self.given
        numbers = [raw.names[at] for at in self._of_kind("number")]
        targets = self.targets
        ranks = [*map(self._unlikely, targets[:2])]
        likeliest = targets[0] if (targets and ranks[0] != ranks[-1]) or len(targets) == 1 else None
        joined = [one for one in (self.parts, self.series) if len(one) > 1]
        gone = {at for one in joined for at in one}
        kept = [at for at in range(raw.width) if at not in gone]
        names = [raw.names[at] for at in kept]
        time = None if not self.parts else raw.names[self.parts[0]] if len(self.parts) == 1 else "time"
        series = None if not self.series else raw.names[self.series[0]] if len(self.series) == 1 else "series"
        names = [name for name, parts in ((time, self.parts), (series, self.series)) if len(parts) > 1 and name] + names
        found = InspectedTable(
            names, partial(self._sent, kept), time, series, numbers, targets, likeliest, self.count, self.said
        )
        found.row_of = None if raw.is_spread else self._row_of
        self._without_times()
        self._without_repeats()
        self._without_names()
        self._without_holes()
        found.count = self.count
        self._zone_of_autumn()
        found.zone, self.order = None if self.format is None or self.format.zoned else self.given.zone, self._order()
        found.times = [name for name in names if name == time or name in {raw.names[at] for at in self.formats}]
        self._say(found)
        if self._local(self.format) is not None and found.time is not None:
            found.rows = partial(_by_instant, found.rows, names.index(found.time), f"{self.given.zone}")
        if given.wide:
            if time is None:
                raise InvalidInput("needs a column of times; say --time", field="--wide")
            source, at = found.rows, [names.index(name) for name in numbers]
            stamp = names.index(time)
            found.row_of = None
            found.rows = lambda: ([row[stamp], names[one], row[one]] for row in source() for one in at)
            found.names, found.time, found.series, found.is_wide = [*documents.LONG], "time", "series", True
            found.numbers, found.targets, found.likeliest = ["value"], ["value"], "value"
        wanted = given.align or (None if self.grid is None else f"{self.grid[0]}:{self.grid[1]}")
        if wanted not in (None, "none"):
            self._align(found, wanted)
            if given.align is None:
                self.said["aligned"] += "; --align takes another grid, or none"
        return found

    def _align(self, found: InspectedTable, wanted: str) -> None:
        """Replace the rows of a table by rows on a regular grid; raises InvalidInput."""
        method, every = align.parsed(wanted)
        every = every or self.every
        if found.time is None or every is None:
            raise InvalidInput(f"needs times and an interval, as in {method}:1h", field="--align")
        names, counts, found.row_of = found.names, Counter[str](), None
        places = names.index(found.time), None if found.series is None else names.index(found.series)
        columns = (*places, {names.index(name) for name in found.numbers if name in names})
        work = partial(align.aligned, found.rows, method, every, columns)
        found.count = sum(1 for _ in work(counts))
        found.rows = lambda: work(Counter[str]())
        told = [f"{count} {what}" for what, count in counts.items() if count]
        found.align, found.every = f"{method}:{every}", f"{every}"
        self.said["aligned"] = f"{method}, every {every}: {', '.join(told) or 'none moved'}"

    def _unlikely(self, name: str) -> tuple[bool, ...]:
        """Return a sort key that is lowest for the most likely target, from the column's name and values."""
        whole = self.columns[self.raw.names.index(name)]
        column = [cell for cell in whole if not self._is_missing(cell)][:200]
        series = [*zip(*(self.columns[at] for at in self.series), strict=True)] or [()] * len(whole)
        of_one = [
            cell for cell, one in zip(whole, series, strict=True) if one == series[0] and not self._is_missing(cell)
        ][:200]
        steps = (
            {float(other) - float(one) for one, other in pairwise(column)}
            if all(map(_WHOLE.fullmatch, column))
            else set()
        )
        is_code = len({*column}) < 4 < len(column) or (steps == {1.0} and len(column) > 2)
        return (
            _TARGET.fullmatch(name) is None,
            bool(_SERIES.fullmatch(name) or _CALENDAR.fullmatch(name)) or is_code or self._tells_the_time(name),
            bool(_FORECAST.match(name)),
            bool(_DIRECTION.search(name)),
            self._is_counter(column) or self._is_counter(of_one),
        )

    def _is_counter(self, cells: list[str]) -> bool:
        """Return whether many numbers never fall, or never rise, as those of a meter."""
        plain = [one for cell in cells if _PLAIN.fullmatch(one := dialect.number(cell, self.decimal, self.pattern))]
        values = [*map(float, plain)]
        return len(values) > 50 and values in (rising := sorted(values), rising[::-1]) and rising[0] < rising[-1]

    def _tells_the_time(self, name: str) -> bool:
        """Return whether the numbers of a column follow from the times, as an hour or a year with decimals does."""
        if self.format is None:
            return False
        cells = self.columns[self.raw.names.index(name)][:200]
        stamps = self._seconds(
            [*map(file_times.joined, zip(*(self.columns[at][:200] for at in self.parts), strict=True))]
        )
        pairs = [
            (float(cell), interval.moment(when))
            for cell, when in zip(cells, stamps, strict=False)
            if _PLAIN.fullmatch(cell.strip())
        ]
        whole = len(pairs) == len(cells) > 2 and all(value.is_integer() for value, _ in pairs)
        rests = zip(
            *(
                (
                    (value - when.hour) % 24,
                    (value - when.weekday()) % 7,
                    (value - when.month) % 12,
                    value - when.day,
                    value - when.timetuple().tm_yday,
                    value - when.year,
                )
                for value, when in pairs
            ),
            strict=True,
        )
        years = [abs(value - when.year - when.timetuple().tm_yday / 366) < 0.1 for value, when in pairs]
        return len(pairs) > 2 and ((whole and any(len({*rest}) == 1 for rest in rests)) or all(years))

    def _sent(self, kept: list[int]) -> Iterator[Line]:
        """Yield the converted rows; raises ValueError for a time that the format does not read."""
        turned, number = self._in_order(), 0
        local = {at: self._local(form) for at, form in self.formats.items()}
        of_parts = self._local(self.format)
        while block := [*islice(turned, BLOCK)]:
            columns = [*zip(*block, strict=True)]
            joined = list[Sequence[str]]()
            names = [*map(" ".join, zip(*(columns[at] for at in self.series), strict=True))] if self.series else None
            if len(self.parts) > 1:
                whole = map(file_times.joined, zip(*(columns[at] for at in self.parts), strict=True))
                joined.append(self._times([*whole], self.format, number, of_parts, names))
            if names is not None and len(self.series) > 1:
                joined.append(names)
            sent = [
                self._times(columns[at], self.formats[at], number, local[at], names)
                if at in self.formats
                else self._blanked(columns[at], at)
                for at in kept
            ]
            yield from map(list, zip(*joined, *sent, strict=True))
            number += len(block)

    def _local(self, form: TimeFormat | None) -> Callable[[str, str], str] | None:
        """Return the function that adds the zone's UTC offset to times; None if times have one, or no zone is given."""
        if form is None or form.zoned or self.given.zone is None:
            return None
        return file_times.localized(self.given.zone, in_order=not self.of_examples, ends=self.ends)

    def _blanked(self, cells: Sequence[str], at: int) -> Sequence[str]:
        """Return a column's cells with marks of missing values made empty, and numbers written with a decimal point."""
        kind = self.kinds[at]
        if at in self.series or (at in self.parts and len(self.parts) == 1):
            return cells
        are_words = self.of_examples and kind != "number"
        if marks := {
            one
            for one in {*cells}
            if one.strip() in self.missing
            or (not are_words and dialect.is_missing(one))
            or (kind == "number" and (one.strip() in self.words or one.strip() in self.far.get(at, ())))
        }:
            cells = ["" if cell in marks else cell for cell in cells]
        if kind == "number" and (self.decimal != "." or self.thousands or self.has_signs):
            plain = {cell: dialect.number(cell, self.decimal, self.pattern) for cell in {*cells}}
            cells = [plain[cell] for cell in cells]
        return cells

    def _times(
        self,
        cells: Sequence[str],
        form: TimeFormat | None,
        before: int,
        local: Callable[[str, str], str] | None,
        series: Sequence[str] | None,
    ) -> Sequence[str]:
        """Return the converted times; raises ValueError for a time that the format does not read."""
        read = None if form is None else form.read
        cells = [*map(str.strip, cells)]
        if read is None and local is None:
            return cells
        found = list[str]()
        for at, cell in enumerate(cells):
            try:
                if self.of_examples and self._is_missing(cell):
                    found.append("")
                    continue
                when = read(cell) if read is not None else cell
                if local is not None:
                    when = local(when, series[at] if series else "")
            except ValueError as error:
                said = error.reason if isinstance(error, InvalidInput) else f"{cell[:32]!r} is no time as the others"
                row = self._row_of(before + at) + 1
                raise ValueError(f"row {row} below the header: {said}; say --time-format") from None
            found.append(when)
        return found

    def _order(self) -> str:
        """Find the order of rows; return "newest first", "none" if they have to be sorted, or an empty text."""
        if self.format is None or self.of_examples or len(self.seconds) < self.count:
            return ""
        names, seconds, _ = self._held
        whole, steps = seconds, np.diff(seconds)
        if not (steps < 0).any():
            return ""
        if self.series:
            by_name = np.argsort(names, kind="stable")
            steps = np.diff(seconds[by_name])[np.diff(names[by_name]) == 0]
            seconds = seconds[by_name][1:][np.diff(names[by_name]) == 0]
        else:
            seconds = seconds[1:]
        falls, rises = int(np.sum(steps < 0)), int(np.sum(steps > 0))
        is_newest_first = falls > 2 and falls > 50 * rises
        if not is_newest_first and all(map(self._goes_back, steps[steps < 0], seconds[steps < 0])):
            return ""
        usual = float(np.median(steps[steps > 0])) if rises else 0.0
        late = int(np.sum((seconds % DAY == 0.0) & (steps == usual - DAY)))
        if late > 2:
            self.said["midnights"] = (
                f"0:00 comes {late} times after the rest of its day, and is read as its begin; is it 24:00?"
            )
        order = np.argsort(whole[::-1] if is_newest_first else whole, kind="stable")
        self.places = len(whole) - 1 - order if is_newest_first else order
        return "newest first" if is_newest_first else "none"

    def _goes_back(self, step: float, when: float) -> bool:
        """Return whether clocks may have been put back before a time that is earlier than the one above it."""
        assert self.format is not None
        clock = interval.moment(when)
        return not self.format.zoned and -step <= BACK and clock.month in AUTUMN and clock.hour <= 3

    @cached_property
    def _held(self) -> tuple[NDArray[np.int64], Times, NDArray[np.bool_]]:
        """For every row: the number of its series, its time in seconds, and whether its likeliest target is there.

        A row without a time has the time of the row before it.
        """
        there = np.where(np.isfinite(self.seconds), np.arange(len(self.seconds)), 0)
        seconds = self.seconds[np.maximum.accumulate(there)]
        names, has = np.zeros(len(seconds), np.int64), np.ones(len(seconds), np.bool_)
        target = next((self.raw.names.index(name) for name in self.targets[:1]), 0)
        empty = sum(map(self._is_missing, self.columns[target])) if self.targets else 0
        is_uneven = empty and len(times_of := np.unique(seconds)) > 2 and _grid(times_of) is not None
        if self.series or is_uneven or empty > MANY_EMPTY * len(self.columns[target]):
            known = dict[Any, int]()
            name_of = itemgetter(*self.series or (0,))
            for at, row in enumerate(islice(self.raw.rows(), self.begin, self.begin + len(seconds))):
                names[at] = known.setdefault(name_of(row), len(known)) if self.series else 0
                has[at] = not self.targets or not self._is_missing(row[target])
            self.names = [*known]
        return names, seconds, has

    def _without_repeats(self) -> None:
        """Leave out rows that repeat others exactly, but for the numbers of rows.

        Rows of an hour in which times with different values come twice stay, and so do those of nights in which clocks
        may go back: they may do so between two equal values.
        """
        is_sum = (self.given.align or "").startswith(("sum", "mean"))  # of events, some of which are equal
        if self.format is None or self.of_examples or is_sum or len(self.seconds) < self.count:
            return
        _, which, counts = np.unique(self.seconds, return_inverse=True, return_counts=True)
        again = np.flatnonzero(counts[which] > 1) if not self.series or self.has_repeats else np.empty(0, int)
        if not 0 < len(again) <= SORTED:
            return
        wanted, seen, repeats = {*again.tolist()}, set[tuple[str, ...]](), list[int]()
        cells_of = itemgetter(*self.compared)
        for at, row in enumerate(islice(self.raw.rows(), self.begin, self.end)):
            if at in wanted:
                if (one := cells_of(row)) in seen:
                    repeats.append(at)
                seen.add(one)
        values, left = np.unique(np.delete(self.seconds, repeats), return_counts=True)
        hours = set() if self.series else {when // 3600.0 for when in values[left > 1].tolist()}
        moments = {when: interval.moment(when) for when in self.seconds[repeats].tolist()}
        nights = {when // 3600.0 for when, one in moments.items() if one.month in AUTUMN and one.hour < 4}
        if nights == {when // 3600.0 for when in moments} and not self.format.zoned:
            hours |= nights
        gone = np.array([at for at in repeats if counts[which[at]] > 2 or self.seconds[at] // 3600.0 not in hours], int)
        if not gone.size:
            return
        self._leave_out(gone)
        self.said["rows left out, as they repeat others exactly"] = len(gone)

    def _leave_out(self, gone: NDArray[np.int64]) -> None:
        """Leave out rows, by their numbers from the first row that is sent."""
        rows, left_out = self.raw.rows, {*(self.begin + gone).tolist()}
        self.left_out = np.sort([*self.left_out, *map(self._row_in_file, left_out)])
        self.raw = replace(self.raw, rows=lambda: (row for at, row in enumerate(rows()) if at not in left_out))
        self.seconds, self.end, self.count = np.delete(self.seconds, gone), self.end - len(gone), self.count - len(gone)

    def _without_times(self) -> None:
        """Leave out rows without a time, if they are few."""
        if self.format is None or self.of_examples or len(self.seconds) < self.count:
            return
        gone = np.flatnonzero(np.isneginf(self.seconds))
        if 0 < len(gone) <= IMPOSSIBLE * self.count:
            self._leave_out(gone)
            self.said["rows left out, as they have no time"] = len(gone)

    def _without_names(self) -> None:
        """Leave out rows that name no series and have a value, as totals have, or have nothing but a time.

        Other rows without a name have the values of columns that all series share.
        """
        if not self.series or len(self.seconds) < self.count:
            return
        rest = [at for at in range(self.raw.width) if at not in {*self.parts, *self.series}]
        target = [self.raw.names.index(name) for name in self.targets[:1]]
        gone = [
            at
            for at, row in enumerate(islice(self.raw.rows(), self.begin, self.end))
            if all(self._is_missing(row[one]) for one in self.series)
            and (
                any(not self._is_missing(row[one]) for one in target) or all(self._is_missing(row[one]) for one in rest)
            )
        ]
        if gone:
            self._leave_out(np.array(gone))
            self.said["rows left out, as they name no series"] = len(gone)

    def _without_holes(self) -> None:
        """Leave out rows on one side of gaps that are too long for a feed: the newest part of a series is kept.

        A part has at least ``ENOUGH`` readings, or is the longest one.
        """
        if self.format is None or self.of_examples or len(self.seconds) < self.count:
            return
        if not np.any(np.diff(np.sort(self.seconds[np.isfinite(self.seconds)])) > LEAP):
            return
        names, seconds, _ = self._held
        order = np.lexsort((seconds, names))
        steps = np.diff(seconds[order])
        usual = np.median(steps[steps > 0])
        cuts = np.flatnonzero((np.diff(names[order]) != 0) | (steps > max(LEAP, MOST_HELD * usual))) + 1
        parts, kept = np.split(order, cuts), dict[int, NDArray[np.int64]]()
        for part in parts:
            one = kept.get(name := int(names[part[0]]), part)
            kept[name] = part if len(part) >= min(ENOUGH, len(one)) else one
        gone = np.sort(np.concatenate([part for part in parts if kept[int(names[part[0]])] is not part] or [order[:0]]))
        if gone.size:
            begin, end = (interval.moment(seconds[order[at]]) for at in (cuts[-1] - 1, cuts[-1]))
            self.said["rows left out, as no feed takes gaps of more than a year"] = (
                f"{len(gone)}, such as those before the gap from {begin:%Y-%m-%d} to {end:%Y-%m-%d}"
            )
            self._leave_out(gone)
            self.__dict__.pop("_held")

    def _zone_of_autumn(self) -> None:
        """Take a zone in which clocks go back where an hour comes twice; find out if times are the ends of hours."""
        if self.format is None or self.format.zoned or self.of_examples:
            return
        names, seconds, _ = self._held
        values, counts = np.unique(seconds[names == 0], return_counts=True)
        twice = [interval.moment(when).replace(tzinfo=None) for when in values[counts == 2][:BLOCK].tolist()]
        hours = {
            (when.month, -1 if when.day > 24 else (when.day - 1) // 7, when.hour)
            for when in twice
            if when.weekday() == 6
        }
        zone = _AUTUMN.get(hours.pop()) if len(hours) == 1 else None
        is_once = len({when.date() for when in twice}) == len({when.year for when in twice})
        if self.given.zone is None and zone is not None and is_once:
            self._take_zone(zone, f"{twice[0]:%Y-%m-%d %H:%M} twice")
        if self.given.zone is not None and twice:
            place, hour = times.zone_of(self.given.zone), timedelta(hours=1)
            if all(file_times.is_twice((when - hour).replace(tzinfo=place)) for when in twice) and not any(
                file_times.is_twice(when.replace(tzinfo=place)) for when in twice
            ):
                self.ends = hour
                self.said["hours"] = "have the time at which they end, as the hour before comes twice"

    def _in_order(self) -> Iterator[Line]:
        """Yield the rows, oldest first if the file has no order; many rows are sorted in temporary files."""
        rows = islice(self.raw.rows(), self.begin, self.end)
        if self.places is None:
            return rows
        if self.count <= SORTED:
            held = [*rows]
            return (held[at] for at in self.places.tolist())
        if self.sorted is None:
            self.sorted = Path(tempfile.mkdtemp())
            weakref.finalize(self, shutil.rmtree, self.sorted, ignore_errors=True)
            ranks = np.empty_like(self.places)
            ranks[self.places] = np.arange(self.count)
            with ExitStack() as stack:
                paths = [Path(self.sorted, f"{at}.csv") for at in range(-(-self.count // SORTED))]
                files = [stack.enter_context(path.open("w", newline="", encoding="utf-8")) for path in paths]
                writers = [csv.writer(file) for file in files]
                for rank, row in zip(ranks.tolist(), rows, strict=True):
                    writers[rank // SORTED].writerow([rank, *row])
        return self._parts_in_order(self.sorted)

    def _parts_in_order(self, folder: Path) -> Iterator[Line]:
        for at in range(-(-self.count // SORTED)):
            with Path(folder, f"{at}.csv").open(newline="", encoding="utf-8") as file:
                yield from (row[1:] for row in sorted(csv.reader(file), key=lambda row: int(row[0])))

    def _row_of(self, sent: int) -> int:
        """Return the number in the file of the row that is sent as row number ``sent``."""
        return self._row_in_file(self.begin + (sent if self.places is None else int(self.places[sent])))

    def _row_in_file(self, row: int) -> int:
        """Return the number in the file of a row, from its number among the rows that are not left out."""
        return row + int(np.searchsorted(self.left_out - np.arange(len(self.left_out)), row, side="right"))

    def _seconds(self, cells: list[str], form: TimeFormat | None = None) -> list[float]:
        form = form or self.format
        assert form is not None
        read = form.read
        try:
            return [one.seconds for one in times.column([read(cell) if read else cell for cell in cells], "time")[0]]
        except ValueError:
            return []

    def _say(self, found: InspectedTable) -> None:
        """Record the findings about the file."""
        said = self.said
        said["rows"] = self.count
        if self.raw.is_text:
            said["decimal mark"] = {".": "point", ",": "comma"}[self.decimal]
            if self.says_point:
                other = "--decimal , takes points as marks of thousands"
                said["decimal mark"] += f"; {other if self.decimal == '.' else '--decimal . takes points as that'}"
            said["thousands mark"] = self.thousands and repr(self.thousands)
            if "," in self.thousands and self.raw.separator == "," and self.given.decimal is None:
                said["thousands mark"] += "; --decimal , takes commas as decimal marks"
        marks = Counter[str]()
        for at in self._of_kind("number"):
            marks += self.empty[at]
        said["missing"] = ", ".join(f"{mark!r} {count} times" for mark, count in marks.items()) or None
        texts = Counter(
            cell for at in self._of_kind("number") for cell in self.columns[at] if self._kind(cell) not in _NUMBERS
        )
        marked = {cell for cell in texts if dialect.unmarked(cell) != cell}
        said["marks at numbers"] = (
            ", ".join([*sorted(marked)][:5]) + ", of which the number is taken" if marked else None
        )
        texts = Counter({cell: count for cell, count in texts.items() if cell not in marked})
        marks_of = ", ".join(f"{mark!r} {count} times" for mark, count in texts.most_common(5))
        marks_of += f" in a sample of {len(self.columns[0])} rows" if self.count > KEPT else ""
        is_refused = any(one.strip() not in self.words for one in texts)
        taken = "; say --missing" if is_refused else ", which are taken as missing"
        said["texts among numbers"] = marks_of + taken if texts else None
        if not self.of_examples:
            said["columns without values"] = [
                self.raw.names[at] for at, one in enumerate(self.kinds) if one == "missing"
            ]
        far = {one for cells in self.far.values() for one in cells}
        if far:
            said["far from all other numbers"] = f"{', '.join(sorted(far))}, taken as missing; --missing takes others"
        said["mostly numbers, but taken as text; say --missing for the others"] = [
            self.raw.names[at]
            for at in self._of_kind("text")
            if 2 * sum(self._kind(dialect.unmarked(cell)) == "number" for cell in self.columns[at])
            > len(self.columns[at])
        ]
        odd = {one for marks in (_NINES, _TWO_NINES) for cells in self._far(marks).values() for one in cells} - far
        odd -= {*self.given.missing}
        is_small = any(map(_MINUS_IS_SMALL.search, self.said.get("lines before the header") or ()))
        for at in self._of_kind("number"):  # -999 more often than all others, and -1 in counts
            cells = Counter(map(str.strip, self.columns[at]))
            (often, count), (_, second) = [*cells.most_common(2), ("", 0), ("", 0)][:2]
            odd |= {often} if count > OFTEN * second and often.startswith("-9") and _NINES.fullmatch(often) else set()
            below = {one for one in cells if one.startswith("-") and self._kind(one) == "number"}
            odd |= below if len(cells) > 10 and below <= {"-1", "-1.0"} and not is_small else set()
        said["perhaps missing"] = f"{', '.join(sorted(odd))}; say --missing" if odd else None
        if self.of_examples:
            said["times"] = [f"{self.raw.names[at]}: {one.name}" for at, one in self.formats.items()]
        elif self.format is None:
            found.unread_times = self._unread_times()
            said["time"] = found.unread_times or "none found; say --time"
        else:
            name = "+".join(self.raw.names[at] for at in self.parts)
            zone = "with a zone" if self.format.zoned else self.given.zone or "without a zone; --zone gives it one"
            said["time"] = f"{name}: {self.format.name}, {zone}"
            self._say_times(found)
        said["series"] = None if self.of_examples else self._said_series(found)

    def _unread_times(self) -> str | None:
        """Return which column may have times in an unknown format, and what to say; None if there is no such column."""
        if self.dateless:
            option = "say --time-format with the first day, as in '2024-01-31 %H:%M:%S'"
            some = self.columns[self.raw.names.index(self.dateless)][0]
            return f"{self.dateless!r} has times without a day or a year, such as {some!r}; {option}"
        for at in sorted(range(len(self.columns)), key=lambda at: self.kinds[at] != "time"):
            some = [cell for cell in self.columns[at] if not self._is_missing(cell)]
            if some and self.kinds[at] != "number" and sum(any(map(str.isdigit, one)) for one in some) > len(some) / 2:
                name = self.raw.names[at]
                return f"{name!r} has no times in a known format, such as {some[0]!r}; say --time-format, or --skip"
        return None

    def _said_series(self, found: InspectedTable) -> str:
        if self.series:
            return f"{len(self.names)}, named by {'+'.join(self.raw.names[at] for at in self.series)}"
        if self.given.wide:
            return f"{len(found.numbers)}, a column each"
        return (
            "one" if len(found.numbers) < 2 else f"one, with {len(found.numbers)} columns; --wide makes each a series"
        )

    def _say_times(self, found: InspectedTable) -> None:
        """Record the order and the interval of times, the number of gaps, and how many times come twice."""
        names, seconds, has = self._held
        ends = np.flatnonzero(np.diff(names[by_name := np.argsort(names, kind="stable")])) + 1
        groups = [*zip(np.split(seconds[by_name], ends), np.split(has[by_name], ends), strict=True)]
        series = sorted(groups, key=lambda one: len(one[0]), reverse=True)[:MOST_SERIES]
        series = [one for one in series if len(one[0]) >= min(FEW, len(series[0][0]))]
        if self.order:
            self.said["order"] = f"{self.order}; it is sent oldest first"
        if len(seconds) < self.count:
            self.said["order"] = f"that of the file, as only the times of the first {MOST_TIMES:,} rows are looked at"
        rising = [np.unique(when) for when, _ in series]
        if not rising or len(rising[0]) < 2:
            return
        there = [np.unique(when[has]) for when, has in series]
        own = [
            (one, of_target if len(of_target) > 2 and np.median(np.diff(of_target)) < LEAP else one)
            for one, of_target in zip(rising, there, strict=True)
        ]
        own = [
            (one, one) if _grid(of_target) == "mean" and _grid(one) is None else (one, of_target)
            for one, of_target in own
        ]
        of_each = [align.grid_of(one, of_target) for one, of_target in own if len(one) > 2]
        self.every, off, gaps = align.interval_of(*own[0])
        grids = [one for one in of_each if one is not None]
        self.grid = max(grids, key=lambda one: (one[1].approximate_seconds(), one[0]), default=None)
        shown = f"{self.every if self.grid is None else self.grid[1]}"
        if not off and self.grid is None and len(rising[0]) > ENOUGH:
            steps = np.concatenate([self.every.steps(one) for one in rising])
            found.every = f"{self.every}" if np.all(abs(steps - np.round(steps)) <= 0.1) else None
        pace = align.steady(own[0][1])
        since = f" since {interval.moment(pace[0]):%Y-%m-%d}" if off and pace[0] != own[0][1][0] else ""
        if self.grid and self.grid[0] == "mean":
            if not off:
                shown = f"none, as readings come at any time; {shown}"
            usual = float(np.median(np.diff(pace)))
            shown += f"; readings come about every {interval.Every(seconds=round(usual) or usual)}{since}"
            gaps = int(np.sum(np.diff(rising[0]) > 1.5 * max(self.grid[1].approximate_seconds(), usual)))
        elif off:
            shown += f"{since}; {off} of {len(rising[0]) - 1} steps are no multiple of it"
        self.said["interval"] = shown
        self.said["gaps"] = gaps or None
        closed = align.closed(rising[0], self.every if self.grid is None else self.grid[1])
        if closed and self.given.align is None:
            skipped = "--on-missing skip joins the readings around them"
            self.said["hours or days without readings"] = f"{closed:.0%}, which hold the last value; {skipped}"
        empty = [
            " ".join(_texts(self.names[at])) for at in range(len(groups)) if self.series and not groups[at][1].any()
        ]
        if self.series and empty:
            self.said["series without values"] = f"{len(empty)}: {', '.join(empty[:5])}"
        order = np.lexsort((seconds, names))
        again = (np.diff(seconds[order]) == 0) & (np.diff(names[order]) == 0)
        if twice := [*map(interval.moment, seconds[order][1:][again][:BLOCK].tolist())]:
            is_local = self.format is not None and not self.format.zoned and self.given.zone is None
            is_local = is_local and self.every.approximate_seconds() < DAY
            may_go_back = is_local and all(when.month in AUTUMN and when.hour < 4 for when in twice)
            if self.grid is None and not may_go_back and self.given.zone in (None, "UTC"):
                self.grid = "nearest", self.every
            said = "; say --zone if the clock goes back there, as in autumn" if may_go_back else ""
            said = said or ("; the last value of each is taken" if self.grid and self.grid[0] == "nearest" else "")
            self.said["times that come twice"] = f"{again.sum()}{said}"


def _by_instant(rows: Callable[[], Iterator[Line]], at: int, zone: str) -> Iterator[Line]:
    """Yield rows with offsets in column ``at``; sort those in an hour that comes twice, because files may mix them."""
    place = times.zone_of(zone)
    for begin, hour in groupby(rows(), lambda row: row[at][:13]):
        last = datetime.fromisoformat(f"{begin}:59:59").replace(tzinfo=place)
        is_twice = last.utcoffset() != last.replace(fold=1).utcoffset()
        ordered = partial(sorted, key=lambda row: datetime.fromisoformat(row[at])) if is_twice else iter
        yield from ordered(hour)


def _are_hours(cells: set[str]) -> bool:
    """Return whether cells are times of the day such as 0930, or hours of the day counted from 0 or 1."""
    if all(map(_PACKED_CLOCK.fullmatch, cells)):
        return len(cells) > 23
    numbers = {int(cell) for cell in cells if cell.isdigit() and len(cell) < 3}
    return len(numbers) == len(cells) and numbers in ({*range(24)}, {*range(1, 25)})


def _are_names(cells: set[str]) -> bool:
    """Return whether cells are a few whole numbers, but not those of all parts of a day."""
    numbers = {int(float(cell)) for cell in cells if _WHOLE.fullmatch(cell)}
    is_day = len(numbers) in raw_tables.PARTS_OF_DAY and max(numbers) - min(numbers) == len(numbers) - 1
    return 1 < len(numbers) == len(cells) <= MOST_SERIES and not is_day


def _are_numbered(cells: Sequence[str]) -> bool:
    """Return whether cells are the numbers of the rows, or of most rows."""
    if not all(map(_WHOLE.fullmatch, cells)):
        return False
    steps = np.diff(np.array(cells, np.float64))
    return len(steps) > 0 and bool((steps > 0).all()) and float(np.mean(steps == 1)) > 0.5


def _texts(name: Any) -> tuple[str, ...]:
    return name if isinstance(name, tuple) else (name,)


def _grid(times: Times) -> str | None:
    """Return how times would be put on a grid; None if they keep to an interval."""
    found = align.grid_of(times, times) if len(times) > 2 else None
    return None if found is None else found[0]
