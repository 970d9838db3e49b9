"""Jobs of several front ends: each publishes its jobs as documents of the store, and obeys requests to end them.

The files of a job stay with the front end that received the request; other front ends read the files from there.
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
"""Kind of the documents of jobs, which are named by the job's id."""
END = "job-end"
"""Kind of the documents that ask to cancel or to delete a job, which are named by the job's id."""
CANCEL, DELETE = "cancel", "delete"
GONE_SECONDS = 7 * 86_400.0
"""How long jobs are listed while their front end is away, from their creation, and requests to end them are kept."""

Document = dict[str, Any]


def short(holder: str) -> str:
    """Return the first characters of a front end's name, which distinguish it from other front ends."""
    return holder[:8]


@dataclass(frozen=True)
class OtherJob:
    """A job of another front end; ``shown`` is its intermediate result for plots."""

    record: JobRecord
    holder: str
    shown: Document | None = None


class SharedJobs:
    """The documents by which front ends share their jobs. All methods wait for the store, and raise StoreError."""

    def __init__(self, store: Store, health: Health, fronts: FrontEnds) -> None:
        self._store, self._health, self._fronts = store, health, fronts
        self.mark = f"-{short(fronts.holder)}"
        """Suffix of the ids of this front end's jobs."""

    def tell(self, record: JobRecord, shown: Document | None) -> None:
        """Publish the present state of a job of this front end."""
        told = {"holder": self._fronts.holder, "record": asdict(record), "shown": shown}
        with self._health.store_call("document"):
            self._store.put_document(DocumentName(KIND, record.id), json.dumps(told).encode())

    def forget(self, id: str) -> None:
        """Delete the documents of a job, so that no front end knows it any more."""
        with self._health.store_call("document"):
            for kind in (KIND, END):
                self._store.delete_document(DocumentName(kind, id))

    def end(self, other: OtherJob) -> None:
        """Ask a job's front end to cancel the job; if the job has ended, unpublish it and ask for its deletion."""
        with self._health.store_call("document"):
            asked = DELETE if other.record.is_finished else CANCEL
            self._store.put_document(DocumentName(END, other.record.id), f"{asked} {time.time()}".encode())
            if other.record.is_finished:
                self._store.delete_document(DocumentName(KIND, other.record.id))

    def asked(self, id: str) -> tuple[str, float]:
        """Return the request to end a job, ``CANCEL`` or ``DELETE``, and the Unix time of the request."""
        with self._health.store_call("load"):
            asked, _, at = (self._store.document(DocumentName(END, id)) or b"").decode().partition(" ")
        return asked, float(at or "inf")

    def done(self, id: str) -> None:
        """Delete the request to end a job, after the request is carried out; after a crash it is carried out again."""
        with self._health.store_call("document"):
            self._store.delete_document(DocumentName(END, id))

    def ids(self) -> tuple[set[str], set[str]]:
        """Return the ids of published jobs, and the ids of jobs with a request to end them."""
        with self._health.store_call("load"):
            found = self._store.documents()
        known, ends = ({at.name for at in found if at.kind == kind} for kind in (KIND, END))
        return known, ends

    def is_known(self, id: str) -> bool:
        """Return whether a job is published, and no front end has asked for its deletion."""
        with self._health.store_call("load"):
            return self._store.document(DocumentName(KIND, id)) is not None

    def find(self, id: str) -> OtherJob:
        """Return a job of another front end; raises UnknownJob, also for a job that this one published and lost."""
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
        """Return ``other`` itself; raises JobElsewhere if the job has not ended and its front end is away."""
        if not other.record.is_finished and self._fronts.is_away(other.holder):
            raise JobElsewhere.of(other.record.id, short(other.holder))
        return other

    def is_over(self, other: OtherJob) -> bool:
        """Return whether a job is dropped from lists: it is older than ``GONE_SECONDS`` and its front end is away."""
        return time.time() - other.record.created_at > GONE_SECONDS and self._fronts.is_away(other.holder)

    def file(self, other: OtherJob, name: str) -> bytes:
        """Return the bytes of a file of another front end's job."""
        return self._fronts.job_file(other.holder, name)
