"""Service under a path of a proxy: the path is removed from requests, and added to locations in answers."""

from __future__ import annotations

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class RootPath:
    """ASGI middleware that removes a proxy's path from requests, and adds the path to locations in answers.

    Parameters
    ----------
    root : the path, without a slash at its end
    """

    def __init__(self, app: ASGIApp, root: str) -> None:
        self._app = app
        self._root = root
        self._sent = root.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Remove the proxy's path from the request, and pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def leading_send(message: Message) -> None:
            """Add the proxy's path to a location within the service, and send the message on."""
            if message["type"] == "http.response.start":
                message["headers"] = [(name, self._below(name, value)) for name, value in message["headers"]]
            await send(message)

        if scope["path"] == self._root:  # relative links of the page begin behind the slash
            await RedirectResponse("/")(scope, receive, leading_send)
            return
        if scope["path"].startswith(f"{self._root}/"):
            rest = scope["path"][len(self._root) :]
            scope.update(path=rest, raw_path=scope["raw_path"].removeprefix(self._sent))
        await self._app(scope, receive, leading_send)

    def _below(self, name: bytes, value: bytes) -> bytes:
        is_within = name == b"location" and value.startswith(b"/") and not value.startswith(self._sent + b"/")
        return self._sent + value if is_within else value
