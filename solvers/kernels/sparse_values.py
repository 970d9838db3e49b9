"""Products and distances of sparse examples, pair by pair: a value depends on its two examples alone.

Two rows are gone through side by side, by ascending index. So k(x, z) is k(z, x) to the last digit, distances are sums
of squared differences as those of dense examples are, and what is 0 in both takes no time.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, Indices, SparseRows

STEP = 4  #: products that a step through two rows takes as long as


def products(A: Features, X: SparseRows, n: int) -> int:
    """Return how many products a value of ``A`` and the first ``n`` rows of ``X`` takes as long as, on average."""
    assert isinstance(A, SparseRows)
    return STEP * (A.nnz // max(1, len(A)) + X[:n].nnz // max(1, n))


def write(A: Features, X: Features, first: int, n: int, base: int, factor: float, out: Floats, rows: Ints) -> None:
    """Write ``factor`` times the ``table.Base`` of a_i and x_j to ``out[rows[i], j]`` for ``first <= j < n``."""
    _write(*_parts(A), *_parts(X), first, n, int(base), factor, out, rows)


def own(X: SparseRows) -> Floats:
    """Return ``x_i . x_i``, (m,), to the last digit as ``write`` does."""
    out = np.empty((len(X), 1))
    _write(*_parts(X), *_parts(X), 0, -1, 0, 1.0, out, np.arange(len(X)))
    return out[:, 0]


def _parts(X: Features) -> tuple[Indices, Floats, Ints, Ints]:
    assert isinstance(X, SparseRows)
    return X.indices, X.values, X.start, X.stop


@compiled
def _write(
    ai: Indices, av: Floats, a_start: Ints, a_stop: Ints,
    xi: Indices, xv: Floats, x_start: Ints, x_stop: Ints,
    first: int, n: int, base: int, factor: float, out: Floats, rows: Ints,
) -> None:  # fmt: skip
    """Do so; with a negative ``n`` for ``j = i`` alone, to column 0."""
    distances, squares = base > 0, base == 1
    for i in range(a_start.size):
        row = out[rows[i]]
        for j in range(i if n < 0 else first, i + 1 if n < 0 else n):
            p, p_stop, q, q_stop = a_start[i], a_stop[i], x_start[j], x_stop[j]
            total = 0.0
            while p < p_stop and q < q_stop:
                a, x = ai[p], xi[q]
                if distances:
                    d = (av[p] if a <= x else 0.0) - (xv[q] if x <= a else 0.0)
                    total += d * d if squares else abs(d)
                elif a == x:
                    total += av[p] * xv[q]
                p += a <= x
                q += x <= a
            if distances:
                while p < p_stop:
                    total += av[p] * av[p] if squares else abs(av[p])
                    p += 1
                while q < q_stop:
                    total += xv[q] * xv[q] if squares else abs(xv[q])
                    q += 1
            row[0 if n < 0 else j] = factor * total
