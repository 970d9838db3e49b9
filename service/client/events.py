"""Server-sent events, as far as jobs are told by them."""

from __future__ import annotations

import json
from typing import Any

RUNNING = ("queued", "running")
STREAM_SECONDS = 60.0
"""Without a sign of life a stream is given up; the service gives one every quarter of a minute."""
RETRY_SECONDS = 1.0
"""Before it is asked again for a stream that was not to be had."""


def told_by(line: str) -> dict[str, Any] | None:
    """The job that a line of the stream tells of, if it is such a line."""
    name, _, data = line.partition(":")
    if name != "data":
        return None
    found: dict[str, Any] = json.loads(data)
    return found


def is_over(job: dict[str, Any]) -> bool:
    """Whether nothing will change any more."""
    return job["state"] not in RUNNING
