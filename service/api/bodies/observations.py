"""Rows of readings from request bodies: JSON, CSV with a row of names, npz with an array a column."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import Request
from pydantic_core import from_json

from livesvm.service.api.bodies import json_bounds
from livesvm.service.api.bodies.reading import JSON, NPZ, Body, read_body, unpacked, well_formed
from livesvm.service.errors import MalformedBody, UnsupportedMedia
from livesvm.service.feeds.cells import cell, rows_of
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.files import csv_text
from livesvm.solvers.errors import InvalidInput

CSV = "text/csv"
MEDIA = {JSON: JSON, NPZ: NPZ, "application/zip": NPZ, CSV: CSV}
MOST_ROWS = 10_000
"""Rows of one call."""
MOST_COLUMNS = 512
LONGEST_NAME = 128
BYTES_A_CELL = 200
"""Memory that a cell takes at most while a table is read, besides its text."""
BYTES_A_LETTER = 8
"""Memory that a byte of a table's text takes: as a text of any letters, and once more while lines are read."""

_ENDS = re.compile(rb'"\s*:')
"""Ends of names, and of what looks like one in a string."""
Row = dict[str, Any]


async def read_rows(request: Request) -> Body:
    """Read a body of rows; raises as :func:`~livesvm.service.api.bodies.reading.read_body`."""
    return await read_body(request, MEDIA)


def parse_backtest(body: Body, spec: FeedSpec) -> tuple[list[Row] | None, Row]:
    """Return the rows of a backtest, or None for those that the feed holds, and its settings, of a body of JSON."""
    if body.media != JSON:
        return parse_rows(body, spec), {}
    with body.memory(json_bounds.parsed_bytes(body.data, BYTES_A_CELL)):
        document = _object(body, {"rows", "settings"})
        rows, settings = document.get("rows"), document.get("settings") or {}
        if not isinstance(settings, dict):
            raise InvalidInput("must be an object of settings", field="settings")
        if rows is not None:
            checked_rows(rows)
        _check_once(body, document)
        return rows, settings


def _object(body: Body, allowed: set[str]) -> Row:
    try:
        document = from_json(body.data)
    except ValueError as error:
        raise MalformedBody(str(error)) from None
    if not isinstance(document, dict) or not document.keys() <= allowed:
        raise InvalidInput(f"must be an object with {' and '.join(sorted(allowed))}", field="body")
    return document


def parse_rows(body: Body, spec: FeedSpec) -> list[Row]:
    """Return the rows of a body; raises MalformedBody, UnsupportedMedia, BodyTooLarge or InvalidInput."""
    readers = {JSON: _json_rows, CSV: _csv_rows, NPZ: _npz_rows}
    if body.media not in readers:
        raise UnsupportedMedia(f"this call reads {', '.join(readers)}")
    rows = readers[body.media](body, spec)
    if not 0 < len(rows) <= MOST_ROWS:
        raise InvalidInput(f"holds {len(rows)} rows; a call has 1 to {MOST_ROWS}", field="rows")
    return rows


def parse_announcements(body: Body, spec: FeedSpec) -> list[Row]:
    """Return the rows of a body as announcements: times and known columns alone; raises as :func:`parse_rows`."""
    if not spec.known:
        raise InvalidInput("the feed has no known columns to announce", field="known")
    rows = parse_rows(body, spec)
    wanted = (*([] if spec.time is None else [spec.time]), *spec.known)
    for number, row in enumerate(rows):
        if row.get(spec.target) is not None:
            raise InvalidInput("is a reading; announcements hold known columns alone", field=spec.target, row=number)
    return [{name: row[name] for name in wanted if name in row} for row in rows]


def checked_rows(rows: Any, name: str = "rows") -> list[Row]:
    """Return rows as JSON has them, each an object of numbers and strings; raises InvalidInput with row and column."""
    if not isinstance(rows, list):
        raise InvalidInput("must be a list of rows, each an object", field=name)
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or not 0 < len(row) <= MOST_COLUMNS:
            raise InvalidInput(f"must be an object of 1 to {MOST_COLUMNS} columns", field=name, row=number)
        for column, value in row.items():
            if isinstance(value, list | dict) or len(column) > LONGEST_NAME:
                raise InvalidInput("must be a number, under a short name", field=column[:LONGEST_NAME], row=number)
    return rows


