"""Leave-one-out by block pivots on one tableau of an optimum (see ``pivots``).

Columns of the tableau are computed by matrix products, first for the examples to remove, then for examples that change
sides. For each result, the change of f is compared with the change that follows from the betas. If the two changes of f
disagree, or if too many examples change sides, the example is removed by the ordinary path instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from livesvm.solvers.analyses.leave_one_out.pivots import LEAVES, LEFT, MOST_CHANGED, WAITS, Leaving, Sides, leave_each
from livesvm.solvers.analyses.leave_one_out.tableau import Tableau
from livesvm.solvers.homotopy.optimality import scales
from livesvm.solvers.problem.piecewise_linear import MAX_KINKS
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.interrupt import check, raise_what_stopped, watch
from livesvm.solvers.runtime.threads import one_blas_thread
from livesvm.solvers.runtime.types import Bools, Floats, Ints

FIRST = 16  # examples tried first; if less than LEAST_SHARE of them can leave by pivots, the others are not tried
LEAST_SHARE = 0.3
NEAR = 4  # one example in this many counts as near a limit; only these are checked until none of them is wrong
PRECISE = 1e-11  # allowed error of f at the end, relative to the largest kink
EXACT = 1e-12  # allowed error of beta at the end, relative to the largest level


@dataclass(frozen=True)
class ModelChanges:
    """Differences of the coefficients of m models from those of one model, stored by position in the window."""

    free: Ints  #: (F,) places
    of_free: Floats  #: (m, F)
    starts: Ints  #: (m + 1,) positions in the next two arrays where the models begin
    places: Ints  #: (k,) others
    of_others: Floats  #: (k,)
    of_b: Floats  #: (m,)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.free, self.of_free, self.starts, self.places, self.of_others, self.of_b)
        return sum(array.nbytes for array in arrays)

    def renamed(self, place_of: Ints) -> ModelChanges:
        """Return the same changes with each position p replaced by ``place_of[p]``."""
        return replace(self, free=place_of[self.free], places=place_of[self.places])

    def decide(self, values: Floats) -> Floats:
        """Return how much the m models change the decisions on r rows, (m, r), given the kernel values (r, n)."""
        from scipy.sparse import csr_array  # imported on first use, so that a start does not wait for it

        rest = csr_array((self.of_others, self.places, self.starts), shape=(self.of_b.size, values.shape[1]))
        found = self.of_free @ np.ascontiguousarray(values[:, self.free]).T + self.of_b[:, None]
        return np.asarray(found + rest @ values.T)


class Left(NamedTuple):
    """The results of removing each of m examples."""

    decisions: Floats  #: (m,) f of each example by the model without it; NaN: left to the ordinary path
    f: Floats  #: (n_slots,) of the model as it is, fresh
    changes: int  #: of sides, of all together
    models: ModelChanges  #: by slot; not valid where the decision is NaN


@one_blas_thread()
def leave_by_pivots(state: PathState, indices: Ints, look: Callable[[], object]) -> Left | None:
    """Find, for each example of ``indices``, the model without this example; return None if pivots cannot be used.

    The state must be optimal, and the sum of its betas must not depend on which examples are in the window. The state
    is not changed, and needs neither cached rows nor a factor. ``look`` is called now and then; an error that it raises
    ends the work.
    """
    free, decisions = state.free_slots(), np.full(indices.size, np.nan)
    if free.size < 2 or not indices.size:
        return None
    units = scales(state, np.zeros(state.n_slots))
    tol_f, tol_beta = PRECISE * units.kink, EXACT * units.level
    free, others = _in_order(state, free, indices)
    tableau = Tableau(state, free, others)
    if not tableau.invert():
        return None
    f, columns = tableau.fresh_f(), tableau.columns
    sides = _sides(state, tableau, f, tol_f, tol_beta)
    place_of = np.full(state.n_slots, -1)
    place_of[tableau.order] = np.arange(tableau.order.size)
    change, parts, changes, start = np.zeros((indices.size, free.size)), [], 0, 0
    watch(columns.size, 0)
    while start < indices.size:
        check()
        look()
        part = slice(start, min(indices.size, start + (tableau.together if start else FIRST)))
        leaving = _waiting(place_of[indices[part]], change[part])
        tableau.make_leaving(leaving.members[:, 0])
        while True:
            leave_each(sides, columns, leaving, tol_f, tol_beta)
            raise_what_stopped()
            if not tableau.make_wanted():
                break
        good = leaving.outcome == LEFT
        decisions[part] = np.where(good, leaving.decision, np.nan)
        change[part][~good] = 0.0
        parts.append(_of_others(tableau, leaving, good))
        changes += int(leaving.changes[good].sum())
        start = part.stop
        if part.start == 0 and good.mean() < LEAST_SHARE:
            break
    return Left(decisions, f, changes, _together(tableau, change, parts))


def _in_order(state: PathState, free: Ints, indices: Ints) -> tuple[Ints, Ints]:
    """Return the free slots by ascending distance from a limit, and other relevant slots by descending distance."""
    e, n = state.examples, state.n_slots
    counts = (e.n_kinks[:n] > 0) & np.any(e.levels[:n] != 0.0, axis=1) | (e.beta[:n] != 0.0)
    counts[indices] = True
    counts[free] = False
    others, q = np.flatnonzero(counts), e.segment[free] // 2
    distance = np.abs(e.f[others, None] - e.kinks[others]).min(axis=1)
    inside = np.minimum(e.levels[free, q] - e.beta[free], e.beta[free] - e.levels[free, q + 1])
    return free[np.argsort(inside, kind="stable")], others[np.argsort(-distance, kind="stable")]


def _waiting(places: Ints, change: Floats) -> Leaving:
    """Return empty records for the removal of the examples at ``places``, with ``change`` as the array for results."""
    m, members = places.size, (places.size, MOST_CHANGED + 1)
    waiting = Leaving(
        np.full(m, WAITS),
        np.empty(m),
        change,
        np.zeros(m),
        np.zeros(members, np.int64),
        np.zeros(members, np.int64),
        np.zeros(members),
        np.ones(m, np.int64),
        np.zeros(m, np.int64),
    )
    waiting.members[:, 0], waiting.side[:, 0] = places, LEAVES
    return waiting


def _of_others(tableau: Tableau, leaving: Leaving, good: Bools) -> tuple[Ints, Ints, Floats, Floats]:
    """Return, for m removals, how many bound betas each changes, their slots and changes, and the changes of b."""
    is_member = np.arange(MOST_CHANGED + 1) < np.where(good, leaving.n_members, 0)[:, None]
    is_member &= leaving.members < tableau.n_others
    slots = tableau.order[leaving.members[is_member]]
    return is_member.sum(axis=1), slots, leaving.moved[is_member], np.where(good, leaving.db, 0.0)


def _together(tableau: Tableau, change: Floats, parts: list[tuple[Ints, Ints, Floats, Floats]]) -> ModelChanges:
    counts, slots, by, db = (np.concatenate(each) for each in zip(*parts, strict=True))
    starts = np.concatenate([[0], np.cumsum(counts)])
    return ModelChanges(tableau.order[tableau.n_others :], change[: counts.size], starts, slots, by, db)


def _sides(state: PathState, tableau: Tableau, f: Floats, tol_f: float, tol_beta: float) -> Sides:
    """Return the state of all examples relative to their limits, by tableau position; ``f`` is given by slot."""
    e, order, q = state.examples, tableau.order, tableau.n_others
    segment, beta, f = e.segment[order] // 2, e.beta[order], f[order]
    rows, is_free = np.arange(order.size), np.arange(order.size) >= q
    ends = np.full((order.size, 2), np.inf)
    kinks = np.hstack([-ends, np.where(np.arange(MAX_KINKS) < e.n_kinks[order, None], e.kinks[order], np.inf), ends])
    # level q is between kinks q - 1 and q; there is none below 0 and above the number of kinks
    levels = np.where(np.arange(MAX_KINKS + 1) <= e.n_kinks[order, None], e.levels[order], -np.inf)
    levels = np.hstack([ends, levels, -ends])

    def kink(k: int) -> Floats:
        return np.asarray(kinks[rows, segment + k + 2])

    def level(k: int) -> Floats:
        return np.asarray(levels[rows, segment + k + 2])

    low, high = np.where(is_free, level(1), kink(-1)), np.where(is_free, level(0), kink(0))
    tol = np.where(is_free, tol_beta, tol_f)
    with np.errstate(invalid="ignore"):  # nothing is beyond an infinite limit
        return Sides(
            np.where(is_free, beta, f),
            low,
            high,
            low - tol,
            high + tol,
            np.where(is_free, level(2), kink(-2)),
            np.where(is_free, level(-1), kink(1)),
            np.where(is_free, kink(1) - kink(0), level(-1) - level(0)),
            np.where(is_free, kink(0) - kink(-1), level(0) - level(1)),
            np.where(is_free, tol_f, tol_beta),
            beta,
            f,
            np.array([q, int(state.intercept), q - q // NEAR, q + (order.size - q) // NEAR]),
        )
