"""One walk along the path: what is off is set in motion, the compiled loop walks, what is left is settled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from livesvm.solvers.active_set import degeneracy, workspace
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.ratio_test import frequencies
from livesvm.solvers.active_set.shrinking import follow_path
from livesvm.solvers.errors import NotOptimal, NotPositiveSemidefinite, TooCostly
from livesvm.solvers.homotopy.finish import arrive
from livesvm.solvers.homotopy.optimality import EPS, Audit, Scales, scaled
from livesvm.solvers.homotopy.recompute import mean_diagonal, need_rows, refactor
from livesvm.solvers.homotopy.target import set_out
from livesvm.solvers.problem.state import Motion, PathState
from livesvm.solvers.runtime.interrupt import check, raise_what_stopped, watch
from livesvm.solvers.runtime.memory import scratch
from livesvm.solvers.runtime.scalars import One

PREFETCH = 128  # kernel rows fetched at once, of examples that will soon change sides
ZERO_STEP = 1e-14  # of the path's length 1
UNLIKELY = 0.2  # of its way to a limit: who will make no more of it in the present direction may be left out

NOBODY, NO_FLAGS = np.empty(0, np.int64), np.empty(0, np.bool_)


@dataclass(frozen=True)
class Settings:
    """Every number the engine decides by; scaled by the problem's own units where it is used."""

    ratio_f: float = 1e-11  #: relaxation of kinks in the ratio test, of the largest kink
    lap: float = 1e-10  #: how far beyond a kink is worth a lap, of the largest kink
    ratio_beta: float = 1e-12  #: relaxation of boxes, of the largest level
    dust: float = 1e-13  #: a free beta this close to an end of its box is at that end, of the largest level
    dependent: float = 2e-15  #: squared pivots below this, of the diagonal, mean dependence; more with many free
    spoiled: float = 1e-14  #: the same in a factor that rounding has spoiled; ten times more if that is not enough
    goal: float = 1e-10  #: relative gap that asks for no more correction
    coarse: float = 1e-7  #: relative gap beyond which rounding is not what is wrong
    acceptable: float = 1e-8  #: relative gap beyond which a state is not called optimal
    roundings: float = 64.0  #: or within so many roundings of each f
    perturbation: float = 1e-8  #: how far ties are spread when the loop stalls
    max_rounds: int = 12
    refresh_events: int = 20_000  #: f is computed afresh from beta at least this often
    lighter: float = 100.0  #: and where the sum of |beta| k(x, x) was so many times as large since it last was


SETTINGS = Settings()


@dataclass
class Trace:
    """What a walk did."""

    events: int = 0
    rounds: int = 0
    exchanges: int = 0
    jumps: int = 0
    stalls: int = 0
    refined: int = 0
    strides: int = 0
    through: int = 0  #: bound examples that crossed a limit within a stride unseen
    members: int = 0
    work: float = 0.0  #: products of kernel values and of the factor, about
    refreshed: int = 0
    refactored: int = 0
    retrained: int = 0  #: 1: solved from nothing instead
    abandoned: int = 0  #: 1: because a path was given up, as it failed or would have been more work
    max_violation: float = 0.0  #: in units of f, at the end
    relative_gap: float = 0.0  #: at the end

    def noted(self, audit: Audit) -> Audit:
        """Note what an audit found, and return it."""
        self.max_violation, self.relative_gap = audit.violation, audit.relative_gap
        return audit


def walk_once(
    state: PathState, motion: Motion, trace: Trace, precision: float, allowance: float = math.inf
) -> tuple[bool, Audit]:
    """Set everything that is off in motion towards its place, and walk; says whether the end was reached, and how well.

    The f that decide about that are then computed afresh. ``precision`` scales the relaxation of the ratio test: a
    corrector must not relax by what it is to correct.

    Raises
    ------
    TooCostly : the walk would take more than ``allowance`` products
    NotOptimal, NotPositiveSemidefinite, MemoryLimit : see ``livesvm.solvers.homotopy.solve.follow``
    """
    found = set_out(state, motion)
    state.make_room_for_free()
    if state.n_free == 0:
        state.kappa = mean_diagonal(state)
    units = scaled(state, found)
    w = walk_of(state, motion, units, precision, allowance)
    exit_, w = walk_to_the_end(state, w, units, trace)
    at = tally(state, w, trace)
    raise_for(exit_)
    dust = SETTINGS.dust if trace.rounds <= 2 else 0.0
    is_fresh = exit_ == Exit.DONE and at.fresh == 1
    stood, audit = arrive(state, w, units, at.drift, dust, is_fresh)
    if not audit.is_finite:
        raise NotOptimal("coefficients or decision values leave the range of double precision")
    return stood and exit_ == Exit.DONE, trace.noted(audit)


def walk_of(
    state: PathState, motion: Motion, units: Scales, precision: float = 1.0, allowance: float = math.inf
) -> workspace.Walk:
    """Return what the compiled loop works on, at the start of the path; ``units`` are those of this motion."""
    n, rows = state.n_slots, state.rows
    sum_rate = state.total - units.sum_beta if state.intercept else 0.0
    budget, asking = 50 * n + 10_000, 1
    status = workspace.Status.of(state.b, 1.0, units.sum_speed, sum_rate, state.total, -1, budget, asking, allowance)
    stop = np.zeros(1, np.int64)
    watch(stop, 0)
    return workspace.Walk(
        n,
        n,
        state.intercept,
        state.kappa,
        state.examples,
        motion,
        state.factor,
        rows.values,
        rows.row_of,
        rows.values,
        NO_FLAGS,
        NOBODY,
        rows.values,
        rows.row_of,
        scratch(),
        status,
        stop,
        _tolerances(state, units, precision),
    )


