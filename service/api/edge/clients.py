"""The address by which requests count as one client's."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

_OWN_BITS = 64
"""Of an IPv6 address: what one network has to itself."""


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
