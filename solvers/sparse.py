"""Sparse examples: only features other than 0 are stored, row by row, as in CSR.

Rows may lie anywhere in two long arrays of indices and values; new rows are written only behind the used part of these.
Rows can thus be selected, and shared by copies of a window, without copying indices and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.errors import InvalidInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Indices = NDArray[np.int32]

MOST_FEATURES = 2**31 - 1
SPARSE = ("width", "indptr", "indices", "values")  #: names under which sparse rows are saved
BYTES = 12  #: bytes of a held feature: its index and its value
ROOM = 4  #: rewritten rows have spare space of one part in this many


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Sparse rows (m, d) of finite numbers."""

    width: int  #: d
    indices: Indices  #: columns of all held values; within a row they ascend, each once
    values: Floats  #: values in these columns
    start: Ints  #: (m,) positions in both where the rows begin
    stop: Ints  #: (m,) positions where they end
    free: int = 0  #: unused places at the end of ``indices`` and ``values``; 0 if they are shared

    ndim = 2

    @classmethod
    def of(cls, indptr: Ints, indices: NDArray[Any], values: Floats, width: int) -> SparseRows:
        """Return the rows of a CSR matrix (m, d) that has been checked."""
        ends = np.ascontiguousarray(indptr, np.int64)
        held = np.ascontiguousarray(indices, np.int32), np.ascontiguousarray(values, np.float64)
        return cls(int(width), *held, ends[:-1].copy(), ends[1:].copy())

    @classmethod
    def of_dense(cls, X: Floats) -> SparseRows:
        """Return the dense rows ``X`` (m, d) as sparse rows."""
        row, column = np.nonzero(X)
        indptr = np.searchsorted(row, np.arange(X.shape[0] + 1))
        return cls.of(indptr, column, X[row, column], X.shape[1])

    @classmethod
    def empty(cls, m: int, width: int) -> SparseRows:
        """Return ``m`` empty rows."""
        return cls(width, np.empty(0, np.int32), np.empty(0), np.zeros(m, np.int64), np.zeros(m, np.int64))

    @property
    def shape(self) -> tuple[int, int]:
        """(m, d)."""
        return self.start.size, self.width

    def __len__(self) -> int:
        return self.start.size

    @property
    def nnz(self) -> int:
        """How many numbers these rows store."""
        return int((self.stop - self.start).sum())

    @property
    def nbytes(self) -> int:
        """Bytes that these rows take."""
        return BYTES * self.nnz + 2 * self.start.nbytes

    @property
    def indptr(self) -> Ints:
        """The positions at which rows would begin if they were stored one behind the other, (m + 1,)."""
        return np.concatenate([[0], np.cumsum(self.stop - self.start)]).astype(np.int64)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the numbers of these rows, not the unused parts of shared arrays."""
        return SparseRows.from_arrays, (self.to_arrays(),)

    def __getitem__(self, chosen: Any) -> SparseRows:
        """Return the rows at a slice, an array of indices, or one index, without copying their indices and values."""
        places = [chosen] if isinstance(chosen, int) else chosen
        return replace(self, start=self.start[places].copy(), stop=self.stop[places].copy(), free=0)

    def __iter__(self) -> Iterator[SparseRows]:
        """Yield each row, (1, d)."""
        return (self[i] for i in range(len(self)))

    def packed(self, room: int = 0) -> SparseRows:
        """Return the same rows one behind the other, in arrays of their own, with space for ``room`` more numbers."""
        ends = self.indptr
        places = np.repeat(self.start - ends[:-1], self.stop - self.start) + np.arange(ends[-1])
        indices, values = np.empty(ends[-1] + room, np.int32), np.empty(ends[-1] + room)
        indices[: ends[-1]], values[: ends[-1]] = self.indices[places], self.values[places]
        return SparseRows(self.width, indices, values, ends[:-1].copy(), ends[1:].copy(), room)

    def put(self, places: Ints, rows: SparseRows, gone: Sequence[int] = ()) -> SparseRows:
        """Return these rows with ``rows`` written at ``places``; the numbers of the rows ``gone`` may be dropped."""
        start, stop = self.start.copy(), self.stop.copy()
        start[places] = stop[places] = 0
        needed, here = rows.nnz, replace(self, start=start, stop=stop)
        if needed > self.free:
            start[list(gone)] = stop[list(gone)] = 0
            here = here.packed(needed + (here.nnz + needed) // ROOM)
        new = rows.packed()
        end = here.indices.size - here.free
        here.indices[end : end + needed], here.values[end : end + needed] = new.indices, new.values
        here.start[places], here.stop[places] = new.start + end, new.stop + end
        return replace(here, free=here.free - needed)

    def resized(self, m: int) -> SparseRows:
        """Return the first ``m`` rows, or if there are fewer, all rows and empty rows behind them."""
        start, stop = np.zeros(m, np.int64), np.zeros(m, np.int64)
        start[: len(self)], stop[: len(self)] = self.start[:m], self.stop[:m]
        return replace(self, start=start, stop=stop)

    def to_arrays(self) -> dict[str, Any]:
        """Return the rows as CSR arrays, under the names in ``SPARSE``."""
        plain = self.packed()
        return dict(zip(SPARSE, (self.width, self.indptr, plain.indices, plain.values), strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> SparseRows:
        """Return the rows that ``to_arrays`` describes; raises InvalidInput if they are damaged."""
        width, indptr, indices, values = (arrays[name] for name in SPARSE)
        whole = indptr.size and indptr[0] == 0 and (np.diff(indptr) >= 0).all()
        if not whole or not indptr[-1] == indices.size == values.size:
            raise InvalidInput("the sparse features are damaged", field="X")
        return checked(indptr, indices, values, int(width))

    def toarray(self) -> Floats:
        """Return the rows dense, (m, d)."""
        out, plain = np.zeros(self.shape), self.packed()
        out[np.repeat(np.arange(len(self)), plain.stop - plain.start), plain.indices] = plain.values
        return out

    def tocsr(self) -> Any:
        """Return the rows as a csr_array of scipy, which shares nothing with them."""
        from scipy.sparse import csr_array

        plain = self.packed()
        return csr_array((plain.values, plain.indices, self.indptr), shape=self.shape)


Features = Floats | SparseRows
"""Examples (m, d), dense or sparse."""


def stacked(parts: Sequence[Features]) -> Features:
    """Return rows below each other, all dense or all sparse."""
    first = parts[0]
    if not isinstance(first, SparseRows):
        return np.concatenate(parts)  # type: ignore[arg-type]
    every: list[SparseRows] = [part.packed() for part in parts]  # type: ignore[union-attr]
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([part.stop - part.start for part in every]))])
    indices, values = (np.concatenate([getattr(part, name) for part in every]) for name in ("indices", "values"))
    return SparseRows.of(indptr, indices, values, first.width)


def below(rows: Sequence[Any], width: int) -> Features:
    """Return single rows, either arrays (d,) or sparse rows, joined below each other."""
    if rows and isinstance(rows[0], SparseRows):
        return stacked(rows)
    return np.array(rows, np.float64).reshape(len(rows), width)


def same(a: Features, b: Features) -> bool:
    """Say whether two rows are equal, number by number."""
    if isinstance(a, SparseRows) or isinstance(b, SparseRows):
        return isinstance(a, SparseRows) and isinstance(b, SparseRows) and np.array_equal(a.toarray(), b.toarray())
    return np.array_equal(a, b, equal_nan=True)


def columns_of(X: Features) -> Features:
    """Return rows in the form that kernels expect: dense rows transposed, (d, m), sparse rows unchanged."""
    return X if isinstance(X, SparseRows) else np.ascontiguousarray(X.T)


def dense(X: Features) -> Floats:
    """Return ``X``, which must be dense, as an array."""
    assert not isinstance(X, SparseRows), "sparse features"
    return X


def as_scipy(X: Features) -> Any:
    """Return rows in the form that users see: an array, or a csr_array of scipy."""
    return X.tocsr() if isinstance(X, SparseRows) else X


def like(X: Features, is_sparse: bool) -> Features:
    """Return rows in sparse or in dense form."""
    if isinstance(X, SparseRows):
        return X if is_sparse else X.toarray()
    return SparseRows.of_dense(X) if is_sparse else X


def checked(indptr: NDArray[Any], indices: NDArray[Any], values: Floats, width: int, field: str = "X") -> SparseRows:
    """Check CSR arrays from outside and return them as rows; ``indptr`` must ascend from 0 to the values' length.

    Raises
    ------
    InvalidInput : an index that is out of range, out of order or there twice, a value that is not finite; with its row
    """
    row_of = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    wrong = np.flatnonzero((indices < 0) | (indices >= width))
    if wrong.size:
        at = wrong[0]
        reason = f"has the index {indices[at]}, but there are {width} features, from 0 on"
        raise InvalidInput(reason, field=field, row=int(row_of[at]))
    steps = np.diff(indices.astype(np.int64))
    wrong = np.flatnonzero((steps <= 0) & (row_of[1:] == row_of[:-1]))
    if wrong.size:
        at = wrong[0] + 1
        what = "twice" if steps[wrong[0]] == 0 else f"behind {indices[at - 1]}; indices of a row have to ascend"
        raise InvalidInput(f"has the index {indices[at]} {what}", field=field, row=int(row_of[at]))
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        at = wrong[0]
        what = "NaN" if np.isnan(values[at]) else "inf"
        place = {"row": int(row_of[at]), "column": int(indices[at])}
        raise InvalidInput(f"contains {what}; every value must be finite", field=field, **place)
    return SparseRows.of(indptr, indices, values, width)
