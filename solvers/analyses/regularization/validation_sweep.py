"""Computation of f of given rows along one leg of a path, to find where decisions and residuals change their sign."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.homotopy.piecewise import Segments
from livesvm.solvers.linalg.products import add_scaled
from livesvm.solvers.problem.state import is_free
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.interrupt import is_stopped
from livesvm.solvers.runtime.types import Bools, Floats, Ints

# Columns of the sums and of the bends that ``optima.from_residuals`` takes
AT_START, AT_END, SLOPE = range(3)
SEGMENT, DISTANCE, TURN = range(3)


@by_reference
class Pieces(NamedTuple):
    """One leg of a path as arrays for compiled code; see ``livesvm.solvers.homotopy.piecewise``."""

    segments: Segments
    change_slot: Ints
    change_from: Ints
    change_to: Ints
    level_rates: Floats  #: (n, MAX_KINKS + 1) change of the levels along the leg
    start: Floats  #: (n,) betas at the start of the leg
    rate: Floats  #: (n,) rates of the betas that are bound there, along the leg
    stop: Ints  #: (1,) 1: the solve has been asked to stop, see ``livesvm.solvers.runtime.interrupt``


@compiled_allocating
def sign_changes(p: Pieces, K: Floats, positive: Bools, boundary: float) -> tuple[Bools, Floats, Ints, Ints]:
    """Return a mask (m,) of the wrong decisions at the start of a leg, and tau, step (1 or -1) and row of each change.

    Parameters
    ----------
    K : (n, m) kernel values of the window's examples with the rows
    positive : (m,) whether f should be positive there
    boundary : f counts as positive if it is above minus this share of b
    """
    line, m = p.segments, K.shape[1]
    g, dg, g_end = np.zeros(m), np.zeros(m), np.zeros(m)
    set_out(p, K, g, dg)
    wrong, at_start = np.zeros(m, np.bool_), np.zeros(m, np.bool_)
    tau, delta, row = np.empty(256), np.empty(256, np.int64), np.empty(256, np.int64)
    count = 0
    for s in range(line.start_tau.size):
        if is_stopped(p.stop, 0):
            break
        advance_rows(p, K, s, g, dg, g_end)
        if count + 2 * m > tau.size:
            more = 2 * (count + 2 * m)
            tau = np.concatenate((tau[:count], np.empty(more)))
            delta = np.concatenate((delta[:count], np.empty(more, np.int64)))
            row = np.concatenate((row[:count], np.empty(more, np.int64)))
        b0, b1 = line.start_b[s] + boundary * abs(line.start_b[s]), line.end_b[s] + boundary * abs(line.end_b[s])
        for i in range(m):
            f0, f1 = g[i] + b0, g_end[i] + b1
            now, then = (f0 > 0.0) != positive[i], (f1 > 0.0) != positive[i]
            if s == 0:
                wrong[i] = at_start[i] = now
            if now != wrong[i]:
                tau[count], delta[count], row[count] = line.start_tau[s], 1 if now else -1, i
                count += 1
            if then != now:
                share = f0 / (f0 - f1)
                tau[count] = line.start_tau[s] - share * (line.start_tau[s] - line.end_tau[s])
                delta[count], row[count] = 1 if then else -1, i
                count += 1
            wrong[i] = then
            g[i] = g_end[i]
    return at_start, tau[:count].copy(), delta[:count].copy(), row[:count].copy()


@compiled_allocating
def residual_sums(p: Pieces, K: Floats, y: Floats, above: float, below: float) -> tuple[Floats, Floats]:
    """Return the sums of weighted absolute residuals by segment, and the points at which residuals change their sign.

    For the sums and the points see ``optima.from_residuals``. ``above`` is the cost per unit where y is above f, and
    ``below`` where y is below f.
    """
    line, m = p.segments, K.shape[1]
    g, dg, g_end = np.zeros(m), np.zeros(m), np.zeros(m)
    set_out(p, K, g, dg)
    sums = np.zeros((line.start_tau.size, 3))
    bends = np.empty((256, 3))
    count = 0
    for s in range(line.start_tau.size):
        if is_stopped(p.stop, 0):
            break
        advance_rows(p, K, s, g, dg, g_end)
        if count + m > bends.shape[0]:
            bends = np.concatenate((bends[:count], np.empty((2 * (count + m), 3))))
        length = line.start_tau[s] - line.end_tau[s]
        for i in range(m):
            r0, r1 = y[i] - g[i] - line.start_b[s], y[i] - g_end[i] - line.end_b[s]
            rate = (r1 - r0) / length
            sums[s, AT_START] += max(above * r0, -below * r0)
            sums[s, AT_END] += max(above * r1, -below * r1)
            sums[s, SLOPE] += (
                above * rate if r0 > 0.0 else -below * rate if r0 < 0.0 else max(above * rate, -below * rate)
            )
            if (r0 > 0.0 and r1 < 0.0) or (r0 < 0.0 and r1 > 0.0):
                bends[count, SEGMENT], bends[count, DISTANCE] = s, abs(r0 / rate)
                bends[count, TURN] = (above + below) * abs(rate)
                count += 1
            g[i] = g_end[i]
    return sums, bends[:count].copy()


@compiled
def set_out(p: Pieces, K: Floats, g: Floats, dg: Floats) -> None:
    """Compute f without b, and the rate at which bound examples change f, at the start of a leg."""
    for j in range(p.start.size):
        if p.start[j] != 0.0:
            add_scaled(K[j], p.start[j], g, g.size)
        if p.rate[j] != 0.0:
            add_scaled(K[j], p.rate[j], dg, dg.size)


@compiled
def advance_rows(p: Pieces, K: Floats, s: int, g: Floats, dg: Floats, g_end: Floats) -> None:
    """Update the rate of f for segment ``s``, and compute f without b at the end of this segment."""
    line = p.segments
    for c in range(line.changes_before[s - 1] if s > 0 else 0, line.changes_before[s]):
        j, before, after = p.change_slot[c], p.change_from[c], p.change_to[c]
        change = 0.0
        if not is_free(before):
            change -= p.level_rates[j, before // 2]
        if not is_free(after):
            change += p.level_rates[j, after // 2]
        if change != 0.0:
            add_scaled(K[j], change, dg, dg.size)
    length = line.start_tau[s] - line.end_tau[s]
    for i in range(g.size):
        g_end[i] = g[i] + length * dg[i]
    for k in range(line.first[s], line.first[s + 1]):
        add_scaled(K[line.slot[k]], line.end_beta[k] - line.start_beta[k], g_end, g_end.size)
