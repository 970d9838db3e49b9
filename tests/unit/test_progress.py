"""Progress is reported at once, steadily, and also while there is nothing new to tell; the receiver may cancel."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC, k_fold, leave_one_out
from livesvm.solvers.analyses.outlier import path as outlier
from livesvm.solvers.analyses.regularization import continuation
from livesvm.solvers.errors import Cancelled
from livesvm.solvers.runtime import progress
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.progress import Progress, steadily

N = 1200

JOBS: dict[str, Callable[[Any, Progress], Any]] = {
    "path": lambda model, tell: model.regularization_path(0.1, 10.0, progress=tell),
    "outliers": lambda model, tell: model.outlier_path("theta", progress=tell),
    "leave one out": lambda model, tell: leave_one_out(model, progress=tell),
    "k fold": lambda model, tell: k_fold(model, 5, progress=tell),
}


@pytest.fixture(scope="module")
def model() -> IncrementalSVC:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 40))
    return IncrementalSVC(C=0.1, gamma=0.01).fit(X, np.where(X[:, 0] + rng.normal(size=N) > 0, 1, -1))


class Heard:
    """Notes what it hears, in which thread, and cancels once it has heard so much."""

    def __init__(self, most: int = 10**9) -> None:
        self.reported: list[tuple[int, int]] = []
        self.threads: set[int] = set()
        self.most = most

    def __call__(self, done: int, total: int) -> bool:
        self.reported.append((done, total))
        self.threads.add(threading.get_ident())
        return len(self.reported) < self.most


@pytest.mark.parametrize("name", JOBS)
def test_progress_is_reported_while_the_model_is_copied(
    name: str, model: IncrementalSVC, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is slowed down: in a large window it takes a while."""
    monkeypatch.setattr(progress, "EVERY", 0.001)
    heard = Heard()
    told_before: list[int] = []

    def slowly(*args: Any, **kwargs: Any) -> Any:
        told_before.append(len(heard.reported))
        while len(heard.reported) < 5:
            check()
        return original(*args, **kwargs)

    where = outlier if name == "outliers" else type(model)
    method = "begin" if name == "outliers" else "from_arrays"
    original = getattr(where, method)
    monkeypatch.setattr(where, method, slowly if name == "outliers" else staticmethod(slowly))
    JOBS[name](model, heard)
    assert told_before == [1]
    done, totals = zip(*heard.reported, strict=True)
    assert done == tuple(sorted(done))
    assert min(totals) > 0
    assert (done[0], done[-1]) == (0, totals[-1])
    assert heard.threads == {threading.get_ident()}


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("most", [1, 2, 4])
def test_the_listener_may_cancel_at_any_time(
    name: str, most: int, model: IncrementalSVC, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0005)
    heard = Heard(most)
    threads = threading.active_count()
    with pytest.raises(Cancelled):
        JOBS[name](model, heard)
    assert len(heard.reported) == most
    assert threading.active_count() == threads


def test_within_a_leg_of_a_path_progress_is_reported_too(
    model: IncrementalSVC, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livesvm.solvers.homotopy.parametric.PORTION", 50)
    heard = Heard()
    path = model.regularization_path(0.1, 10.0, progress=heard)
    assert len(set(heard.reported)) > path.report.legs + 2
    assert heard.reported[-1] == (continuation.STEPS, continuation.STEPS)


def test_nothing_is_started_without_a_caller() -> None:
    threads = threading.active_count()
    with steadily(None, 3) as tell:
        tell(1, 3)
        assert threading.active_count() == threads
