"""Leave-one-out of 500 examples: one call against 500 trainings without each example in turn.

    python -m tests.benchmarks.leave_one_out               two sets, C in 1, 100 and gamma in 0.01, 0.1, 1
    python -m tests.benchmarks.leave_one_out --quick       C = 1 and gamma = 0.1 alone

The rival is scikit-learn's SVC at tolerance 1e-3, trained 500 times from nothing, one thread each. "off" is the largest
difference to the decisions of 500 models that this library trained from nothing; it exits 1 beyond 1e-6 of the largest
decision.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from solvers import IncrementalSVC, leave_one_out
from tests.benchmarks.series import Stream, fisher
from tests.benchmarks.tables import duration, geometric_mean, machine, number, seconds, table
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


def _line(case: Case) -> list[str]:
    times = [duration(case.taken), duration(case.retraining), f"{case.ratio:.0f}"]
    return [case.name, f"{case.C:g}", f"{case.gamma:g}", *times, str(case.events), str(case.free), number(case.off)]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    river = fisher()
    streams = [
        Stream(river.name, river.X[:N], river.y[:N]),
        Stream("toy", *draw(np.random.default_rng(0), N)),
    ]
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
