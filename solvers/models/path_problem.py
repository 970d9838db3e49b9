"""The problems of a window: one for the whole window, or with several classes one for each pair of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.certificate import Certificate, certify
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy import batch_update, linear
from livesvm.solvers.homotopy.batch_update import UndoneOnError
from livesvm.solvers.homotopy.edit import ClassBatch
from livesvm.solvers.homotopy.optimality import audited
from livesvm.solvers.homotopy.pairs import OWN_BYTES, PairInMemory, call_each
from livesvm.solvers.homotopy.refactorize import refactorize
from livesvm.solvers.homotopy.refresh import mean_diagonal
from livesvm.solvers.homotopy.run import NO_EXAMPLES, Trace
from livesvm.solvers.homotopy.warm_start import resume
from livesvm.solvers.kernels.definiteness import check_positive
from livesvm.solvers.kernels.function import FunctionKernel
from livesvm.solvers.kernels.kernel import Kernel, times
from livesvm.solvers.models.pairs_predictor import Two
from livesvm.solvers.models.predictor import blocks
from livesvm.solvers.models.scaling import center_of
from livesvm.solvers.problem.piecewise_linear import NO_LOSSES, Losses
from livesvm.solvers.problem.shared import SharedFeatures, by_number
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.robust.ramp_losses import Sides
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features, dense, stacked
from livesvm.solvers.validation import Key

LOOK = 4.0  #: features are checked again if the mean k(x, x) has changed by this factor, up or down
MOST = 64  #: most examples that come and leave in an update of all pairs together


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


class PairsWork(NamedTuple):
    """The changes of an update for all pairs."""

    batch: ClassBatch
    kind: Any  #: its type, as ``kind_of`` returns it
    come: list[int]  #: numbers of new examples, by class
    moving: list[int]  #: numbers of new and leaving examples


class ProblemChange(NamedTuple):
    """The changes of an update to one problem; arrays hold the places of examples in the window."""

    leave: Ints
    come: Any  #: numbers of the new examples in shared features, (m,), or their features, (m, d)
    losses: Losses  #: of the new examples
    changed: Ints
    new_losses: Losses  #: of the examples that stay with other losses
    total: float = 0.0  #: the sum of all betas afterwards
    here: Ints = NO_EXAMPLES  #: all examples before, oldest first; not needed of shared features
    is_movable: bool = False  #: whether the kernel's center may move


class PathProblem:
    """The path state of a problem of a window. A change is all or nothing, and can be taken back afterwards.

    If a window has a single problem, the problem stores the features of the examples, in the window's slots. With
    several classes, the problem of a pair stores the numbers of its examples in ``shared``, in place of their features,
    and the slot of each number.
    """

    def __init__(self, of: Kernel | SharedFeatures, *, intercept: bool, cache_bytes: int) -> None:
        self.shared = of if isinstance(of, SharedFeatures) else None
        kernel = of if isinstance(of, Kernel) else by_number(of)
        #: the path state, of which compiled code may have newer numbers; see ``state``
        self.raw_state = PathState(kernel, refactorize, intercept=intercept, cache_bytes=cache_bytes)
        self.slot = np.empty(0, np.int64)  #: by number; -1: not here
        self._make_room()
        self._n_bound: int | None = None  # bound supports, once they were counted
        self._memory: PairInMemory | None = None
        self._size = 0.0  # mean k(x, x) at the last check of whether features have left their center

    def __getstate__(self) -> dict[str, object]:
        kept = {"state": self._let_go(), **vars(self)}
        return {name: value for name, value in kept.items() if name not in ("raw_state", "_memory")}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.raw_state, self._memory = kept.pop("state"), None
        vars(self).update(kept)

    @property
    def state(self) -> PathState:
        """The path state, for reading only."""
        if self._memory is not None:
            self._memory.catch_up()
        return self.raw_state

    @property
    def numbers(self) -> Ints:
        """Numbers of the examples of a problem with shared features, ascending."""
        return np.flatnonzero(self.slot >= 0)

    def at(self, places: Ints) -> Ints:
        """Return the slots in the state of examples of the problem, given their places in the window."""
        return places if self.shared is None else self.slot[places]

    def holds(self, places: Ints) -> Bools:
        """Say which of these examples are in the problem."""
        if self.shared is None:
            return np.ones(places.size, np.bool_)
        known = places < self.slot.size
        known[known] = self.slot[places[known]] >= 0
        return known

    def _make_room(self) -> None:
        if self.shared is not None and self.slot.size < self.shared.capacity:
            more = np.full(self.shared.capacity - self.slot.size, -1, np.int64)
            self.slot = np.concatenate([self.slot, more])

    def update(
        self, change: ProblemChange, cache_bytes: int, undo: list[Callable[[], object]], from_nothing: bool = False
    ) -> tuple[Ints, Trace]:
        """Follow one path to the optimum after the change; return the slots of the new examples, and what was done.

        The problem is solved from nothing instead if that is less work, if the path fails, or if the features are far
        from the kernel's center. In this case the slots of all examples are returned, the new ones last.
        ``from_nothing`` forces the solve from nothing, which is needed after kernel values have changed. Functions that
        undo the change are appended to ``undo``.

        Raises
        ------
        NotPositiveSemidefinite, NotOptimal, MemoryLimit : the problem is as it was
        """
        self._n_bound, state = None, self.raw_state
        kernel, leave, changed, X = state.kernel, change.leave, change.changed, change.come
        if self.shared is not None:
            state, self._memory, kernel = self.state, None, self.shared.kernel
            self._make_room()
            state.allow(cache_bytes)
            leave, changed, X = self.slot[leave], self.slot[changed], self._with(NO_EXAMPLES, X)
        from_nothing |= not kernel.always_positive and self._make_positive(kernel, change)
        edit = batch_update.Edit(leave, changed, change.new_losses, change.total)
        is_empty = state.n_slots == len(state.vacant)
        from_nothing = from_nothing or batch_update.is_another_window(state, edit, len(X))
        if from_nothing or (change.is_movable and not is_empty and self._has_left_its_center(change)):
            return self._solve_from_nothing(change, edit, undo)
        before = UndoneOnError(state, None if is_empty else edit)
        undo.append(partial(self._move_back, change, leave, before.undo))
        try:
            if is_empty:
                slots, trace = batch_update.fill(state, X, change.losses, change.total)
            else:
                slots, trace = batch_update.update(state, X, change.losses, edit, before)
        except NotOptimal:
            if is_empty:
                raise
            return self._solve_from_nothing(change, edit, undo, by_path=False)
        if self.shared is not None:
            self.slot[change.leave] = -1
            self.slot[change.come] = slots
        return slots, trace

    def place(self, two: Two, work: PairsWork, cache_bytes: int) -> PairInMemory | None:
        """Return the records that compiled code needs to update the pair; None if ``update`` must do the work."""
        if work.moving[two[0]] + work.moving[two[1]] > MOST:
            return None
        self._make_room()
        memory, state = self._memory, self.raw_state
        if memory is not None and memory.is_for(two, self.slot, cache_bytes):
            return memory
        self._let_go()
        is_ready = state.n > 0 and state.is_prepared and state.cache_bytes == cache_bytes
        if not (is_ready and state.make_vacant(work.come[two[0]] + work.come[two[1]])):
            return None
        if state.rows.slot_of.size < state.n_slots:  # the cache cannot hold every row, so some must be dropped
            return None
        state.make_room_for_free()
        if memory is None or not memory.is_of(state, self.slot):
            assert self.shared is not None
            memory = self._memory = PairInMemory(state, self.slot, self.shared.stop)
        memory.learn(two)
        return memory

    def _let_go(self) -> PathState:
        """Return the state to be changed, and mark the records of compiled code as out of date."""
        if self._memory is not None:
            self._memory.limit = None
        return self.state

    def go_on(self, exit_: int, work: PairsWork) -> Trace | None:
        """Continue an update where compiled code stopped, and return its trace; None if ``update`` must do the work."""
        assert self._memory is not None
        self._let_go()
        try:
            trace, self._n_bound = self._memory.go_on(exit_, work.batch, work.kind)
        except NotOptimal:
            self.undo()
            return None
        return trace

    n_free = property(attrgetter("raw_state.n_free"), doc="Number of free examples.")

    def n_bound_supports(self) -> int:
        """Return how many examples that are not free have a coefficient other than 0."""
        if self._n_bound is None:
            self._n_bound = self.raw_state.n_bound_supports()
        return self._n_bound

    def undo(self) -> None:
        """Take back the changes of compiled code."""
        if self._memory is not None and self._memory.call is not None:
            self._memory.undo()
        self._n_bound = None
        self._let_go()

    def cool(self) -> None:
        """Free memory that the next update fills again; see ``PathState.cool``."""
        self.settle()
        self._let_go().cool()
        self._memory = None
        self.slot = self.slot[: 0 if self.shared is None else self.shared.capacity].copy()

    @property
    def hot_bytes(self) -> int:
        """Bytes that :meth:`cool` would free."""
        return self.raw_state.hot_bytes + OWN_BYTES * (self._memory is not None)

    @property
    def held_bytes(self) -> int:
        """Bytes that all arrays take."""
        return self.raw_state.held_bytes + self.slot.nbytes + OWN_BYTES * (self._memory is not None)

    def settle(self) -> None:
        """Make the changes of compiled code final."""
        if self._memory is not None:
            self._memory.call = None

    def keep(self) -> Callable[[], None]:
        """Copy the solution, and return a function that brings it back after any number of changes."""
        state, slot = self._let_go(), self.slot.copy()
        undo = UndoneOnError(state).undo

        def bring_back() -> None:
            undo()
            self.put(state, slot)

        return bring_back

    def put(self, state: PathState, slot: Ints) -> None:
        """Replace the state, and the slots that example numbers have in it."""
        self.raw_state, self.slot, self._memory, self._n_bound = state, slot, None, None

    def _move_back(self, change: ProblemChange, leave: Ints, undo_state: Callable[[], None]) -> None:
        undo_state()
        self._n_bound = None
        if self.shared is not None:
            self.slot[change.come] = -1
            self.slot[change.leave] = leave

    def _solve_from_nothing(
        self, change: ProblemChange, edit: batch_update.Edit, undo: list[Callable[[], object]], by_path: bool = True
    ) -> tuple[Ints, Trace]:
        """Solve without the earlier solution; ``by_path`` is False after a path has been given up."""
        old, slot, stay, come = self._let_go(), self.slot, self._staying(change), change.come
        X = self._with(stay, come)
        kernel = replace(old.kernel, center=center_of(X)) if change.is_movable else None
        foretold = batch_update.decisions(old, come) if self.shared is None else []
        state, slots, trace = batch_update.from_nothing(old, self.at(stay), edit, X, change.losses, kernel, by_path)
        trace.retrained, state.unlearnt = int(old.n > 0), foretold
        if self.shared is not None:
            slot = np.full(slot.size, -1, np.int64)
            slot[np.concatenate([stay, come])] = slots
        undo.append(partial(self.put, old, self.slot))
        self.put(state, slot)
        return slots, trace

    def _staying(self, change: ProblemChange) -> Ints:
        """Return the places of the examples that a change leaves in the problem."""
        here = change.here if self.shared is None else self.numbers
        return np.setdiff1d(here, change.leave, assume_unique=True)

    def _with(self, stay: Ints, come: Any) -> Features:
        """Return features of examples that stay and of new ones, in the form that the state holds."""
        if self.shared is not None:
            return np.concatenate([stay, come])[:, None].astype(np.float64)
        features: Features = stacked([self.raw_state.features(stay), come]) if stay.size else come
        return features

    def _make_positive(self, kernel: Kernel, change: ProblemChange) -> bool:
        """Raise an error unless the kernel matrix is positive semi-definite, which takes up to O(n^3) to check.

        Returns whether kernel values have changed, because rounded values may need a correction to pass the check.
        """
        come, is_new = change.come, False
        if not len(come):
            return False
        X = self._with(self._staying(change), come)
        if self.shared is None:
            is_new = isinstance(kernel, FunctionKernel) and kernel.hold(self.raw_state.features(change.here), come)
        elif kernel.held is not None and kernel.held.precision:
            return False  # values that are held and rounded are seen to for all pairs at once
        else:
            X = self.shared.features(dense(X)[:, 0].astype(np.int64))
        return check_positive(kernel, X, self.raw_state.cache_bytes) or is_new

    def _has_left_its_center(self, change: ProblemChange) -> bool:
        """Say whether features are so far from the center that another center would keep more digits.

        The features are examined only if the mean k(x, x) has changed much since their last examination.
        """
        state = self.raw_state
        size = mean_diagonal(state)
        if self._size / LOOK <= size <= self._size * LOOK:
            return False
        self._size = size
        return center_of(state.kernel.centered(state.features(change.here))) is not None

    # -- answers -------------------------------------------------------------------------------------------------------

    def coefficients(self, places: Ints) -> Floats:
        """Return the signed coefficients of examples of the problem."""
        return self.state.examples.beta[self.at(places)]

    def levels(self, places: Ints) -> Floats:
        """Return the sizes of the largest coefficients that examples of the problem may have."""
        return np.asarray(np.abs(self.state.examples.levels[self.at(places)]).max(axis=1))

    @property
    def intercept(self) -> float:
        """The intercept b."""
        return self.state.b

    @property
    def relative_gap(self) -> float:
        """The relative gap, computed from the decision values that the solver tracks."""
        return audited(self.state).relative_gap

    def decisions(self, places: Ints) -> Floats:
        """Recompute the decisions of all of the problem's examples from features and coefficients."""
        state, f, beta = self.state, np.full(places.size, self.intercept), self.coefficients(places)
        if linear.is_weighted(state):
            return linear.decisions(state)[self.at(places)]
        store, there = self.shared or state, np.flatnonzero(beta)
        X, XT = store.features(places), store.columns(places[there])
        for part in blocks(X, there.size):
            f[part] += times(store.kernel.matrix(X[part], XT), beta[there])
        return f

    def certificate(self, places: Ints | None = None) -> Certificate:
        """Return the certificate, with recomputed decisions; ``places`` are those of all examples, in any order."""
        state, places = self.state, self.numbers if places is None else places
        slots, beta, f = self.at(places), self.coefficients(places), self.decisions(places)
        losses, diagonal = state.losses(slots), state.examples.diagonal[slots]
        return certify(losses, beta, f, state.b, diagonal, total=state.total, intercept=state.intercept)

    def restore(
        self,
        examples: Any,
        losses: Losses,
        beta: Floats,
        segments: Ints,
        b: float,
        checkpoint: tuple[Floats, int] | None = None,
    ) -> Ints:
        """Fill an empty problem with examples of known coefficients, correct rounding errors, and return the slots.

        Raises
        ------
        NotOptimal : the coefficients are damaged
        """
        self._n_bound = None
        self._make_room()
        if not len(examples):
            return NO_EXAMPLES
        X = self._with(NO_EXAMPLES, examples)
        slots = resume(self._let_go(), X, losses, beta, segments, b, checkpoint)
        if self.shared is not None:
            self.slot[examples] = slots
        return slots


