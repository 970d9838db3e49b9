"""Settings: each documented, each checked, nothing open by accident."""

from __future__ import annotations

from pathlib import Path

import pytest

from livesvm.service.access.hosts import is_loopback
from livesvm.service.access.keys import digest
from livesvm.service.cli.main import main
from livesvm.service.settings import PREFIX, Settings, table


def test_every_setting_says_what_it_means() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.rstrip().endswith("."), name


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}QUEUE_SIZE", "3")
    assert Settings().queue_size == 3


def test_settings_that_may_be_empty_are_their_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = [name for name, default, _ in table() if default == ""]
    for name in empty:
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("LIVESVM_CRASH_AT", "never")  # read elsewhere
    monkeypatch.setenv("livesvm_queue_size", "3")  # as the environment's names are read everywhere
    assert (Settings().api_keys, Settings().queue_size) == ("", 3)
    assert "LIVESVM_API_KEYS" in empty


def test_any_host_is_for_those_with_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}API_KEYS", f"me:read:{'0' * 64}")
    monkeypatch.setenv(f"{PREFIX}ALLOWED_HOSTS", "*")
    assert Settings().allowed_hosts == "*"


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
        ("WORKERS", "2", "LIVESVM_WORKERS is gone: use LIVESVM_RAY=local, with models in Redis"),
        ("LOG_LEVEL", "loud", "LIVESVM_LOG_LEVEL: "),
        ("API_KEYS", "me:everything:123", "entry 1 of the API keys"),
        ("API_KEYS", ",", "entry 1 of the API keys is blank"),
        ("API_KEYS", " , ", "entry 1 of the API keys is blank"),
        ("API_KEYS", " ", "LIVESVM_API_KEYS is blank"),
        ("API_KEYS", f"me:read:{'0' * 64},", "entry 2 of the API keys is blank"),
        ("API_KEYS", f"me:read:{digest('')}", "entry 1 of the API keys is that of a blank secret"),
        ("API_KEYS", f"me:read:{'0' * 64}\n{'0' * 64}", "entry 1 of the API keys"),
        ("API_KEYS_FILE", "/nowhere/keys", "LIVESVM_API_KEYS_FILE=/nowhere/keys cannot be read: No such file"),
        ("API_KEYS_FILE", "/dev/null", "/dev/null holds no API key"),
        ("ALLOWED_HOSTS", "*", "without LIVESVM_API_KEYS LIVESVM_ALLOWED_HOSTS lists names"),
        ("ALLOWED_HOSTS", "a.example, *", "without LIVESVM_API_KEYS LIVESVM_ALLOWED_HOSTS lists names"),
        ("ALLOWED_HOSTS", ",", "entry 1 of the allowed hosts is blank"),
        ("ALLOWED_HOSTS", "a.example:80", "entry 1 of the allowed hosts is no name or address, without a port"),
        ("ALLOWED_HOSTS", "a.example,http://b.example", "entry 2 of the allowed hosts is no name"),
        ("ROOT_PATH", "ml", "LIVESVM_ROOT_PATH: is a path such as /ml/livesvm"),
        ("ROOT_PATH", "/ml/../x", "LIVESVM_ROOT_PATH: is a path such as /ml/livesvm"),
        ("ROOT_PATH", "/models/live", "LIVESVM_ROOT_PATH: /models is a path of the service itself"),
        ("HOST", "", "LIVESVM_HOST is blank; unset it"),
        ("DATA_DIR", "", "LIVESVM_DATA_DIR is blank; unset it"),
        ("BODY_SECONDS", "inf", "LIVESVM_BODY_SECONDS: "),
        ("PRT", "1", "LIVESVM_PRT is no setting; did you mean LIVESVM_PORT?"),
        ("MAX_BODY_BYTE", "1", "LIVESVM_MAX_BODY_BYTE is no setting; did you mean LIVESVM_MAX_BODY_BYTES?"),
        ("XYZZY_PLUGH", "", "LIVESVM_XYZZY_PLUGH is no setting; `livesvm settings` lists them all"),
    ],
)
def test_wrong_settings_are_reported_and_nothing_starts(
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
    monkeypatch.setattr("livesvm.service.process.start.start", lambda settings: 0)  # what is not refused would serve
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


def test_traces_are_asked_for_only_where_they_are_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings(traces=True).traces
    monkeypatch.setattr("livesvm.service.logs.traces.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"livesvm\[otel\]"):
        Settings(traces=True)
