"""Lines between a front end and an actor: answers in any order, who is let in, and what is told when one is lost."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

pytest.importorskip("ray")

from livesvm.service.ray.lines import HEAD, Lines, Number, Switchboard

SLOW = b"slow"
PATIENCE = 30.0


class Actor:
    """Answers with what it is asked, and what is slow only when it is let go on."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.loop = asyncio.new_event_loop()
        self.go_on = asyncio.Event()
        self.board = Switchboard(self.answer)
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.at: Number = asyncio.run_coroutine_threadsafe(self.board.number("127.0.0.1"), self.loop).result()

    async def answer(self, message: bytes) -> bytes:
        """The message."""
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


@pytest.fixture(scope="module")
def actor() -> Iterator[Actor]:
    made = Actor()
    yield made
    asyncio.run_coroutine_threadsafe(made.end(), made.loop).result()
    made.loop.call_soon_threadsafe(made.loop.stop)
    made.thread.join()
    made.loop.close()


@pytest.fixture
def lines() -> Iterator[Lines]:
    made = Lines()
    yield made
    made.close()


def ask(lines: Lines, message: bytes) -> Future[bytes]:
    """The answer by the line, which there soon is."""
    told: Future[bytes] = Future()

    def done(answer: bytes | None, error: BaseException | None) -> None:
        if error is not None:
            told.set_exception(error)
        elif answer is not None:
            told.set_result(answer)

    end = time.monotonic() + PATIENCE
    while not lines.ask("actor", message, done):
        assert time.monotonic() < end
        time.sleep(0.005)
    return told


def heard(plain: socket.socket) -> bytes:
    """What comes before the other side ends the connection."""
    try:
        return plain.recv(100)
    except ConnectionResetError:
        return b""


def test_answers_come_as_they_are_ready_and_whole(actor: Actor, lines: Lines) -> None:
    lines.find("actor", actor.at)
    slow = ask(lines, SLOW)
    large = bytes(range(256)) * 20_000
    assert [ask(lines, part).result(PATIENCE) for part in (b"", b"a", large)] == [b"", b"a", large]
    assert not slow.done()
    actor.loop.call_soon_threadsafe(actor.go_on.set)
    assert slow.result(PATIENCE) == SLOW


@pytest.mark.parametrize("how", ["it fails", "it is given up"])
def test_who_waits_on_a_line_that_is_lost_hears_of_it(actor: Actor, lines: Lines, how: str) -> None:
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


def test_nothing_is_heard_without_the_secret(actor: Actor, lines: Lines) -> None:
    for start in (bytes(32), b"x" * 33, b""):
        with socket.create_connection((actor.at.host, actor.at.port), timeout=PATIENCE) as plain:
            plain.sendall(HEAD.pack(0, len(start)) + start + HEAD.pack(1, 6) + b"heard?")
            assert heard(plain) == b""
    lines.find("actor", actor.at)
    assert ask(lines, b"this is").result(PATIENCE) == b"this is"
    assert b"heard?" not in actor.asked


def test_where_nobody_listens_there_is_no_line(lines: Lines) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    lines.find("actor", Number("127.0.0.1", port, bytes(32)))
    time.sleep(0.1)
    assert not lines.ask("actor", b"", lambda answer, error: None)
