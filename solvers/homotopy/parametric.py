"""``track`` moves the losses of a model linearly to new ones, keeps the model optimal throughout, and records the path.

``follow`` may choose any path, because only the optimum at the end of that path counts. ``track`` moves the kinks and
levels of every example in a straight line to their final values, and at each tau the state is optimal for the losses of
that tau. Errors from rounding and from spread ties are corrected only at the end, by ``follow``, so long paths are best
split into several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from livesvm.solvers.active_set import workspace
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.loop import track_path
from livesvm.solvers.active_set.recorder import Cutoffs, Log, empty_log
from livesvm.solvers.errors import InvalidInput, NotOptimal
from livesvm.solvers.homotopy.optimality import audited, scales
from livesvm.solvers.homotopy.piecewise import Changes, Position, Segments, joined, position
from livesvm.solvers.homotopy.refresh import combine, mean_diagonal, need_rows, refresh
from livesvm.solvers.homotopy.run import Trace, follow, raise_for, tally, walk_of, walk_to_the_end
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import Motion, PathState, are_free, empty_motion
from livesvm.solvers.runtime.types import Floats, Ints

PORTION = 2000  # events between two looks at whether to go on


@dataclass(frozen=True)
class Track:
    """A recorded path of a state, from its old losses to its new ones.

    Attributes
    ----------
    relative_gap : at the end of the way, f computed from the betas, before anything was corrected: on the way it was
        not larger, but for rounding
    start : (slots in use,) places at the start of the way; the changes lead on from there
    trace : what the walk did; ``stalls`` counts how often ties had to be spread: from there to the end of the way the
        losses are off by up to 1e-8 of themselves
    """

    relative_gap: float
    start: Ints
    segments: Segments
    changes: Changes
    trace: Trace

    def at(self, tau: float, levels: Floats) -> Position:
        """Return segments, coefficients and b at ``tau``, given the ``levels`` (slots, 3) of all losses at that tau."""
        return position(self.start, self.segments, self.changes, tau, levels)


def track(
    state: PathState,
    slots: Ints,
    end: Losses,
    total: float,
    *,
    tell: Callable[[float], None] | None = None,
) -> Track:
    """Move an optimal state along the straight line from its losses to the losses ``end`` of ``slots``.

    Parameters
    ----------
    end : losses (m,) of the examples ``slots`` (m,) at the end of the way, with as many kinks as they have now; entries
        that are infinite now or then stay as they are
    total : what the betas sum up to at the end
    tell : called every few thousand events with the share of the path that is done, 0 to 1; its errors end the work

    Raises
    ------
    NotOptimal, NotPositiveSemidefinite, MemoryLimit : the state is then not to be used
    """
    if (state.examples.n_kinks[slots] != end.n_kinks).any():
        raise InvalidInput("an example cannot gain or lose kinks along a path", field="end")
    motion = _set_out(state, slots, end)
    units = scales(state, motion.v)._replace(level=_level_scale(state))
    need_rows(state, state.free_slots())
    state.make_room_for_free()
    if state.n_free == 0:
        state.kappa = mean_diagonal(state)
    trace = Trace()
    w = walk_of(state, motion, units)
    w.at[0].sum_rate += total - state.total if state.intercept else 0.0
    start = state.examples.segment[: w.n].copy()
    exit_, chunks, w = _walk(state, w, trace, tell)
    at = tally(state, w, trace)
    raise_for(exit_)
    if exit_ == Exit.EXHAUSTED or exit_ == Exit.STALLED:
        raise NotOptimal(f"the path was left after {trace.events} events, {at.tau:.2g} before its end")
    state.examples.dkinks[:] = 0.0
    state.examples.dlevels[:] = 0.0
    state.total = total
    refresh(state)
    gap = audited(state).relative_gap
    follow(state, trace)
    return Track(gap, start, *joined(chunks), trace)


def _set_out(state: PathState, slots: Ints, end: Losses) -> Motion:
    """Set the final losses of ``slots``, and return the motion from the old losses to the final ones."""
    e, n = state.examples, state.n_slots
    motion = empty_motion(state.capacity)
    e.dkinks[:] = 0.0
    e.dlevels[:] = 0.0
    for now, then, rates in ((e.kinks, end.kinks, e.dkinks), (e.levels, end.levels, e.dlevels)):
        moves = np.isfinite(now[slots]) & np.isfinite(then)
        rates[slots] = np.where(moves, then - np.where(moves, now[slots], 0.0), 0.0)
        now[slots] = np.where(moves, then, now[slots])
    bound = np.flatnonzero(~are_free(e.segment[:n]))
    motion.v[bound] = e.levels[bound, e.segment[bound] // 2] - e.beta[bound]
    moving = np.flatnonzero(motion.v[:n])
    motion.bound_rate[:n] = combine(state, moving, motion.v[moving])
    return motion


def _level_scale(state: PathState) -> float:
    """Return the largest finite level of any loss at either end of the path."""
    e, n = state.examples, state.n_slots
    ends = (e.levels[:n], e.levels[:n] - e.dlevels[:n])
    return max(float(np.abs(part[np.isfinite(part)]).max()) for part in ends)


def _walk(
    state: PathState, w: workspace.Walk, trace: Trace, tell: Callable[[float], None] | None
) -> tuple[int, list[Log], workspace.Walk]:
    """Follow the path and record it; return the last exit, the parts of the log, and the walk."""
    nowhere = Cutoffs(np.full(w.n, -np.inf), np.full(w.n, np.inf), 0.0)
    chunks = [_fresh_log(state, w)]
    w.at[0].stride_end = PORTION

    def go(w: workspace.Walk) -> int:
        return track_path(w, chunks[-1], nowhere)

    def answer(w: workspace.Walk, exit_: int) -> bool:
        """Replace a full log, or report progress and allow more events; say whether to continue the walk."""
        if exit_ == Exit.LOG_FULL:
            chunks.append(_fresh_log(state, w, chunks[-1]))
        elif exit_ == Exit.ITERATION:
            w.at[0].stride_end += PORTION
            if tell is not None:
                tell(1.0 - float(w.at[0].tau))
        return exit_ in (Exit.LOG_FULL, Exit.ITERATION)

    exit_, w = walk_to_the_end(state, w, trace, go, answer)
    return exit_, chunks, w


def _fresh_log(state: PathState, w: workspace.Walk, before: Log | None = None) -> Log:
    segments = 256 if before is None else 2048
    log = empty_log(w.n, segments, segments * (state.n_free + 16) + w.n)
    if before is not None:
        log.seen[:] = before.seen
    return log
