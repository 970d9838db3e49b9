"""Remembered requests and marks of aborted records: damage to them is reported, and never taken for true."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from livesvm.service.errors import ModelUnavailable
from livesvm.service.store.base import Idempotency, Lease, LogRecord, Remembered, RequestKnown, Store, StoreDamaged
from livesvm.service.store.redis import RedisStore
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.models.change import Batch, Change
from tests.contract.redis_server import RedisServer
from tests.support.flips import flips
from tests.support.live_models import SPEC, alive

BODY, ANSWER = b"body of the request", b"answer to the request"
WHOLE = Remembered(BODY, 1, ANSWER)
BEFORE_BODY = 14
"""Bytes of a row in the file before its body: its length, its number, the types of its columns, its model and key."""


def fill(store: Store) -> Lease:
    """Return a model with one request that was answered, and one record that was aborted."""
    lease = store.create("m", b"")
    store.append(lease, 1, b"record", Idempotency("key", BODY), keep=10)
    store.remember(lease, "key", ANSWER)
    store.append(lease, 2, b"record", Idempotency("other", b""), keep=10)
    store.abort(lease, 2)
    return lease


def is_told(store: Store) -> bool:
    """Return whether damage to the request is reported; what is recalled of it is true all the same."""
    try:
        found = store.recall("m", "key")
    except StoreDamaged:
        return True
    assert found in (WHOLE, Remembered(BODY, 1, None))
    return found != WHOLE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of one file."""
    with closing(SqliteStore(tmp_path / "store")) as store:
        fill(store)
    return tmp_path / "store"


