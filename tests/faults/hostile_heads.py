"""Requests that are broken below what a framework sees: their lines, heads, lengths, chunks and ends.

Those that end early would not be reported of a change, so they ask for none.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.faults.bombs import bomb
from tests.faults.hostile import field, media, path
from tests.faults.hostile_bodies import body, mutated
from tests.faults.scene import Scene, encoded, request, route
from tests.faults.wire import Sent

LINES = (
    b"GET /models", b"GET /models HTTP/9.9", b"GET /models HTTP/1.", b"GET  /models  HTTP/1.1",
    b" GET /models HTTP/1.1", b"GET /models HTTP/1.1 x", b"GET /mo dels HTTP/1.1", b"GET\t/models\tHTTP/1.1",
    b"GET /\x00 HTTP/1.1", b"GET /\xff\xfe HTTP/1.1", b"PRI * HTTP/2.0", b"\x16\x03\x01\x02\x00\x01", b"", b"\x00",
    b"GET", b"HTTP/1.1 200 OK", b"GET /models http/1.1", b"GET http://evil.example:80/models HTTP/1.1",
    b"CONNECT evil.example:443 HTTP/1.1", b"OPTIONS * HTTP/1.1", b"GET /models?\x0b HTTP/1.1",
    b"GET " + b"/" * 70_000 + b" HTTP/1.1", b"X" * 5000 + b" / HTTP/1.1", b"GET /models HTTP/1.0",
)  # fmt: skip
HEADS = (
    b"no colon", b": no name", b"name : space", b" folded: x", b"x: \x00", b"x: \x7f", b"\xff: x", b"x\r: y",
    b"x: a\r\n b", b"x: a\nb: c", b"x" * 70_000 + b": y", b"x: " + b"y" * 70_000,
    b"\r\n".join(b"x-%d: y" % n for n in range(3000)), b"host: a\r\nhost: b", b"host: ", b"host: a b", b"host: [::1",
    b"host: \xff", b"content-type: application/json\r\ncontent-type: text/plain", b"transfer-encoding: gzip",
    b"transfer-encoding: \x0bchunked", b"connection: \x01",
)  # fmt: skip
LENGTHS = (
    b"-1", b"+5", b"5 ", b"5,5", b"5, 6", b"0x5", b"1e3", b"", b"abc", b"00005", b"9" * 30, b"18446744073709551616",
    b"9223372036854775807", b"99999999", b"\xb2", b"5\r\ncontent-length: 6", b"5\r\ntransfer-encoding: chunked", b"0",
)  # fmt: skip
CHUNKS = (
    b"zz\r\n[]\r\n0\r\n\r\n", b"-1\r\n[]\r\n0\r\n\r\n", b"ffffffffffffffffff\r\n[]", b"2\r\n[]", b"2\r\n[]\r\n",
    b"2\r\n[]x\r\n0\r\n\r\n", b"1\r\n[]\r\n0\r\n\r\n", b"2;" + b"e" * 20_000 + b"\r\n[]\r\n0\r\n\r\n",
    b"2\n[]\n0\n\n", b"0\r\n\r\n", b"2\r\n[]\r\n0\r\nx: y\r\n\r\n",
    b"2\r\n[]\r\n0\r\n" + b"x: y\r\n" * 5000 + b"\r\n", b"0x2\r\n[]\r\n0\r\n\r\n", b" 2\r\n[]\r\n0\r\n\r\n",
    b"2 \r\n[]\r\n0\r\n\r\n", b"\r\n", b"1\r\n{\r\n" * 50, b"00000000000000000000002\r\n[]\r\n0\r\n\r\n",
)  # fmt: skip
SLOW = (
    b"GET /models HTTP/1.1\r\nhost: x\r\nx-half: ",
    b"POST /models HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{", b"GET ",
    b"POST /models HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{",
)  # fmt: skip
"""Requests that never become whole, with the host in its place."""


BOMB_EVERY = 500
"""One request in so many is small and would become large."""


def line(rng: random.Random, scene: Scene) -> Sent:
    """Return a broken request line."""
    return Sent(
        "line", rng.choice(LINES) + b"\r\nhost: " + scene.host.encode() + b"\r\nconnection: close\r\n\r\n", ends=True
    )


def head(rng: random.Random, scene: Scene) -> Sent:
    """Return a broken head."""
    wanted = route(rng, scene)
    own = request(scene, wanted.method, wanted.path, encoded(wanted.document), more=(rng.choice(HEADS),))
    if rng.random() < 0.2:
        own = own.replace(b"host: ", b"x-host: ", 1)
    return Sent("head", own)


def length(rng: random.Random, scene: Scene) -> Sent:
    """Return a length that is none, or is not that of the body."""
    wanted = route(rng, scene)
    start = f"POST {wanted.path} HTTP/1.1\r\nhost: {scene.host}\r\ncontent-type: application/json\r\n".encode()
    return Sent(
        "length",
        start + b"content-length: " + rng.choice(LENGTHS) + b"\r\n\r\n" + rng.choice((b"[]", b"", b"[1]  ")),
        ends=True,
    )


def chunked(rng: random.Random, scene: Scene) -> Sent:
    """Broken chunks."""
    wanted = route(rng, scene)
    start = f"POST {wanted.path} HTTP/1.1\r\nhost: {scene.host}\r\ncontent-type: application/json\r\n".encode()
    return Sent("chunks", start + b"transfer-encoding: chunked\r\n\r\n" + rng.choice(CHUNKS), ends=True)


def noise(rng: random.Random, scene: Scene) -> Sent:
    """Return bytes that are nothing, or a whole request with some of them changed.

    It is not an update, as it might be one.
    """
    wanted = route(rng, scene)
    while wanted.document is not None:
        wanted = route(rng, scene)
    whole = request(scene, wanted.method, wanted.path)
    return Sent("noise", rng.randbytes(rng.randint(1, 400)) if rng.random() < 0.3 else mutated(rng, whole), ends=True)


def half(rng: random.Random, scene: Scene) -> Sent:
    """Return a request that ends before it is whole."""
    wanted = route(rng, scene)
    whole = request(scene, wanted.method, wanted.path, encoded(wanted.document))
    return Sent("half", whole[: rng.randrange(1, len(whole))], ends=True)


def behind(rng: random.Random, scene: Scene) -> Sent:
    """Return a whole request with more behind it."""
    first = request(scene, "GET", "/models/nobody", more=(b"connection: close",) if rng.random() < 0.3 else ())
    return Sent("behind", first + rng.choice(LINES) + b"\r\n" + rng.randbytes(rng.randint(0, 99)), ends=True)


ABOVE_BYTES = (field, path, media, body)
GENERATORS: tuple[Callable[[random.Random, Scene], Sent], ...] = (
    *ABOVE_BYTES, *ABOVE_BYTES, *ABOVE_BYTES, line, head, length, chunked, noise, half, behind,
)  # fmt: skip


def drawn(seed: int, number: int, scene: Scene) -> Sent:
    """Return the request of that number; the same in every run with that seed."""
    rng = random.Random(f"{seed}/{number}")
    if number % BOMB_EVERY == BOMB_EVERY - 1:
        return bomb(rng, scene)
    return rng.choice(GENERATORS)(rng, scene)
