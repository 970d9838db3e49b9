"""Settings: each documented, each checked, nothing open by accident."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.cli import main
from service.settings import PREFIX, Settings, is_loopback, table

README = Path(__file__).parents[2] / "README.md"


def test_every_setting_says_what_it_means() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.rstrip().endswith("."), name


@pytest.mark.parametrize("name", [name for name, _, _ in table()])
def test_every_setting_is_in_the_readme(name: str) -> None:
    assert f"`{name}`" in README.read_text()


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}QUEUE_SIZE", "3")
    assert Settings().queue_size == 3


def test_the_defaults_are_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, _, _ in table():
        monkeypatch.delenv(name, raising=False)
    settings = Settings()
    assert is_loopback(settings.host)
    assert settings.max_body_bytes == 8 * 2**20
    assert settings.solves >= 1


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_what_loopback_is(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HOST", "0.0.0.0", "without LIVESVM_API_KEYS the service binds to a loopback address only"),
        ("PORT", "70000", "LIVESVM_PORT: "),
        ("SOLVES", "0", "LIVESVM_SOLVES: "),
        ("LOG_LEVEL", "loud", "LIVESVM_LOG_LEVEL: "),
        ("API_KEYS", "me:everything:123", "entry 1 of the API keys"),
    ],
)
def test_wrong_settings_are_told_and_nothing_starts(
    name: str,
    value: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    for blas in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(blas, "1")
    monkeypatch.setenv(f"{PREFIX}DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv(PREFIX + name, value)
    assert main(["serve"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_the_command_prints_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings"]) == 0
    plain = capsys.readouterr().out
    assert main(["settings", "--markdown"]) == 0
    markdown = capsys.readouterr().out
    for name, default, meaning in table():
        assert f"{name}={default}\n    {meaning}" in plain
        assert f"| `{name}` |" in markdown
