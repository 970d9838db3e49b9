"""Both clients and the command line through nginx with a private authority, while a service under load is killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.client import AsyncClient, Client
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess
from tests.support.nginx import Nginx
from tests.support.updates_under_faults import MODEL, PROBE, batch

pytestmark = pytest.mark.operations

PATIENCE = 30.0
LEASE_SECONDS = 2
MODELS = ("sync-1", "sync-2", "async-1", "async-2", "command")
AFTER = 5
"""Rounds of each client after the kill."""


@dataclass
class Load:
    """What clients have done, each to a model of its own: rounds of calls, and what failed."""

    rounds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MODELS, 0))
    faults: list[str] = field(default_factory=list)
    ends: threading.Event = field(default_factory=threading.Event)

    def until(self, least: dict[str, int]) -> None:
        """Wait until each client has done so many rounds."""
        end = time.monotonic() + 240
        while any(self.rounds[model] < count for model, count in least.items()) and not self.faults:
            assert time.monotonic() < end, self.rounds
            time.sleep(0.05)

    def sync(self, nginx: Nginx, model: str) -> None:
        """Call until the end."""
        with Client(nginx.url, verify=nginx.ca, patience=PATIENCE) as client:
            while not self.ends.is_set():
                client.update(model, **added(self.rounds[model]))
                client.predict(model, PROBE)
                client.what_if(model, PROBE, C=2.0)
                client.model(model)
                client.examples(model, limit=3)
                self.rounds[model] += 1

    async def awaited(self, nginx: Nginx, model: str) -> None:
        """Do the same, awaiting."""
        async with AsyncClient(nginx.url, verify=nginx.ca, patience=PATIENCE) as client:
            while not self.ends.is_set():
                await client.update(model, **added(self.rounds[model]))
                await client.predict(model, PROBE)
                await client.what_if(model, PROBE, C=2.0)
                await client.model(model)
                await client.examples(model, limit=3)
                self.rounds[model] += 1

    def command(self, nginx: Nginx, place: Path) -> None:
        """Run commands until the end."""
        environment = os.environ | {"LIVESVM_URL": nginx.url, "SSL_CERT_FILE": str(nginx.ca)}
        while not self.ends.is_set():
            rows = added(self.rounds["command"])
            lines = [
                ",".join(map(str, (*x, y, key))) for x, y, key in zip(rows["X"], rows["y"], rows["keys"], strict=True)
            ]
            (place / "rows.csv").write_text("\n".join(["a,b,c,y,key", *lines]))
            for arguments in (("update", "command", str(place / "rows.csv")), ("certificate", "command")):
                command = [sys.executable, "-m", "livesvm.service.cli.main", *arguments]
                subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
            self.rounds["command"] += 1

    def noted(self, run: Any, *arguments: Any) -> threading.Thread:
        """Return the thread that runs a client, and notes how it failed."""

        def noting() -> None:
            try:
                run(*arguments)
            except subprocess.CalledProcessError as error:
                self.faults.append(f"{error.cmd}: {error.stderr}")
            except Exception as error:
                self.faults.append(f"{arguments}: {error!r}")

        thread = threading.Thread(target=noting)
        thread.start()
        return thread


def added(number: int) -> dict[str, Any]:
    """Return the examples of an update as clients take them."""
    rows: dict[str, Any] = batch(number)["add"]
    return rows


@pytest.fixture
def services(tmp_path: Path) -> Iterator[tuple[ServiceProcess, ServiceProcess, Nginx]]:
    """Two services on one Redis, and nginx before them."""
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path / "redis"))
        settings: dict[str, Any] = {"redis_url": redis.url, "lease_seconds": LEASE_SECONDS}
        first, second = (
            stack.enter_context(ServiceProcess(tmp_path / name, **settings)) for name in ("first", "second")
        )
        addresses = [service.url.removeprefix("http://") for service in (first, second)]
        upstream = f"upstream svm {{ server {addresses[0]} max_fails=1; server {addresses[1]} backup; keepalive 8; }}"
        location = "location / { proxy_pass http://svm; }"
        yield first, second, stack.enter_context(Nginx(tmp_path / "nginx", location, upstream))


def test_no_call_fails_and_nothing_is_doubled_when_a_service_is_killed(
    services: tuple[ServiceProcess, ServiceProcess, Nginx], tmp_path: Path
) -> None:
    first, second, nginx = services
    load = Load()
    with Client(nginx.url, verify=nginx.ca) as client:
        for model in MODELS:
            settings: dict[str, Any] = MODEL | {"id": model}
            client.create_model(**settings)
    threads = [load.noted(load.sync, nginx, model) for model in MODELS[:2]]
    threads += [load.noted(lambda model: asyncio.run(load.awaited(nginx, model)), model) for model in MODELS[2:4]]
    threads.append(load.noted(load.command, nginx, tmp_path))
    try:
        load.until(dict.fromkeys(MODELS, 2))
        first.kill()
        load.until({model: done + AFTER for model, done in load.rounds.items()})
    finally:
        load.ends.set()
        for thread in threads:
            thread.join()
    assert load.faults == []
    with Client(second.url) as client:
        for model, rounds in load.rounds.items():
            described = client.model(model)
            assert (described["version"], described["n_examples"]) == (rounds, min(60, 10 * rounds))
            assert client.certificate(model)["relative_gap"] <= 1e-8
    refused = [line.split('" ')[1][:3] for line in (tmp_path / "nginx/access.log").read_text().splitlines()]
    assert {"502", "503", "504"} & set(refused)  # it was noticed at all
