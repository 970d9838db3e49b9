"""Whom clients believe that they are who they say."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def authorities() -> ssl.SSLContext:
    """The certificate authorities, read once for all clients of the process: that takes longer than most calls."""
    return httpx.create_ssl_context(trust_env=False)
