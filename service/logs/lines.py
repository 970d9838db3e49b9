"""Formats of log lines: JSON for programs, columns for people."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.processors import JSONRenderer, format_exc_info
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor

_ENCODER = json.JSONEncoder(default=repr)


def formatter(as_text: bool, colors: bool = False) -> logging.Formatter:
    """Return a formatter of log records that includes their ``facts``."""
    last: list[Processor] = [format_exc_info, JSONRenderer(_json)]
    if as_text:
        last = [ConsoleRenderer(colors=colors, sort_keys=False, exception_formatter=plain_traceback)]
    processors = [_told, ProcessorFormatter.remove_processors_meta, *last]
    return ProcessorFormatter(processors=processors)


def _json(event: EventDict, **options: object) -> str:
    return _ENCODER.encode(event)


def _told(logger: object, name: str, event: EventDict) -> EventDict:
    """Return the fields of a log line: time, level, event and logger, then the facts that are not None."""
    record: logging.LogRecord = event["_record"]
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    head = {"timestamp": when, "level": record.levelname.lower(), "event": event.pop("event"), "logger": record.name}
    facts = {name: value for name, value in getattr(record, "facts", {}).items() if value is not None}
    return {**head, **facts, **event}
