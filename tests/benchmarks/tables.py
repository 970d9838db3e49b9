"""Tables as streams, without a setting: models that tune themselves next to LightGBM, ``SVC`` and ``SVR``.

    python -m tests.benchmarks.tables [NAME ...] [--data DIR] [--rows 2000] [--seed 0] [--csv FILE --target COLUMN]
                                      [--target-scale auto]

Of each set a window of 1,000 rows, 500 of sets with fewer than 2,000, is learnt; then 30 rows at a time are predicted,
learnt, and the 30 oldest forgotten. Sets without an order of their own are shuffled, by a seed fixed before. LightGBM
is fitted to the window for each batch, with its defaults and its own categories; SVC and SVR with theirs and a standard
scale, where all columns are numbers. Probabilities of each row are compared by log loss and Brier's score, unless a
window has a single example of a class. The sets of ``MADE`` have
skewed targets, and are run if they are named. Processor time is that of everything: updates, choices, predictions and
probabilities. A star marks sets on which LightGBM is better. A CSV file of your own may take the place of the sets.
Needs the extra ``bench``, and six minutes of processor time.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalSVC, IncrementalSVR
from tests.benchmarks.printing import geometric_mean, machine, table
from tests.benchmarks.sets import DATA, read, there

MOVED = 30
CLASSES = (
    "elec2", "airlines_2k", "spambase", "splice", "german_numer", "diabetes", "australian", "adult", "musk2", "wdbc",
    "ionosphere", "svmguide1", "hill_valley_clean", "hill_valley_noise", "monks1", "monks2", "monks3", "mushrooms",
    "ijcnn1", "w7a", "pu_clean1", "pu_house_votes", "pu_krvskp", "letter", "usps", "shuttle",
)  # fmt: skip
VALUES = (
    "abalone", "cpusmall", "cadata", "space_ga", "concrete", "housing", "bodyfat", "mpg", "winequality_red",
    "triazines", "bike",
)  # fmt: skip
MADE = ("prices", "incomes", "durations", "counts", "additive")
LONG = {"letter": 10, "usps": 10}  #: sets of many classes, of which fewer rows are taken, by so much
LEAST_CHANCE = 1e-6  #: to which probabilities are cut for the log loss
ORDERED = ("elec2", "airlines_2k", "bike")  #: sets with rows in the order of time


@dataclass(frozen=True)
class Stream:
    """A table in the order in which it comes."""

    rows: pd.DataFrame
    y: Any
    n: int  #: of the window
    has_values: bool


def stream(name: str, folder: Path, most: int, seed: int) -> Stream:
    """Return a set as a stream of a window and at most so many rows."""
    if name in MADE:
        return made(name, most, seed)
    if name in ("bike", "elec2"):
        with np.load(folder / f"{'bike_sharing_hour' if name == 'bike' else name}.npz") as archive:
            columns = [str(column) for column in archive["columns"]]
            rows = pd.DataFrame(archive["values"].astype(float), columns=columns)
            if name == "elec2":
                return _cut(rows, archive["y"].astype(float), most, None, has_values=False)
            rows["hour"] = [int(text[11:13]) for text in archive["t"]]
            y = rows.pop("cnt").to_numpy()
            return _cut(rows.drop(columns=["casual", "registered"], errors="ignore"), y, most, None, has_values=True)
    X, y = read(name, folder)
    most //= LONG.get(name, 1)
    dense = X.toarray() if hasattr(X, "toarray") else X
    rows = pd.DataFrame(dense, columns=[f"x{at}" for at in range(dense.shape[1])])
    return _cut(rows, y, most, None if name in ORDERED else seed, has_values=name in VALUES)


def made(name: str, most: int, seed: int) -> Stream:
    """Return a made-up table with positive, skewed targets; only those of "additive" are no product of effects."""
    rng, n = np.random.default_rng(seed), 1000 + most
    words = [f"w{at}" for at in range(12)]
    rows = pd.DataFrame({"size": rng.gamma(2.0, 20.0, n), "a": rng.normal(size=n), "age": rng.integers(0, 80, n) * 1.0})
    rows["word"], rows["kind"] = rng.choice(words, n), rng.choice(["x", "y", "z"], n)
    effect = dict(zip([*words, "x", "y", "z"], rng.normal(0.0, 0.4, 15), strict=True))
    f = 0.6 * np.log1p(rows["size"]) + 0.03 * rows["age"] - 0.0003 * rows["age"] ** 2
    f = (f + 0.2 * rows["a"] + rows["word"].map(effect) + rows["kind"].map(effect)).to_numpy()
    rows.loc[rng.random(n) < 0.1, "age"] = np.nan
    y = {
        "prices": lambda: np.exp(8.0 + f + 0.25 * rng.normal(size=n)).round(-2) + 100.0,
        "incomes": lambda: np.exp(9.0 + f + 0.5 * rng.standard_t(5, n)).round(),
        "durations": lambda: rng.gamma(2.0, np.exp(f)),
        "counts": lambda: rng.poisson(np.exp(f - 1.0) * rng.gamma(3.0, 1.0 / 3.0, n)).astype(float),
        "additive": lambda: 20.0 + rows["size"].to_numpy() + 5.0 * f + 3.0 * rng.normal(size=n),
    }[name]()
    return Stream(rows, y, 1000, has_values=True)


def of_csv(file: Path, target: str, most: int, seed: int) -> Stream:
    """Return a file of rows in any order, with a column to predict."""
    rows = pd.read_csv(file)
    rows = rows[rows[target].notna()]
    y = rows.pop(target)
    has_values = y.dtype.kind in "fi" and y.nunique() > 10
    return _cut(rows, y.to_numpy(float) if has_values else y.astype(str).to_numpy(), most, seed, has_values=has_values)


def _cut(rows: pd.DataFrame, y: Any, most: int, seed: int | None, *, has_values: bool) -> Stream:
    n = len(rows)
    window = 1000 if n >= 2000 else 500 if n >= 800 else n // 2
    order = np.arange(n) if seed is None else np.random.default_rng(seed).permutation(n)
    order = order[: window + most]
    return Stream(rows.iloc[order].reset_index(drop=True), y[order], window, has_values)


@dataclass
class Score:
    """How a learner did."""

    error: float  #: share of right labels, or mean absolute error
    log_loss: float
    brier: float
    seconds: float  #: of processor time, for everything
    of_choices: float = 0.0  #: of these, to choose parameters
    of_probabilities: float = 0.0


class Live:
    """A model without a setting."""

    end = 0  #: of the window
    of_choices = 0.0

    def __init__(self, of: Stream, target_scale: str) -> None:
        if of.has_values:
            given: Any = {"C": "auto", "epsilon": "auto", "columns": "auto", "target_scale": target_scale}
            self.model: Any = IncrementalSVR(**given)
        else:
            self.model = IncrementalSVC(C="auto", columns="auto", probability=True)

    def learn(self, of: Stream, begin: int, end: int) -> None:
        """Have the window end there."""
        before = vars(self.model).get("choice_")
        if begin == 0:
            self.model.fit(of.rows[:end], of.y[:end])
        else:
            new = slice(self.end, end)
            self.model.update((of.rows[new], of.y[new]), remove=self.model.keys_[: end - self.end])
        self.end, now = end, vars(self.model).get("choice_")
        if now is not None and now is not before:
            self.of_choices += now.seconds


class Refitted:
    """A learner that is fitted to the window again."""

    of_choices = 0.0

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def learn(self, of: Stream, begin: int, end: int) -> None:
        """Have the window end there."""
        self.model = self.make().fit(of.rows[begin:end], of.y[begin:end])


def run(learner: Any, of: Stream, *, probabilities: bool = False) -> Score:
    """Predict each batch, then learn it."""
    started, wrong, losses, briers, of_probabilities = process_time(), [], [], [], 0.0
    learner.learn(of, 0, of.n)
    for at in range(of.n, len(of.y), MOVED):
        end = min(at + MOVED, len(of.y))
        rows, y = of.rows[at:end], of.y[at:end]
        found = learner.model.predict(rows)
        wrong.append(np.abs(found - y) if of.has_values else found == y)
        if probabilities:
            began = process_time()
            chances = learner.model.predict_proba(rows)
            of_probabilities += process_time() - began
            truth = np.asarray(y)[:, None] == learner.model.classes_
            own = np.where(truth, chances, 0.0).sum(axis=1)  # 0 of a class that is new
            losses.append(-np.log(own.clip(LEAST_CHANCE, 1.0 - LEAST_CHANCE)))
            briers.append(0.5 * (((chances - truth) ** 2).sum(axis=1) + ~truth.any(axis=1)))
        if end < len(of.y):
            learner.learn(of, end - of.n, end)
    seconds = process_time() - started
    loss, brier = (float(np.concatenate(one).mean()) if one else np.nan for one in (losses, briers))
    return Score(float(np.concatenate(wrong).mean()), loss, brier, seconds, learner.of_choices, of_probabilities)


def _with_categories(of: Stream) -> Stream:
    """Return the stream with words as LightGBM's categories."""
    rows = of.rows.copy()
    for name in rows:
        if rows[name].dtype.kind not in "fiub":
            rows[name] = rows[name].astype("category")
    return Stream(rows, of.y, of.n, of.has_values)


