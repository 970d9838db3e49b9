"""What a start need not do: import what no request needs, and compile."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import httpx

from tests.service.process import START_SECONDS, ServiceStartedAfresh

SCRIPT = """
import sys
import numpy as np
import livesvm.service.api.app, livesvm.service.process.start
from livesvm.service.models.commands import Removal
from livesvm.solvers.models.change import Batch, Change, Edits
from livesvm.service.models.state import ModelState
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.tasks import TASKS
from livesvm.service.models.window import WindowLimits
from livesvm.solvers import leave_one_out, warm_up
from livesvm.solvers.runtime.at_work import at_work

warm_up()
rng = np.random.default_rng(0)
X, y = rng.normal(size=(12, 2)), rng.choice([-1.0, 1.0], 12)
for task in TASKS:
    own = {"prior": 0.4} if task == "pu" else {}
    spec = ModelSpec(id="m", task=task, kernel={"name": "rbf", "gamma": 0.5}, **own)
    state = ModelState.empty(spec, 8)
    targets = {"oneclass": None, "pu": np.maximum(y, 0.0)}
    added = Batch(X, targets.get(task, y))
    for update in (Change(added), Change(remove=Removal(oldest=2), edits=Edits(reweight={5: 0.5}, decay=0.9))):
        state.apply(state.window.plan(update, WindowLimits(100, 10), 0.0, None))
    state = ModelState.decode(spec, 8, state.encode())
    if TASKS[task].is_exact:
        state.estimator.predictor().decision_function(X)
        state.estimator.certificate()
        leave_one_out(state.estimator)
heavy = "duckdb matplotlib opentelemetry.sdk pandas pyarrow ray redis scipy.special skl2onnx sklearn".split()
compiles = "numba.np.polynomial.polynomial_core"  # which Numba loads where something is compiled
for name in (*heavy, "scipy.stats", *[compiles] * (at_work.done == 0)):
    if name in sys.modules:
        print(name, "was imported")
"""


def test_models_are_served_without_importing_what_no_request_needs() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_models_begin_to_come_back_before_the_web_framework_is_loaded() -> None:
    script = "import sys, livesvm.service.process.start; print('fastapi' in sys.modules, 'uvicorn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout == "False False\n", done.stderr


def test_a_port_that_is_taken_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environment = {"LIVESVM_PORT": str(taken.getsockname()[1]), "LIVESVM_DATA_DIR": str(tmp_path / "data")}
        done = subprocess.run(
            [sys.executable, "-m", "livesvm.service"],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 1
    assert "cannot listen on 127.0.0.1 port" in done.stderr
    assert not (tmp_path / "data").exists()


def test_other_users_read_nothing_of_the_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "datasets" / "old").mkdir(parents=True)
    (data / "datasets" / "old" / "X.npy").touch(mode=0o644)
    data.chmod(0o755)
    before = os.umask(0o022)
    try:
        with ServiceStartedAfresh(data) as service, service.http() as http:
            assert http.post("/models", json={"id": "m", "C": 1.0}).status_code == 201
            assert http.post("/models/m/update", json={"add": {"X": [[0.0], [1.0]], "y": [1, -1]}}).status_code == 200
            assert http.put(
                "/datasets/new", content=b"0.5,1\n0.7,-1\n", headers={"content-type": "text/csv"}
            ).is_success
            found = {path: path.stat().st_mode & 0o777 for path in data.rglob("*")}
    finally:
        os.umask(before)
    assert {path for path, mode in found.items() if mode & 0o077} == set()
    assert len(found) > 5
    assert f"other users can read the names in the data directory {data} (mode 755): chmod 700 it" in service.errors


def test_a_start_says_what_it_waits_for(tmp_path: Path) -> None:
    """No solver is compiled yet, and none is while the test looks."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = ServiceStartedAfresh(tmp_path, port=port)
    process.module = "tests.service.held_warm_up"
    with ExitStack() as stack:
        process.launch()
        stack.push(process)
        url = f"http://127.0.0.1:{port}"
        end = time.monotonic() + START_SECONDS
        reason = "the solvers are being loaded or compiled"
        while "loading the solvers" not in process.errors or said(f"{url}/health/ready") != (503, reason):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert said(f"{url}/health/live")[0] == 200
        assert said(f"{url}/models") == (503, reason)
        (tmp_path / "go").touch()
        while said(f"{url}/health/ready")[0] != 200:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert process.stop() == 0
        assert "the solvers are loaded, after" in process.errors


def test_a_stop_does_not_wait_for_the_compiler(tmp_path: Path) -> None:
    """No solver is ever compiled here."""
    process = ServiceStartedAfresh(tmp_path)
    process.module = "tests.service.held_warm_up"
    process.launch()
    end = time.monotonic() + START_SECONDS
    while "loading the solvers" not in process.errors:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert process.stop() == 0
    assert "Traceback" not in process.errors


def said(url: str) -> tuple[int, str]:
    """Return the status of an answer, and its detail."""
    try:
        answer = httpx.get(url, trust_env=False, timeout=30)
    except httpx.TransportError:
        return 0, ""
    return answer.status_code, answer.json().get("detail", "")
