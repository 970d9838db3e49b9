"""Requests that one front end passes on to another: the caller's name goes along, and no API key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from livesvm.service.access import vouching
from livesvm.service.access.keys import digest, parse_keys
from livesvm.service.access.vouching import Vouching
from livesvm.service.api.app import create_app
from livesvm.service.api.forwarding import MEANT, Forwarding
from livesvm.service.api.vouched import VOUCHED
from livesvm.service.jobs.other_front_ends import FrontEnd
from livesvm.service.settings import Settings

ADMIN, READER = "a secret of the admin", "a secret of who reads"
KEYS = f"boss:admin:{digest(ADMIN)},guest:read:{digest(READER)}"
JOB = "job-00000000-there"
APPLY = {"choice": {"C": 1.0}}


@dataclass
class Fronts:
    """What a front end knows of another one."""

    holder: str
    vouching: Vouching = field(default_factory=Vouching)
    other: FrontEnd | None = None

    @property
    def mark(self) -> str:
        return f"-{self.holder}"

    def holding(self, job: str) -> FrontEnd | None:
        return self.other

    def others(self) -> list[FrontEnd]:
        return [] if self.other is None else [self.other]

    def leave(self) -> None:
        pass


@dataclass
class Two:
    """A front end as clients ask it, another one that it passes requests on to, and what has gone to that one."""

    first: httpx.AsyncClient
    second: httpx.AsyncClient
    secret: bytes
    passed: list[httpx.Request]

    async def ask(
        self, secret: str, method: str = "GET", path: str = f"/jobs/{JOB}", body: Any = None
    ) -> httpx.Response:
        return await self.first.request(method, path, json=body, headers={"authorization": f"Bearer {secret}"})


@asynccontextmanager
async def two(place: Path, keys: str = KEYS) -> AsyncIterator[Two]:
    passed: list[httpx.Request] = []

    async def note(request: httpx.Request) -> None:
        passed.append(request)

    async with AsyncExitStack() as stack:
        apps = []
        for name, given in (("here", KEYS), ("there", keys)):
            app = create_app(Settings.model_construct(data_dir=place / name, api_keys=given))
            stack.callback(app.state.service.close)
            app.state.service.health.restored()
            app.state.service.fronts = Fronts(name)
            apps.append(app)
        first, second = apps
        theirs = second.state.service.fronts
        first.state.service.fronts.other = FrontEnd("there", "http://127.0.0.1", theirs.vouching.secret)
        here, there = (
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") for app in apps
        )
        for client in (here, there):
            await stack.enter_async_context(client)
        first.state.forwarding = Forwarding()
        hooks = {"request": [note]}
        between = httpx.AsyncClient(transport=httpx.ASGITransport(second), event_hooks=cast(Any, hooks))
        first.state.forwarding._client = await stack.enter_async_context(between)
        yield Two(here, there, theirs.vouching.secret, passed)


def test_the_caller_is_known_there_and_no_key_goes_along(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two(tmp_path) as fronts:
            for secret in (ADMIN, READER):
                assert (await fronts.ask(secret)).status_code == 404  # there is no such job there
            assert (await fronts.ask(ADMIN, "POST", f"/jobs/{JOB}/apply?max_seconds=5", APPLY)).status_code == 404
            assert (await fronts.ask(ADMIN, path="/jobs")).json() == {"jobs": []}
            assert len(fronts.passed) == 4
            for request in fronts.passed:
                reported = str(request.headers.raw)
                keys = ("authorization", ADMIN, READER, digest(ADMIN), digest(READER))
                assert not any(part in reported for part in keys)
            assert (await fronts.ask(READER, "DELETE")).status_code == 403
            assert (await fronts.ask("a guess")).status_code == 401
            assert len(fronts.passed) == 4

    asyncio.run(scenario())


@pytest.mark.parametrize("what", ["nothing", "path", "body", "name", "scope", "clock"])
def test_a_word_holds_for_one_request_once(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with two(tmp_path) as fronts:
            admin, guest = parse_keys(KEYS)
            path, name, body = f"/jobs/{JOB}/apply", "once", b'{"choice":{"C":1.0}}'
            asked = f"POST\n{path}\n{name}\napplication/json".encode()
            word = vouching.vouch(fronts.secret, guest if what == "scope" else admin, asked, body)
            if what == "path":
                path = f"/jobs/{JOB}2/apply"
            elif what == "body":
                body = body.replace(b"1.0", b"2.0")
            elif what == "name":
                name = "twice"
            elif what == "scope":
                word = word.replace("guest:read", "boss:admin")
            elif what == "clock":
                now = time.time() + vouching.SECONDS + 2
                monkeypatch.setattr(vouching, "time", SimpleNamespace(time=lambda: now))
            head = {VOUCHED: word, MEANT: "there", "content-type": "application/json", "idempotency-key": name}
            reported = [await fronts.second.post(path, content=body, headers=head) for _ in range(2)]
            assert [answer.status_code for answer in reported] == [404 if what == "nothing" else 401, 401]

    asyncio.run(scenario())


def test_front_ends_with_other_keys_say_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two(tmp_path, f"other:admin:{digest(ADMIN)}") as fronts:
            answer = await fronts.ask(ADMIN)
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:livesvm:problem:job-elsewhere")
            assert "LIVESVM_API_KEYS" in answer.json()["detail"]
            assert (await fronts.ask(ADMIN, path="/jobs")).json() == {"jobs": [], "unanswered": ["there"]}

    asyncio.run(scenario())


def test_words_are_forgotten_that_do_not_hold_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(vouching, "time", SimpleNamespace(time=lambda: now[0]))
    believer = Vouching()
    assert [believer._is_first(nonce, now[0]) for nonce in ("a", "b", "a")] == [True, True, False]
    now[0] += 2 * vouching.SECONDS + 1
    assert believer._is_first("c", now[0])
    assert set(believer._used) == {"c"}
