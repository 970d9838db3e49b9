"""Formats of log lines: JSON for programs, columns for people."""

from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any

_ENCODE = json.JSONEncoder(default=repr).encode


def formatter(as_text: bool, colors: bool = False) -> logging.Formatter:
    """Return a formatter of log records that includes their ``facts``."""
    if not as_text:
        return _Json()
    from structlog.dev import ConsoleRenderer, plain_traceback
    from structlog.processors import format_exc_info
    from structlog.stdlib import ProcessorFormatter

    columns = ConsoleRenderer(colors=colors, sort_keys=False, exception_formatter=plain_traceback)
    return ProcessorFormatter(processors=[_told, ProcessorFormatter.remove_processors_meta, format_exc_info, columns])


class _Json(logging.Formatter):
    """Formats a record as one line of JSON, in half the time that structlog takes."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; ``exception`` has the traceback of an error."""
        fields = _fields(record)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return _ENCODE(fields)


def _told(logger: object, name: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    return {**_fields(event["_record"]), **event}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a log line: time, level, event and logger, then the facts that are not None."""
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    head = {"timestamp": when, "level": record.levelname.lower(), "event": record.getMessage(), "logger": record.name}
    facts = getattr(record, "facts", {})
    return head | {name: value for name, value in facts.items() if value is not None}
