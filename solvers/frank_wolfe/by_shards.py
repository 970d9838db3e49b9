"""The default search over shards: this process takes the block steps, and each shard updates g of its inactive rows.

The search is that of :mod:`.by_blocks`, but shards hold the parts of g of the inactive examples. For each update of g,
shards receive the rows with changed coefficients. Shards return counts of violating rows, and the rows that become
active. At the end all shards together compute g again to prove the gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from livesvm.solvers.frank_wolfe import growth
from livesvm.solvers.frank_wolfe.active_row_cache import ActiveRows
from livesvm.solvers.frank_wolfe.blocks import Active, optimize, relative_gap
from livesvm.solvers.frank_wolfe.by_blocks import TRUSTED, close_gap
from livesvm.solvers.frank_wolfe.problem import CLEAR, FAR, SMALL, Gap, since
from livesvm.solvers.frank_wolfe.shard import CoefficientChange, Crew, Outside, Shard, ShardLost, Taken
from livesvm.solvers.frank_wolfe.solution import GapTrace
from livesvm.solvers.kernels.matrix_products import PreparedRows, joined
from livesvm.solvers.runtime.types import Floats, Ints

SEEDS = 2**31


@dataclass(frozen=True)
class Over:
    """A problem of two classes with its rows distributed over shards."""

    crew: Crew  #: the shards, each of which has begun with this problem
    counts: Ints  #: (shards, 2) numbers of rows of each class
    norm: float  #: the largest gamma |x|^2
    threads: int  #: most threads that work here at once
    begin: Sequence[Callable[[Shard], Ints]]  #: functions with which shards have begun

    @property
    def n(self) -> int:
        """How many rows there are."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class ShardedSolution:
    """A solution: shard, row in the shard, and ``a_i y_i`` of each example with a coefficient; the ``a_i`` sum to 1."""

    shard: Ints
    rows: Ints
    coefficients: Floats
    R: float
    gap: Gap
    steps: int
    kernel_values: int
    is_converged: bool
    trace: Floats


