"""The path algorithm in one compiled call: from a change of the losses to an optimum that has been checked.

The algorithm is that of [Karasuyama & Takeuchi] for many examples added and removed along one path, and of [Ong, Shao &
Yang] for linearly dependent examples. The loop from event to event is ``active_set.loop.walk``. Comments refer to these
rules:

1. The beta of a new example starts at 0 and moves straight to the level of its piece; that of a leaving example moves
   straight to 0. A kink that f violates starts at f and moves to its place.
2. A bound example that reaches a kink goes on to the next piece if its beta is outside the box of this kink.
3. Boxes and kinks may move. Each point of the path is then the optimum of the losses at that point.
4. If no example is free and the betas do not balance, b jumps until an example reaches a kink and can balance them.
5. An example that depends linearly on the free ones does not become free at once. Its beta and the free betas move
   along the direction that changes no f, until one of these betas is at an end of its box [Ong et al., eq. 30-34]. No
   ridge is added.
6. The ratio test has two passes; in the first, limits are relaxed by their tolerances [Harris]. If the walk stalls
   nevertheless, tied limits are moved apart by random amounts that vanish at the end of the path.
7. Rounding and the ratio test leave a state with small violations, which the next round removes.
8. Each f is updated along the way. It is recomputed at the end of a path for free examples and for bound ones near a
   kink, where it decides about optimality, and now and then for all examples.
9. If there are many free examples, none of them a copy, one step spans several events. Examples that the step takes
   beyond a limit change sides at once, and return to their kinks or the ends of their boxes on the rest of the path.
"""

from __future__ import annotations

from enum import IntEnum

from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.shrinking import follow_path
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.homotopy.edit import ClassBatch, Progress, Work, close_edit, keep_places, make_edit, open_pair
from livesvm.solvers.homotopy.finalize import compute_all, compute_free, put_on_ends, refresh_close, rounding_left
from livesvm.solvers.homotopy.motion import SLOTS, set_bound_rate, set_motion
from livesvm.solvers.homotopy.optimality import audit_of, is_optimal, units_of, units_of_motion
from livesvm.solvers.homotopy.refresh import uncertain_band
from livesvm.solvers.homotopy.tolerances import SETTINGS, begin, is_due
from livesvm.solvers.runtime.by_reference import at
from livesvm.solvers.runtime.compile import compiled, compiled_once
from livesvm.solvers.runtime.scalars import One
from livesvm.solvers.runtime.types import Floats, Ints

_GOAL = SETTINGS.goal
TRUSTED = 256  #: events up to which thousands of small problems use tracked f for decisions


class Stage(IntEnum):
    """The stage from which a solve starts, or continues once the caller has met its request."""

    OF_PAIR = 0  #: examples come and leave by number
    EDIT = 1
    SET_OUT = 2
    DRIVEN = 3  #: the effect of the moving betas on f is known
    WALKING = 4
    CUT_OFF = 5  #: the walk was given up before its end


@compiled_once
def solve(w: Walk, s: Work, batch: ClassBatch) -> int:
    """Make the edit, set the motion that the change requires, follow the path, and judge its end; return an ``Exit``.

    DONE: the state is at the optimum. INEXACT: the path has ended or was given up, and the state is not accurate
    enough. UNJUDGED: the path has ended or was given up, but judging the state takes long, or needs kernel rows that
    are not cached. NEED_ROWS: the caller must cache the kernel rows of free examples and compute ``motion.bound_rate``.
    All other exits are those of ``follow_path``.
    """
    now = s.now[0]
    if now.stage == Stage.OF_PAIR:
        if not open_pair(w, s, batch):
            return Exit.NO_PLACE.value
        now.stage = Stage.EDIT
    if now.stage == Stage.EDIT:
        keep_places(w, s)
        make_edit(w, s)
        now.stage = Stage.SET_OUT
    if now.stage == Stage.SET_OUT:
        now.n_moving = set_motion(w.examples, w.motion, w.n, s.moving[SLOTS])
        now.stage = Stage.DRIVEN
        if not set_bound_rate(w.motion, w.factor, w.rows, w.row_of, s.used, now.clock, w.n, s.moving, now.n_moving):
            return Exit.NEED_ROWS.value
    if now.stage == Stage.DRIVEN:
        w.at[0].b, w.at[0].kappa = now.b, now.kappa
        start(w, s)
    if now.stage == Stage.WALKING:
        outcome = follow_path(w)
        if outcome != Exit.DONE.value:
            return outcome
    moved, outcome = land(w, s), judge(w, s)
    if outcome == Exit.DONE.value and moved:
        return Exit.INEXACT.value
    if outcome == Exit.DONE.value:
        close_edit(w, s, batch)
    return outcome


