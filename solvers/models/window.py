"""The window of one problem: two classes, regression, one class, or positive and unlabelled examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from livesvm.solvers.certificate import Certificate, certify
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy import batch_update, linear
from livesvm.solvers.homotopy.batch_update import UndoneOnError
from livesvm.solvers.homotopy.optimality import audited
from livesvm.solvers.homotopy.refactorize import refactorize
from livesvm.solvers.homotopy.refresh import mean_diagonal
from livesvm.solvers.homotopy.run import NO_EXAMPLES, Trace
from livesvm.solvers.homotopy.warm_start import resume
from livesvm.solvers.kernels.definiteness import check_positive
from livesvm.solvers.kernels.function import FunctionKernel
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.nystroem import weights_of
from livesvm.solvers.models.keyed_window import ExampleUpdate, KeyedWindow, standing_of, taken
from livesvm.solvers.models.predictor import Predictor
from livesvm.solvers.models.scaling import center_of
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import PathState, are_free
from livesvm.solvers.robust.local_optimality import LocalOptimality, local_optimality
from livesvm.solvers.robust.partition import Partition, settle
from livesvm.solvers.robust.ramp_losses import WITHIN, Sides
from livesvm.solvers.robust.settings import Terms
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features, dense, stacked
from livesvm.solvers.validation import plain

LOOK = 4.0  #: features are checked again if the mean k(x, x) has changed by this factor, up or down
ON_BOUNDARY = 1e-10  # part of rho: f this close to 0 counts as 0 in a one-class model


class Window(KeyedWindow):
    """A path state with a key for each example."""

    _columns = ("_y", "_weight", "_side")

    def __init__(self, kernel: Kernel, *, intercept: bool, cache_bytes: int) -> None:
        super().__init__()
        self.state = self.store = PathState(kernel, refactorize, intercept=intercept, cache_bytes=cache_bytes)
        self._y = np.empty(0)  # by slot
        self._weight = np.empty(0)
        self._side: Sides = np.empty(0, np.int8)  # by slot, of its cutoffs; 0 unless the model is robust
        self._size = 0.0  # mean k(x, x) at the last check of whether features have left their center

    def _sides_of(self, slots: Ints) -> Sides:
        return self._side[slots]

    @property
    def beta(self) -> Floats:
        """Signed coefficients (n,), oldest first."""
        return self.state.examples.beta[self.slots]

    @property
    def coefficients(self) -> Floats:
        """Signed coefficients (n,); in a window of several classes their shape is (n, n_classes - 1)."""
        return self.beta

    @property
    def is_free(self) -> Bools:
        """Whether each example (n,), oldest first, is free."""
        return are_free(self.state.examples.segment[self.slots])

    def partition(self, terms: Terms) -> Partition:
        """Return the window's examples, oldest first, as a partition by the sides of their robust losses' cutoffs."""
        slots, y = self.slots, self.y
        return Partition(
            self.state, slots, terms.losses(y, self.weights), terms.cutoffs(y), terms.theta, self._side[slots]
        )

    def update(self, change: ExampleUpdate, total_per_weight: float, terms: Terms | None = None) -> Trace:
        """Apply a checked change; afterwards the betas sum up to ``total_per_weight`` times the sum of weights.

        The caller has begun the change, and undoes it after an error. With the ``terms`` of robust losses, examples
        then switch sides of their cutoffs until each is on its true side.
        """
        undo = cast("list[Callable[[], object]]", self._undo)
        kernel, gram = self.state.kernel, self.state.kernel.gram
        if not kernel.always_positive and (held := kernel.held) is not None:  # rounded values may have to be raised
            undo.append(partial(held.bring_back, held.standing()))
        if gram is not None:
            leaving = self._numbers_of(self._slots_of(change.leaving))
            numbers = gram.admit(dense(change.X), self._numbers_of(self.slots)) if change.y.size else NO_EXAMPLES
            undo.append(partial(gram.release, numbers))
            self._later = (partial(gram.release, leaving),)
            change = change._replace(X=numbers[:, None].astype(np.float64))
        if terms is None:
            return self._update(change, total_per_weight, undo)
        undo.append(UndoneOnError(self.state).undo)
        return self._settled(self._update(change, total_per_weight), terms)

    def _settled(self, trace: Trace, terms: Terms) -> Trace:
        """Switch examples until each is on its true side under robust losses."""
        if self.keys:
            partition = self.partition(terms)
            trace.events += settle(partition)
            side = self._side.copy()
            side[partition.slots] = partition.sides
            self._side = side
        return trace

    def _states_undone_on_error(self) -> UndoneOnError:
        return UndoneOnError(self.state)

    def _update(
        self, change: ExampleUpdate, total_per_weight: float, undo: list[Callable[[], object]] | None = None
    ) -> Trace:
        """Follow one path to the optimum after the change; append to ``undo`` a function that restores the state.

        The window is solved from nothing instead if more examples come, leave and change than there are in the end, if
        the path fails, or if the features are far from the kernel's center. The trace says whether the window was
        solved from nothing.
        """
        leave, changed = self._slots_of(change.leaving), self._slots_of(change.changing)
        is_raised = not self.state.kernel.always_positive and self._make_positive(change.X, leave)
        total = 0.0
        if total_per_weight:
            stay = np.setdiff1d(self.slots, np.concatenate([leave, changed]), assume_unique=True)
            weight = self._weight[stay].sum() + change.weights.sum() + change.new_weights.sum()
            total = total_per_weight * float(weight)
        edit = batch_update.Edit(leave, changed, change.new_losses, total)
        is_free = self.state.kernel.is_movable and self.state.intercept and not total_per_weight
        is_another = is_raised or batch_update.is_another_window(self.state, edit, change.y.size)
        if is_another or (is_free and self._has_left_its_center()):
            return self._solve_from_nothing(change, edit, is_free)
        before = UndoneOnError(self.state, edit if self.keys else None)
        if undo is not None:
            undo.append(before.undo)
        if not self.keys:
            slots, trace = batch_update.fill(self.state, change.X, change.losses, total)
        else:
            try:
                slots, trace = batch_update.update(self.state, change.X, change.losses, edit, before)
                self.unlearnt = self.state.unlearnt
            except NotOptimal:
                return self._solve_from_nothing(change, edit, is_free, by_path=False)
        self._commit(change, changed, slots, (change.new_sides, WITHIN))
        return trace

    def _has_left_its_center(self) -> bool:
        """Say whether features are so far from the center that another center would keep more digits.

        The features are examined only if the mean k(x, x) has changed much since their last examination.
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
        self, change: ExampleUpdate, edit: batch_update.Edit, is_free: bool, by_path: bool = True
    ) -> Trace:
        """Solve the window after the change from nothing, with a new center if ``is_free``.

        Without ``by_path`` another method is tried first, because a path has been given up.
        """
        self.unlearnt = batch_update.decisions(self.state, change.X)
        gone = set(change.leaving)
        keys = [key for key in self.keys if key not in gone]
        slots = self._slots_of(keys)
        X = stacked([self.state.features(slots), change.X]) if slots.size else change.X
        kernel = replace(self.kernel, center=center_of(X)) if is_free else self.kernel
        state, fresh, trace = batch_update.from_nothing(self.state, slots, edit, X, change.losses, kernel, by_path)
        trace.retrained = 1
        columns = [getattr(self, name)[slots] for name in self._columns]
        place = {key: at for at, key in enumerate(keys)}
        changed = [place[key] for key in change.changing]
        for column, values in zip(columns, (change.new_y, change.new_weights, change.new_sides), strict=True):
            column[changed] = values
        y, weights = np.append(columns[0], change.y), np.append(columns[1], change.weights)
        sides = np.append(columns[2], np.zeros(change.y.size, np.int8))
        nothing = [column[:0] for column in columns]
        self._take({}, nothing, fresh, (y, weights, sides), [*keys, *change.adding], state=state, store=state)
        return trace

    def _make_positive(self, X: Features, leave: Ints) -> bool:
        """Raise an error if the kernel matrix is not positive semi-definite; costs O(n^3) if it may not be.

        Returns whether kernel values have changed, as rounded ones may have to.
        """
        kernel = self.state.kernel
        if X.shape[0] == 0:
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
        """Return by how much the kernel's center lowers decisions, given coefficients (n,); see ``Kernel.moved``."""
        kernel = self.state.kernel
        return 0.0 if kernel.center is None else kernel.moved(self.X, beta)

    def intercepts_in_units(self) -> Floats:
        """Return the intercept in the units of the features, (1,), as for a kernel without a center."""
        return np.array([self.state.b - self.moved(self.beta)])

    def predictor(self) -> Predictor:
        """Return the present decision function, which later updates do not change."""
        slots, width = self.slots, self.width
        if self.state.kernel.name == "linear" and linear.is_weighted(self.state):
            return self._of_weights(slots)
        at = np.flatnonzero(self.state.examples.beta[slots])
        support = slots[at]
        return Predictor(
            self.state.kernel,
            self.state.columns(support) if self.state.kernel.gram is None else at[None, :].astype(np.float64),
            self.state.examples.beta[support],
            self.state.b,
            width,
            ON_BOUNDARY * abs(self.state.b) if self.state.total else 0.0,
        )

    def _of_weights(self, slots: Ints) -> Predictor:
        """Return the linear decision function, with one vector of weights instead of support vectors."""
        state = self.state
        w = weights_of(dense(state.XT), slots, state.examples.beta[slots])
        if state.kernel.center is not None:
            w += state.kernel.center * (1.0 - float(state.examples.beta[slots].sum()))
        edge = ON_BOUNDARY * abs(state.b) if state.total else 0.0
        return Predictor(state.kernel, w[:, None], np.ones(1), state.b, self.width, edge)

    def certificate(self) -> Certificate:
        """Recompute the decisions from features and coefficients, and return the certificate."""
        slots, state = self.slots, self.state
        f = self._fresh_f()
        losses, diagonal = state.losses(slots), state.examples.diagonal[slots]
        return certify(losses, self.beta, f, state.b, diagonal, total=state.total, intercept=state.intercept)

    @property
    def relative_gap(self) -> float:
        """The relative gap, computed from the decision values that the solver tracks."""
        return audited(self.state).relative_gap

    def local_optimality(self, terms: Terms) -> LocalOptimality:
        """Recompute decisions from features and coefficients, and check the conditions of a robust local optimum."""
        slots, y, state = self.slots, self.y, self.state

        def kernel(rows: Ints, columns: Ints) -> Floats:
            return state.kernel_rows(slots[rows])[:, slots[columns]]

        base, cutoffs, f = terms.losses(y, self.weights), terms.cutoffs(y), self._fresh_f()
        return local_optimality(base, cutoffs, terms.theta, f, self.beta, kernel, intercept=state.intercept)

    def _fresh_f(self) -> Floats:
        """Recompute the decisions for the window from features and coefficients, oldest first."""
        if linear.is_weighted(self.state):
            return linear.decisions(self.state)[self.slots] if self.keys else np.empty(0)
        predictor = replace(self.predictor(), boundary=0.0, n_features=None)
        return predictor.decision_function(self.X) if self.keys else np.empty(0)

    def _solution(self) -> tuple[Floats, Ints, float]:
        slots, e = self.slots, self.state.examples
        return e.beta[slots], e.segment[slots], self.state.b

    def standing(self) -> dict[str, Any]:
        """Return the tracked decisions, and the number of events since their computation, for :meth:`restore`."""
        return {"f": self.state.examples.f[self.slots], "events": self.state.events_since_refresh}

    def _resume(self, X: Features, y: Floats, losses: Losses, total: float, arrays: Mapping[str, Any]) -> Ints:
        state, beta, segments = self.state, *standing_of(arrays)
        state.total = total
        if not y.size:
            return NO_EXAMPLES
        f = (plain(arrays["f"], np.float64), int(arrays["events"])) if "f" in arrays else None
        X = taken(state.kernel, X, arrays, state.cache_bytes)
        return resume(state, X, losses, beta, segments, float(arrays["intercept"]), f)
