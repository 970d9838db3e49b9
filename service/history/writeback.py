"""Write a model that is in memory back into a store that has lost some or all of the model's data."""

from __future__ import annotations

from contextlib import suppress

from livesvm.service.errors import WritebackRefused
from livesvm.service.history.journal import Journal
from livesvm.service.store.base import Lease, LeaseHeld, ModelExists, OutOfSequence, Store
from livesvm.service.store.copy import acquire_patiently

Snapshot = tuple[int, bytes, int]
"""The last record of a snapshot, its bytes, and its version."""


def write_back(journal: Journal, spec: bytes, snapshot: Snapshot) -> bool:
    """Write a model's snapshot into the store, under a new epoch; return False if the store has lost nothing.

    Raises WritebackRefused if the store has newer records or another service has the model, or StoreError, after
    which the caller may try again.
    """
    store = journal.source.store
    with journal.source.health.store_call("writeback"):
        journal.look()
        if journal.fenced:
            raise WritebackRefused(f"another service has taken model {journal.lease.model} over")
        if not journal.behind:
            return False
        journal.lease = lease = take(store, journal.lease.model, spec, snapshot[0])
        put(store, lease, snapshot)
    journal.begin_again(snapshot[0])
    return True


def take(store: Store, model: str, spec: bytes, sequence: int, patience: float = 0.0) -> Lease:
    """Return the lease to replace a stored model by a snapshot at ``sequence``; create the model if it is missing.

    A created model begins one record before ``sequence``, so that the model counts as incomplete until the snapshot is
    stored. Raises WritebackRefused if another service holds the model and is still alive after ``patience`` seconds.
    """
    store.begin_again()
    try:
        with suppress(ModelExists):
            return store.create(model, spec, max(0, sequence - 1))
        return acquire_patiently(store, model, patience)
    except LeaseHeld as error:
        raise WritebackRefused(str(error)) from error


def put(store: Store, lease: Lease, snapshot: Snapshot) -> None:
    """Replace a model's stored data by a snapshot; raises WritebackRefused if the store has newer records."""
    try:
        store.supersede(lease, *snapshot)
    except OutOfSequence as error:
        raise WritebackRefused(f"the store has more than what is to be written: {error}") from error
