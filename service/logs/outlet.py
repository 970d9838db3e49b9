"""The thread that formats and writes log lines, so that no call waits for the program that reads them.

A line that is repeated often, for example while the store is away, is counted, and written once a minute.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType

from livesvm.service.logs.calls import AUDIT, current

MOST_WAITING = 20_000
"""Most lines that wait to be written; more are counted and dropped, as nothing seems to read them."""
LULL_SECONDS = 0.05
"""Pause of the thread when no line waits, so that one wake-up writes all lines that come meanwhile.

Warnings and the audit log end it, but for ``ROUTINE``: a process that is killed should have said them.
"""
ROUTINE = frozenset({"update", "observe"})
"""Changes in the audit log that may wait, as the store has logged them, too."""
SAME_SECONDS = 60.0
"""How long repetitions of a line are counted and not written."""
MOST_KNOWN = 1000
"""Most lines that are remembered to find repetitions; further lines are always written."""
OWN = "livesvm"
"""Prefix of our loggers' names; lines of other loggers count as equal if they differ only in numbers."""
_NUMBERS = re.compile(r"[0-9.]+")
LAST_SECONDS = 2.0
"""Time to write the last lines at the end of the process."""


class Outlet(logging.Handler):
    """Takes log records from any thread, and passes them to a handler in a thread of its own.

    Parameters
    ----------
    make : returns a function from a logger's name to its handler; called in that thread, before the first record
    facts : added to every record
    """

    def __init__(
        self, make: Callable[[], Callable[[str], logging.Handler]], facts: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__()
        self._make = make
        self._facts = facts
        self._waiting: queue.SimpleQueue[logging.LogRecord | None] = queue.SimpleQueue()
        self._dropped = 0
        self._urgent = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Add the current call's id and key to a record, and queue the record for the writing thread."""
        if self._waiting.qsize() >= MOST_WAITING:
            self._dropped += 1
            return
        if record.args:
            record.msg, record.args = record.getMessage(), None
        if (call := current()) is not None:
            record.facts = {"request": call.id, "key": call.key, **getattr(record, "facts", {})}
        record.is_own = hasattr(record, "facts") and not getattr(record, "same", "")  # is always written
        if self._facts:
            record.facts = {**getattr(record, "facts", {}), **self._facts}
        self._waiting.put(record)
        if record.levelno > logging.INFO or (record.name == AUDIT and record.msg not in ROUTINE):
            self._urgent.set()

    def close(self) -> None:
        """Write the lines that wait, within ``LAST_SECONDS``."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._urgent.set()
            self._thread.join(LAST_SECONDS)
        super().close()

    def _run(self) -> None:
        handler_of, repeats = self._make(), Repeats()

        def write(records: Iterable[logging.LogRecord]) -> None:
            for one in records:
                handler_of(one.name).handle(one)

        while True:
            try:
                record = self._waiting.get(timeout=repeats.seconds)
            except queue.Empty:
                write(repeats.due())
                continue
            write(repeats.due(is_over=record is None))
            if record is None:
                return
            if getattr(record, "is_own", True) or not repeats.has(record):
                write([record])
            if self._dropped:
                self._log_dropped(handler_of)
            if self._waiting.empty():
                self._urgent.wait(LULL_SECONDS)
                self._urgent.clear()

    def _log_dropped(self, handler_of: Callable[[str], logging.Handler]) -> None:
        number, self._dropped = self._dropped, 0
        text = f"{number} lines were dropped, as they were not read in time"
        handler_of(__name__).handle(logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, None, None))


class Repeats:
    """Lines written in the last minute, and how often each was repeated since."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Known] = {}  # in the order of their ends

    @property
    def seconds(self) -> float | None:
        """Return the seconds until :meth:`due` has a line to write; None if no line was repeated."""
        ends = (known.until for known in self._known.values() if known.count)
        return None if (first := next(ends, None)) is None else max(0.0, first - time.monotonic())

    def has(self, record: logging.LogRecord) -> bool:
        """Return whether a record repeats a known line; if so, count it."""
        text = getattr(record, "same", "") or record.getMessage()
        at = record.name, text if record.name.startswith(OWN) else _NUMBERS.sub("", text)
        if (known := self._known.get(at)) is not None:
            known.count, known.newest = known.count + 1, record
            return True
        if len(self._known) < MOST_KNOWN:
            self._known[at] = _Known(time.monotonic() + SAME_SECONDS, record)
        return False

    def due(self, is_over: bool = False) -> list[logging.LogRecord]:
        """Return a line with a count for each repeated line that is due; ``is_over`` makes every line due."""
        now, found = time.monotonic(), []
        for at, known in list(self._known.items()):
            if known.until > now and not is_over:
                break
            del self._known[at]
            if known.count:
                again = copy(known.newest)
                again.msg, again.args, again.exc_info = (
                    f"{again.getMessage()} (and {known.count} times more)",
                    None,
                    None,
                )
                found.append(again)
                self._known[at] = _Known(now + SAME_SECONDS, known.newest)
        return found


@dataclass
class _Known:
    """A written line: the time until which its repetitions are counted, the newest of them, and their number."""

    until: float
    newest: logging.LogRecord
    count: int = 0
