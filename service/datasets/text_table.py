"""Tables as text: one example a line, numbers between commas, semicolons or tabs, with or without a header."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.service.datasets.arrays import Sink
from livesvm.service.files import csv_text
from livesvm.service.models.labels import targets
from livesvm.service.models.row_marks import marks_of
from livesvm.solvers.errors import InvalidInput

LONGEST = 2**22
"""Most characters of a line."""
NUMBERS = 2**19
"""Numbers that are read at once."""
Document = dict[str, Any]


def read(path: Path, sink: Sink, asked: Document) -> None:
    """Read a table; targets are in column ``asked["target"]``, by default "y" or else the last; keys are text.

    Targets may be words if the table has a header. Raises InvalidInput with row and column.
    """
    with path.open(encoding="utf-8", errors="replace", newline=None) as file:
        lines = _lines(file)
        first = next(lines, None)
        if first is None:
            raise InvalidInput("the file is empty", field="body")
        comma = csv_text.separator_of(first)
        [cells] = _cells([first], None, comma)
        numbers = [cell for column, cell in enumerate(cells) if str(column) != asked.get("key")]
        names = None if all(map(csv_text.is_number, numbers)) else cells
        columns = Columns(len(cells), names, asked)
        sink.declare(len(columns.features))
        begun = [first] if names is None else list(islice(lines, 1))
        texts = columns.texts(_cells(begun, len(cells), comma))
        if columns.target in texts and all(csv_text.is_number(cells[column]) for column in columns.features):
            raise InvalidInput("is no head, which a table needs whose labels are words", field="body", row=0)
        lines = chain(begun, lines)
        row, each = 0, max(1, NUMBERS // len(cells))
        while block := list(islice(lines, each)):
            found = csv_text.numbers(block, len(cells), texts, comma, row)
            reported = _cells(block, len(cells), comma, row) if texts else []
            columns.hand_over(found, sink, {at: [cells[at] for cells in reported] for at in texts}, row)
            row += len(block)


class Columns:
    """The columns of a table that hold keys, targets, weights and features."""

    def __init__(self, count: int, names: Sequence[str] | None, asked: Document) -> None:
        self._count, self._names, self._salt = count, names, str(asked.get("salt", ""))
        self.keys = self._place(asked.get("key"), "key")
        last = count - 2 if self.keys == count - 1 else count - 1
        by_default = "y" if names is not None and "y" in names else None
        named = self._place(asked.get("target") or by_default, "target")
        self.target = last if named is None else named
        self.weights = self._place(asked.get("weights"), "weights")
        roles = [place for place in (self.keys, self.target, self.weights) if place is not None]
        if self.weights is not None and self.weights == self.target:
            raise InvalidInput("cannot be the column of targets too", field="weights")
        if len(set(roles)) < len(roles):
            raise InvalidInput("cannot be the column of targets or weights too", field="key")
        self.features = [j for j in range(count) if j not in roles]
        if not self.features:
            raise InvalidInput("has no column of features beside that of the targets", field="body")

    def texts(self, begun: list[list[str]]) -> list[int]:
        """Return which columns hold text, judged by the first row: keys, and targets that are words."""
        are_words = any(row[self.target] and not csv_text.is_number(row[self.target]) for row in begun)
        return [at for at in (self.keys, self.target if are_words else None) if at is not None]

    def hand_over(self, block: Any, sink: Sink, texts: Mapping[int, Sequence[str]], row: int) -> None:
        """Pass rows (m, count), and the cells of text columns, to the sink; raises InvalidInput for a missing key."""
        for column, cells in texts.items():
            _check_text(cells, row, column)
        if self.keys is not None:
            keys = texts[self.keys]
            if "" in keys:
                raise InvalidInput("is empty", field="key", row=row + keys.index(""), column=self.keys)
            sink.mark(marks_of(self._salt, keys))
        try:
            sink.dense(np.ascontiguousarray(block[:, self.features]))
        except InvalidInput as error:
            if error.column is None:
                raise
            raise InvalidInput(error.reason, field="body", row=error.row, column=self.features[error.column]) from None
        words = texts.get(self.target)
        sink.targets(block[:, self.target] if words is None else _labels(words, row))
        if self.weights is not None:
            sink.weigh(block[:, self.weights])

    def _place(self, asked: str | None, field: str) -> int | None:
        """Return the column of a name, or of a number from 0; raises InvalidInput."""
        if asked is None:
            return None
        if self._names is not None and asked in self._names:
            if self._names.count(asked) > 1:
                raise InvalidInput(f"there are several columns {asked[:64]!r}; give a number from 0", field=field)
            return self._names.index(asked)
        if asked.isascii() and asked.isdigit() and int(asked) < self._count:
            return int(asked)
        raise InvalidInput(f"there is no column {asked[:64]!r} among {self._count}", field=field)


def _labels(words: Sequence[str], row: int) -> Any:
    """Return labels that are words, (m,), with checked lengths, as an array pads each word to the longest."""
    try:
        return targets([*words])
    except InvalidInput as error:
        raise InvalidInput(error.reason, field="y", row=row + (error.row or 0)) from None


def _lines(file: Any) -> Iterator[str]:
    """Yield the lines that are not empty; raises InvalidInput for a line that is too long."""
    while line := file.readline(LONGEST):
        if len(line) == LONGEST:
            raise InvalidInput(f"has a line of more than {LONGEST} characters", field="body")
        if line.strip():
            yield line.lstrip("\ufeff")


def _cells(lines: list[str], width: int | None, comma: str, row: int = 0) -> list[list[str]]:
    return [[cell.strip() for cell in cells] for cells in csv_text.rows(lines, width, comma, row)]


def _check_text(cells: Sequence[str], row: int, column: int) -> None:
    """Raise InvalidInput for text that was not UTF-8: different bytes may have become the same text."""
    for at, cell in enumerate(cells, row):
        if "\ufffd" in cell:
            raise InvalidInput("is no text in UTF-8", field="body", row=at, column=column)
