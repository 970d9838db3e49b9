"""The workspace of the compiled loop: state, motion and limits of all examples, and the progress of the loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.linalg.cholesky import Factor
from livesvm.solvers.linalg.products import add_scaled
from livesvm.solvers.problem.state import Examples, Motion, is_free
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.scalars import One, Scalars
from livesvm.solvers.runtime.types import Bools, Floats, Ints

IDLE_BREAKPOINTS = 4  #: turns allowed to a walk for each event allowed to it: it must also end without events
ITERATION_EVENTS = 80  #: events after which every example is brought up to date
SPANNED, BEYOND = 1, 2  #: see ``Status.several``


class Status(Scalars):
    """The progress of the loop along its path, and its counts."""

    # given at the start
    b: float
    tau: float  #: the rest of the path
    sum_v: float  #: of the velocities of bound examples
    sum_rate: float  #: at which the sum of the betas has to change
    sum_end: float  #: the sum of the betas at the end
    switching: int  #: the example that changes sides next; -1: none
    budget: int  #: events after which a walk is given up
    asking: int  #: 1: rows that will be needed soon are asked for
    allowance: float  #: products after which a walk is given up, as solving from nothing takes fewer
    kappa: float  #: weight of 1 1' in the factor
    # zero at the start
    db: float  #: rate of b
    pace: float  #: tau used up per event
    member_safety: float  #: factor of the reach by which the members of an outer iteration are chosen
    last: float  #: the tau at which an outer iteration ends at the latest
    drift: float  #: the error of the f of free examples when they were computed afresh at the end
    events: int
    exchanges: int
    zero_steps: int  #: in a row
    side: int
    rows: int  #: kernel rows of an outer iteration in use
    stride_end: int  #: the number of events at which an outer iteration ends
    through: int  #: examples that were let through
    passes: int
    started: int
    whole: int  #: events up to which every example walks
    direction_valid: int
    fresh: int  #: 1: the f of free examples have been computed afresh
    turns: int
    spreads: int  #: how often ties were spread
    alone: int  #: 1: each event ends a step
    several: int  #: SPANNED: a step has spanned several events; BEYOND: it took some beyond their limits
    idle: int  #: outer iterations without an event
    work: float  #: products of kernel values and of the factor, about


class Tolerances(Scalars):
    """Absolute tolerances of the loop, in the units that each comment names."""

    f: float  #: slack of a kink that the ratio test may use up, in units of f
    reentry: float  #: how far beyond a kink an example must be to be sent back on a pass of its own, in units of f
    beta: float  #: the same for the end of a box, in units of beta
    dependent: float  #: a squared pivot below this, relative to the diagonal, means dependence
    balance: float  #: an imbalance of velocities that counts as none, in units of beta
    zero_step: float  #: a step that counts as no progress, of the path's length 1
    stall: int  #: how many steps without progress in a row mean a stall


@by_reference
class Walk(NamedTuple):
    """All arrays and numbers that the compiled loop reads and writes."""

    n: int  #: slots in use
    n_seen: int  #: slots with a computed df; the other examples are free when an outer iteration starts
    intercept: bool
    examples: Examples
    motion: Motion
    factor: Factor
    rows: Floats  #: kernel rows at hand
    row_of: Ints  #: the row of a slot, -1: not at hand
    seen_rows: Floats  #: in a narrow walk, the first ``n_seen`` columns of the rows, side by side in memory
    is_whole: Bools  #: in a narrow walk, examples with a row of all columns in ``rows``
    members: Ints  #: in a narrow walk, the slot of each example in the whole; empty: all walk
    parent_rows: Floats  #: in a narrow walk, the cached rows of the whole
    parent_row_of: Ints
    scratch: Floats  #: work of the outer iterations
    at: One[Status]
    stop: Ints  #: (1,) the flag to interrupt
    tol: One[Tolerances]


Counters = tuple[One[Status], Ints, One[Tolerances]]  #: of a walk, and the flag to interrupt
NO_FLAGS, NO_MEMBERS = np.empty(0, np.bool_), np.empty(0, np.int64)


def new_counters() -> Counters:
    """Return the counters of a walk that has not begun."""
    return Status.of(), np.zeros(1, np.int64), Tolerances.of()


@compiled
def count_again(w: Walk) -> None:
    """Reset the counters of a walk."""
    at = w.at[0]
    at.events = at.exchanges = at.zero_steps = at.side = at.rows = at.stride_end = 0
    at.through = at.passes = at.started = at.whole = at.direction_valid = at.fresh = 0
    at.asking = at.several = at.turns = at.spreads = at.idle = 0
    at.db = at.pace = at.member_safety = at.last = at.drift = at.work = 0.0
    at.allowance, at.alone = np.inf, 1
    at.switching = -1


@compiled
def kink_rate(w: Walk, slot: int) -> float:
    """Return the rate at which f of a free example must move to follow its kink, or to return to the kink."""
    e = w.examples
    q = (e.segment[slot] - 1) // 2
    tau = w.at[0].tau
    off = e.kinks[slot, q] - tau * e.dkinks[slot, q] - e.f[slot]
    rate: float = e.dkinks[slot, q] + off / max(tau, 1e-3)
    return rate


@compiled
def set_limits(w: Walk, slot: int) -> None:
    """Set the limits of an example's beta (if free) or f (if bound) at the present tau."""
    e, motion = w.examples, w.motion
    tau = w.at[0].tau
    segment = e.segment[slot]
    q = segment // 2
    if is_free(segment):
        high = e.levels[slot, q] - tau * e.dlevels[slot, q]
        low = e.levels[slot, q + 1] - tau * e.dlevels[slot, q + 1]
        motion.high[slot], motion.low[slot] = max(high, e.beta[slot]), min(low, e.beta[slot])
        motion.dhigh[slot], motion.dlow[slot] = e.dlevels[slot, q], e.dlevels[slot, q + 1]
        if w.at[0].several > 0:
            motion.dhigh[slot] += (high - motion.high[slot]) / max(tau, 1e-12)
            motion.dlow[slot] += (low - motion.low[slot]) / max(tau, 1e-12)
        return
    motion.low[slot], motion.dlow[slot] = -np.inf, 0.0
    motion.high[slot], motion.dhigh[slot] = np.inf, 0.0
    if q > 0:
        motion.low[slot] = min(e.kinks[slot, q - 1] - tau * e.dkinks[slot, q - 1], e.f[slot])
        motion.dlow[slot] = e.dkinks[slot, q - 1]
    if q < e.n_kinks[slot]:
        motion.high[slot] = max(e.kinks[slot, q] - tau * e.dkinks[slot, q], e.f[slot])
        motion.dhigh[slot] = e.dkinks[slot, q]


@compiled
def set_velocity(w: Walk, slot: int) -> float:
    """Set the velocity that takes a bound beta to its level by the end of the path; return by how much it changed."""
    e, motion = w.examples, w.motion
    gap = e.levels[slot, e.segment[slot] // 2] - e.beta[slot]
    v = 0.0
    if gap != 0.0 and w.at[0].tau > 1e-12:
        v = gap / w.at[0].tau
    change: float = v - motion.v[slot]
    motion.v[slot] = v
    w.at[0].sum_v += change
    return change


@compiled
def add_to_bound_rate(w: Walk, slot: int, change: float) -> None:
    """Add the effect of a change of a bound example's velocity to the rates of all f, from the example's kernel row."""
    add_scaled(w.rows[w.row_of[slot]], change, w.motion.bound_rate, w.n)


@compiled
def balanced(w: Walk) -> bool:
    """Say whether the sum of the bound betas moves at the rate that the sum of all betas must have."""
    return not w.intercept or abs(w.at[0].sum_rate - w.at[0].sum_v) <= w.tol[0].balance
