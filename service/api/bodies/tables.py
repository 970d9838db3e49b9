"""Parsing of tables in request bodies, for models with columns: CSV, NDJSON, Parquet or Arrow."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from pydantic_core import from_json

from livesvm.service.api.bodies import reading, updates
from livesvm.service.api.bodies.reading import Body, parsed_bytes, well_formed
from livesvm.service.api.bodies.rows import (
    ARROW,
    BYTES_A_CELL,
    BYTES_A_LETTER,
    CSV,
    PARQUET,
    check_width,
    parquet_columns,
)
from livesvm.service.api.bodies.updates import NDJSON, Updates
from livesvm.service.api.requests import MOST_UPDATES
from livesvm.service.errors import BodyTooLarge, MalformedBody, UnsupportedMedia
from livesvm.service.files import arrow_table, csv_text
from livesvm.service.models import arrays, table_rows
from livesvm.service.models.arrays import Rows
from livesvm.service.models.fields import check_weights
from livesvm.service.models.table_rows import TableRows
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.change import Batch, Change
from livesvm.solvers.models.repeats import OnRepeat

ARROW_FILE = "application/vnd.apache.arrow.file"
TABLES_OF_MANY = (CSV, PARQUET, ARROW, ARROW_FILE)
"""Media types of tables with examples of many models; NDJSON is left out, as each of its lines is an update."""
TABLES = (*TABLES_OF_MANY, NDJSON)
ROLES = ("target", "keys", "weights", "times")
MEDIA = reading.MEDIA | {"application/jsonl": NDJSON} | {media: media for media in TABLES}
MOST_ROWS = 10**6
"""Largest number of rows in a Parquet or Arrow file; a few bytes of such a file may encode many rows."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Roles:
    """Names of the columns of a table that hold targets, keys, weights and times; all other columns are features."""

    target: str | None = None
    keys: str | None = None
    weights: str | None = None
    times: str | None = None
    on_repeat: OnRepeat = "refuse"


NONE = Roles()


def parse_predict(body: Body) -> Rows | TableRows:
    """Parse rows to predict; raises the errors of :func:`~livesvm.service.api.bodies.reading.parse_predict`."""
    return table_rows.checked(_rows(body)) if body.media in TABLES else reading.parse_predict(body)


def parse_update(body: Body, roles: Roles) -> Change:
    """Parse an update of a model; a table holds examples to add.

    Raises
    ------
    InvalidInput : with the row and column of the fault, or the role that a column cannot have
    MalformedBody, UnsupportedMedia, BodyTooLarge, MemoryBusy
    """
    if body.media in TABLES:
        return _update(_rows(body), roles, is_text=body.media == CSV)
    if roles != NONE:
        _refuse(roles, TABLES)
    return reading.parse_update(body)


def parse_updates(body: Body, roles: Roles, model: str | None) -> Updates:
    """Parse updates of many models; each row of a table is an example for the model that its cell ``model`` names.

    If a column has only missing cells in a model's rows, that model's update does not contain the column. Row numbers
    in errors begin with 0 at the first row of the model that the error is about. Raises the errors of
    :func:`parse_update`.
    """
    if body.media not in TABLES_OF_MANY:
        _refuse(roles, TABLES_OF_MANY, *([] if model is None else ["model"]))
        return updates.parse_updates(body)
    rows = _rows(body)
    ids = _taken(rows, model or "model", "model", lambda cells: cells, False)
    by_model: dict[str, list[Row]] = {}
    for at, (id_, row) in enumerate(zip(ids, rows, strict=True)):
        if not isinstance(id_, str):
            raise InvalidInput("must be the id of a model", field="model", row=at)
        by_model.setdefault(id_, []).append(row)
    if len(by_model) > MOST_UPDATES:
        raise InvalidInput(f"names {len(by_model)} models, a call has at most {MOST_UPDATES}", field="model")
    found = Updates({}, {}, list(by_model))
    for id_, own in by_model.items():
        there = {name for row in own for name, cell in row.items() if cell is not None}
        theirs = [{name: cell for name, cell in row.items() if name in there} for row in own]
        try:
            found.updates[id_] = _update(theirs, roles, is_text=body.media == CSV)
        except InvalidInput as error:
            found.errors[id_] = error
    return found


def _refuse(roles: Roles, tables: Sequence[str], *others: str) -> None:
    """Raise InvalidInput if the query gives a role to a column although the body is not a table."""
    for name in (*others, *(name for name in ROLES if getattr(roles, name) is not None)):
        raise InvalidInput(f"names a column of a table; send one of {', '.join(tables)}", field=name)


