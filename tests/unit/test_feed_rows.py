"""What models are given of every reading, computed plainly from the list of readings, for settings of all kinds."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from livesvm.service.feeds.features import YEAR
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.snapshot import from_arrays, to_arrays
from livesvm.service.feeds.spec import spec_of

HOUR, DAY = 3600.0, 86400.0
BEGIN = 1711753200.0  # the hour is left out in Berlin a day later


def settings(seed: int) -> dict[str, Any]:
    """Return settings of a feed, at random."""
    random = np.random.default_rng(seed)
    lags = random.choice(np.arange(1, 15), int(random.integers(1, 5)), replace=False).tolist()
    widths = {name: random.choice([2, 5, 11], 2).tolist() for name in ("mean", "std", "min", "max")}
    return {
        "target": "y",
        "every": ["1h", "8h", "1d"][seed % 3],
        "timezone": [None, "Europe/Berlin"][seed % 2],
        "features": ["u", "v"][: int(random.integers(0, 3))],
        "lags": int(random.integers(1, 6)) if seed % 2 else lags,
        "rolling": {name: widths[name] for name in random.permutation(list(widths))[: int(random.integers(0, 4))]},
        "calendar": bool(random.random() < 0.7),
        "season": int(random.choice([0, 3, 7, 24])),
        "steps": sorted(random.choice(np.arange(1, 13), int(random.integers(1, 4)), replace=False).tolist()),
        "window": int(random.choice([48, 360])) if seed % 4 == 0 else 48,
        "batch": int(random.choice([1, 5, 24])),
        "missing": str(random.choice(["hold", "skip"])),
        "task": str(random.choice(["value", "direction"])),
        "C": 1.0, "gamma": 0.05, "represent": "change", "band": None, "generation": 1,
    }  # fmt: skip


class Plain:
    """The readings as a list by slot, from which every feature is computed by its definition."""

    def __init__(self, feed: Forecaster, given: list[dict[str, Any]]) -> None:
        self.spec, names = feed.spec, feed.spec.columns
        self.times, self.given, self.held = list[float](), list[list[float | None]](), list[list[float]]()
        for row in given:
            cells = [row[name] for name in names]
            if self.spec.missing == "skip" and None in cells:
                continue
            if not self.held and cells[0] is None:
                continue
            before = self.held[-1] if self.held else [0.0] * len(names)
            self.times.append(row["time"])
            self.given.append(cells)
            self.held.append([b if c is None else c for c, b in zip(cells, before, strict=True)])
        self.y = np.array([row[0] for row in self.held])

    def shared(self, slot: int) -> list[float]:
        past, n = self.y[: slot + 1], len(self.spec.features)
        lags = [past[-lag] for lag in self.spec.lag_list]
        found = [*lags, float(np.mean(lags))]
        own = {
            (name, min(width, self.spec.window // 4)) for name, widths in self.spec.rolling.items() for width in widths
        }
        for name, width in sorted(own, key=lambda pair: (pair[0] == "std", pair)):
            found.append(float(getattr(np, name)(past[-width:])))
        return [*found, *self.held[slot][1 : 1 + n]]

    def own(self, slot: int, step: int, seconds: float) -> list[float]:
        season = self.spec.season or 0
        a_week = 7 * season if season and season * seconds == DAY and 14 * season <= self.spec.window else 0
        found = [
            self.y[max(s for s in range(slot + 1) if (slot + step - s) % period == 0)]
            for period in (season, a_week)
            if period
        ]
        if self.spec.calendar:
            then = self.times[slot] + step * seconds
            if self.spec.timezone is not None:
                zone = ZoneInfo(self.spec.timezone)
                clock = datetime.fromtimestamp(then, zone).replace(tzinfo=UTC)
                if seconds == DAY:  # days are the calendar's
                    clock = datetime.fromtimestamp(self.times[slot], zone).replace(tzinfo=UTC) + timedelta(days=step)
                then = clock.timestamp()
            for cycle in (DAY, 7 * DAY, YEAR):
                if 3 * seconds <= cycle:
                    angle = 2 * math.pi * then / cycle
                    found += [math.sin(angle), math.cos(angle)]
        return found


@pytest.mark.parametrize("seed", range(16))
def test_rows_are_those_of_the_list_of_readings(seed: int) -> None:
    given, random = settings(seed), np.random.default_rng(100 + seed)
    feed = Forecaster(spec_of(given))
    n = feed.spec.window + 40
    seconds = {"1h": HOUR, "8h": 8 * HOUR, "1d": DAY}[given["every"]]
    values = {name: random.normal(size=n).round(3) for name in feed.spec.columns}
    values["y"] += 5 * np.sin(2 * np.pi * np.arange(n) / 7)
    rows: list[dict[str, Any]] = []
    for i in range(n):
        cells = {name: None if random.random() < 0.04 else float(values[name][i]) for name in feed.spec.columns}
        rows.append({"time": BEGIN + i * seconds} | cells)
    if seconds == DAY and feed.spec.timezone:
        zone, first = ZoneInfo(feed.spec.timezone), datetime(2024, 3, 1, 12)
        for i, row in enumerate(rows):
            row["time"] = (first + timedelta(days=i)).replace(tzinfo=zone).timestamp()
    plain, at = Plain(feed, rows), 0
    while at < n:
        size = int(random.integers(1, 20))
        feed.observe(rows[at : at + size])
        at += size
    assert feed.rows is not None
    assert feed.timeline.slot == len(plain.y) - 1
    for one in (feed, from_arrays(feed.spec, to_arrays(feed))):
        assert one.rows is not None
        real = [s for s in range(one.rows.layout.reach - 1, len(plain.y)) if plain.given[s][0] is not None]
        assert sorted(one.rows.by_slot) == real[-one.rows.size :]
        for slot, ordinal in list(one.rows.by_slot.items())[-70:]:
            place = one.rows.places([ordinal])[0]
            np.testing.assert_allclose(one.rows.shared[place], plain.shared(slot), atol=1e-12)
            for i, step in enumerate(feed.spec.horizons):
                np.testing.assert_allclose(one.rows.own[place, i], plain.own(slot, step, seconds), atol=1e-6)
                came = plain.given[slot + step][0] if slot + step < len(plain.y) else None
                assert one.rows.target[place, i] == pytest.approx(math.nan if came is None else came, nan_ok=True)
        for i, model in enumerate(one.models):
            window = real[-feed.spec.window :]
            expected = [s for s in window if s + feed.spec.horizons[i] in real]
            assert [int(one.rows.slot[one.rows.places([int(key)])[0]]) for key in model.models[0].keys_] == expected
            newest = np.array(one.rows.known(i)[-9:])
            found = [one.examples(i, newest)[1], one._targets(i, newest)]
            one.cool()
            assert [*map(list, found)] == [list(one._targets(i, newest))] * 2
