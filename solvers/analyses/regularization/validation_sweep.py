"""f of given rows along a leg of a path, segment by segment: where decisions and residuals change their sign."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.interrupt import is_stopped

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@by_reference
class Pieces(NamedTuple):
    """One leg as arrays that compiled code walks over; see ``livesvm.solvers.homotopy.piecewise``."""

    start_rho: Floats
    end_rho: Floats
    start_b: Floats
    end_b: Floats
    first: Ints
    changes_before: Ints
    slot: NDArray[np.int32]
    start_beta: Floats
    end_beta: Floats
    change_slot: Ints
    change_from: Ints
    change_to: Ints
    level_rates: Floats  #: (n, 3) change of the levels along the leg
    start: Floats  #: (n,) betas at the start of the leg
    rate: Floats  #: (n,) rates of the betas that are bound there, along the leg
    stop: Ints  #: (1,) 1: the solve has been asked to stop, see ``livesvm.solvers.runtime.interrupt``


@compiled_allocating
def sign_changes(p: Pieces, K: Floats, positive: Bools, boundary: float) -> tuple[int, Floats, Ints]:
    """Return how many decisions are wrong at the start of a leg, and where that number changes and by how much.

    Parameters
    ----------
    K : (n, m) kernel values of the window's examples with the rows
    positive : (m,) whether f should be positive there
    boundary : f counts as positive if it is above minus this share of b
    """
    m = K.shape[1]
    g, drive, g_end = np.zeros(m), np.zeros(m), np.zeros(m)
    set_out(p, K, g, drive)
    wrong = np.zeros(m, np.bool_)
    rho, delta = np.empty(256), np.empty(256, np.int64)
    count, first_wrong = 0, 0
    for s in range(p.start_rho.size):
        if is_stopped(p.stop, 0):
            break
        advance_rows(p, K, s, g, drive, g_end)
        if count + 2 * m > rho.size:
            more = 2 * (count + 2 * m)
            rho = np.concatenate((rho[:count], np.empty(more)))
            delta = np.concatenate((delta[:count], np.empty(more, np.int64)))
        b0, b1 = p.start_b[s] + boundary * abs(p.start_b[s]), p.end_b[s] + boundary * abs(p.end_b[s])
        for i in range(m):
            f0, f1 = g[i] + b0, g_end[i] + b1
            now, then = (f0 > 0.0) != positive[i], (f1 > 0.0) != positive[i]
            if s == 0:
                wrong[i] = now
                first_wrong += now
            if now != wrong[i]:
                rho[count], delta[count] = p.start_rho[s], 1 if now else -1
                count += 1
            if then != now:
                share = f0 / (f0 - f1)
                rho[count] = p.start_rho[s] - share * (p.start_rho[s] - p.end_rho[s])
                delta[count] = 1 if then else -1
                count += 1
            wrong[i] = then
            g[i] = g_end[i]
    return first_wrong, rho[:count].copy(), delta[:count].copy()


@compiled_allocating
def residual_sums(p: Pieces, K: Floats, y: Floats, above: float, below: float) -> tuple[Floats, Floats]:
    """Return the sums of the sizes of residuals of each segment, and the places where a residual turns its sign.

    See ``error_curve.from_residuals`` for both. ``above`` is what a unit of size counts where y is above f.
    """
    m = K.shape[1]
    g, drive, g_end = np.zeros(m), np.zeros(m), np.zeros(m)
    set_out(p, K, g, drive)
    sums = np.zeros((p.start_rho.size, 3))
    bends = np.empty((256, 3))
    count = 0
    for s in range(p.start_rho.size):
        if is_stopped(p.stop, 0):
            break
        advance_rows(p, K, s, g, drive, g_end)
        if count + m > bends.shape[0]:
            bends = np.concatenate((bends[:count], np.empty((2 * (count + m), 3))))
        length = p.start_rho[s] - p.end_rho[s]
        for i in range(m):
            r0, r1 = y[i] - g[i] - p.start_b[s], y[i] - g_end[i] - p.end_b[s]
            rate = (r1 - r0) / length
            sums[s, 0] += max(above * r0, -below * r0)
            sums[s, 1] += max(above * r1, -below * r1)
            sums[s, 2] += above * rate if r0 > 0.0 else -below * rate if r0 < 0.0 else max(above * rate, -below * rate)
            if (r0 > 0.0 and r1 < 0.0) or (r0 < 0.0 and r1 > 0.0):
                bends[count, 0], bends[count, 1], bends[count, 2] = s, abs(r0 / rate), (above + below) * abs(rate)
                count += 1
            g[i] = g_end[i]
    return sums, bends[:count].copy()


@compiled
def set_out(p: Pieces, K: Floats, g: Floats, drive: Floats) -> None:
    """Set f without b, and its rate by the bound examples, at the start of a leg."""
    for j in range(p.start.size):
        if p.start[j] != 0.0:
            add(K[j], p.start[j], g)
        if p.rate[j] != 0.0:
            add(K[j], p.rate[j], drive)


@compiled
def advance_rows(p: Pieces, K: Floats, s: int, g: Floats, drive: Floats, g_end: Floats) -> None:
    """Bring the drive up to segment ``s``, and f without b from its start to its end."""
    for c in range(p.changes_before[s - 1] if s > 0 else 0, p.changes_before[s]):
        j, before, after = p.change_slot[c], p.change_from[c], p.change_to[c]
        change = 0.0
        if before & 1 == 0:
            change -= p.level_rates[j, before // 2]
        if after & 1 == 0:
            change += p.level_rates[j, after // 2]
        if change != 0.0:
            add(K[j], change, drive)
    length = p.start_rho[s] - p.end_rho[s]
    for i in range(g.size):
        g_end[i] = g[i] + length * drive[i]
    for k in range(p.first[s], p.first[s + 1]):
        add(K[p.slot[k]], p.end_beta[k] - p.start_beta[k], g_end)


@compiled
def add(row: Floats, a: float, out: Floats) -> None:
    """Add ``a row`` to ``out``."""
    for i in range(out.size):
        out[i] += a * row[i]
