"""The log line of a job that has ended."""

from __future__ import annotations

import logging
from typing import Any

from livesvm.service.jobs.files import JobRecord
from livesvm.service.logs.calls import Call, tell

log = logging.getLogger("livesvm.jobs")


def log_end(record: JobRecord, asked_in: Call | None) -> None:
    """Log one line: which job, of what, how long it took, and its result; its request is that of the job."""
    began, ended = record.started_at or record.finished_at, record.finished_at
    facts: dict[str, Any] = {"job": record.id, "kind": record.kind, "model": record.model, "version": record.version}
    facts |= {"outcome": record.state, "done": record.done, "total": record.total}
    if asked_in is not None:
        facts |= {"request": asked_in.id, "key": asked_in.key}
    if began is not None and ended is not None:
        stages = {"wait": began - record.created_at, "run": ended - began}
        facts["stages"] = {name: round(max(0.0, seconds), 6) for name, seconds in stages.items()}
    if record.error is not None:
        facts["problem"] = (record.error.get("names") or [record.error.get("type")])[0]
    tell(log, logging.WARNING if record.state == "failed" else logging.INFO, "job", facts)
