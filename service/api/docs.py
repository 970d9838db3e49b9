"""The pages that describe the API: what they may load, and which keys may see them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livesvm.service.access.keys import Keys
from livesvm.service.api import problems
from livesvm.service.api.edge.headers import policy_of
from livesvm.service.api.routes.access import bearer_of, let_in
from livesvm.service.errors import ServiceError

STATIC = "/static-offline-docs/"
PAGES = ("/docs", "/redoc", "/docs/oauth2-redirect")
_DESCRIBE = frozenset({*PAGES, "/openapi.json"})


class Docs:
    """ASGI middleware: pages may load what they need and no more, and a key is asked for where keys are given.

    Parameters
    ----------
    keys : of which one is needed to see the pages; None: every caller may
    root : the path that the pages are under for their readers
    """

    def __init__(self, app: ASGIApp, keys: Keys | None, root: str) -> None:
        self._app = app
        self._keys = keys
        self._root = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and look at pages on their way back."""
        path = scope["path"] if scope["type"] == "http" else ""
        if self._keys is not None and path in _DESCRIBE:
            try:
                let_in(self._keys.find(bearer_of(Request(scope))), "read")
            except ServiceError as error:
                await problems.refuse(error, scope, receive, send)
                return
        if path in _DESCRIBE:
            scope["root_path"] = self._root
        if path.startswith(STATIC):
            send = _with_header(send, b"cache-control", b"no-cache")
        await self._app(scope, receive, _policed(send) if path in PAGES else send)


def _with_header(send: Send, name: bytes, value: bytes) -> Send:
    async def adding_send(message: Message) -> None:
        """Send on, with the header."""
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (name, value)]
        await send(message)

    return adding_send


def _policed(send: Send) -> Send:
    """Send a page with a policy that allows the scripts within it, by their hashes, and the service's own files."""
    start: Message = {}

    async def sending(message: Message) -> None:
        """Hold the start back until the page is there, which comes in one piece."""
        nonlocal start
        if message["type"] == "http.response.start":
            start = message
            return
        if start:
            policy = (b"content-security-policy", policy_of(message["body"], "blob:").encode())
            await send({**start, "headers": [*start["headers"], policy]})
            start = {}
        await send(message)

    return sending
