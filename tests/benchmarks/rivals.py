"""Learners on one stream, in one run: processor time of an update, exactness, accuracy before learning.

    python -m tests.benchmarks.rivals                   Fisher River, window 730, 30 in and 30 out
    python -m tests.benchmarks.rivals --quick           the last five months only
    python -m tests.benchmarks.rivals --stream elec2    electricity prices, window 1,000
    python -m tests.benchmarks.rivals --stream splice   any table of two classes, in random order

Before new rows are learnt, every rival forecasts their labels; then each is brought up to date in its own way. Exact:
one path, one path per example, SVC from nothing at tolerance 1e-3 and 1e-6, PIQP from nothing (windows up to 1,000).
Approximate, trained again on the window: LightGBM, and SGDClassifier on RBFSampler. Approximate, one pass over what is
new, nothing removed: the same SGDClassifier, and river's logistic regression, passive-aggressive learner and adaptive
forest. All but PIQP and SVC have their defaults, or what is named in the code. The gap is recomputed from the data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any, Protocol

import numpy as np
from lightgbm import LGBMClassifier
from river import forest, linear_model
from river import preprocessing as river_preprocessing
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalSVC
from tests.benchmarks.printing import duration, machine, number, table
from tests.benchmarks.series import Stream, fisher
from tests.benchmarks.sets import DATA, read
from tests.oracle import Kernel, Matrix, Vector, gap, hinge, solve

MOVED = 30  #: rows that come in, and go out, at once
COMPONENTS = 300  #: of RBFSampler
DENSE = 1000  #: the largest window of PIQP


@dataclass(frozen=True)
class Race:
    """A stream, the window that slides over it, and the parameters of those that have a kernel."""

    stream: Stream
    n: int
    C: float
    gamma: float


class Rival(Protocol):
    """A learner of a stream: the rows ``new`` have come in, ``window`` is what it should be trained on."""

    def learn(self, stream: Stream, new: range, window: range) -> None:
        """Bring the model up to date."""

    def decide(self, X: Matrix) -> Vector:
        """Return values whose sign is the forecast, (m,)."""

    def answer(self, window: range) -> tuple[Vector, float] | None:
        """Return (beta of the window, intercept), or None for a learner of another problem."""


class OnePath:
    """`IncrementalSVC`: all at once, or one example at a time."""

    def __init__(self, race: Race, *, singly: bool) -> None:
        self._singly = singly
        self._model = IncrementalSVC(C=race.C, kernel="rbf", gamma=race.gamma, classes=(-1, 1))
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

    def free(self) -> int:
        """Return how many examples are on the margin."""
        return int(self._model.window_is_free.sum())


class Libsvm:
    """scikit-learn's SVC, from nothing every time."""

    def __init__(self, race: Race, tolerance: float) -> None:
        self._model = SVC(C=race.C, gamma=race.gamma, tol=tolerance, cache_size=500)

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

    def __init__(self, race: Race) -> None:
        self._race = race

    def learn(self, stream: Stream, new: range, window: range) -> None:
        self._X = stream.X[window.start : window.stop]
        squares = np.square(self._X).sum(axis=1)
        K = np.exp(-self._race.gamma * np.maximum(squares[:, None] + squares - 2 * self._X @ self._X.T, 0))
        self._found = solve(K, hinge(stream.y[window.start : window.stop], self._race.C))

    def decide(self, X: Matrix) -> Vector:
        return np.asarray(
            Kernel("rbf", self._race.gamma)(X, self._X) @ self._found.beta + self._found.intercept, dtype=np.float64
        )

    def answer(self, window: range) -> tuple[Vector, float] | None:
        return self._found.beta, self._found.intercept


class Again:
    """An approximate learner of scikit-learn's kind, from nothing every time."""

    def __init__(self, learner: Any) -> None:
        self._model = learner

    def learn(self, stream: Stream, new: range, window: range) -> None:
        rows = slice(window.start, window.stop)
        self._model.fit(stream.X[rows], stream.y[rows])

    def decide(self, X: Matrix) -> Vector:
        return np.asarray(self._model.predict(X), dtype=np.float64)

    def answer(self, window: range) -> tuple[Vector, float] | None:
        return None


class RandomFeatures:
    """SGDClassifier with the hinge loss on RBFSampler: one pass over what is new, or from nothing every time."""

    def __init__(self, race: Race, *, again: bool) -> None:
        self._again = again
        self._map = RBFSampler(gamma=race.gamma, n_components=COMPONENTS, random_state=0).fit(race.stream.X[:1])
        self._model = SGDClassifier(alpha=1 / (race.C * race.n), random_state=0)

    def learn(self, stream: Stream, new: range, window: range) -> None:
        rows = window if self._again else new
        X, y = self._map.transform(stream.X[rows.start : rows.stop]), stream.y[rows.start : rows.stop]
        if self._again:
            self._model.fit(X, y)
        else:
            self._model.partial_fit(X, y, classes=(-1.0, 1.0))

    def decide(self, X: Matrix) -> Vector:
        return np.asarray(self._model.decision_function(self._map.transform(X)))

    def answer(self, window: range) -> tuple[Vector, float] | None:
        return None


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


