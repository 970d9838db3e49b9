"""Inspection of data files: find the meaning of a file's columns, and convert its rows for a feed or a fleet.

The first 64 kB of a text file decide how it is read. One pass over the whole file counts the rows, finds the end of the
table, and settles what the first rows leave ambiguous. Only a sample of the rows is kept in memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from livesvm.service.feeds import alignment, file_times, interval, times
from livesvm.service.feeds.file_times import TimeFormat
from livesvm.service.files import dialect, documents, raw_tables
from livesvm.service.files.dialect import FileOptions as FileOptions
from livesvm.service.files.dialect import Line
from livesvm.service.files.raw_tables import Raw
from livesvm.solvers.errors import InvalidInput

BLOCK = 10_000
"""Rows that are read at once."""
KEPT = 20_000
"""Rows at the beginning that are looked at one by one."""
EACH = 20
"""Rows of each later block that are."""
DAY = 86_400.0
SUMMARY = 5
"""Rows at the end that may be summaries and notes."""
_OF_SERIES = re.compile(r"(?i)(series|entity_id|(sensor|meter|station|device)([ _]?(id|name))?|symbol|metric|_field)")
"""Names of columns whose words are series, although no two rows have the same time."""
_SERIES = re.compile(
    r"(?i)(series|name|id|key|sensor|meter|station|entity_id|site|item|store|symbol|metric|_field|.*_id)"
)
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?( ?[AaPp][Mm]|\s?[-–]\s?\d{1,2}:\d\d.*)?")  # noqa: RUF001
_CLOCKS = ("hour", "hr", "he", "hour ending", "stunde", "uhrzeit", "time", "hhmm", "clock", "heure", "hora")
_PERIODS = re.compile(r"(?i)(settlement[ _]?)?period|sp|settlementperiod|intervall?|zeitintervall")
_TIMES = ("time", "timestamp", "datetime", "date", "_time", "ts", "ds")  #: names that are taken first
_FORECAST = re.compile(r"(?i).*(forecast|prognos|predict|planned|day-ahead total)")
_WHOLE = re.compile(r"-?\d{1,15}(\.0*)?")
_GROUPED = re.compile(r"[(+-]?[1-9]\d{0,2}\.\d{3}\)?")
_ODD = re.compile(r"-9{3,4}(\.0*)?")
_TARGET = re.compile(r"(?i)_?(value|y|target|state|load|demand)")
_NUMBERS = {"number", "missing"}
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

    @property
    def understood(self) -> dict[str, Any]:
        """The findings about the file, by name, without empty ones."""
        return {name: value for name, value in self.said.items() if value not in (None, "", [])}

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
        raw = raw_tables.opened(path, given)
        if given.series is None and series in raw.names:
            given = replace(given, series=series)
        return _Reader(raw, given, time).table()


def examples(path: Path, given: FileOptions = NOTHING) -> InspectedTable:
    """Interpret a file of examples, one in each row; the order of rows is kept; raises the errors of :func:`table`.

    All columns of times are converted to ISO 8601. Marks of missing values are recognized only in columns of numbers or
    times, as "unknown" may be an ordinary word elsewhere.
    """
    with _of_file(path):
        return _Reader(raw_tables.opened(path, given), given, None, of_examples=True).table()


@contextmanager
def _of_file(path: Path) -> Iterator[None]:
    """Turn InvalidInput into a ValueError with the file's path, the row and the option in its message."""
    try:
        yield
    except InvalidInput as error:
        where = "" if error.row is None else f"row {error.row + 1}: "
        what = "" if error.field in ("body", "rows") else f"{error.field}: "
        raise ValueError(f"{path}: {where}{what}{error.reason}") from error


