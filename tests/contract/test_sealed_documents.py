"""A document in either store: any damage is reported; stores of before documents are brought up to date."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.store.base import DocumentName, Store, StoreDamaged
from livesvm.service.store.redis import SCHEMA, RedisStore
from livesvm.service.store.sqlite import SqliteStore
from tests.contract.redis_server import RedisServer
from tests.support.flips import flips

AT, DATA = DocumentName("dataset", "rivers"), b"what is said of them"


def is_noticed(store: Store) -> bool:
    """Return whether damage is reported, or the document is not there; nothing but what was given is ever returned."""
    try:
        found = store.document(AT)
    except StoreDamaged:
        return True
    assert found in (DATA, None)
    return found is None


def test_every_byte_of_a_row_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with closing(SqliteStore(path)) as store:
        store.put_document(AT, DATA)
    file = path.read_bytes()
    start = file.index("".join(AT).encode() + DATA)
    for place in range(start, start + len("".join(AT)) + len(DATA) + 32):
        path.write_bytes(file[:place] + bytes([file[place] ^ 1 << place % 8]) + file[place + 1 :])
        with closing(SqliteStore(path)) as store:
            assert is_noticed(store)
    path.write_bytes(file)
    with closing(SqliteStore(path)) as store:
        assert store.document(AT) == DATA


@pytest.mark.parametrize("change", ["name = 'others'", "data = CAST(data AS TEXT)", "seal = x''"])
def test_what_a_row_says_of_itself(tmp_path: Path, change: str) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        store.put_document(AT, DATA)
        with closing(sqlite3.connect(tmp_path / "store", isolation_level=None)) as db:
            assert db.execute(f"UPDATE documents SET {change}").rowcount == 1
        assert is_noticed(store)
        for at in store.documents():
            with pytest.raises(StoreDamaged):
                store.document(at)


def test_every_byte_of_the_value_in_redis(redis_server: RedisServer) -> None:
    prefix = uuid.uuid4().hex
    client: Any = redis_server.client()
    with closing(client), closing(RedisStore(redis_server.url, "me", prefix=prefix)) as store:
        store.put_document(AT, DATA)
        key, field = f"{{{prefix}}}:documents", "dataset:rivers"
        value = client.hget(key, field)
        for damaged in (*flips(value), value[:-1], value + b"0", b""):
            client.hset(key, field, damaged)
            assert is_noticed(store)
        client.hset(key, field, value)
        assert store.document(AT) == DATA


def test_documents_come_with_schema_4_of_redis(redis_server: RedisServer) -> None:
    prefix = uuid.uuid4().hex
    client: Any = redis_server.client()
    with closing(client):
        client.set(f"{{{prefix}}}:schema", 3)
        with closing(RedisStore(redis_server.url, "me", prefix=prefix)) as store:
            assert store.documents() == []
            assert store.document(AT) is None
        assert int(client.get(f"{{{prefix}}}:schema")) == SCHEMA
