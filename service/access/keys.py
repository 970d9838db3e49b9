"""API keys: stored hashed, compared in constant time, each with a scope.

They are given once, or in a file that is read again whenever it has changed: one entry a line, as for
``LIVESVM_API_KEYS``; lines that begin with ``#`` are remarks.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 2**20
"""Of a file with keys."""
SCOPES = ("read", "learn", "admin")
"""From least to most; each includes the ones before it."""

_ENTRY = re.compile(r"(?P<label>[A-Za-z0-9_.-]{1,64}):(?P<scope>read|learn|admin):(?P<digest>[0-9a-f]{64})")


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ApiKey:
    """One key that may call: its label, how much it may do, and the SHA-256 of the secret in hex."""

    label: str
    scope: str
    digest: str


def digest(secret: str) -> str:
    """SHA-256 of a secret, in hex (secrets are random and long: no salt or stretching is needed)."""
    return hashlib.sha256(secret.encode()).hexdigest()


_OF_NOTHING = frozenset(map(digest, ("", " ", "\n", "\r\n")))
"""What a variable or a file that turned out to be empty is hashed to."""


def parse_keys(text: str) -> tuple[ApiKey, ...]:
    """Read ``label:scope:sha256hex,...``; nothing at all is no key, and a blank entry is an error, not one key less.

    Raises ValueError that names the bad entry by its position.
    """
    entries = text.split(",") if text else []
    return tuple(_parsed(number, entry.strip()) for number, entry in enumerate(entries, start=1))


def _parsed(number: int, entry: str) -> ApiKey:
    match = _ENTRY.fullmatch(entry)
    if match is None:
        what = "is not label:scope:sha256hex" if entry else "is blank"
        raise ValueError(f"entry {number} of the API keys {what}")
    if match["digest"] in _OF_NOTHING:
        raise ValueError(f"entry {number} of the API keys is that of a blank secret")
    return ApiKey(**match.groupdict())


def new_key(label: str, scope: str) -> tuple[str, str]:
    """Return a new secret and the entry for ``LIVESVM_API_KEYS`` that admits it."""
    secret = "lsk_" + secrets.token_urlsafe(32)
    entry = f"{label}:{scope}:{digest(secret)}"
    parse_keys(entry)
    return secret, entry


def key_of(secret: str, keys: tuple[ApiKey, ...]) -> ApiKey | None:
    """Return the key that ``secret`` is, or None; takes as long whichever it is."""
    given = digest(secret)
    found = None
    for key in keys:
        if hmac.compare_digest(given, key.digest):
            found = key
    return found


class Keys:
    """The keys that may call now. There is always one where one was given, so that no change of a file opens a service.

    Parameters
    ----------
    entries : as in ``LIVESVM_API_KEYS``
    file : that holds the keys instead; empty: there is none. Raises ValueError, or OSError, where it cannot be read.
    """

    def __init__(self, entries: str, file: str = "") -> None:
        self._file, self._seen = file, _content(file) if file else b""
        self.known = keys_in(self._seen, file) if file else parse_keys(entries)
        self.trouble: str | None = None
        self._used = dict.fromkeys(self.known, 0.0)

    def find(self, secret: str) -> ApiKey | None:
        """Return the key that a secret is, and note that it was used; None if it is none."""
        found = key_of(secret, self.known)
        if found in self._used:
            self._used[found] = time.time()
        return found

    def used(self) -> Mapping[tuple[str, str], float]:
        """Return when each label and scope was used last, as a Unix time; 0 where it was not since the start."""
        found: dict[tuple[str, str], float] = {}
        for key, at in list(self._used.items()):
            named = key.label, key.scope
            found[named] = max(at, found.get(named, 0.0))
        return found

    def look(self) -> None:
        """Read the file again if it has changed; what cannot be read leaves the keys as they are."""
        if not self._file:
            return
        try:
            content = _content(self._file)
            if content == self._seen and self.trouble is None:
                return
            fresh = keys_in(content, self._file)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self._fail(f"{self._file} cannot be read: {reason}" if isinstance(error, OSError) else str(error))
            return
        self._seen, self.trouble = content, None
        before, self.known = self.known, fresh
        self._used = {key: self._used.get(key, 0.0) for key in fresh}
        added, removed = (
            ", ".join(f"{key.label} ({key.scope})" for key in some if key not in others) or "none"
            for some, others in ((fresh, before), (before, fresh))
        )
        log.warning("the API keys were read again: added %s; removed %s", added, removed)

    def _fail(self, reason: str) -> None:
        found = f"API keys are those of before: {reason}"
        if found != self.trouble:
            log.error("the %s", found)
        self.trouble = found


def _content(file: str) -> bytes:
    with Path(file).open("rb") as opened:
        return opened.read(MOST_BYTES + 1)


def keys_in(content: bytes, file: str) -> tuple[ApiKey, ...]:
    """Return the keys of a file, at least one; raises ValueError that names a bad line by its number."""
    if len(content) > MOST_BYTES:
        raise ValueError(f"{file} has more than {MOST_BYTES} bytes, and is no file of API keys")
    found: list[ApiKey] = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        try:
            found += parse_keys("" if line.lstrip().startswith("#") else line.strip())
        except ValueError as error:
            raise ValueError(f"line {number} of {file}: {error}") from None
    if not found:
        raise ValueError(f"{file} holds no API key")
    return tuple(found)


def allows(scope: str, needed: str) -> bool:
    """Return whether ``scope`` includes ``needed``."""
    return SCOPES.index(scope) >= SCOPES.index(needed)
