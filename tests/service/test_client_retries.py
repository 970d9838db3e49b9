"""What the client tries again, how often, with which waits, and what never; and which certificates it trusts."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import httpx
import pytest

from livesvm.service.cli.main import main
from livesvm.service.client import AsyncClient, Client, ServiceProblem
from tests.contract.tls import TlsFront

ROWS = [[1.0], [2.0]]
PATIENCE = 3.0
DROP, TORN = 0, 1
"""In place of a status: the connection is closed without an answer, or in the middle of one."""
PAGE = b"<html><head><title>so</title><style>p {}</style></head><body><h1>nginx is %d</h1></body></html>"
"""What a proxy answers that does not reach the service."""

Call = Callable[[Client], Any]

REPEATABLE = [
    *("models", "model", "update", "update_many", "predict", "what_if", "explain", "drift", "certificate"),
    *("checkpoint", "write_back", "examples", "erase", "erase_everywhere", "erase_readings", "verify_receipt"),
    *("receipts", "receipt_key", "versions", "restore", "apply", "plot", "job", "put_dataset", "inspect"),
    *("datasets", "dataset", "feeds", "webhooks", "webhook", "dead_letters", "resend", "feed", "observe"),
    *("announce", "forecast", "forecast_if", "history", "feed_certificate", "feed_plot", "feed_drift"),
    *("update_feed", "pause_feed", "resume_feed", "write_back_feed", "suspects", "fleets", "fleet", "series"),
    *("create_series", "observe_fleet", "announce_fleet", "fleet_forecast", "fleet_forecast_file", "erase_series"),
    *("pause_fleet", "resume_fleet", "jobs", "recent_updates"),
]
"""Calls that have one effect however often they are sent, so that it does not matter whether one was heard."""
ONCE = [
    *("create_model", "delete_model", "assess", "regularization_path", "suspected_labels", "outlier_path"),
    *("cancel", "delete_dataset", "retrain", "tune_model", "create_feed", "delete_feed", "create_webhook"),
    *("delete_webhook", "ping_webhook", "create_fleet", "delete_fleet", "backtest", "tune"),
]
"""Calls that are sent again only where the service says that it did nothing."""
NO_CALLS = {"wait", "progress", "feed_events", "is_ready", "send", "close"}
GIVEN: dict[str, Any] = {"X": ROWS, "y": [1, -1], "rows": [{"y": 1.0}], "data": b"1,2", "format": "csv", "version": 1}
GIVEN |= {"tags": ["t"], "offset": 3, "limit": 5, "max_seconds": 9.0, "steps": []}
GIVEN |= {"updates": {"m": {"X": ROWS, "y": [1, -1]}}, "receipt": b"{}", "names": ["a"], "events": ["drift"]}
"""Arguments of calls, where a call has them; all others that it needs are "m"."""


def _call(name: str) -> Call:
    takes = list(inspect.signature(getattr(Client, name)).parameters.values())[1:]
    needed = [one.name for one in takes if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    given = {one: GIVEN.get(one, "m") for one in (*needed, *(one.name for one in takes if one.name in GIVEN))}
    return lambda client: getattr(client, name)(**given)


CALLS = {name: _call(name) for name in (*REPEATABLE, *ONCE)}


@dataclass
class Clock:
    """Time that passes only during a sleep."""

    now: float = 100.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.slept.append(seconds)
        self.now += seconds

    async def sleep_awaited(self, seconds: float) -> None:
        self.sleep(seconds)

    def waited_at_least(self, *least: float) -> bool:
        """Return whether there were such waits, each longer by a random part of a half."""
        waits = list(zip(self.slept, least, strict=True))
        return all(wait <= slept <= 1.5 * wait for slept, wait in waits)


@dataclass
class Script:
    """What a server answers, one after the other, (status, headers); the last of them for ever. What it was sent."""

    url: str
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    seen: list[tuple[str, str, str | None, bytes]] = field(default_factory=list)

    def next(self) -> tuple[int, dict[str, str]]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Handler(BaseHTTPRequestHandler):
    """Notes what comes and answers by the script."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    script: ClassVar[Script]

    def answer(self) -> None:
        """Answer as it is written, or hang up."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.script.seen.append((self.command, self.path, self.headers.get("idempotency-key"), body))
        status, headers = self.script.next()
        if status == DROP:
            self.close_connection = True
            return
        body = PAGE % status if status in (502, 504) else self.document(status)
        self.send_response(max(status, 200))
        given = {"content-type": "application/json", "content-length": str(len(body) + (status == TORN)), **headers}
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = status == TORN

    def document(self, status: int) -> bytes:
        """Return an answer to any call."""
        return json.dumps(
            {
                "models": [],
                "updates": [],
                "datasets": [],
                "feeds": [],
                "fleets": [],
                "series": [],
                "rows": [],
                "webhooks": [],
                "dead_letters": [],
                "next": None,
                "receipts": [],
                "type": "urn:livesvm:problem:not-ready",
                "status": status,
                "title": "so",
                "detail": "why",
            }
        ).encode()

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


@pytest.fixture
def script(server: str) -> Script:
    Handler.script = Script(server)
    return Handler.script


@pytest.fixture(scope="module")
def front(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsFront]:
    """A proxy with TLS before the server, of an authority of its own."""
    with TlsFront(httpx.URL(server).port or 0, tmp_path_factory.mktemp("tls")) as made:
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("tenacity.time", made)
    monkeypatch.setattr("tenacity.nap.time", made)
    monkeypatch.setattr("asyncio.sleep", made.sleep_awaited)
    return made


class Awaited:
    """The calls of an asynchronous client, each awaited."""

    def __init__(self, url: str, **settings: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncClient(url, **settings)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: self._runner.run(getattr(self._client, name)(*arguments, **named))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


@pytest.fixture(params=[Client, Awaited], ids=["sync", "async"])
def client(script: Script, request: pytest.FixtureRequest) -> Iterator[Client]:
    with request.param(script.url, patience=PATIENCE) as made:
        yield made


def test_every_call_is_here() -> None:
    for client in (Client, AsyncClient):
        calls = {name for name, _ in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")}
        assert calls == CALLS.keys() | NO_CALLS


@pytest.mark.parametrize("name", CALLS)
def test_both_clients_have_the_same_calls_with_the_same_arguments(name: str) -> None:
    now, later = getattr(Client, name), getattr(AsyncClient, name)
    assert inspect.signature(now) == inspect.signature(later)
    assert "self" in inspect.signature(now).parameters
    assert inspect.getdoc(now) == inspect.getdoc(later)
    assert inspect.iscoroutinefunction(later)


def check_repeated(name: str, client: Client, script: Script, times: int) -> None:
    """Check that the call is sent so many times, to the byte the same."""
    CALLS[name](client)
    assert len(script.seen) == times
    assert len(set(script.seen)) == 1


@pytest.mark.parametrize("name", CALLS)
def test_what_was_too_busy_is_sent_again_whatever_it_is(
    name: str, client: Client, script: Script, clock: Clock
) -> None:
    script.answers = [(429, {"retry-after": "0.25"}), (429, {}), (429, {"retry-after": "60"}), (200, {})]
    check_repeated(name, client, script, 4)
    assert clock.waited_at_least(0.25, 1.0, 1.0)


@pytest.mark.parametrize("name", REPEATABLE)
def test_what_has_one_effect_is_sent_again_after_an_outage(
    name: str, client: Client, script: Script, clock: Clock
) -> None:
    script.answers = [(503, {"retry-after": "0.5"}), (DROP, {}), (502, {}), (TORN, {}), (504, {}), (200, {})]
    check_repeated(name, client, script, 6)
    assert clock.waited_at_least(0.5, 0.2, 1.0, 0.2, 1.0)
    assert len(set(clock.slept)) == 5


@pytest.mark.parametrize("name", ONCE)
def test_what_might_have_two_effects_is_not_sent_again(name: str, client: Client, script: Script, clock: Clock) -> None:
    for answer in (DROP, TORN, 502, 503, 504):
        script.seen, script.answers = [], [(answer, {}), (200, {})]
        with pytest.raises(httpx.TransportError if answer in (DROP, TORN) else ServiceProblem):
            CALLS[name](client)
        assert (len(script.seen), clock.slept) == (1, [])


@pytest.mark.parametrize("kind", [Client, Awaited])
def test_what_was_not_sent_is_sent_again_whatever_it_is(kind: type[Client], clock: Clock) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen
        with kind("http://{}:{}".format(*silent.getsockname()), patience=0.5) as client:
            for call in (CALLS["create_model"], CALLS["update"]):
                clock.slept.clear()
                with pytest.raises(httpx.ConnectError):
                    call(client)
                assert len(clock.slept) > 1


@pytest.mark.parametrize("kind", [Client, Awaited])
def test_what_cannot_be_sent_is_not_sent_again(kind: type[Client], clock: Clock) -> None:
    with kind("gopher://127.0.0.1") as client, pytest.raises(httpx.UnsupportedProtocol):
        client.models()
    assert clock.slept == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 413, 415, 422, 500, 507])
def test_what_was_refused_is_refused(status: int, script: Script, client: Client, clock: Clock) -> None:
    script.answers = [(status, {"retry-after": "0.1"})]
    for call in list(CALLS.values())[status % 4 :: 4]:  # each call has some of them
        script.seen.clear()
        with pytest.raises(ServiceProblem) as caught:
            call(client)
        assert (caught.value.status, len(script.seen), clock.slept) == (status, 1, [])


def test_a_service_that_says_how_long_it_compiles_is_waited_for(client: Client, script: Script, clock: Clock) -> None:
    began, starting = clock.now, (503, {"retry-after": "30"})
    script.answers = [*[starting] * int(2 * PATIENCE), (200, {})]
    client.models()
    assert clock.now - began > PATIENCE + 1.0


@pytest.mark.parametrize(
    ("name", "status", "waits"),
    [("retrain", 429, 0.5), ("models", 429, 0.5), ("update", 503, 0.5), ("put_dataset", DROP, 0.2)],
)
def test_patience_has_an_end(
    name: str, status: int, waits: float, client: Client, script: Script, clock: Clock
) -> None:
    script.answers = [(status, {"retry-after": "0.5"})]
    began = clock.now
    with pytest.raises(httpx.TransportError if status == DROP else ServiceProblem):
        CALLS[name](client)
    assert PATIENCE <= clock.now - began <= PATIENCE + 1.5 * waits
    assert clock.waited_at_least(*[waits] * len(clock.slept))
    assert len(script.seen) == len(clock.slept) + 1


@pytest.mark.parametrize("said", ["soon", "", "-3", "nan", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_wait_that_is_none_is_a_second(said: str, client: Client, script: Script, clock: Clock) -> None:
    script.answers = [(429, {"retry-after": said}), (200, {})]
    client.models()
    assert clock.waited_at_least(1.0)


def test_each_call_has_a_name_of_its_own(client: Client, script: Script) -> None:
    script.answers = [(200, {})]
    for name in ("update", "update", "restore", "restore", "apply", "apply"):
        CALLS[name](client)
    names = [name for _, _, name, _ in script.seen]
    assert None not in names
    assert len(set(names)) == len(names)
    client.update("m", ROWS, [1, -1], idempotency_key="mine")
    assert script.seen[-1][2] == "mine"
    assert all(before != after for before, after in pairwise(names))


@pytest.mark.parametrize("body", ['["a list"]', "{", '"text"', "", "<script>x</script><h1>Log\nin</h1>"])
@pytest.mark.parametrize("status", [200, 302, 500])
def test_an_answer_that_is_none_of_the_service_is_reported_as_it_is(status: int, body: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, headers={"location": "/login"} if status == 302 else {}, text=body)

    with Client("http://unused/svm") as client:
        client._http = httpx.Client(base_url="http://unused/svm", transport=httpx.MockTransport(answer))
        with pytest.raises(ServiceProblem) as caught:
            client.models()
    said = str(caught.value)
    assert caught.value.status == status
    assert "http://unused/svm/models" in said
    assert ("sending to /login" in said) == (status == 302)
    assert "Log in" in said if "Log" in body else "<" not in said


@pytest.mark.parametrize("kind", [Client, Awaited])
@pytest.mark.parametrize(("name", "field"), [("models", "models"), ("series", "series"), ("fleet_forecast", "rows")])
def test_a_list_is_asked_for_page_by_page(kind: type[Client], name: str, field: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        asked = int(request.url.params.get("after", 0))
        following = {} if asked == 3 else {"next": str(asked + 1)}
        return httpx.Response(200, json={field: [request.url.params["limit"], asked]} | following)

    made = httpx.Client if kind is Client else httpx.AsyncClient
    with kind("http://unused") as client:
        own = client if kind is Client else client._client  # type: ignore[attr-defined]
        own._http = made(base_url="http://unused", transport=httpx.MockTransport(answer))
        assert CALLS[name](client) == ["1000", 0, "1000", 1, "1000", 2, "1000", 3]


def _by_hash(front: TlsFront) -> str:
    subprocess.run(["openssl", "rehash", front.ca.parent], check=True)
    return str(front.ca.parent)


TRUSTED: dict[str, Callable[[TlsFront], Any]] = {
    "text": lambda front: str(front.ca),
    "path": lambda front: front.ca,
    "context": lambda front: ssl.create_default_context(cafile=front.ca),
    "directory": _by_hash,
    "nothing": lambda front: False,
}


@pytest.mark.parametrize("kind", [Client, Awaited])
@pytest.mark.parametrize("trusted", TRUSTED)
def test_an_authority_of_its_own_is_trusted(
    kind: type[Client], trusted: str, front: TlsFront, script: Script, clock: Clock
) -> None:
    script.answers = [(200, {})]
    with kind(f"https://127.0.0.1:{front.port}", verify=TRUSTED[trusted](front)) as client:
        assert client.models() == []
        assert client.is_ready()


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_the_environment_names_the_authority(
    name: str, front: TlsFront, script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script.answers = [(200, {})]
    monkeypatch.setenv(name, str(front.ca) if name == "SSL_CERT_FILE" else _by_hash(front))
    assert main(["models", "list", "--url", f"https://127.0.0.1:{front.port}"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("kind", [Client, Awaited])
@pytest.mark.parametrize("call", [lambda client: client.models(), lambda client: client.is_ready()])
def test_a_certificate_that_is_not_trusted_is_said_at_once(
    call: Call, kind: type[Client], front: TlsFront, script: Script, clock: Clock
) -> None:
    advice = {"127.0.0.1": "authority in SSL_CERT_FILE, or", "localhost": "by a name that its certificate has"}
    for host, verify in (("127.0.0.1", True), ("localhost", front.ca)):
        with (
            kind(f"https://{host}:{front.port}", verify=verify) as client,
            pytest.raises(httpx.ConnectError, match=advice[host]),
        ):
            call(client)
    assert (script.seen, clock.slept) == ([], [])


def test_a_command_says_what_is_not_trusted_or_cannot_be_read(
    front: TlsFront,
    script: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "ca.pem").write_text("none")
    for file, said in (
        ("", "cannot be reached: its certificate is not trusted"),
        (str(tmp_path / "gone.pem"), "gone.pem: No such file or directory; name a PEM file"),
        (str(tmp_path / "ca.pem"), "ca.pem: "),
    ):
        monkeypatch.setenv("SSL_CERT_FILE", file)
        assert main(["models", "list", "--url", f"https://127.0.0.1:{front.port}"]) == 1
        assert said in capsys.readouterr().err
