"""Settings of a robust live model: theta, s, and the outliers of its window."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.robust.ramp_losses import BELOW, BEYOND, LossCutoffs
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.validation import Key, known_keys, mapping, number_or_none


@dataclass(frozen=True)
class Robustness:
    """The robust losses of a model."""

    theta: float  #: share of its slope that a loss keeps beyond its cutoff, in [0, 1]
    #: position of the cutoffs: a margin (classification, <= 0) or the size of a residual (regression, > 0, in y units)
    s: float
    #: {key: side} of examples that start beyond a cutoff, -1: f is too low, 1: f is too high; the rest of the window
    #: starts within. Examples on the wrong side switch.
    outliers: Mapping[Key, int] = field(default_factory=dict)


class Terms(NamedTuple):
    """The functions with which a window computes robust losses."""

    theta: float
    losses: Callable[[Floats, Floats], Losses]  #: convex losses of targets (m,) and weights (m,)
    cutoffs: Callable[[Floats], LossCutoffs]  #: cutoffs of targets (m,)


def checked(asked: Robustness, window: Container[Key]) -> Robustness:
    """Check a Robustness and return it; the cutoff rule of a task decides which values of s are allowed.

    Raises
    ------
    InvalidInput : theta is not in [0, 1], s not a finite number, a side not -1 or 1
    UnknownKey : an outlier is not in the window
    """
    theta = share(asked.theta)
    s = number_or_none(asked.s)
    if s is None:
        raise InvalidInput(f"must be a finite number, not {asked.s!r}", field="s")
    outliers = mapping(asked.outliers, "outliers")
    names = known_keys(outliers, window, field="outliers")
    for row, side in enumerate(outliers.values()):
        if side not in (BELOW, BEYOND):
            raise InvalidInput(f"a side is -1 or 1, not {side!r}", field="outliers", row=row)
    return Robustness(theta, s, dict(zip(names, outliers.values(), strict=True)))


def share(theta: object) -> float:
    """Check theta and return it as a number.

    Raises
    ------
    InvalidInput : it is not in [0, 1]
    """
    number = number_or_none(theta)
    if number is None or not 0.0 <= number <= 1.0:
        raise InvalidInput(f"must lie in [0, 1], not {theta!r}", field="theta")
    return number
