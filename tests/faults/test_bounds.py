"""One client must not take the memory: inflations, JSON bombs and large predictions at once, and others are served."""

from __future__ import annotations

import io
import struct
import threading
import time
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from tests.service.process import ServiceProcess, blobs

BUDGET_MB, BESIDE_MB = 640, 200
ATTACK_SECONDS = 6.0
ALLOWED = {200, 400, 413, 422, 429}
"""What attackers are answered; nothing is a failure of the service."""
NPY, NPZ, JSON = "application/x-npy", "application/x-npz", "application/json"


def inflating(size: int, declared: int) -> bytes:
    """An npz file of ``size`` zeros whose directory says that there are ``declared`` bytes."""
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
    """An npz file of a few kB that holds 4 MB of integers of one byte, which are 32 MB as numbers."""
    stream = io.BytesIO()
    np.savez_compressed(stream, X=np.zeros((2**21, 2), np.int8))
    return stream.getvalue()


ATTACKS: list[tuple[str, bytes]] = [
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


def peak_mb(pid: int) -> int:
    """The most that a process has had in memory, in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def test_memory_stays_within_the_budget_and_others_are_served(tmp_path: Path) -> None:
    X, y = blobs(np.random.default_rng(0), 600)
    with ServiceProcess(tmp_path, memory_mb=BUDGET_MB) as service, service.http() as http:
        http.post("/models", json={"id": "m", "kernel": {"name": "rbf", "gamma": 1.0}})
        assert http.post("/models/m/update", json={"add": {"X": X, "y": y}}).status_code == 200
        expected = http.post("/models/m/predict", json={"X": X[:1]}).json()
        end = time.monotonic() + ATTACK_SECONDS
        seen: Counter[tuple[int, int]] = Counter()
        lock = threading.Lock()

        def attack(number: int) -> None:
            """Ask again and again for what is too much."""
            media, body = (NPY, LARGE) if number >= len(ATTACKS) else ATTACKS[number]
            with httpx.Client(base_url=service.url, timeout=60.0, trust_env=False) as client:
                while time.monotonic() < end:
                    answer = client.post("/models/m/predict", content=body, headers={"content-type": media})
                    assert len(answer.content) < (8192 if answer.status_code != 200 else 2**23)
                    with lock:
                        seen[min(number, len(ATTACKS)), answer.status_code] += 1

        with ThreadPoolExecutor(len(ATTACKS) + 8) as attackers:
            under_way = [attackers.submit(attack, number) for number in range(len(ATTACKS) + 8)]
            served = 0
            while time.monotonic() < end:
                assert http.post("/models/m/predict", json={"X": X[:1]}).json() == expected
                served += 1
            for future in under_way:
                future.result()
        assert {status for _, status in seen} <= ALLOWED, seen
        assert seen[len(ATTACKS), 200] > 0, seen
        assert all(seen[number, 200] == 0 for number in range(len(ATTACKS))), seen
        assert served > 10
        assert http.post("/models/m/update", json={"add": {"X": X[:2], "y": [1, -1]}}).status_code == 200
        assert peak_mb(service.pid) < BUDGET_MB + BESIDE_MB


def test_a_restart_holds_again_what_was_held_whatever_the_budget_is_now(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(450, 2000)).astype(np.float32), rng.choice([-1.0, 1.0], 450)
    stream = io.BytesIO()
    np.savez(stream, X=rows, y=labels)
    with ServiceProcess(tmp_path, memory_mb=2048, max_body_bytes=2**24) as service, service.http() as http:
        for name in "abcdef":
            http.post("/models", json={"id": name, "kernel": {"name": "linear"}})
            answer = http.post(f"/models/{name}/update", content=stream.getvalue(), headers={"content-type": NPZ})
            assert answer.status_code == 200, answer.text
        assert service.stop() == 0
    with ServiceProcess(tmp_path, memory_mb=512) as service, service.http() as http:
        assert {model["state"] for model in http.get("/models").json()["models"]} == {"live"}
        assert http.post("/models/a/predict", json={"X": rows[:1].tolist()}).status_code == 200
        assert http.post("/models/a/update", json={"remove": {"oldest": 1}}).status_code == 200
        more = {"X": rng.normal(size=(2, 2000)).tolist(), "y": [1, -1]}
        refused = http.post("/models/a/update", json={"add": more})
        assert (refused.status_code, refused.json()["type"]) == (507, "urn:livesvm:problem:out-of-memory")
        assert "LIVESVM_MEMORY_MB had better be more" in service.errors
