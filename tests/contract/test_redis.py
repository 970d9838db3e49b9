"""What only the Redis store does."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.store import chunks
from livesvm.service.store.base import (
    DELETING,
    DocumentName,
    Durability,
    Fenced,
    Idempotency,
    Lease,
    LeaseHeld,
    ModelGone,
    OutOfSequence,
    Solution,
    StoreDamaged,
    StoreTooNew,
    StoreUnavailable,
)
from livesvm.service.store.redis import SCHEMA, RedisStore
from livesvm.service.store.scripts import BEGIN_SNAPSHOT, COUNTED
from tests.contract.redis_server import RedisServer

AT = DocumentName("fleet", "seas")


@pytest.fixture
def store(redis_server: RedisServer, prefix: str) -> Iterator[RedisStore]:
    with closing(RedisStore(redis_server.url, "me", prefix=prefix)) as opened:
        yield opened


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that the test may stop and break."""
    with RedisServer(tmp_path / "redis") as server:
        yield server


def keys(server: RedisServer, prefix: str) -> set[str]:
    found: Any = server.client().keys(f"*{prefix}*")
    return {key.decode() for key in found}


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({"appendonly": "yes", "appendfsync": "always"}, Durability.FSYNCED),
        ({"appendonly": "yes", "appendfsync": "everysec"}, Durability.LOGGED),
        ({"appendonly": "yes", "appendfsync": "no"}, Durability.MEMORY),
        ({"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "yes"}, Durability.MEMORY),
        ({"appendonly": "no", "appendfsync": "always"}, Durability.MEMORY),
        ({"maxmemory-policy": "allkeys-lru"}, Durability.MEMORY),
    ],
)
def test_the_level_is_the_servers_own_and_never_higher(
    options: dict[str, str], level: Durability, tmp_path: Path
) -> None:
    server = RedisServer(tmp_path / "redis", **options)
    with server, closing(RedisStore(server.url, "me")) as store:
        assert store.durability() is level
        assert store.append(store.create("m", b""), 1, b"", None, keep=1) is level
        assert (store.weakness is None) is (level is not Durability.MEMORY)


