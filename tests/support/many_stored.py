"""A SQLite store of many models, written a thousand at once as the store itself writes each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from livesvm.service.store.batches import batches
from livesvm.service.store.sqlite import SqliteStore

AT_ONCE = 1000
Made = bytes | Callable[[str], bytes]


def fill(path: Path, count: int, spec: Made, snapshot: Made, summary: Made, *, sequence: int = 1) -> list[str]:
    """Store models that each have one snapshot; return their ids, m000000 and so on.

    Parameters
    ----------
    path : of the database, which is made if it is absent
    spec, snapshot, summary : bytes, or what makes them for an id
    sequence : the newest record of each model, at which its snapshot stands; its version too
    """
    ids = [f"m{number:06}" for number in range(count)]
    with closing(SqliteStore(path)) as store:
        for batch in batches(ids, AT_ONCE):
            with store._transaction() as db:
                leases = [store._insert_model(db, id_, _made(spec, id_), sequence, b"") for id_ in batch]
                for id_ in batch:
                    store._insert_snapshot(db, id_, sequence, _made(snapshot, id_), sequence, _made(summary, id_))
            for lease in leases:
                store._database.marks.created(lease.model, sequence, lease.epoch)
    return ids


def _made(what: Made, id_: str) -> bytes:
    return what if isinstance(what, bytes) else what(id_)
