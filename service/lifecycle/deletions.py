"""Delete models and feeds with their jobs, files and documents.

A document in the store names a model or feed until its deletion is complete, so that a restart can finish the deletion.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress

from livesvm.service import crash
from livesvm.service.errors import UnknownFeed
from livesvm.service.history.erasure import LEFT, Intent, begun
from livesvm.service.history.journal import Source
from livesvm.service.history.names import FLEET
from livesvm.service.hosting.collection import Feeds
from livesvm.service.lifecycle.name_index import NameIndex
from livesvm.service.store.base import DELETING, DocumentName

DELETED_AT_ONCE = 8
"""How many feeds of a fleet are deleted at once; other calls of the store can run between."""


def delete_feeds(home: Feeds, ids: Sequence[str]) -> None:
    """Delete feeds in parallel, because each waits for the disk; raises the error of the first feed that fails."""
    going: dict[str, Future[None]] = {}
    for id_ in ids:
        with suppress(UnknownFeed):
            going[id_] = home.delete(id_)
    wait(going.values())
    crash.point("deleted")
    errors = {id_: error for id_, found in going.items() if (error := found.exception()) is not None}
    left = {id_: error for id_, error in errors.items() if not isinstance(error, UnknownFeed)}
    for id_ in going.keys() - left.keys():
        home.forget(id_)
    for error in left.values():
        raise error


class Deletions:
    """The deletions of one service; its methods block while disks work.

    Parameters
    ----------
    source : the store and its health
    names : the index of names in the store
    remove : removes jobs and files of a model or feed; raises StoreError
    drop : ends an erasure whose model or feed is gone
    """

    def __init__(
        self, source: Source, names: NameIndex, remove: Callable[[str], None], drop: Callable[[Intent], None]
    ) -> None:
        self._store, self._health, self._names = source.store, source.health, names
        self._remove, self._drop = remove, drop

    def begin(self, stored: str) -> None:
        """Record in the store that a model or feed is being deleted; raises StoreError."""
        with self._health.store_call("document"):
            self._store.put_document(DocumentName(DELETING, stored), b"")

    def begin_fleet(self, fleet: str, feeds: Collection[str]) -> list[str]:
        """Record in the store that a fleet's feeds are being deleted; return them and all feeds recorded before."""
        at = DocumentName(DELETING, FLEET + fleet)
        with self._health.store_call("document"):
            known = set(json.loads(self._store.document(at) or b"[]"))
            found = sorted(known | set(feeds))
            if len(found) > len(known):
                self._store.put_document(at, json.dumps(found).encode())
        return found

    def end_all(self) -> None:
        """Finish interrupted deletions of models and feeds; other code repeats interrupted deletions of fleets."""
        if deleting := {at.name for at in self._store.documents(DELETING) if not at.name.startswith(FLEET)}:
            for stored in deleting - {found.id for found in self._store.models()}:
                self.end([stored], stored)

    def end(self, stored: Sequence[str], name: str) -> None:
        """Remove all remaining data of deleted models or feeds, then the record of the deletion; raises StoreError."""
        for one in stored:
            self._remove(one)
        with self._health.store_call("delete"):
            self._forget(set(stored))
            self._names.drop(stored)
            self._store.wipe(wholly=False, models=stored)
            self._store.delete_document(DocumentName(DELETING, name))

    def _forget(self, stored: set[str]) -> None:
        """Drop the documents of erasures in deleted models and feeds; the rows of datasets are erased first."""
        for intent in begun(self._store):
            if intent.target in stored:
                self._drop(intent)
        for at in self._store.documents(LEFT):
            if at.name in stored:
                self._store.delete_document(at)
