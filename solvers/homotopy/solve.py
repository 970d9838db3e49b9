"""``follow``: move a model, exactly, from the losses it is optimal for to the losses it has been given.

The state may be off its losses in three ways: a bound ``beta`` is not at the level of its piece, a free ``f`` is not
at its kink, or either is beyond a limit. Each is turned into a linear motion that ends in the right place when the
path does, and the compiled loop walks. What rounding and the ratio test leave over is again a state that is slightly
off, so another round is the corrector (rule 7 of the path engine's design).
"""

from __future__ import annotations

import math

from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy.optimality import audited
from livesvm.solvers.homotopy.recompute import Standing, refactor, refresh, restore, settle_at_nothing, stand
from livesvm.solvers.homotopy.run import NOBODY, SETTINGS, Trace, walk_once
from livesvm.solvers.problem.state import PathState


def follow(state: PathState, trace: Trace | None = None, allowance: float = math.inf) -> Trace:
    """Move ``state`` to the optimum of the losses it has.

    Raises
    ------
    TooCostly : the path takes more than ``allowance`` products, see ``Trace.work``; the state is then not to be used
    NotOptimal : the end could not be reached to the acceptable violation; the state is then not to be used
    NotPositiveSemidefinite : a free block turned out to have a negative eigenvalue
    MemoryLimit : the kernel rows of the free examples do not fit into the cache
    """
    trace = trace or Trace()
    if state.n == 0:
        state.b = 0.0
        trace.max_violation = trace.relative_gap = 0.0
        return trace
    motion = state.motion
    best: tuple[float, Standing] | None = None
    fruitless = 0
    for round_ in range(SETTINGS.max_rounds):
        arrived, audit = walk_once(state, motion, trace, 0.01**round_, allowance - trace.work)
        fresh = not _is_due(state, trace, audit.mass)
        state.heaviest = max(state.heaviest, audit.mass)
        if arrived and fresh and audit.balanced and audit.good(SETTINGS.goal):
            return trace
        if arrived and fresh and round_ == 0 and not audit.good(SETTINGS.coarse):
            continue  # somebody is beyond a limit: that needs another walk, not another f
        settle_at_nothing(state)
        refresh(state)
        trace.refreshed += 1
        audit = trace.noted(audited(state))
        if arrived and audit.balanced and audit.good(SETTINGS.goal):
            return trace
        if arrived and audit.good(SETTINGS.acceptable, SETTINGS.roundings):
            if best is not None and audit.gap > best[0] / 2:
                fruitless += 1
                if audit.good(SETTINGS.acceptable) or fruitless > 2:
                    break  # rounding allows no more
            if best is None or audit.gap < best[0]:
                best = audit.gap, stand(state, NOBODY)
        if round_ >= 1:
            refactor(state)
            trace.refactored += 1
    if best is None:
        raise NotOptimal(f"the path ended with a relative gap of {audit.relative_gap:.1e} after {trace.events} events")
    if audit.gap > best[0]:
        restore(state, best[1])
        trace.noted(audited(state))
    return trace


def _is_due(state: PathState, trace: Trace, mass: float) -> bool:
    """Say whether to compute everyone's f afresh: after so many events, or at the end of a long walk of half as many.

    The walk that fills a large window takes longer than that; a short one that comes after it does not. And where the
    betas have become much smaller, as when C has, for then the rounding errors of the past are not small any more.
    """
    since = state.events_since_refresh
    is_long = since > SETTINGS.refresh_events or since >= trace.events > SETTINGS.refresh_events // 2
    return is_long or state.heaviest > SETTINGS.lighter * mass
