"""Server-sent events of jobs and feeds."""

from __future__ import annotations

import json
from typing import Any

RUNNING = ("queued", "running")
STREAM_SECONDS = 60.0
"""A stream that brings nothing for so long is given up; the service sends something every 15 seconds."""
RETRY_SECONDS = 1.0
"""Delay before a stream is requested again."""


def event_in(line: str) -> dict[str, Any] | None:
    """Return the job that a line of its stream describes; None for other lines."""
    name, _, data = line.partition(":")
    if name != "data":
        return None
    found: dict[str, Any] = json.loads(data)
    return found


class FeedEvents:
    """Parser of a feed's event stream, which continues after the last event that was seen.

    ``after`` is the number of an event; without it the stream begins with the newest.
    """

    def __init__(self, after: int | None) -> None:
        self.newest = after
        self._number: int | None = None
        self._kind = ""

    def headers(self) -> dict[str, str]:
        """Return the headers of the next request for the stream."""
        return {} if self.newest is None else {"last-event-id": str(self.newest)}

    def event_in(self, line: str) -> dict[str, Any] | None:
        """Return the event that a line completes, with its ``id`` and ``kind``.

        An event of kind ``missed`` stands for events that are no longer kept.
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
