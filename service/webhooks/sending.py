"""HTTP requests to the receivers of webhooks; each receiver's address is checked when the connection is opened.

A host name is resolved once, and the connection goes to the address that was checked, which prevents DNS rebinding.
Redirects are not followed, and proxies that environment variables name are not used.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import httpcore
import httpx

from livesvm.service.webhooks.address import Refused, check_address

UNDELIVERED = (Refused, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError, ValueError)
"""Errors of an attempt without an answer; ValueError is raised for URLs of which no request can be made."""
REST_BYTES, REST_SECONDS = 65_536, 1.0
"""Limits of reading an answer's body, which is read only so that the connection can be kept."""


@cache
def authorities() -> ssl.SSLContext:
    """Return a TLS context with the default certificate authorities, or those in SSL_CERT_FILE or SSL_CERT_DIR."""
    return httpx.create_ssl_context()


class Connection:
    """The connection to one receiver, which is opened for a message, and stays open for messages that follow soon.

    Parameters
    ----------
    kept : seconds for which it stays open when nothing is sent
    may_be_private : whether it may lead into private networks
    """

    def __init__(self, url: str, kept: float, *, may_be_private: bool) -> None:
        tls = authorities() if url.startswith("https") else None
        self._url = url
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls, max_connections=1, keepalive_expiry=kept, network_backend=_Checked(may_be_private)
        )

    def post(self, headers: dict[str, str], body: bytes, seconds: float) -> tuple[int, float]:
        """Send a body to the receiver; return the answer's status, and the seconds to wait by its header Retry-After.

        If the answer's body is long or slow, the connection is closed before the whole body is read.

        Parameters
        ----------
        seconds : for connecting, and for each piece that is sent or read

        Raises
        ------
        Refused : the host has no address that may be sent to
        httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ssl.SSLError, OSError
        """
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), seconds)
        fields, extensions = list(headers.items()), {"timeout": timeouts}
        with self._pool.stream("POST", self._url, headers=fields, content=body, extensions=extensions) as answer:
            timeouts["read"], until = REST_SECONDS, time.monotonic() + REST_SECONDS
            with suppress(*UNDELIVERED):
                size = 0
                for part in answer.iter_stream():
                    size += len(part)
                    if size > REST_BYTES or time.monotonic() > until:
                        break
            return answer.status, _patience(answer.headers)

    def close(self) -> None:
        """Close the connection; the next message opens it again."""
        self._pool.close()


def _patience(headers: Iterable[tuple[bytes, bytes]]) -> float:
    """Return for how many seconds the header Retry-After asks to wait; 0 if it is missing or cannot be parsed."""
    found = next((value.decode("latin-1").strip() for name, value in headers if name.lower() == b"retry-after"), "")
    if found.isascii() and found.isdigit():
        return float(found)
    try:
        return max(0.0, parsedate_to_datetime(found).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


class _Checked(httpcore.SyncBackend):
    """Network backend of the HTTP library that opens connections only to allowed addresses."""

    def __init__(self, may_be_private: bool) -> None:
        self._may_be_private = may_be_private

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first allowed and reachable address of a host; raises Refused if no address is allowed."""
        failure: Exception | None = None
        for address in self._allowed(host, port):
            try:
                return super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address")

    def _allowed(self, host: str, port: int) -> list[str]:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} has no address: {error}") from error
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        if self._may_be_private:
            return addresses
        allowed, refused = [], Refused(f"{host} has no address")
        for address in addresses:
            try:
                check_address(address)
                allowed.append(address)
            except Refused as error:
                refused = error
        if not allowed:
            raise refused
        return allowed
