"""Addresses that may be sent to, signatures, limits of the queue, and when an event is one."""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import chain, repeat
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import httpcore
import pytest
from standardwebhooks import Webhook as Verifier

from livesvm.service.history.journal import Source
from livesvm.service.hosting.happened import of_feed
from livesvm.service.lifecycle.fencing import Fencing
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.settings import Settings
from livesvm.service.store.base import WEBHOOK_DEAD, WEBHOOK_WAITING, DocumentName, StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore
from livesvm.service.webhooks import courier, sending
from livesvm.service.webhooks.address import Refused, check_address
from livesvm.service.webhooks.courier import Courier
from livesvm.service.webhooks.messages import Address, Happened, Message, headers_of
from livesvm.service.webhooks.outbox import Outbox
from livesvm.service.webhooks.sending import Connection
from livesvm.service.webhooks.spec import Webhook, WebhookSpec, new_secret
from livesvm.solvers.errors import InvalidInput
from tests.support.receiver import Receiver
from tests.support.waiting import until

INSIDE = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "2002:7f00:1::",
    "2001:0:7f00:1::1",
    "2001:db8::1",
    "192.0.2.1",
    "192.88.99.1",
    "fec0::1",
    "fec0::1%1",
    "3fff::1",
    "64:ff9b:1::1",
    "5f00::1",
    "2001:2::1",
    "::7f00:1",
    "fe80::1%1",
]


@pytest.mark.parametrize("text", INSIDE)
def test_addresses_inside_are_refused(text: str) -> None:
    with pytest.raises(Refused, match="not an address of the public internet"):
        check_address(text)