def test_every_bit_of_a_row_in_the_file(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        seals: tuple[bytes, bytes] = db.execute("SELECT seal, answer_seal FROM requests").fetchone()
    file = path.read_bytes()
    start, end = file.index(BODY) - BEFORE_BODY, file.index(seals[1]) + len(seals[1])
    assert start < file.index(seals[0]) < end
    for place in range(start, end):
        for bit in range(8) if place < start + BEFORE_BODY else (place % 8,):
            path.write_bytes(file[:place] + bytes([file[place] ^ 1 << bit]) + file[place + 1 :])
            with closing(SqliteStore(path)) as store:
                is_moved = place == start + 1  # to another number, as what it is: only the index has to follow
                assert is_told(store) or is_moved, f"bit {bit} of byte {place - start - BEFORE_BODY} from the body"
    path.write_bytes(file)
    with closing(SqliteStore(path)) as store:
        assert not is_told(store)


def test_every_bit_of_an_index_in_the_file(path: Path) -> None:
    file = path.read_bytes()
    places = [place for place in range(len(file)) if file.startswith(b"mkey", place)]
    (entry,) = [place for place in places if not file.startswith(BODY, place + len(b"mkey"))]
    header = 5  # its length, that of its header, the types of its columns
    mended = 0
    for place in range(entry - header, entry + len(b"mkey")):
        for bit in range(8):
            path.write_bytes(file[:place] + bytes([file[place] ^ 1 << bit]) + file[place + 1 :])
            with closing(SqliteStore(path)) as store:
                lease = store.acquire("m")
                mended += not is_told(store)
                with pytest.raises((RequestKnown, StoreDamaged)):
                    store.append(lease, 3, b"again", Idempotency("key", BODY), keep=10)
    assert mended > 50  # where SQLite cannot read the index, it is reported


@pytest.mark.parametrize(
    "change",
    [
        "sequence = 2",
        "answer = NULL",
        "answer_seal = NULL",
        "answer = CAST(answer AS TEXT)",
        "answer = body, answer_seal = seal",
        "seal = x''",
    ],
)
def test_what_a_row_says_of_itself(path: Path, change: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(f"UPDATE requests SET {change}").rowcount == 1
    with closing(SqliteStore(path)) as store:
        assert is_told(store)
        with pytest.raises(StoreDamaged, match="request 'key'"):
            store.requests("m")


class Server:
    """The values that Redis keeps of the model, to be damaged."""

    def __init__(self, server: RedisServer, prefix: str) -> None:
        self.client: Any = server.client()
        self.prefix = prefix

    def name(self, of: str) -> str:
        return f"{{{self.prefix}}}:m:m:{of}"


@pytest.fixture
def kept(redis_server: RedisServer, prefix: str) -> Iterator[Server]:
    found = Server(redis_server, prefix)
    with closing(found.client):
        yield found


@pytest.fixture
def store(redis_server: RedisServer, prefix: str) -> Iterator[RedisStore]:
    with closing(RedisStore(redis_server.url, "me", prefix=prefix)) as opened:
        yield opened


@pytest.mark.parametrize("of", ["requests", "answers"])
def test_every_byte_of_a_value_in_redis(of: str, store: RedisStore, kept: Server) -> None:
    fill(store)
    whole = kept.client.hget(kept.name(of), "key")
    for damaged in (*flips(whole), b"", b":", b"1:" + BODY, whole[:-1], whole + b"x"):
        kept.client.hset(kept.name(of), "key", damaged)
        assert is_told(store), damaged
        with pytest.raises(StoreDamaged, match="request 'key'"):
            store.requests("m")
    kept.client.hset(kept.name(of), "key", whole)
    assert not is_told(store)


def test_a_request_under_a_damaged_name_is_not_done_again(store: RedisStore, kept: Server) -> None:
    lease = fill(store)
    kept.client.hset(kept.name("requests"), "kez", kept.client.hget(kept.name("requests"), "key"))
    kept.client.hdel(kept.name("requests"), "key")
    with pytest.raises(RequestKnown):
        store.append(lease, 3, b"again", Idempotency("key", BODY), keep=10)
    with pytest.raises(StoreDamaged, match="request 'kez'"):
        store.requests("m")


def test_every_byte_of_a_mark_in_redis(store: RedisStore, kept: Server) -> None:
    fill(store)
    (mark,) = kept.client.smembers(kept.name("aborted"))
    log = [LogRecord(1, b"record", False), LogRecord(2, b"record", True)]
    for damaged in (*flips(mark), b"", b"1", b"2", b"9" * 5000, mark[:-1]):
        kept.client.delete(kept.name("aborted"))
        kept.client.sadd(kept.name("aborted"), damaged)
        with pytest.raises(StoreDamaged, match="mark of an aborted record"):
            list(store.log("m", 0))
    kept.client.delete(kept.name("aborted"))
    kept.client.sadd(kept.name("aborted"), mark)
    assert list(store.log("m", 0)) == log


@pytest.mark.parametrize("damaged", ["x", "9000:seal", ":"])
def test_a_mark_of_no_record_goes_when_all_records_of_then_are_gone(
    damaged: str, store: RedisStore, kept: Server
) -> None:
    lease = fill(store)
    kept.client.sadd(kept.name("aborted"), damaged)
    for sequence in (3, 4):
        store.append(lease, sequence, b"", None, keep=10)
        store.save_snapshot(lease, sequence, b"", sequence)
        with pytest.raises(StoreDamaged, match="mark of an aborted record"):
            list(store.log("m", 0))
    store.append(lease, 5, b"", None, keep=10)
    store.save_snapshot(lease, 5, b"", 5)
    assert kept.client.smembers(kept.name("aborted")) == set()
    assert [record.sequence for record in store.log("m", 0)] == [5]


def an_update() -> Change:
    rng = np.random.default_rng(0)
    return Change(Batch(rng.normal(size=(20, 2)), rng.choice([-1.0, 1.0], 20)))


def test_a_damaged_answer_is_reported_to_a_retry_and_made_again_at_the_next_start(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    update = an_update()
    with closing(SqliteStore(path)) as store:
        live = alive(store, store.create("m", b""))
        first = live.update(update, "key").result()
        store._read("UPDATE requests SET answer = ?", first.body[:-1] + b" ")
        with pytest.raises(ModelUnavailable, match="its answer is lost"):
            live.update(update, "key").result()
        again = alive(store, store.acquire("m")).update(update, "key").result()
        assert again.replayed
        assert again.body.partition(b'"seconds"')[0] == first.body.partition(b'"seconds"')[0]


def test_a_damaged_request_is_reported_and_costs_no_model(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    update = an_update()
    with closing(SqliteStore(path)) as store:
        live = alive(store, store.create("m", b""))
        live.update(update, "key").result()
        store._read("UPDATE requests SET sequence = 7")
        with pytest.raises(StoreDamaged, match="request 'key'"):
            live.update(update, "key").result()
        again = alive(store, store.acquire("m"), SPEC)
        assert again.sample().version == 1
        with pytest.raises(StoreDamaged, match="request 'key'"):
            again.update(update, "key").result()
        assert again.sample().version == 1
