"""Products with the features of a linear model: a problem's own features, or those that several problems share."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.nystroem import ProjectedKernel
from livesvm.solvers.linalg.products import add_products, weigh
from livesvm.solvers.problem.shared import ByNumber
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import SparseRows, dense

LEAST = 6000  #: examples from which decisions are products with a weight vector, not sums of kernel values
BLOCK = 4096  #: examples that are centered at once


def kernel_of(state: PathState) -> Kernel:
    """Return the kernel of a state's features; a pair of several classes refers to shared features by number."""
    return state.kernel.shared.kernel if isinstance(state.kernel, ByNumber) else state.kernel


def is_weighted(state: PathState) -> bool:
    """Say whether decisions are computed from feature weights: always with mapped features, else in large windows."""
    kernel = kernel_of(state)
    if kernel.is_projected:
        return True
    XT = state.kernel.shared.XT if isinstance(state.kernel, ByNumber) else state.XT
    return state.n_slots >= LEAST and is_of_features(kernel) and not isinstance(XT, SparseRows)


def is_of_features(kernel: Kernel) -> bool:
    """Say whether the kernel is the product of the features."""
    return kernel.name == "linear" and type(kernel) in (Kernel, ProjectedKernel)


def width(state: PathState) -> int:
    """Return the number of features of an example."""
    return state.kernel.shared.n_features if isinstance(state.kernel, ByNumber) else state.n_features


def rows(state: PathState, X: Floats) -> Floats:
    """Return the centered features (m, d) of examples ``X`` in the form in which the state stores them."""
    X = dense(state.kernel.shared.features(_numbers(X[:, 0]))) if isinstance(state.kernel, ByNumber) else X
    return np.asarray(kernel_of(state).centered(X), np.float64)


def rows_of(state: PathState, slots: Ints) -> Floats:
    """Return the centered features (m, d) of the examples in ``slots`` (m,)."""
    return rows(state, dense(state.features(slots)))


def weights(state: PathState, beta: Floats | None = None) -> Floats:
    """Return ``sum_j beta_j x_j`` (d,); ``beta`` (n_slots,) has by default the coefficients of the state."""
    beta = state.examples.beta[: state.n_slots] if beta is None else beta
    if not isinstance(state.kernel, ByNumber):
        return weights_of(dense(state.XT), beta, state.kernel.center)
    shared, here = state.kernel.shared, np.flatnonzero(beta)  # vacant slots have numbers of other examples
    by_number = np.zeros(shared.n_slots)
    by_number[_numbers(dense(state.XT)[0, here])] = beta[here]
    return weights_of(dense(shared.XT), by_number, shared.kernel.center)


def weights_of(XT: Floats, beta: Floats, center: Floats | None) -> Floats:
    """Return ``sum_j beta_j (x_j - center)`` (d,), where ``x_j`` is column j of ``XT`` (d, c)."""
    w = np.zeros(len(XT))
    if center is None:
        weigh(XT, beta, w)
        return w
    for start in range(0, beta.size, BLOCK):
        part = slice(start, min(beta.size, start + BLOCK))
        w += (XT[:, part] - center[:, None]) @ beta[part]
    return w


def decisions(state: PathState, w: Floats | None = None) -> Floats:
    """Return the f of every slot, (n_slots,); ``w`` (d,) is by default the weight vector of the state."""
    w = weights(state) if w is None else w
    if not isinstance(state.kernel, ByNumber):
        return _products(dense(state.XT), w, state.b, state.n_slots, state.kernel.center)
    shared = state.kernel.shared
    f = _products(dense(shared.XT), w, state.b, shared.n_slots, shared.kernel.center)
    return f[_numbers(dense(state.XT)[0, : state.n_slots])]


def _products(XT: Floats, w: Floats, b: float, n: int, center: Floats | None) -> Floats:
    """Return b plus the products of ``w`` with the first ``n`` columns of ``XT`` (d, c), less the center, (n,)."""
    f = np.full(n, b)
    if center is None:
        add_products(XT, w, f)
        return f
    for start in range(0, n, BLOCK):
        part = slice(start, min(n, start + BLOCK))
        f[part] += w @ (XT[:, part] - center[:, None])
    return f


def _numbers(column: Floats) -> Ints:
    return column.astype(np.int64)
