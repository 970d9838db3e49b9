"""The steps of the default search: each optimizes a block of active examples of both classes.

A Frank-Wolfe step moves one coefficient and scales all others, so that the coefficients stay on the simplex. A block
step moves hundreds of coefficients, and scales all others by one factor for each class; block and factors are optimized
together. Blocks of one class would make little progress, because the penalized bias couples all examples. Blocks
without the two factors would make little progress too, because early solutions have many coefficients. Half of the
examples of a block were new in the previous block: otherwise consecutive blocks undo each other's work [Joachims 1999;
half as in Wen et al. 2018].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from livesvm.solvers.frank_wolfe.active_row_cache import ActiveRows
from livesvm.solvers.frank_wolfe.problem import Problem
from livesvm.solvers.frank_wolfe.subproblem import derivatives, minimize
from livesvm.solvers.kernels.matrix_products import block
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Floats, Ints

BLOCK = 256  #: examples of a block
ACCURACY = 0.3  #: part of the largest violation to which a block is solved
WORTH = 0.02  #: violations below this part of the largest one can wait
ENOUGH = 0.5  #: violations below this part of what the tolerance allows are left
LEAST_FACTOR = 0.05  #: least factor by which a class is scaled
DIGITS = 100  #: times the precision of the rows: products that cancel to less than this part are noise
WORSE = 1e-3  #: part by which rounding may raise the objective in a block
NEGLIGIBLE = 1e-14  #: coefficients below this part of the largest are zero
PATIENCE = 200  #: blocks, and
ROUNDS = 10  #: times each example could have been in one, without a smaller gap, after which only rounding moves

Tell = Callable[[float], None]


@dataclass
class Active:
    """The active examples, their coefficients in the twin problem, and their parts of g (see ``problem``)."""

    indices: Ints  #: (k,) places among all
    y: Floats  #: (k,) their labels
    ridge: Floats  #: (k,) 1 / C_i
    of_class: Ints  #: (k,) 0 negative, 1 positive
    b: Floats  #: (k,) coefficients; all others are 0
    parts: Floats  #: (2, k) of g
    rows: ActiveRows  #: their kernel rows


def active_of(problem: Problem, indices: Ints, b: Floats, parts: Floats, rows: ActiveRows) -> Active:
    """Return a problem's active examples ``indices`` (k,), given ``b`` (n,) and ``parts`` (2, n) of all examples."""
    own = problem.y[indices], problem.ridge[indices], problem.of_class[indices]
    return Active(indices, *own, b[indices], np.ascontiguousarray(parts[:, indices]), rows)


def relative_gap(active: Active, least: float = np.inf) -> float:
    """Return ``2 (R - min g) / R``, with ``least`` as the least g of other examples; infinite if b is 0."""
    g = active.parts.sum(axis=0)
    square = float(active.b @ g)
    return 2.0 * (1.0 - min(float(g.min()), least) * float(active.b.sum()) / square) if square > 0 else np.inf


