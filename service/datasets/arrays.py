"""A dataset's arrays as files, which are checked while they are written in pieces, and mapped into memory to be read.

X                       dense: (n, d) float64, row by row; of a table codes of its cells, NaN where one is missing
values, columns, starts sparse (CSR): (nnz,) float64, (nnz,) int64, (n + 1,) int64
y, weights              (n,) float64; for labels that are words, y has indexes into the ``words`` of the description
keys                    (n, 2) int64: the mark of each row's key, see `marks_of`
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from livesvm.service.models.arrays import check_matrix, check_targets, check_vector
from livesvm.service.models.fields import check_weights
from livesvm.service.models.row_marks import HALVES, Marks
from livesvm.service.store.base import StoreDamaged, StoreUnavailable
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.tables.cells import distinct
from livesvm.solvers.tables.columns import TableColumns, given
from livesvm.solvers.tables.encoding import MOST_WORDS as MOST_ENCODED

BLOCK = 2**20
"""Numbers that are checked, or bytes that are read, at once."""
MOST_LABELS = 20
"""Most distinct labels that a description lists; of more, it lists none."""
MOST_WORDS = 1000
"""Most distinct labels that are words."""

Array = NDArray[Any]
Document = dict[str, Any]


class Column:
    """A file to which numbers are appended."""

    def __init__(self, path: Path, dtype: type[np.float64] | type[np.int64], opened: ExitStack) -> None:
        self._file: BinaryIO = opened.enter_context(path.open("wb"))
        self._digest = hashlib.sha256()
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self.size = 0

    def append(self, numbers: Array) -> int:
        """Append numbers to the file; return the number of bytes written."""
        data = np.ascontiguousarray(numbers, self._dtype).data.cast("B")
        self._file.write(data)
        self._digest.update(data)
        self.size += numbers.size
        return len(data)

    def finished(self) -> Document:
        """Sync the file to the disk, and return its size, data type and checksum."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return {"size": self.size, "dtype": self._dtype.str, "sha256": self._digest.hexdigest()}


