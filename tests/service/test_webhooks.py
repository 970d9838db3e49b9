"""Webhooks over real HTTP: what is sent, when it is sent again, and what no death of the service loses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.cli.main import main
from livesvm.service.client import AsyncClient, Client, ServiceProblem
from tests.contract.redis_server import RedisServer
from tests.documents import LOCAL, blocks
from tests.service.process import ServiceProcess
from tests.support import elsewhere
from tests.support.receiver import Receiver
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(elsewhere.ACTORS is not None, reason="webhooks are not sent over Ray")

SETTINGS: dict[str, Any] = {"webhook_hosts": "127.0.0.1", "webhook_private": "true"}
FEED: dict[str, Any] = {"target": "y", "window": 40, "steps": 2, "lags": 2, "C": 1.0, "gamma": 0.1, "epsilon": 0.05}
ROWS = [{"time": float(hour * 3600), "y": float(hour % 5)} for hour in range(60)]
SECRET = "whsec_" + "c2VjcmV0" * 4


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path_factory.mktemp("webhooks"), **SETTINGS) as process:
        yield process


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[Client]:
    with Client(service.url) as client:
        yield client
        for one in client.webhooks():
            client.delete_webhook(one["id"])


def hook(client: Client, receiver: Receiver, events: list[str], **settings: Any) -> str:
    """Have a receiver be sent events; the webhook's id."""
    receiver.secret = SECRET
    return str(client.create_webhook(receiver.url, events, secret=SECRET, **settings)["id"])


