"""Retraining over shards: workers of the cluster hold the rows of a dataset, and a process beside the service steers.

A worker that is lost takes its part of the gradient along, and ends the retraining with that error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np
import ray
from ray.exceptions import RayError
from scipy import sparse
from threadpoolctl import threadpool_limits

from livesvm.service.errors import WorkerLost
from livesvm.service.jobs import retraining_worker
from livesvm.service.jobs.retraining_worker import Trained, Work, checked_labels, error_on, held_back
from livesvm.service.ray.carrier import PIECE, Reading, reading
from livesvm.service.ray.messages import Answer, packed, unpacked
from livesvm.service.resources.memory import MEGABYTE
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.estimators.over_shards import OverShards, Sharded
from livesvm.solvers.frank_wolfe.shard import Shard, cut

PROCESS_BYTES = 300 * MEGABYTE
"""What a worker takes beside its rows."""
COPIES = 4
"""Of its rows in memory: as they come and put together; or prepared in two precisions, and those that are looked at."""

T = TypeVar("T")
Document = dict[str, Any]


class ShardActor:
    """A worker that holds a shard."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self._shard: Shard | None = None

    def ready(self) -> None:
        """Answer."""

    def stay(self) -> None:
        """Answer never, beside the work: who asks hears of a loss."""
        threading.Event().wait()

    def feed(self, answer: bytes) -> None:
        """Take rows, or the error of who was to read them."""
        told: Answer = unpacked(answer)
        if told.error is not None:
            raise told.error
        self._pieces.append(told.value)

    def do(self, work: bytes) -> bytes:
        """Do some work on the shard; what comes of it, or what it raises."""
        try:
            with threadpool_limits(1, "blas"):
                return packed(Answer(unpacked(work)(self._whole())))
        except Exception as error:
            return packed(Answer(error=error))

    def _whole(self) -> Shard:
        if self._shard is None:
            pieces, self._pieces = self._pieces, []
            put = sparse.vstack(pieces, format="csr") if sparse.issparse(pieces[0]) else np.concatenate(pieces)
            self._shard = Shard(put)
        return self._shard


class RayCrew:
    """Shards in workers of the cluster, which end with this process."""

    def __init__(self, count: int, memory: int, seconds: float) -> None:
        """Start them; raises WorkerLost if there is no room for them within so many ``seconds``."""
        made: Any = ray.remote(ShardActor)
        options = {"num_cpus": 1, "memory": memory, "scheduling_strategy": "SPREAD", "max_concurrency": 2}
        self._actors = [made.options(**options).remote() for _ in range(count)]
        ready = [actor.ready.remote() for actor in self._actors]
        there, _ = ray.wait(ready, num_returns=count, timeout=seconds)
        if len(there) < count:
            each = f"a core and {memory // MEGABYTE} MB"
            raise WorkerLost(f"there was room on the cluster for {len(there)} of {count} shards; each takes {each}")
        self._staying = [actor.stay.remote() for actor in self._actors]

    def check(self) -> None:
        """Raise WorkerLost if one was lost."""
        for reference in ray.wait(self._staying, timeout=0)[0]:
            self._got(self._staying.index(reference), reference)

    def feed(self, rows: Reading, parts: Sequence[slice], width: int) -> None:
        """Have each shard take its rows from who reads them, some at a time."""
        step = max(1, PIECE // max(1, width))
        for at in range(0, max(part.stop - part.start for part in parts), step):
            under_way = []
            for s, part in enumerate(parts):
                first, last = min(part.stop, part.start + at), min(part.stop, part.start + at + step)
                if last > first:
                    under_way.append((s, self._actors[s].feed.remote(rows.asked("rows", first, last))))
            for s, reference in under_way:
                self._got(s, reference)

    def everywhere(self, work: Callable[[Shard], T]) -> list[T]:
        """What ``work`` returns of each shard, all at once."""
        message = ray.put(packed(work))
        return self._answers([actor.do.remote(message) for actor in self._actors])

    def each(self, works: Sequence[Callable[[Shard], T]]) -> list[T]:
        """What each of ``works`` returns of its own shard, all at once."""
        asked = zip(self._actors, works, strict=True)
        return self._answers([actor.do.remote(packed(work)) for actor, work in asked])

    def _answers(self, references: Sequence[Any]) -> list[Any]:
        found = []
        for s, reference in enumerate(references):
            answer: Answer = unpacked(self._got(s, reference))
            if answer.error is not None:
                raise answer.error
            found.append(answer.value)
        return found

    def _got(self, s: int, reference: Any) -> Any:
        try:
            return ray.get(reference)
        except RayError as error:
            what = f"shard {s + 1} of {len(self._actors)} was lost ({type(error).__name__}); ask for it again"
            raise WorkerLost(what) from error


def retrain(asked: Document, tell: Callable[[Document], None]) -> Document:
    """Do what :func:`.retraining_worker.retrain` does, over shards of the dataset."""
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
    n, size = int(described["n_examples"]), int(described["bytes"])
    with reading(work.asked["dataset"]["where"], described) as rows:
        y, weights = rows.ask("columns")
        labels = checked_labels(work, y, model.labels_)
        memory = PROCESS_BYTES + COPIES * size // count
        crew, parts = RayCrew(count, memory, work.asked["cluster"]["seconds"]), cut(n, count)
        crew.feed(rows, parts, size // n)
        data = Sharded(crew, parts, labels, np.ones(n) if weights is None else weights, partial(rows.ask, "take"))
        found, n, told = _trained(work, model, data, crew, how)
        return found, n, told | {"shards": count}


def _trained(
    work: Work, model: LiveL2SVC, data: Sharded, crew: RayCrew, how: Document
) -> tuple[Trained, int, Document]:
    n = data.y.size
    held, told = work.held_back(n), Document()
    over = OverShards(model, data, ~held)

    def progress(done: int, total: int) -> bool:
        """Tell it while all shards are there."""
        crew.check()
        return bool(how["progress"](done, total))

    settings = {"threads": how["threads"], "look": how["look"], "progress": progress}
    if held.any():
        over.train(~held, how["tol"], **settings)
        told = _error(work, model, data, np.flatnonzero(held))
    return over.train(np.ones(n, bool), how["tol"], **settings), n, told


def _error(work: Work, model: LiveL2SVC, data: Sharded, out: Any) -> Document:
    """What is told of the error on rows that were held back, which come some at a time."""
    step = max(1, PIECE // (8 * int(work.asked["dataset"]["described"]["n_features"])))
    parts = [out[start : start + step] for start in range(0, out.size, step)]
    wrong = sum(error_on(work, model, data.take(part), data.y[part]) * part.size for part in parts)
    return held_back(work, out.size, wrong / out.size)
