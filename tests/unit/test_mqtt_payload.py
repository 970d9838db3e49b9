"""Messages to readings, and brokers by their URLs: what is read, and what is refused with its reason."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from livesvm.service.access.brokers import Broker, parse_broker
from livesvm.service.feeds.commands import Delivery, Progress
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.sources import opening
from livesvm.service.feeds.sources.base import DeadLetter, Layout, SourceEntry
from livesvm.service.feeds.sources.payload import LARGEST, Payload
from livesvm.service.feeds.sources.spec import MqttSpec
from livesvm.service.feeds.spec import spec_of
from livesvm.service.settings import Settings
from livesvm.service.store import codec
from livesvm.solvers.errors import InvalidInput
from tests.support.feeds import FEED, rows_of, series

LAYOUT = Layout(("load", "wind"), "time", "meter")
TOPIC = "meters/17/load"
CAME = 1_700_000_000.5


def read(message: str | bytes, settings: dict[str, Any]) -> dict[str, Any]:
    spec = MqttSpec.model_validate({"mqtt": "plant", "topic": TOPIC} | settings)
    return Payload(spec, LAYOUT).row(TOPIC, message.encode() if isinstance(message, str) else message, CAME)


@pytest.mark.parametrize(
    ("payload", "settings", "row"),
    [
        ('{"time": "2024-01-01", "meter": 17, "load": 3, "battery": {"v": 1}}', {},
         {"load": 3.0, "time": "2024-01-01", "meter": 17}),
        ('{"at": 17e8, "load": "3.5", "wind": null, "id": "7"}', {"time": "at", "series": "id"},
         {"load": 3.5, "wind": None, "time": 17e8, "meter": "7"}),
        ('{"load": 1, "time": 5}', {"time": "arrival", "series": 2}, {"load": 1.0, "time": CAME, "meter": "17"}),
        ('{"load": true}', {"series": 9}, {"load": True, "meter": None}),
        (f'{{"load": 1{"0" * 400}}}', {"series": 2}, {"load": math.inf, "meter": "17"}),
        ("7,2024-01-01,3.5\n", {"payload": "csv"}, {"load": 3.5, "time": "2024-01-01", "meter": "7"}),
        ("3.5,,x", {"payload": "csv", "columns": ["load", "wind", "note"], "series": 2, "time": "arrival"},
         {"load": 3.5, "wind": None, "time": CAME, "meter": "17"}),
        (" 3.5 ", {"payload": "number", "time": "arrival", "series": 2}, {"load": 3.5, "time": CAME, "meter": "17"}),
        ("wet", {"payload": "number", "time": "arrival", "series": 2}, {"load": "wet", "time": CAME, "meter": "17"}),
    ],
)  # fmt: skip
def test_a_message_is_a_reading(payload: str, settings: dict[str, Any], row: dict[str, Any]) -> None:
    assert read(payload, settings) == row


@pytest.mark.parametrize(
    ("payload", "settings", "reason"),
    [
        (b"\xff", {}, "is no UTF-8"),
        ("{", {}, "is no JSON"),
        ("[1]", {}, "is no object of columns"),
        ('{"load": [1]}', {}, "the field 'load' holds no single value"),
        ("1,2", {"payload": "csv"}, "has 2 cells, not one line of meter, time, load"),
        ("1,2,3\n1,2,3", {"payload": "csv"}, "has 2 lines"),
        (b" " * (LARGEST + 1), {}, "the limit is"),
    ],
)
def test_a_message_that_is_no_reading_is_reported(payload: str | bytes, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read(payload, settings)


def test_brokers_are_known_by_their_urls() -> None:
    assert parse_broker("mqtt://host") == Broker("host", 1883)
    found = parse_broker("mqtts://me:s%2Fecret@host:1?version=3.1.1&ssl_ca_certs=/ca.pem")
    assert found == Broker("host", 1, True, False, "me", "s/ecret", "/ca.pem")
    assert "s/ecret" not in repr(found)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mqtt://me:hunter2/x@host", "a password in it is quoted"),
        ("mqtt://me:hunter2@", "is mqtt://host:1883"),
        ("mqtt://me:hunter2@host/topic", "is mqtt://host:1883"),
        ("mqtt://me:hunter2@host?version=4", "5 or 3.1.1"),
        ("mqtt://me:hunter2@host?ssl_ca_certs=x", "has no option 'ssl_ca_certs'; it has version"),
        ("mqtts://me:hunter2@host?clean=1", "has no option 'clean'"),
        ("mqtts://me:hunter2@host?ssl_keyfile=x", "goes with ssl_certfile"),
        ("kafka://me:hunter2@host", "begins with one of redis://"),
    ],
)
def test_a_url_that_names_no_broker_is_refused(url: str, reason: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings(sources=f"plant={url}")
    (error,) = refused.value.errors()
    assert reason in error["msg"]
    assert "hunter2" not in error["msg"]


def test_a_feed_keeps_which_entries_it_took_where_there_is_no_one_order() -> None:
    feed = Forecaster(spec_of(FEED))
    rows = rows_of(series(4))
    entries = [SourceEntry((mid, 7), row) for mid, row in zip((5, 3, 9), rows, strict=False)]
    bad = SourceEntry((4, 7), {"time": rows[3]["time"], "y": "high"})
    call = Delivery.of([*entries, bad], feed, 2e9, in_flight=3)
    again = Delivery.decode(codec.decode(call.encode()))
    assert (again.came, again.dead, again.in_flight) == (call.came, call.dead, 3)
    progress = again.after(Progress(paused=True))
    letter = DeadLetter((4, 7), "y", "must be a number, not 'high'")
    assert progress == Progress(None, (letter,), 1, True, ((3, 7), (9, 7), (4, 7)))
    assert Progress.decode([None, [list(letter)], 1, True, [[3, 7], [9, 7], [4, 7]]]) == progress
    sent = [entries[0], entries[1], bad]
    assert progress.new([one._replace(again=True) for one in sent]) == [entries[0]._replace(again=True)]
    assert progress.new(sent) == sent  # other messages, under identifiers that were free again
    assert Progress.decode([[2, 0], [], 0, False]).new(sent) == [*entries[:2], bad]


def test_without_the_extra_a_source_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = MqttSpec.model_validate({"mqtt": "plant", "topic": TOPIC})
    known = Settings(sources="plant=mqtt://host")
    assert opening.url_of(spec, known) == "mqtt://host"
    monkeypatch.setattr(opening, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"needs livesvm\[mqtt\]") as refused:
        opening.url_of(spec, known)
    assert refused.value.field == "source.mqtt"
