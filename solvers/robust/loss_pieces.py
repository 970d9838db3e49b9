"""Compiled code that finds every example's side under robust losses, and the examples on the wrong side.

Arrays are indexed by slot; an empty slot has no loss and no cutoffs, and counts as an example within its cutoffs.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from livesvm.solvers.active_set.recorder import Cutoffs as Stops
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.homotopy.edit import Work
from livesvm.solvers.linalg.cholesky import schur
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import is_free
from livesvm.solvers.robust.ramp_losses import BELOW, BEYOND, WITHIN, LossCutoffs, Sides
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import is_stopped
from livesvm.solvers.runtime.scalars import One, Scalars
from livesvm.solvers.runtime.types import Bools, Floats, Ints

HELD = 1e-9  #: a squared distance to the span of examples at kinks, as part of the diagonal, that counts as 0

# Rows of the tables: the rows of the two kinks are neighbours
FIRST_KINK, SECOND_KINK, FIRST_BEND, SECOND_BEND, FIRST_LEVEL, LAST_LEVEL, FIRST_LIMIT, SECOND_LIMIT = range(8)
ROWS_OF_TABLES = 8


class RoundStage(IntEnum):
    """The stage of a D-step or C-step, from which the step continues after its request has been answered."""

    AT_REST = 0
    CHOSEN = 1
    SET_OUT = 2
    DRIVEN = 3
    WALKING = 4
    ARRIVED = 5
    LEAVING = 6
    LEFT = 7
    TRACKING = 8
    STOPPING = 9
    SWITCHING = 10


class Now(Scalars):
    """The position of an outlier path: theta, the stage, the objective, and counts."""

    theta: float
    objective: float
    start_objective: float  #: before the D-step
    stage: int  #: a RoundStage
    rounds: int  #: of the D-step
    switched: int  #: examples that switched so far
    switched_before: int  #: examples that switched before this round
    all_events: int
    since_refresh: int  #: events since f was computed afresh
    since_audit: int  #: events since the state was judged by it
    at_cutoffs: int  #: examples at a cutoff


@by_reference
class Split(NamedTuple):
    """The convex loss, cutoffs and side of each example, by slot (n,), with work arrays and records of a D-step."""

    base: Losses
    cutoffs: LossCutoffs
    sides: Sides
    tables: Floats  #: (8, n) the convex losses once more, see ``fill_tables``
    resting: Bools  #: examples at a cutoff that have tried both sides
    proper: Sides  #: the true side of every example; at a cutoff, the side that it does not count on
    at_cutoff: Bools
    wrong: Bools  #: examples that take the proper side next, and its levels
    tried: Bools  #: examples that were tried, in this D-step, to leave their cutoff alone
    indices: Ints  #: (switches,) the examples that switched, in order
    to: Sides  #: (switches,) the sides that they switched to
    stops: Stops  #: limits at which a walk stops because an example has reached a cutoff
    near: float  #: distance from its cutoff within which an f counts as at it
    work: Work  #: of the solves
    now: One[Now]


@compiled
def place_levels(w: Walk, p: Split, j: int, theta: float) -> None:
    """Set the levels of an example's loss for its side at a theta, as ``ramp_losses.conditional`` does."""
    cut = (1.0 - theta) * outermost_level(p, j)
    for q in range(p.base.levels.shape[1]):
        w.examples.levels[j, q] = p.base.levels[j, q] - cut


@compiled
def place_cutoffs(p: Split, zero: LossCutoffs, depth: float) -> None:
    """Set the cutoffs ``depth`` further inwards than the cutoffs at s = 0."""
    for j in range(p.sides.size):
        p.cutoffs.low[j] = zero.low[j] + depth
        p.cutoffs.high[j] = zero.high[j] - depth


@compiled
def outermost_level(p: Split, j: int) -> float:
    """Return the outermost slope, sign changed, of an outlier's convex loss beyond the cutoff; 0 for other examples."""
    if p.sides[j] == WITHIN:
        return 0.0
    last = p.base.levels.shape[1] - 1
    level: float = p.base.levels[j, 0 if p.sides[j] == BELOW else last]
    return level


