"""What runs next to the requests goes on, whatever happens to it once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from livesvm.service.lifecycle.parts import Service
from livesvm.service.settings import Settings
from livesvm.service.store.base import StoreUnavailable


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr("livesvm.service.lifecycle.parts.PING_SECONDS", 0.01)
    made = Service(Settings(data_dir=tmp_path, lease_seconds=1.0))
    made.health.restored()
    yield made
    made.close()


@pytest.mark.parametrize("error", [StoreUnavailable, RuntimeError, KeyError, OSError])
@pytest.mark.parametrize(
    ("task", "work"),
    [("watch_store", "hosting.watch"), ("watch_store", "store.ping"), ("take_models_over", "hosting.take_over")],
)
def test_a_watch_goes_on_after_a_failure(
    task: str, work: str, error: type[Exception], service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = asyncio.Event()
    count = 0
    loop = asyncio.new_event_loop()

    def fail(*_: object) -> None:
        nonlocal count
        count += 1
        if count == 3:
            loop.call_soon_threadsafe(tries.set)
        raise error("once more")

    owner, name = work.split(".")
    monkeypatch.setattr(getattr(service, owner), name, fail)

    async def until_tried() -> None:
        running = asyncio.create_task(getattr(service, task)())
        waiting = asyncio.create_task(tries.wait())
        done, _ = await asyncio.wait({running, waiting}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        assert done == {waiting}
        running.cancel()

    try:
        loop.run_until_complete(until_tried())
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
