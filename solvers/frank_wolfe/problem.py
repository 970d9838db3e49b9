"""The problem of an L2-SVM over the simplex, its scaled twin, and the duality gap of a solution.

``min a'K~a`` over ``a >= 0, sum a = 1`` with ``K~_ij = y_i y_j (k(x_i, x_j) + 1) + [i = j] / C_i`` [Frandi et al., 12];
its twin ``min 1/2 b'K~b - sum b`` over ``b >= 0`` has the solution ``b = a / a'K~a``, and is the dual of
``min 1/2 |w|^2 + 1/2 b0^2 + 1/2 sum C_i max(0, 1 - y_i f(x_i))^2`` with the intercept b0.

Glossary: ``a`` are coefficients on the simplex, ``b`` those of the twin; ``g = K~a`` or ``K~b``, ``R = a'K~a``; a
*part* of g is the contribution of the examples of one class, [negative, positive].
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.matrix_products import PreparedRows, product
from livesvm.solvers.runtime.types import Floats, Ints

SMALL = 2048  #: examples up to which everything is computed in double precision
FAR = 1e3  #: gamma |x|^2 beyond which single precision has too few digits for distances
STEEP = 1e-5  #: of k(x, x), the 1 / C below which kernel values in single precision may not be convex
CLEAR = 0.1  #: distance above 1 beyond which the exact g of an example without a coefficient does not matter
UNTOUCHED = 1e-12  #: relative difference of coefficients that are the same but for their class's scale


@dataclass(frozen=True)
class Problem:
    """Examples, labels and weights of one problem."""

    examples: PreparedRows  #: n examples in double precision
    y: Floats  #: (n,) of -1 and 1, both there
    costs: Floats  #: (n,) the positive weights C_i of the squared losses
    threads: int = 1  #: most threads that work at once

    @property
    def n(self) -> int:
        """How many examples there are."""
        return self.y.size

    @property
    def ridge(self) -> Floats:
        """``1 / C_i``, (n,)."""
        return 1.0 / self.costs

    @property
    def diagonal(self) -> Floats:
        """``K~_ii``, (n,)."""
        return self.examples.diagonal() + 1.0 + self.ridge

    @property
    def of_class(self) -> Ints:
        """The class of each example, (n,): 0 negative, 1 positive."""
        return (self.y > 0).astype(np.int64)

    def quick(self) -> PreparedRows:
        """Return the examples in single precision if it is accurate enough for the search, else in double precision."""
        own = self.examples
        if self.n <= SMALL or own.kernel.name == "precomputed" or own.largest_norm > FAR:
            return own
        if float(self.ridge.min()) < STEEP * float(own.diagonal().max()):
            return own
        return own.single()

    def parts(self, examples: PreparedRows, changes: Floats, among: Ints | slice = slice(None)) -> Floats:
        """Return what ``changes`` (n,) of the coefficients add to the parts of g, (2, k), of the k examples ``among``.

        ``examples`` are all examples of the problem, in the precision to compute with.
        """
        indices = np.flatnonzero(changes)
        signed = (changes * self.y)[indices]
        weights = np.zeros((indices.size, 2))
        weights[np.arange(indices.size), self.of_class[indices]] = signed
        found = product(examples.take(among), examples.take(indices), weights, self.threads).T
        found += weights.sum(axis=0)[:, None]
        found *= self.y[among]
        own = (changes * self.ridge)[among]
        found[self.of_class[among], np.arange(own.size)] += own
        return np.asarray(found)


@dataclass(frozen=True)
class Known:
    """Coefficients of the twin and the parts of g, in double precision except for the examples ``rough``."""

    b: Floats  #: (n,)
    parts: Floats  #: (2, n)
    age: int = 0  #: how often the parts were updated since they were computed from the data
    come: Ints = field(default_factory=lambda: np.empty(0, np.int64))  #: (m,) examples that came since
    #: (n,) True: an example's parts are known in single precision only; None: none are
    rough: NDArray[np.bool_] | None = None


def rough_of(b: Floats, parts: Floats) -> NDArray[np.bool_]:
    """Return a mask (n,) of the examples for which parts of g in single precision suffice, if ``b`` is a solution."""
    return np.asarray((b == 0) & (parts.sum(axis=0) > 1.0 + 0.5 * CLEAR))


@dataclass(frozen=True)
class Gap:
    """The distance of a solution from the optimum."""

    relative: float  #: ``2 (R - min g) / R``, which bounds ``(R - R*) / R`` [Frandi et al., eq. 39, but relative to R]
    primal: float  #: objective of the SVM at b
    dual: float  #: no other model's primal is below it


def gap_of(problem: Problem, b: Floats, parts: Floats) -> Gap:
    """Return the gap of coefficients ``b`` (n,), which may have any scale, given the parts of g."""
    g = parts.sum(axis=0)
    total, square = float(b.sum()), float(b @ g)
    scale = total / square  # the twin's best multiple of b
    relative = 2.0 * (1.0 - float(g.min()) * scale)
    f = scale * (g - problem.ridge * b)  # y_i f(x_i)
    losses = 0.5 * float(problem.costs @ np.maximum(0.0, 1.0 - f) ** 2)
    primal = 0.5 * scale**2 * (square - float(problem.ridge @ b**2)) + losses
    return Gap(relative, primal, 0.5 * total * scale)


def exact_parts(problem: Problem, b: Floats, known: Known | None = None, among: Ints | None = None) -> Floats:
    """Return the parts of g, (2, k), of examples ``among``, or of all, in double precision (see :func:`parts_from`)."""
    indices = np.arange(problem.n) if among is None else among
    found = parts_from(problem, problem.examples, b, known, indices)
    if known is not None and known.rough is not None:
        anew = np.flatnonzero(known.rough[indices])
        found[:, anew] = problem.parts(problem.examples, b, indices[anew])
    return found


def parts_from(
    problem: Problem, examples: PreparedRows, b: Floats, known: Known | None, among: Ints | slice = slice(None)
) -> Floats:
    """Return the parts of g, (2, k), of the rows ``among`` of ``examples``, which are all examples of the problem.

    Parameters
    ----------
    known : if most coefficients are a multiple of these, one for each class, only the effect of the others is computed
    """
    scales, changes = since(problem.of_class, b, None if known is None else known.b)
    found = problem.parts(examples, changes, among)
    return found if known is None else np.asarray(scales[:, None] * known.parts[:, among] + found)


def since(of_class: Ints, b: Floats, before: Floats | None) -> tuple[Floats, Floats]:
    """Split ``b`` (n,) into ``before`` (n,) times a factor for each class, and changes to add to this product.

    If the split saves no work, because too many coefficients change, the factors are 0 and the changes are ``b``.
    """
    if before is not None:
        scales = np.array([_scale(b[of_class == c], before[of_class == c]) for c in (0, 1)])
        changes = b - scales[of_class] * before
        changes[np.abs(changes) <= UNTOUCHED * b] = 0.0
        if np.count_nonzero(changes) < np.count_nonzero(b):
            return scales, changes
    return np.zeros(2), b


def _scale(now: Floats, before: Floats) -> float:
    """Return the median ratio of ``now`` to ``before``, over the entries that are positive in both."""
    there = (now > 0) & (before > 0)
    return float(np.median(now[there] / before[there])) if there.any() else 0.0


def check_finite(diagonal: Floats) -> None:
    """Raise InvalidInput, with the row, unless each entry k(x, x) of ``diagonal`` (n,) is finite and not negative."""
    with np.errstate(invalid="ignore"):
        good = np.isfinite(diagonal) & (diagonal >= 0) & (diagonal < 1e100)
    if not good.all():
        reason = "the kernel of this example is negative or not finite; scale the features"
        raise InvalidInput(reason, field="X", row=int(np.argmin(good)))


WORST = 1e12  #: condition of the products of two classes that can still be distinguished
OLD = 100  #: updates after which g is computed afresh, as rounding adds up


def carried(problem: Problem, before: Problem, known: Known, places: Ints) -> Known:
    """Transfer ``known`` coefficients and parts of g from the problem ``before`` to ``problem``; new examples get 0.

    The effect of removed examples is subtracted from g, and g of new examples is computed. Updating g in this way takes
    less time than computing all of g. An example with a changed label counts as removed and as new; changed costs
    change only the diagonal of K~. If the kernel has changed, or at least as many support vectors were removed as kept,
    all of g is computed.

    Parameters
    ----------
    places : (n,) where the examples of ``problem`` were in ``before``, -1: nowhere
    """
    stays = places >= 0
    stays[stays] = problem.y[stays] == before.y[places[stays]]
    stay, new = np.flatnonzero(stays), np.flatnonzero(~stays)
    was = places[stay]
    b, gone = np.zeros(problem.n), known.b.copy()
    b[stay], gone[was] = known.b[was], 0.0
    is_cheaper = np.count_nonzero(gone) < np.count_nonzero(b) and known.age < OLD
    if problem.examples.kernel != before.examples.kernel or not is_cheaper:
        return Known(b, problem.parts(problem.examples, b), come=new)
    parts = np.zeros((2, problem.n))
    parts[:, stay] = known.parts[:, was] - before.parts(before.examples, gone, was)
    parts[problem.of_class[stay], stay] += b[stay] * (problem.ridge[stay] - before.ridge[was])
    parts[:, new] = problem.parts(problem.examples, b, new)
    rough = np.zeros(problem.n, bool)
    if known.rough is not None:
        rough[stay] = known.rough[was]
    return Known(b, parts, known.age + 1, new, rough)


def balanced(problem: Problem, known: Known) -> Known:
    """Multiply the coefficients of each class by a factor, so that both factors are optimal.

    An update may remove more examples from one class than from the other. The intercept is penalized, so an unequal
    removal changes the decision value of every example. Without the factors nearly all examples would violate
    optimality, and would be active from the start.
    """
    of_class = problem.of_class
    own = [np.where(of_class == c, known.b, 0.0) for c in (0, 1)]
    H = np.array([[own[c] @ known.parts[e] for e in (0, 1)] for c in (0, 1)])
    sums = np.array([part.sum() for part in own])
    if not (sums > 0).all() or np.linalg.cond(H) > WORST:
        return known
    scales = np.linalg.solve(0.5 * (H + H.T), sums)
    if not (scales > 0).all():
        return known
    return replace(known, b=known.b * scales[of_class], parts=known.parts * scales[:, None])
