"""A kernel that the user gives as a function, of rows of numbers or of examples of any other type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Number
from operator import itemgetter
from typing import Any, Self

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.gram import Gram, precision_of
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.runtime.interrupt import COPY, parts
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows, as_scipy, columns_of, dense, stacked
from livesvm.solvers.validation import is_missing

FEW = 16  # fewer values, if all are whole numbers, do not show whether a function rounds
TILE = 64  # examples passed to the function against each other when only each with itself counts


class Memo:
    """Kernel values that a function returned in less than double precision: computed once, stored, and reused.

    The name of an example is the bytes of its features, or the identity of its object, which is kept alive.
    """

    def __init__(self) -> None:
        self.gram = Gram()
        self.places: dict[bytes | int, int] = {}
        self.objects: dict[int, Any] = {}  #: by place
        self.is_exact = False  #: whether the function returns values of double precision

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "places": {} if self.objects else self.places}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        self.places |= {id(one): place for place, one in self.objects.items()}

    def at(self, names: Sequence[bytes | int]) -> Ints:
        """Return the indices in ``gram`` of the examples ``names``; -1 for an example that is not stored."""
        return np.array([self.places.get(name, -1) for name in names], np.int64)

    def keep_only(self, names: set[bytes | int]) -> None:
        """Drop the stored values of all examples with other names than ``names``."""
        gone = [name for name in self.places if name not in names]
        places = [self.places.pop(name) for name in gone]
        for place in places:
            self.objects.pop(place, None)
        self.gram.release(np.array(places, np.int64))

    def admit(self, named: Mapping[bytes | int, Any], values: Floats, known: Ints) -> None:
        """Store the values (m, w + m) of the new examples ``named`` with the examples ``known`` (w,) and each other."""
        places = self.gram.admit(values, known).tolist()
        self.places.update(zip(named, places, strict=True))
        self.objects |= {place: one for place, one in zip(places, named.values(), strict=True) if one is not None}


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A kernel with the values ``function(A, B)`` (m, n), of rows ``A`` (m, d) and ``B`` (n, d), as in scikit-learn.

    For sparse rows the function gets csr_arrays of scipy, and may return one. An example that is not a row of numbers,
    such as a text or a graph, has a number as its only feature; the function gets lists of such examples.

    The kernel must be positive semi-definite on the examples of every window; this is checked whenever examples are
    added. A value should not depend on the other values of the same call, except by rounding. If the function rounds to
    single or half precision, the values of a window are computed once and stored.
    """

    name: Any = "function"
    function: Callable[[Any, Any], Any] = lambda A, B: A @ B.T
    objects: Mapping[int, Any] | None = field(default=None, compare=False, repr=False)
    memo: Memo = field(default_factory=Memo, compare=False, repr=False)
    is_frozen: bool = field(default=False, compare=False, repr=False)  #: of a predictor, which is given objects

    def __post_init__(self) -> None:
        """Skip the check of kernel parameters, which this kernel leaves to its function."""

    is_of_distances = has_gamma = always_positive = False  # nothing is known of these

    def write(self, A: Features, XT: Features, n: int, out: Floats, rows: Ints) -> None:
        """Write ``k(A[i], XT[:, j])`` to ``out[rows[i], j]`` for the first ``n`` columns.

        Raises
        ------
        InvalidInput : the function returns something else than m x n finite numbers
        """
        if not (len(A) and n):
            return
        columns = XT[np.arange(n)] if isinstance(XT, SparseRows) else np.ascontiguousarray(XT[:, :n].T)
        if not self.memo.places:
            out[rows, :n] = self._computed(A, columns)
            return
        a, b = (self.memo.at(self._names(examples)) for examples in (A, columns))
        if min(a.min(), b.min()) < 0:
            out[rows, :n] = self._computed(A, columns)
        held = np.ix_(a >= 0, b >= 0)
        out[np.ix_(rows[a >= 0], np.flatnonzero(b >= 0))] = self.memo.gram.values[np.ix_(a, b)][held]

    def _computed(self, A: Features, columns: Features) -> Floats:
        """Compute the function's values for ``A`` (m, d) and ``columns`` (n, d), check them, and return them."""
        n = len(columns)
        values = self.function(self.given(A), self.given(columns))
        try:
            found = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
            if found.dtype.kind == "c":
                raise TypeError("its values are complex")
            found = found.astype(np.float64, copy=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the function returns no array of numbers ({error})", field="kernel") from None
        if found.shape != (len(A), n):
            reason = (
                f"the function returns an array of shape {found.shape} for {len(A)} and {n} rows, not one value each"
            )
            raise InvalidInput(reason, field="kernel")
        if not np.isfinite(found).all():
            raise InvalidInput("the function returns values that are not finite", field="kernel")
        return found

    @property
    def held(self) -> Gram | None:
        """The stored kernel values; None if all values are computed when they are needed."""
        return self.memo.gram if self.memo.places else None

    def hold(self, X: Features, more: Features) -> bool:
        """Store the kernel values of a window ``X`` (n, d) and of ``more`` (m, d) if the function rounds its values.

        Returns whether values of ``X`` were computed earlier but not stored, so that they may differ from the stored
        values.

        Raises
        ------
        InvalidInput : as in ``write``, or the values are not symmetric
        """
        memo = self.memo
        if memo.is_exact:
            return False
        rows = stacked([X, more]) if len(X) else more
        names = self._names(rows)
        first = {name: row for row, name in reversed(list(enumerate(names)))}
        memo.keep_only(set(first))
        known = np.array([first[name] for name in memo.places], np.int64)
        fresh = {name: row for name, row in sorted(first.items(), key=itemgetter(1)) if name not in memo.places}
        indices = np.array(list(fresh.values()), np.int64)
        if not indices.size:
            return False
        columns = rows[np.concatenate([known, indices])]
        values = np.empty((indices.size, len(columns)))
        for part in parts(indices.size, COPY * len(columns)):
            values[part] = self._computed(rows[indices[part]], columns)
        is_first = not memo.places
        if is_first and not precision_of(values):
            memo.is_exact = values.size >= FEW
            return False
        memo.admit(dict(zip(fresh, self._objects_of(rows[indices]), strict=True)), values, memo.at(list(memo.places)))
        return is_first and len(X) > 0

    def _objects_of(self, rows: Features) -> list[Any]:
        """Return the object that each row stands for, or None for each row of numbers."""
        if self.objects is None:
            return [None] * len(rows)
        return [self.objects.get(number) for number in dense(rows)[:, 0].astype(np.int64).tolist()]

    def _names(self, rows: Features) -> list[bytes | int]:
        """Return the names of examples, under which their values are stored."""
        if self.objects is not None:
            return [id(one) for one in self._objects_of(rows)]
        if isinstance(rows, SparseRows):
            ends = zip(rows.start.tolist(), rows.stop.tolist(), strict=True)
            return [rows.indices[a:b].tobytes() + rows.values[a:b].tobytes() for a, b in ends]
        return [row.tobytes() for row in rows]

    def frozen(self, rows: Features) -> Self:
        """Return a separate kernel for a predictor; it knows only the examples ``rows`` and stores no values."""
        return replace(self, memo=Memo()) if self.objects is None else self.only(rows)[0]

    def diagonal(self, X: Features) -> Floats:
        """Return the kernel value k(x, x) of each example of ``X`` (m, d), (m,)."""
        parts = [X[start : start + TILE] for start in range(0, X.shape[0], TILE)]
        return np.concatenate([np.empty(0), *(self.matrix(part, columns_of(part)).diagonal() for part in parts)])

    def given(self, rows: Features) -> Any:
        """Return examples in the form that the function expects: rows of numbers, a csr_array, or a list."""
        if self.objects is None:
            return as_scipy(rows)
        some = next(iter(self.objects.values()), None)  # for examples that have left, whose values do not count
        return [self.objects.get(number, some) for number in dense(rows)[:, 0].astype(np.int64).tolist()]

    def only(self, rows: Features, more: Sequence[Any] = ()) -> tuple[Self, Floats]:
        """Return a separate kernel that knows only the examples ``rows`` and ``more``, and the numbers of ``more``."""
        known: Mapping[int, Any] = {} if self.objects is None else self.objects
        kept = {number: known[number] for number in np.ravel(dense(rows)).astype(np.int64).tolist()}
        numbers = unused_numbers(known, more)
        kept.update(zip(numbers, more, strict=True))
        return replace(self, objects=kept, memo=Memo(), is_frozen=True), np.array(numbers, np.float64)[:, None]


def unused_numbers(known: Mapping[int, Any], examples: Sequence[Any]) -> list[int]:
    """Return a number for each new example, different from all ``known`` numbers."""
    first = max(known, default=-1) + 1
    return list(range(first, first + len(examples)))


def objects_in(X: Any) -> list[Any] | None:
    """Return examples that are not rows of numbers as a list; None if the examples are rows of numbers.

    Such examples are texts, in a list, an array, a series or the only column of a data frame; lists of texts; arrays or
    lists of different lengths; or any other objects.

    Raises
    ------
    InvalidInput : one of several texts is missing; names the row
    """
    examples = _listed(X)
    if not examples or isinstance(examples[0], Number) or not (_is_one(examples[0]) or _are_nested(examples)):
        return None
    _check_there(examples)
    return examples


def objects_for(X: Any, known: Mapping[int, Any] | None) -> list[Any] | None:
    """Return examples as ``objects_in`` does, for a window of the objects ``known``; None for rows of numbers.

    Raises
    ------
    InvalidInput : the examples have another type, or one is missing
    """
    if known is None:
        found = objects_in(X)
        examples = None if found is None or not _is_one(found[0]) else found
    else:
        examples = list(X) if isinstance(X, np.ndarray) and X.ndim > 1 and X.dtype.kind not in "OUST" else _listed(X)
        some = next(iter(known.values()), None)
        if examples and not any(isinstance(one, Number) and one == one for one in examples):
            _check_there(examples)
            is_same = not known or all(isinstance(one, str) == isinstance(some, str) for one in examples)
            examples = examples if is_same else None
        elif examples:
            examples = None
    if (examples is None) != (known is None):
        raise InvalidInput("the examples have another type than those of the window", field="X")
    return examples


def _listed(X: Any) -> list[Any] | None:
    """Return ``X`` as a list if it may hold objects: a list, an array, a series, or a data frame of one column."""
    if len(getattr(X, "columns", ())) == 1:
        X = X[X.columns[0]]
    if isinstance(X, np.ndarray):
        X = X[:, 0] if X.ndim == 2 and X.shape[1] == 1 else X
        return list(X.tolist()) if X.ndim == 1 and X.dtype.kind in "OUST" else None
    if isinstance(X, list | tuple):
        return list(X)
    if hasattr(X, "tocsr") or getattr(X, "ndim", 1) != 1:
        return None
    ways = (getattr(X, name, None) for name in ("tolist", "to_list", "to_pylist"))
    found = next((way() for way in ways if way is not None), None)
    return found if isinstance(found, list) else None


def _is_one(example: Any) -> bool:
    """Say whether an example is one object, such as a text or a graph, and not a sequence of numbers or texts."""
    return not isinstance(example, list | tuple) and getattr(example, "ndim", 0) == 0


def _are_nested(examples: list[Any]) -> bool:
    """Say whether examples are lists of texts, or have different lengths or more dimensions than a row of numbers."""
    try:
        found = np.asarray(examples)
    except ValueError:  # of different lengths
        return True
    if found.ndim != 2:
        return found.ndim > 2
    return found.dtype.kind in "OUST" and all(isinstance(one, str) for row in examples for one in row)


def _check_there(examples: list[Any]) -> None:
    """Raise InvalidInput for an example that is missing, such as None or NaN, or of another type than the first."""
    for row, one in enumerate(examples):
        if is_missing(one):
            raise InvalidInput("is missing; every example needs a value", field="X", row=row)
        if isinstance(one, str) != isinstance(examples[0], str):
            raise InvalidInput(f"{one!r} has another type than the examples before", field="X", row=row)
