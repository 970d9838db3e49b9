"""The path on which one example leaves, by pivots: who changes sides is solved for among the few who have.

Who changes sides has the two quantities of ``leave_one_out.tableau`` swapped: what followed rests from now on, and what
rested is what keeps it there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.analyses.leave_one_out.tableau import CANCEL, Columns, Tableau, add_row, make_column
from livesvm.solvers.problem.state import Examples, is_free
from livesvm.solvers.runtime.by_reference import by_reference, keep, refer
from livesvm.solvers.runtime.compile import compiled, compiled_allocating
from livesvm.solvers.runtime.interrupt import is_stopped
from livesvm.solvers.runtime.types import Bools, Floats, Ints

MOST_CHANGED = 24  # sides changed in one leaving; beyond it the ordinary path is no slower ...
FEW_FREE = 64  # ... nor is it, for anybody who cannot leave straight, with fewer free
MOST_EVENTS = 60
SINGULAR = 1e-9  # a pivot below this, of its row, is none


@by_reference
class Leaving(NamedTuple):
    """How some examples leave, one a row."""

    change: Floats  #: (m, F) of the betas of the free
    f: Floats  #: (m, slots) at the end
    db: Floats  #: (m,)
    changed: Ints  #: (m, MOST_CHANGED) who changed sides, then -1
    beta: Floats  #: (m, MOST_CHANGED) their betas at the end
    segment: Ints  #: (m, MOST_CHANGED) and where they stand then
    events: Ints  #: (m,), -1: given up


@by_reference
class Work(NamedTuple):
    """Arrays of one walk, by slot, and the system of those who have changed sides."""

    beta: Floats
    f: Floats
    segment: Ints
    low: Floats  #: limits, of beta of those who are free now, of f of the others
    high: Floats
    dbeta: Floats
    df: Floats
    straight: Floats  #: what follows, by how much in all, if nobody changes sides
    system: Floats  #: (MOST_CHANGED + 1, MOST_CHANGED + 1)
    rates: Floats  #: (MOST_CHANGED + 1,)
    members: Ints  #: (MOST_CHANGED + 1,) who has changed sides, and who leaves if he was free


@compiled_allocating
def walk_all(
    e: Examples, tableau: Tableau, columns: Columns, who: Ints, leaving: Leaving, tol_f: float, tol_beta: float
) -> None:
    """Walk for each of ``who`` that cannot leave straight; ``leaving`` has the straight ones and gets the others."""
    n = e.f.size
    low, high = np.empty(n), np.empty(n)
    for j in range(n):
        low[j], high[j] = side_limits(e, j, e.segment[j])
    work = Work(
        np.empty(n),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty((MOST_CHANGED + 1, MOST_CHANGED + 1)),
        np.empty(MOST_CHANGED + 1),
        np.empty(MOST_CHANGED + 1, np.int64),
    )
    w = refer(work)
    for i in range(who.size):
        if is_stopped(columns.size, CANCEL):
            break
        clear, solved = True, True
        for j in range(n):
            place = tableau.place[j]
            x = e.beta[j] + leaving.change[i, place] if place >= 0 else leaving.f[i, j]
            tol = tol_beta if place >= 0 else tol_f
            clear = clear and (j == who[i] or low[j] - tol <= x <= high[j] + tol)
            solved = solved and (j == who[i] or place < 0 or abs(leaving.f[i, j] - e.f[j]) <= tol_f)
        if clear or not solved or tableau.free.size < FEW_FREE:
            leaving.events[i] = 0 if clear and solved else -1
            continue
        w.beta[:], w.f[:], w.segment[:], w.low[:], w.high[:] = e.beta, e.f, e.segment, low, high
        leaving.events[i] = walk(e, tableau, columns, w, who[i], i, leaving, tol_f, tol_beta)
    keep(work)


@compiled
def side_limits(e: Examples, slot: int, segment: int) -> tuple[float, float]:
    """Return the limits of a side: of beta if it is a kink, of f if it is a piece."""
    q = segment // 2
    if is_free(segment):
        return e.levels[slot, q + 1], e.levels[slot, q]
    return e.kinks[slot, q - 1] if q > 0 else -np.inf, e.kinks[slot, q] if q < e.n_kinks[slot] else np.inf


@compiled
def walk(
    e: Examples,
    tableau: Tableau,
    columns: Columns,
    w: Work,
    leaver: int,
    i: int,
    leaving: Leaving,
    tol_f: float,
    tol_beta: float,
) -> int:
    """Follow the path on which ``leaver`` leaves, row ``i`` of ``leaving``; return its events.

    -1: too many change sides, or somebody depends on the others.
    """
    n = e.f.size
    place = tableau.place
    for j in range(n):
        w.straight[j] = leaving.change[i, place[j]] if place[j] >= 0 else leaving.f[i, j] - e.f[j]
    count, events = 0, 0
    left, b = 1.0, 0.0
    while True:
        if not solve_among(columns, w, count, leaver):
            return -1
        db = leaving.db[i] + find_rates(tableau, columns, w, count, leaver, e.beta[leaver])
        step, who, side = next_event(w, leaver, left, tol_f, tol_beta)
        for j in range(n):
            w.beta[j] += step * w.dbeta[j]
            w.f[j] += step * w.df[j]
        b += step * db
        left -= step
        if who < 0:
            leaving.db[i] = b
            return events if note(e, tableau, w, leaver, i, leaving) else -1
        events += 1
        if events > MOST_EVENTS or is_stopped(columns.size, CANCEL):
            return -1
        if count == 0 and place[leaver] >= 0:
            if not make_column(e, tableau, columns, leaver):
                return -1
            w.members[0] = leaver
            count = 1
        count = change_side(e, tableau, columns, w, who, side, count)
        if count < 0:
            return -1


@compiled
def change_side(e: Examples, tableau: Tableau, columns: Columns, w: Work, who: int, side: int, count: int) -> int:
    """Let ``who`` go on to his next side; return how many are to be solved for now, or -1."""
    if is_free(w.segment[who]):
        w.beta[who] = w.high[who] if side > 0 else w.low[who]
        w.segment[who] -= side
    else:
        w.f[who] = w.high[who] if side > 0 else w.low[who]
        w.segment[who] += side
    w.low[who], w.high[who] = side_limits(e, who, w.segment[who])
    for a in range(count):
        if w.members[a] == who:
            w.members[a] = w.members[count - 1]
            return count - 1
    if count > MOST_CHANGED or not make_column(e, tableau, columns, who):
        return -1
    w.members[count] = who
    return count + 1


@compiled
def solve_among(columns: Columns, w: Work, count: int, leaver: int) -> bool:
    """Find the rates that keep those who have changed sides at rest, by elimination with scaled pivots.

    False: they depend on one another.
    """
    G, x, members = w.system, w.rates, w.members
    for a in range(count):
        largest = 0.0
        for c in range(count):
            G[a, c] = columns.values[columns.column_of[members[c]], members[a]]
            largest = max(largest, abs(G[a, c]))
        if largest == 0.0:
            return False
        for c in range(count):
            G[a, c] /= largest
        x[a] = 0.0 if members[a] == leaver else -w.straight[members[a]] / largest
    for k in range(count):
        pivot = k
        for a in range(k + 1, count):
            if abs(G[a, k]) > abs(G[pivot, k]):
                pivot = a
        if abs(G[pivot, k]) < SINGULAR:
            return False
        if pivot != k:
            for c in range(count):
                G[k, c], G[pivot, c] = G[pivot, c], G[k, c]
            x[k], x[pivot] = x[pivot], x[k]
        for a in range(k + 1, count):
            factor = G[a, k] / G[k, k]
            for c in range(k, count):
                G[a, c] -= factor * G[k, c]
            x[a] -= factor * x[k]
    for k in range(count - 1, -1, -1):
        for c in range(k + 1, count):
            x[k] -= G[k, c] * x[c]
        x[k] /= G[k, k]
    return True


@compiled
def find_rates(tableau: Tableau, columns: Columns, w: Work, count: int, leaver: int, beta: float) -> float:
    """Compute the rates of everyone's beta and f; return how much faster b goes than straight."""
    n, place = w.beta.size, tableau.place
    follow = w.df  # what follows, of everyone
    for j in range(n):
        follow[j] = w.straight[j]
    db = 0.0
    for a in range(count):
        column = columns.column_of[w.members[a]]
        add_row(w.rates[a], columns.values[column], follow)
        db += w.rates[a] * columns.db[column]
    for j in range(n):
        w.dbeta[j] = follow[j] if place[j] >= 0 else 0.0
        w.df[j] = 0.0 if place[j] >= 0 else follow[j]
    for a in range(count):
        slot = w.members[a]
        if place[slot] >= 0:
            w.dbeta[slot], w.df[slot] = 0.0, w.rates[a]
        else:
            w.dbeta[slot], w.df[slot] = w.rates[a], 0.0
    w.dbeta[leaver] = -beta
    return db


