"""What a source promises its feed, held by a Redis Stream on a real server: every entry, in order, whoever died."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.feeds.sources.base import DeadLetter, Source, SourceError
from livesvm.service.feeds.sources.redis_stream import RedisStream
from livesvm.service.feeds.sources.spec import RedisStreamSpec
from tests.contract.redis_server import RedisServer

WAIT = 0.05
MOST = 100


class Scene:
    """A stream of the test's own, with whoever reads it."""

    def __init__(self, server: RedisServer, stack: ExitStack) -> None:
        self.server, self.stack = server, stack
        self.client = stack.enter_context(server.client())
        self.stream = f"stream-{os.urandom(4).hex()}"
        self.dead = f"{self.stream}:dead:load"

    def add(self, *numbers: int, **fields: Any) -> None:
        for number in numbers:
            self.client.xadd(self.stream, {"time": number, "y": number / 2} | fields, id=f"{number}-0")

    def source(self, consumer: str = "one", url: str | None = None, **settings: Any) -> Source:
        spec = RedisStreamSpec(stream=self.stream, **settings)
        opened = RedisStream(spec, "load", "time", url or self.server.url, consumer, 2.0)
        return self.stack.enter_context(closing(opened))

    def begun(self, *numbers: int) -> Source:
        """Return a source that has begun, once these are in its stream."""
        self.add(*numbers)
        source = self.source()
        source.begin(None, [])
        return source

    def pending(self) -> int:
        return int(self.client.xpending(self.stream, "livesvm:load")["pending"])


@pytest.fixture
def scene(redis_server: RedisServer) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(redis_server, stack)


def numbers(source: Source, taken: int | None, most: int = MOST) -> list[int]:
    return [entry.position[0] for entry in source.fetch(at(taken), most, WAIT)]


def at(number: int | None) -> tuple[int, int] | None:
    return None if number is None else (number, 0)


def positions(*found: int) -> list[tuple[int, int]]:
    return [(number, 0) for number in found]


def test_entries_come_in_order_once_they_are_there(scene: Scene) -> None:
    source = scene.source()
    scene.add(1, 2, note="")
    source.begin(None, [])
    first = source.fetch(None, MOST, WAIT)
    assert [entry.row for entry in first] == [
        {"time": "1", "y": 0.5, "note": None},
        {"time": "2", "y": 1.0, "note": None},
    ]
    assert numbers(source, 1) == [2]  # again, as it was not settled
    source.settle(positions(1, 2), [])
    assert scene.pending() == 0
    assert numbers(source, 2) == []
    scene.add(3, 4, 5)
    assert source.backlog(at(2)).entries == 3
    assert numbers(source, 2, most=2) == [3, 4]
    source.settle(positions(3, 4), [])
    assert source.backlog(at(4)).entries == 1


def test_nothing_is_behind_the_end_whatever_the_server_counts(scene: Scene) -> None:
    source = scene.source()
    scene.add(1, 2, 3)
    source.begin(None, [])
    assert numbers(source, None) == [1, 2, 3]
    source.settle(positions(1, 2, 3), [])
    if "lag" in scene.client.xinfo_groups(scene.stream)[0]:  # Redis counts it from 7 on
        scene.client.execute_command("XGROUP", "SETID", scene.stream, "livesvm:load", "3-0", "ENTRIESREAD", 1)
        assert scene.client.xinfo_groups(scene.stream)[0]["lag"] == 2
    assert source.backlog(at(3)).entries == 0


def test_what_a_dead_consumer_left_comes_first(scene: Scene) -> None:
    scene.add(1, 2, 3)
    dead = scene.source("dead")
    dead.begin(None, [])
    assert numbers(dead, None, most=2) == [1, 2]
    one = scene.source()
    one.begin(None, [])
    assert numbers(one, None) == [1, 2]
    one.settle(positions(1, 2), [])
    assert numbers(one, 2) == [3]


def test_none_is_passed_over_when_two_read_at_once(scene: Scene) -> None:
    scene.add(1)
    old, new = scene.source("old"), scene.source("new")
    old.begin(None, [])
    new.begin(None, [])
    assert numbers(old, None) == [1]  # it does not know yet that it lost the feed
    scene.add(2)
    assert numbers(new, None) == [1]
    assert numbers(new, 1) == [2]
    new.settle(positions(1, 2), [])
    scene.add(3, 4)
    assert scene.client.xreadgroup("livesvm:load", "old", {scene.stream: ">"}, count=1)
    assert numbers(new, 2) == [3]
    assert numbers(new, 3) == [4]


