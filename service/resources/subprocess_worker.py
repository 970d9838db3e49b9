"""The main program of the process that :mod:`.subprocess_work` starts."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from livesvm.service.errors import WorkerLost
from livesvm.solvers.errors import InvalidInput, SolverError

if sys.platform == "linux":
    import resource

NICENESS = 10
_PR_SET_PDEATHSIG = 1


def main(work: str) -> None:
    """Call the function ``work`` (``module:function``) with the JSON on the first input line; write its outcome."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # so that prints of libraries do not come between the answers
    _end_with_the_service()
    os.nice(NICENESS)

    lock = threading.Lock()

    def tell(document: dict[str, Any]) -> None:
        """Write a document as one line of JSON; safe from any thread."""
        with lock:
            answers.write(json.dumps(document) + "\n")
            answers.flush()

    asked = json.loads(sys.stdin.buffer.readline())
    if "memory" in asked and sys.platform == "linux":  # other systems do not count what is mapped
        resource.setrlimit(resource.RLIMIT_DATA, (asked["memory"], asked["memory"]))
    threading.Thread(target=_leave_with_input, daemon=True).start()
    try:
        module, _, name = work.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        tell({"result": function(asked, tell)})
    except Exception as error:
        tell({"error": _told(error)})


def _told(error: Exception) -> dict[str, Any]:
    """Return an error as JSON values: a name that the service knows, its message, and its row and column."""
    names = (MemoryError, OSError)
    name = next((kind.__name__ for kind in names if isinstance(error, kind)), type(error).__name__)
    place = None
    if isinstance(error, InvalidInput):
        place = {"reason": error.reason, "field": error.field, "row": error.row, "column": error.column}
    elif not isinstance(error, SolverError | MemoryError | OSError | WorkerLost):
        traceback.print_exc()
    return {"name": name, "detail": str(error), "place": place}


def _end_with_the_service() -> None:
    """Make the kernel kill this process when the thread that started it ends, even during a long call."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _leave_with_input() -> None:
    """End this process when no process holds the other end of its standard input any more."""
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
