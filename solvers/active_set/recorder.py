"""The record of a path, segment by segment, and the cutoffs at which it stops.

The log consists of *segments* and *changes*. A segment lies between two events, and on it b and the betas of the free
examples are linear in tau. A change moves one example from a piece or kink of its loss to another, at one tau. The
betas of bound examples follow from their pieces.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.problem.state import is_free
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.scalars import One, Scalars
from livesvm.solvers.runtime.types import Bools, Floats, Ints

# Columns of the arrays of a log: of segments, of the betas in them, and of changes
START_TAU, START_B, END_TAU, END_B = range(4)
POOL_BEFORE, CHANGES_BEFORE = range(2)
START, END = range(2)
SLOT, BEFORE, AFTER = range(3)

CLIPPED = 2  #: value of ``started`` set by a caller whose limits already stop at the cutoffs


class Used(Scalars):
    """Counts of the used entries in each part of a log."""

    segments: int
    pool: int
    changes: int


@by_reference
class Log(NamedTuple):
    """Segments and changes of a path, in arrays with space for more entries, and the numbers of used entries."""

    ends: Floats  #: (segments, 4) where each segment starts and ends; columns named above
    before: Ints  #: (segments, 2) entries of the pool, and changes, before each; named above
    idle: Bools  #: (segments,) no example is free except at an end of its box: b is one of many
    slot: NDArray[np.int32]  #: (pool,) the free examples
    beta: Floats  #: (pool, 2) at the start and at the end of the segment
    change_tau: Floats  #: (changes,)
    change: Ints  #: (changes, 3) slot, place on the staircase before and after (``segment`` of ``problem.state``)
    used: One[Used]
    seen: Ints  #: (slots,) every example's place as it was last noted


def empty_log(slots: int, segments: int, pool: int) -> Log:
    """Return a log with space for ``segments`` segments, and for ``pool`` betas of free examples in all of them."""
    changes = 2 * segments + slots
    return Log(
        ends=np.empty((segments, 4)),
        before=np.empty((segments, 2), np.int64),
        idle=np.empty(segments, np.bool_),
        slot=np.empty(pool, np.int32),
        beta=np.empty((pool, 2)),
        change_tau=np.empty(changes),
        change=np.empty((changes, 3), np.int64),
        used=Used.of(),
        seen=np.empty(slots, np.int64),
    )


@by_reference
class Cutoffs(NamedTuple):
    """Limits of each f at which a walk stops."""

    low: Floats  #: (slots,)
    high: Floats  #: (slots,)
    slack: float  #: an example beyond a cutoff by at most this rests at it


@compiled
def record_places(w: Walk, log: Log) -> None:
    """Store the segment of every example at the start of a walk."""
    for j in range(w.n):
        log.seen[j] = w.examples.segment[j]


@compiled
def is_full(w: Walk, log: Log) -> bool:
    """Say whether the log may lack space for another segment with a change of every example."""
    used = log.used[0]
    full: bool = used.changes + w.n > log.change_tau.size or used.segments >= log.idle.size
    return full or used.pool + w.factor.size[1] + 1 > log.slot.size


@compiled
def clip_to_bound(w: Walk, cutoffs: Cutoffs, j: int) -> None:
    """Clip the limits of a bound example to its cutoffs."""
    motion, f = w.motion, w.examples.f[j]
    if is_free(w.examples.segment[j]):
        return
    high, low = cutoffs.high[j] + cutoffs.slack, cutoffs.low[j] - cutoffs.slack
    if high < motion.high[j]:
        motion.high[j], motion.dhigh[j] = max(high, f), 0.0
    if low > motion.low[j]:
        motion.low[j], motion.dlow[j] = min(low, f), 0.0


@compiled
def clip_to_bounds(w: Walk, cutoffs: Cutoffs) -> None:
    """Clip the limits of all bound examples to their cutoffs."""
    for j in range(w.n):
        clip_to_bound(w, cutoffs, j)


@compiled
def is_at_cutoff(w: Walk, cutoffs: Cutoffs, switching: int, side: int) -> bool:
    """Say whether the limit on ``side`` that example ``switching`` reaches is its cutoff, and not a kink."""
    if switching < 0 or is_free(w.examples.segment[switching]):
        return False
    cutoff: bool = (
        cutoffs.high[switching] < w.motion.high[switching]
        if side > 0
        else cutoffs.low[switching] > w.motion.low[switching]
    )
    return cutoff


@compiled
def distance_to_cutoff(w: Walk, cutoffs: Cutoffs, switching: int, side: int) -> float:
    """Return the distance of an example's f from its cutoff on ``side``; 0 if f is just beyond it."""
    way: float = (
        cutoffs.high[switching] - w.examples.f[switching]
        if side > 0
        else w.examples.f[switching] - cutoffs.low[switching]
    )
    return max(way, 0.0)


