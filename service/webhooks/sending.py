"""Requests to receivers, to addresses that are checked where the connection is made.

A name is resolved once, and the connection goes to an address that was checked, so that a name which leads elsewhere
the next time gains nothing. Redirects are not followed, and no proxy of the environment is asked.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable
from functools import cache
from typing import Any

import httpcore
import httpx

from livesvm.service.webhooks.address import Refused, check_address

UNDELIVERED = (Refused, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError, ValueError)
"""What an attempt may end with that was not answered; URLs that no request can be made of are among the last."""


@cache
def authorities() -> ssl.SSLContext:
    """Return the certificate authorities, or those that SSL_CERT_FILE or SSL_CERT_DIR name."""
    return httpx.create_ssl_context()


def post(url: str, headers: dict[str, str], body: bytes, *, may_be_private: bool, seconds: float) -> int:
    """Send a body, and return the status of the answer, of which nothing more is read.

    Parameters
    ----------
    seconds : for all of it, however slowly the answer comes

    Raises
    ------
    Refused : the host has no address that may be sent to
    httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ssl.SSLError, OSError
    """
    until = time.monotonic() + seconds
    tls = authorities() if url.startswith("https") else None
    with (
        httpcore.ConnectionPool(ssl_context=tls, network_backend=_Checked(may_be_private, until)) as pool,
        pool.stream("POST", url, headers=list(headers.items()), content=body) as answer,
    ):
        return answer.status


class _Checked(httpcore.NetworkBackend):
    """Connects to addresses that are allowed, and until a time."""

    def __init__(self, may_be_private: bool, until: float) -> None:
        self._may_be_private, self._until = may_be_private, until
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of a host that can be reached; raises Refused where none is allowed."""
        failure: Exception | None = None
        for address in self._allowed(host, port):
            try:
                rest = _rest(self._until)
                return _Limited(self._plain.connect_tcp(address, port, rest), self._until)
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


class _Limited(httpcore.NetworkStream):
    """A connection that no call outlives a time of."""

    def __init__(self, stream: httpcore.NetworkStream, until: float) -> None:
        self._stream, self._until = stream, until

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what came."""
        return self._stream.read(max_bytes, _rest(self._until))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send."""
        self._stream.write(buffer, _rest(self._until))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Return the connection with TLS in it."""
        return _Limited(self._stream.start_tls(ssl_context, server_hostname, _rest(self._until)), self._until)

    def get_extra_info(self, info: str) -> Any:
        """Return a fact of the connection."""
        return self._stream.get_extra_info(info)


def _rest(until: float) -> float:
    """Return the seconds that are left; raises ReadTimeout."""
    left = until - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the receiver took too long")
    return left
