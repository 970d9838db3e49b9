"""Figures 4 to 7 of [Sansone, De Natale & Zhou]: USMO next to a quadratic program and the live model, as data grow.

Growth: 100 positives, lam = 0.01, features in [0, 1], each case in a process of its own. Times are those of the
processor, on one thread; memory is the peak of the process, with and without what it held before. Where no few pivots
stand for all examples, the f of all examples from the data takes a kernel value for each example and each support
vector: the last columns say how many of these there are, and how long the whole solve takes for each such value. Live:
30 in and 30 out of 1,400, medians: by turns with USMO, and in a row.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalPUClassifier
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.pu.prior import estimate_prior
from livesvm.solvers.pu.problem import PUProblem, costs, pu_problem
from livesvm.solvers.pu.usmo import usmo
from tests.benchmarks.printing import duration, machine, number, table
from tests.benchmarks.sets import DATA, available, read
from tests.oracle import Matrix, Vector
from tests.pu_baselines.quadratic_program import quadratic_program

KERNELS = {"linear": Kernel("linear"), "rbf": Kernel("rbf", 0.5)}
LABELLED = 0.2
PAPER_SETS = (
    "pu_australian",
    "pu_clean1",
    "pu_diabetes",
    "pu_house",
    "pu_house_votes",
    "pu_ionosphere",
    "pu_isolet",
    "pu_krvskp",
)

GROWTH = {
    "shuttle": 1.0,
    "mnist_5k": 3.0,
    "adult": 1.0,
    "elec2": 1.0,
    "kddcup99_10pct": 11.0,
}  #: which label is positive
SIZES = (1000, 5000, 20_000, 40_000, 100_000)
MOST_QP, QUICK_QP, MOST_LIVE = 5000, 1000, 5000  #: unlabelled
POSITIVES, LAM = 100, 0.01


class Split(NamedTuple):
    """Positives, unlabelled, which of these are positive, and the prior."""

    P: Matrix
    U: Matrix
    positive: Vector
    prior: float

    def problem(self, kernel: Kernel, lam: float) -> PUProblem:
        """Return the convex problem of this split."""
        return pu_problem(kernel, self.P, self.U, *costs(self.prior, lam, np.ones(len(self.P)), np.ones(len(self.U))))


def split(X: Matrix, positive: Vector, labelled: int, unlabelled: int, seed: int) -> Split:
    """Label some of the positives, and leave some of all others unlabelled, at random."""
    rng = np.random.default_rng(seed)
    known = rng.permutation(np.flatnonzero(positive))[:labelled]
    rest = rng.permutation(np.setdiff1d(np.arange(len(X)), known))[:unlabelled]
    return Split(X[known], np.ascontiguousarray(X[rest]), positive[rest], float(positive.mean()))


def scaled(X: Matrix) -> Matrix:
    """Return features in [0, 1]."""
    low, high = X.min(axis=0), X.max(axis=0)
    return np.asarray((X - low) / np.where(high > low, high - low, 1.0))


def cpu(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what ``work`` returns, and how long the processor took."""
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


# -- the prior --------------------------------------------------------------------------------------------------------


def priors(folder: Path, splits: int) -> None:
    """Print estimated priors next to true ones."""
    rows = []
    for name in available(PAPER_SETS, folder):
        X, y = read(name, folder)
        positive = np.asarray(y > 0, np.float64)
        found, true = [], []
        for seed in range(splits):
            part = split(scaled(X), positive, int(LABELLED * positive.sum()), len(X), seed)
            found.append(estimate_prior(Kernel("rbf", 0.5), part.P, part.U))
            true.append(part.positive.mean())
        inside = np.mean([e.low <= t <= e.high for e, t in zip(found, true, strict=True)])
        off = np.mean([abs(e.prior - t) for e, t in zip(found, true, strict=True)])
        mean = np.mean([e.prior for e in found])
        rows.append([name, f"{np.mean(true):.3f}", f"{mean:.3f}", f"{off:.3f}", f"{100 * inside:.0f}%"])
    print(table(["set", "share of positives", "estimate", "mean error", "in its interval"], rows))


# -- growth ------------------------------------------------------------------------------------------------------------


def growth(folder: Path, sizes: tuple[int, ...], most_qp: int) -> None:
    """Print times and peaks against the number of unlabelled, and how fast they grow."""
    rows = []
    for name in ["clouds", *available(list(GROWTH), folder)]:
        for kernel in KERNELS:
            before: dict[str, Any] | None = None
            for n in sizes:
                case = run_case(name, folder, kernel, n, most_qp)
                if case["n"] < n and before is not None and case["n"] <= before["n"]:
                    break
                grown = "" if before is None else f"{_exponent(before, case):.2f}"
                optional = [duration(case[k]) if k in case else "" for k in ("qp", "live")]
                size = [f"{case['peak']} ({case['held']})", number(case["gap"])]
                values = 1e9 * case["usmo"] / (case["n"] * case["support"])
                each = "by pivots" if case["by_pivots"] else f"{values:.1f} ns" if kernel != "linear" else ""
                reported = [f"{name} {kernel}", f"{case['n']:,}", duration(case["usmo"]), *optional, grown, *size]
                rows.append([*reported, f"{case['support']:,}", each])
                before = case
    header = ["set", "unlabelled", "USMO", "QP", "live", "exponent", "peak (before), MB", "gap", "support", "a value"]
    print(table(header, rows))


def _exponent(a: dict[str, Any], b: dict[str, Any]) -> float:
    return math.log(b["usmo"] / a["usmo"]) / math.log(b["n"] / a["n"])


