"""Copy all documents and models of one store to another, with the models' logs, snapshots, requests and solutions."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from livesvm.service.store.base import (
    DocumentExists,
    DocumentName,
    Lease,
    LeaseHeld,
    LogRecord,
    Solution,
    Store,
    StoreDamaged,
    StoredModel,
)
from livesvm.service.store.lock import DirectoryLock
from livesvm.service.store.sqlite import DATABASE, SqliteStore

KEEP_ALL = 2**53
_LOOK_SECONDS = 0.2
_TOOL_SECONDS = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Copied:
    """A copied model: the number of its newest record, and the counts of copied records, snapshots and requests."""

    model: str
    sequence: int
    records: int
    snapshots: int
    requests: int


def open_place(place: str, prefix: str, opened: ExitStack) -> Store:
    """Open the store at a Redis URL or in a data directory; the exit stack ``opened`` closes it.

    Raises StoreInUse while a service holds the directory, StoreError, or ValueError for a URL of another kind.
    """
    if "://" in place:
        holder = f"tool-{uuid.uuid4().hex}"
        from livesvm.service.store.redis import RedisStore  # its library is only loaded where it is used

        return opened.enter_context(closing(RedisStore(place, holder, prefix=prefix, timeout=_TOOL_SECONDS)))
    lock = DirectoryLock(Path(place))
    opened.callback(lock.release)
    return opened.enter_context(closing(SqliteStore(Path(place) / DATABASE)))


def copy_models(source: Store, target: Store, patience: float, say: Callable[[Copied], None]) -> None:
    """Copy every model of ``source`` to ``target``; call ``say`` after each model.

    While a model is copied, this process holds its lease in the source, so that no other process writes the model. A
    model that cannot be copied completely is deleted from the target.

    Parameters
    ----------
    patience : seconds to wait for the lease of a service that has stopped without releasing it

    Raises
    ------
    LeaseHeld if a living service holds a model, ModelExists if the target has one of that id, StoreError
    """
    for found in source.index():
        if (stored := source.model(found.id)) is None:
            continue  # deleted meanwhile
        stored.check()
        lease = acquire_patiently(source, stored.id, patience)
        try:
            say(_copy(source, target, stored, lease))
        finally:
            source.release(lease)


def copy_documents(source: Store, target: Store, say: Callable[[DocumentName], None]) -> None:
    """Copy every document of ``source`` to ``target``; call ``say`` after each document.

    Raises StoreError, or DocumentExists if the target has a different document of the same kind and name; then nothing
    is copied.
    """
    found = {at: data for at in source.documents() if (data := source.document(at)) is not None}
    for at, data in found.items():
        if target.document(at) not in (None, data):
            raise DocumentExists(f"another {at.kind} {at.name} is stored already")
    for at, data in found.items():
        target.put_document(at, data)
        if target.document(at) != data:
            raise StoreDamaged(f"the copy of {at.kind} {at.name} is not what was copied")
        say(at)


def acquire_patiently(source: Store, model: str, patience: float) -> Lease:
    """Take a model over as soon as no live process holds it; raises LeaseHeld after ``patience`` seconds."""
    end = time.monotonic() + patience
    while True:
        try:
            return source.acquire(model)
        except LeaseHeld:
            if time.monotonic() > end:
                raise
            time.sleep(_LOOK_SECONDS)


def _copy(source: Store, target: Store, stored: StoredModel, held: Lease) -> Copied:
    model = stored.id
    records = list(source.log(model, 0))
    snapshots = [(s, source.load_snapshot(model, s.sequence)) for s in reversed(source.snapshots(model))]
    requests, solution = source.requests(model), _solution(source, model)
    newest = source.last_sequence(held)
    begin = records[0].sequence - 1 if records else newest
    lease = target.create(model, stored.spec, begin)
    try:
        for record in records:
            _append(target, lease, record)
        for snapshot, data in snapshots:  # after the log, as it is trimmed below the older one already
            target.save_snapshot(lease, snapshot.sequence, data, snapshot.version)
        target.put_requests(lease, requests)
        if solution is not None:
            target.save_solution(lease, solution)
        for summary, described in _summaries(source, model):
            target.describe(lease, described, summary)
        _check(source, target, model)
    except BaseException:
        target.delete(lease)
        raise
    target.release(lease)
    return Copied(model, newest, len(records), len(snapshots), len(requests))


def _solution(store: Store, model: str) -> Solution | None:
    """Return the stored solution of a model, None if the solution is damaged, because it can be computed again."""
    try:
        return store.solution(model)
    except StoreDamaged as error:
        log.warning("%s; it is not copied", error)
        return None


def _append(target: Store, lease: Lease, record: LogRecord) -> None:
    target.append(lease, record.sequence, record.data, None, keep=KEEP_ALL)
    if record.aborted:
        target.abort(lease, record.sequence)


def _check(source: Store, target: Store, model: str) -> None:
    """Compare the data of a model in both stores; raises StoreDamaged if they differ."""
    kept = [snapshot.sequence for snapshot in source.snapshots(model)]
    same = (
        list(source.log(model, 0)) == list(target.log(model, 0))
        and source.requests(model) == target.requests(model)
        and _solution(source, model) == target.solution(model)
        and kept == [snapshot.sequence for snapshot in target.snapshots(model)]
        and _summaries(source, model) == _summaries(target, model)
        and all(source.load_snapshot(model, n) == target.load_snapshot(model, n) for n in kept)
    )
    if not same:
        raise StoreDamaged(f"the copy of model {model} is not what was copied")


def _summaries(store: Store, model: str) -> list[tuple[bytes, int]]:
    return [(found.summary, found.described) for found in store.index([model])]
