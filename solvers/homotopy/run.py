"""The Python part of a solve: it holds the work arrays, and fetches the kernel rows that the compiled part requests.

``follow`` moves a model along an exact path, from the losses that it is optimal for to its new losses.

The state may violate optimality in three ways: a bound ``beta`` differs from the level of its piece, the ``f`` of a
free example differs from its kink, or a ``beta`` or ``f`` is beyond a limit. ``solve.solve`` turns each violation into
a motion that removes it by the end of the path, follows the path, and judges the state there. Rounding and the ratio
test leave small violations, which another round removes (rule 7).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import is_not
from typing import Any

import numpy as np

from livesvm.solvers.active_set import degeneracy, workspace
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.ratio_test import find_likely
from livesvm.solvers.errors import NotOptimal, NotPositiveSemidefinite, TooCostly
from livesvm.solvers.homotopy import tolerances
from livesvm.solvers.homotopy.edit import NO_BATCH, Before, ClassBatch, Progress, Work
from livesvm.solvers.homotopy.finalize import rounding_left
from livesvm.solvers.homotopy.optimality import Audit, Scales, audited, scales
from livesvm.solvers.homotopy.refresh import (
    Checkpoint,
    combine,
    mean_diagonal,
    need_rows,
    refactor,
    refresh,
    refresh_close,
    refresh_free,
    restore,
    settle_at_nothing,
    take_checkpoint,
    uncertain_band,
)
from livesvm.solvers.homotopy.solve import Stage, solve
from livesvm.solvers.homotopy.tolerances import SETTINGS, begin, is_due
from livesvm.solvers.problem.piecewise_linear import MAX_KINKS, Losses
from livesvm.solvers.problem.state import Motion, Numbers, PathState
from livesvm.solvers.runtime.entry_point import entry_point, kind_of
from livesvm.solvers.runtime.interrupt import check, raise_what_stopped, watch
from livesvm.solvers.runtime.memory import BYTES, scratch
from livesvm.solvers.runtime.scalars import One
from livesvm.solvers.runtime.types import Floats, Ints

PREFETCH = 128  # kernel rows fetched at once, of examples that will soon change sides

NO_EXAMPLES = workspace.NO_MEMBERS
NO_KIND, NO_PAIR = kind_of(NO_BATCH), (NO_EXAMPLES, np.empty((0, 0)))
NO_CHANGES = Losses(np.empty((0, MAX_KINKS)), np.empty((0, MAX_KINKS + 1)), np.empty(0, np.int64))


@dataclass
class Trace:
    """Counts of events, rounds and other work of an update, and the quality of the state at its end."""

    events: int = 0
    rounds: int = 0
    exchanges: int = 0
    stalls: int = 0
    work: float = 0.0  #: products of kernel values and of the factor, about
    refreshed: int = 0
    refactored: int = 0
    retrained: int = 0  #: 1: solved from nothing instead
    abandoned: int = 0  #: 1: because a path was given up, as it failed or would have been more work
    max_violation: float = 0.0  #: in units of f, at the end
    relative_gap: float = 0.0  #: at the end

    def add(self, found: Progress | workspace.Status, events: int) -> None:
        """Add the counts of one walk, with ``events`` events, to the totals."""
        self.rounds += 1
        self.events += events
        self.exchanges += found.exchanges
        self.work += found.work

    def noted(self, audit: Audit) -> Audit:
        """Record the violation and relative gap of an audit, and return the audit."""
        self.max_violation, self.relative_gap = audit.violation, audit.relative_gap
        return audit


class PathWorkspace:
    """Work arrays for the solves of one state, kept between solves because allocating arrays is slow."""

    def __init__(self, capacity: int) -> None:
        c = capacity
        self.moving, places = np.empty((2, 4, c), np.int64)
        self.come, self.leave, self.changed, segment = places
        f, beta = np.empty((2, c))
        kinks, levels, n_kinks = np.empty((c, MAX_KINKS)), np.empty((c, MAX_KINKS + 1)), np.empty(c, np.int64)
        self.before = Before(segment, f, beta, np.empty(2 * c + 64, np.int64), kinks, levels, n_kinks)
        self.nbytes = sum(map(BYTES, (self.moving, self.come, self.leave, self.changed, *self.before)))
        self.status, self.tolerances = workspace.Status.of(), workspace.Tolerances.of()
        self.stop = np.zeros(1, np.int64)
        self.known: tuple[object, ...] = ()  #: the arrays whose types ``entry`` is for
        self.entry: Callable[..., int] = solve

    def work(
        self, now: One[Progress], losses: Losses, rows: tuple[Ints, Ints], numbered: tuple[Ints, Floats] = NO_PAIR
    ) -> Work:
        """Return the arrays of a solve; ``rows`` are the slots of all cached rows, and when each was last used."""
        edited = self.come, self.leave, self.changed, losses, self.before
        return Work(self.moving, *edited, *rows, *numbered, now)

    def kept(self, now: Progress, numbers: Numbers) -> Checkpoint:
        """Return the state before an edit, as a checkpoint; ``numbers`` are the scalars of the state at that time."""
        old, n, m, free = self.before, now.n_before, now.n_leave + now.n_changed, self.before.free[: now.n_places]
        indices = np.concatenate([self.leave[: now.n_leave], self.changed[: now.n_changed]])
        losses = Losses(old.kinks[:m], old.levels[:m], old.n_kinks[:m])
        return Checkpoint(old.segment[:n], old.f[:n], old.beta[:n], indices, losses, free[free >= 0], numbers)


def workspace_of(state: PathState) -> PathWorkspace:
    """Return the work arrays of a state, with new ones if its capacity has changed."""
    buffers: PathWorkspace | None = state.buffers
    if buffers is None or buffers.come.size != state.capacity:
        buffers = state.buffers = PathWorkspace(state.capacity)
    return buffers


class Solve:
    """One solve of a state, in several rounds if needed, each of which calls ``solve.solve``.

    Parameters
    ----------
    way : compiled function that is called instead of ``solve.solve``, and calls it
    more : its further arguments

    Attributes
    ----------
    now : the progress; None: the solve has not begun
    found : the results of the round that has reached the optimum; then the examples that leave are gone
    """

    def __init__(self, state: PathState, way: Callable[..., int] = solve, *more: Any) -> None:
        self.state, self.rows, self.buffers, self.way, self.more = state, state.rows, workspace_of(state), way, more
        self.now: One[Progress] | None = None
        self.found: Progress | None = None
        self.stage, self.sizes, self.n_before, self.losses = Stage.SET_OUT, (0, 0, 0), 0, NO_CHANGES
        self.batch, self.kind, self.numbered = NO_BATCH, NO_KIND, NO_PAIR
        self.exit_: int | None = None  # exit of the round that is under way

    def begin(self, n_before: int, come: Ints, leave: Ints, changed: Ints, losses: Losses) -> None:
        """Store the edit for the first round; ``n_before`` slots were in use before; ``changed`` get new ``losses``."""
        buffers, self.sizes = self.buffers, (come.size, leave.size, changed.size)
        buffers.come[: come.size], buffers.leave[: leave.size], buffers.changed[: changed.size] = come, leave, changed
        self.stage, self.n_before, self.losses = Stage.EDIT, n_before, losses if changed.size else NO_CHANGES

    def go_on(
        self, now: One[Progress], exit_: int, batch: tuple[ClassBatch, Any], numbered: tuple[Ints, Floats]
    ) -> None:
        """Take over a pair's solve that stopped at ``exit_`` in compiled code; ``batch`` is the batch and its kind."""
        self.now, self.exit_, self.numbered = now, exit_, numbered
        self.batch, self.kind = batch

    @property
    def is_kept(self) -> bool:
        """Whether the state before the edit has been copied, so that the edit can be undone."""
        return self.now is not None and bool(self.now[0].is_kept)

    def round(self, trace: Trace, precision: float, allowance: float = math.inf) -> tuple[bool, bool, Audit | None]:
        """Run one round; return whether it found the optimum, whether it reached the path's end, and an audit or None.

        Raises
        ------
        TooCostly : the walk would take more than ``allowance`` products
        NotOptimal, NotPositiveSemidefinite, MemoryLimit : see ``follow``
        """
        state, buffers, exit_, self.exit_ = self.state, self.buffers, self.exit_, None
        now = self._begun(trace, precision, allowance) if exit_ is None or self.now is None else self.now
        buffers.stop[0] = 0
        s = buffers.work(now, self.losses, (self.rows.slot_of, self.rows.used), self.numbered)
        w = walk_on(state, (buffers.status, buffers.stop, buffers.tolerances))
        more = s, self.batch, *self.more
        if exit_ is None:
            check()
            exit_ = self._entry(w, s)(w, *more)
        if exit_ != Exit.DONE:
            exit_, w = walk_to_the_end(state, w, trace, lambda w: self._entry(w, s)(w, *more), exit_=exit_)
        if exit_ == Exit.DONE:
            self.found = found = Progress.snapshot(now)
            state.b, state.kappa, state.heaviest, state.drift = found.b, found.kappa, found.heaviest, found.drift
            trace.max_violation, trace.relative_gap = found.violation, found.relative_gap
            trace.add(found, found.walked)
            state.events_since_refresh = found.since + found.walked
            return True, True, None
        state.kappa = tally(state, w, trace).kappa
        raise_for(exit_)
        reached = exit_ in (Exit.INEXACT, Exit.UNJUDGED)
        if not reached:
            now[0].stage = Stage.CUT_OFF
            exit_ = solve(w, s, self.batch)
        state.drift = float(now[0].drift)
        audit = audited(state) if exit_ == Exit.INEXACT else self._judge(w, float(now[0].close))
        if not audit.is_finite:
            raise NotOptimal("coefficients or decision values leave the range of double precision")
        return False, bool(reached and now[0].moved == 0), trace.noted(audit)

    def opened(self) -> tuple[workspace.Walk, Work]:
        """Return the ``Walk`` and ``Work`` arguments of the solve, for a compiled caller."""
        state, now = self.state, self._begun(Trace(), 1.0, math.inf)
        now[0].mean_diagonal = mean_diagonal(state)
        w = walk_on(state, workspace.new_counters())
        w.at[0].b, w.at[0].kappa = state.b, state.kappa
        return w, self.buffers.work(now, self.losses, (self.rows.slot_of, self.rows.used), self.numbered)

    def kept(self, numbers: Numbers) -> Checkpoint:
        """Return the state before the edit, as a checkpoint; ``numbers`` are the scalars of the state at that time."""
        assert self.now is not None
        return self.buffers.kept(Progress.snapshot(self.now), numbers)

    def _begun(self, trace: Trace, precision: float, allowance: float) -> One[Progress]:
        """Write the scalars of the state and the round's first stage to ``now``, and return ``now``."""
        state, factor = self.state, self.state.factor
        self.rows.clock += 1
        size, n_free = factor.size.tolist()
        if size == factor.R.shape[0]:
            state.make_room_for_free()
        dust = SETTINGS.dust if trace.rounds <= 1 else 0.0
        own = state.b, state.kappa, self.rows.clock, trace.events, state.events_since_refresh
        round_ = (*own, precision, dust, allowance, state.heaviest, state.drift)
        mean = mean_diagonal(state) if n_free <= self.sizes[1] + self.sizes[2] else 0.0
        if self.now is None:
            given = self.stage, *self.sizes, 0, 0, self.n_before, state.n, state.total, mean
            self.now = Progress.of(*given, *round_)
            return self.now
        now = self.now[0]
        now.stage, now.mean_diagonal, now.close = Stage.SET_OUT, mean, 0.0
        now.b, now.kappa, now.clock, now.events, now.since, now.precision, *rest = round_
        now.dust, now.allowance, now.heaviest, now.drift = rest
        return self.now

    def _entry(self, w: workspace.Walk, s: Work) -> Callable[..., int]:
        """Return ``way`` compiled for the types of these arrays; the same arrays as last time are not checked again."""
        buffers = self.buffers
        if s.losses is not NO_CHANGES:
            return self.way
        arrays = (w.examples, w.motion, w.factor.size, s.used, s.slot, s.numbers, self.kind, self.way)
        if not buffers.known or any(map(is_not, arrays, buffers.known)):
            buffers.known, buffers.entry = arrays, entry_point(self.way, w, s, self.batch, *self.more)
        return buffers.entry

    def _judge(self, w: workspace.Walk, band: float) -> Audit:
        """Recompute each f that decides about optimality, with kernel rows fetched if needed; return an audit."""
        state = self.state
        if band > 0.0:
            refresh_close(state, band)
            return audited(state)
        kink = scales(state, w.motion.v).kink
        if state.n_free == 0:
            refresh(state)
            if state.intercept:
                state.b += degeneracy.center(w)
        drift = max(refresh_free(state), rounding_left(w, kink))
        band = uncertain_band(state.drift, drift, kink)
        audit = audited(state, band)
        state.drift += drift
        if audit.n_close > 0 and refresh_close(state, band):
            audit = audited(state)
        return audit


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
    if state.n_slots == 0:
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


