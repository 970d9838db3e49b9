"""The audit log: one line for each change of a model, with caller, kind and new version."""

from __future__ import annotations

import logging
from typing import Any

from livesvm.service.logs.calls import current, note, tell

AUDIT = "livesvm.audit"
_log = logging.getLogger(AUDIT)


def changed(action: str, model: str, **facts: Any) -> None:
    """Log that the call under way changed a model; ``facts`` are counts, and never examples."""
    note(model=model, **facts)
    call = current()
    if call is None or not call.is_silent:
        tell(_log, logging.INFO, action, {"model": model, **facts})
