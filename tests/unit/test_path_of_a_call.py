"""How much own code an update and a prediction over HTTP pass through: a bound on calls, functions and files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

MOST = {
    "update": {"calls": 315, "functions": 245, "files": 45, "changes of file": 180},
    "predict": {"calls": 120, "functions": 96, "files": 28, "changes of file": 69},
}
"""What was reached; these may only go down."""
SPARE = 4
"""Calls that a run may make besides, by how its numbers are rounded: another free example, another function of that."""


ONCE = {"matrix": 1, "LiveSVC.settled_targets": 1, "LiveEstimator._check_scale": 1}
ONCE |= dict.fromkeys(["_matrix", "check_labels", "as_labels", "column_of", "known_keys", "new_keys"], 0)
"""How often an update checks its rows, its labels and its scale, and what would do it again."""


@pytest.fixture(scope="module")
def walk() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.support.walk", "--update"]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_a_call_passes_no_more_own_code_than_before(walk: subprocess.CompletedProcess[str]) -> None:
    found = json.loads(walk.stdout)
    more = {
        f"{kind}: {what}": (count, MOST[kind][what])
        for kind, counts in found.items()
        for what, count in counts.items()
        if count > MOST[kind][what] + SPARE
    }
    assert not more, f"see `python -m tests.support.walk --update`: {more}"


def test_an_update_is_checked_once(walk: subprocess.CompletedProcess[str]) -> None:
    calls = Counter(line.split(" ", 1)[1] for line in walk.stderr.splitlines() if line.startswith("livesvm/"))
    assert {name: calls[name] for name in ONCE} == ONCE
