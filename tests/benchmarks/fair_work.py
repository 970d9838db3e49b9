"""What every call costs next to training, on tables in which rows come again: no window may hang.

    python -m tests.benchmarks.fair_work                       # a map of some hundred cells
    python -m tests.benchmarks.fair_work --sizes 1000 4000 --families categories --tasks svc --C 1 100

Each cell fills a window, slides it, has it learn rows again that it holds, decays, relabels, reweights, removes a
tenth, and changes C up and down; then the C path, an outlier path, leave-one-out and `tune` where they are asked for
(`--analyses`). Seconds are processor time; a fit of scikit-learn's own (tol 1e-3) is the unit for a filling, and
a filling for what comes after it.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR, OneClassSVM

from livesvm import IncrementalOneClassSVM, IncrementalPUClassifier, IncrementalSVC, IncrementalSVR, time_limit
from livesvm.solvers import leave_one_out, tune
from livesvm.solvers.errors import SolverError
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.warm_up import warm_up
from tests.repeats import FAMILIES, Table, table

MOST_ITERATIONS = 300_000  #: of a fit that is the unit: where it takes more, the unit is too small, which is no harm
FITS, FILLINGS, FLOOR = 30.0, 3.0, 0.3  #: what a filling may cost in fits, a later call in fillings, or seconds


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time of a call, and what it returned."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


class Cell:
    """One window and everything that is asked of it."""

    def __init__(self, family: str, task: str, n: int, C: float, kernel: str, gamma: Any, weighted: bool) -> None:
        self.name = f"{family} {task} n={n} C={C:g} {kernel} gamma={gamma}{' weighted' if weighted else ''}"
        self.n, self.C, self.task, self.weighted = n, C, task, weighted
        self.table: Table = table(family, n + 400)
        shape = {"kernel": kernel, "gamma": gamma}
        most = {"cache_size": 500, "max_iter": MOST_ITERATIONS}
        self.model: Any
        self.rival: Any
        if task == "pu":
            self.model = IncrementalPUClassifier(prior=0.3, lam=0.5 / C, **shape)
            self.rival = SVC(C=C, **shape, **most)
        elif task in ("svc", "classes"):
            votes: dict[str, Any] = {"decision_function_shape": "ovo"}
            self.model, self.rival = IncrementalSVC(C=C, **shape, **votes), SVC(C=C, **shape, **most, **votes)
        elif task == "oneclass":
            self.model, self.rival = IncrementalOneClassSVM(nu=0.2, **shape), OneClassSVM(nu=0.2, **shape, **most)
        else:
            epsilon = 0.0 if task == "absolute" else 0.2
            self.model = IncrementalSVR(C=C, epsilon=epsilon, **shape)
            self.rival = SVR(C=C, epsilon=epsilon, **shape, **most)

    def targets(self, rows: slice) -> Any:
        if self.task == "oneclass":
            return None
        if self.task == "classes":
            return np.digitize(self.table.target[rows], [-0.7, 0.0, 0.7])
        if self.task == "pu":  # every third positive is known to be one
            is_known = np.arange(len(self.table.label))[rows] % 3 == 0
            return ((self.table.label[rows] > 0) & is_known).astype(int)
        return self.table.label[rows] if self.task == "svc" else self.table.target[rows]

    def other(self, rows: slice) -> Any:
        """Return targets that are wrong."""
        y = self.targets(rows)
        if self.task == "pu":
            return 1 - y
        return (y + 1) % 4 if self.task == "classes" else -y

    def verbs(self) -> list[tuple[str, Callable[[], Any]]]:
        m, n, X, move = self.model, self.n, self.table.X, 40
        random = np.random.default_rng(3)
        weight = random.uniform(0.5, 2.0, n + 400) if self.weighted else np.ones(n + 400)

        def slide(rows: slice) -> Any:
            return m.update((X[rows], self.targets(rows)), remove=m.keys_[:move], sample_weight=weight[rows])

        def relabel() -> Any:
            keys = m.keys_[:20]
            return m.update(relabel=dict(zip(keys, self.other(slice(200, 220)), strict=True)))

        def reweight() -> Any:
            return m.update(reweight=dict.fromkeys(m.keys_[-50:], 0.3))

        verbs = [
            ("slide", lambda: slide(slice(n, n + move))),
            ("again", lambda: slide(slice(n - 200, n - 200 + move))),
            ("again", lambda: slide(slice(n - 160, n - 160 + move))),
            ("copies", lambda: slide(slice(n, n + move))),
            ("decay", lambda: m.update(decay=0.7)),
            ("reweight", reweight),
            ("shrink", lambda: m.update(remove=m.keys_[: n // 10])),
        ]
        if self.task != "oneclass":
            verbs += [
                ("relabel", relabel),
                ("2 C", lambda: m.update(C=2.0 * m.C)),
                ("C / 2", lambda: m.update(C=0.5 * m.C)),
                ("10 C", lambda: m.update(C=10.0 * m.C)),
            ]
        return verbs

    def analyses(self) -> list[tuple[str, Callable[[], Any]]]:
        m = self.model
        found: list[tuple[str, Callable[[], Any]]] = [("loo", lambda: leave_one_out(m))]
        if self.task == "oneclass":
            found.append(("nu path", lambda: m.regularization_path(0.1, 0.5)))
        elif self.task != "pu":
            found.append(("C path", lambda: m.regularization_path(m.C / 10, m.C)))
        if self.task == "svc":
            found.append(("theta", lambda: m.outlier_path("theta")))
            found.append(("s", lambda: m.outlier_path("s")))
            found.append(("tune", lambda: tune(m, gammas=[0.05, 0.5], C=(0.1, 10.0))))
        return found

    def compare(self, X: Any, y: Any, weight: Any, faults: list[str]) -> None:
        """Note where decisions are not scikit-learn's at ``tol=1e-6``, which keeps its kernel in single precision."""
        exact = type(self.rival)(**self.rival.get_params() | {"tol": 1e-6, "max_iter": -1}).fit(X, y, **weight)
        name = "predict" if self.task in ("svr", "absolute") else "decision_function"
        theirs = getattr(exact, name)(X)
        ours = getattr(self.model, name)(X)
        scale = float(exact.dual_coef_.sum()) / (0.2 * self.n) if self.task == "oneclass" else 1.0
        off, rounding = float(np.abs(scale * ours - theirs).max()), 1e-6 * float(np.abs(exact.dual_coef_).sum())
        if off > 1e-4 + rounding:
            faults.append(f"{self.name}: decisions are off by {off:.1e}; single precision explains {rounding:.1e}")
            print("FAULT", faults[-1], flush=True)

    def run(self, limit: float, analyses: bool, wordy: bool, decisions: bool = False) -> list[str]:
        """Return a line for each call that cost too much or ended badly."""
        faults: list[str] = []
        n, X, y = self.n, self.table.X, self.targets(slice(0, self.n))
        weight = {}
        if self.weighted:
            weight = {"sample_weight": np.random.default_rng(3).uniform(0.5, 2.0, n)}
        fit = min(seconds(lambda: self.rival.fit(X[:n], y, **weight))[0] for _ in range(2))
        fill = self.call("fill", lambda: self.model.fit(X[:n], y, **weight), limit, FITS, fit, wordy, faults)
        if fill is None:
            return faults
        if decisions and self.task != "pu":
            self.compare(X[:n], y, weight, faults)
        for verb, work in self.verbs() + (self.analyses() if analyses else []):
            allowed = 1e9 if verb in ("loo", "nu path", "C path", "theta", "s", "tune") else FILLINGS
            self.call(verb, work, limit, allowed, fill, wordy, faults)
        return faults

    def call(
        self, verb: str, work: Callable[[], Any], limit: float, most: float, unit: float, wordy: bool, faults: list[str]
    ) -> float | None:
        """Make a call within ``limit`` seconds; note it where it costs more than ``most`` units, or fails."""
        try:
            with time_limit(limit):
                took, report = seconds(work)
        except SolverError as error:
            faults.append(f"{self.name}: {verb}: {type(error).__name__}: {error}")
            print("FAULT", faults[-1], flush=True)
            return None
        gap = self.model.certificate().relative_gap
        line = f"{self.name}: {verb}: {took:.3f} s, {took / max(unit, 1e-9):.1f} of {unit:.3f} s, gap {gap:.0e}"
        if isinstance(report, UpdateReport):
            line += f", {report.events} events, {report.n_free} free{', abandoned' if report.abandoned else ''}"
        if (took > FLOOR and took > most * unit) or gap > 1e-7:
            faults.append(line)
            print("FAULT", line, flush=True)
        elif wordy:
            print(line, flush=True)
        return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[700, 1500, 3000])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    tasks = ["svc", "svr", "absolute", "oneclass", "classes", "pu"]
    parser.add_argument("--tasks", nargs="+", default=tasks, choices=tasks)
    parser.add_argument("--C", type=float, nargs="+", default=[1e-3, 1.0, 100.0, 1e6])
    parser.add_argument("--kernels", nargs="+", default=["rbf:scale", "rbf:0.5", "linear:scale"])
    parser.add_argument("--weighted", action="store_true", help="weights from 0.5 to 2")
    parser.add_argument("--analyses", action="store_true", help="paths, leave-one-out and tune as well")
    parser.add_argument("--decisions", action="store_true", help="compare them with scikit-learn's at tol 1e-6")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of a call")
    parser.add_argument("--wordy", action="store_true", help="print every call")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    warm_up("updates")
    cells = faults = 0
    started = time.time()
    for n in options.sizes:
        for family in options.families:
            for task in options.tasks:
                for C in options.C[:1] if task == "oneclass" else options.C:
                    for shape in options.kernels:
                        kernel, gamma = shape.split(":")
                        value = gamma if gamma in ("scale", "auto") else float(gamma)
                        cell = Cell(family, task, n, C, kernel, value, options.weighted)
                        faults += len(cell.run(options.limit, options.analyses, options.wordy, options.decisions))
                        cells += 1
        print(f"n = {n}: {cells} cells so far, {faults} faults, {time.time() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
