"""Feeds and fleets that take their readings from an MQTT broker: each once, whatever comes again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from paho.mqtt.client import Client

from livesvm.service.access.brokers import parse_broker
from livesvm.service.feeds.sources.base import DeadLetter, Position, SourceEntry, SourceError
from livesvm.service.feeds.sources.mqtt import MqttSource
from livesvm.service.feeds.sources.spec import MqttSpec
from livesvm.service.feeds.spec import FeedSpec, spec_of
from tests.contract.mosquitto import Listener, Mosquitto, client_of, needs_mosquitto, publish
from tests.documents import LOCAL, blocks
from tests.service.process import ServiceProcess
from tests.service.test_feed_sources import PASSWORD, at, feeds_of, same
from tests.support import elsewhere
from tests.support.feeds import FEED, rows_of, series
from tests.support.waiting import until

pytestmark = needs_mosquitto


class Meter:
    """Publishes readings to a topic of the test's own."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.topic = f"meters/{os.urandom(4).hex()}"
        self.rows = rows_of(series(200))
        self.sent = 0

    def send(self, count: int) -> None:
        """Publish the next readings."""
        self.say(*map(json.dumps, self.rows[self.sent : self.sent + count]))
        self.sent += count

    def say(self, *payloads: str | bytes) -> None:
        publish(self.client, self.topic, *payloads)

    def spec(self, **settings: Any) -> FeedSpec:
        return spec_of({**FEED, "source": {"mqtt": "plant", "topic": self.topic, **settings}})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as server:
        yield server


@pytest.fixture
def meter(broker: Mosquitto) -> Iterator[Meter]:
    with client_of(broker) as client:
        yield Meter(client)


