"""``follow``: move a model, exactly, from the losses it is optimal for to the losses it has been given.

The state may be off its losses in three ways: a bound ``beta`` is not at the level of its piece, a free ``f`` is not at its
kink, or either is beyond a limit. Each is turned into a linear motion that ends in the right place when the path does, and
the compiled loop walks. What rounding and the ratio test leave over is again a state that is slightly off, so another
round is the corrector (rule 7 of the path engine's design).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers import walk as loop
from solvers.compile import compiled
from solvers.errors import Cancelled, MemoryLimit, NotOptimal, NotPositiveSemidefinite
from solvers.state import Examples, Motion, PathState

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Settings:
    """Every number the engine decides by; scaled by the problem's own units where it is used."""

    ratio_f: float = 1e-11  #: relaxation of kinks in the ratio test, of the largest kink
    ratio_beta: float = 1e-12  #: relaxation of boxes, of the largest level
    dust: float = 1e-13  #: a free beta this close to an end of its box is at that end, of the largest level
    dependent: float = 1e-13  #: squared pivots below this, of the diagonal, mean dependence
    goal: float = 1e-11  #: relative gap that asks for no more correction
    acceptable: float = 1e-8  #: relative gap beyond which a state is not called optimal
    perturbation: float = 1e-8  #: how far ties are spread when the loop stalls
    max_rounds: int = 12
    refresh_events: int = 2000  #: f is computed afresh from beta at least this often
    block: int = 256  #: kernel rows computed at once


DEFAULT = Settings()


@dataclass
class Trace:
    """What a walk did."""

    events: int = 0
    rounds: int = 0
    exchanges: int = 0
    jumps: int = 0
    stalls: int = 0
    refined: int = 0
    refreshed: int = 0
    refactored: int = 0
    max_violation: float = 0.0  #: in units of f, at the end
    relative_gap: float = 0.0  #: at the end

    def __add__(self, later: Trace) -> Trace:
        """Return the sum of two walks; the violation is that of the later one."""
        counts = {f.name: getattr(self, f.name) + getattr(later, f.name) for f in fields(self)}
        return Trace(**{**counts, "max_violation": later.max_violation, "relative_gap": later.relative_gap})


def follow(state: PathState, trace: Trace | None = None, settings: Settings = DEFAULT) -> Trace:
    """Move ``state`` to the optimum of the losses it has.

    Raises
    ------
    NotOptimal : the end could not be reached to the acceptable violation; the state is then not to be used
    NotPositiveSemidefinite : a free block turned out to have a negative eigenvalue
    MemoryLimit : the kernel rows of the free examples do not fit into the cache
    """
    trace = trace or Trace()
    if state.n == 0:
        state.b = 0.0
        trace.max_violation = trace.relative_gap = 0.0
        return trace
    motion = _new_motion(state.capacity)
    best = np.inf
    audit = audited(state)
    for round_ in range(settings.max_rounds):
        arrived = _round(state, motion, trace, settings, 0.01**round_)
        refresh_free(state)
        audit = audited(state)
        trace.max_violation, trace.relative_gap = audit.violation, audit.relative_gap
        if arrived and audit.good(settings.goal) and state.events_since_refresh <= settings.refresh_events:
            return trace
        refresh(state)
        trace.refreshed += 1
        audit = audited(state)
        trace.max_violation, trace.relative_gap = audit.violation, audit.relative_gap
        stuck = round_ >= 2 and audit.gap > best / 2
        if arrived and (audit.good(settings.goal) or (stuck and audit.good(settings.acceptable))):
            return trace
        best = min(best, audit.gap)
        if round_ >= 1:
            refactor(state)
            trace.refactored += 1
    if not audit.good(settings.acceptable):
        raise NotOptimal(f"the path ended with a relative gap of {audit.relative_gap:.1e} after {trace.events} events")
    return trace


def _new_motion(c: int) -> Motion:
    return Motion(*(np.zeros(c) for _ in Motion._fields))


