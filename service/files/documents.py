"""Rows of text from files that are not text tables: JSON, Prometheus, Home Assistant, Green Button, Excel, Arrow."""

from __future__ import annotations

import json
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from csv import reader as csv_reader
from csv import writer
from datetime import date, datetime, timedelta
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import IO, Any, NamedTuple
from xml.etree import ElementTree

from livesvm.service.files import dialect, parquet
from livesvm.service.files.malformed import Malformed
from livesvm.solvers.errors import InvalidInput

Line = list[str]
MOST = 2**27
"""Largest number of bytes of a document, which is read as a whole."""
MOST_CELLS = 2**25
"""Largest number of cells in a table that is made from a document, empty ones included."""
FEW = 1000
"""Number of lines of JSON from which the names of the columns are taken."""
_SHEET, _PLACE = re.compile(r"xl/worksheets/[^/]*\.xml"), re.compile(rb'\br="([A-Z]{1,3})(\d{1,7})"')
FEW_TIMES = 9
"""Largest number of rows with times in a sheet that may be one of contents."""
ZONES = ("utc_offset_seconds", "timezone")
"""Names next to the data that say the zone of its times; an offset comes first, as it holds for all times."""
LONG = ("time", "series", "value")
"""Names of a table with a row for each series and time."""
_KEY = re.compile(r"\d{4}|\d{8}|\d{10}|\d{13}")
"""Names in digits that are times, if all names of an object are."""
_POINT = re.compile(
    r"(?P<series>(?:\\.|[^\s\\])+) (?P<fields>(?:\"(?:\\.|[^\"\\])*\"|\\.|[^\s\"\\])+)(?: (?P<time>-?\d+))?"
)
_FIELD = re.compile(r'((?:\\.|[^=,\\])+)=("(?:\\.|[^"\\])*"|[^,"]+)(?:,|$)')
"""A line of InfluxDB's line protocol, and a field of it."""
_ATOM, _ESPI = "{http://www.w3.org/2005/Atom}", "{http://naesb.org/espi}"
_UNITS = {"72": "Wh", "38": "W", "42": "m³", "119": "ft³", "169": "therm", "132": "Btu"}


class Document(NamedTuple):
    """The table found in a document: the names of its columns, its rows of text, and facts about its format."""

    names: Line
    rows: list[Line]
    said: dict[str, Any]


def as_json(file: IO[bytes]) -> Document:
    """Find and return the table in a JSON document; raises Malformed."""
    try:
        found = json.loads(_whole(file))
    except ValueError as error:
        raise Malformed(f"is no JSON: {error}", field="body") from error
    except RecursionError:
        raise Malformed("is JSON in too many brackets", field="body") from None
    try:
        series = found["data"]["result"]
        rows = [
            [f"{stamp:.3f}".rstrip("0").rstrip("."), _series_of(one["metric"]), value]
            for one in series
            for stamp, value in one["values"]
        ]
        return Document([*LONG], rows, {"format": "Prometheus range query"})
    except (KeyError, TypeError, ValueError):
        pass
    try:
        series = found["value"]["timeSeries"]
        rows = [
            [point["dateTime"], one["name"], "" if _is_none(point["value"], one) else str(point["value"])]
            for one in series
            for block in one["values"]
            for point in block["value"]
        ]
        return _long(rows, {"format": "WaterML"})
    except (KeyError, TypeError, ValueError):
        pass
    if isinstance(found, list) and found and all(isinstance(one, list) and one for one in found):
        states = [one for entity in found for one in _of_entity(entity)]
        if states and all("state" in one for one in states):
            return _of_objects(states, {"format": "Home Assistant history"})
    if split := [*_split_in(found)]:
        return _of_objects(split, {"format": "JSON with columns and values"})
    zones = {name: found.get(name) for name in ZONES} if isinstance(found, dict) else {}
    objects = [row for one in _objects_in(found) for row in _points_of(one)]
    return _of_objects(objects, {"format": "JSON", "zone": zones})


def _is_none(value: str, series: dict[str, Any]) -> bool:
    """Return whether a value is the one that a series of WaterML gives for missing values."""
    return bool(float(value) == series.get("variable", {}).get("noDataValue"))


