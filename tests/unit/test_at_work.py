"""What is said before and while something is compiled: where a person sees it, how much is left, and where nothing."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from types import SimpleNamespace

import pytest

from livesvm.solvers.runtime import at_work as module
from livesvm.solvers.runtime.at_work import BEFORE, SETTLED, AtWork

FIRST_FIT = """
import numpy as np
from livesvm.solvers.estimators.classification import LiveSVC
from livesvm.solvers.estimators.one_class import LiveOneClassSVM
from livesvm.solvers.estimators.regression import LiveSVR
from livesvm.solvers.runtime import machine_code
from livesvm.solvers.runtime.at_work import at_work

X = np.random.default_rng(0).normal(size=(60, 3))
for model, y in ((LiveSVC(gamma=0.5), np.where(X[:, 0] > 0, 1, -1)), (LiveSVR(gamma=0.5), X[:, 0]),
                 (LiveOneClassSVM(gamma=0.5), None)):
    model.fit(X, y)
    model.update(add=(X[:3], None if y is None else y[:3]), remove=model.keys_[:3])
    model.predict(X[:3])
print(len(machine_code.in_use))
at_work.translate()
at_work.translate()
"""


class Terminal(io.StringIO):
    """A terminal at which every function takes a second."""

    seconds = 0.0

    def isatty(self) -> bool:
        return True

    def perf_counter(self) -> float:
        return self.seconds

    def translate(self, work: AtWork, functions: int) -> None:
        for _ in range(functions):
            work.translate()
            self.seconds += 1.0


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Where a process without a log prints."""
    made = Terminal()
    monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=made, modules={}))
    monkeypatch.setattr(logging.root, "handlers", [])
    return made


def test_what_is_left_takes_as_long_as_what_is_done_did(terminal: Terminal) -> None:
    work = AtWork()
    assert (work.progress(), work.seconds_left()) == ("", 0.0)
    with work.expect(40):
        with work.call():
            terminal.translate(work, SETTLED - 1)
            assert work.progress() == "compiling: 9 of 40 functions"
            terminal.translate(work, 1)
            assert work.progress() == "compiling: 10 of 40 functions, about 30 s left"
        terminal.seconds += 100.0  # of something else
        assert work.seconds_left() == 30.0
    assert (work.progress(), work.seconds_left()) == ("", 0.0)


def test_progress_is_shown_and_wiped(terminal: Terminal) -> None:
    logging.root.handlers.clear()  # pytest's own
    work = AtWork()
    with work.expect(40), work.call():
        terminal.translate(work, 20)
    lines = [line.strip() for line in terminal.getvalue().split("\r")]
    assert "compiling: 5 of 40 functions" in lines
    assert "compiling: 20 of 40 functions, about 19 s left" in lines
    assert lines[-2:] == ["", ""]


def test_more_than_was_expected_is_not_estimated(terminal: Terminal) -> None:
    work = AtWork()
    with work.expect(5), work.call():
        terminal.translate(work, 12)
        assert work.progress() == "compiling: 12 functions so far"
        assert work.seconds_left() == 0.0


@pytest.mark.parametrize("quiet", ["no terminal", "a log", "a level"])
def test_nothing_is_shown_where_it_would_be_in_the_way(
    quiet: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    if quiet == "no terminal":
        logging.root.handlers.clear()
        monkeypatch.setattr(terminal, "isatty", lambda: False)
    elif quiet == "a log":
        logging.root.handlers.append(logging.NullHandler())
    else:
        logging.root.handlers.clear()
        monkeypatch.setattr(module.log, "isEnabledFor", lambda level: level > logging.WARNING)
    work = AtWork()
    with work.call():
        terminal.translate(work, 30)
    assert terminal.getvalue() == ""


def test_a_first_fit_needs_ten_functions_and_what_is_translated_is_said_once() -> None:
    """Without a log Python prints the one line that is logged."""
    done = subprocess.run([sys.executable, "-c", FIRST_FIT], capture_output=True, text=True, timeout=240, check=True)
    assert (done.stdout, done.stderr) == ("10\n", BEFORE + "\n")
