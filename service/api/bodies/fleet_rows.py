"""Rows of many series from request bodies: JSON, CSV, npz with an array a column, or Parquet."""

from __future__ import annotations

import csv
import io
from typing import Any

from fastapi import Request

from livesvm.service.api.bodies import npz
from livesvm.service.api.bodies.observations import BYTES_A_CELL, CSV, MOST_COLUMNS, json_rows, named_once
from livesvm.service.api.bodies.reading import JSON, NPZ, Body, read_body
from livesvm.service.errors import MalformedBody, UnsupportedMedia
from livesvm.service.feeds.cells import cell
from livesvm.service.fleets.spec import FleetSpec
from livesvm.service.fleets.split import Table
from livesvm.solvers.errors import InvalidInput

PARQUET = "application/vnd.apache.parquet"
MEDIA = {JSON: JSON, NPZ: NPZ, "application/zip": NPZ, CSV: CSV, PARQUET: PARQUET}
MOST_ROWS = 200_000
"""Rows of one call."""


async def read_fleet_rows(request: Request) -> Body:
    """Read a body of rows; raises as :func:`~livesvm.service.api.bodies.reading.read_body`."""
    return await read_body(request, MEDIA)


def parse_table(body: Body, spec: FleetSpec) -> Table:
    """Return the rows of a body; raises MalformedBody, UnsupportedMedia, BodyTooLarge or InvalidInput."""
    readers = {JSON: _of_json, CSV: _of_csv, NPZ: _of_npz, PARQUET: _of_parquet}
    if body.media not in readers:
        raise UnsupportedMedia(f"this call reads {', '.join(readers)}")
    table = readers[body.media](body, spec)
    if not 0 < len(table) <= MOST_ROWS:
        raise InvalidInput(f"holds {len(table)} rows; a call has 1 to {MOST_ROWS}", field="rows")
    return table


def _of_json(body: Body, spec: FleetSpec) -> Table:
    return Table(json_rows(body, MOST_ROWS))


def _of_csv(body: Body, spec: FleetSpec) -> Table:
    lines = body.data.count(b"\n")
    if lines > MOST_ROWS + 1:
        raise InvalidInput(f"holds more than {MOST_ROWS} rows", field="rows")
    cells = body.data.count(b",") + lines + 1
    with body.memory(2 * len(body.data) + BYTES_A_CELL * cells):
        try:
            table = [line for line in csv.reader(io.StringIO(body.data.decode("utf-8-sig"), newline="")) if line]
        except (UnicodeDecodeError, csv.Error, ValueError) as error:
            raise MalformedBody(f"the body is no CSV with a row of names: {error}") from None
        names, rows = named_once(table)
        return Table(columns={name: _cells(name, [row[at] for row in rows], spec) for at, name in enumerate(names)})


def _cells(name: str, texts: list[str], spec: FleetSpec) -> list[Any]:
    """Return the cells of a column: names of series as they stand, times as text, else numbers where they are."""
    if name == spec.series:
        return [text.strip() or None for text in texts]
    return [cell(text, name == spec.time) for text in texts]


def _of_npz(body: Body, spec: FleetSpec) -> Table:
    names = frozenset((spec.series, *spec.columns, *([] if spec.time is None else [spec.time])))
    with body.memory(npz.READING * min(body.limit, npz.declared_bytes(body.data, names))):
        found = npz.npz_arrays(body.data, names, body.limit)
        for name, array in found.items():
            if array.ndim != 1 or len(array) != len(next(iter(found.values()))):
                raise InvalidInput("must be one column, as long as others", field=name)
        return Table(columns={name: array.tolist() for name, array in found.items()})


def _of_parquet(body: Body, spec: FleetSpec) -> Table:
    """Return columns of numbers, texts and times; a time without a zone is reported without one."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise UnsupportedMedia("parquet needs livesvm[parquet] where the service runs") from None
    try:
        with parquet.ParquetFile(io.BytesIO(body.data)) as file:
            _check_size(file.metadata, body)
            with body.memory(BYTES_A_CELL * file.metadata.num_rows * max(1, file.metadata.num_columns)):
                table = file.read()
                return Table(columns={name: _listed(pa, name, table[name]) for name in table.column_names})
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError, UnicodeDecodeError) as error:
        raise MalformedBody(f"the body is not a parquet file: {str(error)[:128]}") from error


def _check_size(metadata: Any, body: Body) -> None:
    if metadata.num_columns > MOST_COLUMNS:
        raise InvalidInput(f"has {metadata.num_columns} columns, the limit is {MOST_COLUMNS}", field="rows")
    if metadata.num_rows > MOST_ROWS:
        raise InvalidInput(f"holds more than {MOST_ROWS} rows", field="rows")
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    if size > body.limit:
        raise InvalidInput(f"has {size} bytes when unpacked, the limit is {body.limit}", field="rows")


def _listed(pa: Any, name: str, column: Any) -> list[Any]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return [None if one is None else one.isoformat() for one in column.to_pylist()]
    is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    if not (is_number or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InvalidInput(f"holds {kind}, neither numbers, text nor times", field=name[:64])
    found: list[Any] = column.to_pylist()
    return found
