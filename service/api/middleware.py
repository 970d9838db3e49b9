"""ASGI middleware that every request passes before its route: it logs the request and checks its origin."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Callable
from functools import lru_cache
from time import perf_counter
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livesvm.service.access.hosts import Hosts, host_of
from livesvm.service.access.keys import Keys
from livesvm.service.api import problems
from livesvm.service.api.edge.headers import HEADERS, policy_of
from livesvm.service.api.routes.access import FEED_ID, bearer_of, let_in
from livesvm.service.api.streams import MEDIA_TYPE
from livesvm.service.errors import CrossSite, CutOff, MalformedRequest, ServiceError, WrongHost
from livesvm.service.logs import calls
from livesvm.service.logs.calls import Call, tell
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.memory import Budget

ID_HEADER = b"x-request-id"
SILENT = "livesvm.silent"
"""Key in the scope of a request that the service makes itself, which is not logged."""
_STREAM = MEDIA_TYPE.encode()
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_PROBES = frozenset({"/health/live", "/health/serving", "/health/ready", "/metrics"})
"""Routes that are called again and again; logged at the level debug, unless they fail."""
_ID = re.compile(rb"[A-Za-z0-9_.:/+=@-]{1,128}")
_MODEL = re.compile(FEED_ID)
_CUT = (
    "the service stops, and this request took too long; what it asked may be done yet; "
    "with the same Idempotency-Key it is done once"
)

log = logging.getLogger("livesvm.requests")

Traced = Callable[[Call, float, dict[str, Any], list[tuple[bytes, bytes]]], dict[str, Any]]
"""Sends a trace of a call: takes the call, its end, its log line and headers; returns more facts for the line."""


class RequestLog:
    """ASGI middleware that logs and counts requests; requests for unknown paths are counted under ``unmatched``.

    Parameters
    ----------
    budget : memory budget; the bytes reserved for a body are released when its request is answered
    slow_seconds : requests that take longer are logged as warnings
    is_stopping : returns whether the server is stopping and cancels requests
    traced : sends the traces of calls; None: no traces are sent
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        budget: Budget,
        slow_seconds: float,
        is_stopping: Callable[[], bool],
        traced: Traced | None = None,
    ) -> None:
        self._app = app
        self._metrics, self._budget = metrics, budget
        self._slow_seconds = slow_seconds
        self._is_stopping = is_stopping
        self._traced = traced

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and log its outcome; answer it if an error or the service's stop prevented an answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        call = Call(_id_of(scope), SILENT in scope)
        status, lasts = 0, False

        async def noting_send(message: Message) -> None:
            """Add the request's id and common headers to the answer; record its status, and whether it is a stream."""
            nonlocal status, lasts
            if message["type"] == "http.response.start":
                status, given = message["status"], message["headers"]
                own = HEADERS.copy()
                for name, value in given:
                    own.pop(name, None)
                    lasts = lasts or value.startswith(_STREAM)
                message["headers"] = [*given, *own.items(), (ID_HEADER, call.id.encode())]
            await send(message)

        self._metrics.http_in_progress.inc()
        token = calls.begin(call)
        try:
            await self._app(scope, receive, noting_send)
        except Exception as error:
            if status:
                raise
            await problems.refuse(error, scope, receive, noting_send)
        except asyncio.CancelledError:
            if status or not self._is_stopping():
                raise
            await problems.refuse(CutOff(_CUT), scope, receive, noting_send)
        finally:
            self._metrics.http_in_progress.dec()
            self._budget.give("bodies", call.held)
            self._ended(call, scope, status, lasts)
            calls.end(token)

    def _ended(self, call: Call, scope: Scope, status: int, lasts: bool) -> None:
        end = perf_counter()
        route = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.http_requests.labels(method, route, str(status or 500)).inc()
        if not lasts:  # an event stream ends when its reader leaves, which says nothing of the service
            self._metrics.http_seconds.labels(route).observe(end - call.began)
        if call.is_silent:
            return
        is_slow = not lasts and end - call.began > self._slow_seconds
        level = logging.WARNING if is_slow or status >= 500 else logging.INFO
        if route in _PROBES and status < 400:
            level = logging.DEBUG
        if self._traced is None and not log.isEnabledFor(level):
            return
        line = _line(call, scope, method, route, status, end)
        if is_slow:
            line["slow"] = max(line["stages"], key=line["stages"].__getitem__)
        if self._traced is not None:
            line |= self._traced(call, end, line, scope["headers"])
        tell(log, level, "request", line)


def _line(call: Call, scope: Scope, method: str, route: str, status: int, end: float) -> dict[str, Any]:
    """Return the fields of a request's log line."""
    model = scope.get("path_params", {}).get("id", "")
    return {
        "method": method,
        "route": route,
        "status": status or None,
        "outcome": _outcome(status),
        "model": model if _MODEL.match(model) else None,
        **call.facts,
        "seconds": round(end - call.began, 6),
        "stages": {name: round(seconds, 6) for name, seconds in call.stages(end).items()},
    }


def _outcome(status: int) -> str:
    """Return the outcome of a request in a word: ``cut`` if it got no answer, ``failed`` if the service failed."""
    if status == 0:
        return "cut"
    return "done" if status < 400 else "failed" if status == 500 else "refused"


