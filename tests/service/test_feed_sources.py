"""Feeds that take their readings from a Redis Stream: once, whatever dies; what is refused is kept with its reason."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from livesvm.service.errors import OutOfTime
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.sources.base import Layout
from livesvm.service.feeds.sources.opening import open_source
from livesvm.service.feeds.sources.spec import RedisStreamSpec
from livesvm.service.feeds.spec import FeedSpec, spec_of
from livesvm.service.history.journal import Source
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.feed import HostedFeed
from livesvm.service.hosting.registry import Registry
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.solve_scheduler import SolveScheduler
from livesvm.service.settings import Settings
from livesvm.service.store.base import Store
from livesvm.service.store.redis import RedisStore
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.errors import InvalidInput, NotOptimal
from tests.contract.conftest import redis_server
from tests.contract.mosquitto import Mosquitto
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess
from tests.support.feeds import FEED, rows_of, series
from tests.support.waiting import until

__all__ = ["redis_server"]

GAP = 1e-8
PASSWORD = "hunter2"


class Stream:
    """A stream of the test's own and its writer."""

    def __init__(self, server: RedisServer) -> None:
        self.client: Any = server.client()
        self.name = f"meters-{os.urandom(4).hex()}"
        self.rows = rows_of(series(1000))
        self.sent = 0

    def send(self, count: int) -> None:
        """Send the next readings."""
        for row in self.rows[self.sent : self.sent + count]:
            self.client.xadd(self.name, row)
        self.sent += count

    def dead(self) -> list[dict[bytes, bytes]]:
        return [letter for _, letter in self.client.xrange(f"{self.name}:dead:load")]

    def pending(self) -> int:
        return int(self.client.xpending(self.name, "livesvm:load")["pending"])

    def spec(self, **settings: Any) -> FeedSpec:
        return spec_of({**FEED, "source": {"connection": "plant", "stream": self.name, **settings}})


@pytest.fixture
def stream(redis_server: RedisServer) -> Iterator[Stream]:
    made = Stream(redis_server)
    yield made
    made.client.close()


@contextmanager
def feeds_of(
    place: Path, server: RedisServer | Mosquitto, store: Store | None = None, holder: str = "me"
) -> Iterator[Registry]:
    """Yield the feeds of one service in this process."""
    place.mkdir(exist_ok=True)
    settings = Settings(data_dir=place, sources=f"plant={server.url}")
    metrics = Metrics()
    held = SqliteStore(place / "store") if store is None else store
    around = Context(settings, Source(held, Health(metrics), metrics), SolveScheduler(1), holder=holder)
    registry = Registry(around)
    feeds = registry.feeds
    metrics.watch_feeds(feeds, 9)
    try:
        held.ping()
        registry.restore()
        yield registry
    finally:
        registry.stop()
        held.close()


def at(feed: HostedFeed, position: int) -> None:
    """Wait until so many readings are taken, and their source knows."""
    until(lambda: feed.view.position == position)


def same(feed: HostedFeed, count: int) -> None:
    """Check that the feed forecasts as after so many readings, however the calls were cut."""
    one = Forecaster(feed.spec)
    one.observe(rows_of(series(count)))
    ours, theirs = ([forecast.experts[0] for forecast in made] for made in (one.latest, feed.view.latest))
    assert theirs == pytest.approx(ours, abs=1e-4)  # of the models; weights go by forecasts as they were made
    assert feed.certificate().result()["relative_gap"] <= GAP


def test_readings_flow_and_what_is_refused_is_kept(tmp_path: Path, redis_server: RedisServer, stream: Stream) -> None:
    with feeds_of(tmp_path, redis_server) as registry:
        feed = registry.feeds.create("load", stream.spec(count=30))
        stream.send(40)
        stream.client.xadd(stream.name, {"time": "2030-01-01T00:00", "y": "high"})
        stream.client.xadd(stream.name, {"time": "2024-01-01T00:00", "y": 999})
        stream.client.xadd(stream.name, {"y": b"\xff"})
        stream.client.xadd(stream.name, {"time": "2099-01-01T00:00", "y": 5})
        stream.send(40)
        stream.client.xadd(stream.name, {"y": 1})
        at(feed, 80)
        until(lambda: feed.progress.refused == 5)
        until(lambda: stream.pending() == 0)
        same(feed, 80)
        letters = [(letter[b"_field"], letter[b"_reason"].decode()) for letter in stream.dead()]
        field, reason = letters.pop(3)
        assert (field, "days ahead of the service's clock" in reason) == (b"time", True)
        assert letters == [
            (b"y", "must be a number, not 'high'"),
            (b"time", "this time came before with other values; late='correct' takes such rows"),
            (b"", "the field b'y' is no UTF-8"),
            (b"time", "every row needs its time"),
        ]
        assert {letter[b"_feed"] for letter in stream.dead()} == {b"load"}
        kinds = [event for event in feed.view.events if event["kind"] == "dead-letters"]
        assert sum(event["entries"] for event in kinds) == 5
        sample = registry.feeds.samples(9)[0].source
        assert sample is not None
        assert (sample.is_up, sample.refused) == (True, 5)
        assert registry.feeds.troubles() == []
        registry.feeds.delete("load").result()
        registry.feeds.forget("load")
        assert stream.client.xinfo_groups(stream.name) == []