@compiled
def fill_tables(kinks: Floats, levels: Floats, tables: Floats) -> None:
    """Write the kinks, the changes of slope at the kinks, and the outermost levels of losses (n,) to ``tables`` (8, n).

    A kink that does not exist has the position 0 and no change of slope in the table, and is infinite as a limit of f.
    """
    last = levels.shape[1] - 1
    for j in range(kinks.shape[0]):
        for q in range(kinks.shape[1]):
            tables[FIRST_LIMIT + q, j] = kinks[j, q]
            tables[FIRST_KINK + q, j] = kinks[j, q] if abs(kinks[j, q]) < np.inf else 0.0
            tables[FIRST_BEND + q, j] = levels[j, q] - levels[j, q + 1]
        tables[FIRST_LEVEL, j], tables[LAST_LEVEL, j] = levels[j, 0], levels[j, last]


@compiled
def look(w: Walk, p: Split) -> None:
    """Find the true side of every example, the examples at a cutoff, and the robust objective of all examples.

    The loops suit vector instructions, and examples at a cutoff are marked only if there are any.
    """
    f, low, high, near, many = w.examples.f, p.cutoffs.low, p.cutoffs.high, p.near, 0
    for j in range(w.n):
        below, above = abs(f[j] - low[j]), abs(f[j] - high[j])
        closest = below if below < above else above
        many += 1 if closest <= near else 0
    for j in range(w.n):
        over, under = np.int8(f[j] > high[j]), np.int8(f[j] < low[j])
        p.proper[j] = over - under
    for j in range(w.n):
        p.at_cutoff[j] = False
    p.now[0].at_cutoffs = many
    for j in range(w.n if many > 0 else 0):
        below, above = abs(f[j] - low[j]), abs(f[j] - high[j])
        if below <= near or above <= near:
            p.at_cutoff[j] = True
            nearest = BELOW if below < above else BEYOND
            p.proper[j] = nearest if p.sides[j] == WITHIN else WITHIN
    p.now[0].objective = objective(w, p)


@compiled
def objective(w: Walk, p: Split) -> float:
    """Return the robust objective; see ``piecewise_linear.values`` and ``ramp_losses``."""
    all_f, all_beta, b = w.examples.f, w.examples.beta, w.at[0].b
    first, second = p.tables[FIRST_KINK], p.tables[SECOND_KINK]
    bend, second_bend = p.tables[FIRST_BEND], p.tables[SECOND_BEND]
    level, last, low, high = p.tables[FIRST_LEVEL], p.tables[LAST_LEVEL], p.cutoffs.low, p.cutoffs.high
    convex, cut = 0.0, 0.0
    for j in range(w.n):
        f = all_f[j]
        over, further = f - first[j], f - second[j]
        under, above = f - low[j], f - high[j]
        kinks = bend[j] * (over if over > 0.0 else 0.0) + second_bend[j] * (further if further > 0.0 else 0.0)
        convex += 0.5 * all_beta[j] * (f - b) - level[j] * over + kinks
        cut += level[j] * (under if under < 0.0 else 0.0) + last[j] * (above if above > 0.0 else 0.0)
    value: float = convex + (1.0 - p.now[0].theta) * cut
    return value


@compiled
def choose_misplaced(p: Split) -> None:
    """Choose the examples that switch sides next: those whose present side of a cutoff is not their true side.

    An example at a cutoff counts as misplaced on its present side, so that it tries the other side of the cutoff too.
    If other examples keep its f at the cutoff, the example is optimal on either side. An example at a cutoff is no
    longer chosen once it has tried both sides, or if it has just switched and is still at the cutoff.
    """
    for j in range(p.sides.size):
        p.wrong[j] = p.proper[j] != p.sides[j] and not (p.at_cutoff[j] and (p.resting[j] or p.wrong[j]))
        p.resting[j] = p.at_cutoff[j]


@compiled
def choose_loose(w: Walk, p: Split) -> bool:
    """Choose an example at a cutoff, if examples at kinks do not fix its f; return False if there is no such example.

    If several examples switch together, their effects may cancel, as for equal features with different labels. If an
    example switches alone, its f moves.
    """
    e, fac = w.examples, w.factor
    kappa = w.at[0].kappa if w.intercept else 0.0
    for j in range(w.n if p.now[0].at_cutoffs > 0 else 0):
        if not p.at_cutoff[j] or p.tried[j] or is_free(e.segment[j]):
            continue
        if is_stopped(w.stop, 0):
            return False
        p.tried[j] = True
        for k in range(fac.size[0]):
            fac.column[k] = w.rows[w.row_of[fac.slot[k]], j] + kappa if fac.slot[k] >= 0 else 0.0
        own = e.diagonal[j] + kappa
        if schur(fac, fac.column, own) > HELD * own:
            p.wrong[j] = True
            return True
    return False
