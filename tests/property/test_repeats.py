"""Windows of the size users have, in which rows come again: no call hangs, and each ends at the optimum.

What a call costs is judged by counts: events, turns, strides without an event, and factors made again.
`python -m tests.benchmarks.fair_work` goes through many more windows, by the clock.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from livesvm import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from livesvm.solvers.active_set.workspace import Status, Walk
from livesvm.solvers.homotopy import run
from livesvm.solvers.homotopy.run import Trace
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.problem.state import PathState
from tests.repeats import FAMILIES, table

MOVED = 40


class Watched:
    """What the walks since the last look have counted."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.walks: list[Any] = []
        self._tally = run.tally
        patch.setattr(run, "tally", self._noted)

    def _noted(self, state: PathState, w: Walk, trace: Trace) -> Status:
        self.walks.append(Status.snapshot(w.at))
        return self._tally(state, w, trace)

    def check(self, report: UpdateReport, model: Any) -> None:
        """Assert that a call cost no more turns than its events explain, and ended at the optimum."""
        for at in self.walks:
            assert at.turns <= 2 * at.events + 100, at
            assert at.idle <= 10 + at.events // 20, at
        assert report.rounds <= 6
        assert report.refactorizations <= 4
        certificate = model.certificate()
        assert certificate.relative_gap <= 1e-7 or certificate.duality_gap <= certificate.rounding
        self.walks.clear()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """The counts of every walk."""
    return Watched(monkeypatch)


def slides(model: Any, X: Any, y: Any, n: int, watched: Watched) -> None:
    """Fill a window of ``n``, slide it over new rows and over those that it holds, weigh and remove."""
    rows = np.arange(n)
    report = model.update((X[rows], None if y is None else y[rows]))
    model.certificate()
    watched.walks.clear()
    for first in (n, n - 5 * MOVED, n - 4 * MOVED, n):
        come = slice(first, first + MOVED)
        report = model.update((X[come], None if y is None else y[come]), remove=model.keys_[:MOVED])
        assert not report.abandoned
        watched.check(report, model)
    watched.check(model.update(decay=0.8), model)
    watched.check(model.update(reweight=dict.fromkeys(model.keys_[-MOVED:], 0.3)), model)
    watched.check(model.update(remove=model.keys_[::10]), model)


SIZES: list[tuple[str, int, float, Any]] = [(family, 1000, 10.0, "scale") for family in FAMILIES]
SIZES += [(family, 2600, 1.0, 0.5) for family in ("agreeing", "categories", "few_categories", "stuck")]


@pytest.mark.parametrize(("family", "n", "C", "gamma"), SIZES)
def test_classification(family: str, n: int, C: float, gamma: Any, watched: Watched) -> None:
    rows = table(family, n + MOVED)
    model = IncrementalSVC(C=C, gamma=gamma, classes=(-1, 1))
    slides(model, rows.X, rows.label, n, watched)
    watched.check(model.update(relabel=dict.fromkeys(model.keys_[:MOVED], -1)), model)
    for change in (2.0, 0.5):
        watched.check(model.update(C=change * model.C), model)


@pytest.mark.parametrize("family", ["categories", "replay", "stuck", "all_equal", "grid"])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_regression(family: str, epsilon: float, watched: Watched) -> None:
    n = 800
    rows = table(family, n + MOVED)
    slides(IncrementalSVR(C=10.0, epsilon=epsilon), rows.X, rows.target, n, watched)


@pytest.mark.parametrize("family", ["categories", "copies", "all_equal"])
def test_one_class(family: str, watched: Watched) -> None:
    n = 1500
    slides(IncrementalOneClassSVM(nu=0.2, gamma=0.1), table(family, n + MOVED).X, None, n, watched)


@pytest.mark.parametrize("family", ["categories", "copies"])
def test_several_classes(family: str, watched: Watched) -> None:
    n = 1200
    rows = table(family, n + MOVED)
    model = IncrementalSVC(C=10.0, gamma=0.1)
    slides(model, rows.X, np.digitize(rows.target, [-0.7, 0.0, 0.7]), n, watched)


@pytest.mark.parametrize("C", [1e-3, 1e6])
@pytest.mark.parametrize("family", ["categories", "copies", "stuck"])
def test_a_linear_kernel(family: str, C: float, watched: Watched) -> None:
    n = 900
    rows = table(family, n + MOVED)
    slides(IncrementalSVC(C=C, kernel="linear", classes=(-1, 1)), rows.X, rows.label, n, watched)


def test_batches_that_are_in_the_window_already() -> None:
    random = np.random.default_rng(0)
    n = 1000
    y = np.where(np.arange(n) % 2, 1, -1)
    X = (random.normal(size=(n, 20)) + 0.15 * y[:, None]).round(6)
    model = IncrementalSVC(C=10.0, gamma=0.05).fit(X, y)
    random = np.random.default_rng(100)
    labels = np.array([1, -1] * 20)
    batches = [(random.normal(size=(40, 20)) + 0.15 * labels[:, None]).round(6) for _ in range(14)]
    for batch in batches + batches:
        report = model.update((batch, labels), remove=model.keys_[:40])
        assert report.events < 300
        assert not report.abandoned
    assert model.certificate().relative_gap <= 1e-9


def test_a_large_window_of_copies_is_filled(watched: Watched) -> None:
    random = np.random.default_rng(1)
    base = random.normal(size=(900, 5))
    X = base[random.integers(0, 900, 4200)]
    y = np.where(X[:, 0] + 0.8 * random.normal(size=4200) > 0, 1, -1)
    model = IncrementalSVC(C=10.0)
    report = model.update((X[:4000], y[:4000]))
    assert report.events < 3 * 4000
    watched.check(report, model)