@pytest.mark.parametrize("text", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_addresses_of_the_internet_are_not(text: str) -> None:
    check_address(text)


SPECIAL = """
0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.0.8/32 192.0.0.170/31
192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
255.255.255.255/32 ::/128 ::1/128 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/32 2001:2::/48 2001:10::/28
2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8
"""
"""Networks that IANA's registries of special addresses call not globally reachable, multicast and site-local ones."""
OF_IPV4 = {"::ffff:0:0": 0, "::": 0, "64:ff9b::": 0, "2002::": 80, "2001::": 0, "::ffff:0:0:0": 0}
"""What IPv6 addresses begin with that lead to an IPv4 address, and by how many bits that stands to the left."""


def test_no_special_address_is_sent_to_however_it_is_written() -> None:
    networks = [ip_network(text) for text in SPECIAL.split()]
    networks += [one for one in ip_network("::/0").subnets(prefixlen_diff=3) if one != ip_network("2000::/3")]
    found = set()
    for network in networks:
        middle = network.network_address + network.num_addresses // 2
        for address in (network.network_address, middle, network.broadcast_address):
            found.add(address)
            if address.version == 4:
                found |= {IPv6Address(int(ip_address(at)) + (int(address) << left)) for at, left in OF_IPV4.items()}
    assert len(found) > 300
    for one in found:
        with pytest.raises(Refused):
            check_address(str(one))


def post(url: str, body: bytes = b"", *, may_be_private: bool = True, seconds: float = 10.0) -> tuple[int, float]:
    """Send a message to a receiver, on a connection of its own."""
    connection = Connection(url, 4.0, may_be_private=may_be_private)
    try:
        return connection.post({}, body, seconds)
    finally:
        connection.close()


def _resolved(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Have each look-up of a name find the next address; the names that were looked up."""
    asked: list[str] = []

    def look_up(host: str, port: int, *_: Any, **__: Any) -> Any:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (addresses[min(len(asked), len(addresses)) - 1], port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def test_a_name_that_leads_inside_is_refused_where_the_connection_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as receiver:
        port = receiver.url.split(":")[2]
        _resolved(monkeypatch, "127.0.0.1")
        with pytest.raises(Refused, match=r"127\.0\.0\.1 is not an address"):
            post(f"http://name.example:{port}", may_be_private=False)
        assert receiver.messages == []


def test_a_name_is_looked_up_once_and_the_connection_goes_to_what_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, reached = _resolved(monkeypatch, "8.8.8.8", "127.0.0.1"), []

    def connect(self: Any, host: str, *_: Any, **__: Any) -> Any:
        reached.append(host)
        raise httpcore.ConnectError("not here")

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect)
    with pytest.raises(httpcore.ConnectError, match="not here"):
        post("https://name.example/", may_be_private=False)
    assert (asked, reached) == (["name.example"], ["8.8.8.8"])


@contextmanager
def answering(parts: Iterable[bytes]) -> Iterator[str]:
    """Yield the URL of a receiver that sends these parts, whatever it is asked, and then says nothing more."""
    with socket.create_server(("127.0.0.1", 0)) as server, suppress(OSError):

        def answer() -> None:
            with suppress(OSError), server.accept()[0] as connection:
                connection.recv(65_536)
                for part in parts:
                    connection.sendall(part)
                connection.recv(1)  # until the other end is closed

        thread = Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        thread.join()


def test_a_receiver_that_accepts_and_never_answers_is_left() -> None:
    with answering([]) as url, pytest.raises(httpcore.ReadTimeout):
        post(url, seconds=0.2)


def test_a_head_that_never_ends_is_cut_off() -> None:
    parts = chain([b"HTTP/1.1 200 OK\r\n"], repeat(b"a: b\r\n" * 1000))
    with answering(parts) as url, pytest.raises(httpcore.RemoteProtocolError):
        post(url)


@pytest.mark.parametrize("after", [repeat(b"x" * 65_536), [b"x"]], ids=["endless", "halting"])
def test_of_a_body_that_never_ends_only_the_beginning_is_read(
    after: Iterable[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "REST_SECONDS", 0.1)
    with answering(chain([b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n"], after)) as url:
        assert post(url) == (200, 0.0)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("120", 120, 120),
        ("in 5 minutes", 200, 300),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("-1", 0, 0),
        ("soon", 0, 0),
        ("", 0, 0),
    ],
    ids=["seconds", "date", "past", "negative", "word", "nothing"],
)
def test_for_how_long_a_receiver_wants_to_be_left_alone(text: str, least: float, most: float) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(minutes=5), usegmt=True)
    text = soon if text == "in 5 minutes" else text
    with answering([f"HTTP/1.1 503 Busy\r\nRetry-After: {text}\r\ncontent-length: 0\r\n\r\n".encode()]) as url:
        status, seconds = post(url)
    assert status == 503
    assert least <= seconds <= most


def test_what_is_signed_the_library_verifies() -> None:
    secret, body = new_secret(), '{"type":"ä"}'
    at = datetime.now(UTC).timestamp()
    assert Verifier(secret).verify(body.encode(), headers_of(secret, "msg_1", body, at)) == {"type": "ä"}


def feed(*calls: list[float], drift: bool = False) -> Any:
    """Return a state after calls with these forecasts."""
    events: list[dict[str, Any]] = []
    for number, values in enumerate(calls):
        if drift:
            events.append({"id": 2 * number, "kind": "drift", "position": 1, "step": 1, "since": 9})
        forecasts = [{"step": step, "time": None, "value": value} for step, value in enumerate(values)]
        events.append({"id": 2 * number + 1, "kind": "readings", "position": 1, "forecasts": forecasts})
    return SimpleNamespace(events=events, version=7, updated_at=1e9)


def spec(**settings: Any) -> WebhookSpec:
    return WebhookSpec(url="http://127.0.0.1/", events=["forecast.outside", "drift"], **settings)


def sent(state: Any, wanted: WebhookSpec) -> list[tuple[str, Any]]:
    found = [(one.type, one.data_for(wanted)) for one in of_feed("f", "feed.f", state)]
    return [one for one in found if one[1] is not None]


@pytest.mark.parametrize(
    ("calls", "outside"),
    [
        ([], 0),
        ([[]], 0),
        ([[1.0, 5.0]], 0),
        ([[1.0, 11.0]], 1),
        ([[1.0], [11.0, -1.0]], 2),
        ([[11.0], [12.0]], 0),
        ([[11.0], [5.0]], 0),
        ([[11.0], [5.0], [12.0]], 1),
        ([[float("nan")]], 0),
    ],
)
def test_forecasts_are_sent_when_they_leave_the_limits(calls: list[list[float]], outside: int) -> None:
    found = sent(feed(*calls), spec(above=10.0, below=0.0))
    assert [data["outside"] for _, data in found] == ([outside] if outside else [])


def test_drift_of_a_feed_is_sent_of_the_newest_call_alone() -> None:
    found = sent(feed([1.0], [1.0], drift=True), spec(above=10.0))
    assert found == [("drift", {"feed": "f", "version": 7, "position": 1, "step": 1, "since": 9})]


@pytest.mark.parametrize(
    ("settings", "concerned"),
    [
        ({}, "m f meters/1"),
        ({"models": ["m"]}, "m"),
        ({"feeds": ["f"]}, "f"),
        ({"feeds": ["meters/*"], "models": ["n"]}, "meters/1"),
        ({"feeds": ["meters/1"]}, "meters/1"),
    ],
)
def test_lists_say_of_what_events_are_sent(settings: dict[str, Any], concerned: str) -> None:
    wanted = spec(above=1.0, **settings)
    found = [name for name in ("f", "meters/1") if wanted.concerns(None, name)]
    assert ["m"] * wanted.concerns("m", None) + found == concerned.split()
    assert wanted.concerns(None, None)


def test_webhooks_over_ray_are_refused_by_name() -> None:
    settings = Settings.model_construct(ray="auto", webhook_hosts="*")
    with pytest.raises(InvalidInput, match="not sent over Ray: this service has LIVESVM_RAY"):
        spec(above=1.0).check(settings)


def test_no_host_is_allowed_by_default() -> None:
    with pytest.raises(InvalidInput, match=r"does not name the host example\.org; it names none") as refused:
        WebhookSpec(url="https://example.org/", events=["drift"]).check(Settings.model_construct())
    assert refused.value.field == "url"


@pytest.mark.parametrize("url", ["http://example.org/", "https://127.0.0.1/", "https://localhost/", "https://[::1]/"])
def test_urls_that_lead_inside_are_refused_at_creation(url: str) -> None:
    settings = Settings.model_construct(webhook_hosts="*")
    with pytest.raises(InvalidInput, match="LIVESVM_WEBHOOK_PRIVATE allows") as refused:
        WebhookSpec(url=url, events=["drift"]).check(settings)
    assert refused.value.field == "url"


@pytest.fixture
def source(tmp_path: Path) -> Any:
    metrics = Metrics()
    store = SqliteStore(tmp_path / "store.sqlite3")
    yield Source(store, Health(metrics), metrics)
    store.close()


def put(source: Source, hook: Webhook, count: int) -> list[Address]:
    """Have messages wait; where they do."""
    outbox = Outbox("here")
    outbox.webhooks = (hook,)
    events = [Happened("drift", "m", str(n), 1e9, lambda spec: {"n": 1}) for n in range(count)]
    messages = outbox.messages(events)
    outbox.keep(source, messages)
    assert [one.id for one, _ in outbox.messages(events)] == [one.id for one, _ in messages]
    return [one for one, _ in messages]


def delivering(source: Source, receiver: Receiver, count: int, **settings: Any) -> tuple[Courier, list[str]]:
    """Return a courier with messages for a receiver, and their ids, oldest first."""
    hook = Webhook("w-1", WebhookSpec(url=receiver.url, events=["drift"]), 0.0, new_secret())
    receiver.secret = hook.secret
    waiting = put(source, hook, count)
    allowed: dict[str, Any] = {"webhook_private": True, "webhook_hosts": "127.0.0.1", "webhook_seconds": 1e6}
    one = Courier(hook, source, Settings.model_construct(**allowed | settings))
    one.offer(waiting)
    return one, [address.id for address in sorted(waiting, key=lambda address: address.age)]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have attempts follow each other after hundredths of a second."""
    for name, value in (("FIRST_SECONDS", 0.01), ("MOST_SECONDS", 0.02), ("APART_SECONDS", 0.001)):
        monkeypatch.setattr(courier, name, value)


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    """Return the facts of the lines of one event."""
    found = [record for record in caplog.records if record.getMessage() == event]
    return [record.__dict__["facts"] for record in found]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("count", "status"), [(1, 500), (50, 302)])
def test_a_receiver_that_fails_costs_the_same_however_much_waits(
    source: Source, count: int, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "livesvm.webhooks")
    with Receiver(lambda number: status if number < 20 else 204) as receiver:
        one, ids = delivering(source, receiver, count)
        until(lambda: not source.store.documents(WEBHOOK_WAITING))
        one.stop()
    tried = [id_ for id_, _ in receiver.messages]
    assert tried == ids[:1] * 20 + ids  # one message is tried, the others wait, and come in their order
    assert receiver.connections <= 21  # and one connection after that
    failures = lines(caplog, "not delivered")  # which the log counts
    assert {(line["status"], line["waiting"]) for line in failures} == {(status, count)}
    assert [line["failures"] for line in failures] == list(range(1, 21))
    assert [line.get("failures") for line in lines(caplog, "delivered")] == [20] + [None] * (count - 1)


def test_a_receiver_that_asks_to_wait_is_left_alone(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver(lambda number: 503) as receiver:
        receiver.headers["retry-after"] = "100000"
        one, _ = delivering(source, receiver, 2)
        until(lambda: one._due_at)
        one.stop()
    rest = one._due_at - time.monotonic()
    assert courier.LONGEST_SECONDS - 100 < rest <= courier.LONGEST_SECONDS  # and not for longer than that


@pytest.mark.usefixtures("quick")
def test_what_waits_too_long_is_dead_though_it_was_behind_others(source: Source) -> None:
    with Receiver(lambda number: 500) as receiver:
        one, ids = delivering(source, receiver, 5, webhook_seconds=0.3)
        until(lambda: len(source.store.documents(WEBHOOK_DEAD)) == 5)
        one.stop()
    letters = {Address.of(at).id: source.store.document(at) for at in source.store.documents(WEBHOOK_DEAD)}
    attempts = [Message.decode(letters[id_] or b"").attempts for id_ in ids]
    assert sum(attempts) == len(receiver.messages)
    assert attempts[0] > 3
    assert max(attempts[1:]) <= 1
    assert {Message.decode(one or b"").reason for one in letters.values()} == {"it was answered 500"}


@pytest.mark.usefixtures("quick")
def test_what_the_store_cannot_be_rid_of_is_not_sent_again(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "STORE_SECONDS", 0.01)
    remove, failures = source.store.delete_document, iter(range(3))

    def delete(at: DocumentName) -> bool:
        if next(failures, None) is not None:
            raise StoreUnavailable("the disk is full")
        return remove(at)

    monkeypatch.setattr(source.store, "delete_document", delete)
    with Receiver() as receiver:
        one, ids = delivering(source, receiver, 2)
        until(lambda: not source.store.documents(WEBHOOK_WAITING))
        one.stop()
    assert [id_ for id_, _ in receiver.messages] == ids


def test_more_than_the_queue_holds_are_dead_letters_and_the_oldest_of_these_are_dropped(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "MOST_WAITING", 3)
    monkeypatch.setattr(courier, "MOST_DEAD", 4)
    hook = Webhook("w-1", WebhookSpec(url="http://gone.invalid/", events=["drift"]), 0.0, new_secret())
    waiting, store = put(source, hook, 9), source.store
    one = Courier(hook, source, Settings.model_construct(webhook_hosts="gone.invalid", webhook_seconds=1e6))
    one.offer(waiting)
    until(lambda: len(store.documents(WEBHOOK_WAITING)) == 3 and len(store.documents(WEBHOOK_DEAD)) == 4)
    counts = source.metrics.webhook_deliveries
    until(lambda: counts.labels("dropped")._value.get() == 2)
    assert counts.labels("dead")._value.get() == 6
    one.stop()


def test_a_host_that_is_not_allowed_any_more_is_sent_nothing(source: Source) -> None:
    with Receiver() as receiver:
        hook = Webhook("w-1", WebhookSpec(url=receiver.url, events=["drift"]), 0.0, new_secret())
        one = Courier(hook, source, Settings.model_construct(webhook_private=True, webhook_seconds=1e-6))
        one.offer(put(source, hook, 1))
        until(lambda: source.store.documents(WEBHOOK_DEAD))
        assert one.last is not None
        assert "LIVESVM_WEBHOOK_HOSTS does not name" in str(one.last.reason)
        assert receiver.messages == []
        one.stop()


def test_a_message_that_is_damaged_is_dropped(source: Source) -> None:
    hook = Webhook("w-1", WebhookSpec(url="http://gone.invalid/", events=["drift"]), 0.0, new_secret())
    (found,) = put(source, hook, 1)
    source.store.put_document(found.waiting, b"{")
    one = Courier(hook, source, Settings.model_construct(webhook_hosts="gone.invalid"))
    one.offer([found])
    until(lambda: not source.store.documents(WEBHOOK_WAITING))
    one.stop()


def test_a_store_that_fences_models_is_sent_once(source: Source) -> None:
    outbox, states = Outbox("here"), Counter[str]()
    hosting: Any = SimpleNamespace(
        models=SimpleNamespace(states=lambda: states), feeds=SimpleNamespace(states=lambda: {"behind": 1})
    )
    wanted = WebhookSpec(url="http://127.0.0.1/", events=["store.fenced"], models=["other"])
    outbox.webhooks = (Webhook("w-1", wanted, 0.0),)
    fencing = Fencing(source, hosting, outbox)
    for fenced in (0, 0, 2, 2, 0):
        states["fenced"] = fenced
        fencing.announce()
    found = [source.store.document(at) for at in source.store.documents(WEBHOOK_WAITING)]
    assert sorted(b'\\"fenced\\":2,\\"behind\\":1' in (one or b"") for one in found) == [False, True]


def test_names_of_messages_are_read_back() -> None:
    one = Address("", "w-1", "here", "ping", "0001", "msg_1")
    assert Address.of(one.waiting) == Address.of(one.dead) == one
    assert Address.of(DocumentName(WEBHOOK_DEAD, "feed.a/b w h drift 1 m")).stored == "feed.a/b"
