"""Methods: HEAD where GET is, and which ones a path has."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Heads:
    """ASGI middleware that answers HEAD as GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; of a HEAD's answer only the beginning comes back."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def beginning(message: Message) -> None:
            """Send the status and the headers, and end: an answer without end is not waited for."""
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        inner = {**scope, "method": "GET"}
        try:
            await self._app(inner, receive, beginning)
        finally:
            scope["route"] = inner.get("route")  # the request metrics ask for it


def allowed(app: FastAPI, scope: Scope) -> list[str]:
    """Return the methods that the path of a request has; empty where there is no such path."""
    methods = [method for method in _METHODS if _has(app, scope, method)]
    if not methods:
        return []
    return [*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"]


def _has(app: FastAPI, scope: Scope, method: str) -> bool:
    root = scope.get("app_root_path", scope.get("root_path", ""))  # a mounted application has another one
    asked = {"type": "http", "method": method, "path": scope["path"], "root_path": root}
    for route in app.router.routes:
        if route.matches(dict(asked))[0] is Match.FULL:
            return method == "GET" or not isinstance(route, Mount)  # files are read
    return False
