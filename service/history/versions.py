"""Rebuild older versions of a model from its snapshots and its log."""

from __future__ import annotations

import sys

from livesvm.service.history.entries import LogEntry, decode_entry
from livesvm.service.models.commands import Outcome
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.store.base import LogRecord, Store, StoreDamaged
from livesvm.solvers.errors import InvalidInput, SolverError


def reapply(state: ModelState, entry: LogEntry) -> Outcome:
    """Apply an entry that succeeded when it was new, without a path if its path fails; raises SolverError."""
    try:
        return entry.apply(state)
    except SolverError:  # it succeeded before with other rounding errors; there is one optimum, so solve it afresh
        return entry.apply_cold(state)


def oldest_kept(store: Store, model: str) -> int:
    """Return the oldest version that can be rebuilt: that of the oldest snapshot, or 0 while the log is complete."""
    first = next(iter(store.log(model, 0)), None)
    snapshots = [snapshot for snapshot in store.snapshots(model) if not snapshot.is_damaged]
    if not snapshots or (first is not None and first.sequence == 1):
        return 0
    return snapshots[-1].version


def state_at(store: Store, spec: ModelSpec, cache_mb: int, model: str, version: int) -> ModelState:
    """Return the model at an earlier version; raises StoreError, or InvalidInput if the version is not kept."""
    state = _nearest(store, spec, cache_mb, model, version)
    if state is not None:
        for record in store.log(model, state.sequence):
            if state.version == version:
                break
            _pass(state, record, model)
    if state is None or state.version != version:
        newest = "" if state is None else f", the newest {state.version}"
        reason = f"version {version} is not kept; the oldest is {oldest_kept(store, model)}{newest}"
        raise InvalidInput(reason, field="version")
    return state


def decided_state(
    store: Store, spec: ModelSpec, cache_mb: int, model: str, head: int, state: ModelState | None
) -> ModelState:
    """Return a model that another service writes, up to record ``head``, by updating ``state`` if it is given.

    The last record is left out unless it was answered, because the record's writer may still abort it. All earlier
    records are final, because a writer marks aborted records before it appends the next record. Raises StoreError,
    NotSolved.
    """
    newest = max((one.sequence for one in store.snapshots(model) if not one.is_damaged), default=0)
    if state is None or state.sequence < newest:
        state = _nearest(store, spec, cache_mb, model, sys.maxsize)
    if state is None:
        raise StoreDamaged(f"no snapshot of model {model} is whole, and its log does not reach back to its beginning")
    for record in store.log(model, state.sequence):
        if record.sequence > head or (record.sequence == head and not _is_decided(store, model, record)):
            break
        _pass(state, record, model)
    return state


def _is_decided(store: Store, model: str, record: LogRecord) -> bool:
    """Return whether a record is known to be answered; False for a record without an idempotency key."""
    request = decode_entry(record.data).request
    known = None if request is None else store.recall(model, request)
    return known is not None and known.answer is not None


def _nearest(store: Store, spec: ModelSpec, cache_mb: int, model: str, version: int) -> ModelState | None:
    """Return the model of the newest good snapshot up to a version, or an empty model if the log is complete."""
    snapshots = store.snapshots(model)
    for snapshot in snapshots:
        try:
            if snapshot.version <= version:
                return ModelState.decode(spec, cache_mb, store.load_snapshot(model, snapshot.sequence))
        except StoreDamaged:
            continue
    first = next(iter(store.log(model, 0)), None)
    is_whole = not snapshots if first is None else first.sequence == 1
    return ModelState.empty(spec, cache_mb) if is_whole else None


def _pass(state: ModelState, record: LogRecord, model: str) -> None:
    if record.sequence != state.sequence + 1:
        raise StoreDamaged(f"the log of model {model} lacks record {state.sequence + 1}")
    if record.aborted:
        state.skip()
        return
    try:
        reapply(state, decode_entry(record.data))
    except SolverError as error:
        raise StoreDamaged(f"record {record.sequence} can no longer be applied: {error}") from error