RIVALS: dict[str, Callable[[Race], Rival]] = {
    "one path": lambda race: OnePath(race, singly=False),
    "one path per example": lambda race: OnePath(race, singly=True),
    "SVC 1e-3": lambda race: Libsvm(race, 1e-3),
    "SVC 1e-6": lambda race: Libsvm(race, 1e-6),
    "PIQP": InteriorPoint,
    "LightGBM": lambda race: Again(LGBMClassifier(n_jobs=1, verbose=-1)),
    "RBFSampler, SGD": lambda race: RandomFeatures(race, again=True),
    "RBFSampler, SGD, one pass": lambda race: RandomFeatures(race, again=False),
    "river logistic regression": lambda race: River(linear_model.LogisticRegression()),
    "river passive-aggressive": lambda race: River(_passive_aggressive()),
    "river adaptive forest": lambda race: River(_adaptive_forest()),
}


def _passive_aggressive() -> Any:
    make: Any = linear_model.PAClassifier
    return make(C=0.01, mode=1)


def _adaptive_forest() -> Any:
    make: Any = forest.ARFClassifier
    return make(seed=0)


@dataclass
class Score:
    """What a rival did over the stream."""

    seconds: list[float] = field(default_factory=list)
    right: int = 0
    asked: int = 0
    relative_gap: float | None = None
    free: list[int] = field(default_factory=list)


def compete(race: Race, start: int, stop: int) -> dict[str, Score]:
    """Fill every rival with the window before ``start``; then forecast and learn, 30 rows at a time, up to ``stop``."""
    stream, kernel = race.stream, Kernel("rbf", race.gamma)
    rivals = {name: make(race) for name, make in RIVALS.items() if name != "PIQP" or race.n <= DENSE}
    scores = {name: Score() for name in rivals}
    first = range(start - race.n, start)
    for rival in rivals.values():
        rival.learn(stream, first, first)
    for begin in range(start, stop - MOVED + 1, MOVED):
        new, window = range(begin, begin + MOVED), range(begin + MOVED - race.n, begin + MOVED)
        labels = stream.y[new.start : new.stop]
        K = kernel(stream.X[window.start : window.stop], stream.X[window.start : window.stop])
        for name, rival in rivals.items():
            score = scores[name]
            forecast = rival.decide(stream.X[new.start : new.stop])
            score.right += int(((forecast > 0) == (labels > 0)).sum())
            score.asked += len(new)
            started = process_time()
            rival.learn(stream, new, window)
            score.seconds.append(process_time() - started)
            answer = rival.answer(window)
            if answer is not None:
                found = gap(K, hinge(stream.y[window.start : window.stop], race.C), *answer)
                score.relative_gap = max(score.relative_gap or 0.0, found.strict)
            if isinstance(rival, OnePath):
                score.free.append(rival.free())
    return scores


def race_of(options: argparse.Namespace) -> Race:
    """Return the stream that was asked for, with its window and parameters."""
    if options.stream == "fisher":
        return Race(fisher(), options.window or 730, options.C, options.gamma or 0.1)
    if options.stream == "elec2":
        with np.load(options.data / "elec2.npz") as archive:
            X, y = np.asarray(archive["values"], np.float64), np.asarray(archive["y"], np.float64)
    else:
        X, y = read(options.stream, options.data)
        order = np.random.default_rng(0).permutation(len(y))
        X, y = X[order], np.where(y[order] > 0, 1.0, -1.0)
    n = options.window or 1000
    if options.stream != "elec2":  # which is in [0, 1], and where two columns begin to change later on
        centre, width = X[:n].mean(axis=0), X[:n].std(axis=0)
        X = (X - centre) / np.where(width > 0, width, 1.0)
    gamma = options.gamma or 1 / (X.shape[1] * float(X[:n].var()))
    return Race(Stream(options.stream, np.ascontiguousarray(X), y), n, options.C, gamma)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--quick", action="store_true", help="five slides")
    parser.add_argument("--stream", default="fisher", help="fisher, elec2, or a table of two classes in --data")
    parser.add_argument("--window", type=int, help="rows of the window; 730 of fisher, else 1000")
    parser.add_argument("--slides", type=int, help="how often the window slides; to the end of the stream")
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--gamma", type=float, help="0.1 of fisher, else what SVC takes by itself")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the data sets")
    options = parser.parse_args(arguments)
    race = race_of(options)
    slides = min((len(race.stream.y) - race.n) // MOVED, 5 if options.quick else options.slides or len(race.stream.y))
    start = len(race.stream.y) - slides * MOVED if options.quick else race.n
    with threadpool_limits(limits=1):
        OnePath(race, singly=False).learn(race.stream, range(60), range(60))  # compile before anything is timed
        scores = compete(race, start, start + slides * MOVED)
    base = float(np.median(scores["one path"].seconds))
    lines = []
    for name, score in scores.items():
        middle = float(np.median(score.seconds))
        gap_of = "" if score.relative_gap is None else number(score.relative_gap)
        lines.append(
            [name, duration(middle), f"{middle / base:.1f}", f"{100 * score.right / score.asked:.1f}%", gap_of]
        )
    asked = scores["one path"].asked
    truth = race.stream.y[start : start + asked]
    free = int(np.median(scores["one path"].free))
    print(f"{race.stream.name}: n={race.n}, {MOVED} in and {MOVED} out, RBF gamma={race.gamma:g}, C={race.C:g}")
    print(f"{asked} forecasts, {free} examples free ({free / race.n:.0%})")
    print(machine())
    print(table(["", "processor time", "against one path", "accuracy", "worst gap"], lines))
    print(f"always saying the majority: {100 * max((truth > 0).mean(), (truth < 0).mean()):.1f}%")
    return 0


if __name__ == "__main__":
    sys.exit(main())
