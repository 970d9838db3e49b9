"""What a source promises its feed, held by topics of a real broker: every message, once its effect is durable."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.access.brokers import parse_broker
from livesvm.service.feeds.sources.base import DeadLetter, Layout, SourceEntry, SourceError
from livesvm.service.feeds.sources.mqtt import MqttSource
from livesvm.service.feeds.sources.spec import MqttSpec
from tests.contract.mosquitto import Listener, Mosquitto, client_of, needs_mosquitto, publish
from tests.contract.tls import TlsFront
from tests.support.waiting import until

pytestmark = needs_mosquitto

PASSWORDS = shutil.which("mosquitto_passwd") or "mosquitto_passwd"
PASSWORD = "hunter2"
LAYOUT = Layout(("y",), "time")
SERIES = Layout(("y",), "time", "meter")
WAIT = 5.0


class Scene:
    """A broker with a topic of the test's own, and a client that publishes there."""

    def __init__(self, broker: Mosquitto, stack: ExitStack, version: str = "5", **login: str) -> None:
        self.broker, self.stack, self.version = broker, stack, version
        self.client = stack.enter_context(client_of(broker, **login))
        self.topic = f"meters/{os.urandom(4).hex()}"

    def add(self, *numbers: int, **options: Any) -> None:
        payloads = [json.dumps({"time": number, "y": number / 2, "battery": 3.1}) for number in numbers]
        publish(self.client, self.topic, *payloads, **options)

    def source(self, layout: Layout = LAYOUT, url: str | None = None, **settings: Any) -> MqttSource:
        spec = MqttSpec.model_validate({"mqtt": "plant", "topic": self.topic} | settings)
        broker = parse_broker(url or f"{self.broker.url}?version={self.version}")
        return self.stack.enter_context(closing(MqttSource(spec, "load", layout, broker)))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as server:
        yield server


@pytest.fixture(params=["5", "3.1.1"])
def scene(broker: Mosquitto, request: pytest.FixtureRequest) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(broker, stack, request.param)


def fetched(source: MqttSource, count: int) -> list[SourceEntry]:
    """Return the entries that are not settled, once there are so many."""
    end = time.monotonic() + WAIT
    while len(found := source.fetch(None, 1000, 0.05)) < count:
        assert time.monotonic() < end, found
    return found


def settle(source: MqttSource, entries: list[SourceEntry], *dead: DeadLetter) -> None:
    """Settle entries, and wait until the broker knows."""
    source.settle([entry.position for entry in entries], dead)
    source._ask(lambda: source._open().subscribe(source._spec.topic, **source._wanted())[1], "subscribe")


def wait_until_lost(source: MqttSource) -> None:
    """Wait until a source knows that it is not connected."""
    until(lambda: source._lost is not None, WAIT)
    with pytest.raises(SourceError, match="not connected any more"):
        source.backlog(None)


def times(entries: list[SourceEntry]) -> list[float]:
    return [entry.row["time"] for entry in entries]


def test_messages_stay_until_they_are_settled(scene: Scene) -> None:
    source = scene.source()
    source.begin(None, [])
    scene.add(1, 2, 3)
    found = fetched(source, 3)
    assert [entry.row for entry in found[:2]] == [{"y": 0.5, "time": 1.0}, {"y": 1.0, "time": 2.0}]
    assert not any(entry.again or entry.fault for entry in found)
    assert [entry.position for entry in source.fetch(None, 2, 0)] == [entry.position for entry in found[:2]]
    assert source.backlog(None).entries == 3
    settle(source, found[:2])
    assert times(source.fetch(None, 9, 0)) == [3]
    source.close()
    scene.add(4)
    again = scene.source()
    again.begin(None, [])
    came = fetched(again, 2)
    assert [(entry.row["time"], entry.again) for entry in came] == [(3, True), (4, False)]
    assert came[0].position == found[2].position
    settle(again, came)
    assert (again.fetch(None, 9, 0.05), again.backlog(None).entries) == ([], 0)


def test_dead_letters_are_published_before_messages_are_settled(scene: Scene) -> None:
    letters = Listener(scene.client, "livesvm/dead/load")
    source = scene.source()
    source.begin(None, [])
    publish(scene.client, scene.topic, b'{"time": 1, "y": "high"}', b"\xff")
    good, bad = fetched(source, 2)
    assert (good.fault, bad.fault) == (None, "is no UTF-8")
    settle(
        source, [good, bad], DeadLetter(good.position, "y", "no number"), DeadLetter(bad.position, None, "is no UTF-8")
    )
    until(lambda: len(letters.messages) >= 2, WAIT)
    found = [json.loads(message.payload) for message in letters.messages]
    reported = {"feed": "load", "topic": scene.topic}
    entries = ["-".join(map(str, entry.position)) for entry in (good, bad)]
    text = {"payload": '{"time": 1, "y": "high"}'}
    assert found == [
        reported | {"entry": entries[0], "field": "y", "reason": "no number"} | text,
        reported | {"entry": entries[1], "field": None, "reason": "is no UTF-8", "payload_base64": "/w=="},
    ]
    assert source.backlog(None).entries == 0