def test_a_pause_lasts_over_restarts(tmp_path: Path, redis_server: RedisServer, stream: Stream) -> None:
    with feeds_of(tmp_path, redis_server) as registry:
        feed = registry.feeds.create("load", stream.spec())
        stream.send(10)
        at(feed, 10)
        feed.pause(True).result()
        time.sleep(0.6)  # what was being fetched is taken
        stream.send(10)
    with feeds_of(tmp_path, redis_server) as registry:
        feed = registry.feeds.get("load")
        until(lambda: feed.flow is not None and feed.flow.backlog is not None and feed.flow.backlog.entries == 10)
        assert (feed.view.position, feed.progress.paused) == (10, True)
        feed.observe([{"time": "2024-01-01T10:00", "y": 5.0}], None).result()
        feed.pause(False).result()
        at(feed, 20)  # one of the ten had been sent already
        assert feed.progress.refused == 1


def test_another_service_takes_the_stream_over(tmp_path: Path, redis_server: RedisServer, stream: Stream) -> None:
    prefix = os.urandom(4).hex()
    with ExitStack() as stack:
        stores = [RedisStore(redis_server.url, name, prefix=prefix, lease_seconds=0.2) for name in ("one", "two")]
        one = stack.enter_context(feeds_of(tmp_path / "one", redis_server, stores[0], "one"))
        before = one.feeds.create("load", stream.spec(count=10))
        stream.send(70)
        at(before, 70)
        two = stack.enter_context(feeds_of(tmp_path / "two", redis_server, stores[1], "two"))
        assert two.feeds.states() == {"held": 1}
        time.sleep(0.3)  # the first is not pinged
        two.take_over()
        until(lambda: two.feeds.states() == {"live": 1})
        after = two.feeds.get("load")
        stream.send(50)
        at(after, 120)
        same(after, 120)
        until(lambda: stream.pending() == 0)
        assert before.view.position == 70