class _Reader:
    """The reader of one file: finds the meaning of the columns, and converts their cells."""

    def __init__(self, raw: Raw, given: FileOptions, time: str | None, *, of_examples: bool = False) -> None:
        if given.zone is not None:
            times.zone_of(given.zone)
        self.raw, self.given, self.said, self.of_examples = raw, given, dict[str, Any](raw.said), of_examples
        self.missing = {*given.missing}
        self.every: interval.Every | None = None
        self.kept = [*islice(raw.rows(), KEPT)]
        good = [row for row in self.kept if len(row) == raw.width]
        self.columns = [*zip(*good, strict=True)] if good else [()] * raw.width
        self.parts, formats = self._examples_time() if of_examples else self._time(time)
        self._look(formats)
        good = [row for row in self.kept[self.begin : self.end] if len(row) == raw.width] + self.later
        self.columns = [*zip(*good, strict=True)] if good else [()] * raw.width
        self.format = self._decided(self.parts, formats)
        self.formats = self._formats_of_examples() if of_examples else {}
        if len(self.parts) == 1 and self.format is not None:
            self.formats[self.parts[0]] = self.format
        self.kinds = [self._kind_of(column) for column in self.columns]
        for at in {*self.parts, *self.formats}:
            self.kinds[at] = "time"
        self.series = self._series()
        counts = [Counter(map(str.strip, self.columns[at])) for at in self._of_kind("number")]
        often = {one for cells in counts for one, count in cells.items() if count > 1 and one}
        self.words = set() if of_examples else {one for one in often if not any(map(str.isdigit, one))}
        numbers = [{cell for cell in cells if self._kind(cell) == "number"} for cells in counts]
        self.decimal, self.thousands = ".", ""
        self.has_signs = any(not {*cell}.isdisjoint(dialect.SIGNS) for cells in numbers for cell in cells)
        if raw.is_text:
            self.decimal, self.thousands = dialect.decimal_of(numbers, raw.separator, given.decimal)
        self.pattern = dialect.pattern_of(self.decimal)
        points = [cell for cells in numbers for cell in cells if "." in cell]
        may_be_thousands = self.decimal == "." and raw.separator != "," and all(map(_GROUPED.fullmatch, points))
        self.says_point = raw.is_text and given.decimal is None and bool(points) and may_be_thousands

    def _kind_of(self, column: Sequence[str]) -> str:
        """Return the most frequent kind of a column's cells; in examples, numbers mixed with text count as text."""
        kinds = {cell: self._kind(cell) for cell in column}
        kind = dialect.commonest(kinds.values())
        return "text" if self.of_examples and kind == "number" and not {*kinds.values()} <= _NUMBERS else kind

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
        if len(parts) == 2 and (one := file_times.numbered(self.raw.names[parts[1]])) and one.reads(self._cells(parts)):
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
        return found or (file_times.find(few[:-SUMMARY], name, alone=alone) if len(cells) < 70 else [])

    def _periods(self, parts: tuple[int, ...]) -> list[TimeFormat]:
        """Return the formats of days with 48 or 96 numbered periods, as in electricity settlement data; else none."""
        numbers = {*self.columns[parts[1]]}
        if not _PERIODS.fullmatch(self.raw.names[parts[1]]) or not all(one.isdigit() for one in numbers):
            return []
        count = next(
            (count for count, least, most in ((48, 46, 50), (96, 92, 100)) if least <= len(numbers) <= most), None
        )
        if count is None or min(map(int, numbers)) != 1:
            return []
        return [file_times.with_periods(one, count) for one in self._formats(parts[:1], True)]

    def _time(self, usual: str | None) -> tuple[tuple[int, ...], list[TimeFormat]]:
        """Return the columns that make up the time, with the formats that read them; prefer the column ``usual``."""
        names = [name.lower() for name in self.raw.names]
        if self.given.time is not None:
            parts = self._at(self.given.time, "--time")
            return parts, self._formats(parts, True)
        parts = file_times.parts_in(self.raw.names)
        if usual not in self.raw.names and parts and (formats := self._formats(parts, True)):
            return parts, formats
        if usual in self.raw.names and (formats := self._formats((self.raw.names.index(usual),), True)):
            return (self.raw.names.index(usual),), formats
        found = {at: formats for at in range(len(names)) if (formats := self._formats((at,)))}
        is_bare = (
            not found and self.raw.said.get("header") == "none" and len({*self.columns[0]}) == len(self.columns[0])
        )
        if is_bare and (formats := self._formats((0,), True)):
            return (0,), formats
        spoken = [at for at in found if dialect.kind_of(self.columns[at][0]) != "number" or names[at] in _TIMES]
        found = {at: found[at] for at in spoken or found}  # numbers are times where nothing else is
        clocks = [at for at, cells in enumerate(self.columns) if cells and _CLOCK.fullmatch(cells[0].strip())]
        clocks = clocks or [at for at, name in enumerate(names) if name in _CLOCKS or _PERIODS.fullmatch(name)]
        again = [at for at in found if len({*self.columns[at]}) < len(self.columns[at])]  # several times a day
        for at in [at for at in again if ":" not in self.columns[at][0]]:
            for clock in clocks:
                if clock != at and (both := self._formats((at, clock))):
                    return (at, clock), both
        if not found:
            if self.given.time_format is not None:
                return (0,), [file_times.by_format(self.given.time_format)]
            return (), []
        best = min(found, key=lambda at: (_TIMES.index(names[at]) if names[at] in _TIMES else 9, at))
        if len(found) > 1:
            others = ", ".join(self.raw.names[at] for at in found if at != best)
            self.said["other columns of times"] = f"{others}; --time takes another"
        return (best,), found[best]

    def _look(self, formats: list[TimeFormat]) -> None:
        """Read all rows once: count the rows before a summary at the end, and keep a sample of each block."""
        self.later, stream, count, tail = list[Line](), self.raw.rows(), 0, list[Line]()
        has_time = (
            not self.parts or len(row) != self.raw.width or not all(self._is_missing(row[at]) for at in self.parts)
            for row in self.kept
        )
        self.begin = 0 if self.of_examples else next((at for at, has in enumerate(has_time) if has), 0)
        while block := [*islice(stream, BLOCK)]:
            self._check_widths(tail, count - len(tail))
            tail = block[-SUMMARY:]
            self._check_widths(block[:-SUMMARY], count)
            if count >= KEPT:
                self.later += block[: min(EACH, len(block) - len(tail))]
            count += len(block)
        ends = next((at for at, row in enumerate(tail) if not self._is_reading(row, formats)), len(tail))
        left_out, self.end = tail[ends:], count - len(tail) + ends
        self.begin = min(self.begin, self.end)
        self.count = self.end - self.begin
        self.said["rows at the beginning left out, as they have no time"] = self.begin or None
        if left_out:
            self.said["lines at the end left out"] = [self.raw.separator.join(row) for row in left_out]
        if count > KEPT:
            self.later += tail[:ends]

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
        cell = file_times.joined([row[at] for at in self.parts])
        if formats[0].read is None:
            return any(map(str.isdigit, cell)) and dialect.kind_of(cell) in ("time", "number")
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
        if len(formats) > 1 and not self.of_examples and (even := self._even(parts, formats)) is not None:
            self.said["chosen by even steps"] = f"{even.name}; --time-format takes another"
            return even
        if len(formats) != 1:
            fit = " and ".join(repr(one.name) for one in formats[:3]) or "no format"
            raise InvalidInput(f"{fit} fit all times, such as {self._cells(parts)[0]!r}; say --time-format", field=name)
        return formats[0]

    def _even(self, parts: tuple[int, ...], formats: list[TimeFormat]) -> TimeFormat | None:
        """Return the format by which times ascend in steps below two days, if by all others times jump or descend."""
        steps = []
        for one in formats:
            seconds = self._seconds([*dict.fromkeys(self._cells(parts)[:2000])], one)
            steps.append([other - first for first, other in pairwise(seconds)])
        good = [
            at
            for at, found in enumerate(steps)
            if found and 0 < min(found) <= max(found) < 2 * DAY and min(found) < DAY
        ]
        others = [found for at, found in enumerate(steps) if at not in good]
        is_clear = len(good) == 1 and all(found and (max(found) > 20 * DAY or min(found) < 0) for found in others)
        return formats[good[0]] if is_clear else None

    def _series(self) -> tuple[int, ...]:
        """Return the columns that name the series; empty if the file has a single series."""
        if self.given.series is not None:
            return self._at(self.given.series, "--series")
        if self.given.wide or self.of_examples or not self.parts:
            return ()
        stamps = [" ".join(cells) for cells in zip(*(self.columns[at] for at in self.parts), strict=True)]
        if len({*stamps}) >= 0.98 * len(stamps):
            names = [(at, {*self.columns[at]}) for at, name in enumerate(self.raw.names) if _OF_SERIES.fullmatch(name)]
            many = [at for at, each in names if self.kinds[at] == "text" and 1 < len(each) <= len(stamps) / 20]
            return tuple(many[:1])
        named = [at for at, name in enumerate(self.raw.names) if _SERIES.fullmatch(name)]
        texts = [at for at, kind in enumerate(self.kinds) if kind == "text" and len({*self.columns[at]}) > 1]
        for tried in (*((at,) for at in [*named, *texts] if at not in self.parts), tuple(texts)):
            names = [*zip(*(self.columns[at] for at in tried), strict=True)] if tried else []
            pairs = {*zip(stamps, names, strict=True)} if names else set()
            if len(pairs) >= 0.98 * len(stamps) and 1 < len({*names}) <= len(stamps) / 2:
                return tried
        if len({*stamps}) < 0.5 * len(stamps):
            reason = f"several rows have the time {stamps[0]!r}; say --series, or --time A+B for a time in two columns"
            raise InvalidInput(reason, field="rows")
        return ()

    def table(self) -> InspectedTable:
        """Return the interpretation of the file."""
        raw, given = self.raw, self.given
        numbers = [raw.names[at] for at in self._of_kind("number")]
        vary = [raw.names[at] for at in self._of_kind("number") if len({*self.columns[at]}) > 1]
        targets = sorted(vary, key=self._unlikely)
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
        found.times = [name for name in names if name == time or name in {raw.names[at] for at in self.formats}]
        self._say(found)
        if given.wide:
            if time is None:
                raise InvalidInput("needs a column of times; say --time", field="--wide")
            source, at = found.rows, [names.index(name) for name in numbers]
            stamp = names.index(time)
            found.rows = lambda: ([row[stamp], names[one], row[one]] for row in source() for one in at)
            found.names, found.time, found.series, found.is_wide = [*documents.LONG], "time", "series", True
            found.numbers, found.targets, found.likeliest = ["value"], ["value"], "value"
        if given.align is not None:
            self._align(found, given.align)
        return found

    def _align(self, found: InspectedTable, wanted: str) -> None:
        """Replace the rows of a table by rows on a regular grid; raises InvalidInput."""
        method, every = alignment.parsed(wanted)
        every = every or self.every
        if found.time is None or every is None or every.months:
            raise InvalidInput(f"needs times and an interval of at most weeks, as in {method}:1h", field="--align")
        names, counts = found.names, Counter[str]()
        places = names.index(found.time), None if found.series is None else names.index(found.series)
        columns = (*places, {names.index(name) for name in found.numbers if name in names})
        work = partial(alignment.aligned, found.rows, method, every, columns)
        found.count = sum(1 for _ in work(counts))
        found.rows = lambda: work(Counter[str]())
        told = [f"{count} {what}" for what, count in counts.items() if count]
        self.said["aligned"] = f"{method}, every {every}: {', '.join(told) or 'none moved'}"

    def _unlikely(self, name: str) -> tuple[bool, ...]:
        """Return a sort key that is lowest for the most likely target, from the column's name and values."""
        column = [cell for cell in self.columns[self.raw.names.index(name)] if not self._is_missing(cell)][:200]
        steps = (
            {float(other) - float(one) for one, other in pairwise(column)}
            if all(map(_WHOLE.fullmatch, column))
            else set()
        )
        is_code = len({*column}) < 4 < len(column) or (steps == {1.0} and len(column) > 2)
        return _TARGET.fullmatch(name) is None, bool(_SERIES.fullmatch(name)) or is_code, bool(_FORECAST.match(name))

    def _sent(self, kept: list[int]) -> Iterator[Line]:
        """Yield the converted rows; raises ValueError for a time that the format does not read."""
        rows, number = islice(self.raw.rows(), self.begin, self.end), self.begin
        turned = iter([*rows][::-1]) if self.is_newest_first else self._sorted(rows) if self.is_unsorted else rows
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
        return file_times.localized(self.given.zone, in_order=not self.of_examples)

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
            or (kind == "number" and one.strip() in self.words)
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
                raise ValueError(f"row {before + at + 1} below the header: {said}; say --time-format") from None
            found.append(when)
        return found

    @property
    def is_newest_first(self) -> bool:
        """Whether the file has a single series, and the times of its first rows descend."""
        if self.format is None or self.series or self.of_examples:
            return False
        first = self._seconds(self._cells(self.parts)[:200])
        return len(first) > 2 and all(one > other for one, other in pairwise(first))

    @property
    def is_unsorted(self) -> bool:
        """Whether the file has a single series, of which all rows are at hand, and its times go up and down."""
        if self.format is None or self.series or self.of_examples or self.count >= KEPT or self.is_newest_first:
            return False
        found = self._seconds(self._cells(self.parts))
        falls = sum(one > other for one, other in pairwise(found))
        return falls > max(2, len(found) / 10)

    def _sorted(self, rows: Iterator[Line]) -> Iterator[Line]:
        held = [*rows]
        found = self._seconds([file_times.joined([row[at] for at in self.parts]) for row in held])
        if len(found) < len(held):
            return iter(held)
        return iter([held[at] for at in sorted(range(len(held)), key=found.__getitem__)])

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
                said["decimal mark"] += "; --decimal , takes points as marks of thousands"
            said["thousands mark"] = self.thousands and repr(self.thousands)
            if "," in self.thousands and self.raw.separator == "," and self.given.decimal is None:
                said["thousands mark"] += "; --decimal , takes commas as decimal marks"
        marks = Counter(
            cell for at in self._of_kind("number") for cell in self.columns[at] if self._kind(cell) == "missing"
        )
        said["missing"] = ", ".join(f"{mark!r} {count} times" for mark, count in marks.items()) or None
        texts = Counter(
            cell for at in self._of_kind("number") for cell in self.columns[at] if self._kind(cell) not in _NUMBERS
        )
        marks_of = ", ".join(f"{mark!r} {count} times" for mark, count in texts.most_common(5))
        is_refused = any(one.strip() not in self.words for one in texts)
        taken = "; say --missing" if is_refused else ", which are taken as missing"
        said["texts among numbers"] = marks_of + taken if texts else None
        odd = {one for at in self._of_kind("number") for one in self.columns[at] if _ODD.fullmatch(one)}
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
            self._say_times()
        said["series"] = None if self.of_examples else self._said_series(found)

    def _unread_times(self) -> str | None:
        """Return which column may have times in an unknown format, and what to say; None if there is no such column."""
        for at, cells in enumerate(self.columns):
            some = [cell for cell in cells if not self._is_missing(cell)]
            if some and self.kinds[at] != "number" and sum(any(map(str.isdigit, one)) for one in some) > len(some) / 2:
                name = self.raw.names[at]
                return f"{name!r} has no times in a known format, such as {some[0]!r}; say --time-format, or --skip"
        return None

    def _said_series(self, found: InspectedTable) -> str:
        if self.series:
            names = {" ".join(cells) for cells in zip(*(self.columns[at] for at in self.series), strict=True)}
            return f"{len(names)} or more, named by {'+'.join(self.raw.names[at] for at in self.series)}"
        if self.given.wide:
            return f"{len(found.numbers)}, a column each"
        return (
            "one" if len(found.numbers) < 2 else f"one, with {len(found.numbers)} columns; --wide makes each a series"
        )

    def _say_times(self) -> None:
        """Record the order and the interval of times, the number of gaps, and how many times come twice."""
        held = [*zip(*(self.columns[at] for at in (*self.parts, *self.series)), strict=True)]
        of_first = [
            file_times.joined(cells[: len(self.parts)])
            for cells in held
            if cells[len(self.parts) :] == held[0][len(self.parts) :]
        ]
        seconds = self._seconds([cell for cell in of_first[:KEPT] if not dialect.is_missing(cell)])
        if self.is_newest_first:
            seconds.reverse()
            self.said["order"] = "newest first; it is sent oldest first"
        if self.is_unsorted:
            self.said["order"] = "none; it is sent oldest first"
        rising = sorted({*seconds})
        if len(rising) < 2:
            return
        self.every = every = interval.found_in(rising[:1000])
        steps = [every.between(one, other) for one, other in pairwise(rising)]
        if self.count > KEPT:
            steps = steps[: KEPT // 2]
        off = sum(abs(step - round(step)) > 0.1 or step < 0.5 for step in steps)
        self.said["interval"] = (
            f"{every}" if off < 0.02 * len(steps) else f"{every} mostly; {off} of {len(steps)} are not"
        )
        self.said["gaps"] = sum(step > 1.5 for step in steps) or None
        if twice := len(seconds) - len(rising):
            is_local = self.format is not None and not self.format.zoned and self.given.zone is None
            said = "; say --zone if the clock goes back there, as in autumn" if is_local else ""
            self.said["times that come twice"] = f"{twice}{said}"