def optimize(active: Active, tol: float, most_blocks: int, tell: Tell) -> tuple[int, bool]:
    """Take block steps until the active examples have the gap ``tol``; return the number of steps and the success."""
    kept: Ints = np.empty(0, np.int64)
    best, since = np.inf, 0
    patience = max(PATIENCE, ROUNDS * active.b.size // BLOCK)
    for steps in range(most_blocks):
        check()
        gap = relative_gap(active)
        best, since = (gap, 0) if gap < best else (best, since + 1)
        if gap <= tol or since > patience:
            return steps, gap <= tol
        tell(gap)
        violations = derivatives(active.b, active.parts.sum(axis=0) - 1.0, 0.0)
        least = max(WORTH * float(violations.max(initial=0.0)), ENOUGH * 0.5 * tol)
        fresh = _worst(active, violations, kept, BLOCK - kept.size, least)
        indices = np.concatenate([kept, fresh])
        kept = fresh[np.argsort(-violations[fresh], kind="stable")][: BLOCK // 2]
        goal = ACCURACY * float(violations[indices].max(initial=0.0))
        if not (_descends(active, indices, goal) or _descends(active, indices, goal, scales=False)):
            return steps, False  # the digits do not suffice
    return most_blocks, False


def _descends(active: Active, indices: Ints, tol: float, *, scales: bool = True) -> bool:
    """Take a block step; undo the step and return False if rounding raises the objective, or makes it too small."""
    before, b, parts = _objective(active), active.b.copy(), active.parts.copy()
    _step(active, indices, tol, scales=scales)
    if -0.5 * float((1.0 / active.ridge).sum()) <= _objective(active) <= before + WORSE * abs(before):
        return True
    active.b, active.parts = b, parts
    return False


def _objective(active: Active) -> float:
    """Return the objective of the twin problem, ``1/2 b'K~b - sum b``."""
    return 0.5 * float(active.b @ active.parts.sum(axis=0)) - float(active.b.sum())


def _worst(active: Active, violations: Floats, kept: Ints, count: int, least: float) -> Ints:
    """Return up to ``count`` of the worst violators above ``least``, half of each class, without those in ``kept``."""
    own = violations.copy()
    own[kept] = 0.0
    found = []
    for c in (0, 1):
        candidates = np.flatnonzero((active.of_class == c) & (own > least))
        if candidates.size > count // 2:
            candidates = candidates[np.argpartition(-own[candidates], count // 2)[: count // 2]]
        found.append(candidates)
    return np.concatenate(found)


def _step(active: Active, indices: Ints, tol: float, *, scales: bool) -> None:
    """Optimize the coefficients of ``indices`` (m,), and one factor for each class by which all others are scaled.

    Without ``scales``, all other coefficients keep their values.
    """
    m, b, parts, in_class = indices.size, active.b, active.parts, active.of_class[indices]
    Q, h = _own(active, indices), b[indices]
    own = np.zeros((2, m))
    own[in_class, np.arange(m)] = h
    rest = parts[:, indices] - own @ Q  # parts of g at the block from examples outside it
    cross = own @ rest.T  # [c, e]: class c in the block with class e outside
    products = _products(active)
    outer = products - own @ Q @ own.T - cross - cross.T
    sums = _sums_outside(active, indices)
    noise = DIGITS * float(np.finfo(active.rows.examples.dtype).eps) * products.diagonal()
    used = np.flatnonzero(scales & (sums > 0) & (outer.diagonal() > noise))
    H = np.block([[Q, rest[used].T], [rest[used], outer[np.ix_(used, used)]]])
    x = np.concatenate([h, np.ones(used.size)])
    of_factors = outer.sum(axis=1) + cross.sum(axis=0) - sums
    slope = np.concatenate([parts[:, indices].sum(axis=0) - 1.0, of_factors[used]])
    low = np.concatenate([np.zeros(m), np.full(used.size, LEAST_FACTOR)])
    minimize(H, x, slope, low, tol)
    factors = np.ones(2)
    factors[used] = x[m:]
    _move(active, indices, x[:m], factors)


def _own(active: Active, indices: Ints) -> Floats:
    """Return the matrix K~ (m, m) of the block ``indices``."""
    examples, y = active.rows.examples.take(indices), active.y[indices]
    Q = y[:, None] * y * (block(examples, examples).astype(np.float64) + 1.0)
    Q[np.diag_indices(indices.size)] += active.ridge[indices]
    return np.asarray(Q)


def _products(active: Active) -> Floats:
    """Return ``b_c'K~ b_e`` for all classes c and e, (2, 2), where ``b_c`` are the coefficients of class c."""
    found = np.stack([active.parts @ np.where(active.of_class == c, active.b, 0.0) for c in (0, 1)])
    return np.asarray(0.5 * (found + found.T))


def _sums_outside(active: Active, indices: Ints) -> Floats:
    """Return, for each class, the sum of its coefficients outside the block ``indices``, (2,)."""
    others = active.b.copy()
    others[indices] = 0.0
    return np.asarray(np.bincount(active.of_class, others, 2), np.float64)


def _move(active: Active, indices: Ints, values: Floats, factors: Floats) -> None:
    """Set the coefficients of the block to ``values``, scale all others by ``factors``, and update the parts of g."""
    in_class, y = active.of_class[indices], active.y[indices]
    values = np.where(values <= NEGLIGIBLE * values.max(initial=0.0), 0.0, values)
    changes = values - factors[in_class] * active.b[indices]
    weights = np.zeros((2, indices.size))
    weights[in_class, np.arange(indices.size)] = changes * y
    moved = active.rows.times(indices, weights) + weights.sum(axis=1)[:, None]
    moved *= active.y
    active.parts *= factors[:, None]
    active.parts += moved
    active.parts[in_class, indices] += active.ridge[indices] * changes
    active.b *= factors[active.of_class]
    active.b[indices] = values
