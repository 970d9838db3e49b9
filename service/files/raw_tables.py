"""Tables of text cells from files in many formats: text tables, workbooks, Parquet, Arrow, JSON, Green Button."""

from __future__ import annotations

import csv
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any

from livesvm.service.errors import ServiceError
from livesvm.service.files import dialect, documents, parquet
from livesvm.service.files.dialect import FileOptions, Line
from livesvm.solvers.errors import InvalidInput

MEMORY_MB = 512
"""Largest memory, in MB, for unpacking a Parquet file."""
_HOUR = re.compile(r"\d{1,2}:\d\d(:\d\d)?(\s?-\s?\d{1,2}:\d\d(:\d\d)?)?|[Hh][Ee]?[ _]?\d{1,2}")
_NO_HOUR = re.compile(r"[Hh][Ee]?[ _]?(2[6-9]|[3-9]\d)")
_MONTH = re.compile(
    r"(?i)(jan|jän|ene|gen|feb|f[eé]v|mar|mär|mrz|maa|mrt|apr|avr|abr|ma[iyjg]|jun|juin|giu|jul|jui|lug|aug|ao[uû]|ago|se[pt]|"
    r"o[ck]t|out|ott|nov|d[eé][cz]|dic)[^\W\d]*\.?"
)
_PERIOD = re.compile(
    r"(1[89]|20)\d\d([-/]?[MQ]?\d{1,2}([-/]\d{1,2}([T ]\d\d:\d\d.*)?)?)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY_OF_MONTH = re.compile(r"(?i)(d(ay|[ií]a)?[ _]?)?(0?[1-9]|[12]\d|3[01])")
_BEFORE_NUMBER = re.compile(r"(?i)^(h(e|(?=[\d _]))|d(ay|[ií]a)?(?=[ _]?\d))[ _]*| \[.*")
_VALID, _INVALID = "V", "N"
"""Marks of values in Spanish and Portuguese tables, next to each value."""
_SPREAD = (("day", _DAY_OF_MONTH, 31), ("hour", _HOUR, 20), ("month", _MONTH, 12), ("period", _PERIOD, 8))
"""Parts of a time that may each have a column, the names of these columns, and the fewest of them."""
_PART_OF_DAY = re.compile(r"(?i)((?:h|hh|hr|he|hour|interval|int|period|p|sp|t|time|v|val|value|kwh|q)?[ _]?)0*(\d+)")
"""Names of columns with a value for each equal part of a day."""
_TITLED = re.compile(r"(?<!\d)(\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{4}-\d\d-\d\d)(?!\d)")
"""A day in a title above the rows of the day."""
_DIGIT = re.compile(r"\d")
_DAY = re.compile(r"(?i)\d{8}|\d{1,4}([-/. ])(\d{1,2}|[a-z]{3,10})\1\d{1,4}([ T]0?0:00(:00)?)?")
PARTS_OF_DAY = (24, 48, 96, 288)
BLOCK = 10_000
"""Number of rows of a Parquet file that are read at a time."""
FEWEST_ROWS, MOST_NOTES = 10, 10_000
"""Least number of lines of a table that is one of several in a file, and most lines between such tables."""


@dataclass
class Raw:
    """A table of text cells, with ``width`` cells in each row.

    Parameters
    ----------
    rows : returns a new iterator over all rows at each call
    name : of the file
    said : facts on how the file was understood
    is_spread : whether a row of the file became several
    is_text : whether numbers are formatted text, with a decimal mark and marks of thousands still to be found
    """

    names: Line
    rows: Callable[[], Iterator[Line]]
    said: dict[str, Any]
    width: int
    separator: str = ","
    is_text: bool = True
    is_spread: bool = False
    name: str = ""


def opened(path: Path, given: FileOptions) -> Raw:
    """Return the table in a file; the first bytes of the file show its format.

    Raises Malformed, InvalidInput, ValueError or OSError.
    """
    with path.open("rb") as packed:
        magic = packed.read(8)
    if magic.startswith(b"\xd0\xcf\x11\xe0") or (magic.startswith(b"PK\x03\x04") and documents.is_workbook(path)):
        held, said = documents.workbook(path, given.member)
        return _text(Path(held.name), replace(given, separator=",", encoding="utf-8", member=None), said, held)
    if magic.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        with documents.arrow(path) as reader:
            names = reader.schema.names
        return Raw(names, partial(documents.arrow_rows, path), {"format": "Arrow"}, len(names), is_text=False)
    member = dialect.member_of(path, given.member)
    about = {} if member is None else {"file of the zip": f"{member}; --member takes another"}
    with dialect.unpacked(path, given.member) as file:
        first = file.read(4096).lstrip(b"\xef\xbb\xbf \r\n\t")
    if first.startswith(b"PAR1") or path.suffix.lower() in (".parquet", ".pq"):
        return _parquet(path)
    if first.startswith(b"{") and (names := documents.lines_names(path, given.member)) is not None:
        rows = partial(documents.lines_rows, path, names, given.member)
        return Raw(names, rows, {"format": "JSON lines"} | about, len(names), is_text=False)
    for begins, reader in documents.STANDARDS:
        if begins.match(first):
            with dialect.unpacked(path, given.member) as file:
                one = reader(file)
            return _of_document(one, about)
    if first.startswith((b"<?xml", b"<feed")):
        with dialect.unpacked(path, given.member) as file:
            is_green = b"espi" in file.read(dialect.HEAD)
        with dialect.unpacked(path, given.member) as file:
            return _of_document((documents.green_button if is_green else documents.xml)(file), about)
    if first.startswith((b"{", b"[{", b"[[", b"[\n", b"[\r", b"[ ")):
        with dialect.unpacked(path, given.member) as file:
            return _of_document(documents.as_json(file), about)
    return _text(path, given, about)


def tables_in(path: Path, given: FileOptions) -> Iterator[Raw]:
    """Yield the tables of a text file that has several, one below the other, each with a header; the largest first.

    If the same lines stand above each table, the first result is one table of all rows.
    """
    with dialect.unpacked(path, given.member) as file:
        encoding = given.encoding or dialect.encoding_throughout(file, file.read(dialect.HEAD))[0]
    lines = partial(dialect.lines, path, encoding, given.member)
    counts = Counter(one for line in lines() for one in ",;\t|" if one in line)
    separator = given.separator or max(counts, key=counts.__getitem__, default=",")
    usual = Counter(len(_cells(line, separator)) for line in lines()).most_common(1)[0][0]
    found = list[tuple[int, int, int]]()  # of each table, the line after the one before, its end, and its rows
    after = width = count = number = dated = 0
    above, is_broken, is_repeated = Counter[str](), False, False
    for number, line in enumerate(lines()):
        cells = _cells(line, separator)
        is_header = dialect.is_header(cells)
        if len(cells) != width or is_header:
            if count >= FEWEST_ROWS:
                found.append((after, number, count))
                after = number
            is_broken |= bool(found) and any(dialect.kind_of(cell) == "time" for cell in cells)
            width, count = len(cells), 0
        if (len(cells) != usual or is_header or sum(map(bool, cells)) < 2) and len(above) < MOST_NOTES:
            above[_DIGIT.sub("0", line)] += 1
            is_repeated |= is_header and above[_DIGIT.sub("0", line)] > 1
        count, dated = count + (width > 1), dated + bool(_TITLED.search(line))
    found.append((after, number + 1, count))
    if is_repeated:
        again = {line for line, times in above.items() if times > 1}
        kept = _of_days(lines(), again, separator, are_titled=dated * FEWEST_ROWS < number)
        yield from _held(kept, given, f"below each other, with the same {len(again)} lines above each, are read as one")
    for first, end, count in [] if is_broken else sorted(found, key=itemgetter(2), reverse=True):
        if count >= FEWEST_ROWS:
            said = f"lines {first + 1} to {end} are read, the largest one with times"
            yield from _held(islice(lines(), first, end), given, said)


def _of_days(lines: Iterator[str], again: set[str], separator: str, *, are_titled: bool) -> Iterator[str]:
    """Yield lines without repetitions of those in ``again``; the day in a title is put before each line below it."""
    seen, day = set[str](), ""
    for line in lines:
        shape = _DIGIT.sub("0", line)
        is_again, is_header = shape in again, dialect.is_header(_cells(line, separator))
        if are_titled and is_again and not is_header and (found := _TITLED.search(line)):
            day = found[0]
        elif not is_again or shape not in seen:
            yield (
                line
                if not day or not line.strip(f"{separator} \r\n")
                else f"{'date' if is_header else day}{separator}{line}"
            )
        seen.add(shape)


def _cells(line: str, separator: str) -> Line:
    return next(csv.reader([line], delimiter=separator), []) if line.strip() else []


def _held(lines: Iterator[str], given: FileOptions, said: str) -> Iterator[Raw]:
    """Yield the table in lines of a file; a temporary file holds the lines as long as the table is used."""
    held = tempfile.NamedTemporaryFile("w", suffix=".csv", newline="", encoding="utf-8")  # noqa: SIM115, it is kept
    held.writelines(lines)
    held.flush()
    with suppress(InvalidInput):
        yield _text(Path(held.name), replace(given, encoding="utf-8", member=None), {"several tables": said}, held)
    held.close()  # as its table was not taken


def _of_document(one: documents.Document, about: dict[str, Any]) -> Raw:
    return Raw(one.names, lambda: iter(one.rows), one.said | about, len(one.names), is_text=False)


def _text(path: Path, given: FileOptions, said: dict[str, Any], held: Any = None) -> Raw:
    """Return a text table; its rows keep a reference to ``held``, so that a temporary file is not deleted."""
    one = dialect.understood(path, given)
    about: dict[str, Any] = {
        "lines before the header": one.lead or None,
        "header": "none" if one.header is None else None,
        "lines under the header": one.units,
        "columns renamed": ", ".join(one.renamed) or None,
        "names without a column": one.surplus,
        "words after the last column left out": one.remarks,
    }
    if held is None:
        is_guess = given.encoding is None and not one.encoding.startswith("utf")
        encoding = f"{one.encoding}{', by its letters; --encoding takes another' if is_guess else ''}"
        about = {"encoding": encoding, "separator": dialect.NAMES.get(one.separator, one.separator)} | about

    def rows(_: Any = held) -> Iterator[Line]:
        """Yield the rows."""
        return dialect.rows(path, one)

    raw = Raw(one.names, rows, said | about, len(one.used), one.separator)
    return raw if given.wide else _by_the_hour(raw)


def _by_the_hour(raw: Raw) -> Raw:
    """Turn a table with a column for each hour, month or period into one with a row for each; keep other tables."""
    for part, pattern, fewest in _SPREAD:
        spread = [at for at, name in enumerate(raw.names) if pattern.fullmatch(name.partition(" [")[0])]
        if part == "hour" and any(map(_NO_HOUR.fullmatch, raw.names)):
            continue
        if part == "day" and (len(spread) != 31 or "month" not in map(_month_or_not, raw.names[: spread[0]])):
            continue
        if len(spread) < fewest or len(spread) == raw.width:
            continue
        if [*range(spread[0], spread[-1] + 1)] == spread:
            return _a_row_each(raw, part, spread)
        numbers = [re.sub(r"\D", "", raw.names[at]) for at in spread]
        has_marks = [*range(spread[0], spread[-1] + 1, 2)] == spread and spread[-1] + 1 < raw.width
        if has_marks and numbers == [re.sub(r"\D", "", raw.names[at + 1]) for at in spread]:
            return _a_row_each(_without_marks(raw, spread), part, spread)
    parts = _parts_of_day(raw)
    return raw if parts is None else _by_parts(raw, parts)


def _month_or_not(name: str) -> str:
    return "month" if name.lower() in ("month", "mes", "mês", "monat", "mois", "mese", "mm", "mo") else ""


def _without_marks(raw: Raw, spread: list[int]) -> Raw:
    """Return a table without the marks next to its values; values that are marked as invalid are missing."""
    marks = {row[at + 1].strip() for row in islice(raw.rows(), 1000) if len(row) == raw.width for at in spread}
    rest, are_known = [at for at in range(raw.width) if at - 1 not in spread], marks <= {_VALID, _INVALID, ""}

    def rows() -> Iterator[Line]:
        """Yield the rows."""
        for row in raw.rows():
            if are_known and len(row) == raw.width:
                for at in spread:
                    row[at] = "" if row[at + 1].strip() == _INVALID else row[at]
            yield [row[at] for at in rest] if len(row) == raw.width else row

    said = f"{len(spread)} columns" + (f"; values with {_INVALID} are missing" if are_known else "")
    names, about = [raw.names[at] for at in rest], raw.said | {"marks of values left out": said}
    found = replace(raw, names=names, rows=rows, width=len(rest), said=about)
    spread[:] = [rest.index(at) for at in spread]
    return found


def _by_parts(raw: Raw, spread: list[int]) -> Raw:
    """Return a row for each part of a day or year."""
    raw.names = [*raw.names]
    if len(spread) == 12:
        raw.names[: 1 + len(spread)] = ["year", *_MONTHS]
        return _a_row_each(raw, "month", spread)
    minutes = 1440 // len(spread)
    for number, at in enumerate(spread):
        raw.names[at] = f"{number * minutes // 60:02d}:{number * minutes % 60:02d}"
    found = _a_row_each(raw, "hour", spread)
    said = f"{len(spread)} for {minutes} minutes each, a row each with their begin; --wide makes each a series"
    found.said["columns that are hours"] = said
    return found


def _parts_of_day(raw: Raw) -> list[int] | None:
    """Return the columns, named by numbers, with a value for each equal part of a day; None if there are none.

    In a table without names, they may also be the twelve months after a year.
    """
    rows = [row for row in islice(raw.rows(), 40) if len(row) == raw.width]
    columns = [*zip(*rows, strict=True)]
    kinds = [dialect.commonest(map(dialect.kind_of, cells)) for cells in columns]
    if raw.said.get("header") == "none" and raw.width == 13 and len(columns) and _are_years(columns[0]):
        return [*range(1, 13)] if kinds[1:] == ["number"] * 12 else None
    day = next((at for at, cells in enumerate(columns) if all(_DAY.fullmatch(cell.strip()) for cell in cells)), None)
    if day is None or (raw.said.get("header") != "none" and not any(map(_PART_OF_DAY.fullmatch, raw.names))):
        return None
    if raw.said.get("header") == "none":
        spread = [*takewhile(lambda at: kinds[at] == "number", range(day + 1, raw.width))]
        return spread if len(spread) in PARTS_OF_DAY else None
    found = [(at, one) for at, name in enumerate(raw.names) if (one := _PART_OF_DAY.fullmatch(name.partition(" [")[0]))]
    begin = int(found[0][1][2])
    is_run = all(one[1] == found[0][1][1] and int(one[2]) == begin + number for number, (_, one) in enumerate(found))
    is_run = is_run and begin in (0, 1) and found[-1][0] - found[0][0] == len(found) - 1
    return [at for at, _ in found] if is_run and len(found) in PARTS_OF_DAY else None


def _are_years(cells: Sequence[str]) -> bool:
    years = [int(cell) for cell in map(str.strip, cells) if len(cell) == 4 and cell.isdigit()]
    return len(years) == len(cells) > 2 and years == [*range(years[0], years[0] + len(years))]


def _a_row_each(raw: Raw, part: str, spread: list[int]) -> Raw:
    rest = [at for at in range(raw.width) if at not in spread]
    parts = [(at, _BEFORE_NUMBER.sub("", raw.names[at])) for at in spread]

    def rows() -> Iterator[Line]:
        """Yield a row for each hour or month; yield rows of another width as they are, with empty cells appended."""
        for row in raw.rows():
            if len(row) == raw.width:
                begin = [row[at] for at in rest]
                yield from (
                    [*begin, name, row[place]]
                    for place, name in parts
                    if part != "day" or int(name) < 29 or not dialect.is_missing(row[place])  # of short months
                )
            else:
                yield row + [""] * 3

    if (
        part == "period"
        and all(len(name) == 4 for _, name in parts)
        and "month" in [raw.names[at].lower() for at in rest]
    ):
        part = "year"  # of the month of each row
    names = [*(raw.names[at] for at in rest), part, "value"]
    said = raw.said | {f"columns that are {part}s": f"{len(spread)}, a row each; --wide makes each a series"}
    return Raw(names, rows, said, len(names), raw.separator, is_spread=True)


def _parquet(path: Path) -> Raw:
    def rows() -> Iterator[Line]:
        """Yield rows as text; raises ValueError."""
        try:
            with parquet.opened(path, MEMORY_MB) as found:
                for block in found.blocks(BLOCK):
                    yield from ([*map(documents.text_of, line)] for line in block)
        except (ServiceError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error

    try:
        with parquet.opened(path, MEMORY_MB) as found:
            names, size = [*found.kinds], found.size()
        if size > max(dialect.FREE, dialect.RATIO * path.stat().st_size):
            raise ValueError(f"unpacks to more than {dialect.RATIO} times its size")
    except (ServiceError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    return Raw(names, rows, {"format": "Parquet"}, len(names), is_text=False)
