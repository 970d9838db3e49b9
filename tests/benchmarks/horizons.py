"""Feeds with defaults at every horizon up to two seasons, next to feeds of the first generation and other methods.

Errors are mean absolute ones over the better of the last value and the seasonal value, as in ``feeds``. LightGBM is
direct, with its defaults, on the newest window and on all history, trained again every so many readings; it sees lags 0
to 23, the target 1, 2 and 7 seasons back, mean and spread of a season, hour, weekday and day of the year as numbers,
and forecasts the target or, with ``--changes``, its change from the newest reading. ``--statistical`` adds AutoTheta,
AutoETS and AutoARIMA as in ``feeds``. ``--ends`` asks for one reading and one season ahead alone. ``--csv NAME=FILE``
adds a series: a file with times, then values, whose season is a day. Seconds are processor time.

    python -m tests.benchmarks.horizons [--readings 3000] [--again 96] [--only NAME] [--no-lightgbm] [--changes]
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.interval import DAY
from livesvm.service.feeds.scores import FIELDS
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.timeline import Reading, Timeline
from tests.benchmarks.feeds import CALL, SERIES, UNSEEN, WINDOW, Series, rows_of
from tests.benchmarks.forecasters import statistical
from tests.benchmarks.printing import duration, geometric_mean, machine, table
from tests.benchmarks.sets import DATA

Floats = NDArray[np.float64]

LONGEST = 60  #: a season whose parts are horizons
LAGS = 24


@dataclass(frozen=True)
class Cell:
    """Errors of one series at one horizon, over the better naive one."""

    series: str
    season: int
    step: int
    size: int
    errors: dict[str, float]
    coverage: float


def steps_of(series: Series, *, ends: bool = False) -> tuple[int, ...]:
    """Return horizons up to two seasons, or two days of hours where a season is longer; with ``ends``, two of them."""
    season = 24 if series.period == 168 else series.period
    if ends:
        return (1, season if season <= 4 * LONGEST else LAGS)
    if season > LONGEST:
        return (1, 6, 24, 48)
    return (1, season // 4, season // 2, season, 3 * season // 2, 2 * season)


def read_csv(file: str, readings: int) -> list[dict[str, Any]]:
    """Return the first rows of a file with times in its first column and values in its second."""
    with open(file, newline="") as lines:
        found = list(islice(csv.reader(lines), 1, readings + 1))
    return [{"time": time.replace(" ", "T"), "y": float(value)} for time, value, *_ in found]


def fed(
    rows: list[dict[str, Any]], steps: tuple[int, ...], generation: int
) -> tuple[Forecaster, dict[int, Floats], float]:
    """Return a feed that took all rows, what was scored of each step, and its seconds a reading once it is live."""
    feed = Forecaster(spec_of({"target": "y", "steps": list(steps), "generation": generation}))
    scored: dict[int, list[Any]] = {step: [] for step in steps}
    seconds, taken = 0.0, 0
    for start in range(0, len(rows), CALL):
        is_live, began = feed.state == "live", process_time()
        outcome = feed.observe(rows[start : start + CALL])
        if is_live:
            seconds, taken = seconds + process_time() - began, taken + outcome.accepted
        for step, one in outcome.scored:
            scored[step].append(one[: len(FIELDS)])
    return feed, {step: np.array(found) for step, found in scored.items()}, seconds / max(1, taken)


def features(readings: list[Reading], season: int, step: int) -> Floats:
    """Return what LightGBM sees of each slot, (slots, features); NaN where that is before the first."""
    y = np.array([reading.values[0] for reading in readings])
    then = np.array([reading.time for reading in readings])
    then = then + step * np.median(np.diff(then))

    def back(values: Floats, n: int) -> Floats:
        return np.concatenate([np.full(n, np.nan), values[: len(values) - n]])

    columns = [back(y, lag) for lag in range(LAGS)]
    if season:
        phase = -step % season
        columns += [back(y, phase + k * season) for k in (0, 1, 6)]
        days = np.lib.stride_tricks.sliding_window_view(y, season)
        before = np.full(season - 1, np.nan)
        columns += [np.concatenate([before, found]) for found in (days.mean(axis=1), days.std(axis=1))]
    columns += [then % DAY / DAY, then // DAY % 7, then / DAY % 365.2425]
    return np.stack(columns, axis=1)


def boosted(
    readings: list[Reading], season: int, step: int, wanted: set[int], given: argparse.Namespace
) -> dict[str, Floats]:
    """Return LightGBM's forecasts by slot of their reading, for those that are ``wanted``, of either history."""
    from lightgbm import LGBMRegressor

    X, y = features(readings, season, step), np.array([reading.values[0] for reading in readings])
    base = y if given.changes else np.zeros(len(y))
    real = np.array([not reading.held for reading in readings])
    first = min(wanted) - step
    found = {}
    for name, window in (("window", WINDOW), ("history", len(y))):
        said = np.full(len(y), np.nan)
        for start in range(first, len(y) - step, given.again):
            rows = np.arange(max(0, start - window + 1), start - step + 1)
            rows = rows[real[rows] & real[rows + step]]
            model = LGBMRegressor(n_jobs=1, verbose=-1).fit(X[rows], y[rows + step] - base[rows])
            new = np.arange(start, min(start + given.again, len(y) - step))
            said[new + step] = model.predict(X[new]) + base[new]
        found[name] = said
    return found