def compared(of: Stream, target_scale: str) -> tuple[Score, Score, Score | None]:
    """Return the scores without a setting, of LightGBM, and of SVC or SVR where all columns are numbers."""
    both = not of.has_values and _has_two_of_each(of)
    live = run(Live(of, target_scale), of, probabilities=both)
    lightgbm = LGBMRegressor if of.has_values else LGBMClassifier
    learner = Refitted(lambda: lightgbm(verbose=-1, n_jobs=1))
    theirs = run(learner, _with_categories(of), probabilities=both)
    if of.rows.isna().any(axis=None) or any(kind.kind not in "fiub" for kind in of.rows.dtypes):
        return live, theirs, None
    machine_ = SVR if of.has_values else SVC
    return live, theirs, run(Refitted(lambda: make_pipeline(StandardScaler(), machine_())), of)


def _has_two_of_each(of: Stream) -> bool:
    """Say whether every window has two examples of each of its classes, without which there are no probabilities."""
    windows = (of.y[max(0, end - of.n) : end] for end in range(of.n, len(of.y), MOVED))
    return all(min(np.unique(window, return_counts=True)[1]) > 1 for window in windows)


def line(name: str, of: Stream, live: Score, theirs: Score, sklearn: Score | None) -> list[str]:
    """Return a line of the table; with a mark where LightGBM is better."""
    digits, better = (".4g", float.__gt__) if of.has_values else (".4f", float.__lt__)
    words = [name + " *" * better(live.error, theirs.error), str(len(of.rows) - of.n), str(of.rows.shape[1])]
    words += ["" if one is None else format(one.error, digits) for one in (live, theirs, sklearn)]
    if not of.has_values:
        words += [
            "" if np.isnan(one) else f"{one:.3f}" for one in (live.log_loss, theirs.log_loss, live.brier, theirs.brier)
        ]
    words += [f"{one:.2f}" for one in (live.seconds, live.of_choices, live.of_probabilities, theirs.seconds)]
    return words


