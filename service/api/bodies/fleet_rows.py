"""Rows of many series from request bodies: JSON, CSV, npz with an array a column, or Parquet."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from livesvm.service.api.bodies import parquet
from livesvm.service.api.bodies.observations import CSV, csv_table, json_rows, npz_columns
from livesvm.service.api.bodies.reading import JSON, NPZ, Body, read_body
from livesvm.service.errors import UnsupportedMedia
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
    with csv_table(body, MOST_ROWS) as (names, rows):
        return Table(columns={name: _cells(name, [row[at] for row in rows], spec) for at, name in enumerate(names)})


def _cells(name: str, texts: list[str], spec: FleetSpec) -> list[Any]:
    """Return the cells of a column: names of series as they stand, times as text, else numbers where they are."""
    if name == spec.series:
        return [text.strip() or None for text in texts]
    return [cell(text, name == spec.time) for text in texts]


def _of_npz(body: Body, spec: FleetSpec) -> Table:
    names = (spec.series, *spec.columns, *([] if spec.time is None else [spec.time]))
    return Table(columns=npz_columns(body, names, MOST_ROWS))


def _of_parquet(body: Body, spec: FleetSpec) -> Table:
    return Table(columns=parquet.columns(body, MOST_ROWS))