class ShardedSearch:
    """The state of the search: the active examples, and the reports of the shards on all other examples."""

    def __init__(self, over: Over, cache_bytes: int, random: np.random.Generator) -> None:
        self.over, self.random, self._cache_bytes = over, random, cache_bytes
        self.is_double = over.n <= SMALL or over.norm > FAR
        self.computed = self.steps = 0
        self.outside: list[Outside] = []
        self._begin(self._take(np.inf, over.counts, growth.of_first(over.counts.sum(axis=0))))

    def resume(self) -> None:
        """Send the active rows to the shards again; the next ``look`` recomputes g of all inactive rows."""
        own = [np.flatnonzero(self._shard == s) for s in range(len(self.over.counts))]
        self.over.crew.each([partial(Shard.hold, at=self._at[some]) for some in own])
        self.seen = np.zeros(self._at.size)

    def _take(self, below: float, there: Ints, counts: Ints) -> list[Taken]:
        """Activate ``counts`` (2,) random rows by class; ``there`` (shards, 2) counts the rows with g < ``below``."""
        each = np.stack([_by_chance(there[:, c], int(counts[c]), self.random) for c in (0, 1)], axis=1)
        seeds = self.random.integers(SEEDS, size=len(there)).tolist()
        return self.over.crew.each(
            [partial(Shard.take, below=below, counts=own, seed=seed) for own, seed in zip(each, seeds, strict=True)]
        )

    def _begin(self, taken: list[Taken]) -> None:
        """Make the rows ``taken`` the active examples, with coefficients of 0."""
        self._shard, self._at, self._rows, self._costs = _of_all(taken)
        self._double = joined([own.examples for own in taken])
        of_class = np.concatenate([own.of_class for own in taken])
        rows = ActiveRows(self._quick(), self._cache_bytes, self.over.threads, self.random, self.over.n)
        parts = np.ascontiguousarray(np.hstack([own.parts for own in taken]))
        self.active = _active(self._costs, of_class, np.zeros(of_class.size), parts, rows)
        self.seen = np.zeros(of_class.size)

    def _quick(self) -> PreparedRows:
        return self._double if self.is_double else self._double.single()

    def add(self) -> None:
        """Activate all rows that violate or nearly violate optimality, or a random choice of rows if too many do."""
        capacity = (growth.GROWTH - 1) * self.active.b.size
        is_few = sum(int(reported.violating.sum()) for reported in self.outside) <= capacity
        below = 1.0 + growth.NEAR if is_few else np.inf
        there = np.stack([reported.near if is_few else reported.all for reported in self.outside])
        counts = growth.shared(there.sum(axis=0), capacity)
        if counts.any():
            self._admit(self._take(below, there, counts))

    def _admit(self, taken: list[Taken]) -> None:
        active, stay = self.active, np.arange(self.active.b.size)
        shard, at, rows, costs = _of_all(taken)
        new = joined([own.examples for own in taken])
        if stay.size + at.size <= active.rows.values.shape[1]:
            self._double = joined([self._double, new])
            active.rows.extend(self._quick())
        else:
            stay = growth.staying(active.b, active.parts.sum(axis=0))
            self._drop(stay)
            self._double = joined([self._double.take(stay), new])
            active.rows.change(self._quick(), stay)
        self._shard, self._at = np.append(self._shard[stay], shard), np.append(self._at[stay], at)
        self._rows, self._costs = np.append(self._rows[stay], rows), np.append(self._costs[stay], costs)
        no_example = np.zeros(at.size)
        b, self.seen = np.append(active.b[stay], no_example), np.append(self.seen[stay], no_example)
        of_class = np.concatenate([active.of_class[stay], *(own.of_class for own in taken)])
        parts = np.hstack([active.parts[:, stay], *(own.parts for own in taken)])
        self.active = _active(self._costs, of_class, b, np.ascontiguousarray(parts), active.rows)

    def _drop(self, stay: Ints) -> None:
        """Deactivate all examples except ``stay``, and send their parts of g back to the shards."""
        gone = np.ones(self._at.size, bool)
        gone[stay] = False
        works = []
        for s in range(len(self.over.counts)):
            own = np.flatnonzero(gone & (self._shard == s))
            works.append(partial(Shard.drop, at=self._at[own], parts=self.active.parts[:, own]))
        self.over.crew.each(works)

    def optimize(self, tol: float, most: int, trace: GapTrace) -> bool:
        """Optimize the coefficients of the active examples; return whether the gap among these is ``tol``."""
        steps, is_there = optimize(self.active, tol, most - self.steps, trace)
        self.steps += steps
        return is_there

    def look(self) -> None:
        """Send the changes of coefficients to the shards, which update the parts of g of their inactive rows."""
        active = self.active
        scales, changes = since(active.of_class, active.b, self.seen)
        indices = np.flatnonzero(changes)
        self.computed += indices.size * (self.over.n - active.b.size)
        change = CoefficientChange(scales, active.rows.examples.take(indices), self._weights(changes, indices))
        self.outside = self.over.crew.everywhere(partial(Shard.look, change=change))
        self.seen = active.b.copy()

    def prove(self) -> None:
        """Let the shards compute g in double precision, except where a large g makes single precision suffice."""
        active = self.active
        indices = np.flatnonzero(active.b)
        change = CoefficientChange(np.zeros(2), self._double.take(indices), self._weights(active.b, indices))
        before = active.parts.sum(axis=0)
        errors = self._prove(change, wholly=False)
        outside = [error for error in errors if error is not None]
        error = max(outside) if outside else float(np.abs(active.parts.sum(axis=0) - before).max())
        if error > TRUSTED * CLEAR:
            self._prove(change, wholly=True)
        self.seen = active.b.copy()

    def _prove(self, change: CoefficientChange, *, wholly: bool) -> list[float | None]:
        active, count = self.active, len(self.over.counts)
        scale = float(active.b.sum() / (active.b @ active.parts.sum(axis=0)))
        own = [np.flatnonzero(self._shard == s) for s in range(count)]
        work = partial(Shard.prove, change=change, scale=scale, wholly=wholly)
        proofs = self.over.crew.each([partial(work, at=self._at[some]) for some in own])
        for some, proof in zip(own, proofs, strict=True):
            active.parts[:, some] = proof.parts
        active.parts[active.of_class, np.arange(active.b.size)] += active.ridge * active.b
        self.outside = [proof.outside for proof in proofs]
        return [proof.error for proof in proofs]

    def _weights(self, changes: Floats, indices: Ints) -> Floats:
        weights = np.zeros((indices.size, 2))
        weights[np.arange(indices.size), self.active.of_class[indices]] = (changes * self.active.y)[indices]
        return weights

    def use_double(self) -> bool:
        """Continue in double precision; return False if the search has done so before."""
        if self.is_double:
            return False
        self.is_double = True
        self.computed += self.active.rows.computed
        own = self._cache_bytes, self.over.threads, self.random, self.over.n
        self.active.rows = ActiveRows(self._double, *own)
        return True

    def gap(self) -> float:
        """Return the relative gap over all examples, which is as exact as the parts of g."""
        return relative_gap(self.active, min(reported.least for reported in self.outside))

    def found(self, tol: float, trace: GapTrace) -> ShardedSolution:
        """Return the solution with its proved gap."""
        active, relative = self.active, self.gap()
        trace(relative)
        g = active.parts.sum(axis=0)
        total, square = float(active.b.sum()), float(active.b @ g)
        scale = total / square
        f = scale * (g - active.ridge * active.b)
        losses = 0.5 * float(self._costs @ np.maximum(0.0, 1.0 - f) ** 2)
        losses += sum(self.over.crew.everywhere(partial(Shard.losses, scale=scale)))
        primal = 0.5 * scale**2 * (square - float(active.ridge @ active.b**2)) + losses
        indices = np.flatnonzero(active.b)
        return ShardedSolution(
            self._shard[indices],
            self._rows[indices],
            (active.b * active.y)[indices] / total,
            square / total**2,
            Gap(relative, primal, 0.5 * total * scale),
            self.steps,
            self.computed + active.rows.computed,
            relative <= tol,
            np.array(trace.points),
        )


