"""A pair out of several classes: a problem of two classes that takes its features from ``kernels.shared``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.certificate import Certificate, certify
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy import batch_update, linear
from livesvm.solvers.homotopy.batch_update import UndoneOnError
from livesvm.solvers.homotopy.edit import ClassBatch
from livesvm.solvers.homotopy.pairs import OWN_BYTES, PairInMemory, call_each
from livesvm.solvers.homotopy.refactorize import refactorize
from livesvm.solvers.homotopy.run import Trace
from livesvm.solvers.homotopy.warm_start import resume
from livesvm.solvers.kernels.definiteness import check_positive
from livesvm.solvers.kernels.kernel import times
from livesvm.solvers.kernels.shared import SharedFeatures, by_number
from livesvm.solvers.models.pairs_predictor import Two
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import dense

NO_EXAMPLES = np.empty(0, np.int64)
MOST = 64  #: most examples that come and leave in an update of all pairs together


class PairsWork(NamedTuple):
    """The changes of an update for all pairs."""

    batch: ClassBatch
    kind: Any  #: its type, as ``kind_of`` returns it
    come: list[int]  #: numbers of new examples, by class
    moving: list[int]  #: numbers of new and leaving examples


class PairChange(NamedTuple):
    """The changes of an update to one pair; arrays hold the numbers of examples."""

    leave: Ints
    come: Ints
    losses: Losses  #: of the new examples
    changed: Ints
    new_losses: Losses  #: of the examples that stay with other losses


class Pair:
    """A path state of the examples of two classes. A change is all or nothing, and can be taken back afterwards."""

    def __init__(self, shared: SharedFeatures, *, intercept: bool, cache_bytes: int) -> None:
        self.shared = shared
        self._state = PathState(by_number(shared), refactorize, intercept=intercept, cache_bytes=cache_bytes)
        self.slot = np.full(shared.capacity, -1, np.int64)  #: by number; -1: not here
        self._undo: Callable[[], None] | None = None
        self._n_bound: int | None = None  # bound supports, once they were counted
        self._memory: PairInMemory | None = None

    def __getstate__(self) -> dict[str, object]:
        kept = {"state": self._let_go(), **vars(self), "_undo": None}
        return {name: value for name, value in kept.items() if name not in ("_state", "_memory")}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self._state, self._memory = kept.pop("state"), None
        vars(self).update(kept)

    @property
    def state(self) -> PathState:
        """The path state, for reading only."""
        if self._memory is not None:
            self._memory.catch_up()
        return self._state

    @property
    def numbers(self) -> Ints:
        """Numbers of the pair's examples, ascending."""
        return np.flatnonzero(self.slot >= 0)

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Say which of these examples are in the pair."""
        known = numbers < self.slot.size
        return known & (self.slot[np.where(known, numbers, 0)] >= 0)

    def _make_room(self) -> None:
        if self.slot.size < self.shared.capacity:
            more = np.full(self.shared.capacity - self.slot.size, -1, np.int64)
            self.slot = np.concatenate([self.slot, more])

    def update(self, change: PairChange, cache_bytes: int, from_nothing: bool = False) -> Trace:
        """Follow one path to the pair's optimum after the change, or solve from nothing if that is less work.

        ``from_nothing`` forces a solution from nothing, which is needed after kernel values have changed.

        Raises
        ------
        NotPositiveSemidefinite, NotOptimal, MemoryLimit : the pair is as it was
        """
        self._undo = self._n_bound = None
        state, self._memory = self._let_go(), None
        self._make_room()
        state.allow(cache_bytes)
        leave, changed = self.slot[change.leave], self.slot[change.changed]
        self._check_positive(change)
        edit = batch_update.Edit(leave, changed, change.new_losses)
        if from_nothing or state.n == 0 or batch_update.is_another_window(state, edit, change.come.size):
            return self._solve_from_nothing(change, edit)
        before = UndoneOnError(state, edit)
        come = change.come[:, None].astype(np.float64)
        self._undo = partial(self._move_back, change, leave, before.undo)
        try:
            slots, trace = batch_update.update(state, come, change.losses, edit, before)
        except NotOptimal:
            return self._solve_from_nothing(change, edit, by_path=False)
        self.slot[change.leave] = -1
        self.slot[change.come] = slots
        return trace

    def place(self, two: Two, work: PairsWork, cache_bytes: int) -> PairInMemory | None:
        """Return the records that compiled code needs to update the pair; None if ``update`` must do the work."""
        if work.moving[two[0]] + work.moving[two[1]] > MOST:
            return None
        self._make_room()
        memory, state = self._memory, self._state
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

    @property
    def n_free(self) -> int:
        """Number of free examples."""
        return self._state.n_free

    def n_bound_supports(self) -> int:
        """Return how many examples that are not free have a coefficient other than 0."""
        if self._n_bound is None:
            self._n_bound = self._state.n_bound_supports()
        return self._n_bound

    def undo(self) -> None:
        """Take back the last change."""
        if self._undo is not None:
            self._undo()
        elif self._memory is not None and self._memory.call is not None:
            self._memory.undo()
        self._n_bound = None
        self.settle()
        self._let_go()

    def cool(self) -> None:
        """Free memory that the next update fills again; see ``PathState.cool``."""
        self.settle()
        self._let_go().cool()
        self._memory = None
        self.slot = self.slot[: self.shared.capacity].copy()

    @property
    def hot_bytes(self) -> int:
        """Bytes that :meth:`cool` would free."""
        return self._state.hot_bytes + OWN_BYTES * (self._memory is not None)

    @property
    def held_bytes(self) -> int:
        """Bytes that all arrays take."""
        return self._state.held_bytes + self.slot.nbytes + OWN_BYTES * (self._memory is not None)

    def settle(self) -> None:
        """Make the last change final."""
        self._undo = None
        if self._memory is not None:
            self._memory.call = None

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Restore the pair if the block raises an error."""
        state, slot = self._let_go(), self.slot.copy()
        try:
            with UndoneOnError(state):
                yield
        except BaseException:
            self._undo = self._n_bound = None
            self._put(state, slot)
            raise

    def _put(self, state: PathState, slot: Ints) -> None:
        self._state, self.slot, self._memory = state, slot, None

    def _move_back(self, change: PairChange, leave: Ints, undo_state: Callable[[], None]) -> None:
        undo_state()
        self.slot[change.come] = -1
        self.slot[change.leave] = leave

    def _solve_from_nothing(self, change: PairChange, edit: batch_update.Edit, by_path: bool = True) -> Trace:
        """Solve without the earlier solution; ``by_path`` is False after a path has been given up."""
        old, slot = self._let_go(), self.slot
        stay = np.setdiff1d(self.numbers, change.leave, assume_unique=True)
        numbers = np.concatenate([stay, change.come])
        X = numbers[:, None].astype(np.float64)
        state, slots, trace = batch_update.from_nothing(old, slot[stay], edit, X, change.losses, by_path=by_path)
        trace.retrained = int(old.n > 0)
        places = np.full(slot.size, -1, np.int64)
        places[numbers] = slots
        self._undo = partial(self._put, old, slot)
        self._put(state, places)
        return trace

    def _check_positive(self, change: PairChange) -> None:
        kernel = self.shared.kernel
        if kernel.always_positive or change.come.size == 0 or (kernel.held is not None and kernel.held.precision):
            return  # values that are held and rounded are seen to for all pairs at once
        stay = np.setdiff1d(self.numbers, change.leave, assume_unique=True)
        every_example = self.shared.features(np.concatenate([stay, change.come]))
        check_positive(kernel, every_example, self._state.cache_bytes)

    # -- answers -------------------------------------------------------------------------------------------------------

    def coefficients(self, numbers: Ints) -> Floats:
        """Return the signed coefficients of examples of the pair, by number."""
        return self._state.examples.beta[self.slot[numbers]]

    @property
    def intercept(self) -> float:
        """The intercept b."""
        return self.state.b

    def certificate(self) -> Certificate:
        """Recompute the decisions from features and coefficients, and return the certificate."""
        state, numbers = self.state, self.numbers
        slots = self.slot[numbers]
        beta = state.examples.beta[slots]
        if linear.is_weighted(state):
            f = linear.decisions(state)[slots]
        else:
            there = numbers[beta != 0.0]
            f = times(self.shared.values(self.shared.features(numbers), there), beta[beta != 0.0]) + state.b
        return certify(state.losses(slots), beta, f, state.b, state.examples.diagonal[slots], intercept=state.intercept)

    def restore(self, numbers: Ints, losses: Losses, beta: Floats, segments: Ints, b: float) -> None:
        """Fill an empty pair with examples of known coefficients and segments, and correct rounding errors.

        Raises
        ------
        NotOptimal : the coefficients are damaged
        """
        self._n_bound = None
        self.slot = np.full(self.shared.capacity, -1, np.int64)
        if numbers.size:
            features = numbers[:, None].astype(np.float64)
            self.slot[numbers] = resume(self._let_go(), features, losses, beta, segments, b)


def update_each(
    pairs: dict[Two, Pair], todo: list[Two], work: PairsWork, limits: dict[Two, int], foretold: Ints
) -> tuple[dict[Two, int], list[Trace]]:
    """Update pairs with few new and leaving examples; one compiled call updates as many pairs as possible.

    Returns the events of the pairs that are done, and traces. Pairs without enough vacant slots get some, once. Unless
    ``foretold`` (m,) is empty, it becomes the class number that the pairs predict for each new example.

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


def votes_of(pairs: dict[Two, Pair], values: Floats, n_classes: int) -> Ints:
    """Return how many pairs each class wins, (m, n_classes), from the rows' kernel values with numbered examples."""
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