def run_case(name: str, folder: Path, kernel: str, n: int, most_qp: int) -> dict[str, Any]:
    """Run one case in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.pu", "--data", str(folder), "--case", name, kernel, str(n)]
    command += ["--qp", str(most_qp)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    print(name, kernel, done.stdout.strip(), file=sys.stderr, flush=True)
    return dict(json.loads(done.stdout))


def case(name: str, folder: Path, kernel: str, n: int, most_qp: int) -> dict[str, Any]:
    """Measure USMO, and where they are not too large for it, the quadratic program and the live model."""
    part = _clouds(n) if name == "clouds" else _real(name, folder, n)
    small = Split(part.P, part.U[:200], part.positive[:200], part.prior)
    usmo(small.problem(KERNELS[kernel], LAM))
    held = _peak()
    problem = part.problem(KERNELS[kernel], LAM)
    solution, seconds = cpu(lambda: usmo(part.problem(KERNELS[kernel], LAM)))
    found = {"n": len(part.U), "usmo": seconds, "gap": solution.relative_gap, "held": held, "peak": _peak()}
    found |= {"support": int(np.count_nonzero(solution.sigma)), "by_pivots": solution.by_pivots}
    if len(part.U) <= most_qp:
        found["qp"] = cpu(lambda: quadratic_program(problem))[1]
    if len(part.U) <= MOST_LIVE:
        X = np.concatenate([part.P, part.U])
        s = np.arange(len(X)) < len(part.P)
        live = IncrementalPUClassifier(part.prior, LAM, kernel, gamma=0.5)
        live.fit(X[:200], s[:200])
        found["live"] = cpu(lambda: live.fit(X, s))[1]
    return found


def _real(name: str, folder: Path, n: int) -> Split:
    X, y = read(name, folder, features="values" if name == "elec2" else "X")
    rows = np.random.default_rng(0).permutation(len(X))[: n + 20 * POSITIVES]
    return split(scaled(X[rows]), np.asarray(y[rows] == GROWTH[name], np.float64), POSITIVES, n, 0)


def _clouds(n: int) -> Split:
    rng = np.random.default_rng(0)
    positive = (rng.random(n + 20 * POSITIVES) < 0.4).astype(np.float64)
    X = rng.normal(size=(positive.size, 8)) * 0.15 + np.where(positive > 0, 0.6, 0.4)[:, None]
    return split(X, positive, POSITIVES, n, 0)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


# -- live --------------------------------------------------------------------------------------------------------------


def live(folder: Path, turns: int) -> None:
    """Print what 30 in and 30 out of 1,400 take, next to USMO from nothing."""
    rows = []
    for name in ["clouds", *available(["adult", "elec2", "shuttle"], folder)]:
        part = _clouds(3000) if name == "clouds" else _real(name, folder, 3000)
        for kernel in KERNELS:
            X = np.concatenate([part.P, part.U])
            s = (np.arange(len(X)) < len(part.P)).astype(int)
            model = IncrementalPUClassifier(part.prior, LAM, kernel, gamma=0.5).fit(X[:1400], s[:1400])
            taken, alone, in_a_row, events = [], [], [], []
            for turn in range(2 * turns + 1):
                first = 1400 + 30 * turn
                gone = model.keys_[100:130]
                new = X[first : first + 30], s[first : first + 30]
                report, seconds = cpu(lambda: model.update(add=new, remove=gone))  # noqa: B023
                events.append(report.events)
                if turn > turns:
                    in_a_row.append(seconds)
                    continue
                taken.append(seconds)
                now = Split(X[:100], model.window_X[model.window_y == 0], np.zeros(1300), part.prior)
                alone.append(cpu(lambda: usmo(now.problem(KERNELS[kernel], LAM)))[1])  # noqa: B023
            ours, theirs = float(np.median(taken[1:])), float(np.median(alone[1:]))
            rest = float(np.median(in_a_row))
            gap = number(model.certificate().relative_gap)
            rows.append(
                [
                    f"{name} {kernel}",
                    duration(ours),
                    duration(theirs),
                    f"{theirs / ours:.1f}",
                    duration(rest),
                    f"{theirs / rest:.1f}",
                    f"{int(np.median(events))}",
                    gap,
                ]
            )
    print(table(["set", "30 + 30 live", "USMO from nothing", "times", "in a row", "times", "events", "gap"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one split, and no more than 5,000 unlabelled")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", choices=("priors", "growth", "live"))
    parser.add_argument("--case", nargs=3, metavar=("SET", "KERNEL", "N"), help=argparse.SUPPRESS)
    parser.add_argument("--qp", type=int, help="most unlabelled that the quadratic program is given as they grow")
    given = parser.parse_args()
    most_qp = given.qp if given.qp is not None else QUICK_QP if given.quick else MOST_QP
    if given.case:
        with threadpool_limits(1, "blas"):
            print(json.dumps(case(given.case[0], given.data, given.case[1], int(given.case[2]), most_qp)))
        return
    print(machine())
    parts: dict[str, Callable[[], None]] = {
        "priors": lambda: priors(given.data, 2 if given.quick else 10),
        "growth": lambda: growth(given.data, SIZES[:2] if given.quick else SIZES, most_qp),
        "live": lambda: live(given.data, 3 if given.quick else 20),
    }
    with threadpool_limits(1, "blas"):
        for name, part in parts.items():
            if given.only in (None, name):
                print(f"\n{name}\n")
                part()


if __name__ == "__main__":
    main()