@compiled
def solve_each(
    w: Walk,
    s: Work,
    batch: ClassBatch,
    places: Ints,
    found: Ints,
    sums: One[Progress],
    voters: Ints,
    winners: Ints,
    foretold: Ints,
) -> None:
    """Solve pairs of classes until an interrupt; ``places`` (m, 2) are addresses of records, typed as ``w`` and ``s``.

    Fills ``found`` (m, 3) with each pair's exit and, if the pair is solved, its number of events and of bound support
    vectors. Fills ``sums`` with the totals of the solved pairs. If ``voters`` has the records of all pairs, fills
    ``foretold`` first; see ``foretell``.
    """
    total = sums[0]
    if len(voters) > 0:
        foretell(w, s, batch, voters, winners, foretold)
    found[:] = Exit.CANCELLED.value
    for i in range(len(found)):
        at(places[i, 1], s).now[0].is_kept = 0
    for i in range(len(found)):
        work = at(places[i, 1], s)
        now = work.now[0]
        now.stage = Stage.OF_PAIR
        found[i, 0] = solve(at(places[i, 0], w), work, batch)
        if found[i, 0] == Exit.CANCELLED.value:
            return
        if found[i, 0] == Exit.DONE.value:
            found[i, 1], found[i, 2] = now.walked, now.n_bound
            now.since += now.walked
            total.count, total.walked, total.work = total.count + 1, total.walked + now.walked, total.work + now.work
            total.exchanges += now.exchanges
            total.violation = max(total.violation, now.violation)
            total.relative_gap = max(total.relative_gap, now.relative_gap)


@compiled
def foretell(w: Walk, s: Work, batch: ClassBatch, voters: Ints, winners: Ints, foretold: Ints) -> None:
    """Fill ``foretold`` with the predicted class of each row of ``batch``: the first of those that win most pairs.

    ``voters`` (n_pairs, 2) are addresses of the records of all pairs, in order; ``winners`` is a work array. A class
    that wins all its pairs is the predicted one. So the pairs of the row's own class are decided first, then those of
    the winner of a knockout, then all others.
    """
    n_classes = len(winners)
    for own in range(n_classes):
        for i in range(batch.come_from[own], batch.come_from[own + 1]):
            row = batch.row_of[batch.come[i]]
            values, champion = batch.values[row], own
            winners[:] = -1
            if not wins_all(w, s, values, voters, winners, champion):
                champion = 0
                for c in range(1, n_classes):
                    champion = winner_of(w, s, values, voters, winners, champion, c)
                if not wins_all(w, s, values, voters, winners, champion):
                    champion, most = 0, -1
                    for a in range(n_classes):
                        votes = 0
                        for c in range(n_classes):
                            if c != a and winner_of(w, s, values, voters, winners, min(a, c), max(a, c)) == a:
                                votes += 1
                        if votes > most:
                            champion, most = a, votes
            foretold[row] = champion


@compiled
def wins_all(w: Walk, s: Work, values: Floats, voters: Ints, winners: Ints, own: int) -> bool:
    """Return whether class ``own`` wins all its pairs; for the arguments see ``winner_of``."""
    for c in range(len(winners)):
        if c != own and winner_of(w, s, values, voters, winners, min(own, c), max(own, c)) != own:
            return False
    return True