def _split_in(found: Any, depth: int = 4) -> Iterator[dict[str, Any]]:
    """Yield the rows of tables in InfluxDB's form: names in ``columns``, and rows in ``values`` or ``data``."""
    if isinstance(found, dict):
        names, lines = found.get("columns"), found.get("values", found.get("data"))
        if isinstance(names, list) and isinstance(lines, list) and all(isinstance(line, list) for line in lines):
            series = {"series": found["name"]} if isinstance(found.get("name"), str) else {}
            series |= found["tags"] if isinstance(found.get("tags"), dict) else {}
            if all(len(line) == len(names) for line in lines):
                yield from (series | dict(zip(map(str, names), line, strict=True)) for line in lines)
            return
    if depth and isinstance(found, list | dict):
        for inner in found.values() if isinstance(found, dict) else found[:FEW]:
            yield from _split_in(inner, depth - 1)


def _points_of(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the points that an object has as pairs, as lists of equal length or as objects; without any, the object."""
    found = {name: (isinstance(cells, dict) and _by_time(cells)) or cells for name, cells in found.items()}
    lists = {name: cells for name, cells in found.items() if isinstance(cells, list) and len(cells) > 1}
    rest = {name: cell for name, cell in found.items() if name not in lists}
    pairs = [cells for cells in lists.values() if all(isinstance(one, list) and len(one) == 2 for one in cells)]
    objects = [cells for cells in lists.values() if all(isinstance(one, dict) for one in cells)]
    plain = {name: cells for name, cells in lists.items() if not isinstance(cells[0], list | dict)}
    if len(pairs) == len(lists) == 1:
        is_time = [all(_is_epoch(one[at]) for one in pairs[0]) for at in (0, 1)]
        names = ("time", "value") if is_time[0] or not is_time[1] else ("value", "time")
        yield from (rest | dict(zip(names, one, strict=True)) for one in pairs[0])
    elif len(objects) == len(lists) == 1:
        yield from (rest | one for one in objects[0])
    elif len(plain) == len(lists) > 1 and len({*map(len, plain.values())}) == 1:
        yield from (rest | dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True))
    else:
        yield found


def _by_time(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an object of which all names are times; none for other objects."""
    is_timed = len(found) > 2 and all(_KEY.fullmatch(name) or dialect.kind_of(name) == "time" for name in found)
    if not is_timed or any(isinstance(cell, list) and cell for cell in found.values()):
        return []
    rows = (
        (name, {} if cell == [] else cell if isinstance(cell, dict) else {"value": cell})
        for name, cell in found.items()
    )
    return [{"time": name} | cells for name, cells in rows]


def _is_epoch(cell: Any) -> bool:
    return (isinstance(cell, int | float) and cell > 1e8) or (isinstance(cell, str) and dialect.kind_of(cell) == "time")


def _of_entity(entity: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the states of a Home Assistant entity, each with the entity's id, which short answers give only once."""
    known: dict[str, Any] = {}
    for one in entity:
        if not isinstance(one, dict):
            return
        known = {"entity_id": one.get("entity_id", known.get("entity_id"))}
        state = {name: cell for name, cell in one.items() if name in ("state", "last_changed")}
        yield known | (state if "last_changed" in one else state | {"last_changed": one.get("last_updated")})


def _objects_in(found: Any, depth: int = 3) -> list[dict[str, Any]]:
    """Return the rows of a document that is a list of objects, or has columns of equal length; raises Malformed."""
    if isinstance(found, list) and found and all(isinstance(one, dict) for one in found):
        return found
    if isinstance(found, dict) and (rows := _by_time(found)):
        return rows
    if isinstance(found, dict) and depth:
        inner = [cells for cells in found.values() if isinstance(cells, dict)]
        if len(inner) == len(found) > 1 and len(inner[0]) > 2 and all(one.keys() == inner[0].keys() for one in inner):
            rows = [{name: cells[key] for name, cells in found.items()} for key in inner[0]]  # as pandas writes columns
            if not any(isinstance(cell, dict | list) for cell in rows[0].values()):
                return _by_time(dict(zip(inner[0], rows, strict=True))) or rows
        columns = {name: cells for name, cells in found.items() if isinstance(cells, list) and cells}
        plain = {name: cells for name, cells in columns.items() if not isinstance(cells[0], dict | list)}
        if len(plain) > 1 and len({*map(len, plain.values())}) == 1:
            return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]
        tables = []
        for inner in found.values():
            if isinstance(inner, list | dict):
                try:
                    tables.append(_objects_in(inner, depth - 1))
                except Malformed:
                    continue
        tables.sort(key=len, reverse=True)
        if len(tables) == 1 or (tables and len(tables[0]) > dialect.CLEARLY * len(tables[1])):
            return tables[0]
        if len(tables) == len(found) > 1 and len({frozenset(one) for table in tables for one in table}) == 1:
            return [{"series": name} | one for name, table in zip(found, tables, strict=True) for one in table]
    raise Malformed("is JSON, but not one list of objects, nor columns of equal length", field="body")


def _of_objects(found: Iterable[dict[str, Any]], said: dict[str, Any]) -> Document:
    flat = [_flat(one) for one in found]
    names = [*dict.fromkeys(name for one in flat for name in one)]
    if len(names) * len(flat) > MOST_CELLS:
        raise Malformed(f"has {len(names)} different names in {len(flat)} objects, too many for a table", field="body")
    return Document(names, [[one.get(name, "") for name in names] for one in flat], said)


def _flat(found: dict[str, Any], before: str = "") -> dict[str, str]:
    """Return the values of an object as text by name; values of nested objects have dotted names."""
    cells: dict[str, str] = {}
    for name, cell in found.items():
        if isinstance(cell, str) and cell.startswith("{"):  # of messages
            with suppress(ValueError):
                cell = json.loads(cell)
        if isinstance(cell, dict):
            cells |= _flat(cell, f"{before}{name}.")
        else:
            cells[before + name] = _text(cell)
    return cells


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else json.dumps(cell) if isinstance(cell, list | bool) else repr(cell)


def lines_names(path: Path, member: str | None = None) -> Line | None:
    """Return the column names of a file with a JSON object in each line; None if the file is one document."""
    lines = _lines(path, member)
    try:
        first = [*islice(lines, 2)]
    except Malformed:
        return None
    return [*dict.fromkeys(name for _, one in chain(first, islice(lines, FEW)) for name in one)] if first[1:] else None


def lines_rows(path: Path, names: Line, member: str | None = None) -> Iterator[Line]:
    """Yield the rows of a file with a JSON object in each line; raises Malformed."""
    known = {*names}
    for number, one in _lines(path, member):
        if not one.keys() <= known:
            new = next(name for name in one if name not in known)
            raise Malformed(f"line {number} has {new[:64]!r}, which the first {FEW} lines have not", field="body")
        yield [one.get(name, "") for name in names]


def _lines(path: Path, member: str | None) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the objects with the numbers of their lines; an object with a list of times is one for each of them."""
    for number, line in enumerate(dialect.lines(path, "utf-8-sig", member), 1):
        if line.strip():
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict):
                raise Malformed(f"line {number} is no object of JSON", field="body")
            has_times = any(
                isinstance(cells, list) and cells and all(map(_is_epoch, cells)) for cells in found.values()
            )
            yield from ((number, _flat(one)) for one in (_points_of(found) if has_times else [found]))


def _whole(file: IO[bytes]) -> bytes:
    text = file.read(MOST + 1)
    if len(text) > MOST:
        raise Malformed(
            f"has more than {MOST // 2**20} MB, which is read at once; write CSV or JSON lines", field="body"
        )
    return text


def _series_of(labels: dict[str, str]) -> str:
    rest = ",".join(f"{name}={value}" for name, value in labels.items() if name != "__name__")
    return labels.get("__name__", "") + (f"{{{rest}}}" if rest else "") or "{}"


def green_button(file: IO[bytes]) -> Document:
    """Return the readings of a Green Button file, sorted by time, in seconds since 1970; raises Malformed.

    Values are multiplied by the power of ten that the file gives for their type of reading.
    """
    types, links, blocks = (
        dict[str, tuple[int, str]](),
        dict[str, list[str]](),
        list[tuple[str, list[tuple[int, int]]]](),
    )
    try:
        for _, entry in ElementTree.iterparse(file):
            if entry.tag != f"{_ATOM}entry":
                continue
            own = {link.get("rel", ""): link.get("href", "") for link in entry.iter(f"{_ATOM}link")}
            related = [link.get("href", "") for link in entry.iter(f"{_ATOM}link") if link.get("rel") == "related"]
            for kind in entry.iter(f"{_ESPI}ReadingType"):
                power = int(kind.findtext(f"{_ESPI}powerOfTenMultiplier") or 0)
                types[own.get("self", "")] = power, _UNITS.get(kind.findtext(f"{_ESPI}uom") or "", "")
            if entry.find(f".//{_ESPI}MeterReading") is not None:
                links[own.get("self", "")] = related
            for block in entry.iter(f"{_ESPI}IntervalBlock"):
                readings = [
                    (int(_of(one, f"{_ESPI}timePeriod/{_ESPI}start")), int(_of(one, f"{_ESPI}value")))
                    for one in block.iter(f"{_ESPI}IntervalReading")
                ]
                blocks.append((own.get("up", "").removesuffix("/IntervalBlock"), readings))
            entry.clear()
    except (ElementTree.ParseError, ValueError) as error:
        raise Malformed(f"is no Green Button file: {error}", field="body") from error
    if not any(readings for _, readings in blocks):
        raise Malformed("is XML, but holds no IntervalReading as Green Button files do", field="body")
    rows, units = [], set[str]()
    for meter, readings in blocks:
        kinds = [types[one] for one in links.get(meter, ()) if one in types] or [*types.values()]
        if len({*kinds}) > 1:
            raise Malformed("has several types of readings, and no link that tells which is whose", field="body")
        power, unit = kinds[0] if kinds else (0, "")
        units.add(unit)
        rows += [(start, meter, f"{value * 10**power:.12g}" if power else str(value)) for start, value in readings]
    rows.sort(key=lambda row: (row[1], row[0]))
    said = {"format": "Green Button", "unit": ", ".join(sorted(filter(None, units))) or None}
    if len({meter for _, meter, _ in rows}) < 2:
        return Document(["time", "value"], [[str(start), value] for start, _, value in rows], said)
    return Document([*LONG], [[str(start), meter.rpartition("/")[2], value] for start, meter, value in rows], said)


def xml(file: IO[bytes]) -> Document:
    """Return the most frequent kind of element in an XML document as a table of its attributes and texts."""
    rows, cells = dict[str, list[dict[str, Any]]](), 0
    try:
        for _, one in ElementTree.iterparse(file):
            texts = {inner.tag.rpartition("}")[2]: inner.text for inner in one if not len(inner) and inner.text}
            found = {**one.attrib, **texts}
            if len(found) > 1:
                rows.setdefault(one.tag, []).append(found)
                cells += len(found)
                one.clear()
            if cells > MOST_CELLS:
                raise Malformed("is XML with too many cells for a table", field="body")
    except ElementTree.ParseError as error:
        raise Malformed(f"is no XML: {error}", field="body") from error
    tag = max(rows, key=lambda one: len(rows[one]), default="")
    if len(rows.get(tag, ())) < 2:
        raise Malformed("is XML, but holds no rows of elements with attributes", field="body")
    return _of_objects(rows[tag], {"format": f"XML, its elements {tag.rpartition('}')[2]}"})


def _of(element: ElementTree.Element, path: str) -> str:
    text = element.findtext(path)
    if text is None:
        raise ValueError(f"an IntervalReading has no {path.rpartition('}')[2]}")
    return text


def is_workbook(path: Path) -> bool:
    """Return whether a zip is a workbook of Excel or LibreOffice; raises Malformed."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {*archive.namelist()}
            return "[Content_Types].xml" in names or "mimetype" in names
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise Malformed(f"cannot be unpacked: {error}", field="body") from error


def workbook(path: Path, wanted: str | None = None) -> tuple[Any, dict[str, Any]]:
    """Return a sheet of a workbook as a CSV file: the ``wanted`` one, or the first with most rows of times or numbers.

    Raises Malformed, or InvalidInput if there is no such sheet.
    """
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise Malformed("is a workbook: pip install livesvm[excel], or save it as CSV", field="body") from None
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > max(dialect.FREE, dialect.RATIO * path.stat().st_size):
            raise Malformed(f"unpacks to more than {dialect.RATIO} times its size", field="body")
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if _SHEET.fullmatch(member):
                    with archive.open(member) as sheet_file:
                        _check_extent(sheet_file)
    try:
        with CalamineWorkbook.from_path(str(path)) as book:
            if wanted is not None and wanted not in book.sheet_names:
                reason = f"the workbook has no sheet {wanted!r}; it has {', '.join(book.sheet_names)}"
                raise InvalidInput(reason, field="--member")
            wanted_ones = book.sheet_names if wanted is None else [wanted]
            sheets = [(one, book.get_sheet_by_name(one).to_python(skip_empty_area=True)) for one in wanted_ones]
            name, sheet = max(sheets, key=lambda one: _rows_in(one[1]))
            others = ", ".join(one for one in book.sheet_names if one != name)
    except (CalamineError, OSError, ValueError) as error:
        raise Malformed(f"is no workbook that can be read: {error}", field="body") from error
    held = tempfile.NamedTemporaryFile("w", suffix=".csv", newline="", encoding="utf-8")  # noqa: SIM115, it is kept
    writer(held).writerows(zip(*(_of_column(cells) for cells in zip_longest(*sheet)), strict=True))
    held.flush()
    return held, {"format": "workbook", "sheet": name, "other sheets": others and f"{others}; --member takes one"}


def _check_extent(file: IO[bytes]) -> None:
    """Raise Malformed if cells of a sheet lie so far apart that a table of all between them takes too much memory."""
    columns, rows, rest = set[bytes](), {1}, b""
    while block := file.read(2**20):
        found = _PLACE.findall(rest + block)
        columns |= {column for column, _ in found}
        rows = {min(numbers := rows | {int(row) for _, row in found}), max(numbers)}
        rest = block[-20:]
    places = [int.from_bytes(bytes(byte - 64 for byte in one), "big") for one in columns] or [1]
    width = max(26**2 * (at >> 16) + 26 * (at >> 8 & 255) + (at & 255) for at in places)
    if width * (max(rows) - min(rows) + 1) > MOST_CELLS:
        raise Malformed(
            f"has cells in {width} columns and {max(rows)} rows; delete those far from the table", field="body"
        )


def _rows_in(sheet: Sequence[Sequence[Any]]) -> tuple[int, int, bool]:
    """Count a sheet's rows with times (0 if only a few have times) and with numbers; say whether it has rows."""
    timed = sum(
        any(isinstance(cell, date) or dialect.kind_of(str(cell)) == "time" for cell in cells[:20]) for cells in sheet
    )
    numbered = sum(any(isinstance(cell, int | float) for cell in cells) for cells in sheet)
    return timed if timed > FEW_TIMES else 0, numbered, len(sheet) > 1


def _of_column(cells: Sequence[Any]) -> Line:
    """Return a column of a workbook as text; in a column of times, a date without a time is read as its midnight."""
    has_clock = any(isinstance(cell, datetime) for cell in cells)
    return [_of_cell(datetime(*cell.timetuple()[:3]) if has_clock and type(cell) is date else cell) for cell in cells]


def text_of(value: Any) -> str:
    """Return a cell of a typed table as text; raises ValueError."""
    return str(value).lower() if isinstance(value, bool) else parquet.text_of(value)


def _of_cell(cell: Any) -> str:
    """Return a cell of a workbook as text; times, stored as fractions of days, are rounded if near a whole second."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        nearest = (cell + timedelta(milliseconds=500)).replace(microsecond=0)
        cell = (nearest if abs(cell - nearest) < timedelta(milliseconds=2) else cell).isoformat()
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    text = str(cell)
    return text.lower() if isinstance(cell, bool) else text


@contextmanager
def arrow(path: Path) -> Iterator[Any]:
    """Yield a reader of an Arrow file or stream, or a Feather file; raises Malformed."""
    try:
        import pyarrow
        from pyarrow import ipc
    except ImportError:
        raise Malformed("is an Arrow file: pip install livesvm[arrow]", field="body") from None
    try:
        with pyarrow.memory_map(str(path)) as source:
            try:
                reader = ipc.open_file(source)
            except pyarrow.ArrowInvalid:
                source.seek(0)
                reader = ipc.open_stream(source)
            yield reader
    except pyarrow.ArrowInvalid as error:
        raise Malformed(f"is no Arrow file that can be read: {error}", field="body") from error


def arrow_rows(path: Path) -> Iterator[Line]:
    """Yield the rows of an Arrow file as text; raises Malformed, or ValueError for cells of other types."""
    import pyarrow

    with arrow(path) as reader:
        for at in range(getattr(reader, "num_record_batches", 2**62)):
            try:
                batch = reader.get_batch(at) if hasattr(reader, "get_batch") else reader.read_next_batch()
            except StopIteration:
                return
            cells = [
                column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
                if pyarrow.types.is_timestamp(column.type)
                else column
                for column in batch.columns
            ]
            yield from map(list, zip(*([*map(text_of, one.to_pylist())] for one in cells), strict=True))


def nem12(file: IO[bytes]) -> Document:
    """Return the readings of an Australian NEM12 file, by register and start time; raises Malformed.

    A row 200 names a meter and a register, a row 300 has the readings of a day, and rows 400 have the quality of parts
    of this day. Times are those of the market, which has no summer time. If a day has several rows, the last one
    counts. Values of quality N are missing.
    """
    days, meter, minutes, day, units = dict[tuple[str, datetime], Line](), "", 0, None, set[str]()
    is_value = re.compile(r"[-+]?[.]?\d").match  # .048 too
    rows = csv_reader(_whole(file).decode("utf-8-sig", "replace").splitlines())
    try:
        for row in rows:
            if row and row[0] == "200":
                meter, minutes = f"{row[1]} {row[4] or row[3]}", int(row[8])
                units.add(row[7])
            elif row and row[0] == "300":
                count = 1440 // minutes
                day = meter, datetime.strptime(row[1], "%Y%m%d")
                quality, has_values = row[count + 2] if len(row) > count + 2 else "", is_value(row[2])
                if has_values and (len(row) < count + 2 or is_value(quality)):
                    raise ValueError(f"{count} numbers are needed")
                days[day] = row[2 : count + 2] if has_values and quality[:1] not in ("", "N") else [""] * count
            elif row and row[0] == "400" and row[3][:1] == "N" and day is not None:
                begin, end = int(row[1]) - 1, int(row[2])
                days[day][begin:end] = [""] * (end - begin)
            elif row and row[0] == "250":
                raise ValueError("it is NEM13, with readings of meters that no one reads at equal times")
    except (ValueError, IndexError, ZeroDivisionError) as error:
        raise Malformed(f"is no whole NEM12 file: line {rows.line_num}: {error}", field="body") from error
    if not days:
        raise Malformed("is a NEM12 file without rows 300", field="body")
    found = [
        [f"{begin + timedelta(days=at / len(cells)):%Y-%m-%dT%H:%M}+10:00", name, cell]
        for (name, begin), cells in sorted(days.items())
        for at, cell in enumerate(cells)
    ]
    return _long(found, {"format": "NEM12, in the market's time, UTC+10", "unit": ", ".join(sorted(units))})


def ghcn_daily(file: IO[bytes]) -> Document:
    """Return the readings of a .dly file of the GHCN, by elements and days; those that fail a check are missing."""
    found = list[Line]()
    for number, line in enumerate(_whole(file).decode("ascii", "replace").splitlines(), 1):
        try:
            first = datetime.strptime(line[11:17], "%Y%m")
            for at in range((first.replace(day=28) + timedelta(days=4)).replace(day=1).toordinal() - first.toordinal()):
                value, failed = int(line[21 + 8 * at : 26 + 8 * at]), line[27 + 8 * at : 28 + 8 * at].strip()
                cell = "" if value == -9999 or failed else str(value)
                found.append([f"{first + timedelta(days=at):%Y-%m-%d}", f"{line[:11]} {line[17:21]}", cell])
        except ValueError as error:
            raise Malformed(f"line {number} is none of a GHCN file: {error}", field="body") from error
    return _long(sorted(found, key=lambda row: row[1]), {"format": "GHCN daily"})


def line_protocol(file: IO[bytes]) -> Document:
    """Return the numbers of a file in InfluxDB's line protocol, by measurement, tags and field; raises Malformed."""
    rows = list[Line]()
    for number, line in enumerate(_whole(file).decode("utf-8", "replace").splitlines(), 1):
        if not line.strip() or line.startswith(("#", "CREATE DATABASE")):
            continue
        found = _POINT.fullmatch(line.strip())
        if found is None or found["time"] is None:
            raise Malformed(f"line {number} is no point with a time in InfluxDB's line protocol", field="body")
        for name, value in _FIELD.findall(found["fields"]):
            if dialect.kind_of(plain := value.rstrip("iu")) == "number":
                rows.append([found["time"], f"{found['series']} {name}".replace("\\", ""), plain])
    return _long(rows, {"format": "InfluxDB's line protocol"})


def _long(rows: list[Line], said: dict[str, Any]) -> Document:
    """Return a table of times and values, with a column of series if there are several series."""
    if len({name for _, name, _ in rows}) > 1:
        return Document([*LONG], rows, said)
    return Document(["time", "value"], [[time, value] for time, _, value in rows], said)


STANDARDS = (
    (re.compile(rb"100,NEM1[23],|200,[^,\n]*,[A-Z]\w*,"), nem12),
    (
        re.compile(
            rb"# DDL\r?\n|[\w./:-]+(,[\w./: \\-]+=[^\s,]+)* [\w./: \\-]+"
            rb"=(-?\d[\d.eE+-]*[iu]?|[tfTF]|\")[^\n]* \d{9,19}\r?\n"
        ),
        line_protocol,
    ),
    (re.compile(rb"[A-Z]{2}[\w-]{9}[12]\d{5}[A-Z][A-Z0-9]{3}[ -]"), ghcn_daily),
)
"""Patterns of the first bytes of files in named standards, and their readers."""
