"""From nothing: how much is compiled, what is said meanwhile, and a client that waits for it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from livesvm.client import Client
from livesvm.solvers.runtime.at_work import BEFORE
from livesvm.solvers.warm_up import FAMILIES, FUNCTIONS
from tests.service.process import START_SECONDS, ServiceStartedAfresh

pytestmark = pytest.mark.operations

SCRIPT = """
from livesvm.solvers.runtime.at_work import at_work
from livesvm.solvers.warm_up import FAMILIES, warm_up
for family in FAMILIES:
    before = at_work.done
    warm_up(family)
    print(at_work.done - before)
"""


def test_each_family_translates_as_many_functions_as_is_said(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    assert dict(zip(FAMILIES, map(int, done.stdout.split()), strict=True)) == FUNCTIONS
    assert done.stderr == BEFORE + "\n"


def test_a_service_says_how_much_is_left_and_a_client_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "code"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = ServiceStartedAfresh(tmp_path / "data", port=port, compile_ahead=False)
    process.launch()
    with ExitStack() as stack:
        stack.push(process)
        http = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False))
        end, found = time.monotonic() + START_SECONDS, None
        while found is None:
            assert time.monotonic() < end
            time.sleep(0.1)
            with suppress(httpx.TransportError):
                answer = http.get("/health/ready")
                found = re.search(r"compiling: \d+ of (\d+) functions, about (\d+) s left", answer.text)
        assert 0 <= int(found[1]) - FUNCTIONS["updates"] <= 1  # one is there before the others are counted
        assert abs(int(answer.headers["retry-after"]) - int(found[2])) <= 3
        with Client(f"http://127.0.0.1:{port}", patience=5.0) as client:
            assert list(client.models()) == []  # asked long before there is an answer
    assert BEFORE in process.errors
    assert "compiling: " in process.errors
