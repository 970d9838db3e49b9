"""Counting and timing of HTTP requests, by route template."""

from __future__ import annotations

from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livesvm.service.api.streams import MEDIA_TYPE
from livesvm.service.monitoring.metrics import Metrics

_STREAM = MEDIA_TYPE.encode()
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class HttpMetrics:
    """ASGI middleware; a path that no route matches counts as ``unmatched``."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and note how it went."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, lasts = 500, False
        start = perf_counter()

        async def noting_send(message: Message) -> None:
            """Send on, with a look at the status and at whether this is a stream."""
            nonlocal status, lasts
            if message["type"] == "http.response.start":
                status = message["status"]
                lasts = any(value.startswith(_STREAM) for _, value in message["headers"])
            await send(message)

        self._metrics.http_in_progress.inc()
        try:
            await self._app(scope, receive, noting_send)
        finally:
            self._metrics.http_in_progress.dec()
            route = getattr(scope.get("route"), "path", "unmatched")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.http_requests.labels(method, route, str(status)).inc()
            if not lasts:  # an event stream ends when someone leaves, which says nothing of the service
                self._metrics.http_seconds.labels(route).observe(perf_counter() - start)
