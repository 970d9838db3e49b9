"""How often the test for drift is wrong on streams that do not change, and how soon it is right on those that do.

Each stream goes through a live model with a sliding window, ten examples at a time; each example is scored by the
model that has not learnt it. Then: what the first question costs, and an update while nothing is asked.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np

from livesvm.solvers import DriftTest, IncrementalSVC, IncrementalSVR, before_learning, drift, leave_one_out
from livesvm.solvers.warm_up import warm_up

WINDOW, AT_ONCE, STABLE, CHANGED = 200, 10, 1000, 600
RATES = (0.01, 0.05, 0.2)

Stream = tuple[Any, Any]


def signs(rng: np.random.Generator, turn: np.ndarray[Any, Any]) -> Stream:
    """Return two classes with 10% of wrong labels; the border has turned by ``turn`` (n,) radians."""
    X = rng.normal(size=(turn.size, 2))
    y = np.where(X[:, 0] * np.cos(turn) + X[:, 1] * np.sin(turn) > 0, 1, -1)
    return X, np.where(rng.random(turn.size) < 0.1, -y, y)


def words(rng: np.random.Generator, turn: np.ndarray[Any, Any]) -> Stream:
    """Return three classes of which "c" alone moves, with ``turn`` (n,), into "a"."""
    places = rng.integers(0, 3, turn.size)
    centers = np.array([[0.0, 0.0], [2.0, 2.0], [2.0, -2.0]])[places]
    moved = np.clip(turn / (np.pi / 2), 0.0, 1.0)[:, None] * (places == 2)[:, None]
    return centers * (1.0 - moved) + rng.normal(size=(turn.size, 2)), np.array(["a", "b", "c"])[places]


def values(rng: np.random.Generator, turn: np.ndarray[Any, Any]) -> Stream:
    """Return a regression with heavy tails; its slope has turned by ``turn`` (n,) radians."""
    X = rng.normal(size=(turn.size, 2))
    return X, X[:, 0] * np.cos(turn) + X[:, 1] * np.sin(turn) + 0.3 * rng.standard_t(4, turn.size)


STREAMS: dict[str, Callable[[np.random.Generator, Any], Stream]] = {"svc": signs, "three": words, "svr": values}


def scored(X: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    """Yield scores before learning, and kinds, ten examples at a time; the first window is learnt without."""
    made: Any = IncrementalSVR if y.dtype.kind == "f" else IncrementalSVC
    model = made(C=1.0, gamma=0.5).fit(X[:WINDOW], y[:WINDOW])
    for start in range(WINDOW, len(X), AT_ONCE):
        rows, targets = X[start : start + AT_ONCE], y[start : start + AT_ONCE]
        scores, _ = before_learning(model, rows, targets)
        yield scores, None if y.dtype.kind == "f" else targets.tolist()
        model.update(add=(rows, targets), remove=model.keys_[:AT_ONCE])


def false_alarms(streams: int) -> None:
    """Print how many streams that do not change give an alarm."""
    for name, made in STREAMS.items():
        counts = dict.fromkeys(RATES, 0)
        for seed in range(streams):
            X, y = made(np.random.default_rng(seed), np.zeros(WINDOW + STABLE))
            tests = {rate: DriftTest(rate) for rate in RATES}
            gave = dict.fromkeys(RATES, False)
            for scores, kinds in scored(X, y):
                for rate, test in tests.items():
                    gave[rate] |= test.learn(scores, kinds) is not None
            for rate in RATES:
                counts[rate] += gave[rate]
        line = ", ".join(f"{counts[rate]} at {rate:g} (at most {rate * streams:g})" for rate in RATES)
        print(f"{name:6} {streams} streams of {STABLE}, false alarms: {line}", flush=True)


def delays(streams: int) -> None:
    """Print after how many examples a change is found, and how far off its place is."""
    steps = {"abrupt": 1, "gradual, over 300": 300}
    for name, made in STREAMS.items():
        for kind, length in steps.items():
            late, off = [], []
            for seed in range(streams):
                turn = np.zeros(WINDOW + STABLE + CHANGED)
                turn[WINDOW + STABLE :] = np.pi / 2 * np.minimum(np.arange(1, CHANGED + 1) / length, 1.0)
                X, y = made(np.random.default_rng(10_000 + seed), turn)
                test = DriftTest(0.01)
                for scores, kinds in scored(X, y):
                    alarm = test.learn(scores, kinds)
                    if alarm is not None and alarm.at > STABLE:
                        late.append(alarm.at - STABLE)
                        off.append(alarm.began - STABLE - 1)
                        break
            line = f"median {median(late):.0f}, 90% within {np.quantile(late, 0.9):.0f}" if late else "none"
            place = f"began {median(off):+.0f}" if off else ""
            print(f"{name:6} {kind}: {len(late)} of {streams} found; {line} examples; {place}", flush=True)


def costs(n: int) -> None:
    """Print processor seconds of a question, and what scoring adds to an update."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + 3000, 21))
    target = X[:, 0] + 0.5 * rng.normal(size=len(X))
    for made, y in ((IncrementalSVC, np.where(target > 0, 1, -1)), (IncrementalSVR, target)):
        model = made(C=1.0, gamma=0.05).fit(X[:n], y[:n])
        began = time.process_time()
        leave_one_out(model)
        left = time.process_time() - began
        began = time.process_time()
        drift(model)
        asked, spent = time.process_time() - began, {"update": 0.0, "score": 0.0}
        test = DriftTest(0.01)
        for start in range(n, len(X), 30):
            rows, targets = X[start : start + 30], y[start : start + 30]
            began = time.process_time()
            scores, _ = before_learning(model, rows, targets)
            test.learn(scores, None if y.dtype.kind == "f" else targets.tolist())
            spent["score"] += time.process_time() - began
            began = time.process_time()
            model.update(add=(rows, targets), remove=model.keys_[:30])
            spent["update"] += time.process_time() - began
        share = spent["score"] / spent["update"]
        each = spent["update"] / 100
        print(f"{made.__name__} n = {n}: question {asked:.2f} s, leave-one-out {left:.2f} s; update of 30 + 30")
        print(f"  {1e3 * each:.1f} ms; scoring adds {100 * share:.0f}%", flush=True)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000, help="that do not change, of each kind")
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--n", type=int, default=1400)
    given = parser.parse_args()
    warm_up()
    costs(given.n)
    delays(given.changes)
    false_alarms(given.streams)


if __name__ == "__main__":
    main()
