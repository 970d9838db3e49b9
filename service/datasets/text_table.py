"""Tables as text in any dialect: one example a line, with or without a header."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice, zip_longest
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np

from livesvm.service.datasets.arrays import Sink
from livesvm.service.files import csv_text, dialect, documents, raw_tables
from livesvm.service.files.dialect import FileOptions, Line
from livesvm.service.models.arrays import targets
from livesvm.service.models.row_marks import marks_of
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.tables.columns import TableColumns, found_in, given

NUMBERS = 2**19
"""Numbers that are read at once."""
SAMPLE = 500
"""Rows that show the decimal mark."""
Document = dict[str, Any]


def read(path: Path, sink: Sink, asked: Document) -> None:
    """Read a table; keys are text.

    The column ``asked["target"]`` has the targets; by default it is the column "y", or else the last column. The text
    is read as ``livesvm inspect`` reads it, with ``asked["options"]``. Targets may be words if the table has a header.
    A workbook or JSON is read as the text of its table. Raises InvalidInput with row and column.
    """
    with _plain(path) as path:
        _read(path, sink, asked)


@contextmanager
def _plain(path: Path) -> Iterator[Path]:
    """Yield the file if it is text, or else a temporary file with its table as CSV; raises InvalidInput."""
    with path.open("rb") as packed:
        magic = packed.read(4)
    is_text = magic != b"\xd0\xcf\x11\xe0" and not (magic == b"PK\x03\x04" and documents.is_workbook(path))
    if is_text:
        with dialect.unpacked(path) as file:
            is_text = not file.read(64).lstrip(b"\xef\xbb\xbf \r\n\t").startswith((b"{", b"["))
    if is_text:
        yield path
        return
    raw = raw_tables.opened(path, FileOptions())
    with NamedTemporaryFile("w", dir=path.parent, suffix=".csv", newline="", encoding="utf-8") as held:
        lines = csv.writer(held)
        lines.writerows(chain([raw.names], raw.rows()))
        held.flush()
        yield Path(held.name)


def _read(path: Path, sink: Sink, asked: Document) -> None:
    try:
        lines, comma, names, width, sink.understood = _opened(path, FileOptions(**asked.get("options") or {}))
    except InvalidInput as error:
        field = "body" if error.field == "rows" else str(error.field).removeprefix("--")
        raise InvalidInput(error.reason, field=field, row=error.row) from error
    columns = Columns(width, names, asked)
    sink.declare(len(columns.features))
    begun = list(islice(lines, 1))
    texts = columns.texts(_cells(begun, width, comma))
    if names is None and columns.target in texts:
        raise InvalidInput("is no header, which a table needs whose labels are words", field="body", row=0)
    lines = chain(begun, lines)
    row, each = 0, max(1, NUMBERS // width)
    while block := list(islice(lines, each)):
        found = csv_text.numbers(block, width, texts, comma, row)
        reported = _cells(block, width, comma, row) if texts else []
        columns.hand_over(found, sink, {at: [cells[at] for cells in reported] for at in texts}, row)
        row += len(block)


def _opened(path: Path, given: FileOptions) -> tuple[Iterator[str], str, Line | None, int, Document]:
    """Return a table's lines below the header, their separator, the names, the width, and a report of its format."""
    one = dialect.understood(path, given)
    for row, line in enumerate(one.units):
        if any(dialect.kind_of(cell) == "number" for cell in line.split(", ")):
            raise InvalidInput(
                "has text in columns of numbers; say skip if it is before the header", field="rows", row=row
            )
    first = zip_longest(*islice(dialect.rows(path, one), SAMPLE), fillvalue="")
    numbers = [{cell.strip() for cell in column if dialect.kind_of(cell) == "number"} for column in first]
    decimal, thousands = dialect.decimal_of(numbers, one.separator, given.decimal)
    names = [re.sub(r" \d+$", "", name) if name in one.renamed else name for name in one.names]
    said: Document = {
        "encoding": one.encoding,
        "separator": dialect.NAMES.get(one.separator, one.separator),
        "decimal": decimal,
        "thousands": thousands or None,
        "skipped": len(one.lead),
        "units": len(one.units),
        "header": one.header is not None,
    }
    is_plain = one.separator != " " and not one.has_comments and one.used == (*range(one.width),)
    is_plain = (
        is_plain
        and decimal == "."
        and not thousands
        and not any({*cell} & {*dialect.SIGNS} for cells in numbers for cell in cells)
    )
    if is_plain:
        text = dialect.lines(path, one.encoding, one.member)
        lines = (line for line in islice(text, one.skip, None) if line.strip())
    else:
        pattern = dialect.pattern_of(decimal)
        rows = ([dialect.number(cell, decimal, pattern) for cell in row] for row in dialect.rows(path, one))
        lines = ('"' + '","'.join(cell.replace('"', '""') for cell in row) + '"\n' for row in rows)
    return lines, one.separator if is_plain else ",", None if one.header is None else names, len(one.used), said


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
        self._asked: Any = asked.get("columns")
        self._table: TableColumns | None = None
        self.are_kept = self._asked is not None  #: whether the features are the columns of a table, with any cells
        if self.are_kept and names is None:
            raise InvalidInput("need a header, which names them", field="columns")
        roles = [place for place in (self.keys, self.target, self.weights) if place is not None]
        if self.weights is not None and self.weights == self.target:
            raise InvalidInput("cannot be the column of targets too", field="weights")
        if len(set(roles)) < len(roles):
            raise InvalidInput("cannot be the column of targets or weights too", field="key")
        self.features = [j for j in range(count) if j not in roles]
        if not self.features:
            raise InvalidInput("has no column of features beside that of the targets", field="body")

    def texts(self, begun: list[list[str]]) -> list[int]:
        """Return which columns to read as text: keys, targets if the first rows have words, features kept as cells."""
        are_words = any(row[self.target] and not csv_text.is_number(row[self.target]) for row in begun)
        roles = [at for at in (self.keys, self.target if are_words else None) if at is not None]
        return [*roles, *self.features] if self.are_kept else roles

    def hand_over(self, block: Any, sink: Sink, texts: Mapping[int, Sequence[Any]], row: int) -> None:
        """Pass rows (m, count), and the cells of text columns, to the sink; raises InvalidInput for a missing key."""
        if self.keys is not None:
            keys = texts[self.keys]
            if "" in keys:
                raise InvalidInput("is empty", field="key", row=row + keys.index(""), column=self.keys)
            sink.mark(marks_of(self._salt, keys))
        try:
            if self.are_kept:
                sink.table(*self._coded({(self._names or ())[j]: texts[j] for j in self.features}, row))
            else:
                sink.dense(np.ascontiguousarray(block[:, self.features]))
        except InvalidInput as error:
            if error.column is None:
                raise
            at = self.features[error.column]
            raise InvalidInput(error.reason, field="body", row=error.row, column=at, name=error.name) from None
        words = texts.get(self.target)
        sink.targets(block[:, self.target] if words is None else _labels(words, row))
        if self.weights is not None:
            sink.weigh(block[:, self.weights])

    def _coded(self, cells: dict[str, Sequence[Any]], row: int) -> tuple[Any, TableColumns]:
        """Return rows of a table as numbers, and its columns, found in the first rows; raises InvalidInput."""
        try:
            if self._table is None:
                self._table = found_in(cells) if self._asked == "auto" else given(self._asked)
            if differing := {*self._table.names} ^ cells.keys():
                reason = f"must name each column of features: {min(differing)[:64]!r} is only in it or the table"
                raise InvalidInput(reason, field="columns")
            return self._table.read(cells)[1], self._table
        except InvalidInput as error:
            at = None if error.row is None else row + error.row
            raise InvalidInput(error.reason, field=error.field, row=at, column=error.column, name=error.name) from None

    def _place(self, asked: str | None, field: str) -> int | None:
        """Return the index of the column with a name or a number (from 0); raises InvalidInput."""
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
    """Return labels that are words, (m,), with checked lengths, because an array pads each word to the longest."""
    try:
        return targets([*words])
    except InvalidInput as error:
        raise InvalidInput(error.reason, field="y", row=row + (error.row or 0)) from None


def _cells(lines: list[str], width: int | None, comma: str, row: int = 0) -> list[list[str]]:
    return [[cell.strip() for cell in cells] for cells in csv_text.rows(lines, width, comma, row)]
