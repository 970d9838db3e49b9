"""Models with components against training anew, for ``tests.benchmarks.growth --components``.

``--service`` fills a window of a real service over HTTP, and restarts the service. ``--linear`` compares linear kernels
of dense rows and of words with ``LinearSVC``, with two tolerances.

Processor time of one thread. ``LinearSVC`` is trained on the mapped rows, which it is given, and ``SVC`` and
``FrankWolfeSVC``, to a gap of 1e-2, with the whole kernel; gaps are of the same objective. Accuracies are on rows that
no model has seen.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.svm import SVC, LinearSVC

from livesvm.service.client import Client
from livesvm.solvers import FrankWolfeSVC, IncrementalSVC
from tests.benchmarks.feed_pace import processor_seconds
from tests.benchmarks.hosting import resident
from tests.benchmarks.printing import duration, number, seconds, table
from tests.benchmarks.sets import read, standardised
from tests.oracle import Matrix, Vector
from tests.service.process import ServiceProcess

MADE = ("noise", "smooth", "clusters")
GAMMAS = {"clusters": 0.0113}  #: which "scale" gives; the others have 1 / d
REAL = ("adult", "ijcnn1")
TABLES = ("spambase", "a8a", "w7a", "letter", "shuttle", "mushrooms", "usps", "musk2")
"""Further sets, of which only accuracies are compared."""
MOST_OF_SVC = 12_000  #: larger windows are not trained by ``SVC``
TEST, SLIDES, BATCH = 10_000, 3, 100
SENT = 10_000  #: rows of one call that fills a window of a service
timed = partial(seconds, clock=time.process_time)


@dataclass(frozen=True)
class Window:
    """A problem: rows of a stream, of which the first n fill the window, and rows to test by."""

    name: str
    X: Matrix
    y: Vector
    n: int
    C: float
    gamma: float

    @property
    def test(self) -> tuple[Matrix, Vector]:
        """The rows that no model is trained on."""
        first = self.n + SLIDES * BATCH
        return self.X[first:], self.y[first:]


def noisy(n: int, d: int = 20) -> tuple[Matrix, Vector]:
    """Return Gaussian features, and labels by a curved function of four of them plus as much noise."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, d))
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    return X, np.where(score + 0.9 * random.normal(size=n) > 0, 1.0, -1.0)


def made(name: str, n: int, stream: Callable[[int, int, str], tuple[Matrix, Vector]]) -> Window:
    """Return made-up data by name; ``stream`` makes those without noise."""
    m = n + SLIDES * BATCH + TEST
    X, y = noisy(m) if name == "noise" else stream(m, 20, name)
    return Window(name, X, y, n, 3.0, GAMMAS.get(name, 0.05))


