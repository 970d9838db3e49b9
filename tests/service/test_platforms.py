"""Systems other than Linux: what is not there is not asked for, and what does not run refuses with one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from livesvm.client import Client
from livesvm.service.cli.main import main
from livesvm.service.cli.serve import UNSUPPORTED
from livesvm.service.store import lock
from livesvm.service.store.base import StoreUnavailable
from tests.service.process import ServiceProcess, blobs


def test_the_service_needs_nothing_that_linux_alone_has(tmp_path: Path) -> None:
    process = ServiceProcess(tmp_path)
    process.module = "tests.service.without_linux"
    X, y = blobs(np.random.default_rng(0), 40)
    with process, Client(process.url) as client:
        client.create_model("river", kernel={"name": "rbf", "gamma": 0.5}, C=10.0)
        assert client.update("river", X[:30], y[:30])["durability"] == "fsynced"
        assert client.predict("river", X)["version"] == 1


def test_windows_is_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert main(["serve"]) == 2
    assert capsys.readouterr().err == UNSUPPORTED + "\n"
    monkeypatch.setattr(lock, "fcntl", None)
    with pytest.raises(StoreUnavailable, match="needs file locks"):
        lock.DirectoryLock(tmp_path)
