"""Examples under robust losses, each on a side of its cutoffs, and the D-step that finds each example's true side.

With every example's side fixed the problem is convex: the convex losses majorize the robust losses and touch them where
an example is on its true side. The D-step [Suzumura et al., section 4.4] switches all examples at a cutoff to the other
side at once and follows the path to the optimum of the new losses. At the start of a step the majorant equals the true
objective, and at its end it is not below the true objective. So the true objective falls, strictly if any example
moved. Examples that end on the wrong side switch next. There are finitely many partitions, so the D-step ends with
every example on its true side. A model with every example on its true side satisfies the conditions of Theorems 4 and
5. The paper keeps every example within its cutoffs during the step; here examples may cross them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from livesvm.solvers.active_set import workspace
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.recorder import Cutoffs as Stops
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.homotopy.edit import Work
from livesvm.solvers.homotopy.optimality import EPS, audited
from livesvm.solvers.homotopy.refresh import combine, need_rows, refresh
from livesvm.solvers.homotopy.run import PREFETCH, Solve, fetch_rows, follow, grant, raise_for, spread_ties
from livesvm.solvers.homotopy.tolerances import SETTINGS
from livesvm.solvers.linalg.cholesky import Factor, solve_forward
from livesvm.solvers.problem.piecewise_linear import Losses, leaving
from livesvm.solvers.problem.snapshot import LITTLE
from livesvm.solvers.problem.state import PathState, are_free
from livesvm.solvers.robust import d_step
from livesvm.solvers.robust import loss_pieces as split
from livesvm.solvers.robust.c_step import CROSSING, Course, course, steps
from livesvm.solvers.robust.local_optimality import AT_CUTOFF, ROUNDINGS
from livesvm.solvers.robust.loss_pieces import ROWS_OF_TABLES, Now, RoundStage, Split, fill_tables
from livesvm.solvers.robust.ramp_losses import WITHIN, LossCutoffs, Sides, outermost, size_of
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.entry_point import entry_point, kind_of
from livesvm.solvers.runtime.interrupt import check, raise_what_stopped
from livesvm.solvers.runtime.types import Floats, Ints

REFRESH_EVENTS = 1000  #: f is computed afresh from beta at least this often


@dataclass
class Partition:
    """A path state in which each example has a convex loss, chosen by the side of its cutoffs that it counts on.

    ``base`` holds the convex losses of the m examples, and ``slots`` holds their slots. All arrays are indexed by
    position in the window.
    """

    state: PathState
    slots: Ints  #: (m,)
    base: Losses
    cutoffs: LossCutoffs
    theta: float
    sides: Sides  #: (m,)

    @cached_property
    def tolerance(self) -> float:
        """The distance from a cutoff within which an f counts as at the cutoff: at least the rounding error of f."""
        tables = (self.base.kinks, self.cutoffs.low[:, None], self.cutoffs.high[:, None])
        scale = max(size_of(table) for table in tables)
        e, slots = self.state.examples, self.slots
        return max(AT_CUTOFF * scale, ROUNDINGS * EPS * float(np.abs(e.beta[slots]) @ e.diagonal[slots]))

    @property
    def f(self) -> Floats:
        """Decision values, (m,)."""
        return self.state.examples.f[self.slots]

    def by_slot(self) -> tuple[Losses, LossCutoffs, Sides]:
        """Return convex losses, cutoffs and sides of all slots, (n_slots,); empty slots have no loss and no cutoffs."""
        n = self.state.n_slots
        if self.slots.size == n and bool((self.slots == np.arange(n)).all()):
            return self.base, self.cutoffs, self.sides
        base, cutoffs = leaving(n), LossCutoffs(np.full(n, -np.inf), np.full(n, np.inf))
        for there, own in zip((*base, *cutoffs), (*self.base, *self.cutoffs), strict=True):
            there[self.slots] = own
        sides = np.full(n, WITHIN, np.int8)
        sides[self.slots] = self.sides
        return base, cutoffs, sides


class Rounds:
    """The arrays of a partition for compiled steps, and the loop that answers the requests of these steps."""

    def __init__(self, partition: Partition) -> None:
        self.state = partition.state
        self.stalls = 0  #: how often ties had to be spread
        self._slots = partition.slots
        n = self.state.n_slots
        self.w, work = self._opened()  #: with ``p`` the data of the compiled steps, by slot
        self.p = Split(
            *partition.by_slot(),
            np.empty((ROWS_OF_TABLES, n)),
            np.zeros(n, np.bool_),
            np.zeros(n, np.int8),
            np.zeros(n, np.bool_),
            np.zeros(n, np.bool_),
            np.zeros(n, np.bool_),
            np.empty(2 * n + 64, np.int64),
            np.empty(2 * n + 64, np.int8),
            Stops(np.full(n, -np.inf), np.full(n, np.inf), partition.tolerance),
            partition.tolerance,
            work,
            Now.of(),
        )
        fill_tables(self.p.base.kinks, self.p.base.levels, self.p.tables)
        self.p.now[0].theta = partition.theta

    @property
    def sides(self) -> Sides:
        """The side of its cutoffs on which each example counts as lying, by position, (m,)."""
        return self.p.sides[self._slots]

    @property
    def events(self) -> int:
        """Number of breakpoints so far."""
        return int(self.p.now[0].all_events)

    @property
    def switched(self) -> tuple[Ints, Sides]:
        """The slots of the examples that switched, in order, and the side to which each switched."""
        count = self.p.now[0].switched
        return self.p.indices[:count].copy(), self.p.to[:count].copy()

    def look(self) -> float:
        """Find the true side of every example, and return the robust objective."""
        split.look(self.w, self.p)
        return float(self.p.now[0].objective)

    def run(self, course: Course, until: tuple[int, ...] = ()) -> int:
        """Make the steps of a course until all are made or one stops with an exit of ``until``; return the exit.

        Raises
        ------
        NotOptimal : the objective rose, or the switches do not end
        NotPositiveSemidefinite, MemoryLimit : see ``livesvm.solvers.homotopy.run.follow``
        """
        while True:
            check()
            work = self.w, self.p, course
            exit_ = entry_point(steps, *work, kind=kind_of((self.p[:3], course.zero)))(*work)
            raise_what_stopped()
            self.state.b, self.state.kappa = float(self.w.at[0].b), float(self.w.at[0].kappa)
            if exit_ == Exit.DONE or exit_ in until:
                return exit_
            self._answer(exit_)

    def settle(self) -> None:
        """Switch examples, from the optimum of any partition, until each is on its true side."""
        self.look()
        split.choose_misplaced(self.p)
        self.p.tried[:] = False
        self.p.now[0].stage = RoundStage.CHOSEN
        self.run(course(CROSSING))

    def part_at_cutoffs(self) -> None:
        """Count an example at a cutoff as beyond it if f moves outwards as theta falls from 1.

        ``look`` must have found an example at a cutoff. While all examples at a cutoff count on the same side, their
        effects may cancel, and they would stay at their cutoffs. The method finds the examples that leave their
        cutoffs, by the rates of f: the weights of outliers fall, while f of free examples stays constant.
        """
        p, state = self.p, self.state
        indices = np.flatnonzero(p.at_cutoff & (~are_free(state.examples.segment[: state.n_slots])))
        if indices.size == 0:
            return
        shift = state.kappa if state.intercept else 0.0
        block = state.kernel_rows(indices) + shift
        own, cross = block[:, indices], forward_solved(state.factor, block)
        rates = own - cross @ cross.T
        least = split.HELD * (float(np.diag(own).mean()) or 1.0)
        push = np.zeros(indices.size)
        levels = outermost(p.base.of(indices), p.proper[indices])
        for i, j in enumerate(indices):
            outwards = push[i] * p.proper[j] >= -least * abs(levels[i])
            if rates[i, i] > least and outwards:
                p.sides[j] = p.proper[j]
                push -= levels[i] * rates[i]

    def freshen(self, *, always: bool = False) -> None:
        """Recompute every f if this is due and no step is under way, or if ``always``; then correct errors."""
        due = self.p.now[0].stage == RoundStage.AT_REST and self.p.now[0].since_refresh > REFRESH_EVENTS
        if always or due:
            refresh(self.state)
            self.p.now[0].since_refresh = 0
            if audited(self.state).optimal(SETTINGS.goal):
                self._renew()
            else:
                self._correct()

    def spread_ties(self) -> bool:
        """Move tied limits apart after a stalled walk; return False if that fails, see ``tolerances.spread_ties``."""
        is_spread = spread_ties(self.state, self.w, self.stalls + 1)
        self.stalls += is_spread
        return is_spread

    def _answer(self, exit_: int) -> None:
        p = self.p
        if exit_ == Exit.NEED_ROWS:
            self._set_bound_rate()
        elif (granted := grant(self.state, self.w, exit_, fetch_for_many)) is not None:
            self.w = granted
        elif exit_ == Exit.STALLED and self.spread_ties():
            pass
        elif exit_ == Exit.UNBALANCED and self._is_balanced():
            self.w.at[0].sum_rate = self.w.at[0].sum_v
        elif exit_ == Exit.SWITCHES_FULL:
            size = 2 * p.indices.size
            self.p = p._replace(indices=np.resize(p.indices, size), to=np.resize(p.to, size))
        elif exit_ == Exit.ROSE:
            raise NotOptimal(f"the objective rose to {p.now[0].objective} at a D-step")
        elif exit_ == Exit.ENDLESS:
            raise NotOptimal(f"a D-step did not end within {d_step.MOST_ROUNDS} rounds")
        else:
            raise_for(exit_)
            self._correct()
            p.now[0].stage += 1

    def _is_balanced(self) -> bool:
        """Say whether the error of the sum of the betas at the end of the walk will be only rounding."""
        at = self.w.at[0]
        off = abs(at.sum_rate - at.sum_v) * at.tau
        return bool(off <= 1e-13 * self.p.work.now[0].level * self.state.n)

    def _set_bound_rate(self) -> None:
        """Cache the kernel rows of examples with a moving beta or with an f near a cutoff.

        If the rows do not fit into the cache, compute the effect of the moving betas on f instead.
        """
        state, p, slots, n = self.state, self.p, self._slots, self.state.n_slots
        motion = self.w.motion
        moving = np.flatnonzero(motion.v[:n])
        must = np.union1d(moving, state.free_slots())
        if must.size > state.rows.max_rows:
            motion.bound_rate[:n] = combine(state, moving, motion.v[moving])
            p.now[0].stage += 1
        else:
            f = state.examples.f[slots]
            distance = np.minimum(np.abs(f - p.cutoffs.low[slots]), np.abs(f - p.cutoffs.high[slots]))
            count = min(PREFETCH, slots.size)
            wanted = np.union1d(must, slots[np.argpartition(distance, count - 1)[:count]])
            need_rows(state, wanted if wanted.size <= state.rows.max_rows else must)
        self.w = self.w._replace(rows=state.rows.values, parent_rows=state.rows.values)

    def _correct(self) -> None:
        """Bring the state to the optimum of its current losses."""
        trace = follow(self.state)
        self.p.now[0].all_events += self.w.at[0].events + trace.events
        self.stalls += trace.stalls
        self._renew()

    def _renew(self) -> None:
        """Start another walk with the present b, factor and kernel rows of the state."""
        self.w, work = self._opened()
        self.p = self.p._replace(work=work)

    def _opened(self) -> tuple[workspace.Walk, Work]:
        need_rows(self.state, self.state.free_slots())
        self.state.make_room_for_free()
        return Solve(self.state).opened()


def fetch_for_many(state: PathState, w: workspace.Walk) -> None:
    """Cache the kernel row that a walk has requested and rows needed later, or all rows if that is little work."""
    n = state.n_slots
    missing = np.flatnonzero(state.rows.row_of[:n] < 0)
    if missing.size * n <= LITTLE and n <= state.rows.max_rows:
        need_rows(state, np.arange(n))
    else:
        fetch_rows(state, w)


def forward_solved(fac: Factor, block: Floats) -> Floats:
    """Return ``R^-T k`` for each example, one a row; R is the factor, and k are kernel values from ``block``."""
    size = int(fac.size[0])
    live = np.flatnonzero(fac.slot[:size] >= 0)
    columns = np.zeros((block.shape[0], size))
    columns[:, live] = block[:, fac.slot[live]]
    for column in columns:
        check()
        solve_forward(fac.R, size, column)
    return columns


def settle(partition: Partition) -> int:
    """Switch examples, from the optimum of any partition, until each is on its true side; return the number of events.

    Raises
    ------
    NotOptimal : the objective rose, or the switches do not end
    """
    steps = Rounds(partition)
    steps.settle()
    steps.freshen(always=True)
    partition.sides = steps.sides
    return steps.events
