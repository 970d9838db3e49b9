"""Removal of one example from an optimum, by block pivots on the tableau of that optimum [Júdice & Pires 1994].

For each example, one of beta and f *rests* and the other *follows*, see ``tableau``. In one round, all examples with a
following quantity that ends beyond a limit change sides. After an example has changed sides, this quantity rests at the
limit; a linear system of all such examples gives the other quantity. If the number of wrong examples does not fall,
only the last wrong example changes sides in each further round; such rounds are certain to end [Murty 1974]. The time
of a round is proportional to the number of examples times the number of changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.analyses.leave_one_out.tableau import Columns
from livesvm.solvers.linalg.products import entry
from livesvm.solvers.runtime.by_reference import by_reference, keep, refer
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.interrupt import is_stopped
from livesvm.solvers.runtime.types import Floats, Ints

MOST_CHANGED = 96  # most sides changed while one example leaves; beyond it the ordinary path is no slower
ROUNDS = 40
PATIENCE = 3  # rounds that do not lessen the wrong examples, before they change one by one
BLOCK = 256  # places that are checked together
SINGULAR = 1e-9  # a pivot below this, relative to its row, counts as 0
WAITS, GIVEN_UP, LEFT = range(3)  # outcomes
LEAVES = 9  # the side of the example that leaves
OTHERS, INTERCEPT, FIRST_NEAR, LAST_NEAR = range(4)  # entries of the numbers of sides


@by_reference
class Sides(NamedTuple):
    """The state of all examples, by tableau position: f of bound examples, then beta of free ones."""

    follows: Floats  #: (N,) the following quantity
    low: Floats  #: (N,) its limits
    high: Floats
    least: Floats  #: (N,) its limits, widened by rounding
    most: Floats
    below: Floats  #: (N,) its limits once an example has gone past the next side
    above: Floats
    down: Floats  #: (N,) how far the resting quantity may go at the limit before the example goes past it
    up: Floats
    tol_rest: Floats  #: (N,) how far the resting quantity may be beyond that by rounding
    beta: Floats  #: (N,)
    f: Floats  #: (N,)
    numbers: Ints  #: (4,) see ``OTHERS``


@by_reference
class Leaving(NamedTuple):
    """Arrays for the separate removal of m examples; each row is for one removal."""

    outcome: Ints  #: (m,) WAITS: for columns
    decision: Floats  #: (m,) f of the example that leaves, at the end
    change: Floats  #: (m, F) change of the betas of free examples
    db: Floats  #: (m,)
    members: Ints  #: (m, MOST_CHANGED + 1) places of the example that leaves and of those that have changed sides
    side: Ints  #: (m, MOST_CHANGED + 1) sides of these members, as in ``PivotWork``
    moved: Floats  #: (m, MOST_CHANGED + 1) how far their resting quantity has gone
    n_members: Ints  #: (m,)
    changes: Ints  #: (m,) number of changes of sides


@by_reference
class PivotWork(NamedTuple):
    """Work arrays for the removal of one example, with the linear system of the examples that have changed sides."""

    ends: Floats  #: (N,) the following quantity at the end
    side: Ints  #: (N,) 0: as it was; 1, -1: at its upper or lower limit; 2, -2: past it; LEAVES
    members: Ints  #: (MOST_CHANGED + 1,) places with a side other than 0; the one that leaves is the first
    moved: Floats  #: (MOST_CHANGED + 1,) how far the resting quantity of each member has gone
    unknown: Ints  #: (MOST_CHANGED + 1,) members that are solved for
    system: Floats  #: (MOST_CHANGED + 1, MOST_CHANGED + 1)
    solution: Floats  #: (MOST_CHANGED + 1,)
    wrong: Ints  #: (N,) places that are to change sides
    to: Ints  #: (N,) the sides that these get


@compiled_allocating
def leave_each(s: Sides, columns: Columns, leaving: Leaving, tol_f: float, tol_beta: float) -> None:
    """Continue the removal of each waiting example separately; mark columns that are needed but missing as wanted."""
    n = s.low.size
    work = PivotWork(
        np.empty(n),
        np.zeros(n, np.int64),
        np.empty(MOST_CHANGED + 1, np.int64),
        np.empty(MOST_CHANGED + 1),
        np.empty(MOST_CHANGED + 1, np.int64),
        np.empty((MOST_CHANGED + 1, MOST_CHANGED + 1)),
        np.empty(MOST_CHANGED + 1),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )
    w = refer(work)
    for i in range(leaving.outcome.size):
        if leaving.outcome[i] != WAITS:
            continue
        if is_stopped(columns.size, 0):
            break
        leave(s, columns, w, i, leaving)
        if leaving.outcome[i] == LEFT and not note(s, columns, w, i, leaving, tol_f, tol_beta):
            leaving.outcome[i] = GIVEN_UP
    keep(work)


@compiled
def leave(s: Sides, columns: Columns, w: PivotWork, i: int, leaving: Leaving) -> None:
    """Search for the optimum without example ``i`` of ``leaving``, from where the earlier search for it stopped."""
    count = leaving.n_members[i]
    for a in range(count):
        w.members[a] = leaving.members[i, a]
        w.side[w.members[a]] = leaving.side[i, a]
    leaving.outcome[i], count, changes = pivot(s, columns, w, count)
    leaving.n_members[i] = count
    leaving.changes[i] += changes
    for a in range(count):
        leaving.members[i, a], leaving.moved[i, a] = w.members[a], w.moved[a]
        leaving.side[i, a] = w.side[w.members[a]]
        w.side[w.members[a]] = 0


@compiled
def pivot(s: Sides, columns: Columns, w: PivotWork, count: int) -> tuple[int, int, int]:
    """Change sides until no example is wrong; return the outcome, the number of members, and the number of changes."""
    changes, fewest, patience, leaver = 0, w.side.size + 1, PATIENCE, w.members[0]
    for _ in range(ROUNDS):
        if not solve(s, columns, w, count, leaver):
            return GIVEN_UP, count, changes
        wrong = find_wrong_members(s, columns, w, count)
        if wrong >= 0:
            wrong = find_wrong(s, columns, w, count, wrong, s.numbers[FIRST_NEAR], s.numbers[LAST_NEAR])
        if wrong == 0:
            wrong = find_wrong(s, columns, w, count, wrong, 0, w.ends.size)
        if wrong <= 0:
            return LEFT if wrong == 0 else GIVEN_UP, count, changes
        patience = PATIENCE if wrong < fewest else patience - 1
        fewest = min(fewest, wrong)
        first, stop = 0, wrong
        if patience <= 0:
            first = int(np.argmax(w.wrong[:wrong]))  # the last wrong one alone
            stop = first + 1
        if count + stop - first > MOST_CHANGED + 1:
            return GIVEN_UP, count, changes
        count = change_sides(columns, w, count, first, stop)
        changes += stop - first
        waits = False
        for k in range(first, stop):
            waits |= columns.column_of[w.wrong[k]] < 0
        if waits:
            return WAITS, count, changes
    return GIVEN_UP, count, changes


@compiled
def change_sides(columns: Columns, w: PivotWork, count: int, first: int, stop: int) -> int:
    """Change sides of wrong examples ``first`` to ``stop``, or mark missing columns; return the number of members."""
    for k in range(first, stop):
        j = w.wrong[k]
        if columns.column_of[j] < 0:
            columns.wanted[j] = 1
            continue
        if w.side[j] == 0:
            w.members[count] = j
            count += 1
        w.side[j] = w.to[k]
    stay = 0
    for a in range(count):
        if w.side[w.members[a]] != 0:
            w.members[stay] = w.members[a]
            stay += 1
    return stay


@compiled
def solve(s: Sides, columns: Columns, w: PivotWork, count: int, leaver: int) -> bool:
    """Compute how far the resting quantity of each member moves; return False if the equations are dependent.

    The linear system is solved by Gaussian elimination with row scaling.
    """
    G, x, unknown, m = w.system, w.solution, w.unknown, 0
    for a in range(count):
        j = w.members[a]
        if w.side[j] == 1 or w.side[j] == -1 or (j == leaver and j >= s.numbers[OTHERS]):
            unknown[m] = a
            m += 1
        elif j == leaver:
            w.moved[a] = -s.beta[j]
        else:
            w.moved[a] = -s.up[j] if w.side[j] > 0 else s.down[j]
    for k in range(m):
        j = w.members[unknown[k]]
        x[k] = (0.0 if j == leaver else s.high[j] if w.side[j] > 0 else s.low[j]) - s.follows[j]
        c = 0
        for a in range(count):
            value = columns.values[columns.column_of[w.members[a]], j]
            if c < m and unknown[c] == a:
                G[k, c] = value
                c += 1
            else:
                x[k] -= w.moved[a] * value
    if not eliminate(G, x, m):
        return False
    for k in range(m):
        w.moved[unknown[k]] = x[k]
    return True


@compiled
def eliminate(G: Floats, x: Floats, m: int) -> bool:
    """Solve the first ``m`` equations in place; return False if they are linearly dependent."""
    for a in range(m):
        largest = 0.0
        for c in range(m):
            largest = max(largest, abs(G[a, c]))
        if largest == 0.0:
            return False
        for c in range(m):
            G[a, c] /= largest
        x[a] /= largest
    for k in range(m):
        pivot = k
        for a in range(k + 1, m):
            if abs(G[a, k]) > abs(G[pivot, k]):
                pivot = a
        if abs(G[pivot, k]) < SINGULAR:
            return False
        if pivot != k:
            for c in range(m):
                G[k, c], G[pivot, c] = G[pivot, c], G[k, c]
            x[k], x[pivot] = x[pivot], x[k]
        for a in range(k + 1, m):
            factor = G[a, k] / G[k, k]
            for c in range(k, m):
                G[a, c] -= factor * G[k, c]
            x[a] -= factor * x[k]
    for k in range(m - 1, -1, -1):
        for c in range(k + 1, m):
            x[k] -= G[k, c] * x[c]
        x[k] /= G[k, k]
    return True


@compiled
def find_wrong_members(s: Sides, columns: Columns, w: PivotWork, count: int) -> int:
    """List the members that must change sides; return the number of entries, or -1 if a member passes two sides."""
    wrong = 0
    for a in range(1, count):
        j, side = w.members[a], w.side[w.members[a]]
        to = side
        if side == 1 or side == -1:
            gone = -side * w.moved[a]
            if gone < -s.tol_rest[j]:
                to = 0
            elif gone > (s.up[j] if side > 0 else s.down[j]) + s.tol_rest[j]:
                to = 2 * side
        else:
            x = s.follows[j]
            for c in range(count):
                x += w.moved[c] * columns.values[columns.column_of[w.members[c]], j]
            if side > 0 and x < 2.0 * s.high[j] - s.most[j]:
                to = 1
            elif side < 0 and x > 2.0 * s.low[j] - s.least[j]:
                to = -1
            elif x > s.above[j] or x < s.below[j]:
                return -1
        if to != side:
            w.wrong[wrong], w.to[wrong] = j, to
            wrong += 1
    return wrong


@compiled
def find_wrong(s: Sides, columns: Columns, w: PivotWork, count: int, wrong: int, first: int, last: int) -> int:
    """Compute the following quantities of a range of examples; list those beyond a limit; return the list's length."""
    for start in range(first, last, BLOCK):
        stop = min(last, start + BLOCK)
        if follow_part(s, columns, w, count, start, stop) > 0:
            for j in range(start, stop):
                if w.side[j] == 0 and (w.ends[j] < s.least[j] or w.ends[j] > s.most[j]):
                    w.wrong[wrong], w.to[wrong] = j, 1 if w.ends[j] > s.most[j] else -1
                    wrong += 1
    return wrong