class Audit(NamedTuple):
    """How good the state is by the f it tracks."""

    violation: float  #: in units of f
    gap: float  #: in units of the objective
    size: float  #: the larger of primal and dual
    resolution: float  #: what rounding makes of the sum of losses; a gap below it counts as none
    kink_scale: float  #: largest kink
    level_scale: float  #: largest level

    @property
    def relative_gap(self) -> float:
        return self.gap / max(self.size, self.resolution) if self.gap > 0 else 0.0

    def good(self, goal: float) -> bool:
        """Say whether the gap is as small as asked for, or as rounding allows."""
        return self.gap <= max(goal * self.size, self.resolution)


def audited(state: PathState) -> Audit:
    """Return the violation and the duality gap of the state, judged by its own f."""
    e, n = state.examples, state.n_slots
    off_f, off_beta, kink_scale, level_scale, gap, primal = _audit(e, n, state.b)
    off_sum = abs(float(e.beta[:n].sum()) - state.total) if state.intercept else 0.0
    primal += state.total * state.b
    gap += max(abs(state.b), kink_scale) * off_sum
    resolution = 4 * EPS * n * level_scale * kink_scale
    relative_beta = max(off_beta, off_sum / max(1, state.n)) / max(level_scale, 1e-300)
    violation = max(off_f, relative_beta * max(kink_scale, 1.0))
    return Audit(violation, gap, max(abs(primal), abs(primal - gap)), resolution, kink_scale, level_scale)


@compiled
def _audit(e: Examples, n: int, b: float) -> tuple[float, float, float, float, float, float]:
    off_f = 0.0
    off_beta = 0.0
    kink_scale = 0.0
    level_scale = 0.0
    gap = 0.0
    primal = 0.0
    for j in range(n):
        q = e.seg[j] // 2
        p = e.n_kinks[j]
        f, beta = e.f[j], e.beta[j]
        primal += 0.5 * beta * (f - b)
        level_scale = max(level_scale, abs(e.levels[j, 0]), abs(e.levels[j, p]))
        if p > 0:
            primal -= e.levels[j, 0] * (f - e.kinks[j, 0])
            for k in range(p):
                kink_scale = max(kink_scale, abs(e.kinks[j, k]))
                primal += (e.levels[j, k] - e.levels[j, k + 1]) * max(0.0, f - e.kinks[j, k])
        else:
            primal -= e.levels[j, 0] * f
        if e.seg[j] & 1:
            off = f - e.kinks[j, q]
            off_f = max(off_f, abs(off))
            outside = max(beta - e.levels[j, q], e.levels[j, q + 1] - beta, 0.0)
            gap += off * (beta - e.levels[j, q + 1]) if off > 0.0 else -off * (e.levels[j, q] - beta)
        else:
            outside = abs(beta - e.levels[j, q])
            if q > 0 and f < e.kinks[j, q - 1]:
                off_f = max(off_f, e.kinks[j, q - 1] - f)
                gap += (e.kinks[j, q - 1] - f) * (e.levels[j, q - 1] - e.levels[j, q])
            if q < p and f > e.kinks[j, q]:
                off_f = max(off_f, f - e.kinks[j, q])
                gap += (f - e.kinks[j, q]) * (e.levels[j, q] - e.levels[j, q + 1])
        off_beta = max(off_beta, outside)
        gap += outside * abs(f)
    return off_f, off_beta, kink_scale, level_scale, gap, primal


# -- one round ---------------------------------------------------------------------------------------------------------


