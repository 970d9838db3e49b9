"""API keys, which have a scope each, are stored as hashes, and are compared in constant time.

The keys come from the setting ``LIVESVM_API_KEYS``, or from a file that is read again whenever it has changed. Each
line of the file has one entry in the form of the setting; lines that begin with ``#`` are comments.
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
"""Largest size of a file with keys."""
SCOPES = ("read", "learn", "admin")
"""From least to most; each includes the ones before it."""

_ENTRY = re.compile(r"(?P<label>[A-Za-z0-9_.-]{1,64}):(?P<scope>read|learn|admin):(?P<digest>[0-9a-f]{64})")


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ApiKey:
    """One API key: its label, its scope, and the SHA-256 of its secret in hex."""

    label: str
    scope: str
    digest: str


def digest(secret: str) -> str:
    """Return the SHA-256 of a secret in hex; secrets are random and long, so that they need no salt or stretching."""
    return hashlib.sha256(secret.encode()).hexdigest()


_OF_NOTHING = frozenset(map(digest, ("", " ", "\n", "\r\n")))
"""Digests of blank secrets, which result from hashing an empty variable or file."""


def parse_keys(text: str) -> tuple[ApiKey, ...]:
    """Parse ``label:scope:sha256hex,...``; an empty text yields no keys, but an empty entry in a list is an error.

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
    """Return a new random secret, and the entry for ``LIVESVM_API_KEYS`` that makes the secret valid."""
    secret = "lsk_" + secrets.token_urlsafe(32)
    entry = f"{label}:{scope}:{digest(secret)}"
    parse_keys(entry)
    return secret, entry


def key_of(secret: str, keys: tuple[ApiKey, ...]) -> ApiKey | None:
    """Return the key with this ``secret``, or None; all keys are compared, so that the time reveals nothing."""
    given = digest(secret)
    found = None
    for key in keys:
        if hmac.compare_digest(given, key.digest):
            found = key
    return found


class Keys:
    """The API keys that are valid now; a file from which all keys are deleted does not make them invalid.

    Parameters
    ----------
    entries : as in ``LIVESVM_API_KEYS``
    file : path of a file with the keys, used instead if not empty. Raises ValueError or OSError if it cannot be read.
    """

    def __init__(self, entries: str, file: str = "") -> None:
        self._file, self._seen = file, _content(file) if file else b""
        self.known = keys_in(self._seen, file) if file else parse_keys(entries)
        self.trouble: str | None = None
        self._used = dict.fromkeys(self.known, 0.0)

    def find(self, secret: str) -> ApiKey | None:
        """Return the key with this secret, and note that it is used now; None if no key has this secret."""
        found = key_of(secret, self.known)
        if found in self._used:
            self._used[found] = time.time()
        return found

    def used(self) -> Mapping[tuple[str, str], float]:
        """Map the label and scope of each key to the Unix time of its last use, 0 if unused since the start."""
        found: dict[tuple[str, str], float] = {}
        for key, at in list(self._used.items()):
            named = key.label, key.scope
            found[named] = max(at, found.get(named, 0.0))
        return found

    def look(self) -> None:
        """Read the file of keys again if it has changed; if this fails, the present keys stay valid."""
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
    """Read the keys in a file; raises ValueError if there are none, or with the number of a line that is not valid."""
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
    """Return whether a key of the scope ``scope`` may make calls that need the scope ``needed``."""
    return SCOPES.index(scope) >= SCOPES.index(needed)
