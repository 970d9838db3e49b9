"""Jobs of all front ends of the same models: each tells by documents of the store how its own are, and takes requests.

The files of a job stay with the front end that was asked for it; others read them where they are.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Any

from livesvm.service.datasets.catalogue import FrontEnds
from livesvm.service.errors import JobElsewhere, UnknownJob
from livesvm.service.jobs.files import JobRecord
from livesvm.service.monitoring.health import Health
from livesvm.service.store.base import DocumentName, Store

KIND = "job"
"""Of the documents, by the id of the job."""
END = "job-end"
"""Of the documents that ask for the end of a job, or for its deletion, by its id."""
CANCEL, DELETE = "cancel", "delete"
GONE_SECONDS = 7 * 86_400.0
"""For which jobs of a front end that is away are listed after they were asked for, and their end is still asked for."""

Document = dict[str, Any]


def short(holder: str) -> str:
    """Return the beginning of a front end's name, by which it is distinguished from others."""
    return holder[:8]


@dataclass(frozen=True)
class OtherJob:
    """A job of another front end; ``shown`` is what there is to plot of it so far."""

    record: JobRecord
    holder: str
    shown: Document | None = None


class SharedJobs:
    """What front ends tell each other of their jobs. Its calls wait for the store, and raise StoreError."""

    def __init__(self, store: Store, health: Health, fronts: FrontEnds) -> None:
        self._store, self._health, self._fronts = store, health, fronts
        self.mark = f"-{short(fronts.holder)}"
        """What ids of jobs of this front end end with."""

    def tell(self, record: JobRecord, shown: Document | None) -> None:
        """Have the others know a job of this front end as it is now."""
        told = {"holder": self._fronts.holder, "record": asdict(record), "shown": shown}
        with self._health.store_call("document"):
            self._store.put_document(DocumentName(KIND, record.id), json.dumps(told).encode())

    def forget(self, id: str) -> None:
        """Have no front end know a job any more."""
        with self._health.store_call("document"):
            for kind in (KIND, END):
                self._store.delete_document(DocumentName(kind, id))

    def end(self, other: OtherJob) -> None:
        """Ask the front end of a job to cancel it; or to delete it, which the others take for done, if it has ended."""
        with self._health.store_call("document"):
            asked = DELETE if other.record.is_finished else CANCEL
            self._store.put_document(DocumentName(END, other.record.id), f"{asked} {time.time()}".encode())
            if other.record.is_finished:
                self._store.delete_document(DocumentName(KIND, other.record.id))

    def asked(self, id: str) -> tuple[str, float]:
        """Return what is asked of a job, its end or its deletion, and when: Unix time."""
        with self._health.store_call("load"):
            asked, _, at = (self._store.document(DocumentName(END, id)) or b"").decode().partition(" ")
        return asked, float(at or "inf")

    def done(self, id: str) -> None:
        """Forget what was asked of a job, once it is done; a crash before has it done again."""
        with self._health.store_call("document"):
            self._store.delete_document(DocumentName(END, id))

    def ids(self) -> tuple[set[str], set[str]]:
        """Return the jobs that are known, and those that are asked to end."""
        with self._health.store_call("load"):
            found = self._store.documents()
        known, ends = ({at.name for at in found if at.kind == kind} for kind in (KIND, END))
        return known, ends

    def is_known(self, id: str) -> bool:
        """Return whether all front ends know a job, and none has deleted it."""
        with self._health.store_call("load"):
            return self._store.document(DocumentName(KIND, id)) is not None

    def find(self, id: str) -> OtherJob:
        """Return a job of another front end; raises UnknownJob, and forgets one that this front end had."""
        with self._health.store_call("load"):
            data = None if id.endswith(self.mark) else self._store.document(DocumentName(KIND, id))
        told = {} if data is None else json.loads(data)
        if told.get("holder") == self._fronts.holder:
            self.forget(id)
            told = {}
        if not told:
            raise UnknownJob(f"there is no job {id[:64]!r}")
        return OtherJob(JobRecord(**told["record"]), told["holder"], told["shown"])

    def check(self, other: OtherJob) -> OtherJob:
        """Return a job; raises JobElsewhere if it is under way at a front end that is away."""
        if not other.record.is_finished and self._fronts.is_away(other.holder):
            raise JobElsewhere.of(other.record.id, short(other.holder))
        return other

    def is_over(self, other: OtherJob) -> bool:
        """Return whether a job is not listed any more, as its front end has not been there for long."""
        return time.time() - other.record.created_at > GONE_SECONDS and self._fronts.is_away(other.holder)

    def file(self, other: OtherJob, name: str) -> bytes:
        """Return a file of a job."""
        return self._fronts.job_file(other.holder, name)
