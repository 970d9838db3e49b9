"""What runs next to the requests goes on, whatever happens to it once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from livesvm.service.lifecycle.parts import Service
from livesvm.service.settings import Settings
from livesvm.service.store.base import StoreUnavailable
from tests.support.waiting import until


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr("livesvm.service.lifecycle.parts.PING_SECONDS", 0.01)
    made = Service(Settings(data_dir=tmp_path, lease_seconds=1.0))
    made.health.restored()
    yield made
    made.close()


@pytest.mark.parametrize("error", [StoreUnavailable, RuntimeError, KeyError, OSError])
@pytest.mark.parametrize("work", ["hosting.watch", "store.ping", "hosting.take_over"])
def test_a_watch_goes_on_after_a_failure(
    work: str, error: type[Exception], service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def fail(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise error("once more")

    owner, name = work.split(".")
    monkeypatch.setattr(getattr(service, owner), name, fail)
    service.watch()
    until(lambda: tries >= 3)