def _tolerances(state: PathState, units: Scales, precision: float) -> One[workspace.Tolerances]:
    """Scale the settings by the units of the problem and by the rounding errors of f and of this motion."""
    rounding, n_free = EPS * max(8 * units.speed, units.mass) * units.diagonal, state.n_free
    f = max(precision * SETTINGS.ratio_f * units.kink, rounding)
    lap = max(precision * SETTINGS.lap * units.kink, rounding)
    beta = max(precision * SETTINGS.ratio_beta, 1e-18) * units.level
    dependent = SETTINGS.dependent * max(1.0, math.sqrt(n_free) / 4)
    balance = max(1e-12, EPS * state.n_slots**1.5) * max(units.level, units.top_speed)
    return workspace.Tolerances.of(f, lap, beta, dependent, balance, ZERO_STEP, 2 * n_free + 200)


def walk_to_the_end(
    state: PathState,
    w: workspace.Walk,
    units: Scales,
    trace: Trace,
    go: Callable[[workspace.Walk], int] = follow_path,
    answer: Callable[[workspace.Walk, int], bool] | None = None,
) -> tuple[int, workspace.Walk]:
    """Walk by ``go``, fetch what it asks for, spread ties where it stalls; returns the last exit, and the walk.

    ``answer`` is for a walk that is written down: it says whether it has done what an exit asks for. On such a walk
    nobody's place may change but by its events, so that no factor is mended.
    """
    strength, dependent = SETTINGS.perturbation, SETTINGS.spoiled
    events = -1
    while True:
        check()
        exit_ = go(w)
        if exit_ == Exit.DONE:
            return exit_, w
        if exit_ == Exit.CANCELLED:
            raise_what_stopped()
        granted = grant(state, w, exit_, fetch_rows)
        if granted is not None:
            w = granted
        elif exit_ == Exit.INDEFINITE and answer is None and dependent < 1e-9:
            dependent = 10 * dependent if w.at[0].events == events else SETTINGS.spoiled
            events = int(w.at[0].events)
            w = _with_sound_factor(state, w, dependent)
            trace.refactored += 1
        elif exit_ == Exit.STALLED and w.at[0].tau > 1e-9 and strength < 1e-4:
            trace.stalls += 1
            spread_ties(w, units, strength, [trace.rounds, trace.stalls])
            strength *= 3
        elif answer is None or not answer(w, exit_):
            return exit_, w


def grant(
    state: PathState, w: workspace.Walk, exit_: int, fetch: Callable[[PathState, workspace.Walk], None]
) -> workspace.Walk | None:
    """Return the walk with the kernel rows, or the room in the factor, that it asks for; None: it asks for neither."""
    if exit_ == Exit.NEED_ROW or exit_ == Exit.WANT_ROWS:
        fetch(state, w)
        return w._replace(rows=state.rows.values, parent_rows=state.rows.values)
    if exit_ == Exit.NEED_ROOM:
        state.make_room_for_free()
        return w._replace(factor=state.factor)
    return None


def spread_ties(w: workspace.Walk, units: Scales, strength: float, seed: int | list[int]) -> None:
    """Spread ties by random amounts, of ``strength`` in the units of the problem."""
    random = np.random.default_rng(seed).random((w.n, 2))
    degeneracy.perturb(w, random, strength * units.kink, strength * units.level)


def _with_sound_factor(state: PathState, w: workspace.Walk, dependent: float) -> workspace.Walk:
    """Factor the free block afresh where rounding has spoiled it, without those who depend on the others.

    They are sent to an end of their box, like anybody who is not free.
    """
    free = state.free_slots().copy()
    refactor(state, dependent=dependent)
    w = w._replace(factor=state.factor, rows=state.rows.values, parent_rows=state.rows.values)
    degeneracy.send_dependent(w, free)
    return w


def fetch_rows(state: PathState, w: workspace.Walk) -> None:
    """Cache the row of the example that is about to change sides, if one is, and those of the next likely ones."""
    often = w.motion.work[: w.n]
    frequencies(w, often)
    likely = np.flatnonzero((w.row_of[: w.n] < 0) & (often * w.at[0].tau > UNLIKELY))
    if likely.size > PREFETCH:
        likely = likely[np.argpartition(often[likely], -PREFETCH)[-PREFETCH:]]
    must = state.free_slots()
    if w.at[0].who >= 0:
        must = np.append(must, w.at[0].who)
    wanted = np.union1d(must, likely)
    need_rows(state, wanted if wanted.size <= state.rows.max_rows else must)


def tally(state: PathState, w: workspace.Walk, trace: Trace) -> workspace.Status:
    """Take over b, add what a walk has counted to the trace, and return where it stands."""
    at = workspace.Status.told(w.at)
    state.b = at.b
    state.events_since_refresh += at.events
    trace.rounds += 1
    trace.events += at.events
    trace.exchanges += at.exchanges
    trace.jumps += at.jumps
    trace.strides += at.n_strides
    trace.through += at.through
    trace.members += at.members
    trace.refined += at.refined
    trace.work += at.work
    return at


def raise_for(exit_: int) -> None:
    """Raise the error that the loop's last exit stands for, if it stands for one."""
    if exit_ == Exit.INDEFINITE:
        raise NotPositiveSemidefinite("the kernel matrix of the window has a negative eigenvalue", field="kernel")
    if exit_ == Exit.COSTLY:
        raise TooCostly("the path takes more work than solving from nothing")
    if exit_ == Exit.UNBALANCED:
        raise NotOptimal("the examples that are left cannot balance the sum of the coefficients")
