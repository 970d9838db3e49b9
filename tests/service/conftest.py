"""One service for all tests that neither stop nor break it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.process import ServiceProcess
from tests.support.live_models import FailingStore

Make = Callable[..., str]


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path_factory.mktemp("service"), max_body_bytes=2**20, max_models=2000) as process:
        yield process


@pytest.fixture(scope="session")
def http(service: ServiceProcess) -> Iterator[httpx.Client]:
    with service.http() as client:
        yield client


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FailingStore]:
    with closing(FailingStore(tmp_path / "store")) as opened:
        yield opened


_numbers = itertools.count()


@pytest.fixture
def make(http: httpx.Client) -> Iterator[Make]:
    """Create models that are deleted after the test."""
    made: list[str] = []

    def create(**spec: Any) -> str:
        answer = http.post("/models", json={"id": f"test-{next(_numbers)}", **spec})
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
        return made[-1]

    yield create
    for model in made:
        http.delete(f"/models/{model}")
