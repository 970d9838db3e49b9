"""The compiled homotopy loop: direction, step, move, change side.

Each pass finds the direction in which the free examples must move so that they stay at their kinks, the largest step
that keeps everyone on their segment of the staircase, takes it, and lets the example that ended it change sides. Rule
numbers, here and in the modules it calls, are those of the path engine's design.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.active_set.direction import find_direction, refine_if_needed
from livesvm.solvers.active_set.exchange import change_side
from livesvm.solvers.active_set.exits import Exit
from livesvm.solvers.active_set.ratio_test import advance, longest_step
from livesvm.solvers.active_set.workspace import IDLE_TURNS, Walk, balanced
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import is_stopped

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled
def walk(w: Walk) -> Exit:
    """Go from event to event until the path or the stride ends, or something is needed; returns why it stopped."""
    at = w.at[0]
    while True:
        outcome = take_turn(w)
        if outcome != Exit.DONE:
            return outcome
        if at.events >= at.stride_end or (w.factor.size[0] == 0 and not balanced(w)):
            return Exit.STRIDE
        step, who, side = next_event(w)
        advance(w, step)
        if who < 0:
            return Exit.DONE if w.at[0].last == 0.0 else Exit.STRIDE
        at.who, at.side = who, side
        at.zero_steps = at.zero_steps + 1 if step <= w.tol[0].zero_step else 0


@compiled
def next_event(w: Walk) -> tuple[float, int, int]:
    """Find the direction; return how far it goes, who changes sides there, and to which; -1: it goes to the end."""
    find_direction(w)
    step, who, side = longest_step(w)
    if refine_if_needed(w, step):
        step, who, side = longest_step(w)
    return step, who, side


@compiled
def take_turn(w: Walk) -> Exit:
    """Let the example whose turn it is change sides; DONE: the walk can go on."""
    at = w.at[0]
    if at.who >= 0:
        outcome = change_side(w, at.who, at.side)
        if outcome != Exit.DONE:
            return outcome
        at.who = -1
        at.events += 1
        if at.zero_steps > w.tol[0].stall:
            at.zero_steps = 0
            return Exit.STALLED
    if is_stopped(w.stop, 0):
        return Exit.CANCELLED
    at.turns += 1
    exhausted = at.events >= at.budget or at.turns >= IDLE_TURNS * at.budget
    return Exit.EXHAUSTED if exhausted else Exit.DONE
