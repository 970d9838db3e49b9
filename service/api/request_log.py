"""The outermost layer of requests: each is named, timed by route template, always answered, and logged at its end."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Callable
from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livesvm.service.api import problems
from livesvm.service.api.edge.headers import HEADERS
from livesvm.service.api.routes.access import FEED_ID
from livesvm.service.api.streams import MEDIA_TYPE
from livesvm.service.errors import CutOff
from livesvm.service.logs import calls
from livesvm.service.logs.calls import Call, tell
from livesvm.service.monitoring.metrics import Metrics

ID_HEADER = b"x-request-id"
SILENT = "livesvm.silent"
"""In the scope of a request that the service made itself, and which is not logged."""
_STREAM = MEDIA_TYPE.encode()
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_PROBES = frozenset({"/health/live", "/health/serving", "/health/ready", "/metrics"})
"""Asked again and again; the log tells of them at the level debug, unless they fail."""
_ID = re.compile(rb"[A-Za-z0-9_.:/+=@-]{1,128}")
_MODEL = re.compile(FEED_ID)
_CUT = (
    "the service stops, and this request took too long; what it asked may be done yet; "
    "with the same Idempotency-Key it is done once"
)

log = logging.getLogger("livesvm.requests")

Traced = Callable[[Call, float, dict[str, Any], list[tuple[bytes, bytes]]], dict[str, Any]]
"""Tells a call that has ended as a trace: its end, its line, the head of its request; what the line says of that."""


class RequestLog:
    """ASGI middleware; a path that no route matches counts as ``unmatched``.

    Parameters
    ----------
    slow_seconds : what takes longer is worth a warning
    is_stopping : whether the server cuts requests off
    traced : tells traces, where they are wanted
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        slow_seconds: float,
        is_stopping: Callable[[], bool],
        traced: Traced | None = None,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._slow_seconds = slow_seconds
        self._is_stopping = is_stopping
        self._traced = traced

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and note how it went; an error that was not foreseen, or a cut, is answered here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        call = Call(_id_of(scope), SILENT in scope)
        status, lasts = 0, False

        async def noting_send(message: Message) -> None:
            """Send on, with the request's name and every answer's headers; note the status, and if it is a stream."""
            nonlocal status, lasts
            if message["type"] == "http.response.start":
                status = message["status"]
                lasts = any(value.startswith(_STREAM) for _, value in message["headers"])
                given = message["headers"]
                names = {name for name, _ in given}
                own = [header for header in HEADERS if header[0] not in names]
                message["headers"] = [*given, *own, (ID_HEADER, call.id.encode())]
            await send(message)

        self._metrics.http_in_progress.inc()
        token = calls.begin(call)
        try:
            await self._app(scope, receive, noting_send)
        except Exception as error:
            if status:
                raise
            await problems.refuse(error, scope, receive, noting_send)
        except asyncio.CancelledError:
            if status or not self._is_stopping():
                raise
            await problems.refuse(CutOff(_CUT), scope, receive, noting_send)
        finally:
            self._metrics.http_in_progress.dec()
            self._ended(call, scope, status, lasts)
            calls.end(token)

    def _ended(self, call: Call, scope: Scope, status: int, lasts: bool) -> None:
        end = perf_counter()
        route = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.http_requests.labels(method, route, str(status or 500)).inc()
        if not lasts:  # an event stream ends when its reader leaves, which says nothing of the service
            self._metrics.http_seconds.labels(route).observe(end - call.began)
        if call.is_silent:
            return
        is_slow = not lasts and end - call.began > self._slow_seconds
        level = logging.WARNING if is_slow or status >= 500 else logging.INFO
        if route in _PROBES and status < 400:
            level = logging.DEBUG
        if self._traced is None and not log.isEnabledFor(level):
            return
        line = _line(call, scope, method, route, status, end)
        if is_slow:
            line["slow"] = max(line["stages"], key=line["stages"].__getitem__)
        if self._traced is not None:
            line |= self._traced(call, end, line, scope["headers"])
        tell(log, level, "request", line)


def _line(call: Call, scope: Scope, method: str, route: str, status: int, end: float) -> dict[str, Any]:
    """Return what the log says of a request."""
    model = scope.get("path_params", {}).get("id", "")
    return {
        "method": method,
        "route": route,
        "status": status or None,
        "outcome": _outcome(status),
        "model": model if _MODEL.match(model) else None,
        **call.facts,
        "seconds": round(end - call.began, 6),
        "stages": {name: round(seconds, 6) for name, seconds in call.stages(end).items()},
    }


def _outcome(status: int) -> str:
    """Return one word: ``cut`` is a request that got no answer, ``failed`` is the service's own fault."""
    if status == 0:
        return "cut"
    return "done" if status < 400 else "failed" if status == 500 else "refused"


def _id_of(scope: Scope) -> str:
    """Return what the client calls the request; a name of our own if it gave none that can be used."""
    for name, value in scope["headers"]:
        if name == ID_HEADER and _ID.fullmatch(value):
            return str(value, "ascii")
    return secrets.token_hex(12)