def test_a_server_that_does_not_say_promises_nothing(own_server: RedisServer) -> None:
    with closing(RedisStore(own_server.url, "me")) as store:
        lease = store.create("m", b"")
        assert store.durability() is Durability.FSYNCED
        own_server.client().acl_setuser("default", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-config"])
        assert store.durability() is Durability.MEMORY
        assert store.append(lease, 1, b"", None, keep=1) is Durability.MEMORY
        assert store.weakness is not None
        assert store.weakness.endswith("maxmemory-policy to this user: allow it +config|get")


OF_THE_STORE = {"models", "documents"}
OF_A_MODEL = {"meta", *COUNTED}
EXPENDABLE = {"schema", "epochs", "changes", "gone", "alive", "writing", "chunk", "solution"}
"""Made again, found again, or not needed; of snapshots there are two, and the log behind the older one."""


def _filled(store: RedisStore) -> Lease:
    """Return the lease of a model that has every key there is, in a store with another model and a document."""
    store.append(store.create("other", b"spec"), 1, b"", None, keep=9)
    store.put_document(DocumentName("fleet", "rivers"), b"data")
    lease = store.create("m", b"spec")
    for number in (1, 2, 3):
        store.append(lease, number, b"record", Idempotency(f"k{number}", b"body"), keep=9)
        store.remember(lease, f"k{number}", b"answer")
    store.abort(lease, 3)
    for number in (1, 2):
        store.save_snapshot(lease, number, b"snapshot", number)
    store.save_solution(lease, Solution(3, b"solution"))
    store._write(BEGIN_SNAPSHOT, lease, "ab", 1)
    store.ping()
    return lease


def _dumped(client: Any) -> dict[str, bytes]:
    return {key.decode(): client.dump(key) for key in client.keys("*")}


def _check_without(name: str, lease: Lease, store: RedisStore, server: RedisServer) -> None:
    """Check what a running store and one that is opened again make of the loss of a key."""
    if name in OF_THE_STORE:
        for refused in (lambda: store.append(lease, 4, b"", None, keep=9), lambda: store.create("n", b"")):
            with pytest.raises(StoreDamaged, match=r"Redis has lost its index of models .* restore a backup"):
                refused()
        assert (store.durability(), store.heads(["m", "other"])) == (Durability.MEMORY, {})
        assert f"Redis has lost {{livesvm}}:{name}" in (store.weakness or "")
        if name == "documents":
            for call in (store.documents, lambda: store.document(AT), lambda: store.put_document(AT, b"")):
                with pytest.raises(StoreUnavailable, match=r"has lost \{livesvm\}:documents"):
                    call()
        with pytest.raises(StoreDamaged, match=f"Redis has lost {{livesvm}}:{name}"):
            RedisStore(server.url, "other")
        return
    with closing(RedisStore(server.url, "me", lease_seconds=0)) as again:
        found = {one.id: one for one in again.index()}
        assert found["other"].damage == ""
        assert again.documents() == [DocumentName("fleet", "rivers")]
        assert (store.durability(), store.weakness) == (Durability.FSYNCED, None)
        if name in OF_A_MODEL:
            with pytest.raises((StoreDamaged, ModelGone)):
                store.append(lease, 4, b"", None, keep=9)
            assert store.heads(["m", "other"]).keys() == {"other"}
            assert "lost keys of model m" in found["m"].damage
            assert {one.id: one.damage != "" for one in again.models()} == {"m": True, "other": False}
            taken = again.acquire("m")
            assert "lost keys of model m" in next(again.index(["m"])).damage
            with pytest.raises(StoreDamaged, match="has lost keys of model m"):
                again.last_sequence(taken)
            again.supersede(taken, 3, b"written back", 3)
            assert again.append(taken, 4, b"record", None, keep=9) is Durability.FSYNCED
            again.delete(taken)
            assert again.model("m") is None
        else:
            assert found["m"] == next(store.index(["m"]))
            assert store.append(lease, 4, b"record", None, keep=9) is Durability.FSYNCED
            assert again.acquire("m").epoch > lease.epoch


def test_the_loss_of_any_key_is_named_unless_it_can_be_made_again(own_server: RedisServer) -> None:
    """As an eviction takes them; what is written afterwards is refused, and no start takes what is left for all."""
    with closing(RedisStore(own_server.url, "me")) as store, own_server.client() as client:
        lease = _filled(store)
        client.sadd("{livesvm}:gone", "another")
        whole = _dumped(client)
        names = {key: key.removeprefix("{livesvm}:").removeprefix("m:m:").partition(":")[0] for key in whole}
        assert set(names.values()) == OF_THE_STORE | OF_A_MODEL | EXPENDABLE | {"m"}
        for key in (key for key, name in names.items() if name != "m"):
            client.delete(key)
            _check_without(names[key], lease, store, own_server)
            client.flushall()
            for other, data in whole.items():
                client.restore(other, 0, data)


def test_a_store_of_which_anything_is_left_is_no_new_one(own_server: RedisServer) -> None:
    with closing(RedisStore(own_server.url, "me")) as store, own_server.client() as client:
        _filled(store)
        for key, data in _dumped(client).items():
            if ":alive:" in key:
                continue
            client.flushall()
            client.restore(key, 0, data)
            with pytest.raises(StoreDamaged, match="Redis has lost"):
                RedisStore(own_server.url, "other")
        client.flushall()
        assert store.append(store.create("n", b""), 1, b"", None, keep=9) is Durability.FSYNCED  # a new Redis
        client.delete("{livesvm}:epochs", "{livesvm}:changes")
        assert store.acquire("n").epoch > 1
        before = store.changes()
        store.create("o", b"")
        assert store.changes() > before + 10**6


def test_an_empty_redis_where_a_store_was_is_reported(own_server: RedisServer, tmp_path: Path) -> None:
    def opened() -> RedisStore:
        return RedisStore(own_server.url, "me", known=tmp_path / "known")

    for is_reported in (False, True):
        with closing(opened()) as store:
            assert (store.durability() is Durability.MEMORY, "is empty" in (store.weakness or "")) == (is_reported,) * 2
            store.create("m", b"")
        with closing(opened()) as store:  # which has models again
            assert (store.durability(), store.weakness) == (Durability.FSYNCED, None)
        own_server.client().flushall()


def test_a_level_that_changes_is_named_by_the_next_append(own_server: RedisServer) -> None:
    with closing(RedisStore(own_server.url, "me")) as store:
        lease = store.create("m", b"")
        assert store.append(lease, 1, b"", None, keep=1) is Durability.FSYNCED
        own_server.client().config_set("appendfsync", "everysec")
        assert store.append(lease, 2, b"", None, keep=1) is Durability.LOGGED


def test_a_newer_layout_is_refused(redis_server: RedisServer, prefix: str, store: RedisStore) -> None:
    redis_server.client().set(f"{{{prefix}}}:schema", SCHEMA + 1)
    with pytest.raises(StoreTooNew, match=f"schema {SCHEMA + 1}"):
        RedisStore(redis_server.url, "me", prefix=prefix)


def test_every_key_is_under_the_prefix_in_one_slot_and_none_stays(
    redis_server: RedisServer, prefix: str, store: RedisStore
) -> None:
    before: Any = redis_server.client().dbsize()
    lease = store.create("m", b"")
    store.append(lease, 1, b"", Idempotency("k", b""), keep=1)
    store.abort(lease, 1)
    store.save_snapshot(lease, 1, b"x", 1)
    assert all(key.startswith(f"{{{prefix}}}:") for key in keys(redis_server, prefix))
    assert redis_server.client().dbsize() == before + len(keys(redis_server, prefix)) - 5  # those of every store
    store.delete(lease)
    left = {"schema", "models", "documents", "epochs", "changes"}
    assert {key.rpartition(":")[2] for key in keys(redis_server, prefix)} == left


def test_any_damaged_byte_of_a_chunk_is_noticed(redis_server: RedisServer, prefix: str, store: RedisStore) -> None:
    lease = store.create("m", b"")
    data = bytes(range(200))
    store.save_snapshot(lease, 0, data, 0)
    (chunk,) = (key for key in keys(redis_server, prefix) if ":chunk:" in key)
    client = redis_server.client()
    for place in range(len(data)):
        client.setrange(chunk, place, bytes([data[place] ^ 1]))
        with pytest.raises(StoreDamaged):
            store.load_snapshot("m", 0)
        client.setrange(chunk, place, bytes([data[place]]))
    assert store.load_snapshot("m", 0) == data
    client.append(chunk, b"x")
    with pytest.raises(StoreDamaged):
        store.load_snapshot("m", 0)
    client.delete(chunk)
    with pytest.raises(StoreDamaged):
        store.load_snapshot("m", 0)


def test_a_snapshot_of_many_chunks_is_cut_and_joined(
    redis_server: RedisServer, prefix: str, store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 10)
    lease = store.create("m", b"")
    for size in (0, 9, 10, 11, 35):
        store.save_snapshot(lease, 0, bytes(range(size)), 0)
        assert store.load_snapshot("m", 0) == bytes(range(size))
        assert sum(":chunk:" in key for key in keys(redis_server, prefix)) == max(1, -(-size // 10))


def test_a_snapshot_that_was_not_finished_is_not_seen_and_cleared_away(
    redis_server: RedisServer, prefix: str, store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = store.create("m", b"")
    store.save_snapshot(lease, 1, b"whole", 1)
    with monkeypatch.context() as patched:
        patched.setattr(RedisStore, "_publish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.save_snapshot(lease, 2, b"torn", 2)
    assert [snapshot.sequence for snapshot in store.snapshots("m")] == [1]
    assert sum(":chunk:" in key for key in keys(redis_server, prefix)) == 2
    store.save_snapshot(lease, 3, b"next", 3)
    assert [snapshot.sequence for snapshot in store.snapshots("m")] == [3, 1]
    assert sum(":chunk:" in key for key in keys(redis_server, prefix)) == 2


def test_a_living_holder_keeps_its_models_and_a_silent_one_loses_them(redis_server: RedisServer, prefix: str) -> None:
    with (
        closing(RedisStore(redis_server.url, "one", prefix=prefix, lease_seconds=0.3)) as one,
        closing(RedisStore(redis_server.url, "two", prefix=prefix, lease_seconds=0.3)) as two,
    ):
        old = one.create("m", b"")
        end = time.monotonic() + 0.6
        while time.monotonic() < end:
            one.ping()
            with pytest.raises(LeaseHeld, match="held by another service, one"):
                two.acquire("m")
            time.sleep(0.05)
        new = _when_free(two, "m")
        with pytest.raises(Fenced):
            one.append(old, 1, b"", None, keep=1)
        two.append(new, 1, b"", None, keep=1)


def _when_free(store: RedisStore, model: str) -> Lease:
    end = time.monotonic() + 5
    while True:
        try:
            return store.acquire(model)
        except LeaseHeld:
            assert time.monotonic() < end
            time.sleep(0.05)


def test_a_service_takes_its_own_models_back_at_once_and_a_released_one_is_free(
    redis_server: RedisServer, prefix: str, store: RedisStore
) -> None:
    old = store.create("m", b"")
    with (
        closing(RedisStore(redis_server.url, "me", prefix=prefix)) as again,
        closing(RedisStore(redis_server.url, "two", prefix=prefix)) as two,
    ):
        lease = again.acquire("m")
        with pytest.raises(Fenced):
            store.append(old, 1, b"", None, keep=1)
        with pytest.raises(LeaseHeld):
            two.acquire("m")
        again.release(lease)
        two.acquire("m")


def test_what_a_service_released_at_its_stop_is_free_until_it_takes_something_again(
    redis_server: RedisServer, prefix: str
) -> None:
    with (
        closing(RedisStore(redis_server.url, "one", prefix=prefix)) as one,
        closing(RedisStore(redis_server.url, "one", prefix=prefix)) as again,
        closing(RedisStore(redis_server.url, "two", prefix=prefix)) as two,
    ):
        old = {name: one.create(name, b"") for name in "abcd"}
        one.ping()
        assert not two.is_silent("one")
        with pytest.raises(LeaseHeld):
            two.acquire("a")
        assert {found.holder for found in two.index()} == {"one"}
        one.release_all()
        one.ping()  # a thread that has not ended yet
        assert two.is_silent("one")
        assert {found.holder for found in two.index()} == {""}
        two.acquire("a")
        with pytest.raises(Fenced):
            one.append(old["a"], 1, b"", None, keep=1)
        one.append(old["b"], 1, b"", None, keep=1)
        assert {found.id: found.holder for found in two.index()} == {"a": "two", "b": "", "c": "", "d": ""}
        again.ping()
        two.acquire("b")
        again.acquire("c")
        for name in "cd":
            with pytest.raises(LeaseHeld):
                two.acquire(name)
        with pytest.raises(LeaseHeld):
            again.acquire("a")
        assert {found.id: found.holder for found in two.index()} == {"a": "two", "b": "two", "c": "one", "d": "one"}
        again.release_all()
        again.create("e", b"")
        with pytest.raises(LeaseHeld):
            two.acquire("d")


def test_all_is_released_by_a_server_without_memory(own_server: RedisServer) -> None:
    with closing(RedisStore(own_server.url, "one")) as one, closing(RedisStore(own_server.url, "two")) as two:
        lease = one.create("m", b"", 0, b"summary")
        own_server.client().config_set("maxmemory", "1")
        lease, _ = one.retake(one.acquire("m"), 1)
        one.abort(lease, 0)
        one.put_document(DocumentName(DELETING, "m"), b"")
        one.release_all()
        assert two.is_silent("one")
        one.delete(one.acquire("m"))
        assert two.changes() == 2


def test_an_index_reads_neither_specifications_nor_states(redis_server: RedisServer, store: RedisStore) -> None:
    store.save_snapshot(store.create("m", b"spec"), 0, b"state", 0, b"summary")
    client: Any = redis_server.client()
    client.config_resetstat()
    assert [found.summary for found in store.index()] == [b"summary"]
    calls = {name.removeprefix("cmdstat_") for name in client.info("commandstats")}
    assert calls - {"info", "config", "config|resetstat"} == {"smembers", "hkeys", "hmget", "exists", "multi", "exec"}


def test_of_two_that_take_over_together_one_wins(redis_server: RedisServer, prefix: str, store: RedisStore) -> None:
    store.release(store.create("m", b""))
    stores = [RedisStore(redis_server.url, f"s{n}", prefix=prefix) for n in range(4)]
    outcomes: list[Lease | Exception] = []

    def take(own: RedisStore) -> None:
        try:
            outcomes.append(own.acquire("m"))
        except (Fenced, LeaseHeld) as error:
            outcomes.append(error)

    threads = [threading.Thread(target=take, args=(own,)) for own in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, Lease) for outcome in outcomes) == 1
    for own in stores:
        own.close()


def test_a_stopped_server_is_reported_while_it_is_and_what_was_under_way_is_fenced(own_server: RedisServer) -> None:
    """The append that was given up runs when the server goes on; once the lease was retaken it cannot."""
    with closing(RedisStore(own_server.url, "me", timeout=0.3)) as store:
        lease = store.create("m", b"")
        own_server.signal(signal.SIGSTOP)
        with pytest.raises(StoreUnavailable):
            store.append(lease, 1, b"late", None, keep=1)
        with pytest.raises(StoreUnavailable):
            store.ping()
        own_server.signal(signal.SIGCONT)
        lease, newest = store.retake(lease, 1)
        with pytest.raises(Fenced):
            store.append(Lease("m", lease.epoch - 1, lease.writer), newest + 1, b"later", None, keep=1)
        store.append(lease, newest + 1, b"now", None, keep=1)
        assert [record.sequence for record in store.log("m", 0)] == list(range(1, newest + 2))


def test_a_killed_server_comes_back_with_everything(own_server: RedisServer) -> None:
    with closing(RedisStore(own_server.url, "me")) as store:
        lease = store.create("m", b"spec")
        store.append(lease, 1, b"one", Idempotency("k", b"body"), keep=10)
        store.save_snapshot(lease, 1, b"snapshot", 1)
        own_server.kill()
        with pytest.raises(StoreUnavailable):
            store.append(lease, 2, b"two", None, keep=10)
        own_server.start()
        store.append(lease, 2, b"two", None, keep=10)
        assert [record.data for record in store.log("m", 0)] == [b"one", b"two"]
        assert store.load_snapshot("m", 1) == b"snapshot"
        assert store.recall("m", "k") is not None


def test_a_server_without_memory_refuses_whole_and_recovers(own_server: RedisServer) -> None:
    client = own_server.client()
    with closing(RedisStore(own_server.url, "me")) as store:
        lease = store.create("m", b"")
        store.append(lease, 1, b"one", Idempotency("a", b""), keep=10)
        client.config_set("maxmemory", "1")
        for call in (
            lambda: store.ping(),
            lambda: store.append(lease, 2, b"two", Idempotency("b", b""), keep=10),
            lambda: store.save_snapshot(lease, 1, b"x", 1),
            lambda: store.create("other", b""),
        ):
            with pytest.raises(StoreUnavailable):
                call()
        client.config_set("maxmemory", "0")
        assert store.last_sequence(lease) == 1
        assert [record.sequence for record in store.log("m", 0)] == [1]
        assert (store.recall("m", "b"), store.snapshots("m"), len(store.models())) == (None, [], 1)
        store.append(lease, 2, b"two", Idempotency("b", b""), keep=10)


def test_a_server_that_forgot_its_scripts_is_sent_them(redis_server: RedisServer, store: RedisStore) -> None:
    lease = store.create("m", b"")
    store.append(lease, 1, b"", None, keep=1)
    redis_server.client().script_flush()
    store.append(lease, 2, b"", None, keep=1)
    with pytest.raises(OutOfSequence):
        store.append(lease, 2, b"", None, keep=1)


def test_a_ping_fails_where_an_update_would(own_server: RedisServer, prefix: str) -> None:
    with closing(RedisStore(own_server.url, "me", prefix=prefix)) as store, own_server.client() as client:
        store.ping()
        client.config_set("maxmemory", "1")
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            store.ping()
        client.config_set("maxmemory", "0")
        client.replicaof("127.0.0.1", "1")
        with pytest.raises(StoreUnavailable, match="read only"):
            store.ping()
        client.replicaof("NO", "ONE")
        store.ping()


def test_nothing_of_what_was_superseded_is_left(store: RedisStore, redis_server: RedisServer, prefix: str) -> None:
    lease = store.create("m", b"")
    for sequence in (1, 2):
        store.append(lease, sequence, b"record", None, keep=1)
        store.save_snapshot(lease, sequence, b"snapshot", sequence)
    store.abort(lease, 2)
    store.save_solution(lease, Solution(2, b"solution"))
    store.supersede(lease, 2, b"instead", 2)
    found = {name.rpartition(":m:m:")[2].partition(":")[0] for name in keys(redis_server, prefix) if ":m:m:" in name}
    assert found == {"meta", "snapshots", "chunk"}
    assert sum(":chunk:" in name for name in keys(redis_server, prefix)) == 1


def test_a_record_of_another_writer_is_named_as_damage(
    redis_server: RedisServer, prefix: str, store: RedisStore
) -> None:
    lease = store.create("m", b"spec")
    store.append(lease, 1, b"data", None, keep=1)
    log = f"{{{prefix}}}:m:m:log"
    with closing(redis_server.client()) as client:
        for id_, field in (("1-1", "data"), ("*", "_reason")):
            entry: Any = client.xadd(log, {field: "of another"}, id=id_)
            with pytest.raises(StoreDamaged, match=f"the log of model m holds {entry.decode()}, a record of another"):
                list(store.log("m", 0))
            client.xdel(log, entry)
        with pytest.raises(StoreDamaged, match="the log of model m ends with a record of another writer"):
            store.append(lease, 2, b"data", None, keep=1)


def test_one_service_is_active_until_it_resigns_or_shows_no_life(redis_server: RedisServer) -> None:
    prefix = uuid.uuid4().hex
    with (
        closing(RedisStore(redis_server.url, "a", prefix=prefix, lease_seconds=60)) as one,
        closing(RedisStore(redis_server.url, "b", prefix=prefix, lease_seconds=0.2)) as two,
    ):
        assert (one.claim(), two.claim(), one.claim()) == ("", "a", "")
        two.resign()  # which it cannot for another
        assert two.claim() == "a"
        one.resign()
        assert (two.claim(), one.claim()) == ("", "b")
        two.release_all()
        assert (one.claim(), two.claim()) == ("", "a")
        one.ping()
        assert two.claim() == "a"
        time.sleep(0.3)
        assert (two.claim(), one.claim()) == ("", "b")


def test_a_service_that_began_again_shows_other_signs_of_life_than_before(own_server: RedisServer) -> None:
    with (
        closing(RedisStore(own_server.url, "me")) as store,
        closing(RedisStore(own_server.url, "other", lease_seconds=0.01)) as other,
    ):
        for _ in range(2):
            store.ping()
        assert not other.is_silent("me")
        store.release_all()
        store.create("m", b"")
        for _ in range(2):
            store.ping()
        time.sleep(0.02)
        assert not other.is_silent("me")
        time.sleep(0.02)
        assert other.is_silent("me")
