"""The first check of a request: its host and origin, before anything else is read."""

from __future__ import annotations

from functools import lru_cache

from starlette.types import ASGIApp, Receive, Scope, Send

from livesvm.service.access.hosts import Hosts, host_of
from livesvm.service.api import problems
from livesvm.service.errors import CrossSite, MalformedRequest, ServiceError, WrongHost

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""They change nothing."""
_HEADERS = frozenset({b"host", b"origin", b"sec-fetch-site"})
_OWN_SITE = frozenset({"same-origin", "none"})


class Gate:
    """ASGI middleware that refuses requests for other hosts, and without keys changes asked for by other sites.

    A page in a browser can send requests to a service on this machine: under a name of its own that leads here
    (rebinding), or across origins, where it cannot read the answer and need not. It has no API key, though.

    Parameters
    ----------
    hosts : that are this service
    has_keys : whether API keys are asked for
    """

    def __init__(self, app: ASGIApp, hosts: Hosts, has_keys: bool) -> None:
        self._app = app
        self._has_keys = has_keys
        self._hosts = hosts
        self._fault_of_host = lru_cache(maxsize=64)(self._look_at_host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer why not."""
        fault = self._fault_of(scope) if scope["type"] == "http" else None
        if fault is None:
            await self._app(scope, receive, send)
        else:
            await problems.refuse(fault, scope, receive, send)

    def _fault_of(self, scope: Scope) -> ServiceError | None:
        given = [(name, value.decode("latin-1")) for name, value in scope["headers"] if name in _HEADERS]
        hosts = [value for name, value in given if name == b"host"]
        if len(hosts) != 1:
            old = not hosts and scope["http_version"] == "1.0"  # it need not name a host, and no browser speaks it
            return None if old else MalformedRequest("give exactly one Host header")
        return self._fault_of_host(hosts[0]) or self._fault_of_site(scope["method"], hosts[0], dict(given))

    def _look_at_host(self, authority: str) -> ServiceError | None:
        host = host_of(authority)
        if host is None:
            return MalformedRequest("the Host header is no host")
        if self._hosts.admit(host):
            return None
        return WrongHost(f"this service is not {host[:64]}; LIVESVM_ALLOWED_HOSTS lists the names that it answers to")

    def _fault_of_site(self, method: str, host: str, given: dict[bytes, str]) -> ServiceError | None:
        if self._has_keys or method in SAFE_METHODS:
            return None
        site, origin = given.get(b"sec-fetch-site", "none"), given.get(b"origin")
        is_own = origin is None or origin.partition("://")[2].lower() == host.lower()
        if site.lower() in _OWN_SITE and is_own:
            return None
        return CrossSite("a page of another site asks for a change; only with API keys could it be allowed to")
