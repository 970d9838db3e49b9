"""Headers that every answer has, so that browsers make nothing else of it than it is."""

from __future__ import annotations

POLICY = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Nothing is loaded; plots have styles within."""
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", POLICY),
    (b"cache-control", b"no-store"),
)
"""Each where the answer has none of that name."""
