"""Security headers for browsers, which every answer has."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from email.utils import formatdate
from functools import lru_cache

POLICY = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""A content security policy by which a browser loads nothing; inline styles are allowed, as plots have them."""
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"DENY",
    b"cross-origin-resource-policy": b"same-origin",
    b"content-security-policy": POLICY,
    b"cache-control": b"no-store",
}
"""Headers added to every answer that has no header of the same name."""
_INLINE_SCRIPT = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.+?)</script>", re.DOTALL)
_OF_PAGES = (
    "default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; worker-src {workers}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def policy_of(page: bytes, workers: str) -> str:
    """Return the content security policy of a page: it may load the service's files, and run its own inline scripts."""
    digests = sorted({hashlib.sha256(script).digest() for script in _INLINE_SCRIPT.findall(page)})
    scripts = " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests)
    return _OF_PAGES.format(scripts=scripts, workers=workers)


def dated() -> list[tuple[bytes, bytes]]:
    """Return the ``date`` header of an answer that begins now."""
    return _dated(int(time.time()))


@lru_cache(maxsize=1)
def _dated(second: int) -> list[tuple[bytes, bytes]]:
    return [(b"date", formatdate(second, usegmt=True).encode())]