def real(name: str, n: int | None, C: float, folder: Path) -> Window:
    """Return a set in a random order, standardised, with two classes."""
    X, y = read(name, folder)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = standardised(np.asarray(X, np.float64)[order]), y[order]
    labels, counts = np.unique(y, return_counts=True)
    middle = labels[counts.argmax()] if labels.size > 2 else labels[-1]
    test = min(TEST, len(X) // 4)
    most = len(X) - test - SLIDES * BATCH
    size = min(n or most, most)
    keep = np.r_[: size + SLIDES * BATCH, len(X) - test : len(X)]
    return Window(name, X[keep], np.where(y == middle, 1.0, -1.0)[keep], size, C, 1.0 / X.shape[1])


def line(window: Window, components: int) -> list[str]:
    """Fill a window, slide it, and train the same by the others; return a line of the table."""
    X, y, n = window.X, window.y, window.n
    model = IncrementalSVC(C=window.C, gamma=window.gamma, components=components, classes=(-1, 1), cache_mb=4096)
    fill = timed(lambda: model.fit(X[:n], y[:n]))
    taken = []
    for k in range(SLIDES):
        new = slice(n + k * BATCH, n + (k + 1) * BATCH)
        gone = model.keys_[:BATCH]
        taken.append(timed(lambda new=new, gone=gone: model.update(add=(X[new], y[new]), remove=gone)))  # type: ignore[misc]
    proof: Any = model.certificate()
    right = model.score(*window.test)
    last = slice(SLIDES * BATCH, SLIDES * BATCH + n)
    mapped: list[Matrix] = []
    of_map = timed(lambda: mapped.append(model.feature_scale_.apply(X[last])))
    linear = LinearSVC(C=window.C, loss="hinge", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged, which the gap tells
        anew = timed(lambda: linear.fit(mapped[0], y[last]))
    w, b = linear.coef_[0], linear.intercept_[0]
    primal = 0.5 * w @ w + window.C * np.maximum(0.0, 1.0 - y[last] * (mapped[0] @ w + b)).sum()
    whole, whole_right, steps, steps_right = "", "", "", ""
    if n <= MOST_OF_SVC:
        anew_by_steps = FrankWolfeSVC(C=window.C, gamma=window.gamma, tol=1e-2)
        steps = f"{timed(lambda: anew_by_steps.fit(X[last], y[last])) / float(np.median(taken)):.0f}"
        steps_right = f"{100 * anew_by_steps.score(*window.test):.1f}"
        svc = SVC(C=window.C, gamma=window.gamma, cache_size=1000)
        whole = f"{timed(lambda: svc.fit(X[last], y[last])) / float(np.median(taken)):.0f}"
        whole_right = f"{100 * svc.score(*window.test):.1f}"
    update = float(np.median(taken))
    return [
        f"{window.name} {n}",
        duration(fill - of_map),
        duration(of_map),
        duration(anew),
        f"{(fill - of_map) / anew:.2f}",
        duration(update),
        f"{anew / update:.1f}",
        whole,
        steps,
        str(int(np.count_nonzero(model.window_is_free))),
        number(proof.relative_gap),
        number((primal - proof.dual) / primal),
        f"{proof.left_out:.2f}",
        f"{100 * right:.1f}",
        whole_right,
        steps_right,
        f"{model.held_bytes / (8 * n * model.feature_scale_.basis.shape[1]):.2f}",
    ]


HEADER = [
    "window", "fill", "map", "LinearSVC", "fill/it", "update", "it/update", "SVC/update", "FW/update",
    "free", "gap", "its gap", "left out", "right %", "whole %", "FW %", "memory/nD",
]  # fmt: skip


def show(windows: Iterable[Window], components: int) -> None:
    """Print the table, a line as soon as it is measured, after a first model that is not timed."""
    X, y = noisy(9000)
    line(Window("warm", X, y, 6500, 1.0, 0.05), 20)
    for at, window in enumerate(windows):
        lines = table(HEADER, [line(window, components)]).splitlines()
        print("\n".join(lines if at == 0 else lines[-1:]), flush=True)


def words(n: int, d: int = 8000) -> tuple[Any, Vector]:
    """Return sparse rows of words by Zipf's law, which two classes use differently, and labels, one in 20 wrong."""
    random = np.random.default_rng(0)
    labels = np.where(random.random(n) < 0.5, 1.0, -1.0)
    common = 1.0 / np.arange(1, d + 1) ** 1.1
    tilt = np.exp(0.6 * random.normal(size=d))
    rows = np.repeat(np.arange(n), random.integers(20, 120, n))
    drawn, kind = random.random(rows.size), np.where(random.random(rows.size) < 0.3, 0.0, labels[rows])
    columns = np.empty(rows.size, np.int64)
    for sign in (-1.0, 0.0, 1.0):
        share = np.cumsum(common * tilt**sign)
        columns[kind == sign] = np.searchsorted(share / share[-1], drawn[kind == sign])
    counts = sparse.coo_matrix((np.ones(rows.size), (rows, columns)), shape=(n, d)).tocsr()
    counts.data = np.log1p(counts.data)
    seldom = np.log(n / (1.0 + np.bincount(counts.indices, minlength=d)))
    X = (counts @ sparse.diags(seldom)).tocsr()
    X = (sparse.diags(1.0 / np.sqrt(X.multiply(X).sum(axis=1).A1)) @ X).tocsr()
    return X, np.where(random.random(n) < 0.05, -labels, labels)


def linear(made_up: dict[str, tuple[Any, Vector]]) -> None:
    """Print a line for each set of rows: a linear window filled and slid, and ``LinearSVC`` trained from scratch."""
    rows = []
    for name, (X, y) in made_up.items():
        n = X.shape[0] - SLIDES * BATCH - TEST // 2
        test = slice(n + SLIDES * BATCH, None)
        model = IncrementalSVC(kernel="linear", classes=(-1, 1), cache_mb=2048)
        fill = timed(lambda model=model, X=X, y=y, n=n: model.fit(X[:n], y[:n]))  # type: ignore[misc]
        taken = []
        for at in range(n, n + SLIDES * BATCH, BATCH):
            new, gone = (X[at : at + BATCH], y[at : at + BATCH]), model.keys_[:BATCH]
            taken.append(timed(lambda model=model, new=new, gone=gone: model.update(add=new, remove=gone)))  # type: ignore[misc]
        proof, last = model.certificate(), slice(SLIDES * BATCH, SLIDES * BATCH + n)
        told = [name, duration(fill), duration(float(np.median(taken))), str(int(model.window_is_free.sum()))]
        told += [number(proof.relative_gap), f"{100 * model.score(X[test], y[test]):.1f}"]
        for tol in (1e-4, 1e-7):
            rival = LinearSVC(C=1.0, loss="hinge", tol=tol, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it has not converged, which the gap tells
                anew = timed(lambda rival=rival, X=X, y=y, last=last: rival.fit(X[last], y[last]))  # type: ignore[misc]
            w, f = rival.coef_[0], rival.decision_function(X[last])
            primal = 0.5 * w @ w + np.maximum(0.0, 1.0 - y[last] * f).sum()
            told += [duration(anew), number((primal - proof.dual) / primal)]
        rows.append([*told, f"{100 * rival.score(X[test], y[test]):.1f}"])
        print(table(LINEAR_HEADER, rows[-1:]), flush=True)


LINEAR_HEADER = [
    "rows", "fill", "update", "free", "gap", "right %", "LinearSVC 1e-4", "its gap", "1e-7", "its gap", "its right %",
]  # fmt: skip


def serve(n: int, components: int) -> None:
    """Fill a window of ``n`` rows of a service with a store on disk, slide it, predict, restart; print the costs.

    Seconds are processor time of the service's process, but for the wall time of its restart.
    """
    X, y = noisy(n + SLIDES * BATCH)
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as place, ServiceProcess(Path(place)) as service:
        base = resident(service.pid)

        def spent() -> float:
            return processor_seconds(service.pid)

        def note(name: str, began: float, per: int = 1) -> None:
            rows.append([name, duration((spent() - began) / per), f"{resident(service.pid) - base:.0f}"])

        with Client(service.url, timeout=600) as client:
            kernel = {"name": "rbf", "gamma": 0.05}
            client.create_model("m", C=3.0, kernel=kernel, components=components, window={"max_examples": n})
            began = spent()
            for at in range(0, n, SENT):
                client.update("m", X[at : at + SENT], y[at : at + SENT])
            note(f"fill, {SENT} rows a call", began)
            began = spent()
            for at in range(n, len(X), BATCH):
                client.update("m", X[at : at + BATCH], y[at : at + BATCH])
            note(f"update of {BATCH} in, {BATCH} out", began, SLIDES)
            began = spent()
            client.predict("m", X[:SENT])
            note(f"prediction, of {SENT} rows a call", began, SENT)
            began = spent()
            proof = client.certificate("m")
            note(f"certificate: gap {proof['relative_gap']:.0e}", began)
            before = client.predict("m", X[:BATCH])
        service.kill()
        began = time.monotonic()
        service.start()
        with Client(service.url, timeout=600) as client:
            assert client.predict("m", X[:BATCH]) == before
            wall = time.monotonic() - began
            note(f"restart after a kill, {wall:.1f} s to the first prediction", 0.0)
    print(table([f"{n} x 20, components={components}", "processor", "MiB more than empty"], rows))
