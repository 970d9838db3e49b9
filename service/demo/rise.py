"""Part two: will the flow rise tomorrow? A model that is updated once a month is compared with retraining.

The model's window holds the last two years. Every month the model forecasts 30 days and is scored; then one update adds
these 30 days and removes the 30 oldest.

``C`` and ``gamma`` were chosen on the first two years alone. The grid has 28 pairs of C in 1e-1..1e5 and gamma in
1e-3..1; three pairs are within one standard error of the most accurate. Of the three most accurate pairs, the chosen
one is that with which training from scratch takes longest. ``python -m tests.benchmarks.river_choice`` prints the grid;
``--C 1e4`` runs the most accurate pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from livesvm.service.client import Client
from livesvm.service.demo.data.fisher_river import Examples, examples, load, scale_by
from livesvm.service.demo.errors import DemoError
from livesvm.service.demo.rise_report import HEADER, Step, row, summary

C = 1e5
GAMMA = 0.01
WINDOW = 730
MONTH = 30
FITS = 3
WORST_GAP = 1e-8
WORST_VIOLATION = 1e-7
MODEL = "fisher-river"


def learn(client: Client, days: Examples, oldest: int) -> dict[str, Any]:
    """Add ``days`` with their dates as keys, and remove the ``oldest`` oldest examples, in one update."""
    remove = {"oldest": oldest} if oldest else None
    answer = client.update(MODEL, days.X, days.y, keys=days.dates, remove=remove)
    if answer["added"] != list(days.dates) or len(answer["removed"]) != oldest:
        raise DemoError(f"the update of {days.dates[0]} answered with other keys than it was sent")
    return answer


def forecast(client: Client, days: Examples) -> NDArray[np.float64]:
    """Predict for each of the days, from the features alone, whether the flow rises (+1) or not (-1)."""
    return np.array(client.predict(MODEL, days.X)["prediction"])


def certify(client: Client) -> dict[str, Any]:
    """Return the certificate that the service recomputes from the window; raises DemoError if an error is too large."""
    certificate = client.certificate(MODEL)
    if not (certificate["relative_gap"] <= WORST_GAP and certificate["max_violation"] <= WORST_VIOLATION):
        raise DemoError(f"the certificate is not good enough: {certificate}")
    return certificate


def train_from_nothing(window: Examples, C: float, gamma: float) -> float:
    """Return the median seconds to train scikit-learn's SVC on the same window, kernel and C, at tolerance 1e-3."""
    seconds = []
    for _ in range(FITS):
        start = perf_counter()
        SVC(C=C, kernel="rbf", gamma=gamma, tol=1e-3).fit(window.X, window.y)
        seconds.append(perf_counter() - start)
    return median(seconds)


def slide(client: Client, known: Examples, days: Examples, window: Examples, C: float, gamma: float) -> Step:
    """Forecast, score, learn and certify one month, train an SVC on ``window``, and return the results."""
    right = int((forecast(client, days) == days.y).sum())
    majority = 1.0 if known.y.sum() > 0 else -1.0
    start = perf_counter()
    update = learn(client, days, oldest=len(days))
    rest_seconds = perf_counter() - start
    return Step(
        days=days,
        window=window,
        update=update,
        certificate=certify(client),
        rest_seconds=rest_seconds,
        svc_seconds=train_from_nothing(window, C, gamma),
        right=right,
        majority_right=int((days.y == majority).sum()),
    )


def months(client: Client, days: Examples, C: float, gamma: float, most: int | None) -> Iterator[Step]:
    """Slide the window through the whole months after the first window, all of them or the first ``most``."""
    starts = range(WINDOW, len(days) - MONTH + 1, MONTH)
    for start in starts[:most]:
        stop = start + MONTH
        known, month, window = days[start - WINDOW : start], days[start:stop], days[stop - WINDOW : stop]
        yield slide(client, known, month, window, C, gamma)


def introduce(first: Examples, C: float, gamma: float) -> None:
    """Print what this part of the demonstration is about to show."""
    print(f"""\
Will the flow rise tomorrow? A model of the last {WINDOW} days, updated a month at a time; no change counts as no rise.
21 features: log flow, precipitation and temperature of the last 7 days, scaled by the first window's ranges.
Live SVM: rbf kernel, gamma = {gamma:g}, C = {C:g}. Each month: forecast {MONTH} days, score, learn them and forget the
{MONTH} oldest in one update. SVC: scikit-learn trains the same window from nothing, tolerance 1e-3, median of {FITS}.
first window {first.dates[0]}..{first.dates[-1]}""")


def run(client: Client, C: float, gamma: float, most: int | None) -> None:
    """Create the model, update it month by month, and print its accuracy and times."""
    raw = examples(load())
    days = scale_by(raw[:WINDOW], raw)
    introduce(days[:WINDOW], C, gamma)
    client.create_model(MODEL, C=C, kernel={"name": "rbf", "gamma": gamma})
    filled = learn(client, days[:WINDOW], oldest=0)
    gap = certify(client)["relative_gap"]
    print(f"filled: {filled['events']} events, {1e3 * filled['seconds']:.1f} ms, relative gap {gap:.1e}")
    print(f"\n{HEADER}")
    steps: list[Step] = []
    for step in months(client, days, C, gamma, most):
        steps.append(step)
        print(row(steps), flush=True)
    print(f"\n{summary(steps)}")
