"""A summary in either store: damage to it leaves the index whole, and the model without a summary."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.store.base import Indexed, Store
from livesvm.service.store.redis import RedisStore
from livesvm.service.store.sqlite import SqliteStore
from tests.contract.redis_server import RedisServer
from tests.support.flips import flips

SUMMARY = b"what is shown of the model"
BARE = Indexed("other", 0, b"", 0)


def fill(store: Store) -> None:
    store.create("m", b"spec", 5, SUMMARY)
    store.create("other", b"spec")


def is_left_out(store: Store) -> bool:
    """Return whether the damaged summary is left out; all else that the index says stays true."""
    m, other = store.index()
    assert (m.id, m.sequence, m.damage, other._replace(holder="")) == ("m", 5, "", BARE)
    assert (m.summary, m.described) in [(b"", 0), (SUMMARY, 5)]
    return not m.summary


def test_every_byte_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with closing(SqliteStore(path)) as store:
        fill(store)
    file = path.read_bytes()
    start = file.index(SUMMARY) - 5  # the record that it is true up to, and its checksum
    assert file[start] == 5
    for place in range(start, start + 5 + len(SUMMARY)):
        path.write_bytes(file[:place] + bytes([file[place] ^ 1 << place % 8]) + file[place + 1 :])
        with closing(SqliteStore(path)) as store:
            assert is_left_out(store)
    path.write_bytes(file)
    with closing(SqliteStore(path)) as store:
        assert not is_left_out(store)


@pytest.mark.parametrize(
    "change",
    ["described = 4", "described = 'x'", "summary = CAST(summary AS TEXT)", "summary = x''", "summary = x'00'"],
)
def test_what_a_row_says_of_itself(tmp_path: Path, change: str) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        fill(store)
        store._read(f"UPDATE models SET {change} WHERE id = 'm'")
        assert is_left_out(store)


def test_the_summary_of_another_model_is_none(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        fill(store)
        query = "UPDATE models SET described = 5, summary = (SELECT summary FROM models WHERE id = 'm')"
        store._read(f"{query} WHERE id = 'other'")
        assert not is_left_out(store)


def test_every_byte_of_the_value_in_redis(redis_server: RedisServer) -> None:
    prefix = uuid.uuid4().hex
    client: Any = redis_server.client()
    with closing(client), closing(RedisStore(redis_server.url, "me", prefix=prefix)) as store:
        fill(store)
        key = f"{{{prefix}}}:m:m:meta"
        for field in ("summary", "described"):
            value = client.hget(key, field)
            for damaged in (*flips(value), value[:-1], value + b"0", b"9" * 5000, b""):
                client.hset(key, field, damaged)
                assert is_left_out(store)
            client.hset(key, field, value)
        assert not is_left_out(store)


def test_a_description_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        lease = store.create("m", b"")
        synced: list[int] = []
        monkeypatch.setattr("os.fdatasync", synced.append)
        store.describe(lease, 3, SUMMARY)
        assert synced == []
        assert [found.summary for found in store.index()] == [SUMMARY]
        store.append(lease, 1, b"", None, keep=1)
        assert len(synced) == 1


def test_a_damaged_specification_leaves_the_index(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store")) as store:
        fill(store)
        with closing(sqlite3.connect(tmp_path / "store", isolation_level=None)) as db:
            db.execute("DELETE FROM specs WHERE model = 'm'")
        assert not is_left_out(store)
        assert [found.spec for found in store.models()] == [store.model("m").spec, b"spec"]  # type: ignore[union-attr]
