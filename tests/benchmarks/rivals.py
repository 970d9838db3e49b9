"""Everyone on one stream, side by side in one run: time of an update, exactness, accuracy before learning.

    python -m tests.benchmarks.rivals                Fisher River, window 730, 30 in and 30 out
    python -m tests.benchmarks.rivals --quick        the last five months only

Before a month is learnt, every rival forecasts its labels; then each is brought up to date in its own way:
one path, one path per example, SVC from nothing at tolerance 1e-3 and 1e-6, PIQP from nothing, and river's
logistic regression and passive-aggressive learner, which see every example once and never forget. The gap
is recomputed from the data; river's learners have none.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from river import linear_model
from river import preprocessing as river_preprocessing
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalSVC
from tests.benchmarks.series import Stream, fisher
from tests.benchmarks.tables import duration, machine, number, table
from tests.oracle import Kernel, Matrix, Vector, gap, hinge, solve

N, MOVED, C, GAMMA = 730, 30, 10.0, 0.1
KERNEL = Kernel("rbf", GAMMA)


class Rival(Protocol):
    """A learner that is shown the stream: rows ``new`` have come in, ``window`` is what it should know."""

    def learn(self, stream: Stream, new: range, window: range) -> None:
        """Bring the model up to date."""

    def decide(self, X: Matrix) -> Vector:
        """Return values whose sign is the forecast, (m,)."""

    def answer(self, window: range) -> tuple[Vector, float] | None:
        """Return (beta of the window, intercept), or None for a learner of another problem."""


class Path:
    """`IncrementalSVC`: all at once, or one example at a time."""

    def __init__(self, *, singly: bool) -> None:
        self._singly = singly
        self._model = IncrementalSVC(C=C, kernel="rbf", gamma=GAMMA, classes=(-1, 1))
        self._known: set[int] = set()

    def learn(self, stream: Stream, new: range, window: range) -> None:
        gone = sorted(self._known - set(window))
        self._known = set(window)
        if not (self._singly and gone):
            self._update(stream, new, gone)
            return
        for row in new:
            self._update(stream, range(row, row + 1), [])
        for key in gone:
            self._update(stream, range(0), [key])

    def _update(self, stream: Stream, new: range, gone: list[int]) -> None:
        rows = slice(new.start, new.stop)
        added = (stream.X[rows], stream.y[rows]) if len(new) else None
        self._model.update(add=added, keys=list(new) or None, remove=gone or None)

    def decide(self, X: Matrix) -> Vector:
        return np.asarray(self._model.decision_function(X))

    def answer(self, window: range) -> tuple[Vector, float] | None:
        beta = np.zeros(len(window))
        beta[self._model.support_] = self._model.dual_coef_[0]
        return beta, float(self._model.intercept_[0])


class Libsvm:
    """scikit-learn's SVC, from nothing every time."""

    def __init__(self, tolerance: float) -> None:
        self._model = SVC(C=C, gamma=GAMMA, tol=tolerance, cache_size=500)

    def learn(self, stream: Stream, new: range, window: range) -> None:
        rows = slice(window.start, window.stop)
        self._model.fit(stream.X[rows], stream.y[rows])

    def decide(self, X: Matrix) -> Vector:
        return np.asarray(self._model.decision_function(X))

    def answer(self, window: range) -> tuple[Vector, float] | None:
        beta = np.zeros(len(window))
        beta[self._model.support_] = self._model.dual_coef_[0]
        return beta, float(self._model.intercept_[0])


class InteriorPoint:
    """PIQP's dense solver, from nothing every time; the kernel matrix is part of its time."""

    def learn(self, stream: Stream, new: range, window: range) -> None:
        self._X = stream.X[window.start : window.stop]
        squares = np.square(self._X).sum(axis=1)
        K = np.exp(-GAMMA * np.maximum(squares[:, None] + squares - 2 * self._X @ self._X.T, 0))
        self._found = solve(K, hinge(stream.y[window.start : window.stop], C))

    def decide(self, X: Matrix) -> Vector:
        return np.asarray(KERNEL(X, self._X) @ self._found.beta + self._found.intercept, dtype=np.float64)

    def answer(self, window: range) -> tuple[Vector, float] | None:
        return self._found.beta, self._found.intercept


