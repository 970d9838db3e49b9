"""One client must not take the memory: inflations, JSON bombs, large predictions, half requests, models and jobs."""

from __future__ import annotations

import io
import itertools
import json
import select
import socket
import struct
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.faults.promises import forget_peak, peak_megabytes
from tests.service.process import ServiceProcess, blobs

pytestmark = pytest.mark.alone(reason="measures the memory of the one process")

BUDGET_MB, BESIDE_MB = 640, 200
ATTACK_SECONDS = 6.0
MOST_SECONDS = 120.0
"""Of it on a machine that is too busy to see everything happen at once before."""
HAPPENS = (("large", 200), ("models", 201), ("jobs", 202), ("held", 0))
SERVED = ("served", 200)
MOST_OTHERS = 10
"""Predictions of others meanwhile, of which there are more."""
ALLOWED = {200, 201, 202, 204, 400, 404, 408, 409, 413, 422, 429, 507}
"""What attackers are answered; nothing is a failure of the service."""
NPY, NPZ, JSON = "application/x-npy", "application/x-npz", "application/json"


def inflating(size: int, declared: int) -> bytes:
    """Return an npz file of ``size`` zeros whose directory says that there are ``declared`` bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("X.npy", "w") as member:
        for _ in range(size >> 20):
            member.write(bytes(2**20))
    data = bytearray(stream.getvalue())
    place = data.rindex(b"PK\x01\x02")
    data[place + 24 : place + 28] = struct.pack("<L", declared)
    return bytes(data)


def npy(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def small_integers() -> bytes:
    """Return an npz file of a few kB that holds 4 MB of integers of one byte, which are 32 MB as numbers."""
    stream = io.BytesIO()
    np.savez_compressed(stream, X=np.zeros((2**21, 2), np.int8))
    return stream.getvalue()


@cache
def never_fitting() -> list[tuple[str, bytes]]:
    """Return bodies that are refused whatever else there is."""
    return [
        (NPZ, inflating(300 << 20, 100)),
        (NPZ, inflating(8 << 20, 8 << 20)),
        (NPZ, small_integers()),
        (JSON, b'{"X":[' + b"[]," * 2_700_000 + b"[]]}"),
        (JSON, b'{"X":[[' + b"1," * 4_000_000 + b"1]]}"),
        (JSON, b"{" + b",".join(b'"%x":1' % number for number in range(700_000)) + b"}"),
        (JSON, b'{"' + b"n" * 8_000_000 + b'":1}'),
        (JSON, b'{"X":[' + b'"ab",' * 1_600_000 + b'"ab"]}'),
    ]


LARGE = npy(np.random.default_rng(1).normal(size=(100_000, 3)).astype(np.float32))


HELD = 60
"""Requests that are begun and never finished, of a megabyte each so far; more are than may be on their way."""
KEPT = 6
"""Models of one client."""
PATH = {"X": np.random.default_rng(2).normal(size=(1500, 3)).tolist(), "y": [1, -1] * 750}


@cache
def bodies_of_jobs() -> list[tuple[str, bytes]]:
    """Return what each asks for."""
    return [
        ("regularization-path", json.dumps({"data": PATH, "validation": PATH}).encode()),
        (
            "regularization-path",
            json.dumps({"data": PATH, "validation": {"X": [[0.5] * 3] * 250_000, "y": [1] * 250_000}}).encode(),
        ),
        ("regularization-path", b'{"minimum": 1e-3, "maximum": 1e3}'),
        ("outlier-path", b'{"parameter": "s", "hold_out": 0.2}'),
        ("assessment", b'{"method": "leave-one-out"}'),
    ]


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


MODEL = npz(X=np.random.default_rng(3).normal(size=(500, 40)), y=np.array([1.0, -1.0] * 250))

Ask = Callable[[httpx.Client], httpx.Response]
Attack = Iterator[Ask]
"""What one attacker asks for, again and again."""


def too_much(media: str, body: bytes) -> Attack:
    """Return a body that is too much, or only large."""
    while True:
        yield lambda http: http.post("/models/m/predict", content=body, headers={"content-type": media})


def models(name: str) -> Attack:
    """Yield one model after the other, each with examples.

    The oldest goes, so that there is space for jobs now and then.
    """
    for number in itertools.count():
        yield partial(httpx.Client.post, url="/models", json={"id": f"{name}-{number}"})
        update = partial(httpx.Client.post, content=MODEL, headers={"content-type": NPZ})
        yield partial(update, url=f"/models/{name}-{number}/update")
        if number >= KEPT:
            yield partial(httpx.Client.delete, url=f"/models/{name}-{number - KEPT}")


def jobs(number: int) -> Attack:
    """Yield jobs on much data, some of which are cancelled."""
    for kind, body in itertools.islice(itertools.cycle(bodies_of_jobs()), number, None):
        made: list[httpx.Response] = []

        def ask(http: httpx.Client, kind: str = kind, body: bytes = body, made: list[httpx.Response] = made) -> Any:
            made.append(http.post(f"/models/m/{kind}", content=body, headers={"content-type": JSON}))
            return made[0]

        yield ask
        if made[0].status_code == 202 and kind == "assessment":
            yield partial(httpx.Client.delete, url=f"/jobs/{made[0].json()['id']}")


def held_open(service: ServiceProcess) -> socket.socket:
    """Return a connection on which a large request is begun; the service may end it, and then there is another one."""
    connection = service.connect()
    head = f"POST /models/m/predict HTTP/1.1\r\nhost: {httpx.URL(service.url).netloc.decode()}\r\n"
    connection.sendall(head.encode() + b"content-type: application/json\r\ncontent-length: 8000000\r\n\r\n")
    with suppress(OSError):
        connection.sendall(b" " * 2**20)
    return connection


def is_over(connection: socket.socket) -> bool:
    """Return whether the service has answered, or has ended a connection."""
    return bool(select.select([connection], [], [], 0)[0])


def test_memory_stays_within_the_budget_under_everything_at_once_and_others_are_served(tmp_path: Path) -> None:
    X, y = blobs(np.random.default_rng(0), 600)
    with ServiceProcess(tmp_path, memory_mb=BUDGET_MB, body_seconds=5) as service, service.http() as http:
        http.post("/models", json={"id": "m", "kernel": {"name": "rbf", "gamma": 1.0}})
        assert http.post("/models/m/update", json={"add": {"X": X, "y": y}}).status_code == 200
        expected = http.post("/models/m/predict", json={"X": X[:1]}).json()
        forget_peak(service.pid)
        began = time.monotonic()
        seen: Counter[tuple[str, int]] = Counter()
        lock = threading.Lock()

        def goes_on() -> bool:
            """Return whether it is not over yet."""
            seconds = time.monotonic() - began
            happened = seen[SERVED] > MOST_OTHERS and all(seen[one] for one in HAPPENS)
            return seconds < ATTACK_SECONDS or (seconds < MOST_SECONDS and not happened)

        def attack(name: str, asked: Attack) -> None:
            """Ask for one thing after the other."""
            with httpx.Client(base_url=service.url, timeout=60.0, trust_env=False) as client:
                while goes_on():
                    answer = next(asked)(client)
                    assert len(answer.content) < (8192 if answer.status_code >= 400 else 2**23)
                    with lock:
                        seen[name, answer.status_code] += 1

        def hold() -> None:
            """Keep many requests open; one that is ended is begun again."""
            held = [held_open(service) for _ in range(HELD)]
            while goes_on():
                for number, connection in enumerate(held):
                    if is_over(connection):
                        connection.close()
                        held[number] = held_open(service)
                        seen["held", 0] += 1
                time.sleep(0.05)
            for connection in held:
                connection.close()

        attacks = [(f"body {number}", too_much(*body)) for number, body in enumerate(never_fitting())]
        attacks += [("large", too_much(NPY, LARGE))] * 8
        attacks += [("models", models(f"made-{number}")) for number in range(3)]
        attacks += [("jobs", jobs(number)) for number in range(4)]
        with ThreadPoolExecutor(len(attacks) + 1) as attackers:
            under_way = [attackers.submit(attack, *one) for one in attacks] + [attackers.submit(hold)]
            while goes_on():
                answer = http.post("/models/m/predict", json={"X": X[:1]})
                assert answer.json() == expected, answer.text
                seen[SERVED] += 1
            for future in under_way:
                future.result()
        assert {status for name, status in seen if name != "held"} <= ALLOWED, seen
        assert all(seen[one] for one in HAPPENS), seen
        assert all(seen[f"body {number}", 200] == 0 for number in range(len(never_fitting()))), seen
        assert seen[SERVED] > MOST_OTHERS
        assert http.post("/models/m/update", json={"remove": {"oldest": 1}}).status_code == 200
        assert peak_megabytes(service.pid) < BUDGET_MB + BESIDE_MB


def test_models_of_a_larger_budget_are_served_by_a_smaller_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(450, 2000)).astype(np.float32), rng.choice([-1.0, 1.0], 450)
    body = npz(X=rows, y=labels)
    with ServiceProcess(tmp_path, memory_mb=2048, max_body_bytes=2**24) as service, service.http() as http:
        for name in "abcdef":
            http.post("/models", json={"id": name, "kernel": {"name": "linear"}})
            answer = http.post(f"/models/{name}/update", content=body, headers={"content-type": NPZ})
            assert answer.status_code == 200, answer.text
        assert service.stop() == 0
    with ServiceProcess(tmp_path, memory_mb=512) as service, service.http() as http:
        assert {model["state"] for model in http.get("/models").json()["models"]} == {"live"}
        more = {"X": rng.normal(size=(2, 2000)).tolist(), "y": [1, -1]}
        for name in "abcdefa":
            assert http.post(f"/models/{name}/predict", json={"X": rows[:1].tolist()}).status_code == 200
            assert http.post(f"/models/{name}/update", json={"remove": {"oldest": 1}}).status_code == 200
            assert http.post(f"/models/{name}/update", json={"add": more}).status_code == 200
        assert {model["version"] for model in http.get("/models").json()["models"]} == {3, 5}
