"""Frames of a connection: each is authenticated before anything is made of it, by a key that the two ends agree on.

Both ends have a secret, which does not go over the connection. Each sends a random challenge, and from the secret and
both challenges follow two keys, one a direction. Every frame carries an HMAC of its place in the connection, its head
and its bytes: one that was made up, changed, repeated or sent back ends the connection. The first frame of each side
is empty and proves that it knows the secret; until then no other frame is taken in.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import ssl
import struct
from typing import Any

HEAD = struct.Struct("!QQ")
"""Of a frame: the number of its call, and its bytes."""
PLACE = struct.Struct("!Q")
"""Of a frame: how many came before it in its direction."""
MAC_BYTES = 32
SECRET_BYTES = 32
CHALLENGE_BYTES = 32
LARGEST = 64 * 2**20
"""Bytes of a frame."""
CONNECT_SECONDS = 2.0
"""For both ends to prove that they know the secret."""
HASH = "sha256"
ASKS, ANSWERS = b"front end", b"actor"
"""The two ends, as their keys are derived."""


class Frames(asyncio.Protocol):
    """One end of a connection.

    Parameters
    ----------
    secret : that the other end has to know
    own : which end this is, ``ASKS`` or ``ANSWERS``
    """

    def __init__(self, secret: bytes, own: bytes) -> None:
        self._secret, self._own = secret, own
        self.is_open, self._settled = False, asyncio.Event()
        self._challenge = secrets.token_bytes(CHALLENGE_BYTES)
        self._keys: tuple[bytes, bytes] | None = None
        self._came = bytearray()
        self._sent = self._taken = 0
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the challenge, and expect the proof in time."""
        self.transport = transport
        self.transport.write(self._challenge)
        asyncio.get_running_loop().call_later(CONNECT_SECONDS, self._expect_proof)

    def connection_lost(self, exc: Exception | None) -> None:
        """Know that it is over."""
        self.is_open = False
        self._settled.set()

    async def opened(self) -> bool:
        """Return whether both ends know the secret, once that is known."""
        await self._settled.wait()
        return self.is_open

    def data_received(self, data: bytes) -> None:
        """Take in what has come, and hand on what is whole and authentic."""
        self._came += data
        if self._keys is None:
            if len(self._came) < CHALLENGE_BYTES:
                return
            self._agree(bytes(self._came[:CHALLENGE_BYTES]))
            del self._came[:CHALLENGE_BYTES]
        while len(self._came) >= HEAD.size and not self.transport.is_closing():
            number, size = HEAD.unpack_from(self._came)
            if size > (LARGEST if self._taken else 0):
                self.transport.abort()
                return
            end = HEAD.size + size
            if len(self._came) < end + MAC_BYTES:
                return
            with memoryview(self._came) as came:
                signed, mac = bytes(came[:end]), bytes(came[end : end + MAC_BYTES])
            del self._came[: end + MAC_BYTES]
            self._take(number, signed, mac)

    def send(self, number: int, frame: bytes) -> None:
        """Send a frame, as soon as it may go."""
        assert self._keys is not None
        signed = HEAD.pack(number, len(frame)) + frame
        self.transport.write(signed + _mac(self._keys[0], self._sent, signed))
        self._sent += 1

    def frame(self, number: int, frame: bytes) -> None:
        """Take a frame in."""
        raise NotImplementedError

    def _agree(self, theirs: bytes) -> None:
        """Derive the keys, by which this end sends and the other does."""
        asks = self._own == ASKS
        both = self._challenge + theirs if asks else theirs + self._challenge
        keys = [hmac.digest(self._secret, end + both, HASH) for end in (ASKS, ANSWERS)]
        self._keys = (keys[0], keys[1]) if asks else (keys[1], keys[0])
        if asks:
            self.send(0, b"")

    def _take(self, number: int, signed: bytes, mac: bytes) -> None:
        assert self._keys is not None
        if not hmac.compare_digest(mac, _mac(self._keys[1], self._taken, signed)):
            self.transport.abort()
            return
        self._taken += 1
        if self._taken > 1:
            self.frame(number, signed[HEAD.size :])
            return
        if self._own == ANSWERS:
            self.send(0, b"")
        self.is_open = True
        self._settled.set()

    def _expect_proof(self) -> None:
        if not self._taken:
            self.transport.abort()


def _mac(key: bytes, place: int, signed: bytes) -> bytes:
    return hmac.digest(key, PLACE.pack(place) + signed, HASH)


def tls(purpose: ssl.Purpose) -> ssl.SSLContext | None:
    """Return what Ray's own connections are encrypted by, for the end that this purpose names; None where they are not.

    Both ends show a certificate of Ray's authority. Raises OSError where a file is not there or is no certificate.
    """
    if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return None
    context = ssl.create_default_context(purpose, cafile=os.environ["RAY_TLS_CA_CERT"])
    context.load_cert_chain(os.environ["RAY_TLS_SERVER_CERT"], os.environ["RAY_TLS_SERVER_KEY"])
    context.verify_mode = ssl.CERT_REQUIRED
    return context
