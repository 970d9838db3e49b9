"""The bytes of request bodies, counted against the memory budget while they come in and until they are answered."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livesvm.service.resources.memory import Budget

COPIES = 2
"""Of a body: its pieces, and the whole of them."""
STREAMED = "/datasets/"
"""Where bodies go to disk as they come, and are not held in memory."""


class BodyMemory:
    """ASGI middleware; a body that does not fit is refused by the error that its reader meets."""

    def __init__(self, app: ASGIApp, budget: Budget) -> None:
        self._app = app
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and hold what has come of its body until it is answered."""
        held = 0
        is_streamed = scope["type"] == "http" and scope["path"].startswith(STREAMED)

        async def counting_receive() -> Message:
            """Take memory for what comes; raises BodyTooLarge or MemoryBusy if there is none."""
            nonlocal held
            message = await receive()
            if not is_streamed and (size := COPIES * len(message.get("body", b""))):
                self._budget.take("bodies", size)
                held += size
            return message

        try:
            await self._app(scope, counting_receive, send)
        finally:
            if held:
                self._budget.give("bodies", held)
