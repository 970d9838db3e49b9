"""The path algorithm in one compiled call: from a change of the losses to an optimum that has been judged.

[Karasuyama & Takeuchi] for many examples that come and go along one path, [Ong, Shao & Yang] for dependent ones. The
loop from event to event is ``active_set.loop.walk``. Its rules, to which comments refer by number:

1. A change is a motion. New examples start at beta = 0 and move straight to the level of the piece their f is on;
   leaving examples move straight to 0. Kinks that an example is off start at its f and move to their places.
2. A bound example that reaches a kink while its beta is outside the box there goes on to the next piece.
3. Boxes and kinks may move: each point of the path is then the optimum of the losses of that point.
4. With no example free, and betas that do not balance, b jumps until an example at a kink can take up the rest.
5. An example that depends on the free ones does not become free next to them: both move along the direction that
   changes no f until one of them is at an end of its box [Ong et al., eq. 30-34]. Nothing is added to the diagonal.
6. The ratio test has two passes, with limits relaxed by their tolerances in the first [Harris]. Where it stalls all
   the same, ties are spread by random amounts that vanish at the end of the path.
7. Rounding and the ratio test leave a state slightly off its losses: the next round corrects it.
8. Each f is updated along the way, and computed afresh where it decides: at the end of a path for free examples and
   for bound ones near a kink, and for all examples now and then.
9. With many free examples, none of them a copy, a step spans several events. Examples that it takes beyond a limit
   change sides at once, and return to their kinks or the ends of their boxes on the rest of the path.
"""

from __future__ import annotations

from enum import IntEnum

from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.shrinking import follow_path
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.homotopy.edit import Batch, Progress, Work, close_edit, keep_places, make_edit, open_pair
from livesvm.solvers.homotopy.finalize import compute_all, compute_free, put_on_ends, refresh_close, rounding_left
from livesvm.solvers.homotopy.motion import SLOTS, set_bound_rate, set_motion
from livesvm.solvers.homotopy.optimality import audit_of, is_optimal, units_of, units_of_motion
from livesvm.solvers.homotopy.refresh import uncertain_band
from livesvm.solvers.homotopy.tolerances import SETTINGS, begin, is_due
from livesvm.solvers.runtime.by_reference import at
from livesvm.solvers.runtime.compile import compiled, compiled_once
from livesvm.solvers.runtime.scalars import One
from livesvm.solvers.runtime.types import Ints

_GOAL = SETTINGS.goal
TRUSTED = 256  #: events up to which thousands of small problems use tracked f for decisions


class Stage(IntEnum):
    """The stage from which a solve continues once its request has been met."""

    OF_PAIR = 0  #: examples come and leave by number
    EDIT = 1
    SET_OUT = 2
    DRIVEN = 3  #: the effect of the moving betas on f is known
    WALKING = 4
    CUT_OFF = 5  #: the walk was given up before its end


@compiled_once
def solve(w: Walk, s: Work, batch: Batch) -> int:
    """Make the edit, set examples that are off in motion, walk, and judge the state reached; return an ``Exit``.

    DONE: at the optimum. INEXACT: at the end of the path, or of the part that was walked, and not good enough.
    UNJUDGED: the same, but computing the f that decide takes long, or needs rows that are not cached. NEED_ROWS: asks
    for the kernel rows of free examples and ``motion.bound_rate``. Others are those of ``follow_path``.
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
def solve_each(w: Walk, s: Work, batch: Batch, places: Ints, found: Ints, sums: One[Progress]) -> None:
    """Solve pairs of classes in memory at ``places`` (m, 2), laid out like ``w`` and ``s``, until one is cancelled.

    Fills ``found`` (m, 3) with exits and, for pairs that are done, with events and numbers of bound examples that have
    a coefficient. Fills ``sums`` with the totals of the pairs that are done.
    """
    total = sums[0]
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
def start(w: Walk, s: Work) -> None:
    """Start the walk of a motion that has been set: measure the units of motion and problem, and reset the counts."""
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
    """End a walk: put betas near an end of their box on it; say whether a free one moved beyond rounding (rule 7)."""
    now = s.now[0]
    moved = put_on_ends(w, now.level, now.top_speed, now.dust)
    now.moved = moved
    return moved


@compiled
def judge(w: Walk, s: Work) -> int:
    """Compute afresh the f that decide (rule 8), and judge the state; DONE: it is accepted."""
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