def _round(state: PathState, motion: Motion, trace: Trace, settings: Settings, precision: float) -> bool:
    """Set everything that is off in motion towards its place, and walk; says whether the end was reached.

    ``precision`` scales the relaxation of the ratio test: a corrector must not relax by what it is to correct.
    """
    e, n = state.examples, state.n_slots
    _set_motion(e, motion, n)
    moving = np.flatnonzero(motion.v[:n])
    motion.drive[:n] = combine(state, moving, motion.v[moving], settings)
    off = state.total - float(e.beta[:n].sum()) if state.intercept else 0.0
    clock = np.array([state.b, 1.0, float(motion.v[:n].sum()), off, 0.0])
    counters = np.zeros(9, np.int64)
    counters[loop.WHO] = -1
    counters[loop.BUDGET] = 50 * n + 10_000
    audit = audited(state)
    kink_scale, level_scale = audit.kink_scale, audit.level_scale
    kmax = float(e.diagonal[:n].max())
    noise = 8 * EPS * float(np.abs(motion.v[:n]).sum()) * kmax
    tol = loop.Tolerances(
        f=max(precision * settings.ratio_f * kink_scale, noise),
        beta=max(precision * settings.ratio_beta, 1e-18) * level_scale,
        dependent=settings.dependent,
        balance=1e-12 * max(level_scale, float(np.abs(motion.v[:n]).max())),
        zero_step=1e-14,
        stall=2 * state.n_free + 200,
    )
    need_rows(state, state.free_slots(), settings)
    _prepare_factor(state, motion, clock, counters, tol)
    rng = np.random.default_rng(trace.rounds)
    strength = settings.perturbation
    while True:
        w = _bind(state, motion, clock, counters, tol)
        exit_ = loop.walk(w)
        if exit_ == loop.NEED_ROW:
            need_rows(state, np.append(state.free_slots(), counters[loop.WHO]), settings)
        elif exit_ == loop.NEED_ROOM:
            state.make_room_for_free()
        elif exit_ == loop.STALLED and clock[loop.RHO] > 1e-9 and strength < 1e-4:
            trace.stalls += 1
            loop.perturb(w, rng.random((n, 2)), strength * kink_scale, strength * level_scale)
            strength *= 3
        else:
            break
    trace.rounds += 1
    trace.events += int(counters[loop.EVENTS])
    trace.exchanges += int(counters[loop.EXCHANGES])
    trace.jumps += int(counters[loop.JUMPS])
    trace.refined += int(counters[loop.REFINED])
    state.events_since_refresh += int(counters[loop.EVENTS])
    state.b = float(clock[loop.B])
    if exit_ == loop.INDEFINITE:
        raise NotPositiveSemidefinite("the kernel matrix of the window has a negative eigenvalue", field="kernel")
    if exit_ == loop.CANCELLED:
        raise Cancelled("cancelled while following the path")
    if exit_ == loop.UNBALANCED:
        raise NotOptimal("the examples that are left cannot balance the sum of the coefficients")
    _settle(e, n, 1e-13 * level_scale)
    rounding = 4 * EPS * level_scale
    moved = loop.leave_ends(w, settings.dust * level_scale if trace.rounds <= 2 else rounding, rounding)
    if state.n_free == 0:
        refresh(state)
        if state.intercept:
            state.b += loop.center(w)
    return exit_ == loop.DONE and not moved


def _bind(state: PathState, motion: Motion, clock: Floats, counters: Ints, tol: loop.Tolerances) -> loop.Walk:
    return loop.Walk(
        state.n_slots,
        state.intercept,
        state.kappa,
        state.examples,
        motion,
        state.factor,
        state.rows.values,
        state.rows.row_of,
        clock,
        counters,
        tol,
    )


def _prepare_factor(state: PathState, motion: Motion, clock: Floats, counters: Ints, tol: loop.Tolerances) -> None:
    state.make_room_for_free()
    if state.n_free == 0:
        state.kappa = mean_diagonal(state)
    w = _bind(state, motion, clock, counters, tol)
    loop.start(w)


def mean_diagonal(state: PathState) -> float:
    """Return the mean of the kernel's diagonal, or 1 where that is zero: the weight of 1 1' in the factor."""
    mean = float(state.examples.diagonal[: state.n_slots].mean())
    return mean if mean > 0 else 1.0


@compiled
def _set_motion(e: Examples, motion: Motion, n: int) -> None:
    for j in range(n):
        q = e.seg[j] // 2
        p = e.n_kinks[j]
        e.dkinks[j, :] = 0.0
        e.dlevels[j, :] = 0.0
        motion.v[j] = 0.0
        motion.dbeta[j] = 0.0
        beta, f = e.beta[j], e.f[j]
        if e.seg[j] & 1:
            e.dlevels[j, q] = min(0.0, e.levels[j, q] - beta)
            e.dlevels[j, q + 1] = max(0.0, e.levels[j, q + 1] - beta)
            continue
        for k in range(p):
            if (k >= q and f > e.kinks[j, k]) or (k < q and f < e.kinks[j, k]):
                e.dkinks[j, k] = e.kinks[j, k] - f
        gap = e.levels[j, q] - beta
        motion.v[j] = gap
        if gap == 0.0 or p == 0:
            continue
        below = q == p or beta >= e.levels[j, q + 1]
        above = q == 0 or beta <= e.levels[j, q - 1]
        in_upper_box = q == p or (below and beta <= e.levels[j, q])
        in_lower_box = q == 0 or (above and beta >= e.levels[j, q])
        if in_upper_box and in_lower_box:
            continue  # a pin: its box stands, and it moves straight to its level [Karasuyama & Takeuchi, eq. 4]
        if below and above:
            e.dlevels[j, q] = gap
        else:
            for k in range(p + 1):
                e.dlevels[j, k] = e.levels[j, k] - beta


