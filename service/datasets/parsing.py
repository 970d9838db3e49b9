"""The conversion of an uploaded file to arrays, in a separate process, with one reader for each format.

Rows and columns in errors are counted from 0, without the header of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from livesvm.service.datasets import npz_file, parquet_file, text_table
from livesvm.service.datasets.arrays import Sink
from livesvm.service.files import svmlight
from livesvm.solvers.errors import InvalidInput

Format = Literal["npz", "svmlight", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
TABLES = frozenset({"csv", "parquet"})
Document = dict[str, Any]


def _svmlight(path: Path, sink: Sink, asked: Document) -> None:
    """Read the file twice, because the first column may have the number 0 or 1; raises InvalidInput with the line."""
    with path.open("rb") as file:
        origin = 0 if any((X.indices == 0).any() for X, _ in svmlight.blocks(file)) else 1
        file.seek(0)
        for X, y in svmlight.blocks(file):
            sink.sparse(X.data, X.indices.astype(np.int64) - origin, np.diff(X.indptr))
            sink.targets(y)


_READERS: Mapping[str, Callable[[Path, Sink, Document], None]] = {
    "npz": npz_file.read,
    "svmlight": _svmlight,
    "csv": text_table.read,
    "parquet": parquet_file.read,
}


def parse(asked: Document, tell: Callable[[Document], None]) -> Document:
    """Convert a dataset's file to arrays in a directory; return the dataset's description; raises InvalidInput.

    Parameters
    ----------
    asked : ``file``, ``directory``, ``format``, ``target``, ``weights``, ``key``, ``columns``, ``most_bytes``,
        ``most_features``
    """
    if asked["format"] not in TABLES:
        _check_no_columns(asked)
    with Sink(Path(asked["directory"]), asked["most_bytes"], asked["most_features"]) as sink:
        try:
            _READERS[asked["format"]](Path(asked["file"]), sink, asked)
        except MemoryError as error:  # a valid file of any length needs less memory
            reason = "holds a part that is too large to be read"
            if asked["format"] == "parquet":
                reason += "; write it with fewer rows in a row group, and smaller pages, or raise LIVESVM_MEMORY_MB"
            raise InvalidInput(reason, field="body") from error
        return sink.finish()


def _check_no_columns(asked: Document) -> None:
    """Raise InvalidInput if a request names a column, such as that of keys, but the format has no named columns."""
    if asked.get("columns") is not None:
        raise InvalidInput("are those of a table, csv or parquet", field="columns")
    for name in ("target", "weights", "key"):
        if asked.get(name) is not None:
            own = "; an npz file has members y, weights and keys" if asked["format"] == "npz" else ""
            raise InvalidInput(f"names a column of a table, csv or parquet{own}", field=name)
