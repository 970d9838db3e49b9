"""Parquet files in request bodies."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from livesvm.service.api.bodies.observations import BYTES_A_CELL, MOST_COLUMNS
from livesvm.service.api.bodies.reading import Body, well_formed
from livesvm.service.errors import BodyTooLarge
from livesvm.service.files import parquet
from livesvm.service.resources.memory import MEGABYTE
from livesvm.solvers.errors import InvalidInput

MEMORY_MB = 64
"""That unpacking may take."""
BLOCK = 2**16
"""Cells that are read at once."""


def columns(body: Body, most_rows: int) -> dict[str, list[Any]]:
    """Return columns of numbers, texts and times; a time without a zone is reported without one.

    Raises MalformedBody, UnsupportedMedia, BodyTooLarge, MemoryBusy, or InvalidInput with the column.
    """
    with TemporaryDirectory() as directory, body.memory(MEMORY_MB * MEGABYTE), ExitStack() as held, well_formed():
        path = Path(directory) / "body.parquet"
        path.write_bytes(body.data)
        with parquet.opened(path, MEMORY_MB, most_rows + 1) as table:
            _check_kinds(table)
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
        found = dict(zip(table.kinds, zip(*rows, strict=True), strict=True)) if rows else {}
        return {name: _listed(cells, table.kinds[name]) for name, cells in found.items()}


def _check_kinds(table: parquet.Table) -> None:
    if len(table.kinds) > MOST_COLUMNS:
        raise InvalidInput(f"has {len(table.kinds)} columns, the limit is {MOST_COLUMNS}", field="rows")
    for name, kind in table.kinds.items():
        if kind not in parquet.KINDS.values():
            raise InvalidInput(f"holds {kind[:64]}, neither numbers, text nor times", field=name[:64])


def _listed(cells: Iterable[Any], kind: str) -> list[Any]:
    return [None if cell is None else cell.isoformat() for cell in cells] if kind == "time" else list(cells)
