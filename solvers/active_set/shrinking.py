"""Following a path in outer iterations, each of which looks only at examples that may have an event soon.

Most examples of a window are far from their limits. An outer iteration ends after some dozens of events, or after the
part of the path that so many events usually take. The loop works on copies of its *members*: the *near* examples, which
could reach a limit in this part of the path, and all free examples. After the iteration f of every example is updated,
by one product of the changes of the betas with their kernel rows. If an example has crossed a limit unnoticed, the
limit is moved to the example, and returns by the end of the path. Moved limits may change the path, but not its end.
"""

from __future__ import annotations

import numpy as np

from livesvm.solvers.active_set.direction import find_direction
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.loop import pass_breakpoint, walk
from livesvm.solvers.active_set.ratio_test import jump
from livesvm.solvers.active_set.reactivation import LARGE, LEAST_PACE, another_pass, start
from livesvm.solvers.active_set.subproblem import walk_working_set
from livesvm.solvers.active_set.workspace import ITERATION_EVENTS, Walk, balanced
from livesvm.solvers.problem.state import is_free
from livesvm.solvers.runtime.compile import compiled, compiled_allocating, compiled_once_allocating
from livesvm.solvers.runtime.types import Floats, Ints

MOST_PASSES = 4  #: how often examples that were let through are sent back before the walk is judged
HALVINGS = 10  #: most halvings of an outer iteration with too many members, if walking all is costly, ...
SHARE = 0.125  #: ... until no more than this share are members
SHORT = 20  #: events of a short outer iteration, where an ordinary one would have far more members
FEWER = 3  #: "far more" is more than this many times as many
REACH = 3.0  #: an example is near if it would meet a limit at this multiple of its present rate
SPREAD = 0.6  #: or at this multiple of the mean rate
STEADY = 100.0  #: with more free examples the direction changes less from event to event: both multiples shrink,
STEADIEST = 0.5  #: but not below this fraction,
STEADIEST_OF_LARGE = 0.6  #: or this one in large windows, whose outer iterations are longer
LESS_SAFETY = 0.8  #: factor of both after an outer iteration that let no example through, or where all had to walk
LEAST_SAFETY = 0.2  #: the least product of these factors
MORE_SAFETY = 1.5  #: factor of both after an iteration that let through more than one example ...
MANY = 30  #: ... in this many events
LOST = 4  #: if one is let through in this many events, near examples cannot be predicted, and all walk ...
ALL = 4 * ITERATION_EVENTS  #: ... for this many events
WHOLE_BELOW = 128  #: windows smaller than this are always walked whole
SMALL = 600  #: also windows smaller than this, while few are free: outer iterations save little, and add events
WHOLE_WORK = 30_000  #: few are free as long as an event takes fewer products than this;
HARD_WORK = 100_000  #: from this many on, an outer iteration with more than half of the window as members is halved,
HEAVY_WORK = 500_000  #: and from this many on, one with more than ``SHARE``
PRODUCTS = 80_000  #: products of members and free examples, read at every event, that stay near the processor ...
FEW = 100  #: ... or this many members: an outer iteration of a large window with more is halved,
FEWER_HALVINGS = 3  #: but no more often than that
SHORTEST = 8  #: the fewest events that an outer iteration is planned for, however many members that takes
IDLE = 20  #: outer iterations without an event that a path may have, and one more ...
IDLE_EVENTS = 4  #: ... in this many events, before it goes on without outer iterations


