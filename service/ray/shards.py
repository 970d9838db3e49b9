"""Retrain over shards: workers of the Ray cluster hold the rows of a dataset, and one process directs the search.

A lost worker is replaced by a new one, wherever there is space. A new worker reads the rows of a lost one again and
prepares them as before; the search continues from its present coefficients. Too many losses end the retraining with
WorkerLost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np
import ray
from ray.exceptions import RayError
from scipy import sparse
from threadpoolctl import threadpool_limits

from livesvm.service.datasets.arrays import memory_of
from livesvm.service.errors import WorkerLost
from livesvm.service.jobs import retraining_worker
from livesvm.service.jobs.retraining_worker import Trained, Work, checked_labels, error_on, held_back, table_of
from livesvm.service.ray.file_transfer import PIECE, Reading, reading
from livesvm.service.ray.messages import Answer, answered, packed, unpacked
from livesvm.service.ray.places import PROCESS_BYTES, WORKER_CORES
from livesvm.service.resources.memory import MEGABYTE
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.estimators.over_shards import OverShards, Sharded
from livesvm.solvers.frank_wolfe.shard import Preparation, Shard, ShardLost, cut
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.tables.columns import given

LOSSES = 8
"""Most lost workers that a retraining replaces."""
COPIES = 4
"""Copies of a shard's rows in memory: as received and joined; or prepared in two precisions, and rows in use."""

T = TypeVar("T")
Document = dict[str, Any]
log = logging.getLogger(__name__)


