"""The rehearsal before readiness: everything in it is accepted, and nothing of it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from livesvm.service.api.app import create_app
from livesvm.service.process.rehearsal import DIRECTORY, play, rehearse
from tests.service.process import ServiceStartedAfresh


def test_every_request_is_accepted(tmp_path: Path) -> None:
    play(tmp_path / DIRECTORY, create_app)


def test_it_ends_on_a_slow_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every answer is late enough to check whether its client still waits."""
    monkeypatch.setattr("livesvm.service.api.routes.access.SOON_SECONDS", 0.0)
    play(tmp_path / DIRECTORY, create_app)


def test_the_environment_has_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVESVM_MAX_EXAMPLES", "1")
    monkeypatch.setenv("LIVESVM_REDIS_URL", "redis://not-asked:1")
    play(tmp_path / DIRECTORY, create_app)


def test_nothing_stays_of_it(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).mkdir()
    (tmp_path / DIRECTORY / "cut off").touch()
    rehearse(tmp_path, create_app)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_reported_and_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rehearse(tmp_path, lambda settings: 1 / 0)  # type: ignore[arg-type,return-value]
    assert "the rehearsal failed" in caplog.text


def test_it_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / DIRECTORY).mkdir()  # which only a rehearsal removes
    service = ServiceStartedAfresh(tmp_path)
    service.waits_for_models = False  # asking for readiness is counted
    with service, service.http() as http:
        text = http.get("/metrics").text
        assert 'livesvm_updates_total{outcome="applied",task="svc"} 0.0' in text
        assert "livesvm_http_requests_total{" not in text
        assert http.get("/models").json() == {"models": [], "next": None}
        assert not (tmp_path / DIRECTORY).exists()
