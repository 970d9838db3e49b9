"""The demonstration does what it says, and fails when it should."""

from __future__ import annotations

import os
import re
import runpy
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest

from livesvm.service.cli.main import main
from livesvm.service.client import Client, ServiceProblem
from livesvm.service.demo import feed, rise
from livesvm.service.demo.data.fisher_river import examples, load
from livesvm.service.demo.errors import DemoError
from livesvm.service.demo.rise import certify, learn
from livesvm.service.demo.server import Server
from tests.documents import blocks


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory that temporary files go to, one of the test's own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_two_months_end_well_and_leave_nothing_behind(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["demo", "--months", "2", "--picture", str(temporary / "river.png")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("livesvm.service.demo", run_name="__main__")
    reported, errors_said = capsys.readouterr()
    assert ended.value.code == 0, errors_said
    days = re.findall(r"^(\S+) +((?:\d\.\d{3} +){9})((?:\d+% +){3})", reported, flags=re.MULTILINE)
    assert [day for day, *_ in days] == ["1990-01-29", "1990-02-28"]
    errors = np.array(days[-1][1].split(), float).reshape(3, 3)
    assert (errors[:, 0] <= errors[:, 2] + 2e-3).all()  # training again forecasts no better
    rows = re.findall(r"^(\S+)\.\.(\S+)\s+(\S+)\s+30/30 ", reported, flags=re.MULTILINE)
    assert rows == [("1990-01-07", "1990-02-05", "1988-02-07"), ("1990-02-06", "1990-03-07", "1988-03-08")]
    forecasts, updates = (block.splitlines() for block in blocks("README.md", "text")[:2])
    assert all(line in reported for line in [*forecasts[:2], *updates[:2]])
    assert [line.split()[:4] for line in forecasts[2:]] == [[day, *errors.split()[:3]] for day, errors, _ in days]
    assert all(line.partition("30/30")[0] in reported for line in updates[2:])
    assert "2 updates, 60 days learnt and 60 forgotten" in reported
    assert [path.name for path in temporary.iterdir()] == ["river.png"]
    assert (temporary / "river.png").read_bytes().startswith(b"\x89PNG")


def test_keep_leaves_the_service_up_and_says_how_to_stop_it(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Kept(Server):
        """One whose process is known."""

        def start(self) -> None:
            super().start()
            assert self._process is not None
            started.append(self._process)

    monkeypatch.setattr("livesvm.service.demo.main.Server", Kept)
    for part in (feed, rise):
        monkeypatch.setattr(part, "run", lambda *_: None)
    monkeypatch.setattr(Client, "feed_plot", lambda *_: b"")
    try:
        assert main(["demo", "--months", "1", "--keep", "--picture", str(temporary / "river.png")]) == 0
        reported = capsys.readouterr().out
        address, pid, place = re.search(r"up at (\S+) .*kill (\d+) && rm -r (\S+)", reported, flags=re.DOTALL).groups()  # type: ignore[union-attr]
        assert Path(place).parent == temporary
        assert httpx.get(f"{address}/health/live").status_code == 200
        os.kill(int(pid), signal.SIGTERM)
        assert started[0].wait(30) == 0
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{address}/health/live")
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_bad_certificate_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    good = {"relative_gap": 1e-10, "max_violation": 1e-10}
    monkeypatch.setattr(Client, "certificate", lambda _client, _model: good)
    assert certify(Client("http://service")) == good
    for bad in ({"relative_gap": 2e-8}, {"max_violation": 2e-7}, {"relative_gap": float("nan")}):
        monkeypatch.setattr(Client, "certificate", lambda _client, _model, bad=bad: good | bad)
        with pytest.raises(DemoError, match="not good enough"):
            certify(Client("http://service"))


def test_a_feed_off_its_optimum_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    for gap, passes in ((1e-10, True), (2e-8, False), (float("nan"), False)):
        monkeypatch.setattr(Client, "feed_certificate", lambda _client, _feed, gap=gap: {"relative_gap": gap})
        if passes:
            assert feed.certify(Client("http://service")) == gap
        else:
            with pytest.raises(DemoError, match="off its optimum"):
                feed.certify(Client("http://service"))


def test_a_service_that_forecasts_otherwise_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"accepted": 1, "forecasts": [{"value": 1.0}]}
    monkeypatch.setattr(Client, "observe", lambda *_arguments: answer)
    copy = SimpleNamespace(observe=lambda _rows: SimpleNamespace(forecasts=[SimpleNamespace(value=1.001)]))
    with pytest.raises(DemoError, match=r"from 1990-01-01 the service forecast \[1.0\]"):
        feed.send(Client("http://service"), copy, [{"date": "1990-01-01"}])  # type: ignore[arg-type]


def test_an_answer_with_other_keys_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    days = examples(load())[:2]
    answer = {"added": list(days.dates), "removed": []}
    monkeypatch.setattr(Client, "update", lambda *_arguments, **_named: answer)
    assert learn(Client("http://service"), days, oldest=0) == answer
    with pytest.raises(DemoError, match="other keys"):
        learn(Client("http://service"), days, oldest=1)


def test_a_refusal_ends_it_with_what_the_service_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_arguments: object, **_named: object) -> None:
        raise ServiceProblem(422, {"title": "The request cannot be used", "detail": "the reason"})

    monkeypatch.setattr(Server, "start", lambda _server: None)
    monkeypatch.setattr(Client, "create_feed", refuse)
    assert main(["demo", "--months", "1"]) == 1
    assert "422 The request cannot be used: the reason" in capsys.readouterr().err
