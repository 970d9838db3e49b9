"""Requests that a service should refuse: valid ones for every route, and what goes wrong with them."""

from __future__ import annotations

import copy
import io
import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.faults.wire import Sent

FEATURES = 3
JSON, NPY, NPZ = "application/json", "application/x-npy", "application/x-npz"
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
    "1e", "01", "+1", "0x10", "1_0",
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


@dataclass(frozen=True)
class Route:
    """A call that changes nothing but by what its document says."""

    method: str
    path: str
    document: dict[str, Any] | None = None
    packed: str = ""


@dataclass(frozen=True)
class Scene:
    """What there is to attack: where the service listens, its models by task, and a job that is done."""

    host: str
    models: dict[str, str]
    job: str


def rows(rng: random.Random, n: int = 2) -> list[list[float]]:
    """Rows of numbers."""
    return [[round(rng.uniform(-2, 2), 3) for _ in range(FEATURES)] for _ in range(n)]


def route(rng: random.Random, scene: Scene) -> Route:
    """A valid call."""
    task = rng.choice(list(scene.models))
    model = f"/models/{scene.models[task]}"
    examples: dict[str, Any] = {"X": rows(rng), "weights": [1.0, 2.0]}
    if task != "oneclass":
        examples["y"] = [1, -1]
    update = {
        "add": examples | {"keys": [f"k{rng.getrandbits(40)}", rng.getrandbits(50)]},
        "remove": {"oldest": 1},
        "relabel": {"keys": [0], "y": [1]},
        "reweight": {"keys": [1], "weights": [0.5]},
        "decay": 0.999,
        "C": 9.0,
    }
    for verb in rng.sample(sorted(update), rng.randint(0, 5)):
        del update[verb]
    spec = {
        "id": f"made-{rng.getrandbits(32):x}", "task": "svr",
        "kernel": {"name": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0}, "C": 2.0, "loss": "pinball",
        "quantile": 0.3, "fit_intercept": True, "n_features": 3,
        "window": {"max_examples": 9, "max_age_seconds": 1e9},
    }  # fmt: skip
    path = {"parameter": "C", "minimum": 0.1, "maximum": 10.0, "data": examples, "validation": examples}
    outlier = {"parameter": "s", "theta": 0.5, "s": 1.0, "hold_out": 0.2}
    choices = [
        *[Route("POST", f"{model}/update", update or {"decay": 0.99}, "update")] * 4,
        *[Route("POST", f"{model}/predict", {"X": rows(rng)}, "predict")] * 3,
        Route("POST", "/models", spec),
        Route("POST", f"{model}/assessment", {"method": "k-fold", "folds": 3}),
        Route("POST", f"{model}/regularization-path", path),
        Route("POST", f"{model}/outlier-path", outlier),
        Route("POST", f"{model}/restore", {"version": 10**9}),
        Route("POST", f"/jobs/{scene.job}/apply", {"choice": {"C": 2.0, "value": 0.5}}),
        Route("POST", f"{model}/checkpoint"),
    ]
    reads = [
        "/models", model, f"{model}/certificate", f"{model}/versions", f"{model}/events", "/jobs",
        f"/jobs/{scene.job}", "/metrics", f"/jobs/{scene.job}/events", f"/jobs/{scene.job}/plot.svg", "/health/live",
        "/health/ready", "/docs", "/openapi.json", "/redoc",
    ]  # fmt: skip
    return rng.choice([*choices, *choices, *(Route("GET", path) for path in reads)])


def request(
    scene: Scene, method: str, path: str, body: bytes | None = None, media: str = JSON, more: tuple[bytes, ...] = ()
) -> bytes:
    """A request as it is sent."""
    head = [f"{method} {path} HTTP/1.1".encode(), b"host: " + scene.host.encode(), *more]
    if body is not None:
        head += [b"content-type: " + media.encode(), b"content-length: %d" % len(body)]
    return b"\r\n".join(head) + b"\r\n\r\n" + (body or b"")


def encoded(document: dict[str, Any] | None) -> bytes | None:
    """A document as JSON."""
    return None if document is None else json.dumps(document).encode()


# What goes wrong above the level of bytes.


def hostile_value(rng: random.Random) -> str:
    """JSON, or nearly."""
    return rng.choice(rng.choice((HOSTILE_TEXTS, HOSTILE_NUMBERS, HOSTILE_SHAPES)))


