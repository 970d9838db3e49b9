"""Products and distances of sparse examples, pair by pair: a value depends on its two examples alone.

The common features of two sparse rows are read by ascending index. Distances read both rows in parallel. Products read
one row, with the other spread out to a dense row, which takes a fifth of the time. Because of this order of the
features k(x, z) equals k(z, x) to the last digit, distances are sums of squared differences as for dense examples, and
features that are 0 in both rows take no time.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.runtime.compile import compiled, compiled_in_order
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, Indices, SparseRows

STEP = 4  #: products that a step through two rows takes as long as


def products(A: Features, X: SparseRows, n: int) -> int:
    """Return how much work a kernel value of a row of ``A`` and one of ``n`` rows of ``X`` is, in multiplications."""
    assert isinstance(A, SparseRows)
    return STEP * (A.nnz // max(1, len(A)) + X[:n].nnz // max(1, n))


def write(A: Features, X: Features, first: int, n: int, base: int, factor: float, out: Floats, rows: Ints) -> None:
    """Write ``factor`` times the ``base`` of a_i and x_j, see ``kernel.Base``, to ``out[rows[i], j]`` for j < ``n``."""
    if base == 0:
        assert isinstance(A, SparseRows)
        _write_products(*_parts(A), *_parts(X), first, n, factor, out, rows, np.zeros(A.width))
        return
    _write_distances(*_parts(A), *_parts(X), first, n, int(base), factor, out, rows)


def own(X: SparseRows) -> Floats:
    """Return ``x_i . x_i``, (m,), with the same rounding as in ``write``."""
    out = np.empty((len(X), 1))
    _write_products(*_parts(X), *_parts(X), 0, -1, 1.0, out, np.arange(len(X)), np.zeros(X.width))
    return out[:, 0]


def _parts(X: Features) -> tuple[Indices, Floats, Ints, Ints]:
    assert isinstance(X, SparseRows)
    return X.indices, X.values, X.start, X.stop


@compiled_in_order
def _write_products(
    ai: Indices, av: Floats, a_start: Ints, a_stop: Ints,
    xi: Indices, xv: Floats, x_start: Ints, x_stop: Ints,
    first: int, n: int, factor: float, out: Floats, rows: Ints, spread: Floats,
) -> None:  # fmt: skip
    """Write products as ``write`` does; if ``n`` is negative, write only those of a_i and x_i, to column 0.

    ``spread`` (d,) is a work array: zeros before and afterwards.
    """
    for i in range(a_start.size):
        row = out[rows[i]]
        for p in range(a_start[i], a_stop[i]):
            spread[ai[p]] = av[p]
        for j in range(i if n < 0 else first, i + 1 if n < 0 else n):
            total = 0.0
            for q in range(x_start[j], x_stop[j]):
                total += spread[xi[q]] * xv[q]
            row[0 if n < 0 else j] = factor * total
        for p in range(a_start[i], a_stop[i]):
            spread[ai[p]] = 0.0


@compiled
def _write_distances(
    ai: Indices, av: Floats, a_start: Ints, a_stop: Ints,
    xi: Indices, xv: Floats, x_start: Ints, x_stop: Ints,
    first: int, n: int, base: int, factor: float, out: Floats, rows: Ints,
) -> None:  # fmt: skip
    """Write distances as ``write`` does."""
    squares = base == 1
    for i in range(a_start.size):
        row = out[rows[i]]
        for j in range(first, n):
            p, p_stop, q, q_stop = a_start[i], a_stop[i], x_start[j], x_stop[j]
            total = 0.0
            while p < p_stop and q < q_stop:
                a, x = ai[p], xi[q]
                d = (av[p] if a <= x else 0.0) - (xv[q] if x <= a else 0.0)
                total += d * d if squares else abs(d)
                p += a <= x
                q += x <= a
            while p < p_stop:
                total += av[p] * av[p] if squares else abs(av[p])
                p += 1
            while q < q_stop:
                total += xv[q] * xv[q] if squares else abs(xv[q])
                q += 1
            row[j] = factor * total
