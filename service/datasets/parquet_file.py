"""Parquet files, row group by row group, where pyarrow is installed (``pip install livesvm[parquet]``)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.service.datasets.arrays import Sink
from livesvm.service.datasets.text_table import NUMBERS, Columns
from livesvm.solvers.errors import InvalidInput

Document = dict[str, Any]
_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls the numbers or names of rows that it writes as a column."""


def is_there() -> bool:
    """Return whether parquet files can be read here."""
    from importlib.util import find_spec

    return find_spec("pyarrow") is not None


def read(path: Path, sink: Sink, asked: Document) -> None:
    """Read columns of numbers, and targets that may be words; which these are, see :func:`.table.read`.

    Raises InvalidInput with row and column.
    """
    import pyarrow as pa
    from pyarrow import parquet

    pa.set_memory_pool(pa.system_memory_pool())  # others reserve far more than they hold, which counts here
    try:
        schema = parquet.read_schema(path)
        named = [one.name for one in schema if pa.types.is_string(one.type) or pa.types.is_large_string(one.type)]
        with parquet.ParquetFile(path, memory_map=True, pre_buffer=False, read_dictionary=named) as file:
            columns = Columns(len(schema.names), schema.names, asked)
            sink.declare(len(columns.features))
            texts = []
            for j, field in enumerate(schema):
                if j in columns.features and _INDEX.fullmatch(field.name):
                    reason = f"{field.name!r} is the index of a pandas table; write it without: index=False"
                    raise InvalidInput(reason, field="body", column=j)
                is_text = field.name in named
                is_number = pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
                if j == columns.keys and not (is_text or pa.types.is_integer(field.type)):
                    raise InvalidInput(f"holds {field.type}, neither text nor whole numbers", field="key", column=j)
                if j == columns.keys or (j == columns.target and is_text):
                    texts.append(j)
                elif not is_number:
                    raise InvalidInput(f"{field.name[:64]!r} holds {field.type}, not numbers", field="body", column=j)
            row = 0
            for batch in file.iter_batches(max(1, NUMBERS // len(schema.names)), use_threads=False):
                for j, column in enumerate(batch.columns):
                    if column.null_count:
                        at = row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                        raise InvalidInput("is empty", field="body", row=at, column=j)
                numbers = [
                    np.zeros(batch.num_rows) if j in texts else np.asarray(column, np.float64)
                    for j, column in enumerate(batch.columns)
                ]
                reported = {j: _texts(pa, batch.columns[j]) for j in texts}
                columns.hand_over(np.column_stack(numbers), sink, reported, row)
                row += batch.num_rows
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk
            raise
        raise InvalidInput(f"is not a parquet file: {str(error)[:128]}", field="body") from error


def _texts(pa: Any, column: Any) -> list[str]:
    """Return cells as text; one that stands in many is one object, as it may be long."""
    if not pa.types.is_dictionary(column.type):
        return [str(cell) for cell in column.to_pylist()]
    known = [str(text) for text in column.dictionary.to_pylist()]
    return [known[place] for place in column.indices.to_pylist()]
