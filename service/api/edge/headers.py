"""Headers that every answer has, so that browsers make nothing else of it than it is."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Nothing is loaded; plots have styles within."""
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", POLICY),
    (b"cache-control", b"no-store"),
)


class SecurityHeaders:
    """ASGI middleware that adds :data:`HEADERS`, each where the answer has none of that name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add headers to the answer."""

        async def adding_send(message: Message) -> None:
            """Send on, with the headers."""
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name for name, _ in given}
                message["headers"] = given + [header for header in HEADERS if header[0] not in names]
            await send(message)

        await self._app(scope, receive, adding_send)