class ShardActor:
    """A worker that holds a shard."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []

    def ready(self) -> None:
        """Do nothing; the answer shows that the worker runs."""

    def feed(self, answer: bytes) -> None:
        """Add a block of rows to the shard; raises the error of the reader, if ``answer`` has one."""
        self._pieces.append(unpacked(answer).result())

    def do(self, work: bytes) -> bytes:
        """Do some work on the shard; return its packed result or error."""
        with threadpool_limits(1, "blas"):
            return answered(lambda: unpacked(work)(self._shard))

    @cached_property
    def _shard(self) -> Shard:
        pieces, self._pieces = self._pieces, []
        return Shard(sparse.vstack(pieces, format="csr") if sparse.issparse(pieces[0]) else np.concatenate(pieces))


class RayCrew:
    """Shards in workers of the cluster, which end with this process.

    Parameters
    ----------
    rows : reader of the dataset; a row takes ``width`` bytes
    parts : the dataset's rows in each shard
    memory : bytes of memory that a worker requests from the cluster
    seconds : longest wait until the cluster has space for the workers
    """

    def __init__(self, rows: Reading, parts: Sequence[slice], width: int, memory: int, seconds: float) -> None:
        """Start the workers, and send them their rows; raises WorkerLost if there is no space for them."""
        self._rows, self._parts, self._step = rows, parts, max(1, PIECE // max(1, width))
        self._memory, self._seconds = memory, seconds
        self._preparation, self.losses = Preparation(), 0
        self._actors = [self._started() for _ in parts]
        self._wait_for(self._actors)
        try:
            self._feed(range(len(parts)))
        except RayError as error:
            what = f"one of {len(parts)} shards was lost while it took its rows ({type(error).__name__})"
            raise WorkerLost(f"{what}; ask for it again") from error

    def _started(self) -> Any:
        made: Any = ray.remote(ShardActor)
        return made.options(num_cpus=WORKER_CORES, memory=self._memory, scheduling_strategy="SPREAD").remote()

    def _wait_for(self, actors: Sequence[Any]) -> None:
        there, _ = ray.wait([actor.ready.remote() for actor in actors], num_returns=len(actors), timeout=self._seconds)
        if len(there) < len(actors):
            each = f"a core and {self._memory // MEGABYTE} MB"
            what = "in place of a lost one" if self.losses else "shards"
            room = f"there was room on the cluster for {len(there)} of {len(actors)} {what}"
            raise WorkerLost(f"{room}; each takes {each}")

    def _feed(self, which: Sequence[int]) -> None:
        """Send shards their rows from the reader, a block at a time."""
        parts = [self._parts[s] for s in which]
        for at in range(0, max(part.stop - part.start for part in parts), self._step):
            under_way = []
            for s, part in zip(which, parts, strict=True):
                first, last = min(part.stop, part.start + at), min(part.stop, part.start + at + self._step)
                if last > first:
                    under_way.append(self._actors[s].feed.remote(self._rows.asked("take", slice(first, last))))
            ray.get(under_way)

    def prepare(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """Do each of ``works`` on its own shard, and return the results; replace a lost shard and repeat its work."""
        name = self._preparation.keep(works)
        found = self._tried([packed(work) for work in works])
        return [self._replaced(s)[name] if answer is None else answer.value for s, answer in enumerate(found)]

    def everywhere(self, work: Callable[[Shard], T]) -> list[T]:
        """Do ``work`` on all shards at the same time, and return the results; raises ShardLost."""
        return self._found(self._tried([ray.put(packed(work))] * len(self._actors)))

    def each(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """Do each of ``works`` on its own shard, all at the same time, and return the results; raises ShardLost."""
        return self._found(self._tried([packed(work) for work in works]))

    def _tried(self, works: Sequence[Any]) -> list[Answer | None]:
        """Return the answer of each shard, None for a lost shard; raises the first error that the work raised."""
        references = [actor.do.remote(work) for actor, work in zip(self._actors, works, strict=True)]
        found: list[Answer | None] = []
        for reference in references:
            try:
                found.append(unpacked(ray.get(reference)))
            except RayError as error:
                log.warning("shard %d of %d was lost: %s", len(found) + 1, len(references), type(error).__name__)
                found.append(None)
        for answer in found:
            if answer is not None:
                answer.result()
        return found

    def _found(self, answers: Sequence[Answer | None]) -> list[Any]:
        lost = [s for s, answer in enumerate(answers) if answer is None]
        for s in lost:
            self._replaced(s)
        if lost:
            raise ShardLost
        return [answer.value for answer in answers if answer is not None]

    def _replaced(self, s: int) -> dict[str, Any]:
        """Replace a lost worker; return, by name, the results of the preparation that the new worker has repeated."""
        while True:
            self.losses += 1
            if self.losses > LOSSES:
                what = f"shard {s + 1} of {len(self._actors)} was lost, after {LOSSES} others"
                raise WorkerLost(f"{what}; ask for it again")
            with suppress(RayError):
                ray.kill(self._actors[s])  # it may only be out of reach
            self._actors[s] = self._started()
            self._wait_for([self._actors[s]])
            with suppress(RayError):
                self._feed([s])
                return {name: self._value(s, work) for name, work in self._preparation.of(s).items()}

    def _value(self, s: int, work: Callable[[Shard], Any]) -> Any:
        return unpacked(ray.get(self._actors[s].do.remote(packed(work)))).result()


def retrain(asked: Document, tell: Callable[[Document], None]) -> Document:
    """Retrain as :func:`.retraining_worker.retrain` does, over shards of the dataset."""
    with _joined(asked["cluster"]["address"]):
        return retraining_worker.retrain(asked, tell, _on_shards)


@contextmanager
def _joined(address: str) -> Iterator[None]:
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise WorkerLost(f"there is no Ray cluster at {address!r}: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _on_shards(work: Work, model: LiveL2SVC, how: Document) -> tuple[Trained, int, Document]:
    described, count = work.asked["dataset"]["described"], int(work.asked["shards"])
    n, size = int(described["n_examples"]), memory_of(described)
    columns = given(described["columns"]) if described.get("columns") else None
    table, places = table_of(work, columns)
    with reading(work.asked["dataset"]["where"], described) as rows:
        y, weights = rows.ask("columns")
        marks = rows.ask("marks") if described["has_keys"] else None
        labels = checked_labels(work, y, model.labels_)
        scale = None if table is None else rows.ask("fit", table, places, ~work.held_back(n))
        memory = PROCESS_BYTES + COPIES * size // count
        parts = cut(n, count)
        crew = RayCrew(rows, parts, size // n, memory, work.asked["cluster"]["seconds"])
        data = Sharded(
            crew, parts, labels, np.ones(n) if weights is None else weights, partial(rows.ask, "take"), marks, scale
        )
        found, n, reported = _trained(work, model, data, how)
        return found, n, reported | {"shards": count, "lost_shards": crew.losses}


def _trained(work: Work, model: LiveL2SVC, data: Sharded, how: Document) -> tuple[Trained, int, Document]:
    n = data.y.size
    held, reported = work.held_back(n), Document()
    over = OverShards(model, data, ~held)
    settings = {name: how[name] for name in ("threads", "look", "progress")}
    if held.any():
        over.train(~held, how["tol"], **settings)
        reported = _error(work, model, data, np.flatnonzero(held))
    return over.train(np.ones(n, bool), how["tol"], **settings), n, reported


def _error(work: Work, model: LiveL2SVC, data: Sharded, out: Any) -> Document:
    """Return the report of the error on the held-out rows, which are read a block at a time."""
    step = max(1, PIECE // (8 * int(work.asked["dataset"]["described"]["n_features"])))
    parts = [out[start : start + step] for start in range(0, out.size, step)]
    wrong = sum(error_on(work, model, data.take(part), data.y[part]) * part.size for part in parts)
    return held_back(work, out.size, wrong / out.size)
