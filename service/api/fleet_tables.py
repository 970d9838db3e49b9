"""Forecasts of many series as CSV and as Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from livesvm.service.errors import NotAcceptable
from livesvm.service.fleets.presenter import COLUMNS

PARQUET = "application/vnd.apache.parquet"
_NUMBERS = ("value", "low", "high")


def csv_of(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a row of names, then a row each; what is not there is empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def parquet_of(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the same as a Parquet file; raises NotAcceptable where pyarrow is not installed."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise NotAcceptable("parquet needs livesvm[parquet] where the service runs") from None
    kinds = {name: pa.float64() if name in _NUMBERS else pa.string() for name in COLUMNS} | {"step": pa.int64()}
    if any(not isinstance(row["time"], str | None) for row in rows):
        kinds["time"] = pa.float64()
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()
