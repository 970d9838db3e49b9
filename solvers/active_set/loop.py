"""The compiled homotopy loop: direction, step, move, change side.

Each pass finds the direction in which the free examples must move so that they stay at their kinks, the largest step
that keeps everyone on their segment of the staircase, takes it, and lets the example that ended it change sides. Rule
numbers, here and in the modules it calls, are those of the path engine's design.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.active_set.direction import find_direction, refine_if_needed
from solvers.active_set.exchange import change_side
from solvers.active_set.ratio_test import advance, longest_step
from solvers.active_set.workspace import (
    BUDGET,
    CANCEL,
    CANCELLED,
    DONE,
    EVENTS,
    EXHAUSTED,
    IDLE_TURNS,
    LAST,
    SIDE,
    STALLED,
    STRIDE,
    STRIDE_END,
    TURNS,
    WHO,
    ZERO_STEPS,
    Walk,
    balanced,
)
from solvers.runtime.compile import compiled, inlined
from solvers.runtime.interrupt import is_stopped

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled
def walk(w: Walk) -> int:
    """Go from event to event until the path or the stride ends, or something is needed; returns why it stopped."""
    counters = w.counters
    while True:
        outcome = take_turn(w)
        if outcome != DONE:
            return outcome
        if counters[EVENTS] >= counters[STRIDE_END] or (w.factor.size[0] == 0 and not balanced(w)):
            return STRIDE
        find_direction(w)
        step, who, side = longest_step(w)
        if refine_if_needed(w, step):
            step, who, side = longest_step(w)
        advance(w, step)
        if who < 0:
            return DONE if w.clock[LAST] == 0.0 else STRIDE
        counters[WHO], counters[SIDE] = who, side
        counters[ZERO_STEPS] = counters[ZERO_STEPS] + 1 if step <= w.tol.zero_step else 0


@inlined
def take_turn(w: Walk) -> int:
    """Let the example whose turn it is change sides; DONE: the walk can go on."""
    counters = w.counters
    if counters[WHO] >= 0:
        outcome = change_side(w, counters[WHO], counters[SIDE])
        if outcome != DONE:
            return outcome
        counters[WHO] = -1
        counters[EVENTS] += 1
        if counters[ZERO_STEPS] > w.tol.stall:
            counters[ZERO_STEPS] = 0
            return STALLED
    if is_stopped(counters, CANCEL):
        return CANCELLED
    counters[TURNS] += 1
    exhausted = counters[EVENTS] >= counters[BUDGET] or counters[TURNS] >= IDLE_TURNS * counters[BUDGET]
    return EXHAUSTED if exhausted else DONE