@compiled
def next_event(w: Work, leaver: int, left: float, tol_f: float, tol_beta: float) -> tuple[float, int, int]:
    """Return the step to the next change of sides, whose it is (-1: the end comes first), and at which limit.

    Two passes, as in ``livesvm.solvers.active_set.ratio_test``.
    """
    bound = left
    for j in range(w.beta.size):
        x, dx, tol = (w.beta[j], w.dbeta[j], tol_beta) if is_free(w.segment[j]) else (w.f[j], w.df[j], tol_f)
        if j != leaver and dx != 0.0:
            gap = w.high[j] - x if dx > 0.0 else x - w.low[j]
            bound = min(bound, (max(gap, 0.0) + tol) / abs(dx))
    if bound >= left:
        return left, -1, 0
    step, who, side, best = left, -1, 0, 0.0
    for j in range(w.beta.size):
        x, dx, tol = (w.beta[j], w.dbeta[j], tol_beta) if is_free(w.segment[j]) else (w.f[j], w.df[j], tol_f)
        if j != leaver and abs(dx) > best * tol:
            gap = w.high[j] - x if dx > 0.0 else x - w.low[j]
            if max(gap, 0.0) <= bound * abs(dx):
                step, who, side, best = max(gap, 0.0) / abs(dx), j, 1 if dx > 0.0 else -1, abs(dx) / tol
    return min(step, left), who, side


