"""Compile code before the first request needs it: the code of updates, and families of functions for other requests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from livesvm.solvers.active_set import degeneracy
from livesvm.solvers.active_set.ratio_test import find_likely
from livesvm.solvers.analyses.leave_one_out.assessment import leave_one_out
from livesvm.solvers.analyses.tuning.tune import tune
from livesvm.solvers.estimators.classification import LiveSVC
from livesvm.solvers.estimators.one_class import LiveOneClassSVM
from livesvm.solvers.estimators.regression import LiveSVR
from livesvm.solvers.frank_wolfe import steps, subproblem
from livesvm.solvers.frank_wolfe.active_row_cache import ActiveRows
from livesvm.solvers.homotopy.batch_update import fill, hold_near
from livesvm.solvers.homotopy.edit import compute_f_of_new, place
from livesvm.solvers.homotopy.finalize import rounding_left
from livesvm.solvers.homotopy.optimality import audited, scales
from livesvm.solvers.homotopy.refactorize import refactorize
from livesvm.solvers.homotopy.refresh import refresh_free, uncertain_band
from livesvm.solvers.homotopy.run import NO_EXAMPLES, spread_ties, walk_of
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.lines import Lines, Scaling, write_scaled
from livesvm.solvers.kernels.matrix_products import PreparedRows, write
from livesvm.solvers.models import blend
from livesvm.solvers.models.slide import Objective, Sliding, Standing, decide, slide, stand
from livesvm.solvers.problem.piecewise_linear import hinge
from livesvm.solvers.problem.state import PathState, empty_motion
from livesvm.solvers.pu.problem import costs, pu_problem
from livesvm.solvers.pu.usmo import usmo
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.runtime.at_work import at_work
from livesvm.solvers.runtime.machine_code import delete_unused, is_complete, set_complete
from livesvm.solvers.sparse import SparseRows

Family = Literal["updates", "rare updates", "regularization paths", "assessments", "outlier paths", "batch solvers"]
#: All families, the most needed first.
FAMILIES: tuple[Family, ...] = get_args(Family)
#: Number of functions translated for each family, once the families before it are compiled.
FUNCTIONS: Mapping[Family, int] = dict(zip(FAMILIES, (144, 140, 5, 23, 0, 26), strict=True))

Array = NDArray[Any]


def warm_up(*families: Family) -> None:
    """Run every compiled function of some families, or of all, once on tiny problems.

    None of these functions is then compiled inside a user's first request. What has been compiled before is loaded.

    Parameters
    ----------
    *families : {"updates", "rare updates", "regularization paths", "assessments", "outlier paths", "batch solvers"}
        What to compile; all by default. Updates are those of two classes, regression and one class; rare ones those of
        several classes, of robust models and of small windows at rest, large fits, and what only a stall needs.
    """
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(24, 2)))  # a grid: ties, duplicates and dependent rows among it
    y = np.where(X[:, 0] + rng.normal(size=24) > 0, 1, -1)
    asked = families or FAMILIES
    with at_work.expect(sum(FUNCTIONS[family] for family in asked if not is_compiled(family))):
        for family in asked:
            _RUN[family](X, y)
            set_complete(family)
    delete_unused()


def is_compiled(family: Family) -> bool:
    """Say whether the machine code of a family is stored for exactly this version, so that it need only be loaded."""
    return is_complete(family)


def compile_all() -> None:
    """Compile all code that is not compiled yet, in one process, as two would translate most functions twice."""
    todo = [family for family in FAMILIES if not is_compiled(family)]
    if todo:
        warm_up(*todo)


def compiler(*families: Family) -> list[str]:
    """Return the command that compiles the given families in a separate process."""
    script = f"import logging; from livesvm.solvers.warm_up import warm_up; logging.disable(); warm_up(*{families!r})"
    return [sys.executable, "-c", script]


def _updates(X: Array, y: Array) -> None:
    for kernel in ("rbf", "linear", "poly"):
        for intercept in (True, False):
            model = LiveSVC(C=10.0, kernel=kernel, gamma=0.5, coef0=1.0, fit_intercept=intercept, classes=(-1, 1))
            model.fit(X, y)
            model.update(add=(X[:4], y[:4]), remove=model.keys_[:6])
            model.decision_function(X)
    model.from_arrays(model.get_params(), model.to_arrays()).prepare()
    model.certificate()
    for loss in ("epsilon_insensitive", "absolute", "pinball"):
        LiveSVR(gamma=0.5, loss=loss).fit(X, y.astype(float))
    LiveOneClassSVM(gamma=0.5).fit(X)
    held = SparseRows.of_dense(X)
    for function in (Kernel("rbf", 0.5), Kernel("linear")):
        function.matrix(held, held)


def _rare_updates(X: Array, y: Array) -> None:
    """Compile the functions that only a few models or a few updates need."""
    _slides(X, y.astype(float))
    several = LiveSVC(gamma=0.5).fit(X, np.arange(len(X)) % 3)
    several.keeps_record = True
    for row in range(3):
        several.update(add=(X[row : row + 1] + 0.5, [row]))
    several.update(add=(SparseRows.of_dense(X[:4]), [0, 1, 2, 3]), remove=several.keys_[:6])
    model = LiveSVC(C=10.0, kernel="poly", gamma=0.5, coef0=1.0, fit_intercept=False, classes=(-1, 1)).fit(X, y)
    _what_only_a_stall_needs(model)
    state = PathState(Kernel("rbf", 0.5), refactorize, intercept=True, cache_bytes=2**20)
    fill(state, np.vstack([X, X]), hinge(np.tile(y.astype(float), 2), np.ones(2 * len(y))), 0.0, by_path=False)
    model.update(robust=Robustness(theta=0.5, s=-0.5))


def _slides(X: Array, y: Array) -> None:
    """Compile the functions for a small update of a cooled model, and for writing the rows of its features."""
    model, last = LiveSVR(gamma=0.5), len(y) - 1
    model.fit(X[:last], y[:last])
    arrays = model.to_warm_arrays()
    stood = Standing.of(arrays | {"keys": np.array(arrays["keys"])})
    sliding = Sliding(Objective.of(model), X.shape[1], lambda keys, out: np.copyto(out[:, : keys.size], X[keys].T))
    slide(sliding, stood, np.array([last]), y[last:], 1, np.array([last]))
    stand(sliding, stood)
    decide(sliding, stood, X[:1])
    none = np.empty((0, 2))
    lines = Lines(np.zeros(3), none, none, *np.zeros((3, 1), np.int64))
    write_scaled(lines, Scaling(np.zeros(1), np.ones(1), 1.0), 0, np.arange(2), np.empty((1, 2)))
    _blend()


def _batches(X: Array, y: Array) -> None:
    """Compile the solvers that do not follow a path."""
    P, U = X[y > 0], X[y < 0]
    for kernel in (Kernel("linear"), Kernel("rbf", 0.5)):
        usmo(pu_problem(kernel, P, U, *costs(0.5, 0.01, np.ones(len(P)), np.ones(len(U)))))
    _frank_wolfe()


def _frank_wolfe() -> None:
    """Compile the functions that Frank-Wolfe methods need."""
    X = np.array([[0.0], [1.0]])
    indices, weights = np.arange(2), np.ones((2, 2))
    examples, thin = (PreparedRows.of(Kernel("linear"), each) for each in (X, sparse.csr_array([[0.0, 0.0, 1.0]])))
    for own, few in ((examples, thin), (examples.single(), thin.single())):
        write(few, few, np.empty((1, 1), few.dtype), np.arange(1))
        rows = ActiveRows(own, 2**20, 1, np.random.default_rng(0), 2)
        rows.times(indices, weights)
        y, g = np.array([-1.0, 1.0]), np.array([0.5, 1.0])
        arrays = rows.values, rows.place_of, y, np.ones(2), np.array([2.0, 3.0]), np.full(2, 0.5), g
        steps.walk(*arrays, steps.At.of(1.0, 0.75, 1.0), True, 0.1, 1)
    subproblem.descend(np.eye(2), np.zeros(2), -np.ones(2), np.zeros(2), 1, 0.1)


def _what_only_a_stall_needs(model: LiveSVC) -> None:
    """Compile the functions that are needed only for a stall, a missing kernel row or a large window."""
    state = model._window.state
    motion = empty_motion(state.capacity)
    w = walk_of(state, motion, scales(state, motion.v))
    spread_ties(state, w, 0)
    find_likely(w, np.empty(w.n, np.int64))
    degeneracy.center(w)
    uncertain_band(0.0, max(refresh_free(state), rounding_left(w, 1.0)), 0.0)
    audited(state).good(1.0)
    audited(state).optimal(1.0)
    hold_near(state, NO_EXAMPLES)
    place(state.examples, NO_EXAMPLES)
    rows = state.rows
    compute_f_of_new(state.examples, rows.values, rows.row_of, NO_EXAMPLES, w.n, 0.0, NO_EXAMPLES)
    state.drop_losses(NO_EXAMPLES)
    Kernel("laplacian").matrix(np.zeros((1, 1)), np.zeros((1, 1)))
    state.rows.room_beside(NO_EXAMPLES)
    state.rows.update_columns(NO_EXAMPLES, NO_EXAMPLES, state.rows.values, NO_EXAMPLES)


def _paths(X: Array, y: Array) -> None:
    targets = y.astype(float)
    LiveSVC(C=10.0, gamma=0.5, classes=(-1, 1)).fit(X, y).regularization_path(5.0, 20.0).best(X, y)
    for loss in ("epsilon_insensitive", "absolute", "pinball"):
        LiveSVR(gamma=0.5, loss=loss).fit(X, targets).regularization_path(0.5, 2.0).best(X, targets)
    LiveOneClassSVM(gamma=0.5).fit(X).regularization_path(0.1, 0.5).best(X)


def _assessments(X: Array, y: Array) -> None:
    for kernel in ("rbf", "linear", "poly"):
        for intercept in (True, False):
            model = LiveSVC(C=10.0, kernel=kernel, gamma=0.5, coef0=1.0, fit_intercept=intercept, classes=(-1, 1))
            leave_one_out(model.fit(X, y))
    tune(LiveSVC(gamma=0.5, classes=(-1, 1)).fit(X, y), gammas=[0.5], C=(1.0, 4.0), folds=2)


def _outlier_paths(X: Array, y: Array) -> None:
    model = LiveSVC(C=10.0, kernel="poly", gamma=0.5, coef0=1.0, fit_intercept=False, classes=(-1, 1)).fit(X, y)
    model.update(add=(X[:4], y[:4]), remove=model.keys_[:6])
    for parameter in ("theta", "s"):
        path = model.outlier_path(parameter)
        path.best(X, y)
        path.at(path.start).update(robust=path.robustness(path.end))


_RUN: Mapping[Family, Callable[[Array, Array], None]] = {
    "updates": _updates,
    "rare updates": _rare_updates,
    "regularization paths": _paths,
    "assessments": _assessments,
    "outlier paths": _outlier_paths,
    "batch solvers": _batches,
}


def _blend() -> None:
    """Compile the functions of blends of forecasts: make a blend, learn from it, and replay it."""
    look = blend.Lookback(np.array([0, 1]), np.array([0, 1, 2]), 1, np.empty(0), 1, 1)
    values, at, state = np.arange(3.0), np.arange(1, 3), blend.new_state(look)
    blend.replay(look, values, at, at, values[1:], np.zeros(2), state)
    said, weights = blend.forecast(look, values, 2, 2, 0.0, state)
    blend.learn(look, values, 1, 1, 2.0, state)
    blend.weigh(look, said, blend.blended(said, weights), 2.0, state)
