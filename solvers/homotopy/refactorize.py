"""Build a factor and its kernel rows from nothing, on as many threads as ``livesvm.solvers.runtime.threads`` allows.

Restoring a model or undoing an update postpones this work until it is needed (``state.put_off``).
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.homotopy.refresh import SPARE, refactor
from livesvm.solvers.homotopy.tolerances import SETTINGS
from livesvm.solvers.linalg.cholesky import factor_block, solve_forward
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.threads import in_parts
from livesvm.solvers.runtime.types import Floats, Ints


def refactorize(state: PathState, free: Ints, dependent: float = 0.0) -> None:
    """Fill the empty factor with the examples ``free``, and cache their kernel rows.

    Examples whose squared pivot is no more than ``dependent`` times the diagonal are left out of the factor.
    """
    _compute_rows(state, free)
    if not _factored(state, free):
        refactor(state, free, dependent)


def _compute_rows(state: PathState, free: Ints) -> None:
    """Compute and cache those kernel rows of the examples ``free`` that are not cached yet."""
    n, missing = state.n_slots, state.rows.missing(free)
    rows = state.rows.vacate(missing.size, free)
    values = state.rows.values

    def write(part: Ints) -> None:
        state.kernel.write(state.features(missing[part]), state.XT, n, values, rows[part])

    in_parts(write, np.arange(missing.size))
    state.rows.hold(missing, rows)


def _factored(state: PathState, free: Ints) -> bool:
    """Factor the kernel block of ``free``; return False, with an empty factor, if rounding spoils a pivot."""
    m = free.size
    if m == 0:
        return True
    state.make_room_for_free(m + SPARE)
    fac, kappa = state.factor, state.kappa if state.intercept else 0.0
    values, row_of = state.rows.values, state.rows.row_of

    def block(rows: slice, columns: slice) -> Floats:
        out = np.empty((rows.stop - rows.start, columns.stop - columns.start))
        _gather(values, row_of[free[rows]], free[columns], kappa, out)
        return out

    done = factor_block(fac.R, m, block)
    if not done or (fac.R.diagonal()[:m] ** 2 <= SETTINGS.dependent * (state.examples.diagonal[free] + kappa)).any():
        fac.R[:] = 0.0
        return False
    fac.y[0, :m], fac.y[1, :m] = 0.0, 1.0
    solve_forward(fac.R, m, fac.y[1])
    fac.slot[:m] = free
    fac.position[free] = np.arange(m)
    fac.size[:] = m
    return True


@compiled
def _gather(values: Floats, rows: Ints, columns: Ints, plus: float, out: Floats) -> None:
    for i in range(rows.size):
        row = values[rows[i]]
        for j in range(columns.size):
            out[i, j] = row[columns[j]] + plus
