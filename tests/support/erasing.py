"""Search for traces of an example in every byte that a service keeps."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import redis

from livesvm.service.history.erasure import ErasurePart, Intent
from livesvm.solvers import IncrementalSVC
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess, blobs
from tests.support.jobs_over_rest import awaited

GAMMA = 0.4
SPEC: dict[str, Any] = {"id": "m", "C": 2.0, "kernel": {"name": "rbf", "gamma": GAMMA}}
KEYS = [f"person-{number:04d}@example.org" for number in range(40)]


def data(n: int = 40, seed: int = 3) -> tuple[list[list[float]], list[int]]:
    return blobs(np.random.default_rng(seed), n)


def intent_of(model: str, keys: Sequence[Any]) -> Intent:
    """Return an erasure of keys that a model is asked for."""
    intent = Intent(model, (ErasurePart(model),))
    return replace(intent, keys=tuple(map(intent.hash, keys)))


def put_dataset(http: httpx.Client, X: list[list[float]], y: list[int]) -> None:
    """Put the same examples as a table whose rows have keys."""
    lines = [",".join([key, *map(repr, x), str(label)]) for key, x, label in zip(KEYS, X, y, strict=True)]
    head = ",".join(["who", *(f"x{column}" for column in range(len(X[0]))), "y"])
    kind = {"content-type": "text/csv"}
    text = "\n".join([head, *lines])
    http.put("/datasets/theirs", params={"key": "who"}, content=text, headers=kind).raise_for_status()


def lived(http: httpx.Client, updates: int = 4) -> tuple[list[list[float]], list[int]]:
    """Make a model with a history: updates with names, a checkpoint, a restore, jobs, a dataset, removed examples."""
    X, y = data()
    http.post("/models", json=SPEC).raise_for_status()
    size = len(X) // updates
    for number in range(updates):
        part = slice(number * size, (number + 1) * size)
        add = {"X": X[part], "y": y[part], "keys": KEYS[part]}
        name = {"idempotency-key": f"of {KEYS[part][0]}"}
        http.post("/models/m/update", json={"add": add}, headers=name).raise_for_status()
        if number == 1:
            http.post("/models/m/checkpoint").raise_for_status()
    put_dataset(http, X, y)
    job = http.post("/models/m/assessment", json={"method": "k-fold", "folds": 3}).json()["id"]
    awaited(http, job)
    http.post("/models/m/update", json={"remove": {"keys": KEYS[:2]}}).raise_for_status()
    http.post("/models/m/checkpoint").raise_for_status()
    http.post("/models/m/update", json={"reweight": {"keys": KEYS[3:5], "weights": [2.0, 0.5]}}).raise_for_status()
    http.post("/models/m/restore", json={"version": updates}).raise_for_status()
    http.post("/models/m/update", json={"remove": {"keys": KEYS[:1]}}).raise_for_status()
    return X, y


def traces(key: str, x: Sequence[float]) -> dict[str, bytes]:
    """Return what an example may be known by: its key's text, each feature as float64 and as JSON, all of them."""
    found = {"key": key.encode(), "row": struct.pack(f"<{len(x)}d", *x), "row as JSON": json.dumps(list(x)).encode()}
    for column, value in enumerate(x):
        found |= {f"x{column}": struct.pack("<d", value), f"x{column} as JSON": json.dumps(value).encode()}
    return found


def bytes_of_directory(directory: Path) -> dict[str, bytes]:
    """Return every file, by name."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def bytes_of_redis(client: redis.Redis) -> dict[str, bytes]:
    """Return every key with its value, whatever its type, unpacked."""
    found = {}
    keys: Any = client.keys("*")
    for key in keys:
        found[key.decode(errors="backslashreplace")] = b"\n".join([key, *_parts(client, key)])
    return found


def _parts(client: Any, key: bytes) -> list[bytes]:
    kind = client.type(key)
    if kind == b"string":
        return [client.get(key) or b""]  # it may be gone since it was listed
    if kind == b"hash":
        return [part for pair in client.hgetall(key).items() for part in pair]
    if kind == b"stream":
        return [part for _, fields in client.xrange(key) for part in (*fields, *fields.values())]
    return [*(client.smembers(key) if kind == b"set" else client.zrange(key, 0, -1))]


def places(haystacks: dict[str, bytes], key: str, x: Sequence[float]) -> set[str]:
    """Return where there is any trace of an example."""
    return {
        f"{what} in {where}"
        for where, data in haystacks.items()
        for what, trace in traces(key, x).items()
        if trace in data
    }


def without(X: Any, y: Any, keys: list[str], gone: list[str]) -> IncrementalSVC:
    """Return a model that never knew some of the examples."""
    stay = [place for place, key in enumerate(keys) if key not in gone]
    return IncrementalSVC(C=2.0, gamma=GAMMA).fit(np.array(X)[stay], np.array(y)[stay])


Kept = tuple[ServiceProcess, Callable[[], dict[str, bytes]]]
"""A service, not started, and what gives every byte that it keeps."""


@contextmanager
def keeping(store: str, directory: Path, **settings: Any) -> Iterator[Kept]:
    """Yield a service on an embedded store, or on a Redis of its own."""
    data_dir, files = directory / "data", directory / "redis"
    if store == "sqlite":
        yield ServiceProcess(data_dir, **settings), lambda: bytes_of_directory(data_dir)
        return

    def everything() -> dict[str, bytes]:
        """Return the data directory, the values of Redis, and its files but for what it logs."""
        written = {f"redis/{name}": found for name, found in bytes_of_directory(files).items() if "log" not in name}
        return bytes_of_directory(data_dir) | bytes_of_redis(client) | written

    with RedisServer(files) as server, server.client() as client:
        yield ServiceProcess(data_dir, redis_url=server.url, lease_seconds=1, **settings), everything
