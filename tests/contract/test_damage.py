"""Every byte that belongs to a snapshot: damaged, it is noticed, and the model comes back whole from the older one."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from livesvm.service.history.journal import Source
from livesvm.service.history.recovery import Means, Recovered, recover
from livesvm.service.history.replay import Patience
from livesvm.service.models.state import ModelState
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.solve_scheduler import SolveScheduler
from livesvm.service.store.base import Lease, Store, StoreDamaged
from livesvm.service.store.redis import RedisStore
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.runtime.cached import cached_property
from tests.contract.redis_server import RedisServer
from tests.support.damage import RECORDS, SNAPSHOTS, SPEC, fill

Keep = Callable[[int, int], AbstractContextManager["Stored"]]
TURNS = SolveScheduler(1)
BULK = ("data", "chunk")
"""Parts whose bytes are alike to whoever reads them."""
EVERY = 16
"""How many bytes of such a part lie between two with which the model is brought back."""


@dataclass
class Stored:
    """A store, and the bytes of the newest snapshot in it, part by part, with a way to write each."""

    store: Store
    lease: Lease
    parts: dict[str, bytes]
    write: Callable[[str, bytes], object]

    @cached_property
    def source(self) -> Source:
        """What a model comes back from."""
        metrics = Metrics()
        return Source(self.store, Health(metrics), metrics)

    @contextmanager
    def damaged(self, part: str, place: int) -> Iterator[None]:
        """Flip one bit of one byte, then put it back."""
        data = self.parts[part]
        flipped = data[place] ^ 1 << place % 8
        self.write(part, data[:place] + bytes([flipped]) + data[place + 1 :])
        yield
        self.write(part, data)


@contextmanager
def in_sqlite(path: Path, rows: int, d: int) -> Iterator[Stored]:
    """Yield the parts of a row of the table: its blob and its checksum."""
    with (
        closing(SqliteStore(path / "store")) as store,
        closing(sqlite3.connect(path / "store", isolation_level=None)) as db,
    ):
        lease = fill(store, rows, d)
        db.execute("PRAGMA synchronous = OFF")
        where = f"WHERE model = 'm' AND sequence = {SNAPSHOTS[1]}"
        row = db.execute(f"SELECT data, sha256 FROM snapshots {where}").fetchone()

        def write(part: str, data: bytes) -> None:
            db.execute(f"UPDATE snapshots SET {part} = ? {where}", (data,))

        yield Stored(store, lease, dict(zip(("data", "sha256"), row, strict=True)), write)


@contextmanager
def in_redis(server: RedisServer, rows: int, d: int) -> Iterator[Stored]:
    """Yield the chunk, and the pointer to it."""
    prefix = uuid.uuid4().hex
    with closing(RedisStore(server.url, "me", prefix=prefix)) as store, closing(server.client()) as client:
        lease = fill(store, rows, d)
        snapshots, newest = f"{{{prefix}}}:m:m:snapshots", str(SNAPSHOTS[1])
        pointer: Any = client.hget(snapshots, newest)
        nonce = pointer.decode().split('"nonce": "')[1].split('"')[0]
        chunk = f"{{{prefix}}}:m:m:chunk:{nonce}:0"

        def write(part: str, data: bytes) -> None:
            if part == "pointer":
                client.hset(snapshots, newest, data)
            else:
                client.set(chunk, data)

        whole: Any = client.get(chunk)
        yield Stored(store, lease, {"pointer": pointer, "chunk": whole}, write)


@pytest.fixture(params=["sqlite", "redis"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keep]:
    """Keep a model whose updates have so many rows of so many features; Redis without its disk, as that is faster."""
    if request.param == "sqlite":
        yield lambda rows, d: in_sqlite(tmp_path, rows, d)
    else:
        with RedisServer(tmp_path, appendonly="no") as server:
            yield lambda rows, d: in_redis(server, rows, d)


def recovered(found: Stored) -> Recovered[ModelState]:
    """Return the model, as a start brings it back."""
    return recover(found.source, found.lease, SPEC, Means(16, TURNS, Patience.at_last(60)))


def check_noticed(found: Stored) -> None:
    with pytest.raises(StoreDamaged):
        found.store.load_snapshot("m", SNAPSHOTS[1])


def check_fall_back(found: Stored) -> None:
    """Check that the damage is reported, and every update is there."""
    back = recovered(found)
    assert (back.damaged_snapshots, back.snapshot_version, back.replayed) == (1, SNAPSHOTS[0], RECORDS - SNAPSHOTS[0])
    assert back.state.version == back.state.sequence == RECORDS
    check_noticed(found)


def test_every_single_byte(stored: Keep) -> None:
    with stored(2, 1) as found:
        for part, data in found.parts.items():
            for place in range(len(data)):
                with found.damaged(part, place):
                    check_noticed(found)
                    if part not in BULK or place % EVERY == 0:
                        check_fall_back(found)
        whole = recovered(found)
        assert (whole.damaged_snapshots, whole.snapshot_version, whole.replayed) == (0, SNAPSHOTS[1], 1)


def test_bytes_here_and_there_of_a_large_one(stored: Keep) -> None:
    with stored(100, 60) as found:
        rng = np.random.default_rng(1)
        for part, data in found.parts.items():
            for place in rng.choice(len(data), 20):
                with found.damaged(part, int(place)):
                    check_fall_back(found)


def test_a_damaged_pointer_does_not_stand_in_the_way_of_the_next_snapshot(redis_server: RedisServer) -> None:
    with closing(redis_server.client()) as client:
        before = set(client.scan_iter())
        with in_redis(redis_server, 2, 1) as found:
            store, lease = found.store, found.lease
            found.write("pointer", b"x" + found.parts["pointer"][1:])
            for sequence in (RECORDS + 1, RECORDS + 2):
                store.append(lease, sequence, b"", None, keep=1)
                store.save_snapshot(lease, sequence, b"whole", sequence)
                assert next(s.sequence for s in store.snapshots("m") if not s.is_damaged) == sequence
            assert [s.sequence for s in store.snapshots("m")] == [RECORDS + 2, RECORDS + 1]
            store.delete(lease)
        assert {key.rpartition(b":")[2] for key in set(client.scan_iter()) - before} == {
            b"schema",
            b"models",
            b"documents",
            b"epochs",
            b"changes",
        }
