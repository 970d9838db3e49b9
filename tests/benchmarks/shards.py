"""Retraining over shards against retraining in one process: what the shards themselves cost, and what Ray adds.

    python -m tests.benchmarks.shards [--set a9a] [--shards 1 2 4] [--ray 2] [--C 10] [--tol 0.1] [--data DIRECTORY]

Every row is one training of the default on the same examples: in one process, over shards in this process, and, with
``--ray``, over as many workers of a Ray cluster on this machine. ``looks`` is the share of the clock's time in
which the shards are asked, which is what more machines could share; the rest are steps on the active examples.
Processor time is that of all processes, without the start of workers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.estimators.over_shards import OverShards, Sharded
from livesvm.solvers.frank_wolfe.shard import Crew, Shard, cut
from tests.benchmarks.printing import machine, table
from tests.benchmarks.sets import DATA, read
from tests.oracle import Matrix, Vector
from tests.support.shards_here import Here

T = TypeVar("T")


class Times(NamedTuple):
    """Processor time, and time by the clock."""

    work: float
    clock: float


class Timed:
    """Shards, and the time in which they were asked."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.seconds = 0.0

    def prepare(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """Prepare as the crew does."""
        began = time.perf_counter()
        found = self._crew.prepare(works)
        self.seconds += time.perf_counter() - began
        return found

    def everywhere(self, work: Callable[[Shard], T]) -> list[T]:
        """Run everywhere as the crew does."""
        began = time.perf_counter()
        found = self._crew.everywhere(work)
        self.seconds += time.perf_counter() - began
        return found

    def each(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """Run for each as the crew does."""
        began = time.perf_counter()
        found = self._crew.each(works)
        self.seconds += time.perf_counter() - began
        return found


class Rows:
    """Rows that are here, for workers to take."""

    def __init__(self, X: Matrix) -> None:
        self._X = X

    def asked(self, what: str, rows: slice) -> bytes:
        """Return some."""
        from livesvm.service.ray.messages import Answer, packed

        return packed(Answer(self._X[rows]))


def model_of(options: argparse.Namespace, X: Matrix) -> LiveL2SVC:
    """Return the model that every row trains."""
    return LiveL2SVC(C=options.C, gamma=1.0 / X.shape[1])


def alone(options: argparse.Namespace, X: Matrix, y: Vector) -> list[str]:
    """Return a row of one process."""
    model, began, clock = model_of(options, X), time.process_time(), time.perf_counter()
    found = model.retrain_on(X, y, tol=options.tol)
    times = Times(time.process_time() - began, time.perf_counter() - clock)
    return row("one process", times, None, found.relative_gap, found.steps, model)


def sharded(options: argparse.Namespace, X: Matrix, y: Vector, crew: Crew, parts: list[slice], name: str) -> list[str]:
    """Return a row over shards."""
    model, timed, every_example = model_of(options, X), Timed(crew), np.ones(y.size, bool)
    data = Sharded(timed, parts, y, np.ones(y.size), lambda rows: X[rows])
    began, clock = worked(crew), time.perf_counter()
    found = OverShards(model, data, every_example).train(every_example, options.tol)
    times = Times(worked(crew) - began, time.perf_counter() - clock)
    return row(name, times, timed.seconds / times.clock, found.relative_gap, found.steps, model)


def worked(crew: Crew) -> float:
    """Processor time of this process and of those that hold shards."""
    from tests.benchmarks import shards  # not as __main__, which workers do not know

    own = time.process_time()
    return own if isinstance(crew, Here) else own + sum(crew.everywhere(shards.of_process))


def of_process(_: Shard) -> float:
    """Return the processor time of a shard's process."""
    return time.process_time()


def row(name: str, times: Times, looks: float | None, gap: float, steps: int, model: LiveL2SVC) -> list[str]:
    """Return what is printed of a training."""
    reported = "" if looks is None else f"{looks:.0%}"
    return [
        name,
        f"{times.work:.1f} s",
        f"{times.clock:.1f} s",
        reported,
        f"{gap:.3f}",
        str(steps),
        str(model.predictor().n_support),
    ]


def over_ray(options: argparse.Namespace, X: Matrix, y: Vector) -> list[str]:
    """Return a row over workers of a cluster."""
    import ray

    from livesvm.service.ray.shards import RayCrew
    from livesvm.service.resources.memory import MEGABYTE
    from tests.support.ray_cluster import RayCluster

    with RayCluster(options.ray) as cluster:
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        parts = cut(y.size, options.ray)
        crew = RayCrew(cast(Any, Rows(X)), parts, X.shape[1] * X.itemsize, 512 * MEGABYTE, 60.0)
        found = sharded(options, X, y, crew, parts, f"{options.ray} on Ray")
        ray.shutdown()
    return found


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="a9a")
    parser.add_argument("--shards", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--ray", type=int, default=0, help="workers, each on a node of its own; 0: none")
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--tol", type=float, default=0.1)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    X, y = read(options.set, options.data)
    y = np.where(y == y.max(), 1.0, -1.0)
    rows = [alone(options, X, y)]
    for count in options.shards:
        parts = cut(y.size, count)
        here = Here([Shard(X[part]) for part in parts])
        rows.append(sharded(options, X, y, here, parts, f"{count} here"))
    if options.ray:
        rows.append(over_ray(options, X, y))
    print(machine(), f"{options.set}: {X.shape[0]} examples, {X.shape[1]} features", sep="\n")
    print(table(["shards", "processor time", "by the clock", "looks", "gap", "blocks", "support"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
