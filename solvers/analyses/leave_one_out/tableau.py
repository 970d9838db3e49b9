"""The tableau of an optimum: how betas and f follow from each other as long as no example changes sides.

For each example, one quantity *rests* (f of a free example, beta of a bound one), and the other *follows*. The *column*
of an example holds the changes of all following quantities per unit change of its resting quantity [Ong et al., eq.
30-34].

With F the free examples, M = [K_FF 1; 1' 0] is the system of the direction [Karasuyama & Takeuchi, eqs. 3-4]. Let P =
(K_FF + kappa 1 1')^-1, u = P 1, s = 1'u. For every kappa, M^-1 = [A v; v' kappa - 1/s] with A = P - u u'/s and v = u/s.
Without an intercept A = P, and all other entries are 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.kernels.kernel import times
from livesvm.solvers.linalg.cholesky import factor_block
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Floats, Ints

ROOM = 2**23  # numbers in all kept columns; but at least the next two numbers of columns are kept
FEWEST = 1024  # columns of examples that change sides
TOGETHER = 256  # columns of examples that leave
BLAS_AT_ONCE = 500_000_000  # products between two checks of whether to stop
SKETCHES = 4
ROUNDING = 3e-13  # error that a column may cause in the f of free examples; with a larger one it is refined once
INVERTED = 64  # least rows of the inverse at once


@by_reference
class Columns(NamedTuple):
    """Columns of the tableau; positions in the tableau are numbered with bound examples first, then the free ones."""

    column_of: Ints  #: (N,) the column of a place, -1: not made
    wanted: Ints  #: (N,) 1: its column is needed
    values: Floats  #: (columns, N) effects of a unit: on f of the other examples, on beta of the free
    db: Floats  #: (columns,) effects on b
    signs: Floats  #: (SKETCHES, F) 1 or -1, drawn once
    sketch: Floats  #: (SKETCHES, N) sums of the kernel values of a place and the free with these signs
    size: Ints  #: (1,) 1: the solve has been asked to stop, see ``livesvm.solvers.runtime.interrupt``


def bytes_of(n: int, n_free: int) -> int:
    """Return the largest number of bytes that the computation of a tableau of ``n`` examples takes."""
    return 8 * (2 * _room(n) * n + 2 * n_free * n + 4 * n_free**2)


def _room(n: int) -> int:
    """Return the largest number of columns that are stored for ``n`` examples."""
    return min(n, max(TOGETHER + FEWEST, ROOM // n))


class Tableau:
    """The free examples of an optimum, the inverse of their linear system, and the columns computed from it."""

    def __init__(self, state: PathState, free: Ints, others: Ints) -> None:
        self._state = state
        self.order = np.concatenate([others, free])  #: (N,) slots by place
        self.n_others = others.size  #: number of the other examples, which come before the free
        N, p = self.order.size, free.size
        self._XT = state.columns(self.order)
        self._rows = np.ones((p + 1, N))  # kernel rows of the free examples, and the weight of b in f
        state.kernel.write(state.features(free), self._XT, N, self._rows, np.arange(p))
        self._M = np.zeros((p + 1, p + 1))
        self._M[:p, :p] = self._rows[:p, self.n_others :]
        if state.intercept:
            self._M[:p, p] = self._M[p, :p] = 1.0
        self._Z = np.zeros((p + 1, p + 1))
        self._pulls: tuple[Ints, Floats] = np.full(N, -1), np.empty((0, 0))
        room = _room(N)
        self.together = room if room == N else max(TOGETHER, room - FEWEST)  #: how many may leave at once
        self._kept = 0 if room == N else self.together  # columns before this one belong to examples that leave now
        self._made = self._kept
        signs = np.where(np.random.default_rng(0).random((SKETCHES, p)) < 0.5, -1.0, 1.0)
        self.columns = Columns(  #: the columns computed so far
            np.full(N, -1, np.int64),
            np.zeros(N, np.int64),
            np.empty((room, N)),
            np.empty(room),
            signs,
            signs @ self._rows[:p],
            np.zeros(1, np.int64),
        )

    def invert(self) -> bool:
        """Compute the inverse of the system of the free examples; return False if the system is not invertible."""
        p, state = self._M.shape[0] - 1, self._state
        kappa = state.kappa if state.intercept else 0.0
        P = _inverse(self._M[:p, :p] + kappa)
        if P is None:
            return False
        self._Z[:p, :p] = P
        if state.intercept:
            u = P.sum(axis=1)
            total = u.sum()
            self._Z[:p, :p] -= np.outer(u, u / total)
            self._Z[:p, p] = self._Z[p, :p] = u / total
            self._Z[p, p] = kappa - 1.0 / total
        return True

    def fresh_f(self) -> Floats:
        """Compute f from the betas, and return it by slot; if there is space, store the kernel rows for the columns."""
        state, q, n = self._state, self.n_others, self._state.n_slots
        moved = state.examples.beta[self.order]
        support = np.flatnonzero(moved[:q])
        if not self._kept:
            self._pulls[0][support] = np.arange(support.size)
            self._pulls = self._pulls[0], self._kernel_rows(support)
        f = np.empty(n)
        f[self.order[q:]] = self._rows[:-1] @ moved
        of_others = moved[q:] @ self._rows[:-1, :q]
        for start in range(0, support.size, TOGETHER):
            check()
            part = support[start : start + TOGETHER]
            of_others += moved[part] @ self._kernel_rows(part)
        f[self.order[:q]] = of_others
        is_rest = np.ones(n, np.bool_)
        is_rest[self.order] = False
        rest = np.flatnonzero(is_rest)
        if rest.size:
            f[rest] = times(state.kernel.matrix(state.features(rest), self._XT), moved)
        return f + state.b

    def make_leaving(self, places: Ints) -> None:
        """Compute the columns of the next examples to remove; if space is short, replace those of earlier examples."""
        column_of = self.columns.column_of
        if self._kept:
            column_of[(column_of >= 0) & (column_of < self._kept)] = -1
            self._make(places[column_of[places] < 0], 0)
        else:
            self._made = self._make(places[column_of[places] < 0], self._made)

    def make_wanted(self) -> bool:
        """Compute the columns marked as wanted, as far as there is space; return whether any column was computed."""
        wanted = np.flatnonzero(self.columns.wanted)[: self.columns.db.size - self._made]
        self.columns.wanted[:] = 0
        self._made = self._make(wanted, self._made)
        return wanted.size > 0

    def _make(self, places: Ints, start: int) -> int:
        """Compute the columns of ``places``, numbered from ``start`` on; return the next number."""
        free, others = places[places >= self.n_others], places[places < self.n_others]
        step = max(1, BLAS_AT_ONCE // self._rows.size)
        for those, make in ((free, self._of_free), (others, self._of_others)):
            for first in range(0, those.size, step):
                check()
                part = those[first : first + step]
                make(part, slice(start, start + part.size))
                self.columns.column_of[part] = np.arange(start, start + part.size)
                start += part.size
        return start

    def _of_free(self, places: Ints, out: slice) -> None:
        """Compute the columns of free examples."""
        own = places - self.n_others
        unit = np.zeros((own.size, self._M.shape[0]))
        unit[np.arange(own.size), own] = -1.0
        self._write(out, self._Z[own], unit)

    def _of_others(self, places: Ints, out: slice) -> None:
        """Compute the columns of bound examples."""
        q, columns = self.n_others, self.columns
        pulls = self._rows[:, places].T
        pulls[:, -1] = float(self._state.intercept)
        numbers = columns.column_of[q:]
        if (numbers >= 0).all() and (np.diff(numbers) == 1).all():  # all in the free examples' columns, negated
            made = np.empty(pulls.shape)
            np.negative(columns.values[numbers[0] : numbers[-1] + 1, places].T, out=made[:, :-1])
            made[:, -1] = -(pulls @ self._Z[-1])
        else:
            made = -(pulls @ self._Z)
        self._write(out, made, pulls)
        columns.values[out, :q] += self._kernel_rows(places)

    def _kernel_rows(self, places: Ints) -> Floats:
        """Return the kernel values of the bound examples at ``places`` with all bound examples."""
        row_of, rows = self._pulls
        if rows.size and (row_of[places] >= 0).all():
            return rows[row_of[places]]
        return self._state.kernel.matrix(self._state.features(self.order[places]), self._XT, self.n_others)

    def _write(self, out: slice, made: Floats, pulls: Floats) -> None:
        """Write m columns of the tableau, of which ``made`` (m, F + 1) has the effects on the F free betas and on b.

        The written columns do not include the kernel values of bound examples yet. For each
        column, ``pulls`` (m, F + 1) has the change of f of the free examples that the effects must cancel. Effects that
        do not cancel it are improved by one step of iterative refinement.
        """
        q, columns = self.n_others, self.columns
        signs = np.append(columns.signs, np.zeros((SKETCHES, 1)), axis=1).T
        if np.abs(made @ (self._M @ signs) + pulls @ signs).max(initial=0.0) > ROUNDING * np.sqrt(self._M.shape[0]):
            made = made - (made @ self._M + pulls) @ self._Z
        columns.values[out, q:], columns.db[out] = made[:, :-1], made[:, -1]
        np.matmul(made, self._rows[:, :q], out=columns.values[out, :q])


def _inverse(K: Floats) -> Floats | None:
    """Return the inverse of a symmetric matrix, or None if the matrix is not positive definite."""
    from scipy.linalg import cho_solve  # imported on first use, so that a start does not wait for it
    from scipy.linalg.lapack import dpotri

    m = K.shape[0]
    R, inverse, width = np.zeros((m, m)), np.empty((m, m)), max(INVERTED, BLAS_AT_ONCE // m**2)
    if not factor_block(R, m, lambda rows, columns: K[rows, columns].copy()):
        return None
    if m <= width:
        lower = dpotri(R.T, lower=True, overwrite_c=True)[0]
        return np.asarray(lower + np.tril(lower, -1).T)
    for start in range(0, m, width):
        check()
        part = slice(start, start + width)
        unit = np.eye(m, min(width, m - start), -start)
        inverse[part] = cho_solve((R.T, True), unit, check_finite=False).T  # which is symmetric
    return inverse