@compiled_once_allocating
def follow_path(w: Walk) -> int:
    """Follow the path in outer iterations to its end, or until the caller must act; return why it stopped.

    After NEED_ROW or FACTOR_FULL, cache the kernel row of example ``at.switching``, make space in the factor, and call
    again. If ``at.asking`` is 1, WANT_ROWS requests kernel rows that the next outer iteration may need, so that the
    iteration does not stop for each of them. The exit is returned as a plain number, because making it a member of
    ``Exit`` takes time.
    """
    if w.at[0].started == 0:
        w.at[0].started = 1
        start(w)
    direction_valid = w.at[0].direction_valid == 1
    w.at[0].direction_valid = 0
    while True:
        w.at[0].fresh = 0
        outcome = pass_breakpoint(w)
        if outcome != Exit.DONE:
            return outcome.value
        if w.factor.size[0] == 0 and not balanced(w):
            direction_valid = False
            count_speeds(w)
            if not balanced(w) and not jump(w):
                left = abs(w.at[0].sum_rate - w.at[0].sum_v) * w.at[0].tau
                if not left < np.inf or (w.at[0].passes == 0 and left > w.tol[0].balance):
                    return Exit.UNBALANCED
                w.at[0].sum_rate = w.at[0].sum_v  # the rest of the sum was rounding
            continue
        tau, events = w.at[0].tau, w.at[0].events
        members, n_seen = choose(w, direction_valid)
        if w.at[0].asking == 1 and wants_rows(w, members, n_seen):
            w.at[0].direction_valid, w.at[0].asking = 1, 2
            return Exit.WANT_ROWS
        w.at[0].asking = min(w.at[0].asking, 1)
        outcome = walk(w, None, None) if n_seen < 0 else outer_iteration(w, members, n_seen)
        direction_valid = n_seen >= 0 and outcome in (Exit.ITERATION, Exit.NEED_ROW) and w.at[0].fresh == 0
        if n_seen >= 0 or w.n <= LARGE:
            learn_pace(w, tau - w.at[0].tau, w.at[0].events - events)
        if n_seen >= 0 and outcome == Exit.ITERATION and w.at[0].events == events:
            count_idle(w)
        if outcome == Exit.DONE and w.at[0].passes < MOST_PASSES and another_pass(w):
            direction_valid = False
            continue
        if outcome != Exit.ITERATION:
            # As it was before the example that waits has changed sides, which is near enough.
            w.at[0].direction_valid = direction_valid
            return outcome.value


@compiled
def wants_rows(w: Walk, members: Ints, n_seen: int) -> bool:
    """Say whether a member near a kink lacks its kernel row in the first pass; False in a window that is not large."""
    wanted = False
    if w.n > LARGE and w.at[0].passes == 0:
        for i in range(n_seen):
            wanted = wanted or w.row_of[members[i]] < 0
    return wanted


@compiled
def count_speeds(w: Walk) -> None:
    """Recompute the sum of the bound betas' velocities, so that its rounding error does not count as imbalance."""
    total = 0.0
    for j in range(w.n):
        total += w.motion.v[j]
    w.at[0].sum_v = total


@compiled_allocating
def choose(w: Walk, direction_valid: bool) -> tuple[Ints, int]:
    """Plan an outer iteration: return its members, with the near ones first, and the number of near members.

    The returned number is -1 if the loop is to work on all examples. All examples take part in a small window, for the
    first ``at.whole`` events, and if most examples would be members even of a much shorter iteration.
    """
    at = w.at[0]
    at.stride_end = at.events + SHORT
    small = w.n < WHOLE_BELOW or (w.n < SMALL and w.n * w.factor.size[1] < WHOLE_WORK)
    if small or at.events < at.whole:
        at.stride_end = max(at.events + ITERATION_EVENTS, at.whole)
        return np.empty(0, np.int64), -1
    members = np.empty(w.n, np.int64)
    soon = w.motion.work
    if at.passes > 0 and not direction_valid:
        expect_any_way(w, soon)
    else:
        if not direction_valid:
            find_direction(w)
        expect(w, soon)
    horizon = 2.0 * at.pace
    ordinary = events_of_iteration(w.n)
    near = count_below(soon, w.n, min(at.tau, ordinary * horizon))
    nearer = count_below(soon, w.n, min(at.tau, SHORT * horizon))
    few = w.n > LARGE or near <= FEWER * nearer + w.n // 16
    length = ordinary if at.passes == 0 and few else SHORT
    m = near if length == ordinary else nearer
    horizon = min(at.tau, length * horizon)
    if w.n * w.factor.size[1] >= (HARD_WORK if 2 * m > w.n else HEAVY_WORK):
        for _ in range(HALVINGS):
            if m > SHARE * w.n and horizon > SHORTEST * at.pace:
                horizon *= 0.5
                m = count_below(soon, w.n, horizon)
    if w.n > LARGE and at.passes == 0:
        for _ in range(FEWER_HALVINGS):
            if m > max(FEW, PRODUCTS / max(w.factor.size[1], 1)) and horizon > SHORTEST * at.pace:
                horizon *= 0.5
                length //= 2
                m = count_below(soon, w.n, horizon)
    if 2 * m > w.n:
        learn(w, 0, 0)
        return members, -1
    at.stride_end = at.events + (2 * length if w.n > LARGE else length)  # the horizon allows for this many
    at.last = at.tau - horizon
    m = 0
    for j in range(w.n):
        if soon[j] <= horizon:
            members[m] = j
            m += 1
    n_seen = m
    for k in range(w.factor.size[0]):
        slot = w.factor.slot[k]
        if slot >= 0 and soon[slot] > horizon:
            members[m] = slot
            m += 1
    return members[:m], n_seen


