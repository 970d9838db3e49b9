"""Lines between a front end and an actor: answers in any order, access, and what callers get when one is lost."""

from __future__ import annotations

import asyncio
import hmac
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import trustme

pytest.importorskip("ray")

from livesvm.service.ray.lines import ASKS, HASH, HEAD, LARGEST, SECRET_BYTES, ActorLines, Endpoint, Listener
from tests.support.waiting import until

SLOW = b"slow"
PATIENCE = 30.0


class Actor:
    """Answers with what it is asked, and what is slow only when that is allowed."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.loop = asyncio.new_event_loop()
        self.go_on = asyncio.Event()
        self.listener = Listener(self.answer)
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.at: Endpoint = asyncio.run_coroutine_threadsafe(self.listener.endpoint("127.0.0.1"), self.loop).result()

    async def answer(self, message: bytes) -> bytes:
        """Return the message."""
        self.asked.append(message)
        if message == SLOW:
            await self.go_on.wait()
        if message == b"fail":
            raise ValueError("it fails")
        return message

    async def end(self) -> None:
        """Listen no more, and release what waits."""
        assert self.listener._server is not None
        self.listener._server.close()
        self.go_on.set()
        await asyncio.sleep(0.05)


@contextmanager
def running() -> Iterator[Actor]:
    """Yield an actor until the end."""
    made = Actor()
    try:
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(made.end(), made.loop).result()
        made.loop.call_soon_threadsafe(made.loop.stop)
        made.thread.join()
        made.loop.close()


@pytest.fixture(scope="module")
def actor() -> Iterator[Actor]:
    with running() as made:
        yield made


@pytest.fixture
def lines() -> Iterator[ActorLines]:
    made = ActorLines()
    yield made
    made.close()


def ask(lines: ActorLines, message: bytes) -> Future[bytes]:
    """Return the answer by the line, which there soon is."""
    end = time.monotonic() + PATIENCE
    while (found := lines.ask("actor", message)) is None:
        assert time.monotonic() < end
        time.sleep(0.005)
    return found


def test_answers_come_as_they_are_ready_and_whole(actor: Actor, lines: ActorLines) -> None:
    lines.find("actor", actor.at)
    slow = ask(lines, SLOW)
    large = bytes(range(256)) * 20_000
    assert [ask(lines, part).result(PATIENCE) for part in (b"", b"a", large)] == [b"", b"a", large]
    assert not slow.done()
    actor.loop.call_soon_threadsafe(actor.go_on.set)
    assert slow.result(PATIENCE) == SLOW
    assert lines.ask("actor", bytes(LARGEST + 1)) is None  # Ray's way is another one


@pytest.mark.parametrize("how", ["it fails", "it is given up"])
def test_a_waiting_caller_on_a_line_that_is_lost_hears_of_it(actor: Actor, lines: ActorLines, how: str) -> None:
    actor.loop.call_soon_threadsafe(actor.go_on.clear)
    lines.find("actor", actor.at)
    waiting = ask(lines, SLOW)
    if how == "it fails":
        ask(lines, b"fail")
    else:
        lines.lose("actor")
    with pytest.raises(ConnectionError):
        waiting.result(PATIENCE)
    lines.lose("actor")
    lines.find("actor", actor.at)  # and there is another one
    assert ask(lines, b"again").result(PATIENCE) == b"again"


@pytest.mark.parametrize("proof", ["another secret", "the secret itself", "the proof of the other end", "too much"])
def test_nothing_is_heard_before_a_proof(actor: Actor, lines: ActorLines, proof: str) -> None:
    with socket.create_connection((actor.at.host, actor.at.port), timeout=PATIENCE) as plain:
        theirs = plain.recv(SECRET_BYTES, socket.MSG_WAITALL)
        own = bytes(SECRET_BYTES)
        plain.sendall(theirs if proof == "the proof of the other end" else own)
        if proof == "the proof of the other end":  # which answers the same challenge, and says that it is the actor's
            proved = plain.recv(SECRET_BYTES, socket.MSG_WAITALL)
        elif proof == "the secret itself":
            proved = actor.at.secret
        else:
            secret = actor.at.secret if proof == "too much" else bytes(SECRET_BYTES)
            proved = hmac.digest(secret, ASKS + theirs, HASH)
        size = LARGEST + 1 if proof == "too much" else 6
        plain.sendall(proved + HEAD.pack(1, size) + b"heard?")
        rest = b""
        try:
            while piece := plain.recv(100):
                rest += piece
        except ConnectionResetError:
            pass
        assert len(rest) <= SECRET_BYTES
    assert b"heard?" not in actor.asked
    lines.find("actor", actor.at)
    assert ask(lines, b"this is").result(PATIENCE) == b"this is"


def test_an_actor_that_does_not_know_the_secret_gets_no_calls(actor: Actor, lines: ActorLines) -> None:
    wrong = Endpoint(actor.at.host, actor.at.port, bytes(SECRET_BYTES))
    lines.find("actor", wrong)
    until(lambda: lines.refused.get("actor") == wrong)
    assert lines.ask("actor", b"") is None


def test_where_nothing_listens_there_is_no_line(lines: ActorLines) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nowhere = Endpoint("127.0.0.1", taken.getsockname()[1], bytes(SECRET_BYTES))
    lines.find("actor", nowhere)
    until(lambda: lines.refused.get("actor") == nowhere)
    assert lines.ask("actor", b"") is None


@pytest.fixture
def encrypted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Ray's own connections are encrypted, as its documentation says; a directory with the files."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "tls.key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    for name, file in (("SERVER_CERT", "tls.crt"), ("SERVER_KEY", "tls.key"), ("CA_CERT", "ca.crt")):
        monkeypatch.setenv(f"RAY_TLS_{name}", str(tmp_path / file))
    monkeypatch.setenv("RAY_USE_TLS", "1")
    return tmp_path


def test_lines_are_encrypted_where_ray_is(encrypted: Path) -> None:
    with running() as actor, closing(ActorLines()) as lines:
        lines.find("actor", actor.at)
        large = bytes(range(256)) * 20_000
        assert [ask(lines, part).result(PATIENCE) for part in (b"a", large)] == [b"a", large]
        with socket.create_connection((actor.at.host, actor.at.port), timeout=PATIENCE) as plain:
            plain.sendall(bytes(SECRET_BYTES))  # in clear
            assert len(heard(plain)) < SECRET_BYTES
        trusted = ssl.create_default_context(cafile=str(encrypted / "ca.crt"))
        with socket.create_connection((actor.at.host, actor.at.port), timeout=PATIENCE) as plain:
            stranger = trusted.wrap_socket(plain, server_hostname="127.0.0.1")
            with stranger:
                assert heard(stranger) == b""  # it has no certificate


def heard(plain: socket.socket) -> bytes:
    """Return what comes before the other side ends the connection."""
    try:
        return plain.recv(100)
    except (ConnectionResetError, ssl.SSLError):
        return b""


def test_first_questions_at_once_where_an_actor_listens_have_one_answer() -> None:
    async def ask() -> list[Endpoint]:
        listener = Listener(cast(Any, None))
        found = await asyncio.gather(*(listener.endpoint("127.0.0.1") for _ in range(4)))
        assert listener._server is not None
        listener._server.close()
        return found

    assert len(set(asyncio.run(ask()))) == 1
