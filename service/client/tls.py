"""The certificate authorities that clients trust."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def authorities() -> ssl.SSLContext:
    """Return the certificate authorities, read once for all clients of the process, as it takes longer than a call."""
    return httpx.create_ssl_context(trust_env=False)
