"""Conversion of forecasts of many series to CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from livesvm.service.api.arrow import is_text
from livesvm.service.errors import NotAcceptable
from livesvm.service.feeds.cells import inert
from livesvm.service.files import parquet
from livesvm.service.fleets.presenter import COLUMNS

MEMORY_MB = 256
"""Largest memory, in MB, for writing a Parquet file."""


def csv_of(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return forecasts as CSV with a first row of column names; missing values become empty cells."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    writer.writerows({name: inert(row[name]) for name in COLUMNS} for row in rows)
    return out.getvalue().encode()


def parquet_of(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return forecasts as a Parquet file; raises NotAcceptable if DuckDB is not installed."""
    if not parquet.is_there():
        raise NotAcceptable("parquet needs livesvm[parquet] where the service runs")
    columns = {name: np.array([row[name] for row in rows], object) for name in COLUMNS}
    typed = ", ".join(f'cast("{name}" as {_type(rows, name)}) as "{name}"' for name in COLUMNS)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "answer.parquet"
        with parquet.connected(path, MEMORY_MB) as connection:
            connection.register("forecasts", columns)
            connection.execute(f"copy (select {typed} from forecasts) to {parquet.quoted(path)} (format parquet)")
        return path.read_bytes()


def _type(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """Return the DuckDB type for a column of forecasts."""
    if name == "step":
        return "bigint"
    return "varchar" if is_text(rows, name) else "double"
