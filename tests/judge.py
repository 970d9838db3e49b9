"""Drive a model through the updates of a problem, and judge it by the oracle from the data alone."""

from __future__ import annotations

import numpy as np

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, UpdateReport
from tests.oracle import Gap, Losses, Vector, WideArray, gap, hinge
from tests.problems import Batch, Problem, Rows


def apply(model: IncrementalSVC, given: Problem, batch: Batch) -> UpdateReport:
    """Make one update of a problem; the keys are the rows of its table."""
    return model.update(
        add=(given.X[batch.add], given.y[batch.add]) if len(batch.add) else None,
        remove=batch.remove.tolist() or None,
        keys=batch.add.tolist() if len(batch.add) else None,
        sample_weight=given.weight[batch.add] if len(batch.add) else None,
    )


def build(given: Problem) -> IncrementalSVC:
    """Return a model that has followed all updates of a problem."""
    model = IncrementalSVC(**given.parameters())
    for batch in given.batches:
        apply(model, given, batch)
    return model


def coefficients(model: IncrementalSVC | IncrementalSVR | IncrementalOneClassSVM) -> Vector:
    """Return beta of the whole window, oldest first."""
    beta = np.zeros(model.n_window_)
    if len(beta):
        dual = model.dual_coef_
        beta[model.support_] = dual.toarray()[0] if hasattr(dual, "toarray") else dual[0]
    return beta


def window_problem(given: Problem, window: Rows) -> tuple[WideArray, Losses]:
    """Return the kernel matrix and the losses of a window."""
    K = given.kernel(given.X[window], given.X[window])
    return K, hinge(given.y[window], given.C, given.weight[window], fit_intercept=given.fit_intercept)


def judge(model: IncrementalSVC, given: Problem, window: Rows) -> Gap:
    """Recompute the gap of the window from the data and from what the model shows of itself."""
    if [int(key) for key in model.keys_] != window.tolist():
        raise AssertionError(f"keys_ is {list(model.keys_)}, the window is {window.tolist()}")
    K, losses = window_problem(given, window)
    return gap(K, losses, coefficients(model), float(model.intercept_[0]))


def infeasibility(found: Gap, given: Problem) -> float:
    """Return the larger of box and sum violation as a fraction of C."""
    return max(found.box_violation, found.sum_violation) / given.C
