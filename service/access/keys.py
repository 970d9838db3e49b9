"""API keys: stored hashed, compared in constant time, each with a scope."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

SCOPES = ("read", "learn", "admin")
"""From least to most; each includes the ones before it."""

_ENTRY = re.compile(r"(?P<label>[A-Za-z0-9_.-]{1,64}):(?P<scope>read|learn|admin):(?P<digest>[0-9a-f]{64})")


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


def allows(scope: str, needed: str) -> bool:
    """Return whether ``scope`` includes ``needed``."""
    return SCOPES.index(scope) >= SCOPES.index(needed)