class Sink:
    """A writer that checks the rows of a dataset and appends them to files, in the order of the upload.

    Parameters
    ----------
    directory : where the files go
    most_bytes : largest size of all files together
    most_features : largest number of features of a row
    """

    def __init__(self, directory: Path, most_bytes: int, most_features: int) -> None:
        self._directory, self._most_bytes, self.most_features = directory, most_bytes, most_features
        self._opened = ExitStack()
        self._columns: dict[str, Column] = {}
        self._labels: set[float] | None = set()
        self._words: dict[str, int] = {}
        self._bytes = 0
        self._last_start = 0
        self._table: TableColumns | None = None
        self._values: list[set[float]] = []
        self.width = 0
        self.understood: Document | None = None  #: how a text table was read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def dense(self, X: Array) -> None:
        """Check and write dense rows (m, d); raises InvalidInput."""
        self._check_width(X.shape[1])
        with _after(self._size("X") // max(1, X.shape[1])):
            check_matrix(X, "X")
        self._append("X", X)

    def table(self, codes: Array, columns: TableColumns) -> None:
        """Write rows of a table that have been turned into numbers (m, p); raises InvalidInput."""
        self._check_width(codes.shape[1])
        self._table, self._values = columns, self._values or [set() for _ in columns.each]
        for at, column in enumerate(columns.each):
            if column.kind == "category" and len(self._values[at]) < MOST_ENCODED:
                self._values[at].update(distinct(codes[:, at]).tolist())
        self._append("X", codes)

    def sparse(self, values: Array, columns: Array, counts: Array) -> None:
        """Check and write sparse rows: entries, their columns, and the number in each row (m,); raises InvalidInput."""
        row = max(0, self._size("starts") - 1)
        if columns.size:
            self.width = max(self.width, int(columns.max()) + 1)
            if self.width > self.most_features:
                at = int(np.argmax(columns >= self.most_features))
                where = row + int(np.searchsorted(np.cumsum(counts), at, side="right"))
                reason = f"there may be {self.most_features} features (LIVESVM_MAX_FEATURES)"
                raise InvalidInput(reason, field="X", row=where, column=int(columns[at]))
        try:
            if values.size:
                check_vector(values, "X")
        except InvalidInput as error:
            at = error.row or 0
            where = row + int(np.searchsorted(np.cumsum(counts), at, side="right"))
            raise InvalidInput(error.reason, field="X", row=where, column=int(columns[at])) from None
        if "starts" not in self._columns:
            self._append("starts", np.zeros(1, np.int64), np.int64)
        starts = self._last_start + np.cumsum(counts)
        self._last_start = int(starts[-1]) if starts.size else self._last_start
        self._append("starts", starts, np.int64)
        self._append("columns", columns, np.int64)
        self._append("values", values)

    def targets(self, y: Array) -> None:
        """Check and write targets (m,), numbers or words; raises InvalidInput."""
        if y.dtype.kind == "U":
            self._append("y", self._places(y))
            return
        with _after(self._size("y")):
            check_vector(y, "y")
        if self._labels is not None:
            self._labels.update(np.unique(y).tolist())
            if len(self._labels) > MOST_LABELS:
                self._labels = None
        self._append("y", y)

    def _places(self, y: Array) -> Array:
        """Return the indexes (m,) of words in the list of words, and add new words to the list; raises InvalidInput."""
        with _after(self._size("y")):
            check_targets(y)
        distinct, at = np.unique(y, return_inverse=True)
        places = [self._words.setdefault(word, len(self._words)) for word in distinct.tolist()]
        if len(self._words) > MOST_WORDS:
            raise InvalidInput(f"has more than {MOST_WORDS} different labels", field="y")
        return np.array(places, np.float64)[at]

    def weigh(self, weights: Array) -> None:
        """Check and write weights (m,); raises InvalidInput."""
        with _after(self._size("weights")):
            check_weights(check_vector(weights, "weights"))
        self._append("weights", weights)

    def mark(self, marks: Marks) -> None:
        """Write the marks (m, 2) of the rows' keys."""
        self._append("keys", marks, np.int64)

    def declare(self, width: int) -> None:
        """Record that the dataset has at least ``width`` features; raises InvalidInput if these are too many."""
        self._check_width(width)

    def check_room(self, size: int) -> None:
        """Raise InvalidInput if ``size`` more bytes would make the files too large."""
        if self._bytes + size > self._most_bytes:
            reason = f"has more than {self._most_bytes} bytes as numbers, the limit (LIVESVM_DATASET_BYTES)"
            raise InvalidInput(reason, field="body")

    def finish(self) -> Document:
        """Return the description of the dataset; raises InvalidInput if its columns differ in length."""
        is_sparse = "starts" in self._columns
        n = self._size("starts") - 1 if is_sparse else self._size("X") // max(1, self.width)
        if n < 1 or self.width < 1:
            raise InvalidInput("must have at least one row and one column", field="X")
        for name, each in (("y", 1), ("weights", 1), ("keys", HALVES)):
            if name in self._columns and self._size(name) != each * n:
                raise InvalidInput(f"has {self._size(name) // each} entries for {n} rows of X", field=name)
        return {
            "n_examples": n,
            "n_features": self.width,
            "is_sparse": is_sparse,
            "n_stored": self._size("values") if is_sparse else n * self.width,
            "labels": self._told() if "y" in self._columns else None,
            **({"words": list(self._words)} if self._words else {}),
            **({} if self._table is None else {"columns": self._table.documents(), "n_encoded": self._n_encoded()}),
            "understood": self.understood,
            "has_targets": "y" in self._columns,
            "has_weights": "weights" in self._columns,
            "has_keys": "keys" in self._columns,
            "bytes": self._bytes,
            "files": {name: column.finished() for name, column in self._columns.items()},
        }

    def _n_encoded(self) -> int:
        """Return how many features the encoding of the table may have at most."""
        assert self._table is not None
        own = {"category": 1, "time": 8}
        return sum(
            own.get(column.kind, 2) + min(MOST_ENCODED, len(known))
            for column, known in zip(self._table.each, self._values, strict=True)
        )

    def _told(self) -> list[str] | list[float] | None:
        if self._words:
            return sorted(self._words) if len(self._words) <= MOST_LABELS else None
        return None if self._labels is None else sorted(self._labels)

    def _size(self, name: str) -> int:
        return self._columns[name].size if name in self._columns else 0

    def _check_width(self, width: int) -> None:
        if width > self.most_features:
            reason = f"has {width} columns, LIVESVM_MAX_FEATURES is {self.most_features}"
            raise InvalidInput(reason, field="X", row=0)
        self.width = max(self.width, width)

    def _append(self, name: str, numbers: Array, dtype: type[np.float64] | type[np.int64] = np.float64) -> None:
        if name not in self._columns:
            self._columns[name] = Column(self._directory / name, dtype, self._opened)
        self._bytes += self._columns[name].append(numbers)
        self.check_room(0)


@contextmanager
def _after(rows: int) -> Iterator[None]:
    """Add ``rows``, the number of earlier rows, to the row number in errors raised in the ``with`` block."""
    try:
        yield
    except InvalidInput as error:
        row = None if error.row is None else rows + error.row
        raise InvalidInput(error.reason, field=error.field, row=row, column=error.column) from None


class Arrays:
    """The arrays of a dataset, mapped into memory from files with verified checksums.

    Raises StoreUnavailable if a file cannot be read, and StoreDamaged if a file is not as it was written.
    """

    def __init__(self, directory: Path, described: Mapping[str, Any]) -> None:
        self._directory, self._described = directory, described
        self.n, self.width = int(described["n_examples"]), int(described["n_features"])
        for name in described["files"]:
            self._check(name)

    def X(self) -> Any:
        """Return features (n, d): a dense array, or a CSR array."""
        if not self._described["is_sparse"]:
            return self._mapped("X").reshape(self.n, self.width)
        from scipy import sparse

        parts = tuple(self._mapped(name) for name in ("values", "columns", "starts"))
        return sparse.csr_array(parts, shape=(self.n, self.width))

    @property
    def columns(self) -> TableColumns | None:
        """The columns of a table, the rows of which are stored as codes; None if the rows are numbers."""
        found = self._described.get("columns")
        return None if found is None else given(found)

    def y(self) -> NDArray[Any] | None:
        """Return targets (n,), numbers or words, if there are any."""
        if "y" not in self._described["files"]:
            return None
        found, words = self._mapped("y"), self._described.get("words")
        return found if words is None else np.array(words)[found.astype(np.int64)]

    def weights(self) -> NDArray[np.float64] | None:
        """Return weights (n,), if there are any."""
        return self._mapped("weights") if "weights" in self._described["files"] else None

    def marks(self) -> Marks | None:
        """Return the marks of the rows' keys (n, 2), if there are any."""
        return self._mapped("keys").reshape(self.n, HALVES) if "keys" in self._described["files"] else None

    def _mapped(self, name: str) -> Array:
        file = self._described["files"][name]
        if not file["size"]:
            return np.empty(0, file["dtype"])
        return np.asarray(np.memmap(self._directory / name, file["dtype"], "r"))

    def _check(self, name: str) -> None:
        file, digest = self._described["files"][name], hashlib.sha256()
        try:
            with (self._directory / name).open("rb") as stream:
                for block in iter(lambda: stream.read(BLOCK), b""):
                    digest.update(block)
        except OSError as error:
            raise StoreUnavailable(f"the data of dataset {self._described['name']} cannot be read: {error}") from error
        if digest.hexdigest() != file["sha256"]:
            raise StoreDamaged(f"{name} of dataset {self._described['name']} does not match its checksum")


def memory_of(described: Mapping[str, Any]) -> int:
    """Return the bytes of a dataset's arrays during a training, which encodes the rows of a table."""
    return int(described["bytes"]) + 8 * int(described["n_examples"]) * int(described.get("n_encoded", 0))


def blocks(total: int, size: int) -> Iterable[slice]:
    """Yield consecutive slices that cover ``total`` rows, with at most ``size`` rows each."""
    return (slice(start, min(total, start + size)) for start in range(0, total, max(1, size)))
