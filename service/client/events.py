"""Server-sent events of jobs and feeds."""

from __future__ import annotations

import json
from typing import Any

RUNNING = ("queued", "running")
STREAM_SECONDS = 60.0
"""Without a sign of life a stream is given up; the service gives one every quarter of a minute."""
RETRY_SECONDS = 1.0
"""Before it is asked again for a stream that was not to be had."""


def event_in(line: str) -> dict[str, Any] | None:
    """Return the job that a line of the stream tells of, if it is such a line."""
    name, _, data = line.partition(":")
    if name != "data":
        return None
    found: dict[str, Any] = json.loads(data)
    return found


class FeedEvents:
    """A feed's events by the lines of its stream; after a break it goes on behind the newest that was seen.

    ``after`` is the number of an event; without it the stream begins with the newest.
    """

    def __init__(self, after: int | None) -> None:
        self.newest = after
        self._number: int | None = None
        self._kind = ""

    def headers(self) -> dict[str, str]:
        """Return what the next request for the stream says."""
        return {} if self.newest is None else {"last-event-id": str(self.newest)}

    def event_in(self, line: str) -> dict[str, Any] | None:
        """Return the event that a line completes, with its ``id`` and ``kind``.

        Of some that are kept no more ``missed``.
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
    """Return whether nothing will change any more."""
    return job["state"] not in RUNNING
