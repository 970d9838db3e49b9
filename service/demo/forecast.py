"""The demonstration: forecast the Fisher River with the real service, a month at a time.

``python -m livesvm.service.demo`` starts the service on a free loopback port with an empty data directory, and drives
it through REST alone. The model knows the last two years. Every month it forecasts 30 days, is scored, and only then
learns those 30 days and forgets the 30 oldest, in one update.

``C`` and ``gamma`` come from the first two years alone: of the 28 cells of C in 1e-1..1e5 by gamma in 1e-3..1, three
forecast there within one standard error of the best, and this is the one of them where training from nothing costs
most. ``python -m tests.benchmarks.river_choice`` prints the grid; ``--C 1e4`` shows the most accurate cell.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from livesvm.service.client import Client, ServiceProblem
from livesvm.service.demo.data.fisher_river import Examples, examples, load, scale_by
from livesvm.service.demo.report import HEADER, Step, row, summary
from livesvm.service.demo.server import Server, ServerError

C = 1e5
GAMMA = 0.01
WINDOW = 730
MONTH = 30
FITS = 3
WORST_GAP = 1e-8
WORST_VIOLATION = 1e-7
MODEL = "fisher-river"


class DemoError(Exception):
    """A step of the demonstration did not do what it should."""


def learn(client: Client, days: Examples, oldest: int) -> dict[str, Any]:
    """Learn ``days``, each under its date, and forget as many of the ``oldest``: one update."""
    remove = {"oldest": oldest} if oldest else None
    answer = client.update(MODEL, days.X, days.y, keys=days.dates, remove=remove)
    if answer["added"] != list(days.dates) or len(answer["removed"]) != oldest:
        raise DemoError(f"the update of {days.dates[0]} answered with other keys than it was sent")
    return answer


def forecast(client: Client, days: Examples) -> NDArray[np.float64]:
    """Rise (+1) or not (-1) for each of the days, from the features alone."""
    return np.array(client.predict(MODEL, days.X)["prediction"])


def certify(client: Client) -> dict[str, Any]:
    """The certificate, which the service recomputes from the window's data; a bad one is a failure."""
    certificate = client.certificate(MODEL)
    if not (certificate["relative_gap"] <= WORST_GAP and certificate["max_violation"] <= WORST_VIOLATION):
        raise DemoError(f"the certificate is not good enough: {certificate}")
    return certificate


def train_from_nothing(window: Examples, C: float, gamma: float) -> float:
    """Median time in seconds of scikit-learn's SVC on the same window, kernel and C, at tolerance 1e-3."""
    seconds = []
    for _ in range(FITS):
        start = perf_counter()
        SVC(C=C, kernel="rbf", gamma=gamma, tol=1e-3).fit(window.X, window.y)
        seconds.append(perf_counter() - start)
    return median(seconds)


def slide(client: Client, known: Examples, days: Examples, window: Examples, C: float, gamma: float) -> Step:
    """One month: forecast from what is ``known``, score, learn, certify; then SVC trains ``window``."""
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


def months(client: Client, days: Examples, shown: argparse.Namespace) -> Iterator[Step]:
    """Slide the window through the whole months after the first window, all of them or as many as are ``shown``."""
    starts = range(WINDOW, len(days) - MONTH + 1, MONTH)
    for start in starts[: shown.months]:
        stop = start + MONTH
        known, month, window = days[start - WINDOW : start], days[start:stop], days[stop - WINDOW : stop]
        yield slide(client, known, month, window, shown.C, shown.gamma)


def introduce(server: Server, first: Examples, shown: argparse.Namespace) -> None:
    """Say what is about to be shown."""
    print(f"""\
Fisher River, Manitoba, 1988 to 1991: will the flow rise tomorrow? A day without change counts as no rise.
21 features: log flow, precipitation and temperature of the last 7 days, scaled by the first window's ranges.
Live SVM: rbf kernel, gamma = {shown.gamma:g}, C = {shown.C:g}, the last {WINDOW} days.
Each month: forecast {MONTH} days, score, learn them and forget the {MONTH} oldest in one update.
SVC: scikit-learn trains the same window from nothing, tolerance 1e-3, median of {FITS}.

service ready at {server.address} after {server.seconds:.1f} s
first window {first.dates[0]}..{first.dates[-1]}""")


def run(server: Server, shown: argparse.Namespace) -> None:
    """The demonstration itself, on a service that is up."""
    raw = examples(load())
    days = scale_by(raw[:WINDOW], raw)
    introduce(server, days[:WINDOW], shown)
    steps: list[Step] = []
    with Client(server.address) as client:
        client.create_model(MODEL, C=shown.C, kernel={"name": "rbf", "gamma": shown.gamma})
        filled = learn(client, days[:WINDOW], oldest=0)
        gap = certify(client)["relative_gap"]
        print(f"filled: {filled['events']} events, {1e3 * filled['seconds']:.1f} ms, relative gap {gap:.1e}")
        print(f"\n{HEADER}")
        for step in months(client, days, shown):
            steps.append(step)
            print(row(steps), flush=True)
    print(f"\n{summary(steps)}")


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration; the exit status is 0 when every step did what it should."""
    parser = argparse.ArgumentParser(prog="python -m livesvm.service.demo", description="Forecast the Fisher River.")
    parser.add_argument("--keep", action="store_true", help="leave the service up and say how to stop it")
    parser.add_argument("--months", type=int, help="stop after so many months (default: all 24)")
    parser.add_argument("--C", type=float, default=C, help="weight of the losses (default: %(default)g)")
    parser.add_argument("--gamma", type=float, default=GAMMA, help="of the rbf kernel (default: %(default)g)")
    shown = parser.parse_args(arguments)
    server = Server(Path(tempfile.mkdtemp(prefix="livesvm-demo-")))
    done = False
    try:
        server.start()
        run(server, shown)
        done = True
    except (DemoError, ServerError, ServiceProblem, httpx.TransportError) as error:
        print(f"the demonstration failed: {error}\n{server.log_tail()}", file=sys.stderr)
    finally:
        if done and shown.keep:
            print(server.how_to_use())
        else:
            done = server.stop() == 0 and done
    return 0 if done else 1
