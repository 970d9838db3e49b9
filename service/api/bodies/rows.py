"""Parsing of readings in request bodies, which are JSON, CSV, npz or Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import Request
from pydantic_core import from_json

from livesvm.service.api.bodies.reading import JSON, NPZ, Body, names, parsed_bytes, read_body, unpacked, well_formed
from livesvm.service.errors import BodyTooLarge, MalformedBody
from livesvm.service.feeds.cells import cell
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.files import csv_text, parquet
from livesvm.service.fleets.spec import FleetSpec
from livesvm.service.fleets.split import Table
from livesvm.service.resources.memory import MEGABYTE
from livesvm.solvers.errors import InvalidInput

CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
MEDIA = {JSON: JSON, NPZ: NPZ, "application/zip": NPZ, CSV: CSV, PARQUET: PARQUET}
MOST_ROWS = 10_000
"""Largest number of rows in one call to a feed."""
MOST_FLEET_ROWS = 200_000
"""Largest number of rows in one call to a fleet."""
MOST_COLUMNS = 512
LONGEST_NAME = 256
BYTES_A_CELL = 200
"""Largest number of bytes that a cell takes while a table is read, in addition to its text."""
BYTES_A_LETTER = 8
"""Bytes of memory for a byte of a table's text: a character of a string, held twice while lines are read."""
PARQUET_MB = 64
"""Largest memory, in MB, for unpacking a Parquet file."""
BLOCK = 2**16
"""Number of cells of a Parquet file that are read at a time."""

Row = dict[str, Any]
Columns = dict[str, list[Any]]


async def read_rows(request: Request) -> Body:
    """Receive a body of rows; raises the errors of :func:`~livesvm.service.api.bodies.reading.read_body`."""
    return await read_body(request, MEDIA)


def parse_rows(body: Body, spec: FeedSpec) -> list[Row]:
    """Parse the rows in the body of a call to a feed; raises the errors of :func:`parse_table`."""
    return parse_table(body, spec, MOST_ROWS).rows()


def parse_table(body: Body, spec: FeedSpec, most_rows: int = MOST_FLEET_ROWS) -> Table:
    """Parse the rows in a body; raises MalformedBody, UnsupportedMedia, BodyTooLarge, MemoryBusy or InvalidInput."""
    if body.media == JSON:
        table = Table(_document(body, {"rows"})["rows"])
    else:
        table = Table(columns=_READERS[body.media](body, spec, most_rows))
    if not 0 < len(table) <= most_rows:
        raise InvalidInput(f"holds {len(table)} rows; a call has 1 to {most_rows}", field="rows")
    return table


def parse_announcements(body: Body, spec: FeedSpec) -> list[Row]:
    """Parse rows that announce values of known columns for times; raises the errors of :func:`parse_rows`."""
    if not spec.known:
        raise InvalidInput("the feed has no known columns to announce", field="known")
    rows = parse_rows(body, spec)
    wanted = (*([] if spec.time is None else [spec.time]), *spec.known)
    for number, row in enumerate(rows):
        if row.get(spec.target) is not None:
            raise InvalidInput("is a reading; announcements hold known columns alone", field=spec.target, row=number)
    return [{name: row[name] for name in wanted if name in row} for row in rows]


def parse_backtest(body: Body, spec: FeedSpec) -> tuple[list[Row] | None, Row]:
    """Return the rows and the settings of a backtest; without rows (None), the feed's own readings are used."""
    if body.media != JSON:
        return parse_rows(body, spec), {}
    document = _document(body, {"rows", "settings"})
    rows, settings = document.get("rows"), document.get("settings") or {}
    if not isinstance(settings, dict):
        raise InvalidInput("must be an object of settings", field="settings")
    if rows is not None and len(rows) > MOST_ROWS:
        raise InvalidInput(f"holds {len(rows)} rows; a call has at most {MOST_ROWS}", field="rows")
    return rows, settings


def _document(body: Body, allowed: set[str]) -> Row:
    """Parse a JSON body, and check its ``rows``, which may be absent only if ``allowed`` contains ``settings``."""
    with body.memory(parsed_bytes(body.data, BYTES_A_CELL)):
        try:
            document: Any = from_json(body.data)
        except ValueError as error:
            raise MalformedBody(str(error)) from None
        if not isinstance(document, dict) or not document.keys() <= allowed:
            raise InvalidInput(f"must be an object with {' and '.join(sorted(allowed))}", field="body")
        if (rows := document.get("rows")) is not None or "settings" not in allowed:
            _check_rows(rows)
        _check_once(body, document)
        return document


def _check_rows(rows: Any) -> None:
    """Raise InvalidInput with row and column unless every row is an object without nested lists or objects."""
    if not isinstance(rows, list):
        raise InvalidInput("must be a list of rows, each an object", field="rows")
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or not 0 < len(row) <= MOST_COLUMNS:
            raise InvalidInput(f"must be an object of 1 to {MOST_COLUMNS} columns", field="rows", row=number)
        for column, value in row.items():
            if isinstance(value, list | dict) or len(column) > LONGEST_NAME:
                raise InvalidInput("must be a number, under a short name", field=column[:LONGEST_NAME], row=number)


