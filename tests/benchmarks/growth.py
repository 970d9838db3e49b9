"""How cost grows: with the window n, with the batch m, with the number of features d; and peak memory.

    python -m tests.benchmarks.growth             n = 500 to 20,000 (minutes: each is also trained by SVC)
    python -m tests.benchmarks.growth --quick     n = 500 and 2,000
    python -m tests.benchmarks.growth --n 10000   one size
    python -m tests.benchmarks.growth --n 10000 --problem clusters --C 1 --gamma 0.0113
    python -m tests.benchmarks.growth --components 300 --n 10000    models of that rank, see ``components``
    python -m tests.benchmarks.growth --components 300 --real       the same on real data, ten tables in all
    python -m tests.benchmarks.growth --components 100 --n 200000 --service    a window of a real service, over HTTP
    python -m tests.benchmarks.growth --linear                      dense rows and words, against LinearSVC

RBF, d = 20, 100 in and 100 out, one thread each. Each size runs in a process of its own, so that its peak
memory is its own, as Linux counts it; the baseline is the same process before it had any data. "bytes/event"
is what must at least be read: the factor and the kernel rows of the free examples, once; "of memory" is that
over the time, against the bandwidth with which this machine reads memory it does not hold in its caches.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalSVC
from tests.benchmarks import components
from tests.benchmarks.printing import duration, machine, number, seconds, table
from tests.benchmarks.sets import DATA
from tests.oracle import Matrix, Vector

SIZES = (500, 1000, 2000, 5000, 10_000, 20_000)
BATCHES = (1, 10, 100, 1000)
FEATURES = (2, 20, 200)
C = 10.0
SLIDES = 5


@dataclass(frozen=True)
class Case:
    """A window of n examples with d features, m of which are exchanged."""

    n: int
    m: int
    d: int
    problem: str = "smooth"
    C: float = C
    gamma: float | None = None

    @property
    def width(self) -> float:
        """The gamma of the kernel, by default one that goes with the number of features."""
        return 0.25 / self.d if self.gamma is None else self.gamma


@dataclass(frozen=True)
class Growth:
    """Seconds of an update and of training again, what the update did, and mebibytes of memory."""

    update: float
    first_fill: float
    retrain: float
    events: float
    n_free: int
    relative_gap: float
    peak: float
    baseline: float


def stream(n: int, d: int, problem: str = "smooth") -> tuple[Matrix, Vector]:
    """Gaussian features and labels by the sign of a function of them; or clusters, two to a class.

    ``smooth``: of the first two, one label in twenty wrong; ``linear``: a weighted sum of all and noise.
    """
    if problem == "clusters":
        X, labels = make_classification(n, d, n_informative=max(2, d // 2), random_state=0)
        return X, np.where(labels > 0, 1.0, -1.0)
    random = np.random.default_rng(0)
    X = random.normal(size=(n, d))
    if problem == "linear":
        return X, np.where(X @ random.normal(size=d) + random.normal(size=n) > 0, 1.0, -1.0)
    score = X[:, 0] + 0.5 * np.sin(3 * X[:, 1]) if d > 1 else X[:, 0]
    wrong = random.random(n) < 0.05
    return X, np.where((score > 0) ^ wrong, 1.0, -1.0)


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak_mebibytes() -> float:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return float(fields["VmHWM"].split()[0]) / 1024


def measure(case: Case) -> Growth:
    """Fill a window, slide it a few times, then train the last window from nothing."""
    X, y = stream(case.n + SLIDES * case.m, case.d, case.problem)
    model = IncrementalSVC(C=case.C, kernel="rbf", gamma=case.width, classes=(-1, 1))
    warm = IncrementalSVC(C=C, kernel="rbf", gamma=1.0, classes=(-1, 1))
    warm.update(add=(X[:50], y[:50]))
    warm.update(remove=list(warm.keys_)[:25])  # compile before anything is timed
    _forget_peak()
    baseline = _peak_mebibytes()
    with threadpool_limits(limits=1):
        fill = seconds(lambda: model.update(add=(X[: case.n], y[: case.n]), keys=list(range(case.n))))
        taken, events = [], []
        for first in range(0, SLIDES * case.m, case.m):
            rows = range(first + case.n, first + case.n + case.m)
            added = (X[rows.start : rows.stop], y[rows.start : rows.stop])
            gone = list(range(first, first + case.m))
            report = model.update(add=added, keys=list(rows), remove=gone)
            taken.append(report.seconds)
            events.append(report.events)
        peak = _peak_mebibytes()
        rival = SVC(C=case.C, gamma=case.width, tol=1e-3, cache_size=500)
        retrain = seconds(lambda: rival.fit(X[-case.n :], y[-case.n :]))
    return Growth(
        update=float(np.median(taken)),
        first_fill=fill,
        retrain=retrain,
        events=float(np.median(events)),
        n_free=report.n_free,
        relative_gap=model.certificate().relative_gap,
        peak=peak,
        baseline=baseline,
    )


def bandwidth() -> float:
    """Return the bytes a second that one thread reads from memory outside its caches."""
    block = np.ones(2**25)  # 256 MiB
    return block.nbytes / min(seconds(lambda: block.sum()) for _ in range(3))


def _line(case: Case, found: Growth, memory: float) -> list[str]:
    read = 8.0 * (found.n_free**2 / 2 + found.n_free * case.n)
    rate = read * found.events / found.update
    return [
        str(case.n),
        str(case.m),
        str(case.d),
        duration(found.update),
        duration(found.first_fill),
        duration(found.retrain),
        f"{found.retrain / found.update:.1f}",
        f"{found.events:.0f}",
        str(found.n_free),
        f"{read / 2**20:.2f} MiB",
        f"{100 * rate / memory:.0f}%",
        number(found.relative_gap),
        f"{found.peak:.0f} (+{found.peak - found.baseline:.0f})",
    ]


HEADER = [
    "n", "m", "d", "update", "fill", "SVC 1e-3", "ratio", "events", "free",
    "bytes/event", "of memory", "gap", "peak MiB",
]  # fmt: skip


def _of_components(rank: int, sizes: list[int], folder: Path | None) -> int:
    windows: Iterable[components.Window]
    if folder is None:
        windows = (components.made(name, n, stream) for n in sizes for name in components.MADE)
    else:
        asked = [(name, sizes[0]) for name in components.TABLES] + [(name, None) for name in components.REAL]
        windows = (components.real(name, n, 1.0, folder) for name, n in asked)
    with threadpool_limits(limits=1):
        print(f"components={rank}, medians of {components.SLIDES} updates of 100 in, 100 out; processor time")
        print(machine())
        components.show(windows, rank)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--n", type=int, action="append", help="only this size (may be repeated)")
    parser.add_argument("--problem", choices=("smooth", "linear", "clusters"), default="smooth")
    parser.add_argument("--C", type=float, default=C)
    parser.add_argument("--gamma", type=float, help="of the kernel; default 1 / (4 d)")
    parser.add_argument("--components", type=int, help="landmarks of models that do not have the whole kernel")
    parser.add_argument("--real", type=Path, nargs="?", const=DATA, help="with --components: sets in this directory")
    parser.add_argument("--service", action="store_true", help="with --components: over HTTP")
    parser.add_argument("--linear", action="store_true", help="linear kernels of dense and of sparse rows")
    options = parser.parse_args(arguments)
    if options.linear:
        print(machine())
        more = components.SLIDES * components.BATCH + components.TEST // 2
        with threadpool_limits(limits=1):
            components.linear({"warm": stream(6000 + more, 10)})
            components.linear({"warm, words": components.words(6000 + more)})
            for kind in ("linear", "smooth", "clusters"):
                components.linear({f"{kind}, 100,000 x 50": stream(100_000 + more, 50, kind)})
            components.linear({"words, 10,000 x 8,000": components.words(10_000 + more)})
        return 0
    if options.components and options.service:
        print(machine())
        for n in options.n or [200_000]:
            components.serve(n, options.components)
        return 0
    if options.components:
        return _of_components(options.components, options.n or [10_000, 50_000], options.real)
    asked = (options.problem, options.C, options.gamma)
    sizes = options.n or (SIZES[:3:2] if options.quick else SIZES)
    cases = [Case(n, 100, 20, *asked) for n in sizes]
    if not options.n:
        middle = min(sizes[-1], 2000)
        cases += [Case(middle, m, 20, *asked) for m in BATCHES if m != 100]
        cases += [Case(middle, 100, d, *asked) for d in FEATURES if d != 20]
    memory = bandwidth()
    context = multiprocessing.get_context("spawn")
    lines = []
    for case in cases:
        with context.Pool(1) as pool:
            lines.append(_line(case, pool.apply(measure, (case,)), memory))
    print(f"growth: {options.problem}, RBF, C={options.C:g}, medians of {SLIDES} updates")
    print(f"one thread reads {memory / 1e9:.1f} GB/s")
    print(machine())
    print(table(HEADER, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
