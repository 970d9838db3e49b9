"""Frank-Wolfe steps of one coefficient, compiled: direction, length, and the updates of a, g and R.

Every step scales all of a and g, so the arrays are stored divided by a common factor ``scale``, which a step updates.
The rules, with g = K~a and R = a'K~a [Frandi et al., Algorithms 2 and 3, in these terms]:

    towards i = argmin g:                step = (R - g_i) / (R - 2 g_i + K~_ii)
    away from j = argmax g with a_j > 0: step = (g_j - R) / (R - 2 g_j + K~_jj), at most a_j / (1 - a_j)

The paper has errors: its line 21 should read (1 + l) r^2 - l (1 + l) (1 - delta) r^2, and its lines 8 and 9 should have
r_0. The paper's j* is the nearest of the active points. The paper's stopping rule is relative to Delta^2, which says
nothing of the SVM.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.scalars import One, Scalars
from livesvm.solvers.runtime.types import Floats, Ints, Numbers

SMALLEST_SCALE = 1e-100  #: and the largest is its inverse: beyond, the factor is multiplied into a and g

#: reasons for the end of a stretch of a walk
ROW, DONE, PAUSE = range(3)


class At(Scalars):
    """The progress of a sequence of Frank-Wolfe steps."""

    scale: float  #: of a and g
    R: float
    gap: float
    steps: int
    n_active: int  #: examples with a coefficient
    wanted: int  #: the example whose row is missing


@compiled
def walk(
    values: Numbers,
    place_of: Ints,
    y: Floats,
    ridge: Floats,
    diagonal: Floats,
    a: Floats,
    g: Floats,
    at: One[At],
    away: bool,
    tol: float,
    most: int,
) -> int:
    """Take steps until the gap is ``tol`` (DONE), a needed kernel row is missing (ROW), or ``most`` are taken (PAUSE).

    Parameters
    ----------
    values, place_of : the kernel rows that are there
    a, g : (n,) without their factor
    away : whether steps away from an example are taken where they promise more
    """
    n, now = a.size, at[0]
    for _ in range(most):
        scale, R_ = now.scale, now.R
        towards, nearest, low, high = -1, -1, np.inf, -np.inf
        for k in range(n):
            if g[k] < low:
                low, towards = g[k], k
            if away and a[k] > 0.0 and g[k] > high:
                high, nearest = g[k], k
        low, high = scale * low, scale * high
        now.gap = 2.0 * (R_ - low) / R_
        if now.gap <= tol:
            return DONE
        leaves = away and now.n_active > 1 and high - R_ > R_ - low
        i = nearest if leaves else towards
        if place_of[i] < 0:
            now.wanted = i
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
        _advance(values[place_of[i]], i, step, y, ridge[i], a, g, at, diagonal[i], g_i)
        now.n_active += 1 if share == 0.0 else 0
        if drops:
            a[i] = 0.0
            now.n_active -= 1
        now.steps += 1
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
    at: One[At],
    own: float,
    g_i: float,
) -> None:
    """Replace a by ``(1 - step) a + step e_i``, and update g and R; a step away from example ``i`` is negative."""
    now = at[0]
    now.R = (1.0 - step) ** 2 * now.R + 2.0 * step * (1.0 - step) * g_i + step**2 * own
    scale = now.scale * (1.0 - step)
    if not SMALLEST_SCALE < scale < 1.0 / SMALLEST_SCALE:
        for k in range(a.size):
            a[k] *= scale
            g[k] *= scale
        scale = 1.0
    now.scale = scale
    change = step / scale
    a[i] += change
    factor = change * y[i]
    for k in range(a.size):
        g[k] += factor * y[k] * (row[k] + 1.0)
    g[i] += change * ridge
