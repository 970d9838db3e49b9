"""How much own code an update and a prediction over HTTP pass through: a bound on calls, functions and files."""

from __future__ import annotations

import json
import subprocess
import sys

MOST = {
    "update": {"calls": 383, "functions": 307, "files": 54, "changes of file": 240},
    "predict": {"calls": 120, "functions": 95, "files": 26, "changes of file": 66},
}
"""What was reached; these may only go down."""
SPARE = 4
"""Calls that a run may make besides, by how its numbers are rounded: another free example, another function of that."""


def test_a_call_passes_no_more_own_code_than_before() -> None:
    told = subprocess.run([sys.executable, "-m", "tests.support.walk"], capture_output=True, text=True, check=True)
    found = json.loads(told.stdout)
    more = {
        f"{kind}: {what}": (count, MOST[kind][what])
        for kind, counts in found.items()
        for what, count in counts.items()
        if count > MOST[kind][what] + SPARE
    }
    assert not more, f"see `python -m tests.support.walk --update`: {more}"
