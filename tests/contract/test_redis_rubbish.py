"""Whatever is done to a model in Redis, nothing stays there that nothing leads to."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from livesvm.service.store import chunks
from livesvm.service.store.base import Idempotency, Lease, RequestKnown, Solution, StoreUnavailable
from livesvm.service.store.chunks import Pointer
from livesvm.service.store.redis import KEPT_SNAPSHOTS, RedisStore
from tests.contract.redis_server import RedisServer

KEEP = 3
CHUNK = 8
MODEL = "m"
NAMES = st.sampled_from([f"request {n}" for n in range(12)])
REQUESTS = st.one_of(
    st.tuples(st.just("append"), st.one_of(st.none(), NAMES, NAMES)),
    st.tuples(st.just("answered"), NAMES),
    st.tuples(st.just("answered"), NAMES),
    st.tuples(st.sampled_from(["abort", "solution"]), st.none()),
    st.tuples(st.just("remember"), NAMES),
)
SIZES = st.integers(0, 3 * CHUNK)
SNAPSHOTS = st.one_of(
    st.tuples(st.just("append"), st.none()),
    st.tuples(st.just("append"), st.none()),
    st.tuples(st.just("snapshot"), SIZES),
    st.tuples(st.just("snapshot"), SIZES),
    st.tuples(st.sampled_from(["crash", "dropped"]), SIZES),
)


class Crash(Exception):
    """The service is killed here."""


@dataclass
class Rubbish:
    """A model in a store, and what is to be found of it in Redis."""

    store: RedisStore
    server: RedisServer
    prefix: str
    lease: Lease = field(init=False)
    sequence: int = 0

    def __post_init__(self) -> None:
        self.lease = self.store.create(MODEL, b"spec")

    def append(self, name: str | None) -> None:
        """Append a record, if it is new."""
        named = None if name is None else Idempotency(name, b"body")
        with suppress(RequestKnown):
            self.store.append(self.lease, self.sequence + 1, b"data", named, keep=KEEP)
            self.sequence += 1

    def answered(self, name: str) -> None:
        """Append a record, and the answer to its request."""
        self.append(name)
        self.remember(name)

    def abort(self, _: None) -> None:
        """Take the newest record back."""
        self.store.abort(self.lease, self.sequence)

    def remember(self, name: str) -> None:
        """Remember an answer, also to an unknown request."""
        self.store.remember(self.lease, name, b"answer")

    def snapshot(self, size: int) -> None:
        """Write a snapshot of the newest record."""
        self.store.save_snapshot(self.lease, self.sequence, bytes(size), 1)

    def crash(self, size: int) -> None:
        """Write a snapshot that a crash cuts off before its pointer is written."""
        self._cut_off("livesvm.service.crash.point", self._crash_in_snapshot, size)

    def dropped(self, size: int) -> None:
        """Write a snapshot that is cut off after its first chunk."""
        self._cut_off("livesvm.service.store.redis.split", self._first, size)

    def _cut_off(self, place: str, failing: Callable[..., object], size: int) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(place, failing)
            with pytest.raises(Crash):
                self.snapshot(size)
        self.lease = self.store.acquire(MODEL)

    @staticmethod
    def _crash_in_snapshot(name: str) -> None:
        if name == "in-snapshot":
            raise Crash

    @staticmethod
    def _first(data: bytes) -> Iterator[bytes]:
        yield data[:CHUNK]
        raise Crash

    def solution(self, _: None) -> None:
        """Write a solution."""
        self.store.save_solution(self.lease, Solution(self.sequence, b"solution"))

    def afresh(self, _: None) -> None:
        """Delete the model, which leaves nothing, and make it again."""
        self.store.delete(self.lease)
        assert self.keys() == set()
        self.lease, self.sequence = self.store.create(MODEL, b"spec"), 0

    def keys(self) -> set[str]:
        """Return what Redis holds of the model, by the last part of its name."""
        start = f"{{{self.prefix}}}:m:{MODEL}:"
        found: Any = self.server.client().keys(f"*{self.prefix}*:m:*")
        return {key.decode().removeprefix(start) for key in found}

    def check(self, last: str) -> None:
        """Check that every answer belongs to a request, every chunk to a snapshot or one that is being written."""
        client: Any = self.server.client()
        start = f"{{{self.prefix}}}:m:{MODEL}:"
        requests = set(client.hkeys(f"{start}requests"))
        assert set(client.hkeys(f"{start}answers")) <= requests
        assert set(client.zrange(f"{start}order", 0, -1)) == requests
        assert len(requests) <= KEEP
        pointers = [
            Pointer.decode(pointer, int(sequence)) for sequence, pointer in client.hgetall(f"{start}snapshots").items()
        ]
        assert len(pointers) <= KEPT_SNAPSHOTS
        whole = {f"chunk:{pointer.nonce}:{n}" for pointer in pointers for n in range(pointer.chunks)}
        writing = client.hgetall(f"{start}writing")
        unfinished = {f"chunk:{nonce.decode()}:{n}" for nonce, count in writing.items() for n in range(int(count))}
        held = {key for key in self.keys() if key.startswith("chunk:")}
        assert whole <= held <= whole | unfinished
        if last == "snapshot":
            assert writing == {}


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", CHUNK)


@pytest.mark.usefixtures("small_chunks")
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.one_of(st.lists(REQUESTS, min_size=5, max_size=30), st.lists(SNAPSHOTS, min_size=5, max_size=30)),
    ends=st.booleans(),
)
def test_nothing_is_left_that_nothing_leads_to(
    redis_server: RedisServer, steps: list[tuple[str, object]], ends: bool
) -> None:
    prefix = uuid.uuid4().hex
    with closing(RedisStore(redis_server.url, "me", prefix=prefix)) as store:
        rubbish = Rubbish(store, redis_server, prefix)
        try:
            for name, argument in steps:
                getattr(rubbish, name)(argument)
                rubbish.check(name)
            if ends:
                rubbish.afresh(None)
        finally:
            client: Any = redis_server.client()
            client.delete(*client.keys(f"*{prefix}*"))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("number", range(3))
def test_a_snapshot_that_lost_a_chunk_is_not_taken(
    number: int, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = uuid.uuid4().hex
    with closing(RedisStore(redis_server.url, "me", prefix=prefix)) as store:
        lease = store.create(MODEL, b"spec")
        store.save_snapshot(lease, 0, b"good", 0)
        store.append(lease, 1, b"data", None, keep=KEEP)
        client: Any = redis_server.client()
        earlier = set(client.keys(f"*{prefix}*:chunk:*"))

        def lose(name: str) -> None:
            fresh = sorted(set(client.keys(f"*{prefix}*:chunk:*")) - earlier)
            assert client.delete(fresh[number]) == 1

        monkeypatch.setattr("livesvm.service.crash.point", lose)
        with pytest.raises(StoreUnavailable, match="was lost"):
            store.save_snapshot(lease, 1, bytes(3 * CHUNK), 1)
        assert [snapshot.sequence for snapshot in store.snapshots(MODEL)] == [0]
        assert store.load_snapshot(MODEL, 0) == b"good"
