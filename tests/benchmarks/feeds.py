"""Forecasting feeds with defaults on real series, beside naive forecasts and other learners on the same features.

Every forecast is made before its reading is known. Errors are mean absolute ones over the better of the last value and
the seasonal value, whose period is the natural one of the series or the one that the feed found, whichever is better;
below 1 is ahead. Of directions (elec2) the columns are shares of wrong ones over that of the better of the last change
and the more frequent direction. ``coverage`` is that of the 90% band. Rivals get the feed's features, standardized,
learn every example as soon as its target is known, and forecast what the feed's models do: river's linear model,
Hoeffding tree and adaptive forest, and scikit-learn's SVR (SVC) with the feed's parameters, trained again every 48
readings on the same window. Seconds are of processor time, a reading and step; the feed's contain everything.

    python -m tests.benchmarks.feeds [--quick] [--readings 3000] [--only NAME] [--no-rivals] [--data DIRECTORY]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC, SVR

from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.scores import FIELDS
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.timeline import Timeline
from tests.benchmarks.sets import DATA
from tests.benchmarks.tables import duration, geometric_mean, machine, table
from tests.support.made_up_series import KINDS, made_up

Floats = NDArray[np.float64]

STEPS = (1, 6, 24)
CALL = 12  #: readings sent at once
AGAIN = 48  #: readings after which SVR is trained again
WINDOW = 1000


@dataclass(frozen=True)
class Series:
    """A column of an archive, and the period that anyone would expect of it, in readings; without a file, made up."""

    name: str
    file: str
    column: str
    period: int
    task: str = "value"


SERIES = (
    Series("fisher", "fisher_river", "flow_m3s", 365),
    Series("melbourne", "daily_min_temp_melbourne", "temp_c", 365),
    Series("sunspots", "sunspots_monthly", "sunspots", 132),
    Series("etth1", "etth1", "OT", 24),
    Series("bike", "bike_sharing_hour", "cnt", 168),
    Series("seattle", "seattle_weather", "temp_max_c", 365),
    Series("air", "air_quality_uci", "NOx(GT)", 24),
    Series("elec2", "elec2", "nsw_price", 48, "direction"),
)
UNSEEN = (
    Series("etth1 load", "etth1", "HUFL", 24),
    Series("etth1 low load", "etth1", "LULL", 24),
    Series("air benzene", "air_quality_uci", "C6H6(GT)", 24),
    Series("air temperature", "air_quality_uci", "T", 24),
    Series("air sensor 5", "air_quality_uci", "PT08.S5(O3)", 24),
    Series("seattle wind", "seattle_weather", "wind_ms", 365),
    Series("seattle minimum", "seattle_weather", "temp_min_c", 365),
    Series("elec2 price", "elec2", "nsw_price", 48),
    Series("elec2 demand", "elec2", "nsw_demand", 48),
    Series("fisher temperature", "fisher_river", "temp_c", 365),
    Series("fisher rain", "fisher_river", "precip_mm", 365),
    Series("bike temperature", "bike_sharing_hour", "temp", 24),
)  #: defaults were chosen without these but for a look that they do no harm here


MADE_UP = tuple(Series(kind, "", "", 24) for kind in KINDS if kind != "constant")  #: which naive forecasts know


@dataclass
class Run:
    """What a feed did with a series; examples by step as rivals get them."""

    feed: Forecaster
    seconds: float
    values: Floats  #: by slot, missing ones held
    scored: dict[int, Floats]  #: by step, (n, fields of Scored)
    examples: list[
        tuple[NDArray[np.int64], Floats, Floats]
    ]  #: by step: slots (n,), raw features (n, d), reference (n,)
    events: dict[str, int]


def rows_of(series: Series, folder: Path, readings: int) -> list[dict[str, Any]]:
    """Return the first readings of a series as a feed is sent them; a half-hourly row index becomes times."""
    if not series.file:
        values = made_up(series.name, readings).tolist()
        return [{"time": 3600 * i, "y": None if np.isnan(v) else v} for i, v in enumerate(values)]
    with np.load(folder / f"{series.file}.npz") as archive:
        column = [str(name) for name in archive["columns"]].index(series.column)
        values = np.asarray(archive["values"][:, column], np.float64)
        times = [str(t) for t in archive["t"]]
        if archive["t"].dtype.kind in "iu":
            start = np.datetime64("1996-05-07T00:00")
            times = [str(start + np.timedelta64(30 * i, "m")) for i in range(len(times))]
    pairs = list(zip(times, values.tolist(), strict=True))[:readings]
    return [{"time": t, "y": None if np.isnan(v) else v} for t, v in pairs]


def run(series: Series, rows: list[dict[str, Any]]) -> Run:
    """Send a series to a feed with defaults, and write down what it says."""
    feed = Forecaster(spec_of({"target": "y", "steps": list(STEPS), "task": series.task}))
    scored: dict[int, list[Any]] = {step: [] for step in STEPS}
    slots: list[list[int]] = [[] for _ in STEPS]
    features: list[list[Floats]] = [[] for _ in STEPS]
    bases: list[list[float]] = [[] for _ in STEPS]
    events: dict[str, int] = {}
    seconds, seen = 0.0, 0
    for start in range(0, len(rows), CALL):
        began = process_time()
        outcome = feed.observe(rows[start : start + CALL])
        seconds += process_time() - began
        for step, one in outcome.scored:
            scored[step].append(one)
        for event in outcome.events:
            events[event.kind] = events.get(event.kind, 0) + 1
        if feed.rows is None:
            continue
        new = list(range(max(seen, feed.rows.oldest), feed.rows.count))
        seen = feed.rows.count
        at = feed.rows.places(new)
        for i in range(len(STEPS)):
            X, _ = feed.examples(i, new)
            slots[i] += feed.rows.slot[at].tolist()
            features[i] += list(X)
            base = feed.rows.shared[at, 0] if series.task == "direction" else feed.reference(i, new)
            bases[i] += base.tolist()
    values = _by_slot(feed, rows)
    examples = [(np.array(s), np.array(x), np.array(b)) for s, x, b in zip(slots, features, bases, strict=True)]
    return Run(feed, seconds, np.array(values), {s: np.array(r) for s, r in scored.items()}, examples, events)


def _by_slot(feed: Forecaster, rows: list[dict[str, Any]]) -> list[float]:
    """Return every slot's value, as a feed that only reads would hold it."""
    return [reading.values[0] for reading in Timeline(feed.spec, feed.spec.window).read(rows).readings]


