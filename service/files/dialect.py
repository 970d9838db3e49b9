"""Dialects of text tables: the separator of cells, the lines before and between the rows, and the format of numbers.

The first 64 kB of a file decide its encoding, separator, header, units and the lines before the header. Files may be
compressed with gzip, or as a member of a zip.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from livesvm.service.files.encodings import encoding_of
from livesvm.service.files.malformed import Malformed
from livesvm.solvers.errors import InvalidInput

Line = list[str]
HEAD, FEWEST_LINES = 2**16, 10
"""Number of bytes at the start of a file that decide its dialect; more, if these have fewer lines."""
NOTES = 20
"""Most lines at the end of a table that may be notes."""
MOST_LINE = 2**22
"""Largest number of characters in one line."""
FREE, RATIO = 2**26, 200
"""A compressed file may unpack to ``FREE`` bytes, or to ``RATIO`` times its size if that is more."""
PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"\x28\xb5\x2f\xfd", b"Rar!")
"""First bytes of packed files."""
SEPARATORS = (",", ";", "\t", "|", " ")
NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "space"}
COMMENTS = ("#", "%", "//", "!")
_NUMBER_SIGN = re.compile(r"""\s*("#"\s*[,;\t|]|#[,;|])\s*"?\w""")
"""The beginning of a header with # as the name of the column of the rows' numbers."""
MOST_UNDER = 3
"""Number of lines with more or fewer cells than the rows of which none may stand between the names and the rows."""
CLEARLY = 5
"""A file of a zip is taken for the data if it is larger by this factor than all others together."""
MISSING = frozenset(
    [
        *("", "?", "-", "--", "---", ".", "..", "...", ":", "\\n", "unavailable", "unknown"),
        *("na", "n/a", "n.a.", "n/e", "k.a.", "k. a.", "nan", "-nan", "null", "(null)", "<null>", "none"),
        *("#n/a", "#value!", "#ref!", "#div/0!", "#num!"),
    ]
)  #: lower case
SIGNS = "%$€£()"
_NUMBER = re.compile(
    r"(?:[$€£] ?)?[+-]?(?:[$€£] ?)?"
    r"(?:\d+|\d{1,3}(?:(?P<mark>[.,'\u2019 \u00a0\u202f])\d{3})(?:(?P=mark)\d{3})*)?(?:[.,]\d*)?(?:[eE][+-]?\d+)?"
    r"(?: ?[%€$£])?"
)
_MARKED = re.compile(
    r"[<>~≤≥]?\s?(?P<number>[+-]?\d[\d.,'\u2019\u00a0\u202f]*(?:[eE][+-]?\d+)?)(?:\s?(?P<mark>(?![KMBTkm]?$)(?!(?<!\s)b$)[^\s\d.,:;/-][^\d:]{0,7}))?"
)
_UNIT = re.compile(
    r"°[CFK]?|[kMGT]?Wh?|[mk]?VA?r?|m?A|[kmµ]?g|mg/dL|mmol/L|km/h|mph|m/s|hPa|mbar|[ck]?m|mm|in|ft|lx|lux|pp[mb]|dB|bpm|k?Hz"
    r"|[kMGT]i?B|m³|l|L|s|ms|min|h|kn|µg/m³|W/m²|EUR|USD|CHF"
)
_OF_TIMES = re.compile(
    r"(?i)date|time|month|year|day|datum|zeit|period|fecha|\bdata\b|giorno|jour|heure|hora|tarih|dato|dátum|日|年|дата"
)
_DAY = r"([^\W\d]{2,9}[.,]{0,2} )?"  # of the week
_TIME = re.compile(
    rf"{_DAY}\d{{1,4}}(\. |[-/. ])(de )?(\d{{1,2}}|[^\W\d]{{3,10}}\.?)([-/. ,]+(de )?\d|$).*|\d{{1,2}}:(\d\d|\d:\d).*"
    rf"|{_DAY}[^\W\d]{{3,10}}\.?(-\d\d|[ -](\d{{1,2}},? (\d\d:\d\d.*)?)?\d{{4}}.*)"
    r"|\d{4}\W*[QW] ?\d+.*|(Q[1-4]|[KC]?W ?\d+)\W?\d{4}|\d{4}M\d\d|\d{4}-?\d\d(-?\d\d)?([T ].*)?"
)
_HALVES, _CLOCK = ("AM", "PM"), re.compile(r"\d{1,2}:\d\d:\d\d")
_SEP = re.compile(r'"?sep=(.|\\t)"?', re.IGNORECASE)
_CONTROL, FEW_CONTROL = re.compile(r"[\0-\x08\x0e-\x1f]"), 0.01
"""Characters that texts do not have, and the largest share of them in a text."""
_MARKS = "'\u2019 \u00a0\u202f"


@dataclass(frozen=True)
class FileOptions:
    """A client's options that describe a file; options that are None or empty are inferred from the file.

    Parameters
    ----------
    skip : lines before the header
    time : the column of times, or two or three columns with parts of a time, joined by ``+``
    time_format : format of times for strptime
    zone : IANA name of the zone of times without one
    missing : additional marks of missing values
    series : the column that names series, or several columns joined by ``+``
    wide : whether every column is a series
    align : how readings are put on a regular grid: nearest, mean, last or sum, and perhaps the interval, as in mean:1h
    member : the file that is read of those in a zip, or the sheet of a workbook
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    skip: int | None = None
    header: bool | None = None
    time: str | None = None
    time_format: str | None = None
    zone: str | None = None
    missing: Sequence[str] = ()
    series: str | None = None
    wide: bool = False
    align: str | None = None
    member: str | None = None


@dataclass(frozen=True)
class Dialect:
    """The dialect of a text table.

    Parameters
    ----------
    skip : lines before the first row of numbers
    used : positions of a row's cells that are columns; ``width`` is the number of cells in a row
    units : texts under the header that are no readings
    lead : lines before the header
    renamed : names to which a number was added, as the header repeats them
    surplus : names in the header of columns that no row has
    ends_in_words : whether words after a row's last cell are left out; these are added to ``remarks`` by :func:`rows`
    """

    encoding: str
    separator: str
    skip: int
    names: Line
    used: tuple[int, ...]
    width: int
    has_comments: bool
    header: Line | None
    units: Line = field(default_factory=list)
    lead: list[str] = field(default_factory=list)
    renamed: Line = field(default_factory=list)
    surplus: Line = field(default_factory=list)
    ends_in_words: bool = False
    member: str | None = None
    remarks: Line = field(default_factory=list)


_QUOTED: dict[str, Any] = {"delimiter": " ", "skipinitialspace": True}


class _Bounded(io.RawIOBase):
    """A reader of a compressed file that raises an error if it unpacks to more than the limit."""

    def __init__(self, inner: IO[bytes], size: int) -> None:
        self._inner, self._left = inner, max(FREE, RATIO * size)

    def readable(self) -> bool:
        """Return True, as :mod:`io` asks of readable files."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Unpack the next bytes into the buffer; raises Malformed beyond the size limit."""
        data = self._inner.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise Malformed(f"unpacks to more than {RATIO} times its size; unpack it first", field="body")
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def unpacked(path: Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """Yield a file opened for reading, or the ``member`` of a zip, decompressed on the fly; raises InvalidInput."""
    with path.open("rb") as file:
        magic, size = file.read(4), path.stat().st_size
        file.seek(0)
        try:
            if member is not None and magic != b"PK\x03\x04":
                raise InvalidInput("the file is no zip", field="--member")
            if magic.startswith(b"\x1f\x8b"):
                yield _unpacked_once(gzip.GzipFile(fileobj=file), size)  # type: ignore[arg-type]
            elif magic == b"PK\x03\x04":
                with zipfile.ZipFile(file) as archive, archive.open(_chosen(archive, member)) as inner:
                    yield _unpacked_once(inner, size)
            elif magic.startswith(PACKED):
                raise Malformed("is packed in another way than by gzip or zip; unpack it first", field="body")
            else:
                yield file
        except (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise Malformed(f"cannot be unpacked: {error}", field="body") from error


def _unpacked_once(inner: IO[bytes], size: int) -> IO[bytes]:
    """Return a bounded reader of a packed file; raises Malformed if that packs another packed file."""
    reader = io.BufferedReader(_Bounded(inner, size))
    if reader.peek(8).startswith(PACKED):
        raise Malformed("packs a file that is packed itself; unpack it first", field="body")
    return reader


def _chosen(archive: zipfile.ZipFile, wanted: str | None) -> zipfile.ZipInfo:
    """Return the wanted member of a zip, or the one that is clearly larger than all others; raises InvalidInput."""
    members = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX/")]
    members.sort(key=lambda one: one.file_size, reverse=True)
    names = ", ".join(one.filename for one in members)[:400]
    if wanted is not None:
        if (found := next((one for one in members if one.filename == wanted), None)) is None:
            raise InvalidInput(f"the zip has no file {wanted!r}; it has {names}", field="--member")
        members = [found]
    elif not members or (members[1:] and members[0].file_size < CLEARLY * sum(one.file_size for one in members[1:])):
        raise Malformed(f"packs {len(members)} files: {names}; say --member", field="body")
    if members[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others unpack without a bound
        raise Malformed("is packed in another way than by deflating; unpack it first", field="body")
    return members[0]


def member_of(path: Path, wanted: str | None) -> str | None:
    """Return the name of the member that :func:`unpacked` reads from a zip of several files; None for other files."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        return _chosen(archive, wanted).filename if len(archive.infolist()) > 1 else None


def lines(path: Path, encoding: str, member: str | None = None) -> Iterator[str]:
    """Yield the lines of a file, with their line ends; raises Malformed."""
    with unpacked(path, member) as raw, io.TextIOWrapper(raw, encoding, newline="") as text:
        try:
            rest = ""
            while block := text.read(HEAD):
                *found, rest = io.StringIO(rest + block, newline="").readlines()
                if len(rest) > MOST_LINE:
                    raise Malformed(f"has a line of more than {MOST_LINE} characters", field="body")
                yield from found
            yield from [rest] if rest else []
        except UnicodeDecodeError as error:
            raise Malformed(f"is not {encoding} throughout ({error}); say --encoding", field="body") from error


def rows(path: Path, dialect: Dialect) -> Iterator[Line]:
    """Yield the rows below the header, except repeated headers, comments and empty lines."""
    text = lines(path, dialect.encoding, dialect.member)
    for _ in range(dialect.skip):
        next(text, None)
    if dialect.has_comments:
        text = (line for line in text if not _is_comment(line))
    used = None if dialect.used == (*range(dialect.width),) else dialect.used
    header = dialect.header or []
    own = next((at for at, cell in enumerate(header) if kind_of(cell) == "text" and cell.upper() not in _HALVES), 0)
    again = header[own:]
    is_new = is_note = False
    notes = list[Line]()
    for cells in _cells(text, dialect.separator):
        if not (cells and cells[0]) and not any(cells):  # which is quick for most rows
            is_new = True
        elif (cells[own:] if own else cells) != again:
            is_note = is_note or (is_new and is_header(cells))
            if is_note and (not {"number", "time"}.isdisjoint(map(kind_of, cells)) or len(notes) == NOTES):
                first = notes[0] if notes else cells
                raise InvalidInput(f"begins another table, with {first[0][:32]!r}; say --skip", field="rows")
            is_new = False
            if len(cells) > dialect.width:
                rest = " ".join(cells[dialect.width :]).strip()
                is_remark = dialect.ends_in_words and not any(map(str.isdigit, rest))
                if is_remark and rest not in dialect.remarks:
                    dialect.remarks.append(rest)
                if is_remark or not rest:  # some lines end with separators
                    del cells[dialect.width :]
            row = cells if used is None or len(cells) != dialect.width else [cells[at] for at in used]
            if is_note:
                notes.append(row)
            else:
                yield row
    yield from notes


def _cells(text: Iterable[str], separator: str) -> Iterator[Line]:
    reader = csv.reader(text, delimiter=separator, skipinitialspace=separator != "\t")
    try:
        if separator != " ":
            yield from reader
        else:
            quoted = partial(csv.reader, **_QUOTED)
            yield from (line.split() if '"' not in line else next(quoted([line.strip()])) for line in text)
    except csv.Error as error:
        raise Malformed(f"is no table: {error} (line {reader.line_num})", field="body") from error


def is_header(cells: Line) -> bool:
    """Return whether two or more cells are words, and all others are missing."""
    kinds = Counter(map(kind_of, cells))
    return kinds["text"] > 1 and kinds["text"] + kinds["missing"] == len(cells)


def _is_comment(line: str) -> bool:
    return line.lstrip(' "').startswith(COMMENTS) and not _NUMBER_SIGN.match(line)


def is_missing(cell: str) -> bool:
    """Return whether a cell is empty or holds a mark of a missing value."""
    return cell.strip().lower() in MISSING


def unmarked(cell: str) -> str:
    """Return the number in a text such as ``<1``, ``12.3 e`` or ``21.5 °C``; other texts are returned unchanged."""
    found = _MARKED.fullmatch(text := cell.strip())
    return cell if found is None or _NUMBER.fullmatch(text) else found["number"]


def have_units(counts: Mapping[str, int]) -> bool:
    """Return whether most cells, none of them missing, are numbers with one unit, and all others have no digit."""
    found = {cell: _MARKED.fullmatch(cell.strip()) for cell in counts}
    units = {(one["mark"] or "").strip() for one in found.values() if one is not None}
    others = [cell for cell, one in found.items() if one is None]
    are_few = 2 * sum(counts[cell] for cell in others) < sum(counts.values())
    is_unit = len(units) == 1 and _UNIT.fullmatch(units.pop()) is not None
    return is_unit and are_few and not any(map(str.isdigit, "".join(others)))


def _signed(cell: str) -> str:
    """Return a number in brackets, as accountants write negative ones, with a sign."""
    return f"-{cell[1:-1]}" if cell.startswith("(") and cell.endswith(")") else cell


def kind_of(cell: str) -> str:
    """Return the kind of a cell, guessed from its text: "missing", "number", "time" or "text"."""
    cell = cell.strip()
    if cell.lower() in MISSING:
        return "missing"
    if _NUMBER.fullmatch(_signed(cell)) and any(map(str.isdigit, cell)):
        return "number"
    return "time" if _TIME.fullmatch(cell) else "text"


def understood(path: Path, given: FileOptions) -> Dialect:
    """Infer the dialect of a text table; raises Malformed, or InvalidInput, which names an option."""
    with unpacked(path, given.member) as raw:
        head = raw.read(HEAD)
        while head.count(b"\n") < FEWEST_LINES and len(head) < 8 * MOST_LINE and (more := raw.read(len(head))):
            head += more
        encoding, is_whole = encoding_throughout(raw, head)
    if not head.strip():
        raise Malformed("is empty; the first row has the names of columns", field="body")
    encoding = given.encoding or encoding
    try:
        text = codecs.getincrementaldecoder(encoding)("replace").decode(head)
    except LookupError:
        raise InvalidInput(f"there is no {encoding!r}", field="--encoding") from None
    if "\0" in text or len(_CONTROL.findall(text)) > FEW_CONTROL * len(text):
        raise Malformed("is no text, nor a workbook, Parquet, Arrow or packed file", field="body")
    found = io.StringIO(text, newline="").readlines()
    found = found if is_whole or len(found) < 2 else found[:-1]
    told = _SEP.fullmatch(found[0].strip())
    if told is not None and not given.skip:  # a line for spreadsheets
        given = replace(given, separator=given.separator or told[1].replace("\\t", "\t"), skip=1)
    begun = found[given.skip or 0 :]
    if given.header and given.skip is not None and begun:  # which says that the next line has the names
        begun[0] = begun[0].lstrip("#%/! ") if _is_comment(begun[0]) else begun[0]
    has_comments = any(map(_is_comment, begun))
    bare = ["\n" if has_comments and _is_comment(line) else line for line in begun]
    if not any(line.strip() for line in bare):
        raise Malformed("holds comments alone", field="body")
    separator = given.separator or max(SEPARATORS, key=lambda one: (_fits(bare, one), -SEPARATORS.index(one)))
    dialect = _layout(begun, bare, separator, given, encoding, has_comments)
    names = _once(dialect.names)
    renamed = [new for new in names if new not in dialect.names]
    return replace(dialect, names=names, renamed=renamed, member=given.member)


def encoding_throughout(raw: IO[bytes], head: bytes) -> tuple[str, bool]:
    """Return a file's encoding, even if letters beyond ASCII come late, and whether ``head`` is the whole file."""
    encoding, decoder, block, is_whole = encoding_of(head), codecs.getincrementaldecoder("utf-8")(), head, True
    if encoding != "utf-8":
        return encoding, not raw.read(1)
    try:
        while block:
            decoder.decode(block)
            block = raw.read(HEAD * 16)
            is_whole &= not block
    except UnicodeDecodeError as error:
        return encoding_of(block[max(0, error.start - HEAD) : error.start + HEAD]), False
    return encoding, is_whole


def _once(names: Line) -> Line:
    """Return names made unique by a number appended to each repeated name."""
    found = dict[str, None]()
    for name in names:
        number, new = 1, name
        while new in found:
            number, new = number + 1, f"{name} {number + 1}"
        found[new] = None
    return [*found]


def _fits(text: list[str], separator: str) -> float:
    """Return a score of a separator: the share of rows of the most frequent width, times the cells' mean score."""
    try:
        found = [cells for cells in _cells(text, separator) if any(cells)]
    except Malformed:
        return 0.0
    width, count = Counter(map(len, found[len(found) // 2 :])).most_common(1)[0]
    if width < 2:
        return 0.01
    others = [one for one in SEPARATORS[1:4] if one != separator]
    body = [cell for cells in found[len(found) // 2 :][:200] for cell in cells if len(cells) == width]
    worth = {"number": 1.0, "time": 1.0, "missing": 1.0, "text": 0.5}
    kinds = [(cell, kind_of(cell)) for cell in body]
    if separator == " ":  # 10:30,7,yes is three cells, and 1,5 one
        kinds = [(cell, kind) for cell, kind in kinds if "," not in cell or kind == "number"]
    if not body:
        return 0.01
    read = sum(0 if any(one in cell for one in others) else worth[kind] for cell, kind in kinds)
    rare = 0.85 if separator == " " else 1.0  # texts and times hold blanks
    return rare * count / len(found[len(found) // 2 :]) * read / len(body)


def _layout(
    begun: list[str], bare: list[str], separator: str, given: FileOptions, encoding: str, has_comments: bool
) -> Dialect:
    """Return the dialect of a table; the kinds of cells in later rows show which line is the header."""
    reader = list[tuple[int, Line]]()
    for number, cells in _numbered(bare, separator):
        if any(cell.strip() for cell in cells):
            reader.append((number, [cell.strip() for cell in cells]))
    late = [cells for _, cells in reader[len(reader) // 2 :]]
    width = Counter(map(len, late)).most_common(1)[0][0]
    for at, (number, cells) in enumerate(reader):
        if len(cells) > width and not any(cells[width:]):  # some lines end with separators
            reader[at] = number, cells[:width]
    body = [cells for _, cells in reader[len(reader) // 2 :] if len(cells) == width][:500]
    kinds = [commonest({cell: kind_of(cell) for cell in column}.values()) for column in zip(*body, strict=True)]
    first = 0 if given.header is False else next((at for at, (_, c) in enumerate(reader) if _is_full(c, kinds)), 1)
    if given.header is False:
        header = None
    elif given.header:
        header, first = 0, max(1, first)
    else:
        header = _header(reader, first, kinds)
    if given.header is not False:  # the first rows may have no numbers
        below = range(0 if header is None else header + 1, first)
        first = next((at for at in below if _reads(reader[at][1], kinds)), first)
    begin = reader[first][0] if first < len(reader) else len(bare)
    names: Line | None = None if header is None else reader[header][1]
    surplus = Line()
    ends_empty = width > 1 and kinds[-1] == "missing" and not (names and "".join(names[width - 1 :]))
    ends_empty = ends_empty and not any(cells[-1] for cells in body)
    used = [*range(width - 1 if ends_empty else width)]
    if names is None and given.header is None and (comment := _named_by_comment(begun[:begin], separator, len(used))):
        names = comment
    if names is None:
        names = [f"column{at + 1}" for at in used]
    elif len(names) == len(used) - 1 and header == first - 1 and kinds[0] == "text" and len({c[0] for c in body}) == 1:
        header, names = None, [f"column{at + 1}" for at in used]  # a title, as its first name has no row
    elif len(names) == len(used) - 1 and header == first - 1:
        is_first = kinds[0] == "time" and _OF_TIMES.search(names[0]) is not None
        clocks = (at for at in range(1, width) if kinds[at - 1 : at + 1] == ["time"] * 2 and ":" in body[0][at])
        at = next((at for at in clocks if ":" not in body[0][at - 1]), len(names) if is_first else 0)
        names = [*names[:at], "", *names[at:]]  # R names the rows, and not that column; a time may hold a blank
    elif (
        header == first - 1
        and width < len(names)
        and len(reader) > first + 2  # fewer rows may be short themselves
        and max(len(cells) for _, cells in reader[first:]) == width
    ):
        names, surplus = names[:width], names[width:]
    elif len(names) not in (width, len(used)):
        row = f"has {width} columns, the first line has {len(names)}"
        raise InvalidInput(f"{row}; say --separator, --skip or --no-header", field="rows", row=0)
    if header is not None and header < first:
        names = _joined_names(names, [cells for _, cells in reader[:header] if len(cells) == len(names)])
        under = [cells for _, cells in reader[header + 1 : first] if len(cells) == len(names)]
        full = [cells for cells in under if 2 * sum(map(bool, cells)) > len(cells)]
        names = _joined_names(names, [cells for cells in full[::-1] if not any(map(_is_number, cells))])
    if len([name for name in names if _CLOCK.fullmatch(name)]) == 1 and header is not None:  # that of the header itself
        names = ["time" if _CLOCK.fullmatch(name) else name for name in names]
    used = [at for at in used if names[at] or any(cells[at] for cells in body)]
    names = [re.sub(r"\s*[\r\n]+\s*", " ", names[at]) or ("index" if at == 0 else f"column{at + 1}") for at in used]
    units = [] if header is None else [", ".join(filter(None, cells)) for _, cells in reader[header + 1 : first]]
    shown = (reader[header][0] if header is not None else begin) + (given.skip or 0)
    return Dialect(
        encoding,
        separator,
        begin + (given.skip or 0),
        names,
        tuple(used),
        width,
        has_comments,
        None if header is None else reader[header][1],
        units,
        [line.strip() for line in begun[: shown - (given.skip or 0)] if line.strip()],
        surplus=surplus,
        ends_in_words=separator == " " and 2 * sum(any(map(str.isdigit, cells[-1])) for cells in body) > len(body),
    )


def _numbered(text: list[str], separator: str) -> Iterator[tuple[int, Line]]:
    """Yield each row with the index of the line in which it begins."""
    at = 0

    def counted() -> Iterator[str]:
        nonlocal at
        for line in text:
            at += 1
            yield line

    begin = 0
    for cells in _cells(counted(), separator):
        yield begin, cells
        begin = at


def commonest(kinds: Iterable[str]) -> str:
    """Return the most frequent kind of cells other than "missing", or "missing" if there is none."""
    counts = Counter(kind for kind in kinds if kind != "missing")
    return counts.most_common(1)[0][0] if counts else "missing"


def _is_number(cell: str) -> bool:
    return kind_of(cell) == "number"


def _reads(cells: Line, kinds: Sequence[str]) -> bool:
    """Return whether, in columns of numbers or times, most cells of a row have the kind of their column."""
    if len(cells) != len(kinds) or _are_years(cells):
        return False
    pairs = [(kind_of(cell), kind) for cell, kind in zip(cells, kinds, strict=True) if kind in ("number", "time")]
    there = [one == kind for one, kind in pairs if one != "missing"]
    has_time = "time" not in kinds or ("time", "time") in pairs
    return has_time and sum(there) * 2 > len(there)


def _are_years(cells: Line) -> bool:
    """Return whether cells contain at least eight years, one after another; other cells may be among them."""
    years = [int(cell) for cell in cells if len(cell) == 4 and cell.isdigit()]
    return len(years) > 7 and 1500 < years[0] < 2200 and years == [*range(years[0], years[0] + len(years))]


def _is_full(cells: Line, kinds: Sequence[str]) -> bool:
    """Return whether a row reads like the table's rows, and has a number if the table has columns of numbers."""
    numbers = [cell for cell, kind in zip(cells, kinds, strict=False) if kind == "number"]
    return _reads(cells, kinds) and (not numbers or any(kind_of(cell) == "number" for cell in numbers))


def _header(reader: list[tuple[int, Line]], first: int, kinds: Sequence[str]) -> int | None:
    """Return the index of the row with column names, above the first row of numbers; None if no row has names.

    Parameters
    ----------
    kinds : of the columns
    """
    width, busy = len(kinds), sum(kind != "missing" for kind in kinds)
    others = [at for at in range(first) if len(reader[at][1]) != width]
    above = others[-MOST_UNDER] + 1 if len(others) >= MOST_UNDER else 0  # settings of a logger, and no units
    before = [at for at in range(above, first) if len(reader[at][1]) in (width, width - 1)]
    before = [at for at in before if len(reader[at][1]) == width] or before
    filled = {at: sum(map(bool, reader[at][1])) for at in before}
    full = [at for at in before if filled[at] * 2 > busy]  # columns with cells
    bare = [at for at in full if not {"number", "time"} & {*map(kind_of, reader[at][1])}]
    named = [at for at in bare if {*range(at + 1, bare[-1])}.isdisjoint({*full} - {*bare})] or full  # names of titles
    if years := [at for at in full if _are_years(reader[at][1])]:
        return years[0]
    if named:
        most = max(filled[at] for at in named)
        of_times = {
            at: [cell for cell, kind in zip(reader[at][1], kinds, strict=False) if kind == "time"] for at in named
        }
        timed = [at for at in named if filled[at] == most and any(map(_OF_TIMES.search, of_times[at]))]
        return timed[-1] if timed else max(named, key=lambda at: (filled[at], -at))
    is_title = first and width > 2 and sum(map(bool, reader[first - 1][1])) == 1
    return first - 1 if first and not is_title and "number" not in map(kind_of, reader[first - 1][1]) else None


def _joined_names(names: Line, above: list[Line]) -> Line:
    """Return names; the cell above a repeated name is put before it, for as many header rows as make names unique."""
    for cells in reversed(above):
        repeated = {name for name, count in Counter(filter(None, names)).items() if count > 1}
        if not repeated:
            break
        upper = list[str]()
        for cell in cells:
            upper.append(cell or (upper[-1] if upper else ""))  # a merged cell
        tells = {
            name
            for name in repeated
            if len({one for one, other in zip(upper, names, strict=True) if other == name}) > 1
        }
        names = [f"{cell} {name}".strip() if name in tells else name for cell, name in zip(upper, names, strict=True)]
    return names


def _named_by_comment(before: list[str], separator: str, width: int) -> Line | None:
    """Return the column names in one of the last two comments before the rows, if one has ``width`` names."""
    found: Line | None = None
    comments = [line for line in before if _is_comment(line) and line.strip('#%/! "\r\n')]
    for line in reversed(comments[-2:]):  # units may be below names
        cells = [cell.strip() for cell in next(_cells([line.strip().lstrip('#%/! "')], separator), [])]
        if len(cells) != width or any(kind_of(cell) != "text" for cell in cells):
            break
        found = cells
    return found


def decimal_of(
    columns: Iterable[Collection[str]], separator: str, given: str | None, usual: str | None = None
) -> tuple[str, str]:
    """Return the decimal mark and the thousands separators; raises InvalidInput if a character may be either.

    Parameters
    ----------
    columns : the texts of numbers, by column
    usual : the decimal mark where the file was written, taken for a character that may be either
    """
    votes, unclear, groups, asks = set[str](), set[str](), set[str](), set[str]()
    for cells in columns:
        may_be, plain = set[str](), 0
        for cell in cells:
            marks = [mark for mark in cell if mark in ".,"]
            groups.update(mark for mark in cell if mark in _MARKS)
            whole, _, rest = cell.strip(f"+- {SIGNS}").partition(marks[0]) if marks else ("", "", "")
            if not marks:
                plain += 1
            elif len(marks) > 1:
                groups.add(marks[0])
                votes.add(marks[-1] if marks[-1] != marks[0] else "." if marks[0] == "," else ",")
            elif len(rest) == 3 and whole.isdigit() and len(whole) <= 3 and whole[0] != "0":
                may_be.add(marks[0])
            else:
                votes.add(marks[0])
        unclear |= may_be
        if separator != ",":  # between commas, numbers are written as in English
            asks |= may_be & ({"."} if plain else {","})
    if given is not None:
        votes = {given}
    if len(votes) > 1 or (not votes and unclear and len(unclear) > 1):
        raise InvalidInput("numbers have both a decimal comma and a decimal point; say which", field="--decimal")
    if not votes and usual in asks:
        votes = {usual}
    for mark, name in ((",", "comma"), (".", "point")):
        if not votes and mark in asks:
            reason = f"a {name} may mark decimals or thousands, as in 1{mark}234; say --decimal , or ."
            raise InvalidInput(reason, field="--decimal")
    decimal = votes.pop() if votes else "."
    return decimal, "".join(sorted((groups | unclear) - {decimal}))


def number(cell: str, decimal: str, pattern: re.Pattern[str]) -> str:
    """Return a number's text with a decimal point and no thousands separators; other text is returned unchanged."""
    text = _signed(cell.strip())
    if not pattern.fullmatch(text) and not pattern.fullmatch(text := unmarked(text)):
        return cell
    return "".join(c for c in text if c.isdigit() or c in "+-eE" or c == decimal).replace(",", ".")


def pattern_of(decimal: str) -> re.Pattern[str]:
    """Return the regular expression of numbers with this decimal mark."""
    other, mark = "," if decimal == "." else r"\.", re.escape(decimal)
    return re.compile(
        rf"([$€£] ?)?[+-]?([$€£] ?)?(\d+|\d{{1,3}}([{_MARKS}{other}]\d{{3}})+)?({mark}\d*)?([eE][+-]?\d+)?( ?[%€$£])?"
    )
