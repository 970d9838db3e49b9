"""The arrays of a dataset, rewritten without some of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.datasets.arrays import BLOCK, Arrays, Sink, blocks
from livesvm.service.models.row_marks import Marks, among
from livesvm.solvers.tables.columns import TableColumns

NO_LIMIT = 2**62

Document = dict[str, Any]


def without(arrays: Arrays, marks: Marks, directory: Path) -> Document | None:
    """Write a dataset's arrays to a directory without the rows that have one of the ``marks`` (m, 2); return the
    arrays' description.

    Return None if no row is left. Raises OSError.
    """
    known = arrays.marks()
    assert known is not None
    stays = ~among(known, marks)
    if not stays.any():
        return None
    X, y, weights = arrays.X(), arrays.y(), arrays.weights()
    with Sink(directory, NO_LIMIT, NO_LIMIT) as sink:
        sink.declare(arrays.width)
        for part in blocks(arrays.n, max(1, BLOCK // arrays.width)):
            _copy_rows(sink, X[part], stays[part], arrays.columns)
            columns: list[tuple[Any, Callable[[Any], None]]] = [(y, sink.targets), (weights, sink.weigh)]
            for column, take in [*columns, (known, sink.mark)]:
                if column is not None and stays[part].any():
                    take(column[part][stays[part]])
        return sink.finish()


def checksum(described: Document) -> str:
    """Return the SHA-256 of the checksums of a dataset's files, which replaces the SHA-256 of its upload."""
    files = sorted(described["files"].items())
    return hashlib.sha256("".join(f"{name}:{file['sha256']}\n" for name, file in files).encode()).hexdigest()


def _copy_rows(sink: Sink, X: Any, stays: NDArray[np.bool_], columns: TableColumns | None) -> None:
    if not stays.any():
        return
    kept = X[stays]
    if columns is not None:
        sink.table(kept, columns)
    elif isinstance(kept, np.ndarray):
        sink.dense(kept)
    else:
        sink.sparse(kept.data, kept.indices.astype(np.int64), np.diff(kept.indptr))
