"""Facts of the call under way: its caller, its outcome, the time of its stages, and what it changed.

The current call is a context variable, which is passed from the event loop to threads. Only one thread works on a call
at a time.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from time import perf_counter
from typing import Any

NANOSECONDS = 10**9
AUDIT = "livesvm.audit"
"""The log with one line for each change of a model, with its caller, kind and new version."""
_audit = logging.getLogger(AUDIT)


class Call:
    """One request, from its head to the end of its answer.

    Parameters
    ----------
    id : of the request, as log lines name it
    """

    __slots__ = ("began", "facts", "held", "id", "is_silent", "key", "marks")

    def __init__(self, id: str, is_silent: bool = False) -> None:
        self.id = id
        self.is_silent = is_silent
        self.key: str | None = None
        self.facts: dict[str, Any] = {}
        self.held = 0  #: bytes of the memory budget, for its body, until it is answered
        self.began = perf_counter()
        self.marks: list[tuple[str, float]] = [("receive", self.began)]

    def spans(self, end: float) -> list[tuple[str, float, float]]:
        """Return the name, begin and end of each stage of the call until ``end``, one stage after the other."""
        marks = list(self.marks)  # threads that were not waited for may still add to them
        ends = [moment for _, moment in marks[1:]] + [end]
        return [(name, begin, until) for (name, begin), until in zip(marks, ends, strict=True)]

    def stages(self, end: float) -> dict[str, float]:
        """Return the seconds of each stage until ``end``, in the order in which the stages first began."""
        found: dict[str, float] = {}
        for name, begin, until in self.spans(end):
            found[name] = found.get(name, 0.0) + until - begin
        return found


_current: ContextVar[Call | None] = ContextVar("call", default=None)
begin = _current.set
end = _current.reset
current = _current.get
"""Return the call that is under way here, if there is one."""


def note(**facts: Any) -> None:
    """Add facts to the current call, for its log line; they must not contain a secret or an example's values."""
    call = _current.get()
    if call is not None:
        call.facts.update(facts)


def stage(name: str) -> None:
    """Begin a stage of the current call; it lasts until the next stage begins."""
    call = _current.get()
    if call is not None:
        call.marks.append((name, perf_counter()))


def known_as(key: str) -> None:
    """Record the label of the API key that made the call under way."""
    call = _current.get()
    if call is not None:
        call.key = key


def tell(log: logging.Logger, level: int, event: str, facts: dict[str, Any], same: str = "") -> None:
    """Log an event with its facts, but not the place in the code, because looking up that place takes time.

    Lines with the same text in ``same`` count as repetitions of one line; if ``same`` is empty, every line is written.
    """
    if log.isEnabledFor(level):
        record = logging.LogRecord(log.name, level, "", 0, event, None, None)
        record.facts, record.same = facts, same
        log.handle(record)


def changed(action: str, model: str, **facts: Any) -> None:
    """Log that the call under way changed a model; ``facts`` are counts, and never examples."""
    call, facts = _current.get(), {"model": model, **facts}
    if call is not None:
        call.facts.update(facts)
    if call is None or not call.is_silent:
        tell(_audit, logging.INFO, action, facts)
