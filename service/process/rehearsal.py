"""Rehearsal: requests of every common kind before the service is ready, so that no user's first request is slow.

A process loads validators, serializers, pages of machine code and the database library once, when they are first used.
The rehearsal sends requests to a second application, with a model and a feed in a temporary directory, so that the
process has loaded its code before the first request to the real application.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from livesvm.service import crash
from livesvm.service.api.middleware import SILENT
from livesvm.service.settings import Settings
from livesvm.service.store.base import StoreError

DIRECTORY = "rehearsal"
"""Temporary directory of the rehearsal, below the data directory."""
_X = [[0.0, 0.0], [0.0, 1.0], [2.0, 2.0], [3.0, 2.0], [1.0, 1.0], [2.0, 0.0]]
_Y = [-1, -1, 1, 1, 1, -1]
_SPARSE = {"indices": [[0], [1]], "values": [[1.0], [1.0]], "n_features": 3}
_KEYS = ["a", "b", "c", "d", "e", "f"]
_EDITS = {"reweight": {"keys": ["a"], "weights": [0.5]}, "relabel": {"keys": ["b"], "y": [1]}, "decay": 0.9, "C": 2.0}
_READINGS = [{"time": float(hour * 3600), "y": float(hour % 5)} for hour in range(46)]
_FEED = {"id": "f", "target": "y", "window": 40, "steps": 2, "lags": 3, "rolling": {"mean": [4]}, "season": 5}
_FEED |= {"represent": "change", "C": 1.0, "gamma": 0.1, "epsilon": 0.05}  # a choice takes long, warm or cold
REQUESTS: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/models", {"id": "m", "kernel": {"name": "rbf", "gamma": 0.5}, "window": {"max_examples": 6}}),
    ("POST", "/models/m/update", {"add": {"X": _X, "y": _Y, "keys": _KEYS}}),
    ("POST", "/models/m/update", _EDITS),
    ("POST", "/models/m/update", {"add": {"X": _X[:2], "y": _Y[:2]}, "remove": {"oldest": 1}}),
    ("POST", "/models/m/predict", {"X": _X}),
    ("POST", "/models", {"id": "s", "kernel": {"name": "linear"}}),
    ("POST", "/models/s/update", {"add": {"X": _SPARSE, "y": _Y[:2], "times": ["2026-01-02T00:00:00Z", 0.0]}}),
    ("POST", "/models/s/predict", {"X": _SPARSE}),
    ("GET", "/models/s/examples", None),
    ("DELETE", "/models/s", None),
    ("GET", "/models/m/certificate", None),
    ("GET", "/models/m", None),
    ("GET", "/models", None),
    ("POST", "/feeds", _FEED),
    ("POST", "/feeds/f/observations", {"rows": _READINGS[:42]}),
    ("POST", "/feeds/f/observations", {"rows": _READINGS[42:]}),
    ("GET", "/feeds/f/forecast", None),
    ("GET", "/feeds/f/history", None),
    ("GET", "/feeds/f", None),
    ("GET", "/metrics", None),
    ("DELETE", "/feeds/f", None),
    ("DELETE", "/models/m", None),
)

log = logging.getLogger(__name__)


def rehearse(data_dir: Path, create: Callable[[Settings], FastAPI]) -> None:
    """Send every request of the rehearsal once, and wait for the answers. A failure of the rehearsal is only logged."""
    place = data_dir / DIRECTORY
    try:
        shutil.rmtree(place, ignore_errors=True)  # of a start that was cut off
        with crash.paused():
            play(place, create)
    except StoreError as error:  # of a disk that takes nothing, say
        log.warning("there was no rehearsal, and first requests may be slow: %s", error)
    except Exception:
        log.exception("the rehearsal failed; first requests may be slow")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def play(place: Path, create: Callable[[Settings], FastAPI]) -> None:
    """Send every request once to an application with data in ``place`` and default settings, not the environment's.

    Raises RuntimeError if a request is refused.
    """
    app = create(Settings.model_construct(data_dir=place))
    service = app.state.service
    try:
        service.health.restored()
        asyncio.run(_ask_all(app))
    finally:
        service.close()


async def _ask_all(app: FastAPI) -> None:
    for method, path, body in REQUESTS:
        status = await _ask(app, method, path, b"" if body is None else json.dumps(body).encode())
        if status >= 400:
            raise RuntimeError(f"{method} {path} was answered {status}")


async def _ask(app: FastAPI, method: str, path: str, body: bytes) -> int:
    """Send one request, and return the status of its answer."""
    statuses = []

    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> MutableMapping[str, Any]:
        """Return the whole body of the request at the first call; further calls wait forever."""
        if not parts:
            await asyncio.Event().wait()
        return parts.pop()

    async def send(message: MutableMapping[str, Any]) -> None:
        """Record the HTTP status in a message of the answer, if the message has one."""
        statuses.append(message.get("status", 0))

    headers = [
        (b"host", b"localhost"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
        SILENT: True,
    }
    await app(scope, receive, send)
    return int(statuses[0])
