"""npz files: ``X`` and ``y``, or the parts of a CSR array, ``data``, ``indices``, ``indptr`` and ``shape``, and ``y``.

A file may also have ``weights`` and ``keys`` (text or whole numbers), and ``format`` and ``_is_array`` as SciPy writes
them. Members are unpacked to the disk, one after another.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.datasets.arrays import BLOCK, Sink, blocks
from livesvm.service.files import npz
from livesvm.service.models.row_marks import marks_of
from livesvm.solvers.errors import InvalidInput

LONGEST_TEXT = 256
"""Most characters of a key or a label."""
_SPARSE = frozenset({"data", "indices", "indptr", "shape"})
_DIMENSIONS = ("no dimension", "one dimension", "two dimensions and at least one row and column")
_KNOWN = _SPARSE | {"X", "y", "weights", "keys", "format", "_is_array"}
Document = dict[str, Any]
Array = NDArray[Any]


def read(path: Path, sink: Sink, asked: Document) -> None:
    """Read the members of a file; raises InvalidInput, which names the member, and the row and column of an entry."""
    with path.open("rb") as file, npz.opened(file, _KNOWN) as (archive, members):

        def member(name: str, kinds: str = "fiu", dimensions: int = 1) -> Array:
            """Return a member, mapped from the disk; raises InvalidInput unless it has ``dimensions`` dimensions."""
            sink.check_room(members[name].file_size)
            found = npz.mapped(archive, members[name], name, kinds, path.parent)
            if found.ndim != dimensions:
                raise InvalidInput(f"must have {_DIMENSIONS[dimensions]}, not {found.ndim}", field=name)
            return found

        _check_members(members)
        if "format" in members and member("format", "SU", 0).item() not in (b"csr", "csr"):
            raise InvalidInput("must be csr; tocsr() sees to that", field="format")
        if "X" in members:
            _dense(member("X", dimensions=2), sink)
        else:
            shape, starts = member("shape", "iu"), member("indptr", "iu")
            _sparse(member("data"), member("indices", "iu"), starts, shape, sink)
        if "y" in members:
            _in_blocks(member("y", "fiuU"), "y", sink.targets)
        if "weights" in members:
            _in_blocks(member("weights"), "weights", sink.weigh)
        if "keys" in members:
            salt = str(asked.get("salt", ""))
            _in_blocks(member("keys", "iuU"), "keys", lambda block: sink.mark(marks_of(salt, block.tolist())))


def _check_members(members: npz.Members) -> None:
    if "X" in members and members.keys() & _SPARSE:
        raise InvalidInput("holds X, and parts of a sparse array too", field="body")
    if "X" not in members and (missing := _SPARSE - members.keys()):
        known = "X" if missing == _SPARSE else ", ".join(sorted(missing))
        raise InvalidInput("is missing from the file", field=known)


def _dense(X: Array, sink: Sink) -> None:
    n, d = X.shape
    if not X.size:
        raise InvalidInput(f"must have {_DIMENSIONS[2]}, not {X.shape}", field="X")
    sink.declare(d)
    sink.check_room(8 * n * d)
    for rows in blocks(n, BLOCK // d):
        sink.dense(np.ascontiguousarray(X[rows], np.float64))


def _sparse(data: Array, indices: Array, starts: Array, shape: Array, sink: Sink) -> None:
    """Pass the rows of a CSR array to the sink; raises InvalidInput with the row and column of an invalid entry."""
    if shape.size != 2 or not 1 <= shape[0] <= 2**40 or not 1 <= shape[1] <= 2**40:
        raise InvalidInput("must be the numbers of rows and columns", field="shape")
    n, width = map(int, shape)
    sink.declare(width)
    if starts.size != n + 1:
        raise InvalidInput(f"is for {starts.size - 1} rows, shape says {n}", field="indptr")
    if starts[0] != 0:
        raise InvalidInput("begins with 0", field="indptr", row=0)
    for rows in blocks(n, 4096):
        ends = starts[rows.start : rows.stop + 1].astype(np.int64)
        counts = np.diff(ends)
        if (counts < 0).any():
            at = rows.start + 1 + int(np.argmax(counts < 0))
            raise InvalidInput("must not descend", field="indptr", row=at)
        if (counts > width).any():
            at = rows.start + int(np.argmax(counts > width))
            raise InvalidInput(f"gives a row more entries than there are columns, {width}", field="indptr", row=at)
        for name, entries in (("data", data), ("indices", indices)):
            if entries.size < ends[-1]:
                raise InvalidInput("has fewer entries than indptr says", field=name)
        here = slice(int(ends[0]), int(ends[-1]))
        columns = indices[here].astype(np.int64)
        _check_columns(columns, counts, width, rows.start)
        sink.sparse(data[here].astype(np.float64), columns, counts)
    for name, entries in (("data", data), ("indices", indices)):
        if entries.size > starts[-1]:
            raise InvalidInput("has more entries than indptr says", field=name)


def _check_columns(columns: Array, counts: Array, width: int, row: int) -> None:
    begins = np.zeros(columns.size + 1, bool)
    begins[np.cumsum(counts) - counts] = True
    descends = np.zeros(columns.size, bool)
    descends[1:] = ~begins[1:-1] & (columns[1:] <= columns[:-1])
    for wrong, reason in (
        ((columns < 0) | (columns >= width), f"is not from 0 to {width - 1}"),
        (descends, "the columns of a row must ascend; sum_duplicates() sees to that"),
    ):
        if wrong.any():
            at = int(wrong.argmax())
            place = row + int(np.searchsorted(np.cumsum(counts), at, side="right"))
            raise InvalidInput(reason, field="indices", row=place, column=int(columns[at]))


def _in_blocks(found: Array, name: str, take: Callable[[Array], None]) -> None:
    """Pass a member to ``take`` in blocks: numbers as float64, or keys and words; raises InvalidInput with the row."""
    if not found.size:
        raise InvalidInput("is empty", field=name)
    are_texts = found.dtype.kind == "U"
    if found.dtype.itemsize > 4 * LONGEST_TEXT:
        raise InvalidInput(f"must be a list of at most {LONGEST_TEXT} characters each", field=name)
    for rows in blocks(found.size, BLOCK // LONGEST_TEXT if are_texts else BLOCK):
        block = found[rows].astype(found.dtype.newbyteorder("=") if are_texts or name == "keys" else np.float64)
        if are_texts:
            try:
                texts = block.tolist()
            except ValueError as error:
                raise InvalidInput("holds characters that are none", field=name) from error
            if "" in texts:
                raise InvalidInput("is empty", field=name, row=rows.start + texts.index(""))
        take(block)
