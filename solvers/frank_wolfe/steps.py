"""Frank-Wolfe steps of one coefficient, compiled: where to, how far, and what they make of a, g and R.

``a`` and ``g`` are kept without a common factor, which every step changes: ``a = scale * a_``. The rules, with
g = K~a and R = a'K~a [Frandi et al., Algorithms 2 and 3, in these terms]:

    towards i = argmin g:                step = (R - g_i) / (R - 2 g_i + K~_ii)
    away from j = argmax g with a_j > 0: step = (g_j - R) / (R - 2 g_j + K~_jj), at most a_j / (1 - a_j)

The paper's line 21 should read (1 + l) r^2 - l (1 + l) (1 - delta) r^2, its lines 8 and 9 r_0; its j* is the
nearest of the active points, and its stopping rule is relative to Delta^2, which says nothing of the SVM.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Ints, Numbers

SMALLEST_SCALE = 1e-100  #: and the largest is its inverse: beyond, the factor is multiplied into a and g

#: places among the numbers of a walk
SCALE, R, GAP = 0, 1, 2
#: and among its integers
STEPS, N_ACTIVE, WANTED = 0, 1, 2
#: what ends a stretch of a walk
ROW, DONE, PAUSE = 0, 1, 2


@compiled
def walk(
    values: Numbers,
    place_of: Ints,
    y: Floats,
    ridge: Floats,
    diagonal: Floats,
    a: Floats,
    g: Floats,
    numbers: Floats,
    counts: Ints,
    away: bool,
    tol: float,
    most: int,
) -> int:
    """Take steps: until the gap is ``tol`` (DONE), the row of counts[WANTED] is missing (ROW), or ``most`` (PAUSE).

    Parameters
    ----------
    values, place_of : the kernel rows that are there
    a, g : (n,) without their factor
    away : whether steps away from an example are taken where they promise more
    """
    n = a.size
    for _ in range(most):
        scale, R_ = numbers[SCALE], numbers[R]
        towards, nearest, low, high = -1, -1, np.inf, -np.inf
        for k in range(n):
            if g[k] < low:
                low, towards = g[k], k
            if away and a[k] > 0.0 and g[k] > high:
                high, nearest = g[k], k
        low, high = scale * low, scale * high
        numbers[GAP] = 2.0 * (R_ - low) / R_
        if numbers[GAP] <= tol:
            return DONE
        leaves = away and counts[N_ACTIVE] > 1 and high - R_ > R_ - low
        i = nearest if leaves else towards
        if place_of[i] < 0:
            counts[WANTED] = i
            return ROW
        share = scale * a[i]
        g_i, slope = (high, high - R_) if leaves else (low, R_ - low)  # of R / 2 along the line
        curvature = R_ - 2.0 * g_i + diagonal[i]
        step = slope / curvature if curvature > 0.0 else np.inf
        drops = False
        if leaves:
            if step * (1.0 - share) >= share:
                step, drops = share / (1.0 - share), True
            step = -step
        elif step > 1.0:
            step = 1.0
        _advance(values[place_of[i]], i, step, y, ridge[i], a, g, numbers, diagonal[i], g_i)
        counts[N_ACTIVE] += 1 if share == 0.0 else 0
        if drops:
            a[i] = 0.0
            counts[N_ACTIVE] -= 1
        counts[STEPS] += 1
    return PAUSE


@compiled
def _advance(
    row: Numbers,
    i: int,
    step: float,
    y: Floats,
    ridge: float,
    a: Floats,
    g: Floats,
    numbers: Floats,
    own: float,
    g_i: float,
) -> None:
    """Move to ``(1 - step) a + step e_i``; a step away is negative."""
    numbers[R] = (1.0 - step) ** 2 * numbers[R] + 2.0 * step * (1.0 - step) * g_i + step**2 * own
    scale = numbers[SCALE] * (1.0 - step)
    if not SMALLEST_SCALE < scale < 1.0 / SMALLEST_SCALE:
        for k in range(a.size):
            a[k] *= scale
            g[k] *= scale
        scale = 1.0
    numbers[SCALE] = scale
    change = step / scale
    a[i] += change
    factor = change * y[i]
    for k in range(a.size):
        g[k] += factor * y[k] * (row[k] + 1.0)
    g[i] += change * ridge
