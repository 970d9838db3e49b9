"""Intervals and sets from exact leave-one-out residuals: how many targets they cover, their size and their cost.

``cover``: twelve tables, drawn again several times, at a coverage of 0.9, next to split conformal prediction that
learns half of the examples and calibrates on the other half. ``cost``: the first prediction after an update of 30 + 30
at n = 1,400 next to three such updates, and the ones after it. ``after``: what is first asked after such an update, by
n, next to training ``SVC`` from scratch.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalSVC, IncrementalSVR, conformal, tune
from tests.benchmarks.printing import duration, geometric_mean, machine, table
from tests.benchmarks.sets import DATA, available, read, standardised

VALUES = ("abalone", "bodyfat", "concrete", "housing", "mpg", "space_ga")
CLASSES = ("australian", "german_numer", "ionosphere", "diabetes", "spambase", "letter")
COVERAGE = 0.9
LEARNT, TESTED, DRAWS = 200, 400, 10


def model_for(is_values: bool) -> Any:
    """Return a model with the settings of all tables; features and targets are standardised."""
    if is_values:
        return IncrementalSVR(C=1.0, gamma="scale", epsilon=0.1)
    return IncrementalSVC(C=1.0, gamma="scale")


def split(X: Any, y: Any, rows: Any, is_values: bool) -> Any:
    """Return the intervals, or sets, of split conformal prediction: half of the examples learn, half calibrate."""
    half = len(X) // 2
    model = model_for(is_values).fit(X[:half], y[:half])
    rank = int(np.ceil(COVERAGE * (len(X) - half + 1))) - 1
    if is_values:
        reach = np.sort(np.abs(y[half:] - model.predict(X[half:])))[rank]
        f = model.predict(rows)
        return f - reach, f + reach
    classes = model.classes_

    def behind(Z: Any) -> Any:
        """Return by how much each class is behind the others at worst, (m, k)."""
        f = model.decision_function(Z)
        if classes.size == 2:
            return np.stack([f, -f], axis=1)
        ordered = np.sort(f, axis=1)
        best, second = ordered[:, -1:], ordered[:, -2:-1]
        return np.where(f == best, second - f, best - f)

    own = behind(X[half:])[np.arange(len(X) - half), np.searchsorted(classes, y[half:])]
    return behind(rows) <= np.sort(own)[rank]


def one(name: str) -> list[str]:
    """Return a line of the table: coverage and size of both, over all draws."""
    is_values = name in VALUES
    X, y = read(name, DATA)
    X = standardised(X)
    if is_values:
        y = (y - y.mean()) / y.std()
    elif name == "letter":
        those = np.isin(y, np.unique(y)[:4])
        X, y = X[those], y[those]
    covered, others, ratios = [], [], []
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(len(X))
        learnt, tested = order[:LEARNT], order[LEARNT : LEARNT + TESTED]
        exact = conformal(model_for(is_values).fit(X[learnt], y[learnt]))
        rival = split(X[learnt], y[learnt], X[tested], is_values)
        if is_values:
            low, high = exact.intervals(X[tested], COVERAGE)
            covered.append(np.mean((low <= y[tested]) & (y[tested] <= high)))
            others.append(np.mean((rival[0] <= y[tested]) & (y[tested] <= rival[1])))
            ratios.append(np.mean(high - low) / np.mean(rival[1] - rival[0]))
        else:
            at = np.arange(len(tested)), np.searchsorted(np.unique(y), y[tested])
            sets = exact.sets(X[tested], COVERAGE)
            covered.append(np.mean(sets[at]))
            others.append(np.mean(rival[at]))
            ratios.append(sets.sum() / rival.sum())
    mean, error = np.mean(covered), np.std(covered, ddof=1) / np.sqrt(DRAWS)
    return [name, f"{mean:.3f} +- {error:.3f}", f"{np.mean(others):.3f}", f"{geometric_mean(ratios):.2f}"]


def cost() -> list[list[str]]:
    """Return how often sides change in an update and in leaving each out, and what these cost, and the next ones."""
    rng, lines = np.random.default_rng(0), []
    X = rng.normal(size=(2000, 20))
    y = X[:, 0] + X[:, 1] ** 2 - 1.0 + 0.5 * rng.normal(size=2000)
    for is_values in (False, True):
        targets = y if is_values else np.where(y > 0, 1, -1)
        model = model_for(is_values).fit(X[:1400], targets[:1400])
        updates, events, first, sides, then = [], [], [], [], []
        for start in range(1400, 1400 + 5 * 30, 30):
            new = slice(start, start + 30)
            began = time.process_time()
            report = model.update(add=(X[new], targets[new]), remove=model.keys_[:30])
            updates.append(time.process_time() - began)
            events.append(report.events)
            began = time.process_time()
            found = conformal(model)
            first.append(time.process_time() - began)
            sides.append(found.models.events)
            began = time.process_time()
            _ = found.intervals(X[:1], COVERAGE) if is_values else found.sets(X[:1], COVERAGE)
            then.append(time.process_time() - began)
        update, whole = float(np.median(updates)), float(np.median(first))
        name = "regression" if is_values else "two classes"
        counts = f"{np.median(events):.0f}", f"{np.median(sides):.0f}"
        times = duration(update), duration(whole), f"{whole / update:.1f}", duration(float(np.median(then)))
        lines.append([name, *counts, *times])
    return lines


def seconds(call: Callable[[], Any]) -> float:
    """Return the processor time of a call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def after(n: int) -> list[str]:
    """Return a line of the table: medians over five updates, of tuning over two."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + 150, 20))
    y = np.where(X[:, 0] + X[:, 1] ** 2 - 1.0 + 0.5 * rng.normal(size=n + 150) > 0, 1, -1)
    model = IncrementalSVC(C=1.0, gamma="scale", probability=True).fit(X[:n], y[:n])
    model.predict_proba(X[:1])
    found = []
    for start in range(n, n + 150, 30):
        new = slice(start, start + 30)
        update = seconds(partial(model.update, add=(X[new], y[new]), remove=model.keys_[:30]))
        anew = seconds(lambda: SVC(C=1.0).fit(model.window_features, model.window_y))
        asked = seconds(lambda: model.predict_proba(X[:1])), seconds(lambda: conformal(model).sets(X[:1], COVERAGE))
        found.append((anew, update, *asked, seconds(lambda: tune(model)) if start < n + 60 else np.nan))
    return [f"{n:,}", *map(duration, np.nanmedian(found, axis=0))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", default=["cover", "cost", "after"])
    parser.add_argument("--quick", action="store_true", help="two tables")
    options = parser.parse_args(arguments)
    print(machine(), flush=True)
    if "cover" in options.parts:
        names = available([*VALUES, *CLASSES], DATA)
        lines = [one(name) for name in (names[::6] if options.quick else names)]
        print(table(["table", "covered (0.9)", "split", "size / split"], lines), flush=True)
    if "cost" in options.parts:
        with threadpool_limits(limits=1):  # as in the service
            print(
                table(["model", "events of an update", "sides", "update 30 + 30", "first", "updates", "then"], cost())
            )
    if "after" in options.parts:
        with threadpool_limits(limits=1):
            heads = ["n", "`SVC` anew", "update 30 + 30", "first `predict_proba`", "first set", "`tune`"]
            print(table(heads, [after(n) for n in (300, 1000, 3000)[: 2 if options.quick else 3]]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
