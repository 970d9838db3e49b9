"""A solution in either store: any damage to it is reported, and what was there before there were any is read."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.store.base import Solution, Store, StoreDamaged
from livesvm.service.store.redis import RedisStore
from livesvm.service.store.sqlite import SqliteStore
from tests.contract.redis_server import RedisServer
from tests.support.flips import flips

SOLUTION = Solution(12, b"what the model was solved to")
BEFORE_DATA = 9
"""Bytes of a row in the file before its blob: its length, its number, the types of its columns, its key and record."""


def fill(store: Store) -> None:
    store.save_solution(store.create("m", b""), SOLUTION)


def is_noticed(store: Store) -> bool:
    """Return whether damage is reported; nothing but what was given is ever returned."""
    try:
        found = store.solution("m")
    except StoreDamaged:
        return True
    assert found in (SOLUTION, None)  # None: it stands under another model's name now
    return found is None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of one file."""
    with closing(SqliteStore(tmp_path / "store")) as store:
        fill(store)
    return tmp_path / "store"


def test_every_byte_of_a_row_in_the_file(path: Path) -> None:
    file = path.read_bytes()
    start = file.index(SOLUTION.data) - BEFORE_DATA
    assert file[start + 7 : start + 9] == b"m\x0c"
    for place in range(start, start + BEFORE_DATA + len(SOLUTION.data) + 32):
        for bit in range(8) if place < start + BEFORE_DATA else (place % 8,):
            path.write_bytes(file[:place] + bytes([file[place] ^ 1 << bit]) + file[place + 1 :])
            with closing(SqliteStore(path)) as store:
                is_moved = place == start + 1  # to another number, as what it is: only the index has to follow
                assert is_noticed(store) or is_moved, f"bit {bit} of byte {place - start - BEFORE_DATA} from the blob"
    path.write_bytes(file)
    with closing(SqliteStore(path)) as store:
        assert store.solution("m") == SOLUTION


@pytest.mark.parametrize("change", ["sequence = 11", "sequence = 'x'", "data = CAST(data AS TEXT)", "seal = x''"])
def test_what_a_row_says_of_itself(path: Path, change: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(f"UPDATE solutions SET {change}").rowcount == 1
    with closing(SqliteStore(path)) as store:
        assert is_noticed(store)


def test_every_byte_of_the_value_in_redis(redis_server: RedisServer) -> None:
    prefix = uuid.uuid4().hex
    client: Any = redis_server.client()
    name = f"{{{prefix}}}:m:m:solution"
    with closing(client), closing(RedisStore(redis_server.url, "me", prefix=prefix)) as store:
        fill(store)
        value = client.get(name)
        for damaged in (*flips(value), value[:-1], value + b"0", b""):
            client.set(name, damaged)
            assert is_noticed(store)
        client.set(name, value)
        assert store.solution("m") == SOLUTION