class River:
    """A learner of river behind its standard scaler: every example once, none forgotten."""

    def __init__(self, learner: Any) -> None:
        self._model = river_preprocessing.StandardScaler() | learner

    def learn(self, stream: Stream, new: range, window: range) -> None:
        for row in new:
            self._model.learn_one(dict(enumerate(stream.X[row].tolist())), bool(stream.y[row] > 0))

    def decide(self, X: Matrix) -> Vector:
        forecasts = [self._model.predict_one(dict(enumerate(row.tolist()))) for row in X]
        return np.where(np.array(forecasts, dtype=bool), 1.0, -1.0)

    def answer(self, window: range) -> tuple[Vector, float] | None:
        return None


RIVALS: dict[str, Callable[[], Rival]] = {
    "one path": lambda: Path(singly=False),
    "one path per example": lambda: Path(singly=True),
    "SVC 1e-3": lambda: Libsvm(1e-3),
    "SVC 1e-6": lambda: Libsvm(1e-6),
    "PIQP": InteriorPoint,
    "river logistic regression": lambda: River(linear_model.LogisticRegression()),
    "river passive-aggressive": lambda: River(_passive_aggressive()),
}


def _passive_aggressive() -> Any:
    make: Any = linear_model.PAClassifier
    return make(C=0.01, mode=1)


@dataclass
class Score:
    """What a rival did over the stream."""

    seconds: list[float] = field(default_factory=list)
    right: int = 0
    asked: int = 0
    relative_gap: float = 0.0


def compete(stream: Stream, start: int) -> dict[str, Score]:
    """Fill every rival with the window before ``start``, then forecast and learn month by month."""
    rivals = {name: make() for name, make in RIVALS.items()}
    scores = {name: Score() for name in rivals}
    first = range(start - N, start)
    for rival in rivals.values():
        rival.learn(stream, first, first)
    for begin in range(start, len(stream.y) - MOVED + 1, MOVED):
        new, window = range(begin, begin + MOVED), range(begin + MOVED - N, begin + MOVED)
        labels = stream.y[new.start : new.stop]
        K = KERNEL(stream.X[window.start : window.stop], stream.X[window.start : window.stop])
        for name, rival in rivals.items():
            score = scores[name]
            forecast = rival.decide(stream.X[new.start : new.stop])
            score.right += int(((forecast > 0) == (labels > 0)).sum())
            score.asked += len(new)
            started = time.perf_counter()
            rival.learn(stream, new, window)
            score.seconds.append(time.perf_counter() - started)
            answer = rival.answer(window)
            if answer is not None:
                found = gap(K, hinge(stream.y[window.start : window.stop], C), *answer)
                score.relative_gap = max(score.relative_gap, found.strict)
    return scores


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    stream = fisher()
    start = len(stream.y) - 5 * MOVED if options.quick else N
    with threadpool_limits(limits=1):
        Path(singly=False).learn(stream, range(60), range(60))  # compile before anything is timed
        scores = compete(stream, start)
    base = float(np.median(scores["one path"].seconds))
    lines = []
    for name, score in scores.items():
        middle = float(np.median(score.seconds))
        known = name.startswith("river")
        lines.append([name, duration(middle), f"{middle / base:.1f}"])
        lines[-1] += [f"{100 * score.right / score.asked:.1f}%", "" if known else number(score.relative_gap)]
    asked = scores["one path"].asked
    truth = stream.y[start : start + asked]
    print(f"{stream.name}: n={N}, {MOVED} in and {MOVED} out, RBF gamma={GAMMA:g}, C={C:g}, {asked} forecasts")
    print(machine())
    print(table(["", "time", "against one path", "accuracy", "worst gap"], lines))
    print(f"always saying the majority: {100 * max((truth > 0).mean(), (truth < 0).mean()):.1f}%")
    return 0


if __name__ == "__main__":
    sys.exit(main())
