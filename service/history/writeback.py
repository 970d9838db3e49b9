"""A model that memory holds and the store has lost, or has less of: back into the store."""

from __future__ import annotations

from contextlib import suppress

from livesvm.service.errors import WritebackRefused
from livesvm.service.history.journal import Journal
from livesvm.service.store.base import Lease, LeaseHeld, ModelExists, OutOfSequence, Store
from livesvm.service.store.copy import acquire_patiently

Snapshot = tuple[int, bytes, int]
"""The record that it goes up to, its bytes, its version."""


def write_back(journal: Journal, spec: bytes, snapshot: Snapshot) -> bool:
    """Have the store hold what memory does, under a new epoch; False if it has lost nothing.

    Raises WritebackRefused where the store has more, or another service has the model, or StoreError; what was not
    written whole is written by trying again.
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
    """Return the lease of a model that is to be superseded at ``sequence``, made if it is not stored.

    One that is made begins a record short, so that until then it is known to lack something. Raises WritebackRefused
    if another service has it and lives on for ``patience`` seconds.
    """
    store.begin_again()
    try:
        with suppress(ModelExists):
            return store.create(model, spec, max(0, sequence - 1))
        return acquire_patiently(store, model, patience)
    except LeaseHeld as error:
        raise WritebackRefused(str(error)) from error


def put(store: Store, lease: Lease, snapshot: Snapshot) -> None:
    """Have a snapshot stand for all that the store has of a model; raises WritebackRefused if that is more."""
    try:
        store.supersede(lease, *snapshot)
    except OutOfSequence as error:
        raise WritebackRefused(f"the store has more than what is to be written: {error}") from error
