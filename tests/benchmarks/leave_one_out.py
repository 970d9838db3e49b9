"""Leave-one-out of 500 examples: one call against 500 trainings without each example in turn.

    python -m tests.benchmarks.leave_one_out               three sets, C in 1, 100 and gamma in 0.01, 0.1, 1
    python -m tests.benchmarks.leave_one_out --quick       C = 1 and gamma = 0.1 alone
    python -m tests.benchmarks.leave_one_out --data DIR --sets german_numer spambase

The rival is scikit-learn's SVC at tolerance 1e-3, trained 500 times from nothing, one thread each. "off" is the largest
difference to the decisions of 500 models that this library trained from nothing; it exits 1 beyond 1e-6 of the largest
decision.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalSVC, leave_one_out
from tests.benchmarks.printing import duration, geometric_mean, machine, number, seconds, table
from tests.benchmarks.series import Stream, fisher
from tests.benchmarks.sets import DATA, read, standardised
from tests.benchmarks.toy import draw

N = 500
GRID = [(C, gamma) for C in (1.0, 100.0) for gamma in (0.01, 0.1, 1.0)]


@dataclass(frozen=True)
class Case:
    """One set, C and gamma: times in seconds, and how far the decisions are from those of retraining."""

    name: str
    C: float
    gamma: float
    taken: float
    retraining: float
    free: int
    events: int
    off: float
    size: float

    @property
    def ratio(self) -> float:
        """How many times faster one call is."""
        return self.retraining / self.taken


def measure(stream: Stream, C: float, gamma: float) -> Case:
    """Measure one case."""
    X, y = stream.X, stream.y
    model = IncrementalSVC(C=C, gamma=gamma, classes=(-1, 1)).fit(X, y)
    found = leave_one_out(model)
    taken = seconds(lambda: leave_one_out(model), 5)
    keeps = [np.arange(len(y)) != i for i in range(len(y))]
    rival = SVC(C=C, gamma=gamma, tol=1e-3, cache_size=500)
    retraining = seconds(lambda: [rival.fit(X[keep], y[keep]) for keep in keeps])
    without = np.array(
        [
            IncrementalSVC(C=C, gamma=gamma, classes=(-1, 1)).fit(X[keep], y[keep]).decision_function(X[[i]])[0]
            for i, keep in enumerate(keeps)
        ]
    )
    beta = model.dual_coef_[0]
    return Case(
        stream.name,
        C,
        gamma,
        taken,
        retraining,
        int(np.count_nonzero(np.abs(beta) < C)),
        found.events,
        float(np.abs(found.decisions - without).max()),
        float(np.abs(without).max()),
    )


def sample(name: str, folder: Path) -> Stream:
    """Return 500 random rows of a set with two classes, standardised."""
    X, y = read(name, folder)
    rows = np.random.default_rng(0).permutation(len(y))[:N]
    return Stream(name, standardised(X[rows]), np.where(y[rows] == y.max(), 1.0, -1.0))


def own() -> list[Stream]:
    """Return the sets that are always there: the river, the toy of the paper, tumours."""
    river = fisher()
    toy = Stream("toy", *draw(np.random.default_rng(0), N))
    return [Stream(river.name, river.X[:N], river.y[:N]), toy, sample("wdbc", DATA)]


def _line(case: Case) -> list[str]:
    times = [duration(case.taken), duration(case.retraining), f"{case.ratio:.0f}"]
    return [case.name, f"{case.C:g}", f"{case.gamma:g}", *times, str(case.events), str(case.free), number(case.off)]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the archives")
    parser.add_argument("--sets", nargs="+", help="these sets, 500 random rows of each")
    options = parser.parse_args(arguments)
    streams = [sample(name, options.data) for name in options.sets] if options.sets else own()
    grid = [(1.0, 0.1)] if options.quick else GRID
    with threadpool_limits(limits=1):
        cases = [measure(stream, C, gamma) for stream in streams for C, gamma in grid]
    print(f"leave-one-out, n={N}")
    print(machine())
    print(table(["", "C", "gamma", "one call", "500 SVC", "ratio", "events", "free", "off"], [_line(c) for c in cases]))
    ratios = [case.ratio for case in cases]
    print(f"geometric mean {geometric_mean(ratios):.0f} times faster, worst {min(ratios):.0f}")
    return int(any(case.off > 1e-6 * case.size for case in cases))


if __name__ == "__main__":
    sys.exit(main())
