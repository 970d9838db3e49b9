"""The order of an end: no thread asks the store once it is closed."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from livesvm.service.api.app import create_app
from livesvm.service.lifecycle import parts
from livesvm.service.models.spec import ModelSpec
from livesvm.service.settings import Settings

CYCLES = 4


class Slow:
    """A store with calls that take a while, which notes the calls after its end."""

    def __init__(self, store: Any) -> None:
        self._store, self._is_closed = store, False
        self.late: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*given: Any, **named: Any) -> Any:
            time.sleep(0.1 if name == "ping" else 0.003)
            if self._is_closed:
                self.late.append(f"{name} in thread {threading.current_thread().name}")
            return found(*given, **named)

        return call

    def close(self) -> None:
        self._is_closed = True
        self._store.close()


@pytest.mark.parametrize("is_restored", [True, False])
def test_no_thread_asks_a_store_that_is_closed(
    is_restored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened: list[Slow] = []

    def open_slow(*given: Any) -> Slow:
        opened.append(Slow(open_store(*given)))
        return opened[-1]

    open_store = parts.open_store
    monkeypatch.setattr(parts, "open_store", open_slow)
    monkeypatch.setattr(parts, "_warm_up", lambda: None)
    monkeypatch.setattr(parts, "PING_SECONDS", 0.001)
    monkeypatch.setattr(parts, "TAKE_OVERS", 1000)

    async def cycle(number: int) -> None:
        app = create_app(Settings(data_dir=tmp_path, page=False, compile_ahead=False))
        service = app.state.service
        async with app.router.lifespan_context(app):
            while is_restored and not service.health.is_restored:
                await asyncio.sleep(0.001)
            if is_restored and not number:
                service.models().create("m", ModelSpec(C=1.0))
            await asyncio.sleep(0.01 * number)

    with caplog.at_level(logging.WARNING):
        for number in range(CYCLES):
            asyncio.run(cycle(number))
    time.sleep(0.1)
    assert [late for store in opened for late in store.late] == []
    assert caplog.messages == []