def measured(series: Series, given: argparse.Namespace) -> tuple[list[Cell], list[str]]:
    """Return the cells of a series, and its line of seconds."""
    rows = read_csv(series.file, given.readings) if series in given.csv else rows_of(series, given.data, given.readings)
    steps = steps_of(series, ends=given.ends)
    feed, scored, seconds = fed(rows, steps, 2)
    _, before, seconds_before = fed(rows, steps, 1)
    readings = Timeline(feed.spec, feed.spec.window).read(rows).readings
    values = np.array([reading.values[0] for reading in readings])
    live = min(int(found[0, 0]) - step for step, found in scored.items())
    methods = statistical(values, range(live, len(values)), steps, series.period) if given.statistical else {}
    cells = []
    for i, step in enumerate(steps):
        one, other = (dict(zip(FIELDS, found[step].T, strict=True)) for found in (scored, before))
        actual, slots = one["actual"], one["slot"].astype(int)
        naive = [np.abs(one[name] - actual).mean() for name in ("last", "seasonal")]
        past = slots - series.period * -(-step // series.period)
        if (past >= 0).all():
            naive.append(np.abs(values[past] - actual).mean())
        errors: dict[str, Any] = {"feed": np.abs(one["value"] - actual).mean()}
        errors["before"] = np.abs(other["value"] - other["actual"]).mean()
        if given.lightgbm:
            for name, said in boosted(readings, feed.season or 0, step, set(slots.tolist()), given).items():
                errors[f"LightGBM, {name}"] = np.abs(said[slots] - actual).mean()
        errors |= {name: np.abs(said[slots - step - live, i] - actual).mean() for name, (said, _) in methods.items()}
        covered = (one["low"] <= actual) & (actual <= one["high"])
        shares = {name: float(error / min(naive)) for name, error in errors.items()}
        cells.append(Cell(series.name, feed.season or 0, step, len(slots), shares, float(covered.mean())))
    return cells, [series.name, duration(seconds), duration(seconds_before), f"{seconds / seconds_before:.2f}"]


def summary(cells: Iterable[Cell]) -> list[list[str]]:
    """Return a line for each season length and horizon, and for each season length, of geometric means."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        season = str(cell.season) if cell.season in (24, 48) else "other"
        for step in (str(cell.step), "all"):
            groups.setdefault((season, step), []).append(cell)
        groups.setdefault(("all", "all"), []).append(cell)
    lines = []
    for (season, step), group in sorted(groups.items()):
        means = {name: geometric_mean([cell.errors[name] for cell in group]) for name in group[0].errors}
        inside = np.mean([0.85 <= cell.coverage <= 0.95 for cell in group])
        names = [f"{mean:.3f}" for mean in means.values()]
        lines.append([season, step, str(len(group)), *names, f"{means['feed'] / means['before']:.3f}", f"{inside:.0%}"])
    return lines


def _of_file(text: str) -> Series:
    name, _, rest = text.partition("=")
    file, _, period = rest.rpartition(":")
    return Series(name, file, "", int(period))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--readings", type=int, default=3000, help="most of each series")
    parser.add_argument("--again", type=int, default=96, help="readings after which LightGBM is trained again")
    parser.add_argument("--only", nargs="+", help="series, by name")
    parser.add_argument("--no-lightgbm", dest="lightgbm", action="store_false", help="feeds and naive forecasts alone")
    parser.add_argument("--changes", action="store_true", help="LightGBM forecasts changes")
    parser.add_argument("--statistical", action="store_true", help="AutoTheta, AutoETS and AutoARIMA, too")
    parser.add_argument("--ends", action="store_true", help="one reading and one season ahead alone")
    parser.add_argument("--csv", type=_of_file, nargs="+", default=[], metavar="NAME=FILE:READINGS_A_DAY")
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args()
    print(machine(), "\n")
    cells: list[Cell] = []
    seconds: list[list[str]] = []
    for series in (*SERIES, *UNSEEN, *given.csv):
        if series.task != "value" or (given.only and series.name not in given.only):
            continue
        if series not in given.csv and not (given.data / f"{series.file}.npz").is_file():
            continue
        found, line = measured(series, given)
        cells, seconds = [*cells, *found], [*seconds, line]
        for cell in found:
            errors = ", ".join(f"{name} {error:.3f}" for name, error in cell.errors.items())
            print(
                f"{cell.series} {cell.step} (season {cell.season}, n {cell.size}): {errors}; {cell.coverage:.1%}",
                flush=True,
            )
    names = list(cells[0].errors)
    print()
    print(table(["season", "step", "cells", *names, "feed over before", "85-95% in"], summary(cells)))
    print()
    print(table(["series", "s/reading", "before", "ratio"], seconds))


if __name__ == "__main__":
    main()
