"""A receiver of webhooks: real HTTP in a thread, which verifies as the library of Standard Webhooks does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from standardwebhooks import Webhook

from tests.support.waiting import until


class Receiver:
    """Keeps what it verifies, and answers each message by what ``status`` returns for its number, from 0."""

    def __init__(self, status: Callable[[int], int] = lambda number: 204) -> None:
        self.status, self.secret, self.headers, self.connections = status, "", dict[str, str](), 0
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.held = threading.Event()
        self.held.set()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(handler) -> None:  # noqa: N805
                super().setup()
                self.connections += 1

            def do_POST(handler) -> None:  # noqa: N805
                body = handler.rfile.read(int(handler.headers["content-length"]))
                message = Webhook(self.secret).verify(body, dict(handler.headers))
                self.messages.append((handler.headers["webhook-id"], message))
                status = self.status(len(self.messages) - 1)
                self.held.wait()
                handler.send_response(status)
                for name, value in ({"location": self.url, "content-length": "0"} | self.headers).items():
                    handler.send_header(name, value)
                handler.end_headers()

            def log_message(handler, *arguments: Any) -> None:  # noqa: N805
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def kinds(self) -> list[str]:
        """Types of all messages."""
        return [message["type"] for _, message in self.messages]

    def wait_for(self, count: int) -> None:
        """Return when so many messages have come."""
        until(lambda: len(self.messages) >= count)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.held.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
