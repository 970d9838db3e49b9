"""Versions of a model that can be had again, and going back to one as a new version."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Any

from livesvm.service.history.answers import restore_answer, update_answer
from livesvm.service.models.commands import Command
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState, Outcome
from livesvm.service.store import codec
from livesvm.service.store.base import Durability, LogRecord, Store, StoreDamaged
from livesvm.solvers.errors import InvalidInput, SolverError


@dataclass(frozen=True)
class Restoration:
    """Going back to ``version``; holds that version whole, as the log behind it may be trimmed first.

    ``at`` is the Unix time at which it was asked for, None before that was kept.
    """

    version: int
    state: bytes
    request: str | None
    at: float | None = None

    def encode(self) -> bytes:
        """Bytes for the log."""
        document = {"restored": self.version, "state": self.state, "request": self.request, "at": self.at}
        return codec.encode(document)

    def apply(self, state: ModelState) -> Outcome:
        """Make ``state`` what the version was, as the next version; keys that were ever handed out stay used."""
        began = time.perf_counter()
        found = ModelState.decode(state.spec, state.cache_mb, self.state)
        found.window.next_key = max(found.window.next_key, state.window.next_key)
        state.estimator, state.window, state.sizes = found.estimator, found.window, found.sizes
        state.version += 1
        state.sequence += 1
        state.updated_at = self.at
        return Outcome(state.sizes, seconds=time.perf_counter() - began)


Entry = Command | Restoration
"""What a record of the log holds."""


def decode_entry(data: bytes) -> Entry:
    """The entry in a record; raises StoreDamaged or StoreTooNew."""
    document: dict[str, Any] = codec.decode(data)
    if "restored" in document:
        return Restoration(document["restored"], document["state"], document["request"], document.get("at"))
    return Command.decode(data)


def digest_of_restore(version: int) -> bytes:
    """SHA-256 of what a request to go back asks."""
    return hashlib.sha256(codec.pack({"restore": version})).digest()


def answer_to(entry: Entry, version: int, outcome: Outcome, durability: Durability) -> bytes:
    """The answer to whoever asked for an entry."""
    if isinstance(entry, Restoration):
        return restore_answer(version, entry.version, outcome, durability)
    return update_answer(version, entry, outcome, durability)


def told_of(entry: Entry, outcome: Outcome) -> dict[str, Any]:
    """What an entry changed, in numbers, for the log."""
    if isinstance(entry, Restoration):
        return {"action": "restore", "restored": entry.version}
    counts = {"added": len(entry.added), "removed": len(entry.remove), "changed": outcome.changed}
    return {"action": "update", **counts, "C": entry.edits.C if entry.edits else None, "events": outcome.events}


def reapply(state: ModelState, entry: Entry) -> Outcome:
    """Apply an entry that went well before; raises SolverError."""
    if isinstance(entry, Restoration):
        return entry.apply(state)
    try:
        return state.apply(entry)
    except SolverError:  # it went well from other rounding errors; there is one optimum, so ask again
        return state.apply_cold(entry)


def reapply_cold(state: ModelState, entry: Entry) -> Outcome:
    """Reach what an entry led to without the path to it; raises SolverError."""
    return entry.apply(state) if isinstance(entry, Restoration) else state.apply_cold(entry)


def oldest_kept(store: Store, model: str) -> int:
    """The oldest version that can be had: the older snapshot's, or 0 while the log holds everything."""
    first = next(iter(store.log(model, 0)), None)
    snapshots = [snapshot for snapshot in store.snapshots(model) if not snapshot.is_damaged]
    if not snapshots or (first is not None and first.sequence == 1):
        return 0
    return snapshots[-1].version


def state_at(store: Store, spec: ModelSpec, cache_mb: int, model: str, version: int) -> ModelState:
    """The model as it was at a version; raises InvalidInput if it is not kept, StoreError."""
    state = _nearest(store, spec, cache_mb, model, version)
    if state is not None:
        for record in store.log(model, state.sequence):
            if state.version == version:
                break
            if record.sequence != state.sequence + 1:
                raise StoreDamaged(f"the log of model {model} lacks record {state.sequence + 1}")
            _pass(state, record)
    if state is None or state.version != version:
        newest = "" if state is None else f", the newest {state.version}"
        reason = f"version {version} is not kept; the oldest is {oldest_kept(store, model)}{newest}"
        raise InvalidInput(reason, field="version")
    return state


def _nearest(store: Store, spec: ModelSpec, cache_mb: int, model: str, version: int) -> ModelState | None:
    """The newest good snapshot that is no newer than a version, or the empty model if the whole log is there."""
    snapshots = store.snapshots(model)
    for snapshot in snapshots:
        try:
            if snapshot.version <= version:
                state = ModelState.decode(spec, cache_mb, store.load_snapshot(model, snapshot.sequence))
                if state.version <= version:  # a database of schema 1 does not say which version it holds
                    return state
        except StoreDamaged:
            continue
    first = next(iter(store.log(model, 0)), None)
    is_whole = not snapshots if first is None else first.sequence == 1
    return ModelState.empty(spec, cache_mb) if is_whole else None


def _pass(state: ModelState, record: LogRecord) -> None:
    if record.aborted:
        state.skip()
        return
    try:
        reapply(state, decode_entry(record.data))
    except SolverError as error:
        raise StoreDamaged(f"record {record.sequence} can no longer be applied: {error}") from error