@compiled
def events_of_iteration(n: int) -> int:
    """Return the number of events of an ordinary outer iteration.

    The number is larger in a large window, because updating every example after an iteration costs more there.
    """
    return ITERATION_EVENTS if n <= LARGE else int(ITERATION_EVENTS * np.sqrt(n / LARGE))


@compiled
def expect(w: Walk, out: Floats) -> None:
    """Estimate, for each example, how much of the path passes before the example reaches a limit."""
    e, motion = w.examples, w.motion
    least = STEADIEST if w.n <= LARGE else STEADIEST_OF_LARGE
    steady = (1.0 if is_last(w) else w.at[0].member_safety) * max(least, min(1.0, STEADY / max(w.factor.size[1], 1)))
    drift = 1e-300
    for j in range(w.n):
        drift += SPREAD * steady * abs(motion.df[j]) / w.n
    for j in range(w.n):
        free = is_free(e.segment[j])
        x, dx = (e.beta[j], motion.dbeta[j]) if free else (e.f[j], motion.df[j])
        reach, slow = (1.0, 1e-300) if free else (REACH * steady, drift)
        up = reach * max(dx - motion.dhigh[j], 0.0) + slow
        down = reach * max(motion.dlow[j] - dx, 0.0) + slow
        out[j] = min((motion.high[j] - x) / up, (x - motion.low[j]) / down)


@compiled
def is_last(w: Walk) -> bool:
    """Say whether an ordinary iteration would reach the end of the path; always False in a large window."""
    return w.n <= LARGE and events_of_iteration(w.n) * 2.0 * w.at[0].pace >= w.at[0].tau


@compiled
def expect_any_way(w: Walk, out: Floats) -> None:
    """Estimate the same as ``expect`` for a later pass with no known direction, from the distances to limits."""
    e, motion = w.examples, w.motion
    most = 1e-300
    for j in range(w.n):
        for k in range(e.n_kinks[j]):
            most = max(most, abs(e.dkinks[j, k]))
    for j in range(w.n):
        way = min(motion.high[j] - e.f[j], e.f[j] - motion.low[j])
        out[j] = np.inf if is_free(e.segment[j]) else way / (REACH * most)


@compiled
def count_below(x: Floats, n: int, bound: float) -> int:
    """Return how many of the first ``n`` entries of ``x`` are at most ``bound``."""
    count = 0
    for j in range(n):
        count += x[j] <= bound
    return count


@compiled
def outer_iteration(w: Walk, members: Ints, n_seen: int) -> Exit:
    """Walk one outer iteration among ``members``, and adapt the choice of members; return why it stopped."""
    events, through = w.at[0].events, w.at[0].through
    outcome = walk_working_set(w, members, n_seen)
    if w.at[0].switching >= 0:
        w.at[0].switching = members[w.at[0].switching]
    learn(w, w.at[0].through - through, w.at[0].events - events)
    return outcome


@compiled
def learn_pace(w: Walk, used: float, events: int) -> None:
    """Update ``at.pace``, the estimated part of the path per event; without events it can only grow."""
    at = w.at[0]
    at.pace = max(LEAST_PACE, used / events) if events > 0 else max(at.pace, used)


@compiled
def count_idle(w: Walk) -> None:
    """Count an outer iteration without an event; after many such iterations, plan no further outer iterations."""
    at = w.at[0]
    at.idle += 1
    if at.idle > IDLE + at.events // IDLE_EVENTS:
        at.whole = at.budget


@compiled
def learn(w: Walk, through: int, events: int) -> None:
    """Choose members more widely if many other examples crossed a limit, and more narrowly if none did."""
    if w.n > LARGE:
        return
    if LOST * (through - 8) > events:
        w.at[0].whole = w.at[0].events + ALL
    if through == 0:
        w.at[0].member_safety = max(LEAST_SAFETY, LESS_SAFETY * w.at[0].member_safety)
    elif MANY * through > events:
        w.at[0].member_safety = min(1.0, MORE_SAFETY * w.at[0].member_safety)
