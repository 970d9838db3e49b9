"""Files of svmlight and LIBSVM: ``label column:value column:value ... # comment`` a line, columns from 1 or from 0."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.datasets.arrays import Sink
from livesvm.solvers.errors import InvalidInput

LONGEST = 2**24
"""Bytes of a line."""
LINES = 8192
"""That are read at once, at most; fewer where they are long."""
BYTES = 2**22
LAST = 2**53
"""Columns are below this."""
_LINE = re.compile(rb"[^\s:]+(?:[ \t]+\d+:[^\s:]+)*")
_QUERY = re.compile(rb"[ \t]qid:\S+")
Document = dict[str, Any]


def read(path: Path, sink: Sink, asked: Document) -> None:
    """Read the file twice: columns count from 1, unless there is a column 0. Raises InvalidInput with the line."""
    origin = 0 if any((columns == 0).any() for _, columns, _, _ in _blocks(path)) else 1
    for labels, columns, values, counts in _blocks(path):
        sink.sparse(values, columns - origin, counts)
        sink.targets(labels)


def _blocks(path: Path) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield labels (m,), columns and values (k,) of all entries, and how many each line has (m,)."""
    row = 0
    with path.open("rb") as file:
        lines = _lines(file)
        while block := _some(lines):
            yield _parsed(block, row)
            row += len(block)
    if row == 0:
        raise InvalidInput("the file holds no example", field="body")


def _some(lines: Iterator[bytes]) -> list[bytes]:
    found, size = [], 0
    for line in islice(lines, LINES):
        found.append(line)
        size += len(line)
        if size > BYTES:
            break
    return found


def _lines(file: Any) -> Iterator[bytes]:
    """Yield lines without comments and queries; raises InvalidInput for one too long."""
    while line := file.readline(LONGEST):
        if len(line) == LONGEST:
            raise InvalidInput(f"has a line of more than {LONGEST} bytes", field="body")
        line = line.partition(b"#")[0].strip()
        if line:
            yield _QUERY.sub(b"", line) if b"qid" in line else line


def _parsed(lines: list[bytes], row: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    counts = np.array([line.count(b":") for line in lines], np.int64)
    for at, line in enumerate(lines, row):
        if _LINE.fullmatch(line) is None:
            raise _fault(line, at) or InvalidInput("is no line of svmlight", field="body", row=at)
    try:
        numbers = np.array(b" ".join(lines).replace(b":", b" ").split(), dtype="S").astype(np.float64)
    except ValueError:
        raise next(fault for at, line in enumerate(lines, row) if (fault := _fault(line, at)) is not None) from None
    first = np.cumsum(2 * counts + 1) - (2 * counts + 1)
    is_label = np.zeros(numbers.size, bool)
    is_label[first] = True
    pairs = numbers[~is_label].reshape(-1, 2)
    _check_size(pairs[:, 0], counts, row)
    columns = pairs[:, 0].astype(np.int64)
    _check_order(columns, counts, row)
    return numbers[first], columns, np.ascontiguousarray(pairs[:, 1]), counts


def _check_size(columns: NDArray[Any], counts: NDArray[Any], row: int) -> None:
    """Raise InvalidInput for a number of a column that no whole number of 64 bits can be."""
    if columns.size and columns.max() >= LAST:
        line = int(np.searchsorted(np.cumsum(counts), int(columns.argmax()), side="right"))
        raise InvalidInput(f"column {columns.max():g} is too large", field="body", row=row + line)


def _check_order(columns: NDArray[Any], counts: NDArray[Any], row: int) -> None:
    """Raise InvalidInput unless the columns of each line ascend."""
    begins = np.zeros(columns.size + 1, bool)
    begins[np.cumsum(counts) - counts] = True
    wrong = ~begins[1:-1] & (columns[1:] <= columns[:-1])
    if wrong.any():
        at = int(wrong.argmax()) + 1
        line = int(np.searchsorted(np.cumsum(counts), at, side="right"))
        raise InvalidInput(f"column {columns[at]} does not ascend", field="body", row=row + line)


def _fault(line: bytes, row: int) -> InvalidInput | None:
    """Return what is wrong with a line; ``column`` is the entry, the label 0."""
    for column, entry in enumerate(line.split()):
        number = entry
        if column:
            index, colon, number = entry.partition(b":")
            if not colon or not index.isdigit():
                what = entry[:32].decode(errors="replace")
                return InvalidInput(f"{what!r} is not column:value", field="body", row=row, column=column)
        try:
            float(number)
        except ValueError:
            what = number[:32].decode(errors="replace")
            return InvalidInput(f"{what!r} is not a number", field="body", row=row, column=column)
    return None
