"""A golden run: one line a result, of counts and of a digest of every bit, to be compared before and after a move.

    python -m tests.benchmarks.golden > before.txt     # then change the code
    python -m tests.benchmarks.golden > after.txt && diff before.txt after.txt

A change that only moves or renames has to give the same file on the same machine. One that sums in another order may
change digests; events have to stay the same (`--counts` leaves the digests out).
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from livesvm import solvers
from livesvm.service.demo.data.fisher_river import examples, load, scale_by
from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from tests.problems import problem

#: what says how long something took, not what came out
TIMES = frozenset({"seconds"})


def words(value: Any) -> Iterator[bytes]:
    """Yield every bit of a result: of arrays, numbers, and what is made of them."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        yield str((value.dtype, value.shape)).encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, dict):
        for key in sorted(value):
            yield str(key).encode()
            yield from words(value[key])
    elif hasattr(value, "_asdict"):
        yield from words({k: v for k, v in value._asdict().items() if k not in TIMES})
    elif is_dataclass(value):
        yield from words({f.name: getattr(value, f.name) for f in fields(value) if f.name not in TIMES})
    elif hasattr(value, "to_arrays"):
        yield from words(value.to_arrays())
    elif isinstance(value, list | tuple | np.ndarray):
        for item in value:
            yield from words(item)
    else:
        assert isinstance(value, int | float | str | bytes | np.generic | None), type(value)
        yield repr(value).encode()


class Record:
    """Prints one line a result."""

    def __init__(self, digests: bool) -> None:
        self._digests = digests

    def __call__(self, name: str, value: Any, **counts: float) -> None:
        digest = hashlib.sha256(b"\0".join(words(value))).hexdigest()[:16] if self._digests else ""
        print(name, *(f"{k}={v}" for k, v in counts.items()), digest, flush=True)

    def update(self, name: str, model: Any, report: Any) -> None:
        reported = {k: v for k, v in report._asdict().items() if isinstance(v, int)}
        self(name, (model, report, model.certificate()), **reported)


def degenerate(record: Record, seeds: int) -> None:
    """Run the problems on which active-set methods stumble, and their analyses."""
    for seed in range(seeds):
        case = problem(seed)
        model = IncrementalSVC(**case.parameters())
        for k, batch in enumerate(case.batches):
            new: dict[str, Any] = {}
            if len(batch.add):
                new = {"add": (case.X[batch.add], case.y[batch.add]), "keys": batch.add.tolist()}
                new["sample_weight"] = case.weight[batch.add]
            report = model.update(remove=batch.remove.tolist(), **new)
            record.update(f"degenerate {seed} {case.family} {k}", model, report)
        if len(set(model.to_arrays()["y"].tolist())) > 1 and seed % 4 == 0:
            analyses(record, f"degenerate {seed} {case.family}", model)


def analyses(record: Record, name: str, model: Any) -> None:
    """Run every analysis of a classifier."""
    for label, folds in (("leave-one-out", 0), ("5-fold", 5)):
        try:
            found = solvers.k_fold(model, folds) if folds else solvers.leave_one_out(model)
        except Exception as error:
            record(f"{name} {label}", str(error))
        else:
            record(f"{name} {label}", found, events=found.events)
    try:
        path = model.regularization_path(model.C / 4, model.C * 4)
    except Exception as error:
        record(f"{name} C", str(error))
    else:
        record(f"{name} C", (path.breakpoints, path.at(model.C * 2)), breakpoints=len(path.breakpoints.value))
    for parameter in ("theta", "s"):
        try:
            outliers = model.outlier_path(parameter)
        except Exception as error:
            record(f"{name} {parameter}", str(error))
            continue
        middle = outliers.at((outliers.start + outliers.end) / 2)
        record(
            f"{name} {parameter}",
            (outliers.drops, outliers.breakpoints, outliers.order_of_outliers(), middle),
            events=outliers.events,
            d_steps=outliers.d_steps,
            stalls=outliers.stalls,
        )


def river(record: Record) -> None:
    """Run a month of the Fisher River at a time, every task, a small cache, and all analyses."""
    raw = examples(load())
    days = scale_by(raw[:730], raw)
    for C in (1.0, 100.0, 1e4):
        model = IncrementalSVC(C=C, gamma=0.01, classes=(-1, 1))
        model.update(add=(days.X[:500], days.y[:500]))
        for k in range(500, 900, 30):
            batch = slice(k, k + 30)
            report = model.update(add=(days.X[batch], days.y[batch]), remove=model.keys_[:30])
            record.update(f"river {C} {k}", model, report)
        wrong = {model.keys_[k]: int(-days.y[k + 360]) for k in (140, 300, 420, 499)}
        record.update(f"river {C} relabel", model, model.update(relabel=wrong, decay=0.99))
        analyses(record, f"river {C}", model)
    targets = np.asarray(days.X[:, 0], dtype=float)
    for loss in ("epsilon_insensitive", "absolute", "pinball"):
        regression: Any = IncrementalSVR(C=2.0, gamma=0.1, loss=loss)
        regression.update(add=(days.X[:300], targets[1:301]))
        report = regression.update(add=(days.X[300:330], targets[301:331]), remove=regression.keys_[:30])
        record.update(f"river {loss}", regression, report)
        path = regression.regularization_path(0.5, 4.0)
        record(f"river {loss} C", path.breakpoints, breakpoints=len(path.breakpoints.value))
    one_class: Any = IncrementalOneClassSVM(nu=0.2, gamma=0.1)
    one_class.update(add=(days.X[:300], None))
    record.update(
        "river one class", one_class, one_class.update(add=(days.X[300:330], None), remove=one_class.keys_[:30])
    )
    path = one_class.regularization_path(0.1, 0.5)
    record("river one class nu", path.breakpoints, breakpoints=len(path.breakpoints.value))


def large(record: Record) -> None:
    """Run windows that are walked by a working set, with the whole kernel in memory and with a part of it."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 5))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=len(X)) > 0, 1, -1)
    for gamma, C in ((0.2, 1.0), (1.0, 100.0)):
        model = IncrementalSVC(C=C, gamma=gamma, classes=(-1, 1))
        record.update(f"large {gamma} {C} fill", model, model.update(add=(X[:3000], y[:3000])))
        for k in range(3000, 3200, 50):
            batch = slice(k, k + 50)
            report = model.update(add=(X[batch], y[batch]), remove=model.keys_[:50])
            record.update(f"large {gamma} {C} {k}", model, report)
        restored = IncrementalSVC.from_arrays(model.get_params(), model.to_arrays())
        report = restored.update(add=(X[3200:3230], y[3200:3230]), remove=restored.keys_[:30])
        record.update(f"large {gamma} {C} restored", restored, report)


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", action="store_true", help="leave the digests out")
    parser.add_argument("--seeds", type=int, default=400, help="how many degenerate problems")
    chosen = parser.parse_args()
    record = Record(not chosen.counts)
    degenerate(record, chosen.seeds)
    river(record)
    large(record)


if __name__ == "__main__":
    main()
