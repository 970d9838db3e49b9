"""A model from what is stored: the newest good snapshot, then the log's tail."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from service.journal import Source
from service.model import ModelState
from service.replay import Replay
from service.schemas import ModelSpec
from service.store.base import Lease, SnapshotInfo, StoreDamaged, StoreError
from solvers.cores import at_work
from solvers.errors import MemoryLimit

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recovered:
    """A model that came back, and how: from which version, with how many commands, past how many damaged snapshots.

    ``replay_seconds`` is what it took to solve those commands again.
    """

    state: ModelState
    snapshot_version: int
    replayed: int
    damaged_snapshots: int
    replay_seconds: float = 0.0


def recover(source: Source, lease: Lease, spec: ModelSpec, cache_mb: int) -> Recovered:
    """The model as it was after its last acknowledged update; raises StoreError if that cannot be had.

    A model whose updates did fit into ``cache_mb`` may need a little more when it is put together anew, as its arrays
    have other spare room then. It may take twice as much: what was acknowledged comes before the limit.
    """
    try:
        return _recover(source, lease, spec, cache_mb)
    except MemoryLimit as error:
        log.warning("model %s: %s; it is restored with twice as much", lease.model, error)
    try:
        return _recover(source, lease, spec, 2 * cache_mb)
    except MemoryLimit as error:
        raise StoreError(f"{error}; LIVESVM_CACHE_MB is {cache_mb} and must be more for this model") from error


def _recover(source: Source, lease: Lease, spec: ModelSpec, cache_mb: int) -> Recovered:
    """The model with kernel rows of at most ``cache_mb``; raises MemoryLimit if they do not suffice."""
    with source.health.store_call("load"):
        newest = source.store.last_sequence(lease)
        snapshots = source.store.snapshots(lease.model)
        is_last = not snapshots or snapshots[0].sequence == newest
        with nullcontext() if is_last else at_work():  # a tail is replayed on one core: others can wait for that
            state, damaged = _newest_good(source, snapshots, lease.model, spec, cache_mb)
        replay = Replay(source, lease, state, newest)
        start, began = state.version, time.perf_counter()
        for record in source.store.log(lease.model, state.sequence):
            replay.take(record)
        replay.finish()
    if state.sequence != replay.newest:
        raise StoreDamaged(f"the log of model {lease.model} ends at record {state.sequence} of {replay.newest}")
    return Recovered(state, start, replay.replayed, damaged, time.perf_counter() - began)


def _newest_good(
    source: Source, snapshots: Sequence[SnapshotInfo], model: str, spec: ModelSpec, cache_mb: int
) -> tuple[ModelState, int]:
    """The newest snapshot that can be trusted, or the empty model; and how many were damaged."""
    damaged = 0
    for snapshot in snapshots:
        try:
            return ModelState.decode(spec, cache_mb, source.store.load_snapshot(model, snapshot.sequence)), damaged
        except StoreDamaged as error:
            damaged += 1
            source.metrics.snapshots.labels("damaged").inc()
            log.warning("model %s: snapshot %d is damaged, falling back: %s", model, snapshot.sequence, error)
    return ModelState.empty(spec, cache_mb), damaged