HEADER = (
    "set", "rows", "columns", "live", "LightGBM", "SVC, SVR", "log loss", "LightGBM", "Brier", "LightGBM", "live, s",
    "choices", "probabilities", "LightGBM, s",
)  # fmt: skip


def main() -> int:
    """Print a table of classification and one of regression, with their means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="sets; by default all that are there")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rows", type=int, default=2000, help="at most, after the window")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path, help="a table of your own, with --target")
    parser.add_argument("--target")
    parser.add_argument("--target-scale", default="auto")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    if chosen.csv is not None:
        streams = {chosen.csv.stem: partial(of_csv, chosen.csv, chosen.target, chosen.rows, chosen.seed)}
    else:
        known = [name for name in (*CLASSES, *VALUES) if name == "bike" or there(name, chosen.data)]
        streams = {name: partial(stream, name, chosen.data, chosen.rows, chosen.seed) for name in chosen.names or known}
    with threadpool_limits(1):
        for has_values in (False, True):
            found = []
            for name, make in streams.items():
                if (of := make()).has_values is has_values:
                    found.append((name, of, *compared(of, chosen.target_scale)))
            if found:
                summary(found)
    return 0


def summary(found: list[tuple[str, Stream, Score, Score, Score | None]]) -> None:
    """Print the lines, and the means."""
    has_values = found[0][1].has_values
    header = HEADER[:6] + HEADER[10:] if has_values else HEADER
    print("\n" + table(header, [line(*one) for one in found]) + "\n")
    live, theirs = [one for _, _, one, _, _ in found], [one for _, _, _, one, _ in found]
    if has_values:
        ratio = geometric_mean([a.error / b.error for a, b in zip(live, theirs, strict=True)])
        print(f"mean absolute error, geometric mean of the ratio to LightGBM's: {ratio:.3f}")
    else:
        means = [[float(np.nanmean([getattr(one, name) for one in side])) for side in (live, theirs)] for name in MEANS]
        print(f"right: {means[0][0]:.2%} without a setting, {means[0][1]:.2%} by LightGBM")
        print(f"log loss: {means[1][0]:.4f}, LightGBM {means[1][1]:.4f}")
        print(f"Brier: {means[2][0]:.4f}, LightGBM {means[2][1]:.4f}")
    mine, other = (sum(one.seconds for one in side) for side in (live, theirs))
    parts = [sum(getattr(one, name) for one in live) for name in ("of_choices", "of_probabilities")]
    print(
        f"processor time {mine:.1f} s (choices {parts[0]:.1f}, probabilities {parts[1]:.1f}), LightGBM {other:.1f} s: "
        f"{mine / other:.2f}"
    )


MEANS = ("error", "log_loss", "brier")

if __name__ == "__main__":
    sys.exit(main())
