"""Requests that another front end has passed on, and its signed word for their callers."""

from __future__ import annotations

from fastapi import Request

from livesvm.service.access.vouching import Vouched
from livesvm.service.errors import Unauthorized

VOUCHED = "livesvm-vouched"
"""The header in which a front end vouches for the caller of a request that it passes on."""


def asked_of(request: Request) -> bytes:
    """Return what another front end vouches for, besides the body: what is asked, and how."""
    reported = (request.headers.get(name, "") for name in ("idempotency-key", "content-type"))
    return "\n".join((request.method, target_of(request).decode("latin-1"), *reported)).encode("latin-1")


def target_of(request: Request) -> bytes:
    """Return the path and the query of a request, as they came."""
    path: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    return path + b"?" + query if query else path


def check_vouched(request: Request, body: bytes) -> None:
    """Raise Unauthorized where another front end has vouched for a request with another body."""
    found: Vouched | None = getattr(request.state, "vouched", None)
    if found is not None and not found.is_for(body):
        raise Unauthorized("another front end vouched for this request with another body")