def _check_once(body: Body, document: Row) -> None:
    """Raise InvalidInput if a name stands twice in an object, by row and column."""
    fields = _fields(document)
    if len(_ENDS.findall(body.data)) == fields or sum(1 for _ in json_bounds.names(body.data)) == fields:
        return
    with body.memory(json_bounds.parsed_bytes(body.data, BYTES_A_CELL)):
        for name, value in json.loads(body.data, object_pairs_hook=list):
            objects = enumerate(value or []) if name == "rows" else [(None, value or [])]
            for row, pairs in objects:
                if (again := csv_text.twice([column for column, _ in pairs])) is not None:
                    raise InvalidInput("stands twice", field=again, row=row)
        raise InvalidInput("a name stands twice", field="body")


def _fields(value: Any) -> int:
    """Return how many names the objects of a document have; those in lists hold no others."""
    if isinstance(value, list):
        return sum(len(one) for one in value if isinstance(one, dict))
    return len(value) + sum(map(_fields, value.values())) if isinstance(value, dict) else 0


def _json_rows(body: Body, spec: FeedSpec) -> list[Row]:
    return json_rows(body, MOST_ROWS)


def json_rows(body: Body, most_rows: int) -> list[Row]:
    """Return the rows of ``{"rows": [{..}, ..]}``; raises MalformedBody or InvalidInput."""
    with body.memory(json_bounds.parsed_bytes(body.data, BYTES_A_CELL)):
        document = _object(body, {"rows"})
        rows = checked_rows(document.get("rows"))
        _check_once(body, document)
        return rows


def _csv_rows(body: Body, spec: FeedSpec) -> list[Row]:
    with csv_table(body, MOST_ROWS) as (names, lines):
        return [{name: cell(text, name == spec.time) for name, text in zip(names, line, strict=True)} for line in lines]


@contextmanager
def csv_table(body: Body, most_rows: int) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield the names of a CSV's columns, and its rows, with memory for them inside; raises as :func:`parse_rows`."""
    ends = [body.data.count(end) for end in (b"\n", b"\r")]  # either ends a line
    if max(ends) > most_rows + 1:
        raise InvalidInput(f"holds more than {most_rows} rows", field="rows")
    cells = body.data.count(b",") + sum(ends) + 1
    with body.memory(BYTES_A_LETTER * len(body.data) + BYTES_A_CELL * cells):
        try:
            with well_formed():
                names, lines = csv_text.named(io.StringIO(body.data.decode("utf-8-sig"), newline=""))
                table = list(lines)
        except UnicodeDecodeError as error:
            raise MalformedBody(f"the body is no text in UTF-8: {error}") from None
        if len(names) > MOST_COLUMNS:
            raise InvalidInput(f"has {len(names)} names, the limit is {MOST_COLUMNS}", field="rows")
        yield names, table


def _npz_rows(body: Body, spec: FeedSpec) -> list[Row]:
    found = npz_columns(body, (*spec.columns, *([] if spec.time is None else [spec.time])), MOST_ROWS)
    return rows_of(found) if found else []


def npz_columns(body: Body, names: Iterable[str], most_rows: int) -> dict[str, list[Any]]:
    """Return the columns of an npz file, by name; raises as :func:`parse_rows`."""
    with unpacked(body, frozenset(names)) as found:
        for name, array in found.items():
            if array.ndim != 1 or len(array) != len(next(iter(found.values()))) or len(array) > most_rows:
                raise InvalidInput(f"must be one column of at most {most_rows} rows, as long as others", field=name)
        with body.memory(BYTES_A_CELL * sum(len(array) for array in found.values())):  # one byte may be a cell
            return {name: array.tolist() for name, array in found.items()}
