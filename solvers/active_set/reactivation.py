"""The passes of a walk: the start of a pass, and a further pass for examples that crossed a limit unnoticed."""

from __future__ import annotations

from livesvm.solvers.active_set.direction import resolve
from livesvm.solvers.active_set.workspace import Walk, set_limits
from livesvm.solvers.problem.state import Examples, is_free
from livesvm.solvers.runtime.compile import compiled

LARGE = 2500  #: in larger windows an outer iteration costs much, so that its length and margins are different
EVENTS_EACH = 20  #: events expected of each moving example, before any has happened
EVENTS_EACH_OF_LARGE = 3  #: the same in a large window, where an outer iteration too many costs more than one too few
LEAST_PACE = 1e-9  #: the least part of the path that an event is assumed to use up


@compiled
def start(w: Walk) -> None:
    """Set the limits of every example and solve the factor's right-hand sides, for a motion that is already set."""
    moving = 0
    for j in range(w.n):
        set_limits(w, j)
        moving += is_moving(w, j)
    each = EVENTS_EACH if w.n <= LARGE and w.at[0].passes == 0 else EVENTS_EACH_OF_LARGE
    w.at[0].pace, w.at[0].member_safety = max(LEAST_PACE, 1.0 / (each * max(moving, 1))), 1.0
    resolve(w)


@compiled
def is_moving(w: Walk, slot: int) -> bool:
    """Say whether an example has moving limits, or is bound with a moving beta."""
    motion = w.motion
    moving: bool = motion.v[slot] != 0.0 or motion.dlow[slot] != 0.0 or motion.dhigh[slot] != 0.0
    return moving


@compiled
def another_pass(w: Walk) -> bool:
    """Start another pass, on which the kinks that were moved for examples beyond a limit move back to their places.

    The pass also corrects the rounding error of the sum of the betas. Returns whether another pass is needed. Kinks
    that were not moved, and all levels and bound betas, have reached their final values and rest on this pass.
    """
    e, motion = w.examples, w.motion
    off = w.at[0].sum_end
    for j in range(w.n):
        off -= e.beta[j]
    is_needed = w.intercept and w.factor.size[0] > 0 and abs(off) > w.tol[0].balance
    for j in range(w.n):
        q = e.segment[j] // 2
        if not is_free(e.segment[j]):
            above = q < e.n_kinks[j] and e.f[j] > e.kinks[j, q] + w.tol[0].reentry
            below = q > 0 and e.f[j] < e.kinks[j, q - 1] - w.tol[0].reentry
            is_needed = is_needed or above or below
    if not is_needed:
        return False
    w.at[0].passes += 1
    w.at[0].tau, w.at[0].sum_v, w.at[0].sum_rate = 1.0, 0.0, off if w.intercept else 0.0
    e.dkinks[: w.n] = 0.0
    e.dlevels[: w.n] = 0.0
    for j in range(w.n):
        motion.v[j] = 0.0
        motion.bound_rate[j] = 0.0
        if not is_free(e.segment[j]):
            shift_kinks(e, j, 1.0)
    start(w)
    return True


@compiled
def let_through(w: Walk, slot: int) -> None:
    """Move a kink to f if f of a bound example has passed it; the kink returns by the end of the path."""
    e = w.examples
    w.at[0].through += 1
    if w.at[0].tau > 1e-6:
        shift_kinks(e, slot, w.at[0].tau)
    set_limits(w, slot)


@compiled
def shift_kinks(e: Examples, slot: int, tau: float) -> None:
    """Move kinks to f if f of a bound example has passed them; they return by the end of the path."""
    q = e.segment[slot] // 2
    for k in range(e.n_kinks[slot]):
        now = e.kinks[slot, k] - tau * e.dkinks[slot, k]
        if (k >= q and e.f[slot] > now) or (k < q and e.f[slot] < now):
            e.dkinks[slot, k] = (e.kinks[slot, k] - e.f[slot]) / tau
