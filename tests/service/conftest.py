"""One service for all tests that neither stop nor break it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from livesvm.service.cli.main import main
from tests.service.process import ServiceProcess
from tests.support.live_models import FailingStore

Make = Callable[..., str]
Told = Callable[..., Any]


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path_factory.mktemp("service"), max_body_bytes=2**20, max_models=2000) as process:
        yield process


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the service logged of its own failures, with a test that failed."""
    report = yield
    process = getattr(item, "funcargs", {}).get("service")
    if report.failed and isinstance(process, ServiceProcess):
        lines = [line for line in process.errors.splitlines() if '"level": "error"' in line]
        report.sections.append(("errors of the service", "\n".join(lines[-3:])))
    return report


@pytest.fixture(scope="session")
def http(service: ServiceProcess) -> Iterator[httpx.Client]:
    with service.http() as client:
        yield client


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FailingStore]:
    with closing(FailingStore(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture
def reported(service: ServiceProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    """Run a command that succeeds; what it prints as JSON."""
    monkeypatch.setenv("LIVESVM_URL", service.url)

    def run(*arguments: object) -> Any:
        assert main([*map(str, arguments), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


_numbers = itertools.count()


@pytest.fixture
def make(http: httpx.Client) -> Iterator[Make]:
    """Create models that are deleted after the test; without ``C=None`` or "auto" they do not tune themselves."""
    made: list[str] = []

    def create(**spec: Any) -> str:
        if spec.get("task", "svc") in ("svc", "svr"):
            spec = {"C": 1.0} | spec
        answer = http.post("/models", json={"id": f"test-{next(_numbers)}", **spec})
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
        return made[-1]

    yield create
    for model in made:
        http.delete(f"/models/{model}")
