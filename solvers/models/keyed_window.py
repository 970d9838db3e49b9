"""The window of a model that is updated along a path: examples by key, oldest first, with their data in arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from sys import getsizeof
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.homotopy.run import NO_EXAMPLES
from livesvm.solvers.kernels.definiteness import check_positive
from livesvm.solvers.kernels.function import FunctionKernel
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.shared import SharedFeatures
from livesvm.solvers.models.scaling import NOTHING
from livesvm.solvers.problem.piecewise_linear import NO_LOSSES, Losses
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.robust.ramp_losses import Sides
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, dense
from livesvm.solvers.validation import Key, plain, plain_features


class ExampleUpdate(NamedTuple):
    """The changes that an update makes to a window, after all checks."""

    X: Features  #: (m, d) features of new examples
    y: Floats  #: (m,) their targets
    weights: Floats  #: (m,)
    adding: Sequence[Key] = ()  #: their keys
    leaving: Sequence[Key] = ()  #: keys of examples that go
    losses: Losses = NO_LOSSES  #: of the new examples
    changing: Sequence[Key] = ()  #: keys of examples that stay with another target or weight
    new_y: Floats = np.empty(0)  #: their targets and weights from now on
    new_weights: Floats = np.empty(0)
    new_sides: Sides = np.empty(0, np.int8)  #: the sides of their cutoffs on which they start
    new_losses: Losses = NO_LOSSES


class KeyedWindow(ABC):
    """Examples by key, each in a slot. Every change is all or nothing, and can be undone until it is settled."""

    _columns: ClassVar[tuple[str, str, str]]  # names of arrays by slot: targets, weights, and one more
    store: PathState | SharedFeatures  #: the object that stores the features
    _y: NDArray[Any]
    _weight: Floats
    _undo: list[Callable[[], object]] | None = None  #: undo the change, from the last; None: no change is open
    _later: tuple[Callable[[], object], ...] = ()  #: calls to make once the change is final

    def __init__(self) -> None:
        self.keys: dict[Key, int] = {}  #: key -> slot, oldest first; never changed in place
        self._ordered: tuple[dict[Key, int], Ints] = ({}, NO_EXAMPLES)  #: keys, and their slots
        self.next_key = 0  #: larger than every whole number that has been a key
        self.updates = 0  #: number of updates so far: the key of cached results that depend on the window
        self.foretells = False  #: whether ``unlearnt`` is asked for
        #: of the newest examples, by the model before: f, or of several classes the place of the class, (m,)
        self.unlearnt: Sequence[float] = []
        self.left: list[float] = []  #: targets of the examples that left with the newest update
        self.cache_mb: float | None = None  #: of kernel rows, as an update has allowed them last
        self.room = NOTHING  #: a scale that fits, and is not smaller than that of the examples here

    def __getstate__(self) -> dict[str, Any]:
        of_the_last: dict[str, Any] = {
            "_ordered": ({}, NO_EXAMPLES),
            "unlearnt": [],
            "left": [],
        }  # and of what has left since
        return vars(self) | of_the_last

    @abstractmethod
    def _states_undone_on_error(self) -> AbstractContextManager[None]:
        """Restore the solutions if the block raises an error."""

    @abstractmethod
    def _solution(self) -> tuple[Floats, Ints, Any]:
        """Return coefficients, segments and intercepts in the order in which checkpoints store them."""

    @abstractmethod
    def _resume(self, X: Features, y: Floats, losses: Losses, total: float, arrays: Mapping[str, Any]) -> Ints:
        """Restore the solution in ``arrays`` for the examples ``X``; return the slots of these examples."""

    # -- the examples --------------------------------------------------------------------------------------------------

    @property
    def kernel(self) -> Kernel:
        """The kernel, with its parameters."""
        return self.store.kernel

    @property
    def diagonal(self) -> Floats:
        """k(x, x) of each example, (n,), oldest first."""
        return self.store.diagonal[self.slots]

    @property
    def width(self) -> int | None:
        """Number of features of a row to predict; None before the first examples."""
        store = self.store
        return (len(self.keys) if store.kernel.gram is not None else store.n_features) or None

    @property
    def is_sparse(self) -> bool:
        """Whether features are stored sparse: only those other than 0."""
        return self.store.is_sparse

    @property
    def slots(self) -> Ints:
        """Slots of the window's examples, oldest first: their indices in the arrays."""
        keys, found = self._ordered
        if keys is not self.keys:  # another dict for each change
            found = np.fromiter(self.keys.values(), np.int64, len(self.keys))
            self._ordered = self.keys, found
        return found

    def _slots_of(self, keys: Sequence[Key]) -> Ints:
        return np.fromiter(map(self.keys.__getitem__, keys), np.int64, len(keys)) if keys else NO_EXAMPLES

    def _numbers_of(self, slots: Ints) -> Ints:
        """Return the row numbers of examples in the precomputed kernel matrix."""
        return dense(self.store.columns(slots))[0].astype(np.int64) if slots.size else NO_EXAMPLES

    @property
    def X(self) -> Features:
        """Features (n, d), oldest first; for the kernel "precomputed" the kernel matrix (n, n)."""
        gram = self.kernel.gram
        if gram is None:
            return self.store.features(self.slots)
        numbers = self._numbers_of(self.slots)
        return gram.values[np.ix_(numbers, numbers)]

    @property
    def y(self) -> Floats:
        """Targets (n,), oldest first; labels are -1 and 1, or with more than two classes the class numbers."""
        return self._y[self.slots].astype(np.float64, copy=False)

    @property
    def weights(self) -> Floats:
        """Weights (n,), oldest first."""
        return self._weight[self.slots]

    def _sides_of(self, slots: Ints) -> Sides:
        return np.zeros(slots.size, np.int8)

    @property
    def sides(self) -> Sides:
        """On which side of its cutoffs each example counts, (n,); see ``livesvm.solvers.robust.ramp_losses``."""
        return self._sides_of(self.slots)

    def targets_of(self, keys: Sequence[Key]) -> tuple[Floats, Floats, Sides]:
        """Return targets, weights and sides of examples, by key."""
        slots = self._slots_of(keys)
        return self._y[slots].astype(np.float64, copy=False), self._weight[slots], self._sides_of(slots)

    def examples_except(self, keys: Sequence[Key]) -> tuple[Floats, Floats]:
        """Return targets and weights of the window without some examples, in no particular order."""
        there = np.ones(min(self.store.n_slots, self._y.size), np.bool_)
        vacant = np.asarray(self.store.vacant, np.int64)  # after an insertion that was undone, some lie beyond
        there[vacant[vacant < there.size]] = there[self._slots_of(keys)] = False
        return self._y[: there.size][there].astype(np.float64, copy=False), self._weight[: there.size][there]

    def sizes(self) -> tuple[float, float]:
        """Return the largest k(x, x) and the largest weight."""
        slots = self.slots
        diagonal = self.store.diagonal[slots]
        return float(diagonal.max(initial=0.0)), float(self._weight[slots].max(initial=0.0))

    def unused_keys(self, m: int) -> list[Key]:
        """Return ``m`` whole numbers that are not keys."""
        return list(range(self.next_key, self.next_key + m))

    # -- memory --------------------------------------------------------------------------------------------------------

    def cool(self) -> None:
        """Free memory that the next update fills again; see ``PathState.cool``."""
        self.store.cool()
        for name in self._columns:
            setattr(self, name, getattr(self, name)[: self.store.capacity].copy())

    @property
    def hot_bytes(self) -> int:
        """Bytes that :meth:`cool` would free."""
        return self.store.hot_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes that all arrays and the table of keys take."""
        columns = sum(int(getattr(self, name).nbytes) for name in self._columns)
        return self.store.held_bytes + columns + getsizeof(self.keys)

    # -- changes -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a change, and save the tables for :meth:`undo`; a change replaces tables and never modifies them."""
        self._undo, self._later = [partial(vars(self).update, vars(self).copy())], ()

    def undo(self) -> None:
        """Bring everything back to what it was when the change began."""
        while self._undo:
            self._undo.pop()()
        self._undo, self._later = None, ()

    def settle(self) -> None:
        """Make the change final."""
        later, self._undo, self._later = self._later, None, ()
        for act in later:
            act()

    @contextmanager
    def changing(self) -> Iterator[list[Callable[[], object]]]:
        """Undo the change if the block raises an error; otherwise settle a change that this call has begun."""
        is_own = self._undo is None
        if is_own:
            self.begin()
        try:
            yield cast("list[Callable[[], object]]", self._undo)
        except BaseException:
            self.undo()
            raise
        if is_own:
            self.settle()

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Restore tables and solutions if the block raises an error."""
        bookkeeping = dict(vars(self), keys=dict(self.keys))
        copies = {name: bookkeeping[name].copy() for name in self._columns}
        try:
            with self._states_undone_on_error():
                yield
        except BaseException:
            vars(self).update(bookkeeping | copies)
            raise

    def _commit(self, change: ExampleUpdate, changed: Ints, slots: Ints, known: tuple[Any, Any], **more: Any) -> None:
        """Replace the tables; ``known`` has the values of changed and of new examples for the last of ``_columns``."""
        keys, columns = self.keys.copy(), [*map(vars(self).__getitem__, self._columns)]
        for key in change.leaving:
            del keys[key]
        if changed.size:
            columns = [column.copy() for column in columns]
            for column, values in zip(columns, (change.new_y, change.new_weights, known[0]), strict=True):
                column[changed] = values
        self._take(keys, columns, slots, (change.y, change.weights, known[1]), change.adding, **more)

    def _take(
        self,
        keys: dict[Key, int],
        columns: list[NDArray[Any]],
        slots: Ints,
        examples: tuple[Any, Any, Any],
        names: Sequence[Key],
        **more: Any,
    ) -> None:
        """Replace the tables at once: the arrays ``columns``, extended by ``examples``, and the attributes ``more``.

        No example uses the slots of new examples yet, so these slots of the arrays may be overwritten.
        """
        extra = more.get("store", self.store).capacity - columns[0].size
        if extra > 0:
            columns = [np.concatenate([column, np.zeros(extra, column.dtype)]) for column in columns]
        for column, values in zip(columns, examples, strict=True):
            column[slots] = values
        keys.update(zip(names, slots.tolist(), strict=True))
        next_key = self.next_key
        for key in names:
            if type(key) is int and key >= next_key:
                next_key = key + 1
        vars(self).update(zip(self._columns, columns, strict=True), keys=keys, next_key=next_key, **more)

    # -- keeping -------------------------------------------------------------------------------------------------------

    def to_arrays(self, X: Features | None = None) -> dict[str, Any]:
        """Return examples, coefficients and segments for a checkpoint; ``restore`` rebuilds factors and kernel rows.

        ``X`` has the features of a model that keeps them elsewhere.
        """
        beta, segments, intercept = self._solution()
        return {
            "X": self.X if X is None else X,
            "y": self.y,
            "sample_weight": self.weights,
            "sides": self.sides,
            "keys": list(self.keys),
            "beta": beta,
            "segments": segments,
            "intercept": intercept,
            "gamma": self.kernel.gamma,
            "next_key": self.next_key,
            **self.kernel.kept(),
        }

    def _known_of(self, losses: Losses, arrays: Mapping[str, Any]) -> Any:
        """Return what the last of ``_columns`` holds for the examples of a checkpoint, oldest first."""
        return np.asarray(arrays["sides"], np.int8)

    def restore(self, arrays: Mapping[str, Any], losses: Losses, total: float, n_others: int = 1) -> None:
        """Fill an empty window from ``to_arrays``; recompute decisions and factors, and correct rounding errors.

        Parameters
        ----------
        losses : of the examples, oldest first
        total : what the coefficients sum up to
        n_others : how many coefficients an example has

        Raises
        ------
        InvalidInput, NotOptimal : the arrays do not belong together, or describe no optimum
        """
        X, y = plain_features(arrays["X"]), plain(arrays["y"], np.float64)
        keys, weights = list(arrays["keys"]), plain(arrays["sample_weight"], np.float64)
        is_whole = X.ndim == 2 and len(keys) == len(set(keys)) == X.shape[0] == y.size == weights.size
        if not (is_whole and np.size(arrays["beta"]) == np.size(arrays["segments"]) == n_others * y.size):
            raise InvalidInput("the arrays of this checkpoint do not belong together")
        if not keys and X.shape[1]:
            self.store.expect(X)
        slots = self._resume(X, y, losses, total, arrays)
        self.next_key = int(arrays["next_key"])
        columns = [getattr(self, name) for name in self._columns]
        self._take({}, columns, slots, (y, weights, self._known_of(losses, arrays)), keys)


def taken(kernel: Kernel, X: Features, arrays: Mapping[str, Any], limit: int) -> Features:
    """Return a checkpoint's features as the window stores them; store kernel values in a kernel that holds values."""
    if kernel.gram is not None:
        numbers = kernel.gram.admit(dense(X), NO_EXAMPLES)
        kernel.gram.raised, kernel.gram.precision = np.asarray(arrays.get("raised", (0.0, 0.0))).tolist()
        return numbers[:, None].astype(np.float64)
    if isinstance(kernel, FunctionKernel):
        kernel.hold(X[:0], X)
        if kernel.held is not None:
            check_positive(kernel, X, limit)
    return X


def standing_of(arrays: Mapping[str, Any]) -> tuple[Floats, Ints]:
    """Return the coefficients and segments of a checkpoint."""
    return plain(arrays["beta"], np.float64), plain(arrays["segments"], np.int64)