@compiled
def jump_stops(w: Walk, cutoffs: Cutoffs) -> bool:
    """Return whether a jump of b has reached a cutoff; if it went beyond the cutoff, move b back to it."""
    e, switching, side = w.examples, w.at[0].switching, w.at[0].side
    if not is_at_cutoff(w, cutoffs, switching, side):
        return False
    over = e.f[switching] - (cutoffs.high[switching] if side > 0 else cutoffs.low[switching])
    for j in range(w.n):
        e.f[j] -= over
    w.at[0].b -= over
    return True


@compiled
def update_bounds(w: Walk, cutoffs: Cutoffs, switching: int, exchanges: int) -> None:
    """Clip the limits of ``switching`` to its cutoffs after its event; if there were exchanges, clip all limits."""
    if w.at[0].exchanges > exchanges:
        clip_to_bounds(w, cutoffs)
    elif switching >= 0 and w.at[0].switching < 0:
        clip_to_bound(w, cutoffs, switching)


@compiled
def record_breakpoint(w: Walk, log: Log, switching: int, exchanges: int) -> None:
    """Record the event of example ``switching``; if there were exchanges, record the changes of other examples too."""
    if switching >= 0 and w.at[0].switching < 0:
        for j in range(w.n if w.at[0].exchanges > exchanges else 0):
            if j != switching:
                record_change(w, log, j)
        record_change(w, log, switching)


@compiled
def record_change(w: Walk, log: Log, slot: int) -> None:
    """Record the change of an example's segment, if it has changed."""
    before, after = log.seen[slot], w.examples.segment[slot]
    if before != after:
        i = log.used[0].changes
        log.change_tau[i] = w.at[0].tau
        log.change[i, SLOT], log.change[i, BEFORE], log.change[i, AFTER] = slot, before, after
        log.seen[slot] = after
        log.used[0].changes = i + 1


@compiled
def note_start(w: Walk, log: Log, step: float) -> None:
    """Record the start of a segment: tau, b and the free betas, and the free betas after ``step``."""
    s, end = log.used[0].segments, log.used[0].pool
    log.ends[s, START_TAU], log.ends[s, START_B] = w.at[0].tau, w.at[0].b
    log.before[s, POOL_BEFORE], log.before[s, CHANGES_BEFORE] = end, log.used[0].changes
    log.idle[s] = is_idle(w, step)
    for k in range(w.factor.size[0]):
        slot = w.factor.slot[k]
        if slot >= 0:
            beta = w.examples.beta[slot]
            log.slot[end], log.beta[end, START], log.beta[end, END] = slot, beta, beta + step * w.motion.dbeta[slot]
            end += 1
    log.used[0].pool = end


@compiled
def note_end(w: Walk, log: Log) -> None:
    """Record tau and b at the end of a segment."""
    s = log.used[0].segments
    log.ends[s, END_TAU], log.ends[s, END_B] = w.at[0].tau, w.at[0].b
    log.used[0].segments = s + 1


@compiled
def is_idle(w: Walk, step: float) -> bool:
    """Say whether every free example stays at one end of its box for a step."""
    motion, tol = w.motion, w.tol[0].beta
    for k in range(w.factor.size[0]):
        slot = w.factor.slot[k]
        if slot >= 0:
            beta, rate = w.examples.beta[slot], motion.dbeta[slot]
            stays_high = motion.high[slot] - beta <= tol and abs(motion.dhigh[slot] - rate) * step <= tol
            stays_low = beta - motion.low[slot] <= tol and abs(motion.dlow[slot] - rate) * step <= tol
            if not (stays_high or stays_low):
                return False
    return True
