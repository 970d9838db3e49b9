"""Run work in another process, so that it takes no time from the threads that answer requests.

The other process has a lower priority, gets its task as a line of JSON on its standard input, and answers with lines of
JSON on its standard output. The other process ends with the service, because even a crash of the service closes that
process's input. Arrays are handed over as files.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import livesvm
from livesvm.service.errors import WorkerLost
from livesvm.solvers import errors as solver_errors
from livesvm.solvers.errors import InvalidInput, SolverError

LOOK_SECONDS = 0.1
"""Seconds between two checks whether the result is still wanted."""
ROOT = Path(livesvm.__file__).resolve().parents[1]
"""The folder from which the package is imported, in case it is not installed."""
SECRETS = "LIVESVM_"
"""Prefix of variables that the process does not get: settings, API keys among them."""

Document = dict[str, Any]


def run_beside(work: str, asked: Document, tell: Callable[[Document], object], check: Callable[[], None]) -> Document:
    """Run ``work`` in another process, and return its result.

    Parameters
    ----------
    work : ``module:function``; the function is called with ``asked`` and a function that reports progress
    asked : JSON values; ``memory``, if given, is the limit of the process's own bytes
    tell : called with each progress report, a document
    check : called every tenth of a second; an error that it raises ends the process

    Raises
    ------
    SolverError : the error of the function, by name, with its row and column
    WorkerLost : the process ended without an answer: it was killed, or had too little memory
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "livesvm.service.resources.subprocess_worker", work],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        for line in _lines(process.stdout, check):
            reported = json.loads(line)
            if "result" in reported:
                found: Document = reported["result"]
                return found
            if "error" in reported:
                raise _error(reported["error"])
            tell(reported)
    except BrokenPipeError:
        pass  # it is gone; how is said below
    finally:
        process.kill()
        status = process.wait()
        process.stdin.close()
        process.stdout.close()
    raise WorkerLost(f"the process of its own that was to do this ended without an answer (status {status})")


def _environment() -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if not name.startswith(SECRETS)}
    found["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return found


def _lines(stream: IO[bytes], check: Callable[[], None]) -> Iterator[bytes]:
    """Yield the complete lines of a stream as they arrive, until the stream ends."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            check()
            if not selector.select(LOOK_SECONDS):
                continue
            data = os.read(stream.fileno(), 2**16)
            if not data:
                return
            *whole, rest = (rest + data).split(b"\n")
            yield from whole


def _error(reported: Document) -> Exception:
    """Return the error that a worker has reported."""
    kind = getattr(solver_errors, reported["name"], None)
    if reported["place"] is not None:
        wrong = kind if isinstance(kind, type) and issubclass(kind, InvalidInput) else InvalidInput
        return wrong(reported["place"].pop("reason"), **reported["place"])
    if reported["name"] == "MemoryError":
        return WorkerLost(f"the memory that it may have does not suffice: {reported['detail']}")
    if reported["name"] == WorkerLost.__name__:
        return WorkerLost(reported["detail"])
    if isinstance(kind, type) and issubclass(kind, SolverError):
        error = kind.__new__(kind)
        Exception.__init__(error, reported["detail"])
        return error
    return WorkerLost(f"{reported['name']}: {reported['detail']}")
