"""Looking for somebody in every byte that a service keeps."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import redis


def traces(key: str, x: Sequence[float]) -> dict[str, bytes]:
    """What an example may be known by: its key's text, each feature as float64 and as JSON, all of them."""
    found = {"key": key.encode(), "row": struct.pack(f"<{len(x)}d", *x), "row as JSON": json.dumps(list(x)).encode()}
    for column, value in enumerate(x):
        found |= {f"x{column}": struct.pack("<d", value), f"x{column} as JSON": json.dumps(value).encode()}
    return found


def bytes_of_directory(directory: Path) -> dict[str, bytes]:
    """Every file, by name."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def bytes_of_redis(client: redis.Redis) -> dict[str, bytes]:
    """Every key with its value, whatever its type, unpacked."""
    found = {}
    for key in client.keys("*"):
        name = key.decode(errors="backslashreplace")
        kind = client.type(key)
        read = {
            b"string": lambda key: [client.get(key)],
            b"hash": lambda key: [part for pair in client.hgetall(key).items() for part in pair],
            b"set": lambda key: list(client.smembers(key)),
            b"zset": lambda key: client.zrange(key, 0, -1),
            b"stream": lambda key: [
                part for _, fields in client.xrange(key) for pair in fields.items() for part in pair
            ],
        }[kind]
        found[name] = key + b"\n" + b"\n".join(read(key))
    return found


def places(haystacks: dict[str, bytes], key: str, x: Sequence[float]) -> set[str]:
    """Where there is any trace of an example."""
    return {
        f"{what} in {where}"
        for where, data in haystacks.items()
        for what, trace in traces(key, x).items()
        if trace in data
    }
