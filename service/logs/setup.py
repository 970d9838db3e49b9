"""Set up the log: where its lines are written, and in which format."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Literal

from livesvm.service.logs.calls import AUDIT
from livesvm.service.logs.outlet import Outlet

log = logging.getLogger(__name__)
Format = Literal["auto", "json", "text"]


def set_up(level: str, format: Format, audit_file: str, **facts: str) -> None:
    """Log to standard error from ``level`` on; log changes of models to ``audit_file``, if it is given, at any level.

    Every line includes the ``facts``. The format ``auto`` is text on a terminal, else JSON. Raises OSError if the
    audit file cannot be opened.
    """
    audit: _AuditFile | None = None
    if audit_file:
        audit = _AuditFile(audit_file, encoding="utf-8")  # which may be moved away while it is written
        Path(audit_file).chmod(0o600)
        logging.getLogger(AUDIT).setLevel(logging.INFO)
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # lines do not say them
    is_terminal = sys.stderr.isatty()
    as_text = format == "text" or (format == "auto" and is_terminal)
    logging.basicConfig(level=level.upper(), handlers=[Outlet(lambda: _handlers(as_text, is_terminal, audit), facts)])
    logging.getLogger("numba").setLevel(logging.WARNING)  # at the level debug it tells every step of its compiler


def _handlers(as_text: bool, colors: bool, audit: _AuditFile | None) -> Callable[[str], logging.Handler]:
    """Return a function that maps a logger's name to its handler; this imports the formatters of log lines."""
    from livesvm.service.logs.lines import formatter

    main = logging.StreamHandler()
    main.setFormatter(formatter(as_text, colors))
    if audit is not None:
        audit.setFormatter(formatter(as_text=False))
        audit.otherwise = main
    return lambda name: audit if audit is not None and name == AUDIT else main


class _AuditFile(WatchedFileHandler):
    """Handler of the audit file; lines that cannot be written to it go to ``otherwise``, so that none is lost."""

    otherwise: logging.Handler

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        try:
            super().emit(record)
        except OSError:  # it was moved away, and cannot be opened again
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Log the reason, and pass the line to ``otherwise``."""
        log.error("lines of the audit file come here, as it cannot be written: %s", sys.exc_info()[1])
        self.otherwise.handle(record)
