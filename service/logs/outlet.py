"""The thread that renders and writes log lines, so that no call waits for their reader."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from livesvm.service.logs.calls import current

MOST_WAITING = 20_000
"""Lines; more are counted and dropped, as their reader seems gone."""
LULL_SECONDS = 0.01
"""Between two looks for lines, so that many of them are one wake-up."""
LAST_SECONDS = 2.0
"""That the last lines have at the end of the process."""


class Outlet(logging.Handler):
    """Takes records from any thread and hands them to a handler in its own.

    Parameters
    ----------
    make : the handler for a record's logger; called in the thread, before its first record
    facts : that every record tells
    """

    def __init__(
        self, make: Callable[[], Callable[[str], logging.Handler]], facts: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__()
        self._make = make
        self._facts = facts
        self._waiting: queue.SimpleQueue[logging.LogRecord | None] = queue.SimpleQueue()
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Note of which call the record tells, and hand it on."""
        if self._waiting.qsize() >= MOST_WAITING:
            self._dropped += 1
            return
        if record.args:
            record.msg, record.args = record.getMessage(), None
        if (call := current()) is not None:
            record.facts = {"request": call.id, "key": call.key, **getattr(record, "facts", {})}
        if self._facts:
            record.facts = {**getattr(record, "facts", {}), **self._facts}
        self._waiting.put(record)

    def close(self) -> None:
        """Write what waits, unless it is not taken."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join(LAST_SECONDS)
        super().close()

    def _run(self) -> None:
        handler_of = self._make()
        while (record := self._waiting.get()) is not None:
            handler_of(record.name).handle(record)
            if self._dropped:
                self._log_dropped(handler_of)
            if self._waiting.empty():
                time.sleep(LULL_SECONDS)

    def _log_dropped(self, handler_of: Callable[[str], logging.Handler]) -> None:
        number, self._dropped = self._dropped, 0
        text = f"{number} lines were dropped, as they were not read in time"
        handler_of(__name__).handle(logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None))
