"""The convex problem of learning from positive and unlabelled examples, its objectives and its certificate.

The objective is the risk of the double hinge loss plus ``lam |w|^2``, divided by ``2 lam`` [du Plessis et al. 2015;
Sansone et al., eq. 5]::

    minimize  1/2 |w|^2 - sum_p c1 f(x_p) + sum_u c2 max(0, (1 + f(x_u)) / 2, f(x_u))

Its dual, with ``sigma_u = -beta_u`` for the unlabelled and ``beta = c1`` for the positives, is ::

    minimize  1/2 sigma'K_UU sigma - sigma'K_UP c1 + sum |sigma - c2/2|   subject to  sum sigma = sum c1,
                                                                                      0 <= sigma <= c2

up to a constant: the delta of [Sansone et al., eq. 6] is ``2 min(sigma, c2 - sigma)`` at every optimum.

Where some of the unlabelled are confirmed to be negative, a model minimizes ``(1 - share)`` times the risk of
positives and negatives plus ``share`` times that of positives and unlabelled [Sakai et al. 2017, "Semi-supervised
classification based on classification from positive and unlabeled data", eq. 10], with the same double hinge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from livesvm.solvers.certificate import Certificate, certify
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.rows import KernelRows
from livesvm.solvers.problem.piecewise_linear import Losses, positive_unlabelled
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.validation import fraction, positive

TINY = float(np.finfo(np.float64).tiny)
CONFIRMED = 3.0
"""How much a confirmed negative counts, in units of an unlabelled example, in addition to being one of these."""
JUMP = 1.0  #: of the penalty ``JUMP |sigma - c2/2|``
LITTLE = 2**22  # bytes for rows if none is kept


def is_lam_open(lam: object) -> bool:
    """Say whether ``lam`` is to be chosen automatically, which None and "auto" stand for."""
    return lam is None or (isinstance(lam, str) and lam == "auto")


def check_both_kinds(unlabelled: float, positives: float) -> None:
    """Raise InvalidInput if the weights of the unlabelled, or of the positive examples, sum to 0."""
    for weight, what in ((positives, "positive"), (unlabelled, "unlabelled")):
        if not weight > 0:
            raise InvalidInput(f"there is no {what} example with a weight; both kinds are needed", field="y")


def costs(prior: float, lam: float, positives: Floats, unlabelled: Floats) -> tuple[Floats, Floats]:
    """Return the costs ``c1`` (p,) and ``c2`` (n,).

    For equal weights the costs are ``prior / (2 lam p)`` and ``1 / (2 lam n)``. ``positives`` (p,) and
    ``unlabelled`` (n,) are weights. Each of the two risks is a weighted mean, so only weights relative to their sum
    count.

    Raises
    ------
    InvalidInput : there is no positive example with a weight, or no unlabelled one
    """
    price = 0.5 / positive(lam, "lam")
    check_both_kinds(unlabelled.sum(), positives.sum())
    share = fraction(prior, "prior")
    return share * price / positives.sum() * positives, price / unlabelled.sum() * unlabelled


def masses(*parts: tuple[Floats, Floats]) -> Floats:
    """Return the total weights (3,) of the unlabelled, the positive and the confirmed negative examples.

    Each of ``parts`` is an array of labels and one of weights. A confirmed negative also counts as unlabelled.
    """
    found = np.zeros(3)
    for y, weights in parts:
        _add_masses(y, weights, found)
    return found


@compiled
def _add_masses(y: Floats, weights: Floats, found: Floats) -> None:
    for i in range(y.size):
        found[int(y[i] > 0.0)] += weights[i]
        if y[i] < 0.0:
            found[2] += weights[i]


def share_of_unlabelled(mass: Floats, prior: float) -> float:
    """Return the weight of the positive-unlabelled risk in the total risk, which is 1 without confirmed negatives.

    The variance of a mean over ``n`` negatives is proportional to ``1 / n``. So the share of the risk of positives and
    negatives grows with the weight of the negatives: each negative counts ``CONFIRMED`` times as much as an unlabelled
    example, however few negatives there are.
    """
    return 1.0 / (1.0 + CONFIRMED * float(mass[2]) / (max(float(mass[0]), TINY) * (1.0 - prior)))


def live_losses(y: Floats, weights: Floats, mass: Floats, prior: float, lam: float) -> Losses:
    """Return the losses (m,) of examples of a live model's window, given their labels and weights.

    Parameters
    ----------
    y : (m,) 1 positive, 0 unlabelled, -1 unlabelled and confirmed to be negative
    mass : (3,) of the window, see :func:`masses`
    """
    price, share = 0.5 / lam, share_of_unlabelled(mass, prior)
    unlabelled = share * price / max(mass[0], TINY)
    positive = prior * price / max(mass[1], TINY)
    return positive_unlabelled(y, weights, (positive, unlabelled, (1.0 + CONFIRMED) * unlabelled), share)


@dataclass(frozen=True)
class PUProblem:
    """The problem of given positive and unlabelled examples with their costs, see :func:`costs`."""

    kernel: Kernel
    P: Floats  #: (p, d) features of the positives
    U: Floats  #: (n, d) and of the unlabelled
    c1: Floats  #: (p,) costs
    c2: Floats  #: (n,) costs; ``sum c1 < sum c2``
    q: Floats  #: (n,) ``K_UP c1``: f of the positives alone
    own: float  #: ``c1'K_PP c1``

    @property
    def p(self) -> int:
        """The number of positive examples."""
        return int(self.P.shape[0])

    @property
    def n(self) -> int:
        """The number of unlabelled examples."""
        return int(self.U.shape[0])

    @property
    def total(self) -> float:
        """The required sum of the coefficients of the unlabelled examples."""
        return float(self.c1.sum())

    def dual(self, sigma: Floats, F: Floats) -> float:
        """Return the dual objective of ``sigma`` (n,), a lower bound of the primal, with ``F = q - K_UU sigma``."""
        norm = self.own - sigma @ (F + self.q)
        return float(-0.5 * norm - np.maximum(-sigma, sigma - self.c2).sum())

    def part(self, indices: Ints) -> PUProblem:
        """Return the problem with the unlabelled examples ``indices`` (m,) only, with costs scaled to the same sum."""
        c2 = self.c2[indices] * (self.c2.sum() / self.c2[indices].sum())
        return replace(self, U=self.U[indices], c2=c2, q=self.q[indices])

    def certificate(self, sigma: Floats, b: float) -> Certificate:
        """Return how far ``sigma`` and ``b`` are from the optimum, with f recomputed from features and coefficients."""
        indices = np.concatenate([np.arange(self.p), self.p + np.flatnonzero(sigma)])
        beta = np.concatenate([self.c1, -sigma])
        X = np.concatenate([self.P, self.U])
        support = KernelRows(self.kernel, X[indices], cache_bytes=LITTLE)
        f = support.product(X, np.arange(indices.size), beta[indices]) + b
        losses = pu_losses(self.c1, self.c2)
        return certify(losses, beta, f, b, self.kernel.diagonal(X))


def pu_problem(kernel: Kernel, P: Floats, U: Floats, c1: Floats, c2: Floats) -> PUProblem:
    """Return the problem of positives ``P`` (p, d) and unlabelled ``U`` (n, d) with their :func:`costs`."""
    positives, every_example = KernelRows(kernel, P, cache_bytes=LITTLE), np.arange(P.shape[0])
    own = float(c1 @ positives.times(every_example, c1))
    return PUProblem(kernel, P, U, c1, c2, positives.product(U, every_example, c1), own)


def labelled_problem(
    kernel: Kernel, X: Floats, y: Floats, weights: Floats, prior: float, lam: float
) -> tuple[PUProblem, Ints]:
    """Return the problem of examples (m, d) with labels 1, 0 and -1, and the example's index for each ``sigma``, (n,).

    With the double hinge, ``l(f) = l(-f) - f``. So with confirmed negatives, the loss of a positive with the cost
    ``c1`` is ``-c1 f`` plus ``(1 - share) c1`` times the loss of an unlabelled example, and the positive has a
    ``sigma``, too.

    Raises
    ------
    InvalidInput : there is no positive example with a weight, or no unlabelled one
    """
    known, rest = np.flatnonzero(y > 0.0), np.flatnonzero(y <= 0.0)
    c1, c2 = costs(prior, lam, weights[known], weights[rest])
    share = share_of_unlabelled(masses((y, weights)), prior)
    if share < 1.0:
        c2 = share * np.where(y[rest] < 0.0, 1.0 + CONFIRMED, 1.0) * c2
        rest, c2 = np.append(rest, known), np.append(c2, (1.0 - share) * c1)
    return pu_problem(kernel, X[known], X[rest], c1, c2), rest


def coefficients(problem: PUProblem, sigma: Floats, y: Floats, places: Ints) -> Floats:
    """Return the coefficients (m,) of all examples of a :func:`labelled_problem` from its solution ``sigma`` (n,)."""
    beta = np.zeros(y.size)
    beta[y > 0.0] = problem.c1
    beta[places] -= sigma
    return beta


def pu_losses(c1: Floats, c2: Floats) -> Losses:
    """Return the losses of positives with costs ``c1`` (p,), then of unlabelled with costs ``c2`` (n,)."""
    return positive_unlabelled(np.repeat([1.0, 0.0], [c1.size, c2.size]), np.append(c1, c2))


def slacks(F: Floats, b: float, sigma: Floats, c2: Floats) -> Floats:
    """Return the contribution of each unlabelled example to the duality gap, (n,): ``L(f) + L*(sigma) - sigma f``."""
    f = F + b
    loss = c2 * np.maximum(0.0, np.maximum(0.5 * (1.0 + f), f))
    return np.asarray(np.maximum(loss + np.maximum(-sigma, sigma - c2) - sigma * f, 0.0))
