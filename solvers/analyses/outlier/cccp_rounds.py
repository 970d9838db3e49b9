"""The compiled loop of the concave-convex procedure over several values of theta or s."""

from __future__ import annotations

from typing import NamedTuple

from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.workspace import Walk
from livesvm.solvers.robust.c_step import take_sides
from livesvm.solvers.robust.ramp_losses import WITHIN, Sides, Walls
from livesvm.solvers.robust.sides import Split, Stage, look, place_walls
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.types import Floats, Ints

REFRESH_EVENTS = 1000  #: between two candidates, f may be computed afresh when there have been so many


# Entries of what is counted of a candidate
ROUNDS, EVENTS = range(2)


class Found(NamedTuple):
    """The solutions of k candidates, n slots."""

    beta: Floats  #: (k, n)
    segment: Sides  #: (k, n) places on the staircase
    sides: Sides  #: (k, n)
    b: Floats  #: (k,)
    objective: Floats  #: (k,)
    counts: Ints  #: (k, 2) convex problems, events
    done: Ints  #: (1,) how many candidates are done


@compiled
def rounds_of_cccp(w: Walk, p: Split, found: Found, values: Floats, zero: Walls, inwards: float) -> int:
    """Solve for one candidate after the other.

    ``zero`` and ``inwards`` are as in ``robust.pieces.steps_of_s``; with ``inwards`` 0 the values are those of theta.
    Stops with STRIDE, and what ``take_sides`` asks for.
    """
    while True:
        k = found.done[0]
        if p.now[0].stage == Stage.AT_REST:
            if k == values.size:
                return Exit.DONE
            turn_to(w, p, values[k], zero, inwards)
            found.counts[k, EVENTS] = -p.now[0].all_events
            p.now[0].stage = Stage.CHOSEN
        outcome = take_sides(w, p, False)
        if outcome != Exit.DONE:
            return outcome
        keep(w, p, found, k)
        found.done[0] = k + 1
        p.now[0].stage = Stage.AT_REST
        if p.now[0].since_refresh > REFRESH_EVENTS:
            return Exit.STRIDE


@compiled
def turn_to(w: Walk, p: Split, value: float, zero: Walls, inwards: float) -> None:
    """Put theta or the walls where they are at a value, and choose whose levels that changes."""
    if inwards == 0.0:
        p.now[0].theta = value
    else:
        place_walls(p, zero, inwards * value)
    look(w, p)
    for j in range(w.n):
        outlier = p.sides[j] != WITHIN and inwards == 0.0
        p.wrong[j] = outlier or p.proper[j] != p.sides[j]
    p.now[0].rounds = p.now[0].switched = 0


@compiled
def keep(w: Walk, p: Split, found: Found, k: int) -> None:
    """Write down what was found."""
    for j in range(w.n):
        found.beta[k, j], found.segment[k, j], found.sides[k, j] = w.examples.beta[j], w.examples.segment[j], p.sides[j]
    found.b[k], found.objective[k] = w.at[0].b, p.now[0].objective
    found.counts[k, ROUNDS] = p.now[0].rounds
    found.counts[k, EVENTS] += p.now[0].all_events