@compiled
def _settle(e: Examples, n: int, tol: float) -> None:
    """Put bound betas on their levels where only rounding keeps them off."""
    for j in range(n):
        if e.seg[j] & 1 == 0:
            level = e.levels[j, e.seg[j] // 2]
            if abs(e.beta[j] - level) <= tol:
                e.beta[j] = level


# -- kernel rows -------------------------------------------------------------------------------------------------------


def need_rows(state: PathState, slots: Ints, settings: Settings = DEFAULT) -> None:
    """See to it that the kernel rows of ``slots`` are cached.

    Raises
    ------
    MemoryLimit : when they do not fit together
    """
    missing = state.rows.missing(slots)
    if slots.size > state.rows.max_rows:
        raise MemoryLimit(
            f"{slots.size} kernel rows of {8 * state.capacity} bytes are needed at once; "
            f"the cache may take {state.rows.limit / 2**20:.0f} MiB"
        )
    for start in range(0, missing.size, settings.block):
        part = missing[start : start + settings.block]
        state.rows.store(part, state.kernel_rows(part), slots)


def combine(state: PathState, slots: Ints, coefficients: Floats, settings: Settings = DEFAULT) -> Floats:
    """Return ``sum_j c_j k(x_j, .)`` over every slot in use, (n_slots,), from cached rows where there are any."""
    n = state.n_slots
    total = np.zeros(n)
    if slots.size == 0:
        return total
    missing = state.rows.missing(slots)
    _add_cached(total, state.rows.values, state.rows.row_of, slots, coefficients)
    if missing.size:
        by_slot = np.zeros(n)
        by_slot[slots] = coefficients
        keep = state.free_slots()
        for start in range(0, missing.size, settings.block):
            part = missing[start : start + settings.block]
            block = state.kernel_rows(part)
            total += by_slot[part] @ block
            if missing.size <= settings.block:
                state.rows.store_what_fits(part, block, keep)
    return total


@compiled
def _add_cached(total: Floats, rows: Floats, row_of: Ints, slots: Ints, coefficients: Floats) -> None:
    for i in range(slots.size):
        if row_of[slots[i]] >= 0:
            row = rows[row_of[slots[i]], : total.size]
            c = coefficients[i]
            for j in range(total.size):
                total[j] += c * row[j]


def refresh(state: PathState) -> None:
    """Compute f from beta, so that no error of the past is left in it (rule 8)."""
    n = state.n_slots
    support = np.flatnonzero(state.examples.beta[:n])
    state.examples.f[:n] = combine(state, support, state.examples.beta[support]) + state.b
    state.events_since_refresh = 0


def refresh_free(state: PathState) -> None:
    """Compute the f of the free examples from beta, by their cached rows."""
    free = state.free_slots()
    _fresh(
        state.examples.f,
        state.examples.beta[: state.n_slots],
        state.rows.values,
        state.rows.row_of,
        free,
        state.b,
    )


@compiled
def _fresh(f: Floats, beta: Floats, rows: Floats, row_of: Ints, slots: Ints, b: float) -> None:
    for slot in slots:
        row = rows[row_of[slot], : beta.size]
        total = 0.0
        for j in range(beta.size):
            total += row[j] * beta[j]
        f[slot] = total + b


def refactor(state: PathState, free: Ints | None = None) -> None:
    """Build the factor of the free block afresh from kernel rows; ``free`` says whose, by default who is in it."""
    free = state.free_slots().copy() if free is None else free
    need_rows(state, free)
    state.make_room_for_free(free.size)
    kappa = state.kappa if state.intercept else 0.0
    loop.rebuild(state.factor, state.rows.values, state.rows.row_of, free, state.examples.diagonal, kappa)
