"""Products with the features of a linear model: a problem's own features, or those that several problems share."""

from __future__ import annotations

import numpy as np

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.shared import ByNumber
from livesvm.solvers.linalg.products import add_products, weigh
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import dense


def kernel_of(state: PathState) -> Kernel:
    """Return the kernel of a state's features, of which a pair of several classes only has numbers."""
    return state.kernel.shared.kernel if isinstance(state.kernel, ByNumber) else state.kernel


def width(state: PathState) -> int:
    """Return the number of features of an example."""
    return state.kernel.shared.n_features if isinstance(state.kernel, ByNumber) else state.n_features


def rows(state: PathState, X: Floats) -> Floats:
    """Return the features (m, d) of examples ``X`` in the form in which the state stores them."""
    return dense(state.kernel.shared.features(_numbers(X[:, 0]))) if isinstance(state.kernel, ByNumber) else X


def rows_of(state: PathState, slots: Ints) -> Floats:
    """Return the features (m, d) of the examples in ``slots`` (m,)."""
    return rows(state, dense(state.features(slots)))


def weights(state: PathState, beta: Floats | None = None) -> Floats:
    """Return ``sum_j beta_j x_j`` (d,); ``beta`` (n_slots,) has by default the coefficients of the state."""
    beta = state.examples.beta[: state.n_slots] if beta is None else beta
    out = np.empty(width(state))
    if isinstance(state.kernel, ByNumber):
        shared, here = state.kernel.shared, np.flatnonzero(beta)  # vacant slots have numbers of other examples
        by_number = np.zeros(shared.n_slots)
        by_number[_numbers(dense(state.XT)[0, here])] = beta[here]
        weigh(dense(shared.XT), by_number, out)
    else:
        weigh(dense(state.XT), beta, out)
    return out


def decisions(state: PathState, w: Floats | None = None) -> Floats:
    """Return the f of every slot, (n_slots,); ``w`` (d,) is by default the weight vector of the state."""
    w = weights(state) if w is None else w
    if not isinstance(state.kernel, ByNumber):
        f = np.full(state.n_slots, state.b)
        add_products(dense(state.XT), w, f)
        return f
    f = np.full(state.kernel.shared.n_slots, state.b)
    add_products(dense(state.kernel.shared.XT), w, f)
    return f[_numbers(dense(state.XT)[0, : state.n_slots])]


def _numbers(column: Floats) -> Ints:
    return column.astype(np.int64)
