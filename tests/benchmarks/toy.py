"""The artificial experiment of the paper: one path for m examples, m paths, and training again.

    python -m tests.benchmarks.toy              m = 1, 2, 5, 10, 20, 30, 40, 50, a hundred draws each
    python -m tests.benchmarks.toy --quick      m = 1, 10, 50, ten draws each

Two classes in the plane, a mixture of two Gaussians against one, n = 500; only examples whose beta is at
the bound at the optimum come or go, since the others cost next to nothing [Karasuyama & Takeuchi, section
4.1]. The paper predicts that m examples need sqrt(m) / m of the events of m single updates; "events / law" is
what one path needed over that, all draws of a line together: single draws differ by a factor of two. It prints no
parameters of the mixture, the kernel or C. Here gamma is LIBSVM's default, 1/2, and C = 10, with which single updates
have as many events as in its figure 5, about 550 for m = 50; see --gamma and --C for others.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalSVC
from tests.benchmarks.printing import duration, machine, seconds, table
from tests.oracle import Matrix, Vector

N = 500
CENTRES, SPREAD = ((-1.0, 0.5), (1.5, 2.5)), 0.7  # the crosses
OTHER_CENTRE, OTHER_SPREAD = (0.5, 0.5), 0.8  # the circles
SCENARIOS = ("adding", "removing", "both")


@dataclass(frozen=True)
class Trial:
    """One draw: events and seconds of one path, of single updates, and of training again."""

    events: int
    single_events: int
    seconds: float
    single_seconds: float
    retrain_seconds: float

    def predicted(self, moved: int) -> float:
        """Return the events of one path that sqrt(m) : m predicts from single updates."""
        return self.single_events / float(np.sqrt(moved))


def draw(random: np.random.Generator, n: int) -> tuple[Matrix, Vector]:
    """Draw n examples of the toy, the classes equally likely."""
    y = np.where(random.random(n) < 0.5, 1.0, -1.0)
    crosses = np.array(CENTRES)[random.integers(0, 2, n)] + SPREAD * random.normal(size=(n, 2))
    circles = np.array(OTHER_CENTRE) + OTHER_SPREAD * random.normal(size=(n, 2))
    return np.where(y[:, None] > 0, crosses, circles), y


def _bounded(model: IncrementalSVC, X: Matrix, y: Vector) -> np.ndarray:
    """Return the rows at the bound when an empty model has learnt all rows."""
    model.update(add=(X, y))
    at_bound = np.abs(model.dual_coef_[0]) >= model.C
    return np.asarray(model.support_[at_bound])


Move = tuple[list[int], list[int]]  # rows that come in, rows that leave


def _follow(model: IncrementalSVC, X: Matrix, y: Vector, start: list[int], moves: Sequence[Move]) -> tuple[int, float]:
    """Start an empty model from some rows and make the moves; return the events and seconds of the moves."""
    model.update(add=(X[start], y[start]), keys=start)
    events, started = 0, time.perf_counter()
    for come, gone in moves:
        added = (X[come], y[come]) if come else None
        events += model.update(add=added, keys=come or None, remove=gone or None).events
    return events, time.perf_counter() - started


def trial(scenario: str, moved: int, seed: int, C: float, gamma: float) -> Trial:
    """Run one draw; ``both`` moves m in and m out."""
    empty = IncrementalSVC(C=C, kernel="rbf", gamma=gamma, classes=(-1, 1))
    random = np.random.default_rng([seed, moved])
    coming = moved if scenario != "removing" else 0
    X, y = draw(random, N + coming)
    every_example = np.arange(N + coming)
    come = random.permutation(_bounded(clone(empty), X, y))[:coming].tolist()
    start = np.setdiff1d(every_example, come)
    gone: list[int] = []
    if scenario != "adding":
        gone = start[random.permutation(_bounded(clone(empty), X[start], y[start]))[:moved]].tolist()
    singles: list[Move] = [([i], []) for i in come]
    singles += [([], [i]) for i in gone]
    events, taken = _follow(clone(empty), X, y, start.tolist(), [(come, gone)])
    single_events, single_taken = _follow(clone(empty), X, y, start.tolist(), singles)
    end = np.concatenate([np.setdiff1d(start, gone), np.array(come, dtype=np.int64)])
    rival = SVC(C=C, gamma=gamma, tol=1e-3, cache_size=500)
    return Trial(events, single_events, taken, single_taken, seconds(lambda: rival.fit(X[end], y[end])))


def _total(scenario: str, moved: int) -> int:
    return 2 * moved if scenario == "both" else moved


def _over_law(trials: list[Trial], total: int) -> float:
    """Return the events of all draws over those that the law predicts."""
    return sum(t.events for t in trials) / sum(t.predicted(total) for t in trials)


def _line(scenario: str, moved: int, trials: list[Trial]) -> list[str]:
    middle = {name: float(np.median([getattr(t, name) for t in trials])) for name in Trial.__dataclass_fields__}
    total = _total(scenario, moved)
    return [
        scenario,
        str(moved),
        f"{middle['events']:.0f}",
        f"{middle['single_events']:.0f}",
        f"{_over_law(trials, total):.2f}",
        duration(middle["seconds"]),
        duration(middle["single_seconds"]),
        duration(middle["retrain_seconds"]),
        f"{middle['single_seconds'] / middle['seconds']:.1f}",
        f"{middle['retrain_seconds'] / middle['seconds']:.1f}",
    ]


HEADER = ["", "m", "events", "single", "events / law", "time", "single", "SVC 1e-3", "x single", "x SVC"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draws", type=int, default=400, help="draws of each line")
    parser.add_argument("--seed", type=int, default=0, help="the first of the draws")
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--gamma", type=float, default=0.5)
    options = parser.parse_args(arguments)
    sizes, draws = ((1, 10, 50), 10) if options.quick else ((1, 2, 5, 10, 20, 30, 40, 50), options.draws)
    lines, over = [], []
    with threadpool_limits(limits=1):
        trial("both", 1, 0, options.C, options.gamma)  # compile before anything is timed
        for scenario in SCENARIOS:
            for moved in sizes:
                seeds = range(options.seed, options.seed + draws)
                trials = [trial(scenario, moved, seed, options.C, options.gamma) for seed in seeds]
                lines.append(_line(scenario, moved, trials))
                if moved > 1:
                    over.append(_over_law(trials, _total(scenario, moved)))
    print(f"toy: n={N}, gamma={options.gamma:g}, C={options.C:g}, medians of {draws} draws")
    print(machine())
    print(table(HEADER, lines))
    print(f"events / law, m > 1: {min(over):.2f} to {max(over):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