def _check_once(body: Body, document: Row) -> None:
    """Raise InvalidInput with row and column if an object in a JSON body has two fields of the same name."""
    # The parser keeps one of two values with the same name: then the document has fewer names than the text.
    fields = _fields(document)
    ends = body.data.translate(None, b" \t\r\n").count(b'":')  # of names, and of what looks like one in a string
    if ends == fields or sum(1 for _ in names(body.data)) == fields:
        return
    with body.memory(parsed_bytes(body.data, BYTES_A_CELL)):
        for name, value in json.loads(body.data, object_pairs_hook=list):
            objects = enumerate(value or []) if name == "rows" else [(None, value or [])]
            for row, pairs in objects:
                if (again := csv_text.twice([column for column, _ in pairs])) is not None:
                    raise InvalidInput("stands twice", field=again, row=row)
        raise InvalidInput("a name stands twice", field="body")


def _fields(value: Any) -> int:
    """Count the fields of all objects in a parsed document; objects in lists must not contain further objects."""
    if isinstance(value, list):
        return sum(len(one) for one in value if isinstance(one, dict))
    return len(value) + sum(map(_fields, value.values())) if isinstance(value, dict) else 0


def _csv_columns(body: Body, spec: FeedSpec, most_rows: int) -> Columns:
    """Parse the columns of a CSV body: names of series and times stay text, other cells become numbers if possible."""
    ends = [body.data.count(end) for end in (b"\n", b"\r")]  # either ends a line
    if max(ends) > most_rows + 1:
        raise InvalidInput(f"holds more than {most_rows} rows", field="rows")
    cells = body.data.count(b",") + sum(ends) + 1
    with body.memory(BYTES_A_LETTER * len(body.data) + BYTES_A_CELL * cells), well_formed():
        names, rows = csv_text.named(io.StringIO(body.data.decode("utf-8-sig"), newline=""))
        check_width(names)
        columns = ((name, [row[at] for row in rows]) for at, name in enumerate(names if rows else ()))
        series = spec.series if isinstance(spec, FleetSpec) else None
        return {
            name: [text.strip() or None for text in texts]
            if name == series
            else [cell(text, name == spec.time) for text in texts]
            for name, texts in columns
        }


def _npz_columns(body: Body, spec: FeedSpec, most_rows: int) -> Columns:
    names = {*spec.columns, spec.time, spec.series if isinstance(spec, FleetSpec) else None} - {None}
    with unpacked(body, frozenset(filter(None, names))) as found:
        for name, array in found.items():
            if array.ndim != 1 or len(array) != len(next(iter(found.values()))) or len(array) > most_rows:
                raise InvalidInput(f"must be one column of at most {most_rows} rows, as long as others", field=name)
        with body.memory(BYTES_A_CELL * sum(len(array) for array in found.values())):  # one byte may be a cell
            return {name: array.tolist() for name, array in found.items()}


def _parquet_columns(body: Body, spec: FeedSpec, most_rows: int) -> Columns:
    return parquet_columns(body, most_rows)


def parquet_columns(body: Body, most_rows: int, also: Collection[str] = ()) -> Columns:
    """Parse the columns of a Parquet body: numbers, text, times as ISO 8601 text, and columns of the types in ``also``.

    The text of a time without a time zone has no time zone either. Raises MalformedBody, UnsupportedMedia,
    BodyTooLarge, MemoryBusy or InvalidInput.
    """
    with TemporaryDirectory() as directory, body.memory(PARQUET_MB * MEGABYTE), ExitStack() as held, well_formed():
        path = Path(directory) / "body.parquet"
        path.write_bytes(body.data)
        with parquet.opened(path, PARQUET_MB, most_rows + 1) as table:
            check_width(table.kinds)
            for name, kind in table.kinds.items():
                if kind not in (*parquet.KINDS.values(), *also):
                    raise InvalidInput(f"holds {kind[:64]}, neither numbers, text nor times", field=name[:64])
            size, _ = table.text_sizes()
            if size > body.limit:
                raise BodyTooLarge(f"the texts have {size} bytes in all cells, the limit is {body.limit}")
            held.enter_context(body.memory(3 * size))
            rows: list[Any] = []
            for block in table.blocks(max(1, BLOCK // len(table.kinds))):
                held.enter_context(body.memory(BYTES_A_CELL * len(block) * len(table.kinds)))
                rows += block
        if len(rows) > most_rows:
            raise InvalidInput(f"holds more than {most_rows} rows", field="rows")
        kinds = enumerate(table.kinds.items())
        return {
            name: [_shown(row[at]) for row in rows] if kind == "time" else [row[at] for row in rows]
            for at, (name, kind) in kinds
        }


def _shown(time: date | str | None) -> str | None:
    """Convert a time to ISO 8601 text; DuckDB itself returns text for years that Python's dates cannot have."""
    return time.isoformat() if isinstance(time, date) else time


def check_width(names: Collection[str]) -> None:
    """Raise InvalidInput if a table has too many columns."""
    if len(names) > MOST_COLUMNS:
        raise InvalidInput(f"has {len(names)} columns, the limit is {MOST_COLUMNS}", field="rows")


_READERS: dict[str, Callable[[Body, FeedSpec, int], Columns]] = {
    CSV: _csv_columns,
    NPZ: _npz_columns,
    PARQUET: _parquet_columns,
}