def test_what_comes_again_has_no_second_effect(
    tmp_path: Path, broker: Mosquitto, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More comes again than the window holds, so that times alone would not tell."""
    settle, fetch = MqttSource.settle, MqttSource.fetch
    coming = [103, 93, 93]

    def whole(self: MqttSource, taken: Position | None, most: int, seconds: float) -> list[SourceEntry]:
        if coming:
            until(lambda: len(self._held) == coming[-1])
        return fetch(self, taken, most, seconds)

    def losing(self: MqttSource, entries: Sequence[Position], dead: Sequence[DeadLetter]) -> None:
        if coming and coming.pop() < 100:
            if len(coming) == 1:
                meter.send(10)  # which come with the others that come again
            raise SourceError("the connection is lost before anything is acknowledged")
        settle(self, entries, dead)

    letters = Listener(meter.client, "livesvm/dead/load")
    with feeds_of(tmp_path, broker) as registry:
        feed = registry.feeds.create("load", meter.spec(count=100))
        until(lambda: feed.flow is not None and feed.flow.backlog is not None)
    meter.send(40)
    meter.say(json.dumps({"time": "2030-01-01T00:00", "y": "high"}), b"\xff", "3.5")
    meter.send(50)
    monkeypatch.setattr(MqttSource, "settle", losing)
    monkeypatch.setattr(MqttSource, "fetch", whole)
    with feeds_of(tmp_path, broker) as registry:
        feed = registry.feeds.get("load")
        at(feed, 100)
        until(lambda: len(letters.messages) == 3)
        assert (feed.view.rows, feed.progress.refused, feed.progress.taken) == (100, 3, None)
        same(feed, 100)
        until(lambda: feed.flow is not None and feed.flow.backlog is not None and feed.flow.backlog.entries == 0)
        reasons = [json.loads(letter.payload)["reason"] for letter in letters.messages]
        assert reasons == ["must be a number, not 'high'", "is no UTF-8", "is no object of columns"]
        sample = registry.feeds.samples(9)[0].source
        assert sample is not None
        assert (sample.is_up, sample.refused, sample.backlog) == (True, 3, 0)
        assert sample.came_at == pytest.approx(time.time(), abs=20)


def test_readings_wait_at_the_broker_while_the_service_is_away(tmp_path: Path, broker: Mosquitto, meter: Meter) -> None:
    with feeds_of(tmp_path, broker) as registry:
        feed = registry.feeds.create("load", meter.spec(count=20, payload="csv"))
        until(lambda: feed.flow is not None and feed.flow.backlog is not None)
        meter.say(*(f"{row['time']},{row['y']}" for row in meter.rows[:10]))
        at(feed, 10)
    meter.say(*(f"{row['time']},{row['y']}" for row in meter.rows[10:70]))
    with feeds_of(tmp_path, broker) as registry:
        feed = registry.feeds.get("load")
        at(feed, 70)
        same(feed, 70)
        assert feed.view.rows == 70
        assert feed.flow is not None
        assert feed.flow.forgotten == 0
        spec = feed.spec
    assert isinstance(spec.source, MqttSpec)
    MqttSource(spec.source, "load", spec.layout, parse_broker(broker.url)).forget()  # as a broker that lost its disk
    with feeds_of(tmp_path, broker) as registry:
        feed = registry.feeds.get("load")
        until(lambda: feed.flow is not None and feed.flow.forgotten == 1)
        assert feed.flow is not None
        assert feed.flow.sample(0).forgotten == 1
        registry.feeds.delete("load").result()
        registry.feeds.forget("load")
    meter.say("x")
    with feeds_of(tmp_path, broker) as registry:  # the session went with the feed
        feed = registry.feeds.create("load", meter.spec(count=20, payload="csv"))
        until(lambda: feed.flow is not None and feed.flow.backlog is not None)
        meter.say(f"{meter.rows[0]['time']},1")
        at(feed, 1)
        assert feed.progress.refused == 0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, broker: Mosquitto) -> Iterator[ServiceProcess]:
    """A service that died with the readings of a fleet learnt, and the fleet not knowing, and was started again.

    Where models live elsewhere, processes die at the point that are not the service: there it does not.
    """
    sources = f"plant={broker.url}".replace("mqtt://", f"mqtt://me:{PASSWORD}@")
    source = {"mqtt": "plant", "topic": "home/+/load", "payload": "number", "time": "arrival", "series": 2}
    place = tmp_path_factory.mktemp("service")
    dies = elsewhere.ACTORS is None
    with ServiceProcess(place, sources=sources, crash_at="before-answer:1" if dies else "") as running:
        with running.http() as http:
            assert http.post("/fleets", json={"id": "home", **FEED, "source": source}).status_code == 201
            until(lambda: reported(http, "fleets/home")["backlog"] == 0)
        with client_of(broker) as client:
            publish(client, "home/b/load", "4.5")
        if dies:
            running.wait()
            running.settings.pop("crash_at")
            running.start()
        yield running


@pytest.fixture
def http(service: ServiceProcess) -> Iterator[httpx.Client]:
    with service.http() as client:
        yield client


def test_a_fleet_of_numbers_that_arrive_survives_a_crash(http: httpx.Client, meter: Meter) -> None:
    """What comes again has another time of arrival than before."""
    publish(meter.client, "home/17/load", "x", "3.5")
    until(lambda: reported(http, "fleets/home")["refused"] == 1)
    until(lambda: reported(http, "fleets/home")["backlog"] == 0)
    until(lambda: len(http.get("/fleets/home/series").json()["series"]) == 2)
    found = http.get("/fleets/home/series").json()["series"]
    assert [(one["series"], one["position"]) for one in found] == [("17", 1), ("b", 1)]
    shown = http.get("/metrics").text
    assert 'livesvm_fleet_source_up{fleet="home"} 1.0' in shown
    assert 'livesvm_fleet_source_backlog{fleet="home"} 0.0' in shown
    assert 'livesvm_fleet_dead_letters_total{fleet="home"} 1.0' in shown
    assert 'livesvm_fleet_source_newest_timestamp_seconds{fleet="home"}' in shown


def test_a_source_is_described_without_credentials(service: ServiceProcess, http: httpx.Client) -> None:
    http.post(
        "/feeds", json={"id": "load", **FEED, "source": {"mqtt": "plant", "topic": "meters/17"}}
    ).raise_for_status()
    until(lambda: reported(http, "feeds/load")["backlog"] == 0)
    found = reported(http, "feeds/load")
    assert found.pop("client_id").startswith("livesvm-load-")
    assert {name: value for name, value in found.items() if value} == {
        "kind": "mqtt",
        "connection": "plant",
        "topic": "meters/17",
        "dead_letters": "livesvm/dead/load",
        "state": "reading",
    }
    everything = [http.get(path).text for path in ("/feeds/load", "/fleets/home", "/health/ready", "/metrics")]
    assert not any(PASSWORD in text for text in [*everything, service.errors, service.said])


def test_the_page_runs_as_shown(service: ServiceProcess, broker: Mosquitto, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in blocks("docs/howto/mqtt.md", "python"):
        block = block.replace(LOCAL, service.url).replace("port=1883", f"port={broker.port}")
        exec(compile(block, "docs/howto/mqtt.md", "exec"), names)
    assert capsys.readouterr().out.count("'step': 1") == 2


def test_a_source_that_cannot_be_is_refused_by_its_field(http: httpx.Client) -> None:
    good = {"mqtt": "plant", "topic": "meters/17"}
    level = good | {"topic": "meters/+/load", "series": 2}
    for kind, source, field, reason in [
        ("feeds", good | {"topic": "meters/+"}, "source.topic", "a feed is one series"),
        ("feeds", good | {"topic": "meters/a+"}, "source.topic", "whole levels"),
        ("feeds", good | {"topic": "#/a"}, "source.topic", "at its end"),
        ("feeds", good | {"topic": "$share/a/b"}, "source.topic", "mix the order"),
        ("feeds", good | {"qos": 2}, "source.qos", "loses messages in a kill"),
        ("feeds", good | {"payload": "number"}, "source.time", "say 'arrival'"),
        ("feeds", good | {"series": "meter"}, "source.series", "a feed is one series"),
        ("feeds", good | {"dead_letters": "a/#"}, "source.dead_letters", "is one topic"),
        ("feeds", good | {"dead_letters": "meters/17"}, "source.dead_letters", "among the topics that are read"),
        ("feeds", good | {"payload": "csv", "columns": ["time", "x"]}, "source.columns", "do not have 'y'"),
        ("feeds", good | {"columns": ["time", "y"]}, "source.columns", "go with payload 'csv'"),
        ("feeds", good | {"mqtt": "nowhere"}, "source.mqtt", "no connection 'nowhere'"),
        ("feeds", good | {"stream": "meters"}, "source.stream", "Extra inputs"),
        ("feeds", {"connection": "plant", "stream": "meters"}, "source.connection", "is an MQTT broker, not Redis"),
        ("fleets", level | {"series": 1}, "source.series", "is no + that names the series"),
        ("fleets", level | {"series": 4}, "source.series", "is no + that names the series"),
        ("fleets", level | {"payload": "number", "time": "arrival", "series": None}, "source.series", "which level"),
        ("fleets", level | {"topic": "#", "series": 2}, "source.dead_letters", "among the topics that are read"),
    ]:
        answer = http.post(f"/{kind}", json={"id": "bad", **FEED, "source": source})
        problem = answer.json()
        assert (answer.status_code, problem["field"]) == (422, field), (source, problem)
        assert reason in answer.text, (source, problem)


def reported(http: httpx.Client, path: str) -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"/{path}").json()["source"]
    return found
