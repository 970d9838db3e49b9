"""Two classes among several: one problem whose examples have their features elsewhere, in ``kernels.shared``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.active_set.reactivation import LARGE
from livesvm.solvers.certificate import Certificate, certify
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy import batch_update
from livesvm.solvers.homotopy.batch_update import UndoneOnError
from livesvm.solvers.homotopy.edit import Batch
from livesvm.solvers.homotopy.refactorize import refactorize
from livesvm.solvers.homotopy.run import ByNumber, Trace
from livesvm.solvers.homotopy.warm_start import resume
from livesvm.solvers.kernels.definiteness import check_positive
from livesvm.solvers.kernels.kernel import times
from livesvm.solvers.kernels.shared import Shared, by_number
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import dense

NO_EXAMPLES = np.empty(0, np.int64)


MOST = 64  #: examples that come and leave, in an update by what all pairs share


class Work(NamedTuple):
    """What is to be done for all pairs."""

    batch: Batch
    kind: Any  #: its type, as ``kind_of`` returns it
    come: list[int]  #: how many come, by class
    leave: list[int]  #: how many leave


class PairChange(NamedTuple):
    """What an update does to a pair, by number."""

    leave: Ints
    come: Ints
    losses: Losses  #: of the new examples
    changed: Ints
    new_losses: Losses  #: of the examples that stay with other losses


class Pair:
    """A path state of the examples of two classes. A change is all or nothing, and can be taken back afterwards."""

    def __init__(self, shared: Shared, *, intercept: bool, cache_bytes: int) -> None:
        self.shared = shared
        self.state = PathState(by_number(shared), refactorize, intercept=intercept, cache_bytes=cache_bytes)
        self.slot = np.full(shared.capacity, -1, np.int64)  #: by number; -1: not here
        self._undo: Callable[[], None] | None = None
        self._n_bound: int | None = None  # bound supports, once they were counted

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_undo": None}

    @property
    def numbers(self) -> Ints:
        """Numbers of the examples here, ascending."""
        return np.flatnonzero(self.slot >= 0)

    def holds(self, numbers: Ints) -> NDArray[np.bool_]:
        """Say which of these examples are here."""
        known = numbers < self.slot.size
        return known & (self.slot[np.where(known, numbers, 0)] >= 0)

    def _make_room(self) -> None:
        if self.slot.size < self.shared.capacity:
            more = np.full(self.shared.capacity - self.slot.size, -1, np.int64)
            self.slot = np.concatenate([self.slot, more])

    def update(self, change: PairChange, cache_bytes: int) -> Trace:
        """Follow one path to the examples and losses that the change leads to; from nothing where that is less work.

        Raises
        ------
        NotPositiveSemidefinite, NotOptimal, MemoryLimit : the pair is as it was
        """
        self._undo = self._n_bound = None
        state = self.state
        self._make_room()
        state.allow(cache_bytes)
        leave, changed = self.slot[change.leave], self.slot[change.changed]
        self._check_positive(change)
        edit = batch_update.Edit(leave, changed, change.new_losses)
        if state.n == 0 or batch_update.is_another_window(state, edit, change.come.size):
            return self._solve_from_nothing(change, edit)
        before = UndoneOnError(state, edit.indices)
        come = change.come[:, None].astype(np.float64)
        try:
            slots, trace = batch_update.update(state, come, change.losses, edit, before)
        except NotOptimal:
            return self._solve_from_nothing(change, edit, by_path=False)
        self._move(change, leave, slots, before.undo)
        return trace

    def update_at_once(self, two: tuple[int, int], work: Work, cache_bytes: int) -> Trace | None:
        """Do what ``update`` does, for few examples, with what all pairs share; None: ``update`` has to.

        Raises
        ------
        NotPositiveSemidefinite, MemoryLimit, or what a handler raises : the pair is as it was
        """
        self._undo = self._n_bound = None
        self._make_room()
        state, (a, b) = self.state, two
        n_come, n_leave, n = work.come[a] + work.come[b], work.leave[a] + work.leave[b], state.n
        is_small = n_come + n_leave <= MOST and 2 * n_leave < n and n + n_come <= min(LARGE, state.capacity)
        if not (is_small and state.is_prepared and state.cache_bytes == cache_bytes):
            return None
        if state.rows.slot_of.size < state.n_slots + n_come:
            return None
        before, slot = UndoneOnError(state, NO_EXAMPLES), self.slot
        try:
            by_number = ByNumber(work.batch, work.kind, slot, dense(state.XT))
            trace, solving = batch_update.update_pair(state, two, by_number, (n_come, n_leave), before)
        except NotOptimal:
            return None
        self._n_bound = None if solving.found is None else solving.found.n_bound

        def undo() -> None:
            before.undo()
            batch = work.batch
            slot[np.concatenate([batch.come[batch.come_from[c] : batch.come_from[c + 1]] for c in two])] = -1
            left = [batch.leave[batch.leave_from[c] : batch.leave_from[c + 1]] for c in two]
            slot[np.concatenate(left)] = solving.buffers.leave[:n_leave]

        self._undo = undo
        return trace

    def n_bound_supports(self) -> int:
        """Return how many examples that are not free have a coefficient."""
        if self._n_bound is None:
            self._n_bound = self.state.n_bound_supports()
        return self._n_bound

    def undo(self) -> None:
        """Take the last change back, which was made just now."""
        if self._undo is not None:
            self._undo()
            self._undo = self._n_bound = None

    def cool(self) -> None:
        """Give up what the next update makes again; see ``PathState.cool``."""
        self.settle()
        self.state.cool()
        self.slot = self.slot[: self.shared.capacity].copy()

    @property
    def hot_bytes(self) -> int:
        """Bytes that :meth:`cool` gives back."""
        return self.state.hot_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of all arrays."""
        return self.state.held_bytes + self.slot.nbytes

    def settle(self) -> None:
        """Let the last change be final."""
        self._undo = None

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Bring the pair back to what it was when anything goes wrong inside."""
        state, slot = self.state, self.slot.copy()
        try:
            with UndoneOnError(state):
                yield
        except BaseException:
            self.state, self.slot, self._undo, self._n_bound = state, slot, None, None
            raise

    def _move(self, change: PairChange, leave: Ints, slots: Ints, undo_state: Callable[[], None]) -> None:
        def undo() -> None:
            undo_state()
            self.slot[change.come] = -1
            self.slot[change.leave] = leave

        self.slot[change.leave] = -1
        self.slot[change.come] = slots
        self._undo = undo

    def _solve_from_nothing(self, change: PairChange, edit: batch_update.Edit, by_path: bool = True) -> Trace:
        """Solve without regard to what there was; without ``by_path`` a path has been given up."""
        old, slot = self.state, self.slot
        stay = np.setdiff1d(self.numbers, change.leave, assume_unique=True)
        every_example = np.concatenate([stay, change.come])
        state = PathState(old.kernel, refactorize, intercept=old.intercept, cache_bytes=old.cache_bytes)
        losses = batch_update.losses_after(old, edit, slot[stay], change.losses)
        slots, trace = batch_update.fill(state, every_example[:, None].astype(np.float64), losses, 0.0, by_path)
        trace.retrained = int(old.n > 0)
        self.state, self.slot = state, np.full(slot.size, -1, np.int64)
        self.slot[every_example] = slots

        def undo() -> None:
            self.state, self.slot = old, slot

        self._undo = undo
        return trace

    def _check_positive(self, change: PairChange) -> None:
        kernel = self.shared.kernel
        if kernel.always_positive or change.come.size == 0:
            return
        stay = np.setdiff1d(self.numbers, change.leave, assume_unique=True)
        every_example = self.shared.features(np.concatenate([stay, change.come]))
        check_positive(kernel, every_example, self.state.cache_bytes)

    # -- answers -------------------------------------------------------------------------------------------------------

    def coefficients(self, numbers: Ints) -> Floats:
        """Return the signed coefficients of examples that are here, by number."""
        return self.state.examples.beta[self.slot[numbers]]

    @property
    def intercept(self) -> float:
        """The intercept b."""
        return self.state.b

    def certificate(self) -> Certificate:
        """Recompute f from features and coefficients, and certify."""
        state, numbers = self.state, self.numbers
        slots = self.slot[numbers]
        beta = state.examples.beta[slots]
        there = numbers[beta != 0.0]
        values = self.shared.values(self.shared.features(numbers), there)
        f = times(values, beta[beta != 0.0]) + state.b
        return certify(state.losses(slots), beta, f, state.b, state.examples.diagonal[slots], intercept=state.intercept)

    def restore(self, numbers: Ints, losses: Losses, beta: Floats, segments: Ints, b: float) -> None:
        """Fill an empty pair with examples whose coefficients and segments are known; what is off is corrected.

        Raises
        ------
        NotOptimal : the coefficients are damaged
        """
        self._n_bound = None
        self.slot = np.full(self.shared.capacity, -1, np.int64)
        if numbers.size:
            features = numbers[:, None].astype(np.float64)
            self.slot[numbers] = resume(self.state, features, losses, beta, segments, b)