def update_each(
    pairs: dict[Two, PathProblem], todo: list[Two], work: PairsWork, limits: dict[Two, int], foretold: Ints
) -> tuple[dict[Two, int], list[Trace]]:
    """Update pairs with few new and leaving examples; one compiled call updates as many pairs as possible.

    Returns the events of the pairs that are done, and traces. A pair without enough vacant slots gets more slots and a
    second attempt. Unless ``foretold`` (m,) is empty, the class number that the pairs predict for each new example is
    written to it.

    Raises
    ------
    NotPositiveSemidefinite, MemoryLimit, or what a handler raises : all pairs are to be undone
    """
    events: dict[Two, int] = {}
    traces: list[Trace] = []
    for _ in range(2):
        placed = {two: pairs[two].place(two, work, limits[two]) for two in todo}
        kind = next((memory.kind for memory in placed.values() if memory is not None), None)
        called = {two: one for two, one in placed.items() if one is not None and one.kind is kind}
        voters = []
        if foretold.size:
            there = [one for pair in pairs.values() if (one := pair._memory) is not None and one.limit is not None]
            if len(there) < len(pairs):
                placed_too = [pair.place(two, work, limits[two]) for two, pair in pairs.items()]
                there = [one for one in placed_too if one is not None]
            voters = [one for one in there if one.kind is kind]
            if len(voters) < len(pairs):
                voters, foretold[:] = [], votes_of(pairs, work.batch.values, len(work.come)).argmax(axis=1)
        if not called:
            break
        found, trace = call_each(list(called.values()), work.batch, work.kind, voters, foretold)
        foretold = NO_EXAMPLES
        traces.append(trace)
        todo = [two for two, one in placed.items() if one is not None and two not in called]
        for two, (exit_, count, n_bound) in zip(called, found, strict=True):
            pair = pairs[two]
            if exit_ == Exit.DONE:
                events[two], pair._n_bound = count, n_bound
            elif exit_ == Exit.NO_PLACE:
                todo.append(two)
                pair._let_go()
            else:
                further = pair.go_on(exit_, work)
                if further is not None:
                    events[two] = further.events
                    traces.append(further)
    return events, traces


def votes_of(pairs: dict[Two, PathProblem], values: Floats, n_classes: int) -> Ints:
    """Return how many pairs of classes vote for each class, for every row, (m, n_classes).

    Column j of ``values`` has the kernel values of the rows with the window's example of number j.
    """
    votes = np.zeros((len(values), n_classes), np.int64)
    for (first, second), pair in pairs.items():
        state = pair.state
        slots = np.flatnonzero(state.examples.beta[: state.n_slots])
        f = np.full(len(values), state.b)
        if slots.size:
            f += values[:, dense(state.XT)[0, slots].astype(np.int64)] @ state.examples.beta[slots]
        is_first = f < 0.0
        votes[:, first] += is_first
        votes[:, second] += ~is_first
    return votes