def walk_of(state: PathState, motion: Motion, units: Scales) -> workspace.Walk:
    """Return the compiled loop's arguments at the start of a path; ``units`` are the sizes that scale tolerances."""
    w = walk_on(state, workspace.new_counters(), motion)
    begin(w, units, float(state.total), 1.0)
    w.at[0].b, w.at[0].kappa, w.at[0].asking = state.b, state.kappa, 1
    return w


def walk_on(state: PathState, counters: workspace.Counters, motion: Motion | None = None) -> workspace.Walk:
    """Return the arguments of the compiled loop; from now on an interrupt sets the stop flag in ``counters``."""
    own = state.n_slots, state.n_slots, state.intercept, state.examples, motion or state.motion, state.factor
    rows, row_of, work = state.rows.values, state.rows.row_of, scratch()
    watch(counters[1], 0)
    return workspace.Walk(*own, rows, row_of, rows, workspace.NO_FLAGS, NO_EXAMPLES, rows, row_of, work, *counters)


def walk_to_the_end(
    state: PathState,
    w: workspace.Walk,
    trace: Trace,
    go: Callable[[workspace.Walk], int],
    answer: Callable[[workspace.Walk, int], bool] | None = None,
    exit_: int | None = None,
) -> tuple[int, workspace.Walk]:
    """Call ``go`` until the path ends: provide rows that it requests, spread ties; return the last exit and the walk.

    ``exit_`` is the exit of an earlier call, if there was one. The caller of a recorded walk passes ``answer``, which
    handles further exits and returns whether to continue. On a recorded walk the factor is not repaired, because that
    would move examples without an event.
    """
    dependent, events = SETTINGS.spoiled, -1
    while True:
        if exit_ is None:
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
            # The tolerance grows only if a repaired factor fails again without an event in between.
            dependent = 10 * dependent if w.at[0].events == events else SETTINGS.spoiled
            events = int(w.at[0].events)
            w = _with_sound_factor(state, w, dependent)
            trace.refactored += 1
        elif exit_ == Exit.STALLED and spread_ties(state, w, [trace.rounds, trace.stalls + 1]):
            trace.stalls += 1
        elif answer is None or not answer(w, exit_):
            return exit_, w
        exit_ = None


