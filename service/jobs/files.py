"""Keep jobs as files over restarts: a small record of each job, and the result of each job that is done."""

from __future__ import annotations

import json
import logging
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from livesvm.service.store.base import StoreUnavailable
from livesvm.service.store.files import unfinished, write_whole

log = logging.getLogger(__name__)

Document = dict[str, Any]

State = Literal["queued", "running", "done", "failed", "cancelled"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True)
class JobRecord:
    """One job as it is now; times are Unix times in seconds.

    ``done`` of ``total`` steps are completed. ``version`` is the version of the model that the job works on. ``error``
    is the document that :func:`~livesvm.service.jobs.failures.recorded` makes. ``waits_for`` says what a running job
    waits for. ``is_owed`` is True until the messages to webhooks about the job's end are stored.
    """

    id: str
    kind: str
    model: str
    asked: Document
    created_at: float
    state: State = "queued"
    done: int = 0
    total: int = 0
    version: int | None = None
    started_at: float | None = None
    finished_at: float | None = None
    error: Document | None = None
    waits_for: str | None = None
    is_owed: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended."""
        return self.state not in ("queued", "running")

    @property
    def progress(self) -> float:
        """Share of the steps that are completed, from 0 to 1."""
        if self.state == "done":
            return 1.0
        return self.done / self.total if self.total else 0.0


class JobFiles:
    """The directory of the jobs' files; every write is atomic, and on the disk when the call returns.

    Raises StoreUnavailable if the disk refuses a write.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self) -> list[JobRecord]:
        """Return every record, oldest first; records that cannot be read are left out, and logged."""
        self._tidy()
        found = []
        for path in sorted(self._directory.glob("*.job.json")):
            try:
                found.append(JobRecord(**json.loads(path.read_bytes())))
            except (OSError, ValueError, TypeError) as error:
                log.warning("the record of job %s cannot be read: %s", path.name, error)
        return sorted(found, key=lambda record: record.created_at)

    def save(self, record: JobRecord) -> None:
        """Write the record of a job, which replaces the job's earlier record."""
        self._write(self._path(record.id, "job"), asdict(record))

    def save_result(self, id: str, result: Document) -> None:
        """Write the result of a job."""
        self._write(self.result_path(id), result)

    def result(self, id: str) -> Document:
        """Return the result of a job that is done."""
        try:
            found: Document = json.loads(self.result_path(id).read_bytes())
        except (OSError, ValueError) as error:
            raise StoreUnavailable(f"the result of job {id} cannot be read: {error}") from error
        return found

    def result_path(self, id: str) -> Path:
        """Return the file of a job's result."""
        return self._path(id, "result")

    def place(self, id: str) -> Path:
        """Return the directory of the files that a job has besides its record and result."""
        return self._directory / f"{id}.files"

    def clear(self, id: str) -> None:
        """Remove the files that a job has besides its record and result."""
        shutil.rmtree(self.place(id), ignore_errors=True)

    def delete(self, id: str) -> None:
        """Delete all files of a job."""
        self.clear(id)
        for path in (self._path(id, part) for part in ("result", "job")):
            for written in (path, unfinished(path)):
                with suppress(OSError):  # a read-only disk keeps it, and a restart knows it again
                    written.unlink()

    def holds(self, id: str) -> bool:
        """Return whether there is any file of a job."""
        return any(self._directory.glob(f"{id}.*"))

    def _tidy(self) -> None:
        """Remove files of jobs without a record, which a crash has left."""
        for path in self._directory.glob("j-*"):
            if not self._path(path.name.partition(".")[0], "job").exists():
                self.delete(path.name.partition(".")[0])

    def _path(self, id: str, part: str) -> Path:
        return self._directory / f"{id}.{part}.json"

    def _write(self, path: Path, document: Document) -> None:
        try:
            write_whole(path, json.dumps(document, allow_nan=False).encode())
        except OSError as error:
            raise StoreUnavailable(f"a job cannot be kept: {error}") from error
