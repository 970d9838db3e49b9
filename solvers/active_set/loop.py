"""The compiled homotopy loop: find the direction, find the step to the next event, move, and make the event.

Each pass finds the direction of the betas and b that keeps f of all free examples at their kinks, and the largest step
that keeps every example on its piece or kink. The pass takes this step; then the example that limits the step becomes
free or bound. The numbers of rules in comments are those of ``homotopy.solve``.
"""

from __future__ import annotations

from livesvm.solvers.active_set.direction import find_direction, refine_if_needed
from livesvm.solvers.active_set.exchange import change_side
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.ratio_test import advance, find_beyond, jump, longest_step, step_over_several
from livesvm.solvers.active_set.reactivation import start
from livesvm.solvers.active_set.recorder import (
    CLIPPED,
    Cutoffs,
    Log,
    clip_to_bounds,
    distance_to_cutoff,
    is_at_cutoff,
    is_full,
    jump_stops,
    note_end,
    note_start,
    record_breakpoint,
    record_places,
    update_bounds,
)
from livesvm.solvers.active_set.workspace import BEYOND, IDLE_BREAKPOINTS, Walk, balanced
from livesvm.solvers.runtime.compile import compiled, compiled_once_allocating
from livesvm.solvers.runtime.interrupt import is_stopped


@compiled
def walk(w: Walk, log: Log | None, cutoffs: Cutoffs | None) -> Exit:
    """Go from event to event until the path or outer iteration ends, or the caller must provide something; return why.

    The exit ITERATION stands for the end of an outer iteration, or for betas that do not balance while no example is
    free. With a ``log`` each segment is recorded, and the exit LOG_FULL asks the caller for an empty log. With
    ``cutoffs``, the exit STOPPED means that example ``at.switching`` has reached its cutoff. Each combination of
    ``log`` and ``cutoffs`` is compiled separately, without the code for an argument that is None.
    """
    at = w.at[0]
    while True:
        if log is not None and is_full(w, log):
            return Exit.LOG_FULL
        before, exchanges = at.switching, at.exchanges
        outcome = pass_breakpoint(w)
        if log is not None:
            record_breakpoint(w, log, before, exchanges)
        if cutoffs is not None:
            update_bounds(w, cutoffs, before, exchanges)
        if outcome != Exit.DONE:
            return outcome
        if at.several == BEYOND and find_beyond(w):
            continue
        if at.events >= at.stride_end or (w.factor.size[0] == 0 and not balanced(w)):
            return Exit.ITERATION
        step, switching, side = next_event(w)
        if log is None and cutoffs is None and step_over_several(w, step, switching):
            continue
        stops = False
        if cutoffs is not None:
            stops = is_at_cutoff(w, cutoffs, switching, side)
            if stops:
                step = min(step, distance_to_cutoff(w, cutoffs, switching, side) / abs(w.motion.df[switching]))
        moves = step > w.tol[0].zero_step
        if log is not None and moves:
            note_start(w, log, step)
        advance(w, step)
        if log is not None and moves:
            note_end(w, log)
        if switching < 0:
            return Exit.DONE if at.last == 0.0 else Exit.ITERATION
        at.switching, at.side = switching, side
        if stops:
            return Exit.STOPPED
        at.zero_steps = 0 if moves else at.zero_steps + 1


@compiled_once_allocating
def track_path(w: Walk, log: Log, cutoffs: Cutoffs) -> int:
    """Follow the path to its end on the whole window, without outer iterations, and record each segment.

    The exits are those of ``walk``; ITERATION means that the number of events in ``at.stride_end`` is reached.
    """
    at = w.at[0]
    if at.started == 0:
        record_places(w, log)
        start(w)
    if at.started != CLIPPED:
        clip_to_bounds(w, cutoffs)
    at.started = 1
    while True:
        outcome = walk(w, log, cutoffs)
        if outcome != Exit.ITERATION or at.events >= at.stride_end:
            return outcome
        if not jump(w):
            return Exit.UNBALANCED
        if jump_stops(w, cutoffs):
            return Exit.STOPPED


@compiled
def next_event(w: Walk) -> tuple[float, int, int]:
    """Find the direction; return the step, the example at the next event (-1: the path ends first), and its side."""
    find_direction(w)
    w.at[0].work += w.factor.size[0] * (w.n_seen + w.factor.size[0])
    step, switching, side = longest_step(w)
    if refine_if_needed(w, step):
        step, switching, side = longest_step(w)
    return step, switching, side


@compiled
def pass_breakpoint(w: Walk) -> Exit:
    """Make the event of example ``at.switching``, if there is one; return DONE if the walk can continue."""
    at = w.at[0]
    if at.switching >= 0:
        outcome = change_side(w, at.switching, at.side)
        if outcome != Exit.DONE:
            return outcome
        at.switching = -1
        at.events += 1
        if at.zero_steps > w.tol[0].stall:
            at.zero_steps = 0
            return Exit.STALLED
    if is_stopped(w.stop, 0):
        return Exit.CANCELLED
    at.turns += 1
    if at.work > at.allowance:
        return Exit.COSTLY
    exhausted = at.events >= at.budget or at.turns >= IDLE_BREAKPOINTS * at.budget
    return Exit.EXHAUSTED if exhausted else Exit.DONE