def grant(
    state: PathState, w: workspace.Walk, exit_: int, fetch: Callable[[PathState, workspace.Walk], None]
) -> workspace.Walk | None:
    """Provide the kernel rows or factor space that an exit requests; return the walk, or None for any other exit."""
    if exit_ == Exit.NEED_ROW or exit_ == Exit.WANT_ROWS:
        fetch(state, w)
        return w._replace(rows=state.rows.values, parent_rows=state.rows.values)
    if exit_ == Exit.NEED_ROWS:
        moving = np.flatnonzero(w.motion.v[: w.n])
        w.motion.bound_rate[: w.n] = combine(state, moving, w.motion.v[moving])
        need_rows(state, state.free_slots())
        return w._replace(rows=state.rows.values, parent_rows=state.rows.values)
    if exit_ == Exit.FACTOR_FULL:
        state.make_room_for_free()
        return w._replace(factor=state.factor)
    return None


def spread_ties(state: PathState, w: workspace.Walk, seed: int | list[int]) -> bool:
    """Move tied limits of the walk apart by random amounts (``tolerances.spread_ties``)."""
    units = scales(state, w.motion.v)
    return bool(tolerances.spread_ties(w, np.random.default_rng(seed).random((w.n, 2)), units.kink, units.level))


def _with_sound_factor(state: PathState, w: workspace.Walk, dependent: float) -> workspace.Walk:
    """Rebuild the factor after rounding errors, without free examples that depend linearly on other free ones.

    Examples left out of the factor are sent to an end of their box.
    """
    free = state.free_slots().copy()
    refactor(state, dependent=dependent)
    w = w._replace(factor=state.factor, rows=state.rows.values, parent_rows=state.rows.values)
    degeneracy.send_dependent(w, free)
    return w