def test_a_server_that_was_killed_is_read_again(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server, feeds_of(tmp_path / "data", server) as registry:
        stream = Stream(server)
        feed = registry.feeds.create("load", stream.spec())
        stream.send(30)
        at(feed, 30)
        server.kill()
        until(lambda: bool(registry.feeds.troubles()))
        assert "the source of feed load: stream" in registry.feeds.troubles()[0]
        server.start()
        stream.send(40)
        at(feed, 70)
        until(lambda: not registry.feeds.troubles())
        same(feed, 70)


@pytest.mark.parametrize("error", [NotOptimal("no optimum"), OutOfTime("its time is over"), IndexError()])
def test_an_entry_that_cannot_be_learnt_does_not_stop_the_others(
    tmp_path: Path, redis_server: RedisServer, stream: Stream, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    take: Callable[..., Any] = Forecaster.take

    def failing(self: Forecaster, plan: Any, *given: Any, **how: Any) -> Any:
        alone = plan.accepted == 1 and isinstance(error, OutOfTime)
        if any(reading.slot == 65 and not reading.held for reading in plan.readings) and not alone:
            raise error
        return take(self, plan, *given, **how)

    monkeypatch.setattr(Forecaster, "take", failing)
    with feeds_of(tmp_path, redis_server) as registry:
        feed = registry.feeds.create("load", stream.spec())
        stream.send(80)
        if isinstance(error, OutOfTime):
            at(feed, 80)
            assert feed.progress.refused == 0
            return
        until(lambda: feed.progress.refused > 0 and len(stream.dead()) > 0)
        assert [letter[b"_reason"] for letter in stream.dead()] == [
            str(error).encode() or b"failed in an unforeseen way, IndexError"
        ]
        at(feed, 79)


def test_only_connections_of_the_service_are_named(tmp_path: Path, redis_server: RedisServer) -> None:
    spec = spec_of({**FEED, "source": {"connection": "other", "stream": "s"}})
    with feeds_of(tmp_path, redis_server) as registry, pytest.raises(InvalidInput, match="no connection 'other'"):
        registry.feeds.create("load", spec)


@pytest.mark.parametrize(
    "source",
    [{}, {"stream": ""}, {"stream": "s", "url": "redis://x"}, {"stream": "s", "kind": "kafka"}, {"stream": "a b"},
     {"stream": "s", "count": 0}, {"stream": "s", "start": "5-0"}, {"stream": "s", "connection": "a/b"}, "s"],
)  # fmt: skip
def test_sources_that_cannot_be(source: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        spec_of({**FEED, "source": source})


@pytest.mark.parametrize("connection", ["plant", "store"])
@pytest.mark.parametrize(
    ("named", "field"),
    [
        ({"stream": "meters", "dead_letters": "{livesvm}:m:m:log"}, "source.dead_letters"),
        ({"stream": "{livesvm}:m:m:log"}, "source.stream"),
        ({"stream": "{livesvm}"}, "source.stream"),
    ],
)
def test_a_source_names_no_key_of_the_service(
    connection: str, named: dict[str, str], field: str, tmp_path: Path, redis_server: RedisServer
) -> None:
    source = RedisStreamSpec.model_validate({"connection": connection, **named})
    spec = spec_of({**FEED, "source": source.model_dump()})
    with feeds_of(tmp_path, redis_server) as registry:
        with pytest.raises(InvalidInput, match=r"begin with {livesvm}: belong to this service's models") as refused:
            registry.feeds.create("load", spec)
        assert refused.value.field == field
        with pytest.raises(InvalidInput, match="name another key"):  # as one is that was stored before
            open_source(source, "load", Layout(("y",)), registry._context.settings, "me")
        assert not redis_server.client().exists("{livesvm}:m:m:log")


def _fleet_of_a_stream(http: httpx.Client, client: Any) -> None:
    source = {"connection": "plant", "stream": "fleet", "count": 30}
    fleet = {"id": "meters", **FEED, "series": "meter", "source": source}
    assert http.post("/fleets", json=fleet).status_code == 201
    sent = [{"meter": name, **row} for row in rows_of(series(20)) for name in ("17", "b")]
    bad = {"meter": "b", "time": sent[0]["time"], "y": "high"}
    for row in [*sent[:20], bad, *sent[:4], *sent[20:], {"time": sent[0]["time"], "y": 1.0}]:
        client.xadd("fleet", row)

    def positions() -> list[int]:
        return [one["position"] for one in http.get("/fleets/meters/series").json()["series"]]

    until(lambda: positions() == [20, 20])
    until(lambda: http.get("/fleets/meters").json()["source"]["refused"] == 2)
    found = http.get("/fleets/meters").json()["source"]
    assert found["taken"] == client.xinfo_stream("fleet")["last-generated-id"].decode()
    until(lambda: client.xlen("fleet:dead:meters") == 2)
    letters = [fields[b"_field"] for _, fields in client.xrange("fleet:dead:meters")]
    assert letters == [b"y", b"meter"]
    assert http.post("/fleets/meters/pause").json()["source"]["state"] == "paused"
    assert http.delete("/fleets/meters").status_code == 204
    assert client.xinfo_groups("fleet") == []


def test_sources_over_rest_show_no_credentials(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        with server.client() as open_:
            open_.config_set("requirepass", PASSWORD)
        client: Any = redis.Redis(port=server.port, password=PASSWORD)
        url = server.url.replace("redis://", f"redis://:{PASSWORD}@")
        with ServiceProcess(tmp_path / "data", sources=f"plant={url}") as service, service.http() as http:
            source = {"connection": "plant", "stream": "meters"}
            made = http.post("/feeds", json={"id": "load", **FEED, "source": source})
            assert made.status_code == 201, made.text
            for row in rows_of(series(70)):
                client.xadd("meters", row)
            until(lambda: reported(http)["position"] == 70)
            until(lambda: reported(http)["source"]["backlog"] == 0)
            _fleet_of_a_stream(http, client)
            found = reported(http)["source"]
            assert found.pop("newest_at") is not None
            assert found.pop("taken") == client.xinfo_stream("meters")["last-generated-id"].decode()
            assert found == {
                "kind": "redis-stream",
                "connection": "plant",
                "stream": "meters",
                "group": "livesvm:load",
                "topic": None,
                "client_id": None,
                "dead_letters": "meters:dead:load",
                "state": "reading",
                "fault": None,
                "backlog": 0,
                "backlog_at_least": False,
                "refused": 0,
            }
            assert http.post("/feeds/load/pause").json()["source"]["state"] == "paused"
            assert http.post("/feeds/load/resume").json()["source"]["state"] == "reading"
            unknown = http.post("/feeds", json={"id": "x", **FEED, "source": source | {"connection": "nowhere"}})
            assert (unknown.status_code, unknown.json()["field"]) == (422, "source.connection")
            client.set("taken", 1)
            http.post("/feeds", json={"id": "x", **FEED, "source": source | {"stream": "taken"}}).raise_for_status()
            until(lambda: http.get("/feeds/x").json()["source"]["state"] == "failing")
            assert "WRONGTYPE" in http.get("/feeds/x").json()["source"]["fault"]
            assert "the source of feed x" in http.get("/health/ready").text
            http.post("/feeds", json={"id": "none", **FEED}).raise_for_status()
            assert http.post("/feeds/none/pause").json()["type"].endswith("no-source")
            shown = http.get("/metrics").text
            assert 'livesvm_feed_source_up{feed="x"} 0.0' in shown
            assert 'livesvm_feed_source_backlog{feed="load"} 0.0' in shown
            everything = [
                http.get(path).text for path in ("/feeds", "/feeds/load", "/feeds/x", "/health/ready", "/metrics")
            ]
        client.close()
        everything += [service.errors, service.said]
        assert not any(PASSWORD in text for text in everything)


def reported(http: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = http.get("/feeds/load").json()
    return found
