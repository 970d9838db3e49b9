"""The non-convex baseline: the ramp loss by the concave-convex procedure [du Plessis et al. 2014; Yuille & Rangarajan].

The risk is that of telling positives from unlabelled with costs of ``2 prior / p`` and ``1 / n`` and the loss
``min(1, max(0, (1 - z) / 2))``, whose bias cancels for it is symmetric. In each round the concave part of the losses
beyond z = -1 is made linear where f stands, and the convex problem that is left is solved by the same pair steps. What
it comes to depends on where it starts: here, from the hinge loss. Memory is quadratic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.pu.pair_selection import STOP, descend, working_set
from livesvm.solvers.runtime.interrupt import check, raise_what_stopped, watch
from livesvm.solvers.runtime.types import Bools, Floats
from livesvm.solvers.validation import fraction, positive

TAU = 1e-6  # violation of a round's optimum, in units of f
MOST_ROUNDS = 100
STEPS_EACH = 1000  # at most, in a round, for each example


@dataclass(frozen=True)
class RampSolution:
    """Coefficients of positives, then of unlabelled, (p + n,), the intercept, and the objective after each round."""

    beta: Floats
    b: float
    objectives: tuple[float, ...]


def ramp_loss(kernel: Kernel, P: Floats, U: Floats, prior: float, lam: float) -> RampSolution:
    """Minimize ``lam |w|^2`` plus the risk of the ramp loss, locally.

    Parameters
    ----------
    P, U : (p, d) and (n, d) features
    """
    share, price = fraction(prior, "prior"), 0.5 / positive(lam, "lam")
    X = np.concatenate([P, U])
    y = np.concatenate([np.ones(len(P)), -np.ones(len(U))])
    K = kernel.matrix(X, np.ascontiguousarray(X.T))
    cost = 0.5 * price * np.where(y > 0, 2.0 * share / len(P), 1.0 / len(U))
    beyond, beta, b = np.zeros(y.size, np.bool_), np.zeros(y.size), 0.0
    objectives = list[float]()
    for _ in range(MOST_ROUNDS):
        check()
        beta, b = _convex(K, y, cost, beyond, beta)
        f = K @ beta
        objectives.append(float(0.5 * beta @ f + cost @ np.clip(1.0 - y * (f + b), 0.0, 2.0)))
        now = y * (f + b) < -1.0
        if (now == beyond).all():
            break
        beyond = now
    return RampSolution(beta, b, tuple(objectives))


def _convex(K: Floats, y: Floats, cost: Floats, beyond: Bools, beta: Floats) -> tuple[Floats, float]:
    """Return coefficients and intercept for hinge losses less a linear one for those ``beyond``.

    ``y beta`` lies in [0, cost], or in [-cost, 0] for those beyond; it sets out where ``beta`` comes nearest to that.
    """
    low = np.where((y > 0) != beyond, 0.0, -cost)
    sigma = _with_sum(np.clip(beta - low, 0.0, cost), cost, -float(low.sum()))
    w = working_set(K, y - K @ (sigma + low), sigma, cost)
    watch(w.counters, STOP)
    descend(w, 0.0, TAU, STEPS_EACH * y.size)
    raise_what_stopped()
    highest = np.where(w.sigma < cost, w.F, -np.inf).max()
    lowest = np.where(w.sigma > 0.0, w.F, np.inf).min()
    return w.sigma + low, 0.5 * float(highest + lowest)


def _with_sum(sigma: Floats, top: Floats, total: float) -> Floats:
    """Return coefficients near ``sigma`` in [0, ``top``] whose sum is ``total``: what is missing is shared by space."""
    missing = total - float(sigma.sum())
    room = top - sigma if missing > 0 else sigma
    return sigma + room * (missing / max(float(room.sum()), np.finfo(np.float64).tiny))
