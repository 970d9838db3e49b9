"""Forecasting feeds with defaults on real series, against naive forecasts, other learners and statistical methods.

Every forecast is made before its reading is known. Errors are mean absolute ones over the better of the last value and
the seasonal value, whose period is the natural one of the series or the one that the feed found, whichever is better;
below 1 is ahead. Of directions (elec2) the columns are shares of wrong ones over that of the better of the last change
and the more frequent direction. ``coverage`` is that of the 90% band. Learners get the feed's features, standardized,
learn every example as soon as its target is known, and forecast what the feed's models do: river's linear model,
Hoeffding tree and adaptive forest, a linear model on RBFSampler, and scikit-learn's SVR (SVC) with the feed's
parameters and LightGBM with its own, trained again every 48 readings on the same window. AutoTheta, AutoETS and
AutoARIMA of statsforecast see the series alone: its newest 1,000 readings, fitted again every 48, and AutoARIMA every
1,000. Seconds are processor time, a reading and step; the feed's contain everything.

    python -m tests.benchmarks.feeds [--quick] [--readings 3000] [--only NAME ...] [--no-rivals] [--data DIRECTORY]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.scores import FIELDS
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.timeline import Timeline
from tests.benchmarks.forecasters import River, learners, statistical
from tests.benchmarks.printing import duration, geometric_mean, machine, table
from tests.benchmarks.sets import DATA
from tests.support.made_up_series import KINDS, made_up

Floats = NDArray[np.float64]

STEPS = (1, 6, 24)
CALL = 12  #: readings sent at once
WINDOW = 1000


@dataclass(frozen=True)
class Series:
    """A column of an archive, and its natural period, in readings; without a file, made up."""

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
            scored[step].append(one[: len(FIELDS)])
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


def rival_error(series: Series, found: Run, i: int, rival: Any) -> tuple[float, float]:
    """Return a rival's error over what the feed has forecast, and its seconds a reading."""
    slots, raw, base = found.examples[i]
    step, live = STEPS[i], int(found.scored[STEPS[i]][0, 0]) - STEPS[i]
    first = slots <= live
    centre, width = np.median(raw[first], axis=0), raw[first].std(axis=0)
    X = (raw - centre) / np.where(width > 0, width, 1.0)
    if not isinstance(rival, River):  # a kernel needs the feed's scale
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


def statistical_errors(series: Series, found: Run) -> dict[str, list[tuple[float, float]]]:
    """Return by name, and step by step, the error of the statistical methods, and their seconds a reading."""
    live = min(int(scored[0, 0]) - step for step, scored in found.scored.items())
    made = statistical(found.values, range(live, len(found.values)), STEPS, series.period)
    out: dict[str, list[tuple[float, float]]] = {name: [] for name in made}
    for i, step in enumerate(STEPS):
        scored = dict(zip(FIELDS, found.scored[step].T, strict=True))
        origins = scored["slot"].astype(int) - step - live
        for name, (forecasts, seconds) in made.items():
            values = forecasts[origins, i]
            wrong = np.abs(values - scored["actual"])
            if series.task == "direction":
                wrong = (values > scored["last"]) != (scored["actual"] > scored["last"])
            out[name].append((float(wrong.mean()), seconds))
    return out


def report(chosen: tuple[Series, ...], given: argparse.Namespace, with_rivals: bool) -> None:
    """Print one table, and what it comes to."""
    names: list[str] = []
    lines, ratios, coverages = [], [], []
    others: dict[str, list[float]] = {}
    for series in chosen:
        found = run(series, rows_of(series, given.data, given.readings))
        methods = statistical_errors(series, found) if with_rivals else {}
        for i, step in enumerate(STEPS):
            naive = naive_error(series, found, step)
            error, coverage = feed_error(series, found, step)
            if series.task == "value":
                ratios.append(error / naive)
                coverages.append(coverage)
            each = found.seconds / len(found.values) / len(STEPS)
            cells = [f"{error / naive:.3f}", "" if np.isnan(coverage) else f"{coverage:.1%}", duration(each)]
            recipe = found.feed.models[i].recipe
            made = learners(recipe.C, recipe.gamma, series.task, given.quick) if with_rivals else {}
            errors = {name: rival_error(series, found, i, rival) for name, rival in made.items()}
            errors |= {name: found_errors[i] for name, found_errors in methods.items()}
            names = list(errors)
            for name, (wrong, seconds) in errors.items():
                cells.append(f"{wrong / naive:.3f}, {duration(seconds)}")
                if series.task == "value":
                    others.setdefault(name, []).append(wrong / naive)
            size = len(found.scored[step])
            lines.append([f"{series.name} {step}", str(size), *cells, f"{recipe.represent} C={recipe.C:g}"])
            print(" | ".join(lines[-1]), flush=True)
        print(f"{series.name}: season {found.feed.season}, events {found.events}", flush=True)
    print()
    print(table(["series, step", "n", "feed", "coverage", "s/reading", *names, "chosen"], lines))
    print()
    if ratios:
        below = float(np.mean(np.array(ratios) < 1))
        print(
            f"errors over the better naive one, {len(ratios)} cells: geometric mean {geometric_mean(ratios):.3f}, "
            f"below 1 in {below:.0%}; coverage {min(coverages):.1%} to {max(coverages):.1%}"
        )
    for name, errors_of in others.items():
        behind = int((np.array(errors_of) > np.array(ratios)).sum())
        print(f"{name}: geometric mean {geometric_mean(errors_of):.3f}; the feed is ahead in {behind} of {len(ratios)}")
    print()


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description="Feeds with defaults against naive forecasts, other learners and statistical methods"
    )
    parser.add_argument("--quick", action="store_true", help="fewer readings of four series, no forest")
    parser.add_argument("--readings", type=int, default=3000, help="most of each series")
    parser.add_argument("--only", nargs="+", help="series, by name")
    parser.add_argument("--no-rivals", action="store_true", help="the feed and naive forecasts alone")
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args()
    print(machine(), "\n")
    own, unseen = (
        tuple(
            s
            for s in all_of
            if (given.data / f"{s.file}.npz").is_file() and (given.only is None or s.name in given.only)
        )
        for all_of in (SERIES, UNSEEN)
    )
    if given.quick:
        given.readings = min(given.readings, 1400)
        own = own[:4] + own[7:]
    made = tuple(s for s in MADE_UP if (given.only is None or s.name in given.only))
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