def naive_error(series: Series, found: Run, step: int) -> float:
    """Return the error of the better naive forecast over what the feed has forecast."""
    scored = dict(zip(FIELDS, found.scored[step].T, strict=True))
    if series.task == "direction":
        up = scored["actual"] > scored["last"]
        return float(min(np.mean((scored["last_change"] > 0) != up), up.mean(), 1 - up.mean()))
    errors = [np.abs(scored[name] - scored["actual"]).mean() for name in ("last", "seasonal")]
    past = scored["slot"].astype(int) - series.period * -(-step // series.period)
    if (past >= 0).all():
        errors.append(np.abs(found.values[past] - scored["actual"]).mean())
    return float(min(errors))


def feed_error(series: Series, found: Run, step: int) -> tuple[float, float]:
    """Return the feed's own error and the coverage of its band."""
    scored = dict(zip(FIELDS, found.scored[step].T, strict=True))
    if series.task == "direction":
        return float(np.mean((scored["value"] > 0) != (scored["actual"] > scored["last"]))), np.nan
    covered = (scored["low"] <= scored["actual"]) & (scored["actual"] <= scored["high"])
    return float(np.abs(scored["value"] - scored["actual"]).mean()), float(covered.mean())


class Again:
    """scikit-learn's SVR or SVC with a feed's parameters, trained again now and then on the newest window."""

    def __init__(self, found: Run, step: int, task: str) -> None:
        recipe = found.feed.models[step].recipe
        common = {"C": recipe.C, "gamma": recipe.gamma, "cache_size": 200}
        self.model = SVC(**common) if task == "direction" else SVR(epsilon=0.05, **common)
        self.X: list[Floats] = []
        self.y: list[float] = []
        self.since, self.trained = 0, False

    def predict_one(self, x: Floats) -> float:
        """Return the forecast of features (d,)."""
        return float(self.model.predict(x[None])[0]) if self.trained else 0.0

    def learn_one(self, x: Floats, y: float) -> None:
        """Take an example; train when it is time."""
        self.X, self.y = [*self.X[-WINDOW:], x], [*self.y[-WINDOW:], y]
        self.since += 1

    def train_if_due(self) -> None:
        """Train on the window if so many examples have come."""
        if (self.since >= AGAIN or not self.trained) and len(set(self.y)) > 1:
            self.model.fit(np.array(self.X), np.array(self.y))
            self.since, self.trained = 0, True


class River:
    """One of river's learners."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict_one(self, x: Floats) -> float:
        """Return the forecast of features (d,)."""
        return float(self.model.predict_one(dict(enumerate(x.tolist()))) or 0.0)

    def learn_one(self, x: Floats, y: float) -> None:
        """Take an example."""
        self.model.learn_one(dict(enumerate(x.tolist())), y)

    def train_if_due(self) -> None:
        """Nothing waits."""


def rivals(found: Run, step: int, task: str, quick: bool) -> dict[str, Any]:
    """Return the other learners by name."""
    from river import forest, linear_model, optim, tree

    forest_of: Any
    if task == "direction":
        out: dict[str, Any] = {
            "river linear": River(linear_model.LogisticRegression(optimizer=optim.SGD(0.01))),
            "river tree": River(tree.HoeffdingTreeClassifier()),
        }
        forest_of = forest.ARFClassifier
    else:
        out = {
            "river linear": River(linear_model.LinearRegression(optimizer=optim.SGD(0.001), intercept_lr=0.001)),
            "river tree": River(tree.HoeffdingAdaptiveTreeRegressor(seed=0)),
        }
        forest_of = forest.ARFRegressor
    if not quick:
        out["river forest"] = River(forest_of(n_models=5, seed=0))
    return out | {"SVR again": Again(found, step, task)}


def rival_error(series: Series, found: Run, i: int, rival: Any) -> tuple[float, float]:
    """Return a rival's error over what the feed has forecast, and its seconds a reading."""
    slots, raw, base = found.examples[i]
    step, live = STEPS[i], int(found.scored[STEPS[i]][0, 0]) - STEPS[i]
    first = slots <= live
    centre, width = np.median(raw[first], axis=0), raw[first].std(axis=0)
    X = (raw - centre) / np.where(width > 0, width, 1.0)
    if isinstance(rival, Again):  # its kernel needs the feed's scale
        scale = found.feed.models[i].scale
        assert scale is not None
        X = (raw - scale.centre) / scale.width
    targets = {int(slot): found.values[int(slot) + step] for slot in slots if slot + step < len(found.values)}
    unit = np.std([targets[int(s)] - b for s, b in zip(slots[first], base[first], strict=True) if int(s) in targets])
    wanted = set(found.scored[step][:, 0].astype(int).tolist())
    waiting: list[tuple[int, Floats, float]] = []
    wrong, began = [], process_time()
    for slot, x, b in zip(slots.tolist(), X, base, strict=True):
        while waiting and waiting[0][0] + step <= slot:
            past, features, reference = waiting.pop(0)
            y = (targets[past] - reference) / unit
            rival.learn_one(features, bool(y > 0) if series.task == "direction" else y)
        if slot >= live:
            rival.train_if_due()
        if slot + step in wanted:
            found_value, actual = rival.predict_one(x), targets[slot]
            if series.task == "direction":
                wrong.append(float(bool(found_value > 0) != (actual > b)))
            else:
                wrong.append(abs(found_value * unit + b - actual))
        if slot in targets:
            waiting.append((slot, x, b))
    return float(np.mean(wrong)), (process_time() - began) / len(slots)


def report(chosen: tuple[Series, ...], given: argparse.Namespace, with_rivals: bool) -> None:
    """Print one table, and what it comes to."""
    names: list[str] = []
    lines, ratios, coverages = [], [], []
    for series in chosen:
        found = run(series, rows_of(series, given.data, given.readings))
        for i, step in enumerate(STEPS):
            naive = naive_error(series, found, step)
            error, coverage = feed_error(series, found, step)
            if series.task == "value":
                ratios.append(error / naive)
                coverages.append(coverage)
            each = found.seconds / len(found.values) / len(STEPS)
            cells = [f"{error / naive:.3f}", "" if np.isnan(coverage) else f"{coverage:.1%}", duration(each)]
            others = rivals(found, i, series.task, given.quick) if with_rivals else {}
            names = list(others)
            for rival in others.values():
                wrong, seconds = rival_error(series, found, i, rival)
                cells.append(f"{wrong / naive:.3f}, {duration(seconds)}")
            recipe = found.feed.models[i].recipe
            size = len(found.scored[step])
            lines.append([f"{series.name} {step}", str(size), *cells, f"{recipe.represent} C={recipe.C:g}"])
        print(f"{series.name}: season {found.feed.season}, events {found.events}", flush=True)
    print()
    print(table(["series, step", "n", "feed", "coverage", "s/reading", *names, "chosen"], lines))
    print()
    if ratios:
        below = float(np.mean(np.array(ratios) < 1))
        print(
            f"errors over the better naive one, {len(ratios)} cells: geometric mean {geometric_mean(ratios):.3f}, "
            f"below 1 in {below:.0%}; coverage {min(coverages):.1%} to {max(coverages):.1%}\n"
        )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description="Feeds with defaults beside naive forecasts and other learners")
    parser.add_argument("--quick", action="store_true", help="fewer readings of four series, no forest")
    parser.add_argument("--readings", type=int, default=3000, help="most of each series")
    parser.add_argument("--only", help="one series, by name")
    parser.add_argument("--no-rivals", action="store_true", help="the feed and naive forecasts alone")
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args()
    print(machine(), "\n")
    own, unseen = (
        tuple(s for s in all_of if (given.data / f"{s.file}.npz").is_file() and given.only in (None, s.name))
        for all_of in (SERIES, UNSEEN)
    )
    if given.quick:
        given.readings = min(given.readings, 1400)
        own = own[:4] + own[7:]
    made = tuple(s for s in MADE_UP if given.only in (None, s.name))
    if not own + unseen + (made if given.only else ()):
        parser.error(f"{given.data} has none of these series")
    if own:
        report(own, given, not given.no_rivals)
    if unseen and not given.quick:
        print("Other series:\n")
        report(unseen, given, False)
    if made and not given.quick:
        print("Made up, hourly:\n")
        report(made, given, False)


if __name__ == "__main__":
    main()
