"""Tables as text: one example a line, numbers between commas, semicolons or tabs, with or without a head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.service.datasets.arrays import Sink
from livesvm.solvers.errors import InvalidInput

LONGEST = 2**22
"""Characters of a line."""
NUMBERS = 2**19
"""That are read at once."""
Document = dict[str, Any]


def read(path: Path, sink: Sink, asked: Document) -> None:
    """Read a table; the column of targets is ``asked["target"]``, by default "y", or the last.

    Raises InvalidInput with row and column.
    """
    with path.open(encoding="utf-8", errors="replace", newline=None) as file:
        lines = _lines(file)
        first = next(lines, None)
        if first is None:
            raise InvalidInput("the file is empty", field="body")
        comma = max(",;\t", key=first.count)
        cells = [cell.strip().strip('"') for cell in first.split(comma)]
        names = None if all(map(_is_number, cells)) else cells
        columns = Columns(len(cells), names, asked)
        sink.declare(len(columns.features))
        if names is None:
            lines = chain([first], lines)
        row, each = 0, max(1, NUMBERS // len(cells))
        while block := list(islice(lines, each)):
            columns.hand_over(_numbers(block, comma, len(cells), row), sink)
            row += len(block)


class Columns:
    """Which columns of a table are what."""

    def __init__(self, count: int, names: Sequence[str] | None, asked: Document) -> None:
        self._count, self._names = count, names
        self.target = self._place(asked.get("target"), "target")
        if self.target is None:
            self.target = names.index("y") if names is not None and "y" in names else count - 1
        self.weights = self._place(asked.get("weights"), "weights")
        self.features = [j for j in range(count) if j not in (self.target, self.weights)]
        if not self.features:
            raise InvalidInput("has no column of features beside that of the targets", field="body")

    def hand_over(self, block: Any, sink: Sink) -> None:
        """Hand rows (m, count) over."""
        sink.dense(np.ascontiguousarray(block[:, self.features]))
        sink.targets(block[:, self.target])
        if self.weights is not None:
            sink.weigh(block[:, self.weights])

    def _place(self, asked: str | None, field: str) -> int | None:
        """The column of a name, or of a number from 0; raises InvalidInput."""
        if asked is None:
            return None
        if self._names is not None and asked in self._names:
            return self._names.index(asked)
        if asked.isascii() and asked.isdigit() and int(asked) < self._count:
            return int(asked)
        raise InvalidInput(f"there is no column {asked[:64]!r} among {self._count}", field=field)


def _lines(file: Any) -> Iterator[str]:
    """Lines that are not empty; raises InvalidInput for one too long."""
    while line := file.readline(LONGEST):
        if len(line) == LONGEST:
            raise InvalidInput(f"has a line of more than {LONGEST} characters", field="body")
        if line.strip():
            yield line.lstrip("\ufeff")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _numbers(lines: list[str], comma: str, width: int, row: int) -> Any:
    """Lines as numbers (m, width); raises InvalidInput for the first cell that is none."""
    try:
        found = np.loadtxt(lines, delimiter=comma, comments=None, quotechar='"', ndmin=2)
        if found.shape == (len(lines), width):
            return found
    except ValueError:
        pass
    for at, line in enumerate(lines, row):
        cells = [cell.strip().strip('"').strip() for cell in line.rstrip("\n").split(comma)]
        if len(cells) != width:
            raise InvalidInput(f"has {len(cells)} columns, the first line has {width}", field="body", row=at)
        for column, cell in enumerate(cells):
            if not _is_number(cell):
                what = f"{cell[:32]!r} is not a number" if cell else "is empty"
                raise InvalidInput(what, field="body", row=at, column=column)
    raise InvalidInput("is no table of numbers", field="body", row=row)
