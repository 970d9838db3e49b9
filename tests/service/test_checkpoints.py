"""When snapshots are written: as often as asked, no oftener, and again where one failed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.service.history.checkpoints import LEAST_BYTES, Checkpoints, Due
from livesvm.service.history.journal import Journal
from livesvm.service.history.recovery import Recovered
from livesvm.service.models.state import ModelState
from livesvm.service.store.base import Fenced, Lease, StoreUnavailable
from tests.support.live_models import FailingStore, alive, batch, looked_after
from tests.support.waiting import until

MEGABYTE = 2**20
DUE = Due(updates=5, seconds=60.0, replay_seconds=10.0, solution_seconds=1e9, worth_seconds=0.0, worth_at_rest=0.0)


@dataclass
class Clock:
    """A monotonic clock that is moved by hand."""

    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Shelf:
    """A journal that notes when a snapshot is asked of it, and may refuse it."""

    clock: Clock
    lease: Lease = field(default_factory=lambda: Lease("m", 1, "me"))
    asked: list[float] = field(default_factory=list)
    is_away: bool = False
    fenced: bool = False

    def settle(self) -> None:
        """Wait until no checkpoint is owed."""

    def save_snapshot(self, sequence: int, data: bytes, version: int, summary: bytes) -> None:
        self.asked.append(self.clock.now)
        if self.fenced:
            raise Fenced("taken over")
        if self.is_away:
            raise StoreUnavailable("away")


@dataclass
class State:
    """A model of which only its place and the size of its snapshot matter."""

    version: int
    size: int

    @property
    def sequence(self) -> int:
        return self.version

    def encode(self) -> bytes:
        return bytes(self.size)


@dataclass
class Expected:
    """What a snapshot is due for, as the settings say it: counted from the last one, or the last try."""

    version: int
    size: int
    since: float | None = None
    replay: float = 0.0
    logged: int = 0

    def is_due(self, now: float, version: int) -> bool:
        return (
            version - self.version >= DUE.updates
            or (self.since is not None and now >= self.since + DUE.seconds)
            or self.replay >= DUE.replay_seconds
            or self.logged >= max(LEAST_BYTES, self.size)
        )


CHANGES = st.tuples(st.just("change"), st.sampled_from([0.0, 1.0, 4.0, 11.0]), st.sampled_from([10, MEGABYTE // 2]))
PAUSES = st.tuples(st.just("pause"), st.sampled_from([1.0, 29.0, 60.0]), st.just(0))
STORE = st.tuples(st.sampled_from(["away", "back", "fenced"]), st.just(0.0), st.just(0))


@given(
    st.lists(st.one_of(CHANGES, CHANGES, PAUSES, STORE), max_size=40),
    st.sampled_from([10, 3 * MEGABYTE // 2]),
    st.booleans(),
)
def test_a_snapshot_is_asked_for_when_it_is_due_and_at_no_other_time(
    steps: list[tuple[str, float, int]], size: int, is_restarted: bool
) -> None:
    """After every step the writer rests; what has failed is due again once it is as old as a change may be."""
    clock = Clock()
    shelf = Shelf(clock)
    state = State(9 if is_restarted else 7, size)
    log_bytes = 100 if is_restarted else 0
    expected = Expected(7, 0, clock.now if is_restarted else None, 2.0 * is_restarted, log_bytes)
    found = Recovered(cast(ModelState, state), 7, 2, 0, 2.0 * is_restarted, 0, log_bytes)
    asked: list[float] = []
    with patch("livesvm.service.history.checkpoints.time", clock):
        checkpoints = Checkpoints(cast(Journal, shelf), DUE, found)
        for kind, seconds, logged in steps:
            shelf.is_away = kind == "away" or (shelf.is_away and kind != "back")
            shelf.fenced = shelf.fenced or kind == "fenced"
            if kind == "pause":
                clock.now += seconds
            if kind == "change":
                state.version += 1
                checkpoints.record_change(seconds, logged)
                expected.since = clock.now if expected.since is None else expected.since
                expected.replay += seconds
                expected.logged += logged
            if expected.is_due(clock.now, state.version):
                asked.append(clock.now)
                failed = shelf.is_away or shelf.fenced
                again = clock.now if failed and not shelf.fenced else None
                expected = Expected(state.version, expected.size if failed else size, again)
            if checkpoints.is_due(state.version, checkpoints.deadline()):
                checkpoints.save_quietly(cast(ModelState, state), b"")
            assert shelf.asked == asked
            assert checkpoints.has_changes == (expected.since is not None)
            assert checkpoints.deadline() == (math.inf if expected.since is None else expected.since + DUE.seconds)


def test_time_alone_asks_for_no_snapshot_that_costs_more_than_solving_again() -> None:
    clock = Clock()
    shelf = Shelf(clock)
    state = cast(ModelState, State(1, 10))
    due = replace(DUE, worth_seconds=0.5, worth_at_rest=0.2)
    with patch("livesvm.service.history.checkpoints.time", clock):
        checkpoints = Checkpoints(cast(Journal, shelf), due, Recovered(state, 1))
        checkpoints.record_change(0.1, 10)
        assert checkpoints.deadline() == clock.now + due.seconds  # there is none yet
        checkpoints.save(state, b"")
        for seconds, is_worthwhile in [(0.1, False), (0.2, True)]:
            checkpoints.record_change(seconds, 10)
            clock.now += 2 * due.seconds
            found = checkpoints.is_worthwhile, checkpoints.deadline(), checkpoints.is_due(1, checkpoints.deadline())
            assert found == (is_worthwhile, math.inf, False)
        checkpoints.record_change(0.3, 10)
        assert (checkpoints.is_worthwhile, checkpoints.is_due(1, checkpoints.deadline())) == (True, True)
        shelf.is_away = True
        checkpoints.save_quietly(state, b"")
        assert (checkpoints.is_worthwhile, checkpoints.deadline()) == (True, clock.now + due.seconds)


class CountingStore(FailingStore):
    """Counts the snapshots that are asked of it."""

    asked: int = 0

    def save_snapshot(self, *arguments: Any) -> None:
        self.asked += 1
        super().save_snapshot(*arguments)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CountingStore]:
    with closing(CountingStore(tmp_path / "store")) as opened:
        yield opened


def test_a_snapshot_that_failed_is_written_once_the_store_is_back_whether_or_not_anything_comes(
    store: CountingStore,
) -> None:
    live = alive(store, store.create("m", b""), snapshot_seconds=0.05)
    store.failing = "save_snapshot"
    live.update(batch(0), None).result()
    until(lambda: looked_after(live) and store.asked >= 3)
    assert store.snapshots("m") == []
    store.failing = ""
    until(lambda: looked_after(live) and len(store.snapshots("m")) == 1)
    asked = store.asked
    live.stop()
    assert store.asked == asked  # the newest version is in it


def test_one_snapshot_for_so_many_updates(store: CountingStore) -> None:
    live = alive(store, store.create("m", b""), snapshot_updates=3)
    for seed in range(10):
        live.update(batch(seed, 2), None).result()
    live.certificate().result()  # after the rest that follows the last update
    assert [snapshot.version for snapshot in store.snapshots("m")] == [9, 6]
    assert store.asked == 3
    live.stop()
    assert [snapshot.version for snapshot in store.snapshots("m")] == [10, 9]
