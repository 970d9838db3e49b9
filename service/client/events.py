"""Parsing of the server-sent events of jobs and feeds."""

from __future__ import annotations

import json
from typing import Any

RUNNING = ("queued", "running")
STREAM_SECONDS = 60.0
"""A stream that brings nothing for so long is given up; the service sends something every 15 seconds."""
RETRY_SECONDS = 1.0
"""Delay before a stream is requested again."""


def event_in(line: str) -> dict[str, Any] | None:
    """Return the job that a line of a job's event stream describes; None for lines that describe no job."""
    name, _, data = line.partition(":")
    if name != "data":
        return None
    found: dict[str, Any] = json.loads(data)
    return found


class FeedEvents:
    """Parser of a feed's event stream; after a break, the next stream continues with the first event not yet parsed.

    ``after`` is the number of the event before the first one; without it, the stream begins with the newest event.
    """

    def __init__(self, after: int | None) -> None:
        self.newest = after
        self._number: int | None = None
        self._kind = ""

    def headers(self) -> dict[str, str]:
        """Return the headers of the next request for the event stream."""
        return {} if self.newest is None else {"last-event-id": str(self.newest)}

    def event_in(self, line: str) -> dict[str, Any] | None:
        """Return the event that this line completes, with its ``id`` and ``kind``; None if the line completes no event.

        An event of kind ``missed`` replaces events that the service no longer keeps.
        """
        name, _, text = line.partition(":")
        text = text.strip()
        if name == "id":
            self._number = int(text)
        elif name == "event":
            self._kind = text
        elif name == "data":
            found = {"id": self._number, "kind": self._kind, **json.loads(text)}
            self.newest = self._number if self._number is not None else self.newest
            self._number, self._kind = None, ""
            return found
        return None


def is_over(job: dict[str, Any]) -> bool:
    """Return whether a job has ended."""
    return job["state"] not in RUNNING
