"""Which clients may hold a connection, and what counts as one client."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from fastapi import Request

from livesvm.service.api.edge.admission import Admission
from livesvm.service.api.edge.clients import client_of
from livesvm.service.api.routes.access import awaited
from livesvm.service.errors import TurnMissed, Withdrawn
from livesvm.service.resources.pools import Pool
from livesvm.service.resources.solve_scheduler import Solve


@dataclass(eq=False)
class Connection:
    client_key: str
    rests_since: float | None = None
    admission: Admission | None = None
    was_closed: bool = field(default=False)

    def make_room(self) -> None:
        self.was_closed = True
        if self.admission is not None:
            self.admission.leave(self)  # as a closed connection does, once more


def test_so_many_in_all_and_so_many_a_client() -> None:
    admission = Admission(5, 3)
    own = [Connection("a") for _ in range(3)]
    assert all(admission.admit(connection) for connection in own)
    assert not admission.admit(Connection("a"))
    assert all(admission.admit(Connection(name)) for name in "bc")
    assert not admission.admit(Connection("d"))
    for _ in range(2):  # the second time it is not held any more
        admission.leave(own[0])
    assert admission.admit(Connection("d"))
    assert not admission.admit(Connection("e"))


def test_what_has_rested_longest_makes_space() -> None:
    admission = Admission(10, 3)
    own = [Connection("a", rests_since, admission) for rests_since in (None, 3.0, 2.0)]
    assert all(admission.admit(connection) for connection in own)
    other = Connection("b", 1.0)
    admission.admit(other)
    for expected in (own[2], own[1]):
        assert not expected.was_closed
        assert admission.admit(Connection("a"))
        assert expected.was_closed
    assert not admission.admit(Connection("a"))
    assert (own[0].was_closed, other.was_closed) == (False, False)


def test_the_client_with_most_connections_makes_space_for_others() -> None:
    admission = Admission(4, 4)
    hoarder = [Connection("a", 10.0 + n) for n in range(3)]
    lone = Connection("b", 1.0)
    for connection in (*hoarder, lone):
        assert admission.admit(connection)
    assert admission.admit(Connection("c"))
    assert [connection.was_closed for connection in (*hoarder, lone)] == [True, False, False, False]


@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("::1", "127.0.0.1", False),
        ("", "127.0.0.1", False),
    ],
)
def test_what_counts_as_one_client(one: str, other: str, are_one: bool) -> None:
    assert (client_of(one) == client_of(other)) is are_one


class CallElsewhere(Future[Any]):
    """A call of another process, which ends it as withdrawn where it is cancelled here."""

    def cancel(self) -> bool:
        if not self.done():
            self.set_exception(Withdrawn("it was withdrawn"))
        return False


@dataclass
class Caller:
    leaves: bool

    async def receive(self) -> dict[str, str]:
        if not self.leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}


@pytest.mark.parametrize("call", [Future, CallElsewhere])
def test_a_call_that_is_late_has_missed_its_turn_wherever_it_waits(call: Any) -> None:
    caller, solve = cast(Request, Caller(leaves=False)), Solve(until=time.monotonic())
    with pytest.raises(TurnMissed):
        asyncio.run(awaited(caller, call(), solve, changes=False))
    with pytest.raises(Withdrawn):
        asyncio.run(awaited(cast(Request, Caller(leaves=True)), call(), Solve(), changes=False))


def test_what_is_worked_on_in_a_thread_ends_when_its_caller_has_left() -> None:
    pool, solve, begun, ended = Pool("p", threads=1, limit=1), Solve(), threading.Event(), threading.Event()

    def work() -> None:
        """Go on for as long as it is wanted."""
        begun.set()
        try:
            while True:
                solve.check()
                time.sleep(0.001)
        finally:
            ended.set()

    async def asked() -> None:
        """Ask, and leave once it has begun."""
        future = pool.begin(work)
        await asyncio.to_thread(begun.wait)
        await awaited(cast(Request, Caller(leaves=True)), future, solve, changes=False)

    try:
        with pytest.raises(Withdrawn):
            asyncio.run(asked())
        assert ended.wait(60.0)
    finally:
        solve.end(Withdrawn("the test is over"))
        pool.close()
