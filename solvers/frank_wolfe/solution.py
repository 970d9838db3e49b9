"""Options of a search, its trace, and its solution."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.frank_wolfe.problem import Gap, Known, Problem, gap_of, rough_of
from livesvm.solvers.runtime.types import Floats

Variant = Literal["auto", "fw", "mfw"]

SAMPLE = 59  #: the worst of this many is among the worst 5% of all with probability 0.95 [Frandi et al., Theorem 1]
STEPS = 100_000  #: default limit for steps of one coefficient: each costs a kernel row of every example
CORE_STEPS = 100_000_000  #: of one coefficient of a core, or of examples that join it
BLOCKS = 1_000_000


@dataclass(frozen=True)
class Options:
    """Options of a search."""

    variant: Variant = "auto"
    tol: float = 0.1  #: relative gap
    sampling: int | None = SAMPLE  #: examples of a sample; None: all are checked; the default variant does not sample
    cache_bytes: int = 2**30  #: memory for kernel rows
    max_steps: int | None = None  #: None: the default of the variant
    seed: int = 0  #: of the random choices
    looks_at_all: bool = True  #: whether all examples are checked after a sample without any to gain by

    def __post_init__(self) -> None:
        if self.variant not in get_args(Variant):
            known = ", ".join(get_args(Variant))
            raise InvalidInput(f"unknown variant {self.variant!r}; one of {known}", field="variant")


PER_MILLE = 1000

Look = Callable[[float, float], object]  #: called with seconds, and the relative gap known then


@dataclass(frozen=True)
class DualSolution:
    """A solution, with its gap recomputed from the data in double precision."""

    a: Floats  #: (n,) coefficients on the simplex
    b: Floats  #: (n,) coefficients of the twin, ``a / R``
    parts: Floats  #: (2, n) of ``K~b``; some in single precision, see ``rough_of``
    gap: Gap  #: distance from the optimum
    steps: int  #: steps taken: of one coefficient, or of a block
    kernel_values: int  #: how many were computed, except for the proof
    is_converged: bool  #: whether the gap is within the tolerance
    trace: Floats  #: (k, 2) seconds, and the relative gap known then
    age: int = 0  #: how often ``parts`` were updated, see ``Known``

    @property
    def known(self) -> Known:
        """The coefficients and parts of g that another search can start from."""
        return Known(self.b, self.parts, self.age, rough=rough_of(self.b, self.parts))

    @property
    def R(self) -> float:
        """``a'K~a``."""
        return 1.0 / float(self.b.sum())


def solution(
    problem: Problem, b: Floats, parts: Floats, tol: float, steps: int, kernel_values: int, trace: GapTrace
) -> DualSolution:
    """Return the solution with coefficients ``b`` (n,), which may have any scale, given exact ``parts`` of g."""
    gap = gap_of(problem, b, parts)
    total = float(b.sum())
    factor = total / float(b @ parts.sum(axis=0))
    trace(gap.relative)
    return DualSolution(
        b / total, factor * b, factor * parts, gap, steps, kernel_values, gap.relative <= tol, np.array(trace.points)
    )


@dataclass
class GapTrace:
    """A record of the gap over time, thinned out when it is long; progress is measured by its logarithm."""

    tol: float
    tell: Callable[[int, int], None] | None = None
    look: Look | None = None  #: called with each point
    points: list[tuple[float, float]] = field(default_factory=list)
    _begun: float = field(default_factory=time.perf_counter)
    _first: float = 0.0
    _best: float = np.inf

    def __call__(self, gap: float) -> None:
        """Record ``gap``, the present estimate, and report progress; a callback may raise Cancelled."""
        now = time.perf_counter() - self._begun
        if not np.isfinite(gap):
            return
        if len(self.points) > 2 * PER_MILLE:
            del self.points[1::2]
        self.points.append((now, gap))
        if self.look is not None:
            self.look(now, gap)
        self._first = self._first or max(gap, 2.0 * self.tol)
        self._best = min(self._best, gap)
        if self.tell is not None:
            way = np.log(self._first / max(self._best, self.tol)) / np.log(self._first / self.tol)
            self.tell(int(PER_MILLE * np.clip(way, 0.0, 1.0)), PER_MILLE)
