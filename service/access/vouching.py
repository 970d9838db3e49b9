"""A service's word for the caller of a request that it passes on: it goes along in place of the caller's API key.

The word names the key by label and scope, and is signed with a secret of the service that is asked. It holds for one
request, its body included, once, and for a minute: it admits to nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from dataclasses import dataclass

from livesvm.service.access.keys import ApiKey

SECRET_BYTES = 32
SECONDS = 60.0
"""For which a word holds; clocks may be so far apart."""

_WORD = re.compile(
    r"(?P<said>(?P<at>\d{1,16}):(?P<nonce>[0-9a-f]{32}):(?P<label>[A-Za-z0-9_.-]{1,64}):(?P<scope>[a-z]{1,16})"
    r":(?P<body>[0-9a-f]{64})):(?P<mac>[0-9a-f]{64})"
)


def vouch(secret: bytes, key: ApiKey, asked: bytes, body: bytes) -> str:
    """Return the signed word for a caller with a key, for this request and this body."""
    at, nonce = int(time.time()), secrets.token_hex(16)
    said = f"{at}:{nonce}:{key.label}:{key.scope}:{hashlib.sha256(body).hexdigest()}"
    return f"{said}:{_signed(secret, said, asked)}"


@dataclass(frozen=True)
class Vouched:
    """The caller as another service names it, and the SHA-256 of the body in hex."""

    key: ApiKey
    body: str

    def is_for(self, body: bytes) -> bool:
        """Return whether this is the body."""
        return hmac.compare_digest(hashlib.sha256(body).hexdigest(), self.body)


class Vouching:
    """What a service believes others of callers; they learn ``secret`` where others cannot."""

    def __init__(self) -> None:
        self.secret = secrets.token_bytes(SECRET_BYTES)
        self._used: dict[str, float] = {}
        self._lock = threading.Lock()

    def believed(self, word: str, asked: bytes, keys: tuple[ApiKey, ...]) -> Vouched | None:
        """Return the caller that a word names; None if it does not hold, or no key is so named here."""
        found = _WORD.fullmatch(word)
        if found is None or not hmac.compare_digest(found["mac"], _signed(self.secret, found["said"], asked)):
            return None
        now = time.time()
        if abs(now - int(found["at"])) > SECONDS or not self._is_first(found["nonce"], now):
            return None
        named = (key for key in keys if (key.label, key.scope) == (found["label"], found["scope"]))
        key = next(named, None)
        return None if key is None else Vouched(key, found["body"])

    def _is_first(self, nonce: str, now: float) -> bool:
        """Note that a word was used; those are forgotten that do not hold any more, whenever they were given."""
        with self._lock:
            while self._used and next(iter(self._used.values())) < now - 2 * SECONDS:
                del self._used[next(iter(self._used))]
            if nonce in self._used:
                return False
            self._used[nonce] = now
            return True


def _signed(secret: bytes, said: str, asked: bytes) -> str:
    return hmac.new(secret, said.encode() + b"\n" + asked, "sha256").hexdigest()
