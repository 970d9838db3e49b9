"""Data frames and Arrow tables as the body of a request; needs pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

MEDIA = "application/vnd.apache.arrow.stream"


def of_many(tables: Any, model: str) -> tuple[bytes, dict[str, str]]:
    """Return an Arrow stream and its headers, with the examples of many models.

    Parameters
    ----------
    tables : a table with a column ``model``, or a mapping from models to tables without one
    model : the name of this column

    Raises
    ------
    ValueError : a column of a data frame mixes words and numbers, with the row and column
    TypeError : a column has words for one model and numbers for another, or there is no table
    """
    if isinstance(tables, Mapping):
        parts = []
        for id_, given in tables.items():
            part = table_of(given)
            if model in part.column_names:
                raise ValueError(f"the table of {id_!r} has a column {model!r}; give another name as model")
            parts.append(part.append_column(model, pa.array([id_] * len(part), pa.string())))
        table = pa.concat_tables(parts, promote_options="permissive")
    else:
        table = table_of(tables)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes(), {"content-type": MEDIA}


def table_of(given: Any) -> pa.Table:
    """Return a data frame of pandas or Polars, or an Arrow table, as an Arrow table; raises as :func:`of_many`."""
    if hasattr(given, "iloc"):
        try:
            return pa.Table.from_pandas(given, preserve_index=False)
        except pa.ArrowException:
            _name_mixed(given)
            raise
    return given.to_arrow() if hasattr(given, "to_arrow") else pa.table(given)


def _name_mixed(frame: Any) -> None:
    """Raise ValueError for the first cell of a data frame that is of another kind than those above it."""
    for name in frame.columns:
        cells = frame[name].tolist()
        known = next((cell for cell in cells if cell is not None and cell == cell), None)
        for row, cell in enumerate(cells):
            try:
                pa.array([known, cell], from_pandas=True)
            except pa.ArrowException:
                reason = f"is {cell!r}, but cells above are like {known!r}"
                raise ValueError(f"column {name!r}, row {row}: {reason}") from None
