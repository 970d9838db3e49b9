"""Requests that a service should refuse: hostile values, paths, methods, media and headers."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from tests.faults.scene import JSON, NPY, NPZ, Scene, encoded, request, route
from tests.faults.wire import Sent

MEDIA = (
    JSON,
    NPY,
    NPZ,
    "application/zip",
    "text/plain",
    "application/xml",
    "",
    "*/*",
    "JSON",
    "application/json;" * 50,
)

HOSTILE_TEXTS = (
    '""', '"\\u0000"', '"\\ud800"', '"\\udfff\\ud800"', '"../../etc/passwd"', '"a\'; DROP TABLE models;--"',
    '"${jndi:ldap://x}"', '"\\u202e\\u2066"', '"NaN"', '"1"', '"scale"', '"precomputed"', '"' + "k" * 129 + '"',
    '"' + "\u4e2d" * 5000 + '"',
)  # fmt: skip
HOSTILE_NUMBERS = (
    "0", "-0.0", "-1", "1", "0.5", "1e-320", "5e-324", "1e8", "1e9", "1e150", "1.0000001e150", "1e308", "1e999",
    "-1e999", "NaN", "Infinity", "-Infinity", "9007199254740992", "9007199254740991", "-9007199254740993", "1" * 400,
    "1" * 4000, "1e", "01", "+1", "0x10", "1_0",
)  # fmt: skip
HOSTILE_SHAPES = (
    "null", "true", "false", "[]", "[[]]", "[[[1]]]", "{}", "[null]", "[true]", '["1"]', "[[1,2],[3]]", "[{}]",
    "[1,[2]]", '{"a":{"b":[]}}', "[" * 300, "[" * 300 + "]" * 300, '{"a":' * 300 + "1" + "}" * 300,
    "[" + "0," * 3000 + "0]", "[[" + "0," * 3000 + "0]]",
)  # fmt: skip
HOSTILE_PARTS = (
    "nobody", "..", "%2e%2e", "..%2f..%2fetc", "%00", "%ff%fe", "A", "a" * 65, "a" * 4000, "svc%20", "svc/", "-svc",
    "%E2%80%AE", "0x1", "1", "null", "*", "svc;x=1", "svc%0d%0aX:1", "{id}", "j-000000000000", "j-%20", "'", "\u00e9",
)  # fmt: skip
ODD_HEADERS = (
    b"idempotency-key: ", b"idempotency-key: " + b"k" * 201, b"idempotency-key: \xff\xfe", b"idempotency-key: a\tb",
    b"authorization: Bearer", b"authorization: Bearer \xff", b"authorization: Basic Og==",
    b"authorization: bearer x y z", b"accept: \xff", b"accept-encoding: gzip;q=x", b"content-encoding: gzip",
    b"content-encoding: identity, gzip", b"expect: 100-continue", b"expect: nonsense", b"range: bytes=0-1",
    b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: x\r\nsec-websocket-version: 13",
    b"upgrade: h2c\r\nconnection: upgrade", b"connection: close", b"connection: keep-alive, close",
    b"x-forwarded-for: 1, 2, \xff", b"cookie: " + b"a=b; " * 400, b"te: trailers", b"x-http-method-override: DELETE",
    b"forwarded: for=\"", b"last-event-id: \x01", b"if-none-match: *",
)  # fmt: skip
METHODS = (
    "GET",
    "POST",
    "PUT",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PROPFIND",
    "get",
    "G\u00c9T",
    "X" * 300,
    "",
)
UNKNOWN_PATHS = (
    "/", "//", "/nothing", "/models/", "/models//", "/models/nobody/nothing", "/jobs/", "/health", "/metrics/",
    "/docs/..", "/.env", "/%", "/models?" + "a=b&" * 500, "/models#x", "*", "http://evil.example/models",
    "https://[::1/", "/\u00fc", "/" + "a" * 9000, "/models/%zz", "",
)  # fmt: skip


# What goes wrong above the level of bytes.


def hostile_value(rng: random.Random) -> str:
    """JSON, or nearly."""
    return rng.choice(rng.choice((HOSTILE_TEXTS, HOSTILE_NUMBERS, HOSTILE_SHAPES)))


def places(document: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the ways to every value of a document."""
    inside = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [way, *(place for name, value in inside for place in places(value, (*way, name)))]


def with_hostile_value(rng: random.Random, document: dict[str, Any]) -> bytes:
    """Return a document with one or two values, or a field, that should not be there."""
    document, marks = copy.deepcopy(document), {}
    for number in range(rng.randint(1, 2)):
        way = rng.choice(places(document))
        mark = f"@{number}@"
        marks[f'"{mark}"'] = hostile_value(rng)
        if not way:
            document[rng.choice(("colour", "", "X" * 500, "__proto__", "id", "keys"))] = mark
            continue
        parent: Any = document
        for step in way[:-1]:
            parent = parent[step]
        if rng.random() < 0.2 and isinstance(parent, dict):
            del parent[way[-1]]
        else:
            parent[way[-1]] = mark
    text = json.dumps(document)
    for mark, value in marks.items():
        text = text.replace(mark, value)
    return text.encode("utf-8", "surrogatepass")


def field(rng: random.Random, scene: Scene) -> Sent:
    """Hostile values in the fields of a document."""
    wanted = route(rng, scene)
    while wanted.document is None:
        wanted = route(rng, scene)
    return Sent("field", request(scene, wanted.method, wanted.path, with_hostile_value(rng, wanted.document)))


def path(rng: random.Random, scene: Scene) -> Sent:
    """Unknown paths, methods, ids and queries."""
    wanted = route(rng, scene)
    target, method = wanted.path, wanted.method
    match rng.randint(0, 3):
        case 0:
            target = rng.choice(UNKNOWN_PATHS)
        case 1:
            method = rng.choice(METHODS)
        case 2:
            parts = target.split("/")
            parts[rng.randrange(1, len(parts))] = rng.choice(HOSTILE_PARTS)
            target = "/".join(parts)
            method = rng.choice((method, "GET", "POST", "DELETE")) if target.startswith("/models/nobody") else method
        case _:
            target += rng.choice(("?", "?x=%ff", "?id=svc&id=svr", "?" + "a" * 3000, "#", "%20", "/", "/../svc"))
    return Sent("path", request(scene, method, target, encoded(wanted.document)))


def media(rng: random.Random, scene: Scene) -> Sent:
    """Return bodies of another type than they claim, and unusual headers."""
    wanted = route(rng, scene)
    kind: str = JSON
    more: tuple[bytes, ...] = (rng.choice(ODD_HEADERS),)
    if rng.random() < 0.5:
        kind, more = rng.choice([one for one in MEDIA if one != JSON]), ()
    return Sent("media", request(scene, wanted.method, wanted.path, encoded(wanted.document), kind, more))