@compiled
def winner_of(w: Walk, s: Work, values: Floats, voters: Ints, winners: Ints, a: int, c: int) -> int:
    """Return which of two classes, ``a`` < ``c``, wins a row; ``values`` are the row's kernel values by number.

    ``winners`` holds the winners that are already known; other entries are -1.
    """
    if winners[a, c] < 0:
        k = a * len(winners) - a * (a + 1) // 2 + c - a - 1
        walk, work = at(voters[k, 0], w), at(voters[k, 1], s)
        f, beta = work.now[0].b, walk.examples.beta
        for j in range(walk.n):
            is_support = beta[j] != 0.0  # without a branch, which would be predicted badly
            f += beta[j] * values[int(work.numbers[0, j]) if is_support else 0] if is_support else 0.0
        winners[a, c] = a if f < 0.0 else c
    return int(winners[a, c])


@compiled
def start(w: Walk, s: Work) -> None:
    """Start the walk once its motion is set: measure the scales of motion and problem, and reset the counts."""
    now, at = s.now[0], w.at[0]
    if now.is_measured == 1:
        units = units_of_motion(w.examples, w.motion.v, w.n, now.kink, now.level, now.diagonal)
    else:
        units = units_of(w.examples, w.motion.v, w.n, now.total)
        now.kink, now.level, now.diagonal = units.kink, units.level, units.diagonal
    begin(w, units, now.total, now.precision)
    at.asking, at.allowance, at.whole, at.alone = 1, now.allowance, now.whole, now.precision < 1.0
    if w.factor.size[1] == 0:
        at.kappa = now.mean_diagonal
    now.top_speed, now.moved, now.stage = units.top_speed, 0, Stage.WALKING


@compiled
def land(w: Walk, s: Work) -> bool:
    """Move each beta near an end of its box to this end; return whether a free beta moved by more than rounding."""
    now = s.now[0]
    moved = put_on_ends(w, now.level, now.top_speed, now.dust)
    now.moved = moved
    return moved


@compiled
def judge(w: Walk, s: Work) -> int:
    """Recompute each f that decides about optimality (rule 8), and judge the state; return DONE if it is accepted."""
    now, at, e, n_free = s.now[0], w.at[0], w.examples, w.factor.size[1]
    is_fresh = at.fresh == 1 or now.since + at.events < now.trusted
    is_fresh = is_fresh and now.moved == 0 and now.stage == Stage.WALKING
    drift = compute_all(w, s.moving[SLOTS]) if n_free == 0 else at.drift if is_fresh else compute_free(w)
    if not drift >= 0.0:
        return Exit.UNJUDGED.value
    if n_free == 0:
        now.drift, now.heaviest, now.since = 0.0, 0.0, -at.events
    drift = max(drift, rounding_left(w, now.kink))
    band = uncertain_band(now.drift, drift, now.kink)
    now.drift += drift
    audit = audit_of(e, w.n, at.b, band, 0.0, now.total, w.intercept, now.count, n_free)
    if audit.n_close > 0:
        if not refresh_close(w, s.moving[SLOTS], band, now.drift) and n_free > 0:
            now.close = band
            return Exit.UNJUDGED.value
        audit = audit_of(e, w.n, at.b, -1.0, 0.0, now.total, w.intercept, now.count, n_free)
    due = is_due(now.since + at.events, now.events + at.events, now.heaviest, audit.mass)
    good = audit.is_sharp and is_optimal(audit, _GOAL, 1.0)
    if due or not good or now.stage != Stage.WALKING:
        return Exit.INEXACT.value
    now.b, now.kappa, now.walked, now.exchanges, now.work = at.b, at.kappa, at.events, at.exchanges, at.work
    now.heaviest = max(now.heaviest, audit.mass)
    now.violation = audit.violation
    now.relative_gap = audit.gap / audit.unit if audit.gap > 0.0 else 0.0
    return Exit.DONE.value