@compiled
def follow_part(s: Sides, columns: Columns, w: PivotWork, count: int, start: int, stop: int) -> int:
    """Compute the following quantities of examples ``start`` to ``stop``; return how many end beyond a limit."""
    values, column_of, members, last, beyond = columns.values, columns.column_of, w.members, count - 1, 0
    ends, least, most = w.ends[start:stop], s.least[start:stop], s.most[start:stop]
    for j in range(stop - start):
        ends[j] = s.follows[start + j]
    for a in range(0, count, 4):
        r0 = values[column_of[members[a]], start:stop]
        r1 = values[column_of[members[min(a + 1, last)]], start:stop]
        r2 = values[column_of[members[min(a + 2, last)]], start:stop]
        r3 = values[column_of[members[min(a + 3, last)]], start:stop]
        c0, c1, c2, c3 = (
            w.moved[a],
            entry(w.moved, a + 1, last),
            entry(w.moved, a + 2, last),
            entry(w.moved, a + 3, last),
        )
        for j in range(stop - start):
            ends[j] += c0 * r0[j] + c1 * r1[j] + c2 * r2[j] + c3 * r3[j]
    for j in range(stop - start):
        beyond += (ends[j] < least[j]) | (ends[j] > most[j])
    return beyond


@compiled
def note(s: Sides, columns: Columns, w: PivotWork, i: int, leaving: Leaving, tol_f: float, tol_beta: float) -> bool:
    """Record the model without example ``i``; return False if rounding has spoiled the result, or b is not unique."""
    q, n, count, leaver = s.numbers[OTHERS], w.ends.size, leaving.n_members[i], leaving.members[i, 0]
    is_held, db, total = s.numbers[INTERCEPT] == 0, 0.0, 0.0
    decision = s.f[leaver] + (leaving.moved[i, 0] if leaver >= q else 0.0)
    for a in range(count):
        j, moved = leaving.members[i, a], leaving.moved[i, a]
        w.members[a], w.moved[a], w.side[j] = j, moved, leaving.side[i, a]
        db += moved * columns.db[columns.column_of[j]]
        total += moved if j < q else 0.0
        decision += moved * columns.values[columns.column_of[j], leaver] if leaver < q else 0.0
        reach = s.up[j] if w.side[j] > 0 else s.down[j]
        is_held |= j < q and abs(w.side[j]) == 1 and tol_beta < -w.side[j] * moved < reach - tol_beta
    follow_part(s, columns, w, count, q, n)
    for j in range(q, n):
        end = w.ends[j]
        if w.side[j] != 0:
            end = 0.0 if j == leaver else s.high[j] if w.side[j] == 1 else s.low[j] if w.side[j] == -1 else end
        else:
            is_held |= s.low[j] + tol_beta < end < s.high[j] - tol_beta
        leaving.change[i, j - q] = end - s.follows[j]
        total += end - s.follows[j]
    leaving.db[i], leaving.decision[i] = db, decision
    for a in range(count):
        w.side[w.members[a]] = 0
    is_balanced = s.numbers[INTERCEPT] == 0 or abs(total) <= n * tol_beta
    return is_held and is_balanced and agrees(s, columns, w, i, count, leaving, tol_f)


@compiled
def agrees(s: Sides, columns: Columns, w: PivotWork, i: int, count: int, leaving: Leaving, tol_f: float) -> bool:
    """Say whether the changes of f and betas agree: sums of errors of free f, with random signs, are near 0."""
    q, n = s.numbers[OTHERS], w.ends.size
    for z in range(columns.signs.shape[0]):
        signs, sketch, off = columns.signs[z], columns.sketch[z], 0.0
        for j in range(q, n):
            off += signs[j - q] * leaving.db[i] + sketch[j] * leaving.change[i, j - q]
        for a in range(count):
            j = w.members[a]
            off += w.moved[a] * (sketch[j] if j < q else -signs[j - q])
        if not abs(off) <= tol_f:
            return False
    return True
