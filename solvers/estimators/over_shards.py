"""Training of the large-scale classifier on examples distributed over shards, in this process or in others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.errors import InvalidInput, NotOptimal
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.estimators.training_data import check_costs
from livesvm.solvers.frank_wolfe import by_shards
from livesvm.solvers.frank_wolfe.by_shards import Over, ShardedSolution
from livesvm.solvers.frank_wolfe.one_versus_one import PairsTrace, pairs
from livesvm.solvers.frank_wolfe.shard import Crew, Shard
from livesvm.solvers.frank_wolfe.solution import BLOCKS, PER_MILLE, GapTrace, Look
from livesvm.solvers.kernels.matrix_products import DENSE
from livesvm.solvers.models.class_labels import labels_after
from livesvm.solvers.models.large_predictor import Trained
from livesvm.solvers.runtime.progress import Progress, steadily
from livesvm.solvers.runtime.threads import one_blas_thread
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.tables.encoding import TableEncoding

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Sharded:
    """A training set with its features in shards, and its labels and weights in this process."""

    crew: Crew  #: the shards
    parts: Sequence[slice]  #: which rows of all each has, in their order
    y: NDArray[Any]  #: (n,) labels of all rows
    weights: Floats  #: (n,)
    take: Callable[[Ints], Any]  #: features of rows by their numbers, (k, d), dense or CSR
    names: NDArray[Any] | None = None  #: (n, ...) names of the rows
    scale: TableEncoding | None = None  #: of a table; its rows are encoded

    def each(self, column: NDArray[Any]) -> list[NDArray[Any]]:
        """Split a column (n,) into the parts of the shards."""
        return [column[part] for part in self.parts]


@dataclass(frozen=True)
class Trainings:
    """The result of a training: the largest gap of all pairs, the number of blocks, and the gap over time."""

    relative_gap: float
    steps: int
    trace: Floats


class OverShards:
    """Trains a model one or several times on the rows of shards, which are prepared once.

    Parameters
    ----------
    counts : (n,) the rows of the first training, which determine the gamma "scale"

    Raises
    ------
    InvalidInput : labels that are none, or numbers too large
    """

    def __init__(self, model: LiveL2SVC, data: Sharded, counts: Mask) -> None:
        self._model, self._data = model, data
        self._labels = labels_after(model.labels_, data.y, data.y.size, "y", is_fixed=model.classes is not None)[1]
        self._prepare(np.where(counts, data.weights, 0.0))

    def _prepare(self, weights: Floats) -> None:
        crew, parts = self._data.crew, self._data.each(weights)
        sums = crew.prepare([partial(Shard.sums, weights=own) for own in parts])
        n, width = sum(own.n for own in sums), sums[0].columns.size
        if n == 0:
            raise InvalidInput("there is no example with a weight", field="sample_weight")

        def scale() -> float:
            total = sum(own.weight for own in sums) * width
            mean = sum(own.weighted for own in sums) / total
            variance = sum(crew.prepare([partial(Shard.squares, weights=own, mean=mean) for own in parts])) / total
            return 1.0 / (width * variance) if variance > 0.0 else 1.0

        kernel = self._model.kernel_by(scale)
        is_dense = sum(own.stored for own in sums) > DENSE * self._data.y.size * width
        center = sum((own.columns for own in sums), np.zeros(width)) / n if is_dense else None
        found = crew.prepare([partial(Shard.prepare, kernel=kernel, center=center)] * len(parts))
        for part, own in zip(self._data.parts, found, strict=True):
            if own.wrong is not None:
                raise InvalidInput(own.reason, field="X", row=part.start + own.wrong)
        self._kernel, self._norm = kernel, max(own.norm for own in found)

    def train(
        self,
        counts: Mask,
        tol: float,
        *,
        threads: int = 1,
        progress: Progress | None = None,
        look: Look | None = None,
    ) -> Trainings:
        """Train on the rows in the mask ``counts`` (n,), from coefficients of 0; after an error the model is unchanged.

        Parameters
        ----------
        tol : relative gap
        threads : how many may work here, besides the shards
        progress : called with how much is done and how much there is; returning False cancels
        look : called with the gap as it gets smaller

        Raises
        ------
        InvalidInput : of one class alone, or all weights are zero
        NotOptimal : the gap was not reached
        Cancelled
        """
        data, model = self._data, self._model
        counts = counts & (data.weights > 0)
        classes = np.unique(self._labels[counts])
        if classes.size < 2:
            reason = f"all examples have one class, {classes[0]}; two classes are needed" if classes.size else ""
            raise InvalidInput(reason or "there is no example with a weight", field="y" if reason else "sample_weight")
        costs = float(model.C) * data.weights
        check_costs(costs[counts])
        codes = np.where(counts, np.searchsorted(classes, self._labels), -1)
        own = zip(data.each(codes), data.each(costs), strict=True)
        data.crew.prepare([partial(Shard.assign, codes=mine, costs=theirs) for mine, theirs in own])
        todo, found = pairs(classes.size), []
        with steadily(progress, PER_MILLE if len(todo) == 1 else len(todo)) as tell, one_blas_thread():
            reported = PairsTrace(len(todo), tell, look)
            for q, two in enumerate(todo):
                found.append(self._pair(*two, threads, reported.of(q, tol)))
                reported.ended()
        model.predict_by(self._trained(classes, found))
        return Trainings(
            max(own.gap.relative for own in found), sum(own.steps for own in found), np.array(reported.points)
        )

    def _pair(self, negative: int, positive: int, threads: int, trace: GapTrace) -> ShardedSolution:
        crew = self._data.crew
        begin = [partial(Shard.begin, negative=negative, positive=positive)] * len(self._data.parts)
        over = Over(crew, np.stack(crew.prepare(begin)), self._norm, threads, begin)
        cache = int(2**20 * float(self._model.cache_mb))
        random = np.random.default_rng(0)
        found = by_shards.solve(over, trace.tol, cache_bytes=cache, most_steps=BLOCKS, random=random, trace=trace)
        if not found.is_converged:
            reason = f"the relative gap is {found.gap.relative:.2g} after {found.steps} steps, not {trace.tol:g}"
            raise NotOptimal(reason)
        return found

    def _trained(self, classes: NDArray[Any], found: Sequence[ShardedSolution]) -> Trained:
        starts = np.array([part.start for part in self._data.parts])
        rows = [starts[own.shard] + own.rows for own in found]
        support = np.unique(np.concatenate(rows))
        coefficients = np.zeros((len(found), support.size))
        for q, (own, at) in enumerate(zip(found, rows, strict=True)):
            coefficients[q, np.searchsorted(support, at)] = own.coefficients
        R = np.array([own.R for own in found])
        gap = max(own.gap.relative for own in found)
        names = None if self._data.names is None else self._data.names[support]
        rows_of = self._data.take(support)
        return Trained(classes, self._kernel, rows_of, coefficients, R, gap, names=names, scale=self._data.scale)
