"""Parquet files, row group by row group, where pyarrow is installed (``pip install livesvm[parquet]``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from livesvm.service.datasets.arrays import Sink
from livesvm.service.datasets.table import NUMBERS, Columns
from livesvm.solvers.errors import InvalidInput

Document = dict[str, Any]


def is_there() -> bool:
    """Whether parquet files can be read here."""
    from importlib.util import find_spec

    return find_spec("pyarrow") is not None


def read(path: Path, sink: Sink, asked: Document) -> None:
    """Read columns of numbers; the targets as in :func:`livesvm.service.datasets.table.read`. Raises InvalidInput."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            columns = Columns(len(schema.names), schema.names, asked)
            sink.declare(len(columns.features))
            for j, field in enumerate(schema):
                is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
                if j == columns.keys and not (is_text or pa.types.is_integer(field.type)):
                    raise InvalidInput(f"holds {field.type}, neither text nor whole numbers", field="key", column=j)
                if j != columns.keys and not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type)):
                    raise InvalidInput(f"{field.name[:64]!r} holds {field.type}, not numbers", field="body", column=j)
            row = 0
            for batch in file.iter_batches(max(1, NUMBERS // len(schema.names))):
                for j, column in enumerate(batch.columns):
                    if column.null_count:
                        at = row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                        raise InvalidInput("is empty", field="body", row=at, column=j)
                numbers = [
                    np.zeros(batch.num_rows) if j == columns.keys else np.asarray(column, np.float64)
                    for j, column in enumerate(batch.columns)
                ]
                keys = None if columns.keys is None else [str(key) for key in batch.columns[columns.keys].to_pylist()]
                columns.hand_over(np.column_stack(numbers), sink, keys, row)
                row += batch.num_rows
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError) as error:
        raise InvalidInput(f"is not a parquet file: {str(error)[:128]}", field="body") from error