def _id_of(scope: Scope) -> str:
    """Return the request id that the client has sent, or a new id if the client has sent no valid id."""
    for name, value in scope["headers"]:
        if name == ID_HEADER and _ID.fullmatch(value):
            return str(value, "ascii")
    return secrets.token_hex(12)


SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
_HEADERS = frozenset({b"host", b"origin", b"sec-fetch-site"})
_OWN_SITE = frozenset({"same-origin", "none"})


class Gate:
    """ASGI middleware that refuses requests for other hosts, and without API keys also changes by pages of other sites.

    A malicious page in a browser can send requests to a service on this machine in two ways: its own host name may
    resolve to this machine (DNS rebinding), or it sends a cross-origin request, which may do harm although the page
    cannot read the answer. API keys prevent both, because a malicious page has none.

    Parameters
    ----------
    hosts : host names by which this service may be called
    has_keys : whether API keys are required
    """

    def __init__(self, app: ASGIApp, hosts: Hosts, has_keys: bool) -> None:
        self._app = app
        self._has_keys = has_keys
        self._hosts = hosts
        self._fault_of_host = lru_cache(maxsize=64)(self._look_at_host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with the reason why it is refused."""
        fault = self._fault_of(scope) if scope["type"] == "http" else None
        if fault is None:
            await self._app(scope, receive, send)
        else:
            await problems.refuse(fault, scope, receive, send)

    def _fault_of(self, scope: Scope) -> ServiceError | None:
        given, hosts = dict[bytes, str](), list[str]()
        for name, value in scope["headers"]:
            if name in _HEADERS:
                given[name] = value.decode("latin-1")
            if name == b"host":
                hosts.append(given[name])
        if len(hosts) != 1:
            old = not hosts and scope["http_version"] == "1.0"  # it need not name a host, and no browser speaks it
            return None if old else MalformedRequest("give exactly one Host header")
        fault: ServiceError | None = self._fault_of_host(hosts[0])
        if fault is not None or self._has_keys or scope["method"] in SAFE_METHODS:
            return fault
        site, origin = given.get(b"sec-fetch-site", "none"), given.get(b"origin")
        is_own = origin is None or origin.partition("://")[2].lower() == hosts[0].lower()
        if site.lower() in _OWN_SITE and is_own:
            return None
        return CrossSite("a page of another site asks for a change; only with API keys could it be allowed to")

    def _look_at_host(self, authority: str) -> ServiceError | None:
        host = host_of(authority)
        if host is None:
            return MalformedRequest("the Host header is no host")
        if self._hosts.admit(host):
            return None
        return WrongHost(f"this service is not {host[:64]}; LIVESVM_ALLOWED_HOSTS lists the names that it answers to")


class Heads:
    """ASGI middleware that answers a HEAD request with the status and headers of the answer to a GET request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a HEAD request on as GET, and send only the status and the headers of its answer."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def beginning(message: Message) -> None:
            """Send the status and the headers, and end the answer, as the body of an event stream would never end."""
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        inner = {**scope, "method": "GET"}
        try:
            await self._app(inner, receive, beginning)
        finally:
            scope["route"] = inner.get("route")  # the request metrics ask for it


STATIC = "/static-offline-docs/"
PAGES = ("/docs", "/redoc", "/docs/oauth2-redirect")
_DESCRIBE = frozenset({*PAGES, "/openapi.json"})


class Docs:
    """ASGI middleware that adds a security policy to pages of the API's documentation, and may require an API key.

    Parameters
    ----------
    keys : API keys, one of which opens the pages; None: every caller may see the pages
    root : the path prefix under which browsers reach the pages
    """

    def __init__(self, app: ASGIApp, keys: Keys | None, root: str) -> None:
        self._app = app
        self._keys = keys
        self._root = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; if the answer is a documentation page, add a security policy to it."""
        path = scope["path"] if scope["type"] == "http" else ""
        if self._keys is not None and path in _DESCRIBE:
            try:
                let_in(self._keys.find(bearer_of(Request(scope))), "read")
            except ServiceError as error:
                await problems.refuse(error, scope, receive, send)
                return
        if path in _DESCRIBE:
            scope["root_path"] = self._root
        if path.startswith(STATIC):
            send = _with_header(send, b"cache-control", b"no-cache")
        await self._app(scope, receive, _policed(send) if path in PAGES else send)


def _with_header(send: Send, name: bytes, value: bytes) -> Send:
    async def adding_send(message: Message) -> None:
        """Add the header to the first message of the answer, and send the message on."""
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (name, value)]
        await send(message)

    return adding_send


def _policed(send: Send) -> Send:
    """Return a ``send`` that adds to a page a security policy for the page's inline scripts and the service's files."""
    start: Message = {}

    async def sending(message: Message) -> None:
        """Send the answer's head only when its body, from which the content security policy is computed, is there."""
        nonlocal start
        if message["type"] == "http.response.start":
            start = message
            return
        if start:
            policy = (b"content-security-policy", policy_of(message["body"], "blob:").encode())
            await send({**start, "headers": [*start["headers"], policy]})
            start = {}
        await send(message)

    return sending
