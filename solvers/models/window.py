"""The window of a model that is updated along paths: examples by key, oldest first, and the problems they make.

Two classes, regression, one class, or positive and unlabelled examples make one problem; several classes make one for
every pair. Targets of several classes are class numbers: the indices of labels in ``classes_``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import combinations
from sys import getsizeof
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.certificate import Certificate
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.homotopy import linear
from livesvm.solvers.homotopy.run import NO_EXAMPLES, Trace
from livesvm.solvers.kernels.definiteness import check_positive
from livesvm.solvers.kernels.function import FunctionKernel
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.nystroem import weights_of
from livesvm.solvers.models.pairs_predictor import PairsPredictor, Two, by_other_class, summary, winners
from livesvm.solvers.models.path_problem import ExampleUpdate, PathProblem, ProblemChange, update_each, votes_of
from livesvm.solvers.models.per_class import PairShares, Parts
from livesvm.solvers.models.predictor import Predictor
from livesvm.solvers.models.scaling import NOTHING
from livesvm.solvers.problem.piecewise_linear import NO_LOSSES, Losses, hinge
from livesvm.solvers.problem.shared import SharedFeatures
from livesvm.solvers.problem.state import PathState, are_free
from livesvm.solvers.robust.local_optimality import LocalOptimality, local_optimality
from livesvm.solvers.robust.partition import Partition, settle
from livesvm.solvers.robust.ramp_losses import WITHIN, Sides
from livesvm.solvers.robust.settings import Terms
from livesvm.solvers.runtime.threads import solve_in_parallel
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features, dense
from livesvm.solvers.validation import Key, plain, plain_features

ON_BOUNDARY = 1e-10  # part of rho: f this close to 0 counts as 0 in a one-class model
COLUMNS = "_y", "_weight", "_side"  #: names of the arrays by slot
ONLY: Two = (0, 1)  #: the key of a window's only problem

NAMES = tuple(vars(Trace()))

WORST = ("max_violation", "relative_gap", "retrained", "abandoned")  # counted by the worst, not by the sum


class Window:
    """Examples by key, each in a slot. Every change is all or nothing, and can be undone until it is settled.

    Parameters
    ----------
    n_classes : number of classes so far, see ``rename``; 2 also of models without classes
    """

    _undo: list[Callable[[], object]] | None = None  #: undo the change, from the last; None: no change is open
    _later: tuple[Callable[[], object], ...] = ()  #: calls to make once the change is final
    _is_part = False  #: whether updates are parts of the open change, which ``changing`` ends

    threads: int | None = None  #: how many may update pairs at once; None: as many as ``runtime.threads`` allows

    def __init__(self, kernel: Kernel, n_classes: int = 2, *, intercept: bool, cache_bytes: int) -> None:
        self.intercept, self.n_classes = intercept, n_classes
        #: features that the problems of several classes share; None: the only problem has them
        self.shared = SharedFeatures(kernel) if n_classes > 2 else None
        self._shares = PairShares(cache_bytes)
        of = self.shared or kernel
        self.problems = {two: self._new_problem(of) for two in combinations(range(n_classes), 2)}  #: by class numbers
        self.store: PathState | SharedFeatures = self.shared or self.state  #: the object that stores the features
        self._y: NDArray[Any] = np.empty(0, np.float64 if self.shared is None else np.int64)  # by slot
        self._weight = np.empty(0)
        self._side: Sides = np.empty(0, np.int8)  # of its cutoffs; 0 unless the model is robust
        self.keys: dict[Key, int] = {}  #: key -> slot, oldest first; never changed in place
        self._ordered: tuple[dict[Key, int], Ints] = ({}, NO_EXAMPLES)  #: keys, and their slots
        self.next_key = 0  #: larger than every whole number that has been a key
        self.updates = 0  #: number of updates so far: the key of cached results that depend on the window
        self.foretells = False  #: whether ``unlearnt`` is asked for
        #: of the newest examples, by the model before: f, or of several classes the place of the class, (m,)
        self.unlearnt: Sequence[float] = []
        self.left: list[float] = []  #: targets of the examples that left with the newest update
        self.last_events: list[int] = []  #: breakpoints of the last update, pair by pair
        self.cache_mb: float | None = None  #: of kernel rows, as an update has allowed them last
        self.room = NOTHING  #: a scale that fits, and is not smaller than that of the examples here

    def __getstate__(self) -> dict[str, Any]:
        of_the_last: dict[str, Any] = {
            "_ordered": ({}, NO_EXAMPLES),
            "unlearnt": [],
            "left": [],
        }  # and of what has left since
        return vars(self) | of_the_last

    # -- the problems --------------------------------------------------------------------------------------------------

    def _new_problem(self, of: Kernel | SharedFeatures) -> PathProblem:
        return PathProblem(of, intercept=self.intercept, cache_bytes=self._shares.limit)

    @property
    def state(self) -> PathState:
        """The path state of the window's only problem."""
        return self.problems[ONLY].raw_state

    def stand_on(self, state: PathState) -> None:
        """Replace the state of the window's only problem by one with the same slots."""
        self.problems[ONLY].put(state, NO_EXAMPLES)
        self.store = state

    @property
    def pairs(self) -> dict[Two, PathProblem]:
        """The problems of several classes, by pair of class numbers; empty with at most two classes."""
        return {} if self.shared is None else self.problems

    @property
    def largest(self) -> PathProblem:
        """The problem with the most examples."""
        return max(self.problems.values(), key=lambda problem: problem.state.n)

    @property
    def relative_gap(self) -> float:
        """The largest relative gap of any problem, computed from the decision values that the solver tracks."""
        return max((problem.relative_gap for problem in self.problems.values()), default=0.0)

    def allow(self, cache_bytes: int) -> None:
        """Let the kernel rows of all problems take ``cache_bytes`` from the next update on; may raise MemoryLimit."""
        if self.shared is None:
            self.state.allow(cache_bytes)
        self._shares.limit = cache_bytes

    def prepare(self) -> None:
        """Build the factors and kernel rows that are not built yet."""
        for problem in self.problems.values():
            problem.state.prepare()

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

    def stays_without(self, keys: Sequence[Key]) -> Bools:
        """Return a mask (n,) of the examples, oldest first, except those with ``keys``."""
        stays = np.ones(self.store.capacity, np.bool_)
        stays[self._slots_of(keys)] = False
        return stays[self.slots]

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

    @property
    def sides(self) -> Sides:
        """The side of its robust loss's cutoffs on which each example counts, (n,); see ``robust.ramp_losses``."""
        return self._side[self.slots]

    @property
    def beta(self) -> Floats:
        """Signed coefficients (n,), oldest first; of several classes (n_pairs, n), 0 for examples not of the pair."""
        slots, out = self.slots, np.zeros((len(self.problems), len(self.keys)))
        for row, problem in zip(out, self.problems.values(), strict=True):
            here = problem.holds(slots)
            row[here] = problem.coefficients(slots[here])
        return out[0] if self.shared is None else out

    @property
    def coefficients(self) -> Floats:
        """Signed coefficients (n,), oldest first.

        With several classes, the shape is (n, n_classes - 1): column r has each example's coefficient for the pair of
        its own class and the r-th other class, positive for the pair's first class.
        """
        return self.beta if self.shared is None else by_other_class(self.beta, self.y.astype(np.int64), self.n_classes)

    @property
    def is_free(self) -> Bools:
        """Whether each example (n,), oldest first, is free in some problem."""
        slots = self.slots
        out = np.zeros(slots.size, np.bool_)
        for problem in self.problems.values():
            here = problem.holds(slots)
            out[here] |= are_free(problem.state.examples.segment[problem.at(slots[here])])
        return out

    def targets_of(self, keys: Sequence[Key]) -> tuple[Floats, Floats, Sides]:
        """Return targets, weights and sides of examples, by key."""
        slots = self._slots_of(keys)
        return self._y[slots].astype(np.float64, copy=False), self._weight[slots], self._side[slots]

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

    @property
    def _holders(self) -> list[SharedFeatures | PathProblem]:
        return [*self.problems.values()] if self.shared is None else [self.shared, *self.problems.values()]

    def cool(self) -> None:
        """Free memory that the next update fills again; see ``PathState.cool``."""
        for holder in self._holders:
            holder.cool()
        for name in COLUMNS:
            setattr(self, name, getattr(self, name)[: self.store.capacity].copy())

    @property
    def hot_bytes(self) -> int:
        """Bytes that :meth:`cool` would free."""
        return sum(holder.hot_bytes for holder in self._holders)

    @property
    def held_bytes(self) -> int:
        """Bytes that all arrays and the table of keys take."""
        columns = sum(int(getattr(self, name).nbytes) for name in COLUMNS)
        return sum(holder.held_bytes for holder in self._holders) + columns + getsizeof(self.keys)

    # -- changes -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a change, and save the tables for :meth:`undo`; a change replaces tables and never modifies them."""
        if not self._is_part:
            self._undo, self._later = [partial(vars(self).update, vars(self).copy())], ()

    def undo(self) -> None:
        """Bring everything back to what it was when the change began."""
        while self._undo:
            self._undo.pop()()
        self._undo, self._later, self._is_part = None, (), False

    def settle(self) -> None:
        """Make the change final."""
        if self._is_part:
            return
        later, self._undo, self._later = self._later, None, ()
        for act in later:
            act()

    @contextmanager
    def changing(self) -> Iterator[list[Callable[[], object]]]:
        """Make the block one change, or part of the open change; undo the whole change if the block raises an error.

        The block must not add examples after it has removed others, because they would take the slots of these.
        """
        is_own, was_part = self._undo is None, self._is_part
        if is_own:
            self.begin()
        self._is_part = True
        try:
            yield cast("list[Callable[[], object]]", self._undo)
        except BaseException:
            self.undo()
            raise
        self._is_part = was_part
        if is_own:
            self.settle()

    def update(self, change: ExampleUpdate, total_per_weight: float, terms: Terms | None = None) -> Trace:
        """Apply a checked change; afterwards the betas sum up to ``total_per_weight`` times the sum of weights.

        The caller has begun the change, and undoes it after an error. With the ``terms`` of robust losses, examples
        finally switch sides of their cutoffs until each is on its true side.

        Raises
        ------
        NotPositiveSemidefinite, NotOptimal, MemoryLimit, Cancelled, TimeLimit : all problems are as they were
        """
        undo = cast("list[Callable[[], object]]", self._undo)
        kernel, slot_of = self.store.kernel, self.keys.__getitem__
        leave = np.fromiter(map(slot_of, change.leaving), np.int64, len(change.leaving))
        changed = np.fromiter(map(slot_of, change.changing), np.int64, len(change.changing))
        if self.shared is not None:
            undo.append(partial(self.shared.measure, self.slots))
        if not kernel.always_positive and (held := kernel.held) is not None:  # rounded values may have to be raised
            undo.append(partial(held.bring_back, held.standing()))
        if (gram := kernel.gram) is not None:
            numbers = gram.admit(dense(change.X), self._numbers_of(self.slots)) if change.y.size else NO_EXAMPLES
            undo.append(partial(gram.release, numbers))
            self._later += (partial(gram.release, self._numbers_of(leave)),)
            change = change._replace(X=numbers[:, None].astype(np.float64))
        if self.shared is not None:
            return self._update_pairs(self.shared, change, leave, changed)
        problem, before, total = self.problems[ONLY], cast(PathState, self.store), 0.0
        if total_per_weight:
            stay = np.setdiff1d(self.slots, np.concatenate([leave, changed]), assume_unique=True)
            weight = self._weight[stay].sum() + change.weights.sum() + change.new_weights.sum()
            total = total_per_weight * float(weight)
        if terms is not None:  # other losses than those of the change will change
            undo.append(problem.keep())
        is_movable = kernel.is_movable and self.intercept and not total_per_weight
        mine = change.X, change.losses, changed, change.new_losses, total, self.slots, is_movable
        undone = undo if terms is None else []
        slots, trace = problem.update(ProblemChange(leave, *mine), self._shares.limit, undone)
        self.unlearnt = problem.raw_state.unlearnt
        if problem.raw_state is not before:
            self._renumber(change, problem.raw_state, slots)
        self._commit(slots[slots.size - change.y.size :], change.adding, change.y, change.weights, change)
        if terms is not None:
            self._settle_sides(trace, terms)
        return trace

    def _renumber(self, change: ExampleUpdate, state: PathState, slots: Ints) -> None:
        """Move the examples that stay after a change to the first slots of a new state."""
        gone = set(change.leaving)
        keys = [key for key in self.keys if key not in gone]
        stay, fresh = self._slots_of(keys), slots[: len(keys)]
        for name in COLUMNS:
            old = vars(self)[name]
            new = np.zeros(state.capacity, old.dtype)
            new[fresh] = old[stay]
            setattr(self, name, new)
        self.keys, self.store = dict(zip(keys, fresh.tolist(), strict=True)), state

    def _settle_sides(self, trace: Trace, terms: Terms) -> None:
        """Switch examples until each is on its true side under robust losses."""
        if self.keys:
            partition = self.partition(terms)
            trace.events += settle(partition)
            self._side = self._side.copy()
            self._side[partition.slots] = partition.sides

    def _update_pairs(self, shared: SharedFeatures, change: ExampleUpdate, leave: Ints, changed: Ints) -> Trace:
        """Apply a checked change to every pair that it affects; several pairs are solved at the same time."""
        undo, numbers = cast("list[Callable[[], object]]", self._undo), self.slots
        come = shared.place(change.X) if change.y.size else NO_EXAMPLES
        undo.append(partial(shared.release, come))
        parts = Parts(self._y, leave, come, change, changed, self.n_classes)
        todo = [two for two in self.problems if parts.touches(two)]
        limits = self._shares.of(self.problems, parts.counts(self._y[numbers], self.n_classes))
        from_nothing = come.size > 0 and shared.make_positive(numbers, leave, come, self._shares.limit)
        todo = list(self.problems) if from_nothing else todo
        touched = [self.problems[two] for two in todo]
        for problem in touched:
            problem.settle()
        undo += [problem.keep() if self._is_part else problem.undo for problem in touched]
        self._later += (*[problem.settle for problem in touched], partial(shared.release, leave))
        with shared.at_hand(come):
            foretold = np.empty(come.size if self.foretells and self.keys else 0, np.int64)
            events, traces = self._walk(shared, todo, parts, limits, from_nothing, (change.X, foretold))
            self.unlearnt = foretold.tolist()
        self.last_events = [events.get(two, 0) for two in self.problems]
        self._commit(come, change.adding, change.y, change.weights, change)
        return _together(traces)

    def _walk(
        self,
        shared: SharedFeatures,
        todo: list[Two],
        parts: Parts,
        limits: dict[Two, int],
        from_nothing: bool,
        new: tuple[Features, Ints],
    ) -> tuple[dict[Two, int], list[Trace]]:
        """Update the pairs ``todo``: as many as possible in one compiled call, the others in parallel.

        Returns the events of each pair, and what was done. If kernel values changed, pairs are solved from nothing.
        ``new`` has the new examples, and an array (m,) or (0,) for the class numbers that the pairs predict for them.
        """
        work, (X, foretold), undo = parts.work(shared), new, cast("list[Callable[[], object]]", self._undo)
        if work is not None:
            events, done = update_each(self.problems, todo, work, limits, foretold)
        else:
            events, done, at_hand = {}, [], shared.rows_at_hand()
            if foretold.size and at_hand is None:  # they are too many
                foretold[:] = winners(self.predictor().decide(X), self.n_classes)
            elif foretold.size and at_hand is not None:
                foretold[:] = votes_of(self.problems, at_hand[1], self.n_classes).argmax(axis=1)
        rest = [two for two in todo if two not in events]
        each = [(parts.of(two), limits[two], undo, from_nothing) for two in rest]
        works = [partial(self.problems[two].update, *mine) for two, mine in zip(rest, each, strict=True)]
        traces = [trace for _, trace in solve_in_parallel(works, self.threads)]
        return events | {two: trace.events for two, trace in zip(rest, traces, strict=True)}, [*done, *traces]

    def _commit(
        self, slots: Ints, keys: Sequence[Key], y: Floats | Ints, weights: Floats, change: ExampleUpdate | None = None
    ) -> None:
        """Replace the tables by tables with new examples in ``slots`` and without examples that leave with ``change``.

        No example uses the slots of new examples yet, so these slots of the arrays may be overwritten.
        """
        known, columns, next_key = self.keys.copy(), [*map(vars(self).__getitem__, COLUMNS)], self.next_key
        if change is not None:
            for key in change.leaving:
                known.pop(key, None)
            if change.changing:
                changed, columns = self._slots_of(change.changing), [column.copy() for column in columns]
                for column, values in zip(columns, (change.new_y, change.new_weights, change.new_sides), strict=True):
                    column[changed] = values
        extra = self.store.capacity - columns[0].size
        if extra > 0:
            columns = [np.concatenate([column, np.zeros(extra, column.dtype)]) for column in columns]
        for column, values in zip(columns, (y, weights, WITHIN), strict=True):
            column[slots] = values
        known.update(zip(keys, slots.tolist(), strict=True))
        for key in keys:
            if type(key) is int and key >= next_key:
                next_key = key + 1
        vars(self).update(zip(COLUMNS, columns, strict=True), keys=known, next_key=next_key)

    # -- classes -------------------------------------------------------------------------------------------------------

    def flip_signs(self) -> None:
        """Exchange the two classes; the mirror image of an optimum is the optimum of the mirror image."""
        with self.changing() as undo:
            mirrored = {"_y": -self._y, "_side": -self._side}
            self.state.mirror(undo)
            vars(self).update(mirrored)

    def rename(self, places: Ints, n_classes: int) -> None:
        """Renumber each class ``i`` as ``places[i]``, ascending; other numbers below ``n_classes`` are new classes.

        If the window had at most two classes, its only problem becomes the problem of one pair.
        """
        if self.shared is None:
            self._divide(places.size)
        was = {(places[a], places[b]): problem for (a, b), problem in self.problems.items() if b < places.size}
        slots, by_slot, shared = self.slots, self._y.copy(), cast(SharedFeatures, self.shared)
        by_slot[slots] = y = places[self._y[slots]]
        costs = np.zeros(slots.size)
        for problem in self.problems.values():
            here = problem.holds(slots)
            costs[here] = problem.levels(slots[here])

        def one_sided(two: Two) -> PathProblem:
            """Return the problem of two classes, of which at least one has no examples yet."""
            problem, here = self._new_problem(shared), np.flatnonzero(np.isin(y, two))
            if here.size:
                losses = hinge(np.where(y[here] == two[1], 1.0, -1.0), costs[here])
                change = ProblemChange(NO_EXAMPLES, slots[here], losses, NO_EXAMPLES, NO_LOSSES)
                problem.update(change, self._shares.limit, [])
            return problem

        problems = {two: was.get(two) or one_sided(two) for two in combinations(range(n_classes), 2)}
        vars(self).update(_y=by_slot, n_classes=n_classes, problems=problems)

    def _divide(self, n_known: int) -> None:
        """Store the features apart from the only problem, as several problems share them."""
        slots, state, y = self.slots, self.state, np.where(self.y > 0, n_known - 1, 0)
        self.shared = self.store = shared = SharedFeatures(state.kernel)
        numbers, e, pair = shared.place(state.features(slots)), state.examples, self._new_problem(shared)
        pair.restore(numbers, state.losses(slots), e.beta[slots], e.segment[slots], state.b)
        self.problems = {ONLY: pair}
        keys, weights, self.keys = list(self.keys), self._weight[slots], {}
        self._y, self._weight, self._side = np.empty(0, np.int64), np.empty(0), np.empty(0, np.int8)
        self._commit(numbers, keys, y, weights)

    # -- answers -------------------------------------------------------------------------------------------------------

    def kernel_values(self, X: Features | list[Any]) -> Floats:
        """Return k(x, x_j) for ``X``, (m, d) or objects, and the window's examples, oldest first, (m, n)."""
        kernel, window = self.kernel, self.store.columns(self.slots)
        if isinstance(X, list):
            assert isinstance(kernel, FunctionKernel)
            kernel, X = kernel.only(window, X)
        return dense(X) if kernel.gram is not None else kernel.matrix(X, window)

    def moved(self, beta: Floats) -> float:
        """Return by how much the kernel's center lowers decisions, given coefficients (n,); see ``Kernel.moved``."""
        return 0.0 if self.kernel.center is None else self.kernel.moved(self.X, beta)

    @property
    def intercepts(self) -> Floats:
        """The intercepts of all problems, (n_problems,)."""
        return np.array([problem.intercept for problem in self.problems.values()])

    def intercepts_in_units(self) -> Floats:
        """Return the intercepts of all decisions in the units of the features, (n_problems,)."""
        found = self.intercepts - [self.moved(beta) for beta in np.atleast_2d(self.beta)]
        return found if self.shared is None else -found

    def predictor(self) -> Any:
        """Return the present decision function, or those of all pairs, which later updates do not change."""
        if self.shared is not None:
            return self.predictor_of(self.beta, self.intercepts)
        slots, state, width = self.slots, cast(PathState, self.store), self.width
        kernel, beta = state.kernel, state.examples.beta[slots]
        edge = ON_BOUNDARY * abs(state.b) if state.total else 0.0
        if kernel.name == "linear" and linear.is_weighted(state):  # one vector of weights in place of support vectors
            w = weights_of(dense(state.XT), slots, beta)
            if kernel.center is not None:
                w += kernel.center * (1.0 - float(beta.sum()))
            return Predictor(kernel, w[:, None], np.ones(1), state.b, width, edge)
        at = np.flatnonzero(beta)
        support = state.columns(slots[at]) if kernel.gram is None else at[None, :].astype(np.float64)
        return Predictor(kernel, support, beta[at], state.b, width, edge)

    def predictor_of(self, coefficients: Floats, intercepts: Floats) -> PairsPredictor:
        """Return decision functions with coefficients (n_pairs, n) and intercepts (n_pairs,) on the window."""
        if self.kernel.is_projected:  # one weight vector of each pair has the place of support vectors
            q, slots = len(self.problems), self.slots
            W = np.column_stack([weights_of(dense(self.store.XT), slots, beta) for beta in coefficients])
            each, ones = tuple(np.arange(q)[:, None]), (np.ones(1),) * q
            return PairsPredictor(self.kernel, W, each, ones, intercepts, self.width, self.n_classes)
        places = np.flatnonzero((coefficients != 0.0).any(axis=0))
        given = self.kernel.gram is not None
        support = places[None, :].astype(np.float64) if given else self.store.columns(self.slots[places])
        indices = tuple(np.flatnonzero(row[places]) for row in coefficients)
        values = tuple(row[places[these]] for row, these in zip(coefficients, indices, strict=True))
        return PairsPredictor(self.kernel, support, indices, values, intercepts, self.width, self.n_classes)

    def certificate(self) -> Certificate:
        """Recompute the decisions from features and coefficients, and return the certificate, or those of all pairs."""
        if self.shared is None:
            return self.problems[ONLY].certificate(self.slots)
        return summary({two: problem.certificate() for two, problem in self.problems.items()}, len(self.keys))

    def partition(self, terms: Terms) -> Partition:
        """Return the window's examples, oldest first, as a partition by the sides of their robust losses' cutoffs."""
        slots, y = self.slots, self.y
        losses, cutoffs = terms.losses(y, self.weights), terms.cutoffs(y)
        return Partition(self.state, slots, losses, cutoffs, terms.theta, self._side[slots])

    def local_optimality(self, terms: Terms) -> LocalOptimality:
        """Recompute decisions from features and coefficients, and check the conditions of a robust local optimum."""
        slots, y, state = self.slots, self.y, self.state

        def kernel(rows: Ints, columns: Ints) -> Floats:
            return state.kernel_rows(slots[rows])[:, slots[columns]]

        base, cutoffs, f = terms.losses(y, self.weights), terms.cutoffs(y), self.problems[ONLY].decisions(slots)
        return local_optimality(base, cutoffs, terms.theta, f, self.beta, kernel, intercept=self.intercept)

    def standing_of(self, two: Two, indices: Bools) -> tuple[Floats, Ints]:
        """Return the coefficients and segments that the examples ``indices`` (n,) have in a problem."""
        problem = self.problems[two]
        slots, e = problem.at(self.slots[indices]), problem.state.examples
        return e.beta[slots], e.segment[slots]

    # -- keeping -------------------------------------------------------------------------------------------------------

    def to_arrays(self, X: Features | None = None) -> dict[str, Any]:
        """Return examples, coefficients and segments for a checkpoint; ``restore`` rebuilds factors and kernel rows.

        ``X`` has the features if the model keeps them outside this window.
        """
        found = [self.standing_of(two, problem.holds(self.slots)) for two, problem in self.problems.items()]
        beta, segments = (np.concatenate(parts) for parts in zip(*found, strict=True))  # problem by problem
        return {
            "X": self.X if X is None else X,
            "y": self.y,
            "sample_weight": self.weights,
            "sides": self.sides,
            "keys": list(self.keys),
            "beta": beta,
            "segments": segments,
            "intercept": self.state.b if self.shared is None else self.intercepts,
            "gamma": self.kernel.gamma,
            "next_key": self.next_key,
            **self.kernel.kept(),
        }

    def standing(self) -> dict[str, Any]:
        """Return what :meth:`restore` need not compute again: decisions, and the number of events since they were made.

        With several classes, the result is empty.
        """
        if self.shared is not None:
            return {}
        return {"f": self.state.examples.f[self.slots], "events": self.state.events_since_refresh}

    def restore(self, arrays: Mapping[str, Any], losses: Losses, total: float) -> None:
        """Fill an empty window from ``to_arrays``; recompute decisions and factors, and correct rounding errors.

        Parameters
        ----------
        losses : of the examples, oldest first
        total : what the coefficients sum up to

        Raises
        ------
        InvalidInput, NotOptimal : the arrays do not belong together, or describe no optimum
        """
        X, y = plain_features(arrays["X"]), plain(arrays["y"], np.float64)
        keys, weights = list(arrays["keys"]), plain(arrays["sample_weight"], np.float64)
        beta, segments = plain(arrays["beta"], np.float64), plain(arrays["segments"], np.int64)
        b = np.atleast_1d(plain(arrays["intercept"], np.float64))
        is_whole = X.ndim == 2 and len(keys) == len(set(keys)) == X.shape[0] == y.size == weights.size
        are_all = beta.size == segments.size == (self.n_classes - 1) * y.size and b.size == len(self.problems)
        if not (is_whole and are_all):
            raise InvalidInput("the arrays of this checkpoint do not belong together")
        if not keys and X.shape[1]:
            self.store.expect(X)
        slots, start = NO_EXAMPLES, 0
        if keys:
            X = taken(self.kernel, X, arrays, self._shares.limit)
            slots = NO_EXAMPLES if self.shared is None else self.shared.place(X)
        for (two, problem), intercept in zip(self.problems.items(), b.tolist(), strict=True):
            if self.shared is None:
                problem.state.total = total
                f = (plain(arrays["f"], np.float64), int(arrays["events"])) if "f" in arrays else None
                slots = problem.restore(X, losses, beta, segments, intercept, f)
                continue
            mine = np.flatnonzero(np.isin(y, two))
            part = slice(start, start + mine.size)
            signs, costs = np.where(y[mine] == two[1], 1.0, -1.0), losses.levels[mine, 0]
            problem.restore(slots[mine], hinge(signs, costs), beta[part], segments[part], intercept)
            start += mine.size
        self.next_key = int(arrays["next_key"])
        self._commit(slots, keys, y, weights)
        self._side[slots] = np.asarray(arrays["sides"], np.int8)


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


def _together(traces: list[Trace]) -> Trace:
    """Return one trace for all pairs: the counts summed over pairs, and the largest violation and gap of any pair."""
    columns = zip(*(vars(trace).values() for trace in [Trace(), *traces]), strict=True)
    return Trace(*(max(each) if name in WORST else sum(each) for name, each in zip(NAMES, columns, strict=True)))
