"""Parquet files as datasets: columns of numbers, targets that may be words, and keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.service.datasets.arrays import Sink
from livesvm.service.datasets.text_table import NUMBERS, Columns
from livesvm.service.errors import BodyTooLarge
from livesvm.service.files import parquet
from livesvm.solvers.errors import InvalidInput

MEMORY_MB = 256
"""Memory that unpacking may take."""
MOST_TEXT = 2**25
"""Bytes of texts that are read at once."""
Document = dict[str, Any]
_INDEX = re.compile(r"__index_level_\d+__")
"""Name of the column in which pandas writes the index of a table."""


def read(path: Path, sink: Sink, asked: Document) -> None:
    """Read columns of numbers, and targets (numbers or words) from the column that :func:`.text_table.read` would take.

    Raises InvalidInput with row and column.
    """
    try:
        with parquet.opened(path, MEMORY_MB) as table:
            columns = Columns(len(table.kinds), list(table.kinds), asked)
            sink.declare(len(columns.features))
            texts = [j for j, (name, kind) in enumerate(table.kinds.items()) if _is_text(j, name, kind, columns)]
            row, rows = 0, max(1, NUMBERS // len(table.kinds))
            for block in table.blocks(min(rows, max(1, MOST_TEXT // (1 + table.text_sizes()[1])))):
                cells = [[line[j] for line in block] for j in range(len(table.kinds))]
                for j, column in enumerate(cells):
                    if None in column and not (columns.are_kept and j in columns.features):
                        raise InvalidInput("is empty", field="body", row=row + column.index(None), column=j)
                reported: dict[int, list[Any]] = {j: [str(cell) for cell in cells[j]] for j in texts}
                reported |= {j: cells[j] for j in columns.features if columns.are_kept}
                numbers = [
                    np.zeros(len(block)) if j in reported else np.array(cells[j], float) for j in range(len(cells))
                ]
                columns.hand_over(np.column_stack(numbers), sink, reported, row)
                row += len(block)
    except BodyTooLarge as error:
        raise InvalidInput(str(error), field="body") from error


def _is_text(j: int, name: str, kind: str, columns: Columns) -> bool:
    """Return whether a column is read as text, for keys or words; raises InvalidInput for a wrong type."""
    if j in columns.features and _INDEX.fullmatch(name):
        reason = f"{name!r} is the index of a pandas table; write it without: index=False"
        raise InvalidInput(reason, field="body", column=j)
    if j == columns.keys and kind not in ("text", "integer"):
        raise InvalidInput(f"holds {kind}, neither text nor whole numbers", field="key", column=j)
    if j == columns.keys or (j == columns.target and kind == "text"):
        return True
    if kind not in ("integer", "number") and not (j in columns.features and columns.are_kept):
        raise InvalidInput(f"{name[:64]!r} holds {kind}, not numbers", field="body", column=j)
    return False
