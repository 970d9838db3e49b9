"""Identification of clients by network address, and of callers by API key, or by client if a request has no key."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

from starlette.requests import Request
from starlette.types import Scope

from livesvm.service.access.keys import ApiKey, Keys

_OWN_BITS = 64
"""Prefix length of the IPv6 networks that count as one client."""
PACE = 1000.0
"""Smallest rate, in bytes a second, at which a client must send or read; slower connections are closed."""


@lru_cache(maxsize=1024)
def client_of(address: str) -> str:
    """Return the address that identifies a client; for IPv6, its network, as one client may own a whole network."""
    try:
        known = ip_address(address)
    except ValueError:
        return address
    if not isinstance(known, IPv6Address):
        return str(known)
    return str(known.ipv4_mapped or ip_network((int(known), 128)).supernet(new_prefix=_OWN_BITS))


def caller_of(scope: Scope) -> Hashable:
    """Return the caller of an admitted request: its API key, or if it has no key, the client that sent it."""
    key: ApiKey | None = scope.get("state", {}).get("caller")
    return key or client_of(scope["client"][0] if scope.get("client") else "")


def is_admitted(request: Request) -> bool:
    """Return whether the API key of an admitted request is still valid."""
    keys: Keys = request.app.state.service.keys
    key: ApiKey | None = getattr(request.state, "caller", None)
    return key is None or key in keys.known
