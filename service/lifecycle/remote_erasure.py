"""Erasures in datasets of other front ends: a document in the store asks the front end that has the files to erase
rows.

A front end that is away erases the rows when it is back; the document stays until then. The document identifies no
person, because it has keys as salted hashes, which the dataset stores too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from livesvm.service.datasets.catalogue import Datasets, Found, FrontEnds
from livesvm.service.errors import UnknownDataset
from livesvm.service.history.erasure import BEGUN
from livesvm.service.jobs.other_front_ends import short
from livesvm.service.jobs.queue import Jobs
from livesvm.service.store.base import DocumentName, Store

KIND = "errand"
"""The kind of documents, each under the name of the front end that is asked and the id of the erasure."""
WAIT_SECONDS = 20.0
"""How many seconds an erasure waits for front ends that show life."""
LOOK_SECONDS = 0.05

Document = dict[str, Any]


@dataclass
class ErasureOutcome:
    """The number of erased rows, and for each front end the names of the datasets with rows still to be erased."""

    rows: list[Found] = field(default_factory=list)
    open: dict[str, list[str]] = field(default_factory=dict)


class RemoteErasures:
    """Erasures requested of, or by, other front ends; ``fronts`` is None if there are none. Calls may take long."""

    def __init__(self, store: Store, fronts: FrontEnds | None, jobs: Jobs, datasets: Datasets) -> None:
        self._store, self._fronts, self._jobs, self._datasets = store, fronts, jobs, datasets
        self._seen: dict[DocumentName, list[Found]] = {}

    def run(self, erasure: str, rows: Iterable[Document], seconds: float = WAIT_SECONDS) -> ErasureOutcome:
        """Erase rows here, and ask other front ends to erase theirs; wait at most ``seconds`` for front ends that are
        alive.

        Raises StoreError.
        """
        found, asked = ErasureOutcome(), dict[str, list[Found]]()
        for one in (Found(**row) for row in rows):
            if self._fronts is None or one.held_by in (None, self._fronts.holder):
                found.rows += self._forgotten([one])
            else:
                asked.setdefault(str(one.held_by), []).append(one)
        for holder, theirs in asked.items():
            self._ask(_at(holder, erasure), theirs)
        end = time.monotonic() + seconds
        for holder, theirs in asked.items():
            done = self._awaited(holder, _at(holder, erasure), end)
            if done is None:
                found.open[short(holder)] = [one.name for one in theirs]
            else:
                found.rows += done
        return found

    def _ask(self, at: DocumentName, rows: Sequence[Found]) -> None:
        if self._store.document(at) is None:
            self._put(at, rows, is_done=False)

    def _put(self, at: DocumentName, rows: Sequence[Found], *, is_done: bool) -> None:
        document = {"rows": [asdict(one) for one in rows], "is_done": is_done}
        self._store.put_document(at, json.dumps(document).encode())

    def _awaited(self, holder: str, at: DocumentName, end: float) -> list[Found] | None:
        """Return the rows that a front end has erased; None if it is away or has not finished by the time ``end``."""
        assert self._fronts is not None
        while True:
            rows, is_done = self._told(at)
            if is_done:
                return rows
            if time.monotonic() > end or self._fronts.is_away(holder):
                return None
            time.sleep(LOOK_SECONDS)

    def _told(self, at: DocumentName) -> tuple[list[Found], bool]:
        data = self._store.document(at)
        if data is None:
            return [], False
        document = json.loads(data)
        return [Found(**row) for row in document["rows"]], bool(document["is_done"])

    def end(self, erasure: str) -> None:
        """Remove the answered requests of an erasure with a receipt; unanswered requests stay. Raises StoreError."""
        for at in self._store.documents(KIND):
            if at.name.endswith(f":{erasure}") and self._told(at)[1]:
                self._store.delete_document(at)

    def do(self) -> None:
        """Run erasures that other front ends request, and end jobs on datasets in which any front end erased rows.

        Raises StoreError.
        """
        if self._fronts is None:
            return
        now = set(self._store.documents(KIND))
        for at in sorted(now):
            rows, is_done = self._told(at)
            self._seen[at] = rows
            if at.name.startswith(f"{self._fronts.holder}:"):
                if is_done:
                    self._release(at)
                else:
                    self._do(at, rows)
        for at in self._seen.keys() - now:
            self._end_jobs([one for one in self._seen.pop(at) if self._is_rewritten(one)])

    def _do(self, at: DocumentName, rows: Sequence[Found]) -> None:
        found = [one for one in map(self._narrowed, rows) if one is not None]
        self._put(at, found, is_done=False)  # so that it is known how many they were, should this end in the middle
        self._forgotten(found)
        self._put(at, found, is_done=True)

    def _forgotten(self, rows: Sequence[Found]) -> list[Found]:
        found = [one for one in map(self._narrowed, rows) if one is not None]
        self._end_jobs(found)
        self._datasets.erase(found)
        return found

    def _narrowed(self, one: Found) -> Found | None:
        return self._datasets.narrowed(one) if one.rows is None else one

    def _end_jobs(self, rows: Sequence[Found]) -> None:
        if rows:
            self._jobs.erase("", {one.directory for one in rows})

    def _is_rewritten(self, one: Found) -> bool:
        try:
            self._datasets.check({"name": one.name, "directory": one.directory})
        except UnknownDataset:
            return True
        return False

    def _release(self, at: DocumentName) -> None:
        """Remove an answer that was stored after its erasure had ended."""
        erasure = at.name.rpartition(":")[2]
        if not any(begun.name.endswith(f":{erasure}") for begun in self._store.documents(BEGUN)):
            self._store.delete_document(at)


def _at(holder: str, erasure: str) -> DocumentName:
    return DocumentName(KIND, f"{holder}:{erasure}")