def places(document: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to every value of a document."""
    inside = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [way, *(place for name, value in inside for place in places(value, (*way, name)))]


def with_hostile_value(rng: random.Random, document: dict[str, Any]) -> bytes:
    """A document with one or two values, or a field, that should not be there."""
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
    """Bodies that are not what they are called, and headers that nobody sends."""
    wanted = route(rng, scene)
    kind: str = JSON
    more: tuple[bytes, ...] = (rng.choice(ODD_HEADERS),)
    if rng.random() < 0.5:
        kind, more = rng.choice([one for one in MEDIA if one != JSON]), ()
    return Sent("media", request(scene, wanted.method, wanted.path, encoded(wanted.document), kind, more))


# What goes wrong with the bytes of a body.


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Bytes with some flipped, cut, doubled, inserted or overwritten."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        at = rng.randrange(len(found) + 1)
        match rng.randint(0, 5):
            case 0:
                del found[at:]
            case 1:
                found[at:at] = rng.randbytes(rng.choice((1, 2, 8, 300)))
            case 2:
                found[at : at + 1] = bytes([rng.randrange(256)])
            case 3:
                found[at:at] = found[at : at + rng.randint(1, 60)]
            case 4:
                del found[at : at + rng.randint(1, 30)]
            case _:
                found[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x80", b"\xff\xff\xff\x7f"))
    return bytes(found) or b"\0"


def npy(array: Any, **options: Any) -> bytes:
    """An npy file."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False, **options)
    return stream.getvalue()


def packed(rng: random.Random, document: dict[str, Any], kind: str) -> tuple[bytes, str]:
    """An npy or npz file that says about what a document says, of any type of number."""
    X = np.array(rows(rng)).astype(rng.choice(("f8", "f4", ">f8", "i4", "f2", "u1", "c16", "?", "U3", "M8[s]")))
    if kind == "predict" and rng.random() < 0.6:
        return npy(X), NPY
    members: dict[str, Any] = {"X": X}
    if kind == "update":
        more: dict[str, Any] = {
            "y": np.array([1.0, rng.choice((-1.0, np.nan, 3.0))]), "keys": np.array([f"k{rng.getrandbits(40)}", "x"]),
            "weights": [1.0, -1.0], "remove_oldest": 1, "relabel_keys": [0], "relabel_y": [np.inf],
            "decay": rng.choice((0.5, np.nan, 2.0, 5e-324)), "C": 1e9, "reweight_keys": [1],
            "reweight_weights": [np.nan], "remove_keys": [0], "sample_weight": [1.0], "colour": [1],
        }  # fmt: skip
        members |= {name: more[name] for name in rng.sample(sorted(more), rng.randint(1, 5))}
    stream = io.BytesIO()
    (np.savez_compressed if rng.random() < 0.5 else np.savez)(stream, **members)
    return stream.getvalue(), NPZ


def lying_npy(rng: random.Random) -> bytes:
    """An npy file whose head is not what follows."""
    shape = rng.choice(
        (
            "(2, 3)",
            "(0, 3)",
            "(10**9, 10**9)",
            "(1000000000, 3)",
            "(-1, 3)",
            "(2,)",
            "()",
            "(2, 3.0)",
            "[2, 3]",
            "(2, " * 90,
        )
    )
    descr = rng.choice(
        (
            "'<f8'",
            "'|O'",
            "'<U1000000000'",
            "[('a', '<f8')]",
            "'<f8', '<f8'",
            "'V8'",
            "None",
            "'<c32'",
            "'" + "x" * 3000 + "'",
        )
    )
    head = (
        f"{{'descr': {descr}, 'fortran_order': {rng.choice(('False', 'True', '1', 'x'))}, 'shape': {shape}, }}".encode()
    )
    size = rng.choice((len(head), 0, 65535, len(head) + 1))
    return b"\x93NUMPY" + bytes([rng.choice((1, 1, 2, 3, 0, 255)), 0]) + struct.pack("<H", size) + head + bytes(48)


def body(rng: random.Random, scene: Scene) -> Sent:
    """Truncated and corrupted JSON, npy and npz."""
    wanted = route(rng, scene)
    while wanted.document is None:
        wanted = route(rng, scene)
    data, kind = encoded(wanted.document) or b"", JSON
    if wanted.packed and rng.random() < 0.7:
        data, kind = packed(rng, wanted.document, wanted.packed)
        if rng.random() < 0.2:
            data, kind = lying_npy(rng), NPY
    return Sent(
        "body", request(scene, wanted.method, wanted.path, mutated(rng, data) if rng.random() < 0.9 else data, kind)
    )


ABOVE_BYTES: tuple[Callable[[random.Random, Scene], Sent], ...] = (field, path, media, body)
