"""The hosts for which the service answers requests; others are refused to prevent DNS rebinding."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

ANY = "*"
_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::[0-9]{0,5})?", re.IGNORECASE)


def parse_hosts(text: str) -> frozenset[str]:
    """Parse a list of hosts, ``name,address,...`` or ``*``; raises ValueError with the position of an invalid entry."""
    entries = text.split(",") if text else []
    return frozenset(_parsed(number, entry.strip()) for number, entry in enumerate(entries, start=1))


def _parsed(number: int, entry: str) -> str:
    found = entry if entry == ANY else host_of(f"[{entry}]" if entry.count(":") > 1 else entry)
    if found is None or entry.count(":") == 1:
        what = "is no name or address, without a port" if entry else "is blank"
        raise ValueError(f"entry {number} of the allowed hosts {what}")
    return found


def host_of(authority: str) -> str | None:
    """Return the host in a ``Host`` header or an origin, in lower case and without the port.

    If the text is not a host with an optional port, return None.
    """
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return None
    host = (match["v6"] or match["name"]).lower().removesuffix(".")
    address = _address(host)
    if match["v6"] and address is None:
        return None
    return str(address or host) or None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


class Hosts:
    """The host names and addresses that requests may name: loopback, the bound address, and those in the setting.

    Parameters
    ----------
    listed : as in ``LIVESVM_ALLOWED_HOSTS``
    bound : the address that it listens on. If it is 0.0.0.0 or ::, requests may name any address, as DNS rebinding
        needs a name
    """

    def __init__(self, listed: str, bound: str) -> None:
        self._names = parse_hosts(listed) | {host_of(f"[{bound}]" if ":" in bound else bound)}
        address = _address(bound)
        self._any_address = address is not None and address.is_unspecified

    def admit(self, host: str) -> bool:
        """Return whether requests may name this host, which :func:`host_of` has returned."""
        known = host in self._names or ANY in self._names or is_loopback(host)
        return known or (self._any_address and _address(host) is not None)
