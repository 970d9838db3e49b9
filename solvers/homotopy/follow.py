"""``follow`` moves a model along an exact path, from the losses that it is optimal for to its new losses.

The state may violate optimality in three ways: a bound ``beta`` differs from the level of its piece, the ``f`` of a
free example from its kink, or either is beyond a limit. ``solve.solve`` turns each violation into a motion that removes
it by the end of the path, follows the path, and judges the state there. Rounding and the ratio test leave small
violations, which another round removes (rule 7).
"""

from __future__ import annotations

import math

from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy.optimality import audited
from livesvm.solvers.homotopy.refresh import Checkpoint, refactor, refresh, restore, settle_at_nothing, take_checkpoint
from livesvm.solvers.homotopy.run import NO_EXAMPLES, Solve, Trace
from livesvm.solvers.homotopy.tolerances import SETTINGS, is_due
from livesvm.solvers.problem.state import PathState


def follow(
    state: PathState, trace: Trace | None = None, allowance: float = math.inf, solving: Solve | None = None
) -> Trace:
    """Move ``state`` to the optimum of its present losses; ``solving`` may first make an edit.

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
    solving = solving or Solve(state)
    best: tuple[float, Checkpoint] | None = None
    fruitless, audit = 0, None
    for round_ in range(SETTINGS.max_rounds):
        is_done, arrived, audit = solving.round(trace, 0.01**round_, allowance - trace.work)
        if is_done or audit is None:
            return trace
        fresh = not is_due(state.events_since_refresh, trace.events, state.heaviest, audit.mass)
        state.heaviest = max(state.heaviest, audit.mass)
        if arrived and fresh and audit.optimal(SETTINGS.goal):
            return trace
        if arrived and fresh and round_ == 0 and not audit.good(SETTINGS.coarse):
            continue  # an example is beyond a limit: that needs another walk, not another f
        settle_at_nothing(state)
        refresh(state)
        trace.refreshed += 1
        audit = trace.noted(audited(state))
        if arrived and audit.optimal(SETTINGS.goal):
            return trace
        if arrived and audit.optimal(SETTINGS.acceptable, SETTINGS.roundings):
            # Where a further round does not halve the gap, only rounding is left.
            if best is not None and audit.gap > best[0] / 2:
                fruitless += 1
                if audit.optimal(SETTINGS.acceptable) or fruitless > 2:
                    break  # rounding allows no more
            if best is None or audit.gap < best[0]:
                best = audit.gap, take_checkpoint(state, NO_EXAMPLES)
        if round_ >= 1:
            # Errors of the factor may be why the rounds so far were not enough.
            refactor(state)
            trace.refactored += 1
    assert audit is not None
    if best is None:
        raise NotOptimal(f"the path ended with a relative gap of {audit.relative_gap:.1e} after {trace.events} events")
    if audit.gap > best[0]:
        restore(state, best[1])
        trace.noted(audited(state))
    return trace
