"""Compile everything before the first request needs it."""

from __future__ import annotations

import logging

import numpy as np

from solvers.active_set import degeneracy
from solvers.active_set.ratio_test import frequencies
from solvers.analyses.leave_one_out.assessment import leave_one_out
from solvers.estimators.classification import LiveSVC
from solvers.estimators.one_class import LiveOneClassSVM
from solvers.estimators.regression import LiveSVR
from solvers.frank_wolfe import warm_up as frank_wolfe
from solvers.homotopy.batch_update import hold_near
from solvers.homotopy.optimality import scales
from solvers.homotopy.run import NOBODY, walk_of
from solvers.problem.state import empty_motion
from solvers.runtime.machine_code import delete_unused, directory

log = logging.getLogger("solvers")
NO_PLACE = (
    "there is no place to keep machine code, so that it is made anew at every start, which takes minutes: "
    "let NUMBA_CACHE_DIR name a directory that can be written to and stays"
)


def warm_up() -> None:
    """Run every compiled function once on tiny problems, so that none is compiled inside a user's first request."""
    if directory() is None:
        log.warning(NO_PLACE)
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(24, 2)))  # a grid: ties, duplicates and dependent rows among it
    y = np.where(X[:, 0] + rng.normal(size=24) > 0, 1, -1)
    for kernel in ("rbf", "linear", "poly"):
        for intercept in (True, False):
            model = LiveSVC(C=10.0, kernel=kernel, gamma=0.5, coef0=1.0, fit_intercept=intercept, classes=(-1, 1))
            model.fit(X, y)
            model.update(add=(X[:4], y[:4]), remove=model.keys_[:6])
            model.decision_function(X)
            leave_one_out(model)
    model.from_arrays(model.get_params(), model.to_arrays()).prepare()
    model.regularization_path(5.0, 20.0).best(X, y)
    for loss in ("epsilon_insensitive", "absolute", "pinball"):
        LiveSVR(gamma=0.5, loss=loss).fit(X, y.astype(float)).regularization_path(0.5, 2.0).best(X, y.astype(float))
    LiveOneClassSVM(gamma=0.5).fit(X).regularization_path(0.1, 0.5).best(X)
    for parameter in ("theta", "s"):
        path = model.outlier_path(parameter)
        path.best(X, y)
        path.at(path.start).update(robust=path.robustness(path.end))
    _what_comes_up_rarely(model)
    frank_wolfe.warm_up()
    delete_unused()


def _what_comes_up_rarely(model: LiveSVC) -> None:
    """Compile what only a stall, a missing kernel row or a large window needs."""
    state = model._window.state
    motion = empty_motion(state.capacity)
    w = walk_of(state, motion, scales(state, motion.v))
    degeneracy.perturb(w, np.zeros((w.n, 2)), 0.0, 0.0)
    frequencies(w, motion.work)
    degeneracy.center(w)
    hold_near(state, NOBODY)
    state.rows.room_beside(NOBODY)
    state.rows.update_columns(NOBODY, NOBODY, state.rows.values, NOBODY)
