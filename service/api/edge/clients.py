"""By what requests count as one client's, or as one caller's: an address, or an API key; a client's least pace."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

from starlette.requests import Request
from starlette.types import Scope

from livesvm.service.access.keys import ApiKey, Keys

_OWN_BITS = 64
"""Of an IPv6 address: what one network has to itself."""
PACE = 1000.0
"""Bytes a second that a client has to send, or to take, so as not to count as one that holds us up."""


@lru_cache(maxsize=1024)
def client_of(address: str) -> str:
    """Return the client behind an address: itself, or its network with IPv6, all of which one client may have."""
    try:
        known = ip_address(address)
    except ValueError:
        return address
    if not isinstance(known, IPv6Address):
        return str(known)
    return str(known.ipv4_mapped or ip_network((int(known), 128)).supernet(new_prefix=_OWN_BITS))


def caller_of(scope: Scope) -> Hashable:
    """Return by what a request that was let in counts as one caller's: its API key; its client, where it has none."""
    key: ApiKey | None = scope.get("state", {}).get("caller")
    return key or client_of(scope["client"][0] if scope.get("client") else "")


def is_admitted(request: Request) -> bool:
    """Return whether the API key of a request that was let in is one still."""
    keys: Keys = request.app.state.service.keys
    key: ApiKey | None = getattr(request.state, "caller", None)
    return key is None or key in keys.known