@compiled
def note(e: Examples, tableau: Tableau, w: Work, leaver: int, i: int, leaving: Leaving) -> bool:
    """Write down where a walk has ended; False: too many have changed."""
    count = 0
    for j in range(w.beta.size):
        place = tableau.place[j]
        if place >= 0:
            leaving.change[i, place] = w.beta[j] - e.beta[j]
        if j == leaver or (w.segment[j] == e.segment[j] and (place >= 0 or w.beta[j] == e.beta[j])):
            continue
        if count == MOST_CHANGED:
            return False
        leaving.changed[i, count], leaving.beta[i, count], leaving.segment[i, count] = j, w.beta[j], w.segment[j]
        count += 1
    return True


@compiled
def add_changed(beta: Floats, tableau: Tableau, leaving: Leaving) -> None:
    """Add to f at the end what those make of it who were bound and have another beta now."""
    for i in range(leaving.f.shape[0]):
        for k in range(MOST_CHANGED):
            slot = leaving.changed[i, k]
            if slot < 0:
                break
            if tableau.place[slot] < 0:
                add_row(leaving.beta[i, k] - beta[slot], tableau.rows[tableau.row_of[slot]], leaving.f[i])


@compiled
def judge_all(
    e: Examples, tableau: Tableau, who: Ints, leaving: Leaving, tol_f: float, tol_beta: float, good: Bools
) -> None:
    """Say of each whether everyone else is in the end where his side asks for, and whether b is the only one there is.

    It is if somebody is free and not at an end of his box.
    """
    n = e.f.size
    for i in range(who.size):
        total = -e.beta[who[i]]
        well = leaving.events[i] >= 0
        held = not tableau.intercept
        for j in range(n):
            if j == who[i]:
                continue
            segment, place = e.segment[j], tableau.place[j]
            beta = e.beta[j] + (leaving.change[i, place] if place >= 0 else 0.0)
            for k in range(MOST_CHANGED):
                if leaving.changed[i, k] < 0:
                    break
                if leaving.changed[i, k] == j:
                    beta, segment = leaving.beta[i, k], leaving.segment[i, k]
            total += beta - e.beta[j]
            low, high = side_limits(e, j, segment)
            if is_free(segment):
                well = well and low - tol_beta <= beta <= high + tol_beta
                held = held or low + tol_beta < beta < high - tol_beta
                well = well and abs(leaving.f[i, j] - e.kinks[j, segment // 2]) <= tol_f
            else:
                well = well and low - tol_f <= leaving.f[i, j] <= high + tol_f
        good[i] = well and held and (not tableau.intercept or abs(total) <= n * tol_beta)