def test_a_retained_message_is_read_once_and_only_with_a_time(scene: Scene) -> None:
    scene.add(1, retain=True)
    source = scene.source()
    source.begin(None, [])
    settle(source, fetched(source, 1))
    source.close()
    again = scene.source()
    again.begin(None, [])
    stamped = scene.source(client_id=f"{scene.topic}-stamped", time="arrival")
    stamped.begin(None, [])
    scene.add(2)
    assert times(fetched(again, 1)) == [2]
    (entry,) = fetched(stamped, 1)
    assert (entry.row["y"], abs(entry.row["time"] - time.time()) < WAIT) == (1.0, True)
    publish(scene.client, scene.topic, "", retain=True)


def test_a_level_of_the_topic_names_the_series(scene: Scene) -> None:
    source = scene.source(SERIES, topic=f"{scene.topic}/+/load", payload="number", time="arrival", series=3)
    source.begin(None, [])
    publish(scene.client, f"{scene.topic}/17/load", "3.5")
    publish(scene.client, f"{scene.topic}/b/load", "x")
    first, second = fetched(source, 2)
    assert (first.row["meter"], first.row["y"], second.row["meter"], second.row["y"]) == ("17", 3.5, "b", "x")


def test_a_message_of_qos_0_is_read_and_cannot_come_again(scene: Scene) -> None:
    source = scene.source(qos=0)
    source.begin(None, [])
    scene.add(1, 1)
    found = fetched(source, 2)
    assert len({entry.position for entry in found}) == 2
    settle(source, found[:1])
    assert source.backlog(None).entries == 1


def test_what_is_forgotten_is_gone(scene: Scene) -> None:
    source = scene.source()
    assert source.begin(None, [])
    scene.add(1)
    fetched(source, 1)
    source.close()
    gone = scene.source()
    gone.forget()
    gone.close()
    again = scene.source()
    again.begin(None, [])
    scene.add(2)
    assert times(fetched(again, 1)) == [2]


def test_a_broker_that_was_killed_is_read_again(tmp_path: Path) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(Mosquitto(tmp_path))
        scene = Scene(broker, stack)
        source = scene.source()
        source.begin(None, [])
        scene.add(1, 2)
        first, second = fetched(source, 2)
        settle(source, [first])
        time.sleep(0.1)  # it saves what it knows after each round of its loop
        broker.kill()
        wait_until_lost(source)
        with pytest.raises(SourceError):
            source.fetch(None, 9, WAIT)
        with pytest.raises(SourceError):
            source.settle([second.position], [])
        with pytest.raises(SourceError, match="cannot be reached"):
            scene.source().begin(None, [])
        broker.start()
        again = scene.source()
        assert not again.begin(None, [])
        assert [(entry.position, entry.again) for entry in fetched(again, 1)] == [(second.position, True)]


def test_another_client_of_the_name_takes_the_session_over(scene: Scene) -> None:
    one, two = scene.source(), scene.source()
    one.begin(None, [])
    scene.add(1)
    fetched(one, 1)
    two.begin(None, [])
    wait_until_lost(one)
    assert times(fetched(two, 1)) == [1]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    """A broker that asks for a password, and lets the user read alone."""
    place = tmp_path_factory.mktemp("guarded")
    passwords, acl = place / "passwords", place / "acl"
    subprocess.run([PASSWORDS, "-b", "-c", passwords, "meter", PASSWORD], check=True)
    acl.write_text("user meter\ntopic read meters/#\nuser plant\ntopic readwrite #\n")
    subprocess.run([PASSWORDS, "-b", passwords, "plant", PASSWORD], check=True)
    with Mosquitto(place / "data", f"password_file {passwords}", f"acl_file {acl}") as server:
        yield server


def test_a_broker_accepts_known_clients(guarded: Mosquitto) -> None:
    with ExitStack() as stack:
        scene = Scene(guarded, stack, user="plant", password=PASSWORD)
        address = f"127.0.0.1:{guarded.port}"
        source = scene.source(url=f"mqtt://meter:{PASSWORD}@{address}")
        source.begin(None, [])
        scene.add(1)
        (entry,) = fetched(source, 1)
        with pytest.raises(SourceError, match="refused to publish to livesvm/dead/load: Not authorized"):
            source.settle([entry.position], [DeadLetter(entry.position, "y", "no number")])
        source.close()
        again = scene.source(url=f"mqtt://meter:{PASSWORD}@{address}")
        again.begin(None, [])
        assert fetched(again, 1)[0].position == entry.position
        for url in (
            f"mqtt://meter:wrong{PASSWORD}@{address}",
            f"mqtt://{address}",
            f"mqtt://x:{PASSWORD}@{address}?version=3.1.1",
        ):
            with pytest.raises(SourceError, match="refused to connect") as refused:
                scene.source(url=url, client_id="other").begin(None, [])
            assert PASSWORD not in str(refused.value)


@pytest.mark.filterwarnings("ignore:Exception ignored in. <ssl.SSLSocket")  # the library leaves it to be collected
def test_a_certificate_is_checked(scene: Scene, tmp_path: Path) -> None:
    with TlsFront(scene.broker.port, tmp_path) as front:
        url = f"mqtts://127.0.0.1:{front.port}?version={scene.version}"
        source = scene.source(url=f"{url}&ssl_ca_certs={front.ca}")
        source.begin(None, [])
        scene.add(1)
        assert times(fetched(source, 1)) == [1]
        source.close()
        with pytest.raises(SourceError, match="certificate verify failed"):
            scene.source(url=url, client_id="other").begin(None, [])
    with pytest.raises(SourceError, match="cannot be reached"):
        scene.source(url=f"{url}&ssl_ca_certs={tmp_path}/nowhere.pem", client_id="other").begin(None, [])