def _update(rows: list[Row], roles: Roles, *, is_text: bool) -> Change:
    y = _taken(rows, roles.target, "target", arrays.targets, is_text)
    keys = _taken(rows, roles.keys, "keys", arrays.row_keys, False)
    weights = _taken(rows, roles.weights, "weights", _weights, is_text)
    times = _taken(rows, roles.times, "times", arrays.times, is_text)
    batch = Batch(table_rows.checked(rows), y, keys, weights, times)
    return Change(batch, on_repeat=roles.on_repeat)


def _weights(cells: Any) -> arrays.Vector:
    return check_weights(arrays.vector(cells, "weights"))


def _taken(rows: list[Row], name: str | None, field: str, read: Callable[[Any], Any], is_text: bool) -> Any:
    """Remove column ``name`` from the rows, and return its cells, converted by ``read``; None if ``name`` is None."""
    if name is None:
        return None
    if not any(name in row for row in rows):
        raise InvalidInput(f"the table has no column {name[:64]!r}", field=field)
    cells = [row.pop(name, None) for row in rows]
    try:
        return read(_numbers(cells) if is_text else cells)
    except InvalidInput as error:
        raise InvalidInput(error.reason, field=field, row=error.row, name=name) from None


def _numbers(cells: Sequence[str | None]) -> Sequence[Any]:
    """Convert texts to integers if all are integers, or to floats if all are numbers; otherwise change nothing."""
    for kind in (int, float):
        try:
            return [kind(cell or "") for cell in cells]
        except ValueError:
            continue
    return cells


def _rows(body: Body) -> list[Row]:
    rows = _READERS[body.media](body)
    if not rows:
        raise InvalidInput("has no row below the names of columns", field="rows")
    return rows


def _csv(body: Body) -> list[Row]:
    cells = sum(map(body.data.count, (b",", b";", b"\t", b"\n", b"\r"))) + 1
    with body.memory(BYTES_A_LETTER * len(body.data) + BYTES_A_CELL * cells), well_formed():
        names, rows = csv_text.named(io.StringIO(body.data.decode("utf-8-sig"), newline=""))
        return [{name: cell.strip() or None for name, cell in zip(names, row, strict=True)} for row in rows]


def _ndjson(body: Body) -> list[Row]:
    rows: list[Row] = []
    with body.memory(parsed_bytes(body.data, BYTES_A_CELL)):
        for line in filter(bytes.strip, body.data.splitlines()):
            try:
                row = from_json(line)
            except ValueError as error:
                raise MalformedBody(f"row {len(rows)}: {error}") from None
            if not isinstance(row, dict):
                raise InvalidInput("must be an object with a cell by name", field="rows", row=len(rows))
            is_flat = not any(isinstance(cell, dict | list) for cell in row.values())  # others are refused by name
            if is_flat and sum(1 for _ in reading.names(line)) != len(row):
                raise InvalidInput("a name stands twice", field="rows", row=len(rows))
            rows.append(row)
    return rows


def _parquet(body: Body) -> list[Row]:
    return _by_row(parquet_columns(body, MOST_ROWS, also=("boolean",)))


def _arrow(body: Body) -> list[Row]:
    if find_spec("pyarrow") is None:
        raise UnsupportedMedia("Arrow needs livesvm[arrow] where the service runs")
    with well_formed():
        unpacked = arrow_table.unpacked_bytes(body.data)
        if unpacked > body.limit:
            raise BodyTooLarge(f"the table has more than {body.limit} bytes when unpacked")
        with body.memory(unpacked):
            table = arrow_table.table_of(body.data, unpacked, MOST_ROWS)
            check_width(table.column_names)
            cells = BYTES_A_CELL * table.num_rows * table.num_columns
            with body.memory(cells + BYTES_A_LETTER * arrow_table.text_bytes(table)):
                return _by_row(arrow_table.columns_of(table))


def _by_row(columns: dict[str, list[Any]]) -> list[Row]:
    """Return the rows of a table that is given as columns; NaN becomes a missing cell."""
    rows = zip(*columns.values(), strict=True)
    return [{name: cell if cell == cell else None for name, cell in zip(columns, row, strict=True)} for row in rows]


_READERS: dict[str, Callable[[Body], list[Row]]] = {
    CSV: _csv,
    NDJSON: _ndjson,
    PARQUET: _parquet,
    ARROW: _arrow,
    ARROW_FILE: _arrow,
}
