"""Forecasts of many series as CSV and as Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from livesvm.service.api.arrow import table_of
from livesvm.service.errors import NotAcceptable
from livesvm.service.feeds.cells import inert
from livesvm.service.fleets.presenter import COLUMNS

PARQUET = "application/vnd.apache.parquet"


def csv_of(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a row of names, then a row each; what is not there is empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    writer.writerows({name: inert(row[name]) for name in COLUMNS} for row in rows)
    return out.getvalue().encode()


def parquet_of(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the same as a Parquet file; raises NotAcceptable where pyarrow is not installed."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise NotAcceptable("parquet needs livesvm[parquet] where the service runs") from None
    out = io.BytesIO()
    parquet.write_table(table_of(rows, COLUMNS), out)
    return out.getvalue()
