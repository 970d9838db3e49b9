"""What an idle service does: next to nothing."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.service.process import ServiceProcess

CALM_SECONDS, SECONDS, TRIES = 6.0, 6.0, 4
MOST = 4.0  #: times a second that its threads may wake, all together

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts what Linux counts of threads")


def wakes(pid: int) -> dict[str, int]:
    """Return how often each thread of a process has waited until now, by its number."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
        found[task.name] = int(lines["voluntary_ctxt_switches"])
    return found


def test_nothing_wakes_an_idle_service_often(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service:
        with service.http() as http:
            for id_ in ("a", "b", "c"):
                http.post("/models", json={"id": id_, "C": 1.0}).raise_for_status()
                add = {"X": [[0.0], [1.0], [2.0]], "y": [-1, 1, 1]}
                http.post(f"/models/{id_}/update", json={"add": add}).raise_for_status()
        time.sleep(CALM_SECONDS)  # what follows a start and an update ends
        found = []
        for _ in range(TRIES):  # a busy disk makes a thread wait more often for the same
            before = wakes(service.pid)
            time.sleep(SECONDS)
            found.append({task: count - before.get(task, 0) for task, count in wakes(service.pid).items()})
            if sum(found[-1].values()) <= MOST * SECONDS:
                break
    assert min(sum(each.values()) for each in found) <= MOST * SECONDS, found
    assert min(each[str(service.pid)] for each in found) == 0, "the event loop waits for requests and signals alone"
