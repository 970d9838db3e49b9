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
from types import SimpleNamespace

import pytest
import trustme

pytest.importorskip("ray")

from livesvm.service.remote.frames import ASKS, CHALLENGE_BYTES, HASH, HEAD, MAC_BYTES, PLACE
from livesvm.service.remote.rpc import Answering, Endpoint, RpcClientPool, RpcServer

SLOW = b"slow"
PATIENCE = 30.0


class Actor:
    """Answers with what it is asked, and what is slow only when it is closed on."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.loop = asyncio.new_event_loop()
        self.go_on = asyncio.Event()
        self.board = RpcServer(self.answer)
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.at: Endpoint = asyncio.run_coroutine_threadsafe(self.board.number("127.0.0.1"), self.loop).result()

    async def answer(self, message: bytes) -> bytes:
        """Return the message."""
        self.asked.append(message)
        if message == SLOW:
            await self.go_on.wait()
        if message == b"fail":
            raise ValueError("it fails")
        return message

    async def end(self) -> None:
        """Listen no more, and let go on what waits."""
        assert self.board._server is not None
        self.board._server.close()
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
def lines() -> Iterator[RpcClientPool]:
    made = RpcClientPool()
    yield made
    made.close()


def ask(lines: RpcClientPool, message: bytes) -> Future[bytes]:
    """Return the answer by the line, which there soon is."""
    reported: Future[bytes] = Future()

    def done(answer: bytes | None, error: BaseException | None) -> None:
        if error is not None:
            reported.set_exception(error)
        elif answer is not None:
            reported.set_result(answer)

    end = time.monotonic() + PATIENCE
    while not lines.ask("actor", message, done):
        assert time.monotonic() < end
        time.sleep(0.005)
    return reported


def heard(plain: socket.socket) -> bytes:
    """Return what comes before the other side ends the connection."""
    try:
        return plain.recv(100)
    except (ConnectionResetError, ssl.SSLError):
        return b""


def test_answers_come_as_they_are_ready_and_whole(actor: Actor, lines: RpcClientPool) -> None:
    lines.find("actor", actor.at)
    slow = ask(lines, SLOW)
    large = bytes(range(256)) * 20_000
    assert [ask(lines, part).result(PATIENCE) for part in (b"", b"a", large)] == [b"", b"a", large]
    assert not slow.done()
    actor.loop.call_soon_threadsafe(actor.go_on.set)
    assert slow.result(PATIENCE) == SLOW


@pytest.mark.parametrize("how", ["it fails", "it is given up"])
def test_a_waiting_caller_on_a_line_that_is_lost_hears_of_it(actor: Actor, lines: RpcClientPool, how: str) -> None:
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


def test_an_answer_for_a_connection_that_was_lost_meanwhile_is_dropped() -> None:
    sent: list[bytes] = []

    async def take() -> None:
        """Have a call answered, and wait for that."""

        async def answer(message: bytes) -> bytes:
            """Return the message."""
            return message

        line = Answering(answer, b"secret")
        line.transport = SimpleNamespace(is_closing=lambda: True, write=sent.append)
        line.frame(1, b"update")
        await asyncio.gather(*line._under_way)

    asyncio.run(take())
    assert sent == []


class Talker:
    """The other end of a line written by hand, with or without the secret."""

    def __init__(self, at: Endpoint, secret: bytes) -> None:
        self.plain = socket.create_connection((at.host, at.port), timeout=PATIENCE)
        theirs, own = self.plain.recv(CHALLENGE_BYTES), bytes(CHALLENGE_BYTES)
        self.plain.sendall(own)
        self.key = hmac.digest(secret, ASKS + own + theirs, HASH)

    def __enter__(self) -> socket.socket:
        return self.plain

    def __exit__(self, *error: object) -> None:
        self.plain.close()

    def framed(self, place: int, frame: bytes, *, number: int = 1) -> bytes:
        """Return a frame with its place in the connection."""
        signed = HEAD.pack(number, len(frame)) + frame
        return signed + hmac.digest(self.key, PLACE.pack(place) + signed, HASH)


def test_nothing_is_heard_without_the_secret(actor: Actor, lines: RpcClientPool) -> None:
    with Talker(actor.at, bytes(32)) as plain:
        plain.sendall(actor.at.secret)  # which is no proof
        assert heard(plain) == b""
    for first in (b"", b"heard?"):
        with (talker := Talker(actor.at, bytes(32))) as plain:
            plain.sendall(talker.framed(0, first) + talker.framed(1, b"heard?"))
            assert heard(plain) == b""
    lines.find("actor", actor.at)
    assert ask(lines, b"this is").result(PATIENCE) == b"this is"
    assert b"heard?" not in actor.asked


@pytest.mark.parametrize("what", ["changed", "repeated", "large at first", "of another connection"])
def test_every_frame_is_looked_at_before_it_is_heard(actor: Actor, what: str) -> None:
    with (talker := Talker(actor.at, actor.at.secret)) as plain:
        said = talker.framed(1, f"said and {what}".encode())
        if what == "large at first":
            plain.sendall(talker.framed(0, b"heard?") + said)
            assert heard(plain) == b""
            return
        plain.sendall(talker.framed(0, b"") + said)
        proof = plain.recv(HEAD.size + MAC_BYTES, socket.MSG_WAITALL)
        assert HEAD.unpack_from(proof) == (0, 0)
        assert len(plain.recv(len(said), socket.MSG_WAITALL)) == len(said)  # it is answered, and then no more
        if what == "changed":
            plain.sendall(talker.framed(2, b"heard!").replace(b"heard!", b"heard?"))
        elif what == "repeated":
            plain.sendall(said)
        else:
            with (other := Talker(actor.at, actor.at.secret)) as again:
                again.sendall(talker.framed(0, b""))
                assert heard(again) == b""
                assert other.key != talker.key
            plain.sendall(other.framed(2, b"heard?"))
        assert heard(plain) == b""
    assert b"heard?" not in actor.asked
    assert actor.asked.count(f"said and {what}".encode()) == 1


def test_an_actor_that_does_not_know_the_secret_gets_no_calls(actor: Actor, lines: RpcClientPool) -> None:
    wrong = Endpoint(actor.at.host, actor.at.port, bytes(32))
    lines.find("actor", wrong)
    end = time.monotonic() + PATIENCE
    while lines._refused.get("actor") != wrong:
        assert time.monotonic() < end
        time.sleep(0.005)
    assert not lines.ask("actor", b"", lambda answer, error: None)


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
    with running() as actor, closing(RpcClientPool()) as lines:
        lines.find("actor", actor.at)
        large = bytes(range(256)) * 20_000
        assert [ask(lines, part).result(PATIENCE) for part in (b"a", large)] == [b"a", large]
        with socket.create_connection((actor.at.host, actor.at.port), timeout=PATIENCE) as plain:
            plain.sendall(bytes(CHALLENGE_BYTES))  # in clear
            assert len(heard(plain)) < CHALLENGE_BYTES
        trusted = ssl.create_default_context(cafile=str(encrypted / "ca.crt"))
        with socket.create_connection((actor.at.host, actor.at.port), timeout=PATIENCE) as plain:
            stranger = trusted.wrap_socket(plain, server_hostname="127.0.0.1")
            with stranger:
                assert heard(stranger) == b""  # it has no certificate


def test_where_nothing_listens_there_is_no_line(lines: RpcClientPool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    lines.find("actor", Endpoint("127.0.0.1", port, bytes(32)))
    time.sleep(0.1)
    assert not lines.ask("actor", b"", lambda answer, error: None)
