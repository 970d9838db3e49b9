"""Check that webhooks send messages only to public internet addresses, in whichever notation an address is written."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_NAT64 = ip_network("64:ff9b::/96")
"""IPv6 addresses that lead to the IPv4 address in their last four bytes."""
_SPECIAL = tuple(
    ip_network(text)
    for text in (
        "192.0.0.0/24",  # assigned to protocols
        "192.88.99.0/24",  # relays of 6to4, deprecated
        "64:ff9b:1::/48",  # NAT64 of a local network
        "100:0:0:1::/64",  # dummy addresses
        "2001::/23",  # assigned to protocols
        "3fff::/20",  # for documentation
        "5f00::/16",  # identifiers of segment routing
        "fec0::/10",  # of a site, deprecated
    )
)
"""Networks of IANA's registries of special addresses that some versions of :mod:`ipaddress` call global."""


class Refused(Exception):
    """The address of a receiver belongs to this machine or to a private network."""


def is_address(host: str) -> bool:
    """Return whether a host is written as an IP address, and not as a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def check_address(text: str) -> None:
    """Raise Refused unless an address is public; if an IPv6 address embeds an IPv4 address, check the embedded one."""
    address = _inside(ip_address(text))
    is_plain = address.is_global and not (address.is_multicast or address.is_reserved or address.is_private)
    if not is_plain or _is_tunnel(address) or any(address in network for network in _SPECIAL):
        raise Refused(f"{text} is not an address of the public internet")


def _inside(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_tunnel(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an IPv6 address embeds an IPv4 address as a 6to4 or Teredo tunnel."""
    return isinstance(address, IPv6Address) and (address.sixtofour is not None or address.teredo is not None)
