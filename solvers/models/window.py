"""The window: keys in order of arrival, each with its slot, label and weight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from sys import getsizeof
from typing import Any, NamedTuple, cast

import numpy as np

from livesvm.solvers.certificate import Certificate, certify
from livesvm.solvers.errors import InvalidInput, NotOptimal
from livesvm.solvers.homotopy import batch_update
from livesvm.solvers.homotopy.batch_update import UndoneOnError
from livesvm.solvers.homotopy.optimality import audited
from livesvm.solvers.homotopy.refactorize import refactorize
from livesvm.solvers.homotopy.refresh import mean_diagonal
from livesvm.solvers.homotopy.run import NO_EXAMPLES, Trace
from livesvm.solvers.homotopy.warm_start import resume
from livesvm.solvers.kernels.definiteness import check_positive
from livesvm.solvers.kernels.function import FunctionKernel
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.models.centering import center_of, is_movable
from livesvm.solvers.models.predictor import Predictor
from livesvm.solvers.models.scaling import NOTHING
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.robust.local_optimality import LocalOptimality, local_optimality
from livesvm.solvers.robust.partition import Partition, settle
from livesvm.solvers.robust.ramp_losses import WITHIN, Sides
from livesvm.solvers.robust.settings import Terms
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, dense, stacked
from livesvm.solvers.validation import Key, plain, plain_features

LOOK = 4.0  #: features are looked at again where the mean k(x, x) is so many times as large, or as small
ON_BOUNDARY = 1e-10  # of rho: f this close to 0 is 0 in a one-class model


class Change(NamedTuple):
    """What an update does to a window; everything has been checked."""

    X: Features  #: (m, d) features of new examples
    y: Floats  #: (m,) their targets
    weights: Floats  #: (m,)
    losses: Losses
    adding: list[Key]  #: their keys
    leaving: list[Key]  #: keys of examples that go
    changing: list[Key]  #: keys of examples that stay with another target or weight
    new_y: Floats  #: their targets and weights from now on
    new_weights: Floats
    new_losses: Losses
    new_sides: Sides  #: on which side of their cutoffs they start


class Undoable:
    """A window that can be taken back to where it was when a change began, until the change is settled."""

    _undo: list[Callable[[], object]] | None = None  #: what takes the change back, last first; None: there is none
    _later: tuple[Callable[[], object], ...] = ()  #: what is to be done once it is final

    def begin(self) -> None:
        """Begin a change; books of before are kept as they are, and replaced as a whole."""
        self._undo, self._later = [partial(vars(self).update, vars(self).copy())], ()

    def undo(self) -> None:
        """Bring everything back to what it was when the change began."""
        while self._undo:
            self._undo.pop()()
        self._undo, self._later = None, ()

    def settle(self) -> None:
        """Let the change be final."""
        later, self._undo, self._later = self._later, None, ()
        for act in later:
            act()

    @contextmanager
    def changing(self) -> Iterator[list[Callable[[], object]]]:
        """Undo a change if anything goes wrong inside; settle it where it has begun here."""
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


class Window(Undoable):
    """A path state whose examples have keys. Every change is all or nothing."""

    def __init__(self, kernel: Kernel, *, intercept: bool, cache_bytes: int) -> None:
        self.state = PathState(kernel, refactorize, intercept=intercept, cache_bytes=cache_bytes)
        self.keys: dict[Key, int] = {}  #: key -> slot, oldest first
        self.next_key = 0
        self.updates = 0  #: how many there have been: results that follow from the window are kept by it
        self._y = np.empty(0)  # by slot
        self._weight = np.empty(0)
        self._side: Sides = np.empty(0, np.int8)  # of its cutoffs; 0 unless the model is robust
        self._size = 0.0  # mean k(x, x) when features were last looked at, whether they have left their center
        self.room = NOTHING  #: a scale that is known to fit, and not smaller than that of the examples here

    @property
    def width(self) -> int | None:
        """Number of features of an example to predict; None before any were seen."""
        if self.state.kernel.gram is not None:
            return len(self.keys) or None
        return self.state.n_features or None

    @property
    def is_sparse(self) -> bool:
        """Whether only those features are held that are not 0."""
        return self.state.is_sparse

    @property
    def numbers(self) -> Ints:
        """Numbers of the window's examples in the precomputed kernel matrix, oldest first."""
        return self._numbers_of(self.slots)

    def _numbers_of(self, slots: Ints) -> Ints:
        return dense(self.state.columns(slots))[0].astype(np.int64) if slots.size else NO_EXAMPLES

    @property
    def slots(self) -> Ints:
        """Slots of the window, oldest first."""
        return np.fromiter(self.keys.values(), np.int64, len(self.keys))

    def _slots_of(self, keys: list[Key]) -> Ints:
        return np.fromiter(map(self.keys.__getitem__, keys), np.int64, len(keys)) if keys else NO_EXAMPLES

    @property
    def X(self) -> Features:
        """Features (n, d), oldest first; of the kernel "precomputed" the kernel matrix (n, n)."""
        gram = self.state.kernel.gram
        if gram is not None:
            return gram.values[np.ix_(self.numbers, self.numbers)]
        return self.state.features(self.slots)

    @property
    def y(self) -> Floats:
        """Targets (n,), oldest first; labels as -1 and 1."""
        return self._y[self.slots]

    @property
    def weights(self) -> Floats:
        """Weights (n,), oldest first."""
        return self._weight[self.slots]

    @property
    def sides(self) -> Sides:
        """On which side of its cutoffs each example counts, (n,); see ``livesvm.solvers.robust.ramp_losses``."""
        return self._side[self.slots]

    @property
    def beta(self) -> Floats:
        """Signed coefficients (n,), oldest first."""
        return self.state.examples.beta[self.slots]

    def targets_of(self, keys: list[Key]) -> tuple[Floats, Floats, Sides]:
        """Return targets, weights and sides of examples, by key."""
        slots = self._slots_of(keys)
        return self._y[slots], self._weight[slots], self._side[slots]

    def examples_except(self, keys: list[Key]) -> tuple[Floats, Floats]:
        """Return targets and weights of the window without some examples, in no order."""
        there = np.ones(self.state.n_slots, np.bool_)
        there[self.state.vacant] = there[self._slots_of(keys)] = False
        return self._y[: there.size][there], self._weight[: there.size][there]

    def partition(self, terms: Terms) -> Partition:
        """Return the window's examples under robust losses, oldest first."""
        slots, y = self.slots, self.y
        return Partition(
            self.state, slots, terms.losses(y, self.weights), terms.cutoffs(y), terms.theta, self._side[slots]
        )

    def cool(self) -> None:
        """Give up what the next update makes again; see ``PathState.cool``."""
        self.state.cool()
        slots = slice(self.state.capacity)
        self._y, self._weight, self._side = self._y[slots].copy(), self._weight[slots].copy(), self._side[slots].copy()

    @property
    def hot_bytes(self) -> int:
        """Bytes that :meth:`cool` gives back."""
        return self.state.hot_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of all arrays, and of the table of keys."""
        arrays = (self._y, self._weight, self._side)
        return self.state.held_bytes + sum(array.nbytes for array in arrays) + getsizeof(self.keys)

    def sizes(self) -> tuple[float, float]:
        """Return the largest k(x, x) and the largest weight."""
        slots = self.slots
        diagonal = self.state.examples.diagonal[slots]
        return float(diagonal.max(initial=0.0)), float(self._weight[slots].max(initial=0.0))

    def update(self, change: Change, total_per_weight: float, terms: Terms | None = None) -> Trace:
        """Make a change that has been checked; betas sum up to ``total_per_weight`` times the sum of weights.

        With the ``terms`` of robust losses, examples then switch sides until every example is on the true one.
        """
        with self.changing() as undo:
            gram, held = self.state.kernel.gram, self.state.kernel.held
            if held is not None:
                undo.append(partial(held.bring_back, held.standing()))
            if gram is not None:
                leaving = self._numbers_of(self._slots_of(change.leaving))
                numbers = gram.admit(dense(change.X), self.numbers) if change.y.size else NO_EXAMPLES
                undo.append(partial(gram.release, numbers))
                self._later = (partial(gram.release, leaving),)
                change = change._replace(X=numbers[:, None].astype(np.float64))
            if terms is None:
                return self._update(change, total_per_weight, undo)
            undo.append(UndoneOnError(self.state).undo)
            return self._settled(self._update(change, total_per_weight), terms)

    def _settled(self, trace: Trace, terms: Terms) -> Trace:
        """Let every example find the true side under robust losses."""
        if self.keys:
            partition = self.partition(terms)
            trace.events += settle(partition)
            side = self._side.copy()
            side[partition.slots] = partition.sides
            self._side = side
        return trace

    @contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        """Bring books and state back to what they were when anything goes wrong inside."""
        bookkeeping = dict(vars(self), keys=dict(self.keys))
        copies = {name: bookkeeping[name].copy() for name in ("_y", "_weight", "_side")}
        try:
            with UndoneOnError(self.state):
                yield
        except BaseException:
            vars(self).update(bookkeeping | copies)
            raise

    def _update(self, change: Change, total_per_weight: float, undo: list[Callable[[], object]] | None = None) -> Trace:
        """Follow one path to the window that the change leads to; ``undo`` takes in what brings the state back.

        Where more comes, goes and changes than is there in the end, the window is solved from nothing instead, and also
        where the path fails, and where the features have left the kernel's center; the trace says so.
        """
        leave, changed = self._slots_of(change.leaving), self._slots_of(change.changing)
        is_raised = self._make_positive(change.X, leave)
        total = 0.0
        if total_per_weight:
            stay = np.setdiff1d(self.slots, np.concatenate([leave, changed]), assume_unique=True)
            weight = self._weight[stay].sum() + change.weights.sum() + change.new_weights.sum()
            total = total_per_weight * float(weight)
        edit = batch_update.Edit(leave, changed, change.new_losses, total)
        is_free = not total_per_weight and is_movable(self.state.kernel, intercept=self.state.intercept)
        is_another = is_raised or batch_update.is_another_window(self.state, edit, change.y.size)
        if is_another or (is_free and self._has_left_its_center()):
            return self._solve_from_nothing(change, edit, is_free)
        before = UndoneOnError(self.state, edit.indices if self.keys else None)
        if undo is not None:
            undo.append(before.undo)
        if not self.keys:
            slots, trace = batch_update.fill(self.state, change.X, change.losses, total)
        else:
            try:
                slots, trace = batch_update.update(self.state, change.X, change.losses, edit, before)
            except NotOptimal:
                return self._solve_from_nothing(change, edit, is_free, by_path=False)
        self._commit(change, changed, slots)
        return trace

    def _has_left_its_center(self) -> bool:
        """Say whether features are so far from what they lose inside that another center would keep more digits.

        They are looked at where k(x, x) has become another than when they last were.
        """
        state = self.state
        if not self.keys:
            return False
        size = mean_diagonal(state)
        if self._size / LOOK <= size <= self._size * LOOK:
            return False
        self._size = size
        return center_of(state.kernel.centered(self.X)) is not None

    def _solve_from_nothing(
        self, change: Change, edit: batch_update.Edit, is_free: bool, by_path: bool = True
    ) -> Trace:
        """Solve the window that the change leads to without regard to what there was, with a new center if it may.

        Without ``by_path`` another method comes first, as a path has been given up.
        """
        gone = set(change.leaving)
        keys = [key for key in self.keys if key not in gone]
        slots = self._slots_of(keys)
        old = self.state
        y, weights, sides = self._y[slots], self._weight[slots], self._side[slots]
        every_example = stacked([old.features(slots), change.X]) if slots.size else change.X
        kernel = replace(old.kernel, center=center_of(every_example)) if is_free else old.kernel
        state = PathState(kernel, refactorize, intercept=old.intercept, cache_bytes=old.cache_bytes)
        losses = batch_update.losses_after(old, edit, slots, change.losses)
        fresh, trace = batch_update.fill(state, every_example, losses, edit.total, by_path)
        trace.retrained = 1
        place = {key: at for at, key in enumerate(keys)}
        changed = [place[key] for key in change.changing]
        y[changed], weights[changed], sides[changed] = change.new_y, change.new_weights, change.new_sides
        come = np.zeros(change.y.size, np.int8)
        examples = np.concatenate([y, change.y]), np.concatenate([weights, change.weights]), np.append(sides, come)
        nothing = np.empty(0), np.empty(0), np.empty(0, np.int8)
        self._take(state, {}, nothing, fresh, examples, [*keys, *change.adding])
        return trace

    def _commit(self, change: Change, changed: Ints, slots: Ints) -> None:
        keys, columns = self.keys.copy(), (self._y, self._weight, self._side)
        for key in change.leaving:
            del keys[key]
        if changed.size:
            columns = (self._y.copy(), self._weight.copy(), self._side.copy())
            columns[0][changed], columns[1][changed], columns[2][changed] = (
                change.new_y,
                change.new_weights,
                change.new_sides,
            )
        self._take(self.state, keys, columns, slots, (change.y, change.weights, WITHIN), change.adding)

    def _take(
        self,
        state: PathState,
        keys: dict[Key, int],
        columns: tuple[Floats, Floats, Sides],
        slots: Ints,
        examples: tuple[Floats, Floats, Sides | int],
        names: list[Key],
    ) -> None:
        """Have other books from now on, all at once: targets, weights and sides by slot, with those of new examples.

        What is at their slots belongs to no example so far, and may be written over.
        """
        extra = state.capacity - columns[0].size
        if extra > 0:
            y, weight, side = columns
            columns = (
                np.append(y, np.zeros(extra)),
                np.append(weight, np.zeros(extra)),
                np.append(side, np.zeros(extra, np.int8)),
            )
        columns[0][slots], columns[1][slots], columns[2][slots] = examples
        keys.update(zip(names, slots.tolist(), strict=True))
        next_key = max([self.next_key, *[key + 1 for key in names if type(key) is int]])
        y, weight, side = columns
        vars(self).update(state=state, keys=keys, _y=y, _weight=weight, _side=side, next_key=next_key)

    def _make_positive(self, X: Features, leave: Ints) -> bool:
        """Refuse data on which the kernel is not positive semi-definite; costs O(n^3) where the kernel may not be.

        Says whether values of the kernel have changed, as rounded ones may have to.
        """
        kernel = self.state.kernel
        if kernel.always_positive or X.shape[0] == 0:
            return False
        slots = self.slots
        if isinstance(kernel, FunctionKernel):
            is_new = kernel.hold(self.state.features(slots) if slots.size else X[:0], X)
        else:
            is_new = False
        stay = np.setdiff1d(slots, leave)
        every_example = stacked([self.state.features(stay), X]) if stay.size else X
        return check_positive(kernel, every_example, self.state.cache_bytes) or is_new

    def flip_signs(self) -> None:
        """Exchange the two classes; the mirror image of an optimum is the optimum of the mirror image."""
        with self.changing() as undo:
            mirrored = {"_y": -self._y, "_side": -self._side}
            self.state.mirror(undo)
            vars(self).update(mirrored)

    def kernel_values(self, X: Features | list[Any]) -> Floats:
        """Return k(x, x_j) for ``X``, (m, d) or objects, and the window's examples, oldest first, (m, n)."""
        kernel, window = self.state.kernel, self.state.columns(self.slots)
        if isinstance(X, list):
            assert isinstance(kernel, FunctionKernel)
            kernel, X = kernel.only(window, X)
        return dense(X) if kernel.gram is not None else kernel.matrix(X, window)

    def moved(self, beta: Floats) -> float:
        """Return what the kernel's center takes off f for coefficients of the window, (n,), see ``Kernel.moved``."""
        kernel = self.state.kernel
        return 0.0 if kernel.center is None else kernel.moved(self.X, beta)

    def predictor(self) -> Predictor:
        """Return the decision function as it is now, frozen."""
        slots = self.slots
        at = np.flatnonzero(self.state.examples.beta[slots])
        support = slots[at]
        return Predictor(
            self.state.kernel,
            self.state.columns(support) if self.state.kernel.gram is None else at[None, :].astype(np.float64),
            self.state.examples.beta[support],
            self.state.b,
            self.width,
            ON_BOUNDARY * abs(self.state.b) if self.state.total else 0.0,
        )

    def certificate(self) -> Certificate:
        """Recompute f from features and coefficients, and certify."""
        slots, state = self.slots, self.state
        f = self._fresh_f()
        losses, diagonal = state.losses(slots), state.examples.diagonal[slots]
        return certify(losses, self.beta, f, state.b, diagonal, total=state.total, intercept=state.intercept)

    @property
    def relative_gap(self) -> float:
        """The relative gap, by the f that the solver tracks."""
        return audited(self.state).relative_gap

    def local_optimality(self, terms: Terms) -> LocalOptimality:
        """Recompute f from features and coefficients, and check the conditions of a robust local optimum."""
        slots, y, state = self.slots, self.y, self.state

        def kernel(rows: Ints, columns: Ints) -> Floats:
            return state.kernel_rows(slots[rows])[:, slots[columns]]

        base, cutoffs, f = terms.losses(y, self.weights), terms.cutoffs(y), self._fresh_f()
        return local_optimality(base, cutoffs, terms.theta, f, self.beta, kernel, intercept=state.intercept)

    def _fresh_f(self) -> Floats:
        """Recompute f from features and coefficients, oldest first."""
        predictor = replace(self.predictor(), boundary=0.0, n_features=None)
        return predictor.decision_function(self.X) if self.keys else np.empty(0)

    def to_arrays(self) -> dict[str, Any]:
        """Return examples, coefficients and standing; factors and kernel rows are rebuilt."""
        slots, state = self.slots, self.state
        return {
            "X": self.X,
            "y": self._y[slots],
            "sample_weight": self._weight[slots],
            "sides": self._side[slots],
            "keys": list(self.keys),
            "beta": state.examples.beta[slots],
            "segments": state.examples.segment[slots],
            "intercept": state.b,
            "gamma": state.kernel.gamma,
            "next_key": self.next_key,
            **state.kernel.kept(),
        }

    def standing(self) -> dict[str, Any]:
        """Return f as it stands, and the events since it was computed: :meth:`restore` need not compute it then."""
        return {"f": self.state.examples.f[self.slots], "events": self.state.events_since_refresh}

    def restore(self, arrays: Mapping[str, Any], losses: Losses, total: float) -> None:
        """Fill an empty window from ``to_arrays``; f and the factor are computed afresh, and corrected."""
        X, y = plain_features(arrays["X"]), plain(arrays["y"], np.float64)
        keys, beta, segments = (
            list(arrays["keys"]),
            plain(arrays["beta"], np.float64),
            plain(arrays["segments"], np.int64),
        )
        whole = X.ndim == 2 and len(keys) == len(set(keys)) == X.shape[0] == y.size
        if not (whole and beta.size == segments.size == y.size):
            raise InvalidInput("the arrays of this checkpoint do not belong together")
        if X.shape[0]:
            X = taken(self.state.kernel, X, arrays, self.state.cache_bytes)
        self.next_key = int(arrays["next_key"])
        self.state.total = total
        if X.shape[0]:
            slots = resume(
                self.state,
                X,
                losses,
                beta,
                segments,
                float(arrays["intercept"]),
                (plain(arrays["f"], np.float64), int(arrays["events"])) if "f" in arrays else None,
            )
            sides = np.asarray(arrays["sides"], np.int8)
            weights = np.asarray(arrays["sample_weight"], np.float64)
            columns = self._y, self._weight, self._side
            self._take(self.state, {}, columns, slots, (y, weights, sides), keys)
        elif X.shape[1]:
            self.state.expect(X)


def taken(kernel: Kernel, X: Features, arrays: Mapping[str, Any], limit: int) -> Features:
    """Return the examples of a checkpoint as an empty window has them, with the values that a kernel holds of them."""
    if kernel.gram is not None:
        numbers = kernel.gram.admit(dense(X), NO_EXAMPLES)
        kernel.gram.raised, kernel.gram.precision = np.asarray(arrays.get("raised", (0.0, 0.0))).tolist()
        return numbers[:, None].astype(np.float64)
    if isinstance(kernel, FunctionKernel):
        kernel.hold(X[:0], X)
        if kernel.held is not None:
            check_positive(kernel, X, limit)
    return X