def drift(client: Client, model: str) -> None:
    """Have the labels of a model turn over, so that it gives one alarm; the last call may be cut off."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(240, 2))
    y = np.where(rows[:, 0] * np.where(np.arange(240) < 180, 1, -1) > 0, 1, -1)
    client.create_model(model, C=2.0, kernel={"name": "rbf", "gamma": 0.5}, drift_alarms=0.01)
    for i in range(0, 240, 20):
        client.update(model, rows[i : i + 20], y[i : i + 20], times=np.arange(i, i + 20) + 1e9)


def test_a_message_is_signed_and_the_secret_is_shown_once(client: Client, service: ServiceProcess) -> None:
    with Receiver() as receiver:
        made = client.create_webhook(receiver.url, ["drift"])
        receiver.secret = made["secret"]
        sent = client.ping_webhook(made["id"])
        receiver.wait_for(1)
        assert receiver.messages[0][0] == sent["id"]
        assert receiver.messages[0][1]["type"] == "ping"
        until(lambda: client.webhook(made["id"])["last"] is not None)
        found = client.webhook(made["id"])
        assert (found["last"]["status"], found["last"]["reason"], found["dead"]) == (204, None, 0)
        assert "secret" not in found
        until(lambda: '"attempt": 1' in service.errors)
        assert made["secret"] not in json.dumps(client.webhooks()) + service.errors
        lines = [json.loads(line) for line in service.errors.splitlines()]
        assert {"webhook-created", "webhook-ping"} <= {
            line["event"] for line in lines if line["logger"] == "livesvm.audit"
        }
        assert [line["attempt"] for line in lines if line.get("message") == sent["id"]] == [1]


def test_drift_and_ends_of_jobs_are_sent_to_webhooks_of_their_model(client: Client) -> None:
    with Receiver() as receiver, Receiver() as other:
        hook(client, receiver, ["drift", "job.finished"], models=["m"])
        hook(client, other, ["drift", "job.finished"], models=["n"])
        drift(client, "m")
        job = client.wait(client.regularization_path("m")["id"])
        receiver.wait_for(2)
        (_, alarm), (_, end) = receiver.messages
        described = client.model("m")["drift"]["alarm"]
        assert (alarm["type"], alarm["data"]["model"]) == ("drift", "m")
        assert alarm["data"]["version"] == described["version"]
        assert alarm["data"].keys() == {"model", "version", "n_since", "log10_evidence"}
        assert end["data"] == {
            "job": job["id"],
            "kind": "regularization-path",
            "model": "m",
            "state": "done",
            "version": 12,
            "problem": None,
        }
        client.delete_model("m")
        assert other.messages == []


def test_forecasts_outside_are_sent_once_and_forgotten_with_an_erasure(client: Client) -> None:
    with Receiver(lambda number: 410) as receiver:
        id_ = hook(client, receiver, ["forecast.outside"], feeds=["f"], above=-100.0)
        client.create_feed("f", **FEED)
        client.observe("f", ROWS[:50])
        client.observe("f", ROWS[50:52])
        until(lambda: client.webhook(id_)["dead"] == 1)
        assert receiver.kinds == ["forecast.outside"]
        (letter,) = client.dead_letters(id_)
        data = letter["message"]["data"]
        assert (data["feed"], data["above"], data["below"], data["outside"]) == ("f", -100.0, None, 2)
        assert [one["step"] for one in data["forecasts"]] == [1, 2]
        client.erase_readings("f", [client.history("f")[-1]["time"]])
        assert client.dead_letters(id_) == []
        client.delete_feed("f")


def test_failures_are_tried_again_under_the_same_id_and_delay_nothing_else(client: Client) -> None:
    with Receiver(lambda number: [500, 302, 204][min(number, 2)]) as receiver, Receiver() as slow, Receiver() as quick:
        slow.held.clear()
        ids = [hook(client, one, ["drift"]) for one in (receiver, slow, quick)]
        for id_ in ids:
            client.ping_webhook(id_)
        slow.wait_for(1)
        quick.wait_for(1)
        client.ping_webhook(ids[2])
        quick.wait_for(2)
        receiver.wait_for(3)  # a redirect is a failure, and is not followed
        assert len({id_ for id_, _ in receiver.messages}) == 1
        until(lambda: client.webhook(ids[0])["waiting"] == 0)
        assert client.webhook(ids[1])["waiting"] == 1
        assert len(slow.messages) == 1


def test_dead_letters_are_listed_and_sent_again(client: Client) -> None:
    with Receiver(lambda number: 410 if number < 2 else 204) as receiver:
        id_ = hook(client, receiver, ["drift"])
        sent = [client.ping_webhook(id_)["id"] for _ in range(2)]
        until(lambda: len(client.dead_letters(id_)) == 2)
        letters = client.dead_letters(id_)
        assert [one["id"] for one in letters] == sent[::-1]
        assert {(one["attempts"], one["reason"]) for one in letters} == {(1, "it was answered 410")}
        assert client.resend(id_, sent[0]) == {"resent": 1}
        receiver.wait_for(3)
        assert client.resend(id_) == {"resent": 1}
        receiver.wait_for(4)
        assert [found for found, _ in receiver.messages] == sent + sent
        assert client.dead_letters(id_) == []
        assert client.resend(id_) == {"resent": 0}


GOOD: dict[str, Any] = {"url": "http://127.0.0.1:9/", "events": ["drift"]}


@pytest.mark.parametrize(
    ("asked", "field", "reason"),
    [
        ({"url": "http://example.org/"}, "url", "LIVESVM_WEBHOOK_HOSTS does not name the host example.org"),
        ({"url": "http://127.0.0.1@example.org/"}, "url", "has no user"),
        ({"url": "ftp://127.0.0.1/"}, "url", "is https://host/path"),
        ({"url": "http://127.0.0.1:x/"}, "url", "is no URL"),
        ({"url": "http://127.0.0.1/#a"}, "url", "no fragment"),
        ({"events": ["drift", "drift"]}, "events", "twice"),
        ({"events": ["forecast.outside"]}, "events", "needs `above`, `below` or both"),
        ({"above": 1.0}, "events", "neither without it"),
        ({"events": ["forecast.outside"], "above": 1.0, "below": 2.0}, "below", "more than above"),
        ({"events": ["nothing"]}, "events", ""),
        ({"feeds": ["A B"]}, "feeds", ""),
        ({"secret": "whsec_c2hvcnQ="}, "secret", "24 to 64 bytes in base64"),
        ({"secret": "c2VjcmV0" * 4}, "secret", "whsec_"),
    ],
)
def test_what_cannot_be_used_is_refused_with_field_and_reason(
    client: Client, asked: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(ServiceProblem) as refused:
        client.create_webhook(**GOOD | asked)
    problem = refused.value.document
    assert problem["field"] == field
    assert reason in problem["reason"]
    assert "secret" not in asked or asked["secret"] not in json.dumps(problem)
    assert client.webhooks() == []


def test_a_webhook_that_is_not_there_is_named(service: ServiceProcess) -> None:
    with service.http() as http:
        for path in ("", "/ping", "/resend", "/dead-letters"):
            method = "POST" if path in ("/ping", "/resend") else "GET"
            refused = http.request(method, f"/webhooks/w-000000000000{path}")
            assert refused.json()["type"] == "urn:livesvm:problem:unknown-webhook"
        assert http.delete("/webhooks/w-000000000000").status_code == 404


def test_webhooks_from_the_command_line(
    client: Client, service: ServiceProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LIVESVM_URL", service.url)

    def run(*words: str) -> str:
        assert main(["webhook", *words]) == 0
        return capsys.readouterr().out

    with Receiver(lambda number: 410 if number == 0 else 204) as receiver:
        made = json.loads(run("create", receiver.url, "drift,forecast.outside", "--below", "2", "--json"))
        id_, receiver.secret = made["id"], made["secret"]
        assert made["below"] == 2.0
        run("ping", id_)
        until(lambda: "410" in run("dead", id_))
        assert id_ in run("list")
        assert json.loads(run("resend", id_, "--json")) == {"resent": 1}
        receiver.wait_for(2)
        assert receiver.url in run("show", id_)

        async def talk() -> dict[str, Any]:
            async with AsyncClient(service.url) as other:
                return await other.webhook(id_)

        assert asyncio.run(talk())["id"] == id_
        run("delete", id_, "--yes")
        assert client.webhooks() == []


def test_metrics_count_messages(client: Client, service: ServiceProcess) -> None:
    with service.http() as http, Receiver(lambda number: 410) as receiver:
        id_ = hook(client, receiver, ["drift"])
        client.ping_webhook(id_)
        until(lambda: client.webhook(id_)["dead"] == 1)
        text = http.get("/metrics").text
        assert 'livesvm_webhook_messages{state="dead"} 1.0' in text
        values = dict(
            line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("livesvm_webhook_deliveries_t")
        )
        assert float(values['livesvm_webhook_deliveries_total{outcome="dead"}']) >= 1


@pytest.mark.alone
def test_an_event_outlives_a_kill_before_it_is_stored_and_one_before_it_is_known_to_be_delivered(
    tmp_path: Path,
) -> None:
    with Receiver() as receiver:
        process = ServiceProcess(tmp_path, crash_at="before-announce:1", **SETTINGS)
        with process, Client(process.url, patience=0.0) as client:
            hook(client, receiver, ["drift"])
            with suppress(httpx.TransportError, ServiceProblem):
                drift(client, "m")
            assert process.wait() == -9
        assert receiver.messages == []
        process.settings["crash_at"] = "before-delivered:1"
        process.waits_for_models = False
        receiver.held.clear()  # until the service is up, which otherwise may die before
        with process:
            receiver.wait_for(1)
            receiver.held.set()
            assert process.wait() == -9
        process.settings["crash_at"] = ""
        with process, Client(process.url) as client:
            receiver.wait_for(2)
            (first, message), *again = receiver.messages  # at least once
            for id_, other in again:  # which may have been scored in one step with others
                other["data"]["log10_evidence"] = message["data"]["log10_evidence"]
                assert (id_, other) == (first, message)
            assert (message["type"], message["data"]["model"]) == ("drift", "m")
            assert message["data"]["version"] == client.model("m")["version"]
            assert client.webhooks()[0]["events"] == ["drift"]


@pytest.mark.usefixtures("client")
def test_the_page_runs_as_shown(service: ServiceProcess) -> None:
    names: dict[str, Any] = {}
    for code in blocks("docs/howto/webhooks.md", "python"):
        exec(compile(code.replace(LOCAL, service.url), "webhooks.md", "exec"), names)
    (message,) = names["seen"].values()
    assert message["type"] == "forecast.outside"
    assert message["data"]["forecasts"][0]["value"] > 20.0


@pytest.mark.alone
@pytest.mark.slow
def test_services_on_one_redis_know_the_webhook_and_one_sends_what_a_dead_one_left(tmp_path: Path) -> None:
    with Receiver(lambda number: 500 if number == 0 else 204) as receiver, RedisServer(tmp_path) as server:
        shared = SETTINGS | {"redis_url": server.url, "lease_seconds": 1}
        one, two = (ServiceProcess(tmp_path / name, **shared) for name in ("one", "two"))
        with two, Client(two.url) as other:
            with one, Client(one.url) as client:
                id_ = hook(client, receiver, ["drift"])
                until(lambda: [found["id"] for found in other.webhooks()] == [id_])
                sent = client.ping_webhook(id_)["id"]
                receiver.wait_for(1)
                one.kill()
            receiver.wait_for(2)
            assert [found for found, _ in receiver.messages] == [sent, sent]
            until(lambda: other.webhook(id_)["waiting"] == 0)
