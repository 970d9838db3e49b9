"""Products with many kernel rows, each of which is read once.

Four rows are read at a time, because memory serves several reads in the time of one.
"""

from __future__ import annotations

from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Ints

TILE = 4096  #: columns that stay in the cache while all rows pass by


@compiled
def add_rows(rows: Floats, row: Ints, c: Floats, x: Floats) -> None:
    """Add ``rows[row[i]]`` times ``c[i]`` to ``x``, for every i."""
    last, n = row.size - 1, x.size
    for i in range(0, row.size, 4):
        i1, i2, i3 = min(i + 1, last), min(i + 2, last), min(i + 3, last)
        r0, r1, r2, r3 = rows[row[i], :n], rows[row[i1], :n], rows[row[i2], :n], rows[row[i3], :n]
        c0, c1, c2, c3 = c[i], entry(c, i + 1, last), entry(c, i + 2, last), entry(c, i + 3, last)
        for j in range(n):
            x[j] += c0 * r0[j] + c1 * r1[j] + c2 * r2[j] + c3 * r3[j]


@compiled
def add_scaled(row: Floats, a: float, out: Floats, n: int) -> None:
    """Add ``a`` times ``row`` to ``out``, for the first ``n`` entries."""
    for j in range(n):
        out[j] += a * row[j]


@compiled
def entry(c: Floats, i: int, last: int) -> float:
    """Return ``c[i]``, or 0 if ``i`` is larger than ``last``."""
    return float(c[i]) if i <= last else 0.0


@compiled
def add_rows_to_both(rows: Floats, row: Ints, c: Floats, x: Floats, y: Floats, n: int) -> None:
    """Add ``rows[row[i]]`` times ``c[0, i]`` to ``x`` and times ``c[1, i]`` to ``y``, for every i."""
    last, a, b = row.size - 1, c[0], c[1]
    for start in range(0, n, TILE):
        stop = min(n, start + TILE)
        xs, ys = x[start:stop], y[start:stop]
        for i in range(0, row.size, 4):
            i1, i2, i3 = min(i + 1, last), min(i + 2, last), min(i + 3, last)
            r0, r1 = rows[row[i], start:stop], rows[row[i1], start:stop]
            r2, r3 = rows[row[i2], start:stop], rows[row[i3], start:stop]
            a0, a1, a2, a3 = a[i], entry(a, i + 1, last), entry(a, i + 2, last), entry(a, i + 3, last)
            b0, b1, b2, b3 = b[i], entry(b, i + 1, last), entry(b, i + 2, last), entry(b, i + 3, last)
            for j in range(stop - start):
                xs[j] += a0 * r0[j] + a1 * r1[j] + a2 * r2[j] + a3 * r3[j]
                ys[j] += b0 * r0[j] + b1 * r1[j] + b2 * r2[j] + b3 * r3[j]


@compiled
def add_rows_and_multiply(rows: Floats, row: Ints, c: Floats, x: Floats, beta: Floats, out: Floats, n: int) -> None:
    """Add ``rows[row[i]]`` times ``c[i]`` to ``x``, and write the row's product with ``beta`` to ``out[i]``."""
    out[: row.size] = 0.0
    last = row.size - 1
    for start in range(0, n, TILE):
        stop = min(n, start + TILE)
        xs, betas = x[start:stop], beta[start:stop]
        for i in range(0, row.size, 4):
            i1, i2, i3 = min(i + 1, last), min(i + 2, last), min(i + 3, last)
            r0, r1 = rows[row[i], start:stop], rows[row[i1], start:stop]
            r2, r3 = rows[row[i2], start:stop], rows[row[i3], start:stop]
            c0, c1, c2, c3 = c[i], entry(c, i + 1, last), entry(c, i + 2, last), entry(c, i + 3, last)
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for j in range(stop - start):
                b = betas[j]
                xs[j] += c0 * r0[j] + c1 * r1[j] + c2 * r2[j] + c3 * r3[j]
                t0 += r0[j] * b
                t1 += r1[j] * b
                t2 += r2[j] * b
                t3 += r3[j] * b
            out[i] += t0
            if i1 > i:
                out[i1] += t1
            if i2 > i1:
                out[i2] += t2
            if i3 > i2:
                out[i3] += t3


@compiled
def weigh(XT: Floats, beta: Floats, out: Floats) -> None:
    """Write ``sum_j beta_j x_j`` to ``out`` (d,), where ``x_j`` is column j of ``XT`` (d, c)."""
    for k in range(XT.shape[0]):
        row, total = XT[k], 0.0
        for j in range(beta.size):
            total += row[j] * beta[j]
        out[k] = total


@compiled
def add_products(XT: Floats, w: Floats, f: Floats) -> None:
    """Add the product of ``w`` (d,) with each column of ``XT`` (d, c) to ``f`` (n,)."""
    d, tile = XT.shape[0], 2048
    for start in range(0, f.size, tile):
        out = f[start : start + tile]
        stop = start + out.size
        k = 0
        while k + 4 <= d:
            x0, x1, x2, x3 = XT[k, start:stop], XT[k + 1, start:stop], XT[k + 2, start:stop], XT[k + 3, start:stop]
            w0, w1, w2, w3 = w[k], w[k + 1], w[k + 2], w[k + 3]
            for j in range(out.size):
                out[j] += w0 * x0[j] + w1 * x1[j] + w2 * x2[j] + w3 * x3[j]
            k += 4
        while k < d:
            x, own = XT[k, start:stop], w[k]
            for j in range(out.size):
                out[j] += own * x[j]
            k += 1
