"""A model from what is stored: the newest good snapshot, then the log's tail."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from service.journal import Source
from service.model import ModelState
from service.schemas import ModelSpec
from service.store.base import Lease, LogRecord, StoreDamaged
from service.versions import answer_to, decode_entry, reapply
from solvers.errors import SolverError

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
    """The model as it was after its last acknowledged update; raises StoreError if that cannot be had."""
    with source.health.store_call("load"):
        state, damaged = _newest_good(source, lease.model, spec, cache_mb)
        newest = source.store.last_sequence(lease)
        start = state.version
        replayed, began = 0, time.perf_counter()
        for record in source.store.log(lease.model, state.sequence):
            if record.sequence != state.sequence + 1:
                raise StoreDamaged(f"the log of model {lease.model} lacks record {state.sequence + 1}")
            replayed += _replay(source, lease, state, record, is_newest=record.sequence == newest)
    if state.sequence != newest:
        raise StoreDamaged(f"the log of model {lease.model} ends at record {state.sequence} of {newest}")
    return Recovered(state, start, replayed, damaged, time.perf_counter() - began)


def _newest_good(source: Source, model: str, spec: ModelSpec, cache_mb: int) -> tuple[ModelState, int]:
    """The newest snapshot that can be trusted, or the empty model; and how many were damaged."""
    damaged = 0
    for snapshot in source.store.snapshots(model):
        try:
            return ModelState.decode(spec, cache_mb, source.store.load_snapshot(model, snapshot.sequence)), damaged
        except StoreDamaged as error:
            damaged += 1
            source.metrics.snapshots.labels("damaged").inc()
            log.warning("model %s: snapshot %d is damaged, falling back: %s", model, snapshot.sequence, error)
    return ModelState.empty(spec, cache_mb), damaged


def _replay(source: Source, lease: Lease, state: ModelState, record: LogRecord, *, is_newest: bool) -> bool:
    """Apply one record again; False if it has no effect."""
    if record.aborted:
        state.skip()
        return False
    entry = decode_entry(record.data)
    try:
        outcome = reapply(state, entry)
    except SolverError as error:
        if not is_newest:
            reason = f"record {record.sequence} of model {lease.model} can no longer be applied: {error}"
            raise StoreDamaged(reason) from error
        # The process died before it could say that this command cannot be applied: nobody was told that it was.
        source.store.abort(lease, record.sequence)
        state.skip()
        return False
    if entry.request is not None:
        earlier = source.store.recall(lease.model, entry.request)
        if earlier is not None and earlier.answer is None:
            answer = answer_to(entry, state.version, outcome, source.store.durability())
            source.store.remember(lease, entry.request, answer)
    return True
