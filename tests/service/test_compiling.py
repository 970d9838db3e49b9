"""Missing machine code is compiled in the background; calls that need it wait and say so."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from livesvm.service.lifecycle import parts
from livesvm.service.resources import compiling
from livesvm.service.resources.compiling import Compiling
from livesvm.solvers.runtime.machine_code import directory
from livesvm.solvers.warm_up import FAMILIES, Family
from tests.service.process import ServiceProcess

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Compiling]:
    """Return a Compiling with nothing compiled, and commands in place of the compiler."""

    def made(command: Callable[..., list[str]]) -> Compiling:
        monkeypatch.setattr(compiling, "is_compiled", lambda family: False)
        monkeypatch.setattr(compiling, "compiler", command)
        return Compiling()

    return made


def test_one_after_the_other_is_compiled(compiled: Callable[..., Compiling], tmp_path: Path) -> None:
    def command(family: Family) -> list[str]:
        return [sys.executable, "-c", f"open({str(tmp_path / 'order')!r}, 'a').write('{family};')"]

    at_work = compiled(command)
    at_work.begin()
    at_work.wait_for("outlier paths", lambda: None)
    for family in FAMILIES:
        at_work.wait_for(family, lambda: None)
    assert at_work.left() == ()
    order = (tmp_path / "order").read_text().split(";")[:-1]
    assert sorted(order) == sorted(FAMILIES)
    assert order.index("outlier paths") < 3  # it was the last, and a call waited for it


def test_a_waiting_caller_can_leave(compiled: Callable[..., Compiling]) -> None:
    at_work = compiled(lambda family: SLEEP)
    at_work.begin()

    def leave() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        at_work.wait_for("assessments", leave)
    at_work.close()
    at_work.wait_for("assessments", lambda: None)
    assert at_work.left() == ()


def test_a_compiler_that_fails_keeps_no_call_waiting(
    compiled: Callable[..., Compiling], caplog: pytest.LogCaptureFixture
) -> None:
    at_work = compiled(lambda family: [sys.executable, "-c", "raise SystemExit(3)"])
    at_work.begin()
    at_work.wait_for("assessments", lambda: None)
    assert "could not be compiled" in caplog.text


@pytest.mark.alone(reason="a task of the cluster compiles what it needs")
def test_a_job_waits_for_its_solvers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything kept but the knowledge that assessments are, the compiler runs, and finds it all."""
    kept = directory()
    assert kept is not None
    shutil.copytree(kept, tmp_path / "kept" / "machine-code")
    for mark in (tmp_path / "kept" / "machine-code").glob("complete-assessments-*"):
        mark.unlink()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    with ServiceProcess(tmp_path / "data") as service, service.http() as http:
        ready = http.get("/health/ready").json()
        assert ready["degraded"] == ["solvers of assessments are being compiled: what needs them takes longer"]
        http.post("/models", json={"id": "m", "task": "svc"}).raise_for_status()
        batch = {"add": {"X": [[0.0], [1.0], [2.0], [3.0]], "y": [-1, 1, -1, 1]}}
        http.post("/models/m/update", json=batch).raise_for_status()
        asked = http.post("/models/m/assessment", json={"method": "leave-one-out"})
        asked.raise_for_status()
        seen = []
        while (job := http.get(f"/jobs/{asked.json()['id']}").json())["state"] in ("queued", "running"):
            seen.append(job.get("waits_for"))
            time.sleep(0.02)
        assert job["state"] == "done"
        assert "waits_for" not in job
        assert "the solvers of assessments to be compiled" in seen
        assert "degraded" not in http.get("/health/ready").json()


def test_the_first_compiled_call_is_made_before_there_are_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()
    monkeypatch.setattr(parts, "call_compiled_code", lambda: done.append("call"))
    works: Any = SimpleNamespace(_bring_back=lambda: done.append("work"), _warm_up=lambda: done.append("work"))
    for ended in parts.Service.begin(works):
        ended.result()
    assert done == ["call", "work", "work"]