def fetch_rows(state: PathState, w: workspace.Walk) -> None:
    """Cache the kernel row of the example at the next event, and rows of examples likely to have an event soon."""
    found = np.empty(w.n, np.int64)
    likely = found[: find_likely(w, found)]
    if likely.size > PREFETCH:
        likely = likely[np.argpartition(w.motion.work[likely], -PREFETCH)[-PREFETCH:]]
    must = state.free_slots()
    if w.at[0].switching >= 0:
        must = np.concatenate([must, [w.at[0].switching]])
    wanted = np.concatenate([must, likely])
    need_rows(state, wanted if wanted.size <= state.rows.max_rows else must)


def tally(state: PathState, w: workspace.Walk, trace: Trace) -> workspace.Status:
    """Copy b from the walk to the state, add the walk's counts to the trace, and return the status of the walk."""
    at = workspace.Status.snapshot(w.at)
    state.b = at.b
    state.events_since_refresh += at.events
    trace.add(at, at.events)
    return at


def raise_for(exit_: int) -> None:
    """Raise the error that the last exit of the compiled loop stands for, if any."""
    if exit_ == Exit.INDEFINITE:
        raise NotPositiveSemidefinite("the kernel matrix of the window has a negative eigenvalue", field="kernel")
    if exit_ == Exit.COSTLY:
        raise TooCostly("the path takes more work than solving from nothing")
    if exit_ == Exit.UNBALANCED:
        raise NotOptimal("the examples that are left cannot balance the sum of the coefficients")