def solve(
    over: Over, tol: float, *, cache_bytes: int, most_steps: int, random: np.random.Generator, trace: GapTrace
) -> ShardedSolution:
    """Return a solution with a relative gap of ``tol``, unless rounding or ``most_steps`` blocks end the search sooner.

    If a shard is lost, the search continues from its present coefficients.
    """
    search: ShardedSearch | None = None
    while True:
        try:
            if search is None:
                search = ShardedSearch(over, cache_bytes, random)
            else:
                search.resume()
            close_gap(search, over.n, tol, most_steps, trace)
            return search.found(tol, trace)
        except ShardLost:
            over.crew.prepare(over.begin)


def _active(costs: Floats, of_class: Ints, b: Floats, parts: Floats, rows: ActiveRows) -> Active:
    return Active(np.arange(b.size), np.where(of_class == 1, 1.0, -1.0), 1.0 / costs, of_class, b, parts, rows)


def _of_all(taken: Sequence[Taken]) -> tuple[Ints, Ints, Ints, Floats]:
    """Return shard, position in the shard's problem, row in the shard, and cost, of all rows taken from shards."""
    shard = np.repeat(np.arange(len(taken)), [own.at.size for own in taken])
    at, rows, costs = (np.concatenate([own[i] for own in taken]) for i in (0, 1, 4))
    return shard, at, rows, costs


def _by_chance(there: Ints, count: int, random: np.random.Generator) -> Ints:
    """Return how many of ``count`` random rows to draw from each shard; ``there`` holds the shards' numbers of rows."""
    if count >= int(there.sum()):
        return there
    return np.asarray(random.multivariate_hypergeometric(there, count, method="marginals"))
