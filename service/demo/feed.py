"""Part one: a feed that is configured with column names only forecasts the river's flow 1, 3 and 7 days ahead.

The demonstration sends the feed the unchanged readings of the file: first two years, which fill its window, then single
days. The feed stores every forecast, and scores the forecast when the reading of the forecast's day arrives. The feed's
forecasts are compared with naive forecasts, which the feed scores too, and with retraining. For retraining,
scikit-learn's ``SVR`` is trained from scratch once a month for each step, on the examples of the feed's model, and
forecasts the days of the month. A second feed, which runs in this process without the service, gets the same readings.
The second feed supplies the examples for ``SVR``, and must make the same forecasts as the first feed.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.svm import SVR

from livesvm.service.client import Client
from livesvm.service.demo.data.fisher_river import Series, load
from livesvm.service.demo.errors import DemoError
from livesvm.service.demo.feed_report import HEADER, Month, StepErrors, row, summary
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.step_model import StepModel

FEED = "fisher-flow"
STEPS = (1, 3, 7)
WINDOW = 730
MONTH = 30
WORST_GAP = 1e-8
AGREEMENT = 1e-9
SETTINGS: dict[str, Any] = {
    "target": "flow_m3s",
    "time": "date",
    "features": ["precip_mm", "temp_c"],
    "steps": list(STEPS),
    "window": WINDOW,
    "outliers": "learn",  # a river that jumps when the snow melts is no bad reading
}


def readings(series: Series) -> list[dict[str, Any]]:
    """Return the river's record as rows to send to the feed, one row a day."""
    cells = zip(series.dates, series.values.tolist(), strict=True)
    return [{"date": day, **dict(zip(series.columns, values, strict=True))} for day, values in cells]


class TrainedAgain:
    """An ``SVR`` for each step of a feed, retrained from time to time on the examples that the feed's models hold."""

    def __init__(self, feed: Forecaster) -> None:
        self.feed = feed
        self.errors: list[list[float]] = [[] for _ in STEPS]
        self._machines: list[SVR] = []
        self._scales: list[StepModel] = []
        self._pending: dict[tuple[int, int], float] = {}  # by step, and the day that they are for

    def train(self) -> float:
        """Train the ``SVR`` of each step from scratch, at tolerance 1e-3, and return the seconds that this took."""
        self._machines, self._scales, seconds = [], [], 0.0
        for model in self.feed.models:
            live = model.models[0]
            reported = {name: live.get_params()[name] for name in ("C", "epsilon", "gamma")}
            X, y = live.window_X, live.window_y
            start = perf_counter()
            self._machines.append(SVR(kernel="rbf", tol=1e-3, **reported).fit(X, y))
            seconds += perf_counter() - start
            scale = StepModel(model.spec, model.recipe)
            scale.scale = model.scale
            self._scales.append(scale)
        return seconds

    def forecast(self, day: int) -> None:
        """Forecast from the newest reading, which is the reading of ``day``."""
        assert self.feed.rows is not None
        newest = [self.feed.rows.count - 1]
        for i, (machine, scale) in enumerate(zip(self._machines, self._scales, strict=True)):
            X, _ = self.feed.examples(i, newest)
            found = scale.in_units(machine.predict(scale.scaled(X))) + self.feed.reference(i, newest)
            self._pending[i, day + STEPS[i]] = float(found[0])

    def score(self, day: int, value: float) -> None:
        """Compare the forecasts for ``day`` with the reading of this day."""
        for i, errors in enumerate(self.errors):
            forecast = self._pending.pop((i, day), None)
            if forecast is not None:
                errors.append(abs(forecast - value))


def send(client: Client, copy: Forecaster, rows: list[dict[str, Any]]) -> float:
    """Send readings to the feed and its copy, compare their forecasts, and return the seconds of the feed's call."""
    start = perf_counter()
    answer = client.observe(FEED, rows)
    seconds = perf_counter() - start
    here = [forecast.value for forecast in copy.observe(rows).forecasts]
    there = [forecast["value"] for forecast in answer["forecasts"]]
    if answer["accepted"] != len(rows) or not np.allclose(there, here, rtol=AGREEMENT, atol=AGREEMENT):
        raise DemoError(f"from {rows[-1]['date']} the service forecast {there}, the same feed without it {here}")
    return seconds


def certify(client: Client) -> float:
    """Return the largest relative duality gap of the feed's models, which the service recomputes from their data."""
    gap = float(client.feed_certificate(FEED)["relative_gap"])
    if not gap <= WORST_GAP:
        raise DemoError(f"a model of the feed is {gap} off its optimum")
    return gap


def months(client: Client, rows: list[dict[str, Any]], most: int | None) -> Iterator[Month]:
    """Send the readings after the first window, one a day, and yield the results of each month, at most ``most``."""
    copy = Forecaster(spec_of(SETTINGS))
    again = TrainedAgain(copy)
    send(client, copy, rows[:WINDOW])
    starts = range(WINDOW, len(rows) - MONTH + 1, MONTH)
    for start in starts[:most]:
        svr_seconds = again.train()
        again.forecast(start - 1)
        seconds = 0.0
        for day in range(start, start + MONTH):
            seconds += send(client, copy, rows[day : day + 1])
            again.score(day, rows[day][SETTINGS["target"]])
            again.forecast(day)
        scores = client.feed(FEED)["scores"]
        errors = [StepErrors.of(score, mean(found)) for score, found in zip(scores, again.errors, strict=True)]
        yield Month(rows[start + MONTH - 1]["date"], errors, seconds / MONTH, svr_seconds, certify(client))


def introduce(rows: list[dict[str, Any]]) -> None:
    """Print what this part of the demonstration is about to show."""
    first, last = rows[0]["date"], rows[WINDOW - 1]["date"]
    print(f"""\
Fisher River, Manitoba: a feed is sent the raw readings of flow, rain and temperature of 1988 to 1991, and forecasts
the flow 1, 3 and 7 days ahead. It chooses features, scale, gamma and C itself, when the first {WINDOW} days fill its
window ({first}..{last}); then it gets one reading a day, and every forecast is scored when its day comes.
naive: the better of the last value and that of a season ago. SVR: scikit-learn's, trained again once a month.
""")


def run(client: Client, most: int | None) -> None:
    """Create the feed, send it the river's readings, and print the errors of its forecasts."""
    rows = readings(load())
    introduce(rows)
    client.create_feed(FEED, **SETTINGS)
    print(HEADER)
    done: list[Month] = []
    for month in months(client, rows, most):
        done.append(month)
        print(row(month), flush=True)
    print(f"\n{summary(done, client.feed(FEED))}")
