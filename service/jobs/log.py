"""The end of a job: its log line, and its event for webhooks."""

from __future__ import annotations

import logging
from typing import Any

from livesvm.service.history.names import id_of, is_feed
from livesvm.service.jobs.files import JobRecord
from livesvm.service.logs.calls import Call, tell
from livesvm.service.webhooks.messages import Happened
from livesvm.service.webhooks.spec import EventType

ENDED: EventType = "job.finished"
log = logging.getLogger("livesvm.jobs")


def log_end(record: JobRecord, asked_in: Call | None) -> None:
    """Log the end of a job, with its state and times, and the id of the request that asked for the job."""
    began, ended = record.started_at or record.finished_at, record.finished_at
    facts: dict[str, Any] = {"job": record.id, "kind": record.kind, "model": record.model, "version": record.version}
    facts |= {"outcome": record.state, "done": record.done, "total": record.total}
    if asked_in is not None:
        facts |= {"request": asked_in.id, "key": asked_in.key}
    if began is not None and ended is not None:
        stages = {"wait": began - record.created_at, "run": ended - began}
        facts["stages"] = {name: round(max(0.0, seconds), 6) for name, seconds in stages.items()}
    if (problem := _problem(record)) is not None:
        facts["problem"] = problem
    tell(log, logging.WARNING if record.state == "failed" else logging.INFO, "job", facts)


def happened(record: JobRecord) -> Happened:
    """Return the event of a job's end for webhooks: it has the job's id, state and version, but not its result."""
    data: dict[str, Any] = {
        "job": record.id,
        "kind": record.kind,
        "feed" if is_feed(record.model) else "model": id_of(record.model),
    }
    data |= {"state": record.state, "version": record.version, "problem": _problem(record)}
    return Happened(ENDED, record.model, record.id, record.finished_at or record.created_at, lambda spec: data)


def _problem(record: JobRecord) -> str | None:
    """Return the class name of the job's error, None if the job has no error."""
    return None if record.error is None else record.error["names"][0]