def test_what_was_taken_when_a_service_died_is_settled(scene: Scene) -> None:
    scene.add(1, 2, 3)
    dead = scene.source("dead")
    dead.begin(None, [])
    assert numbers(dead, None) == [1, 2, 3]
    one = scene.source()
    one.begin(at(2), [DeadLetter((2, 0), "y", "must be a number")])
    assert scene.pending() == 1
    assert numbers(one, 2) == [3]
    ((_, letter),) = scene.client.xrange(scene.dead)
    meta = {b"_entry": b"2-0", b"_feed": b"load", b"_field": b"y", b"_reason": b"must be a number"}
    assert letter == meta | {b"time": b"2", b"y": b"1.0"}
    again = scene.source()
    again.begin(at(2), [DeadLetter((2, 0), "y", "must be a number")])
    again.settle(positions(2), [DeadLetter((2, 0), "y", "must be a number")])
    assert scene.client.xlen(scene.dead) == 1


def test_a_lost_group_is_made_again_where_the_feed_is(scene: Scene) -> None:
    source = scene.begun(1, 2, 3)
    assert numbers(source, None, most=2) == [1, 2]
    scene.client.xgroup_destroy(scene.stream, "livesvm:load")
    with pytest.raises(SourceError, match="NOGROUP"):
        source.fetch(at(2), MOST, WAIT)
    source.begin(at(2), [])
    assert numbers(source, 2) == [3]


def test_a_feed_of_a_name_that_was_used_before_begins_again(scene: Scene) -> None:
    before = scene.begun(1, 2)
    assert numbers(before, None) == [1, 2]
    before.settle(positions(1, 2), [])
    source = scene.begun()
    assert numbers(source, None) == [1, 2]
    source.forget()
    assert scene.client.xinfo_groups(scene.stream) == []
    late = scene.source(start="new")
    late.begin(None, [])
    scene.add(3)
    late.begin(None, [])
    assert numbers(late, None) == [3]


def test_a_stream_that_has_lost_entries_is_not_read(scene: Scene) -> None:
    source = scene.begun(5, 6)
    assert numbers(source, None) == [5, 6]
    scene.client.delete(scene.stream)
    source.begin(at(6), [])  # nothing says yet that it will begin again
    scene.add(2)
    with pytest.raises(SourceError, match="ends at 2-0, before 6-0"):
        source.backlog(at(6))
    with pytest.raises(SourceError, match="has lost"):
        source.begin(at(6), [])


def test_a_group_that_was_set_back_delivers_nothing_twice(scene: Scene) -> None:
    source = scene.begun(1, 2, 3)
    assert numbers(source, None) == [1, 2, 3]
    source.settle(positions(1, 2, 3), [])
    scene.client.xgroup_setid(scene.stream, "livesvm:load", "0")
    assert numbers(source, 3) == []
    assert scene.pending() == 0
    scene.add(4)
    assert numbers(source, 3) == [4]


def test_entries_that_were_removed_do_not_stop_the_others(scene: Scene) -> None:
    source = scene.begun(1, 2, 3)
    assert numbers(source, None, most=2) == [1, 2]
    scene.client.xdel(scene.stream, "2-0")
    assert numbers(source, None) == [1]
    assert numbers(source, 1) == [3]
    source.settle(positions(1, 3), [])
    assert scene.pending() == 0


def test_the_time_may_be_that_of_the_entry(scene: Scene) -> None:
    source = scene.source(times="entry")
    scene.client.xadd(scene.stream, {"y": 3}, id="1700000000500-7")
    source.begin(None, [])
    (entry,) = source.fetch(None, MOST, WAIT)
    assert entry == ((1_700_000_000_500, 7), {"y": 3.0, "time": 1_700_000_000.5}, None, False)


@pytest.mark.parametrize(
    "fields", [{b"y": b"\xff"}, {b"\xff": b"1"}, {b"y" * 200: b"1"}, {str(i): i for i in range(600)}]
)
def test_what_is_no_reading_is_reported(scene: Scene, fields: dict[Any, Any]) -> None:
    scene.client.xadd(scene.stream, fields)
    source = scene.begun()
    (entry,) = source.fetch(None, MOST, WAIT)
    assert entry.fault


def test_errors_name_the_stream_and_no_credentials(scene: Scene, tmp_path: Path) -> None:
    scene.client.set(scene.stream, "a string")
    with pytest.raises(SourceError, match=f"{scene.stream}.*WRONGTYPE"):
        scene.source().begin(None, [])
    with RedisServer(tmp_path) as guarded:
        with guarded.client() as client:
            client.config_set("requirepass", "right")
        for password in (":hunter2@", ""):
            url = guarded.url.replace("redis://", f"redis://{password}")
            with pytest.raises(SourceError) as found:
                scene.source(url=url).begin(None, [])
            assert "hunter2" not in str(found.value)
    with pytest.raises(SourceError, match="cannot be read") as away:
        scene.source(url=guarded.url.replace("redis://", "redis://:hunter2@")).begin(None, [])
    assert "hunter2" not in str(away.value)


def test_a_server_that_was_killed_is_read_again(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer(tmp_path))
        scene = Scene(server, stack)
        source = scene.begun(1, 2)
        assert numbers(source, None) == [1, 2]
        server.kill()
        with pytest.raises(SourceError):
            source.fetch(at(1), MOST, WAIT)
        server.start()
        assert numbers(source, 1) == [2]
