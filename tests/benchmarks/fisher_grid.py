"""A month in, a month out, on a river: `update` against training SVC again, over the grid of the paper.

    python -m tests.benchmarks.fisher_grid                   28 cells, C in 1e-1..1e5 and gamma in 1e-3..1
    python -m tests.benchmarks.fisher_grid --quick           six cells
    python -m tests.benchmarks.fisher_grid --series other.npz --target flow

The window holds 1423 examples; 30 come in and 30 leave [Karasuyama & Takeuchi, section 4.2]. Times are wall
times with one thread each. An update's time is all of it, kernel rows included, through the public
estimator: the median over the slides there are, each made several times by going there and back; the first
slide of a window that has just been filled is distinguished too. scikit-learn's SVC trains the last window from
nothing, in the same cell, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalSVC, warm_up
from tests.benchmarks.printing import Clock, duration, geometric_mean, machine, number, seconds, table
from tests.benchmarks.series import LAGS, Stream, fisher, from_file
from tests.oracle import Kernel, gap, hinge

WINDOW, MOVED = 1423, 30
COSTS = tuple(10.0**power for power in range(-1, 6))
GAMMAS = (1.0, 0.1, 0.01, 0.001)
QUICK = ((1.0, 1.0), (1.0, 1e3), (0.1, 10.0), (0.1, 1e5), (0.01, 1e3), (0.001, 1e5))
ITERATIONS = 20_000_000  # of SVC; a fit that needs more is stopped and marked
SERIES_ROWS = WINDOW + 4 * MOVED + LAGS  # of another series: four slides


@dataclass(frozen=True)
class Cell:
    """One pair of C and gamma: times in seconds, and the state at the end."""

    gamma: float
    C: float
    update: float
    first: float
    retrain: dict[float, float]
    capped: bool
    events: float
    n_free: int
    relative_gap: float


def _slide(model: IncrementalSVC, stream: Stream, start: int, step: int, clock: Clock) -> tuple[float, int]:
    """Move the window from ``start`` by ``step`` examples, either way; return seconds and events."""
    first, last = (start, start + WINDOW) if step > 0 else (start + WINDOW + step, start + step)
    gone, come = range(first, first + abs(step)), range(last, last + abs(step))
    rows = slice(come.start, come.stop)
    started = clock()
    report = model.update(add=(stream.X[rows], stream.y[rows]), remove=list(gone), keys=list(come))
    return clock() - started, report.events


def _updates(
    stream: Stream, C: float, gamma: float, repeats: int, clock: Clock
) -> tuple[float, float, float, int, float]:
    """Return the median seconds of a slide, those of the first, the median events, and free ones and gap at the end."""
    n = WINDOW
    model = IncrementalSVC(C=C, kernel="rbf", gamma=gamma, classes=(-1, 1))
    model.update(add=(stream.X[:n], stream.y[:n]), keys=list(range(n)))
    starts = range(0, len(stream.y) - n - MOVED + 1, MOVED)
    there = [(start, MOVED) for start in starts]
    back = [(start + MOVED, -MOVED) for start in reversed(starts)]
    moves = (there + back) * repeats + there
    taken, events = zip(*(_slide(model, stream, start, step, clock) for start, step in moves), strict=True)
    window = np.array(model.keys_, dtype=np.int64)
    beta = np.zeros(n)
    beta[model.support_] = model.dual_coef_[0]
    K = Kernel("rbf", gamma)(stream.X[window], stream.X[window])
    found = gap(K, hinge(stream.y[window], C), beta, float(model.intercept_[0]))
    free = int(np.count_nonzero((beta != 0) & (np.abs(beta) < C)))
    return float(np.median(taken)), taken[0], float(np.median(events)), free, found.strict


def _retrain(
    stream: Stream, C: float, gamma: float, tolerance: float, repeats: int, clock: Clock
) -> tuple[float, bool]:
    """Return the median seconds of training the last window from nothing, and whether it hit its cap."""
    X, y = stream.X[-WINDOW:], stream.y[-WINDOW:]
    rival = SVC(C=C, gamma=gamma, tol=tolerance, cache_size=500, max_iter=ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        once = seconds(lambda: rival.fit(X, y), 1, clock)
        taken = once if once > 1.0 else seconds(lambda: rival.fit(X, y), repeats, clock)
    return taken, bool(rival.fit_status_)


def measure(stream: Stream, C: float, gamma: float, tolerances: list[float], repeats: int, clock: Clock) -> Cell:
    """Measure one cell, one thread each."""
    with threadpool_limits(limits=1):
        update, first, events, free, relative = _updates(stream, C, gamma, repeats, clock)
        rivals = {tolerance: _retrain(stream, C, gamma, tolerance, repeats, clock) for tolerance in tolerances}
    return Cell(
        gamma=gamma,
        C=C,
        update=update,
        first=first,
        retrain={tolerance: taken for tolerance, (taken, _) in rivals.items()},
        capped=any(capped for _, capped in rivals.values()),
        events=events,
        n_free=free,
        relative_gap=relative,
    )


def _line(cell: Cell) -> list[str]:
    rivals = [duration(taken) + ("*" if cell.capped else "") for taken in cell.retrain.values()]
    ratios = [f"{taken / cell.update:.1f}" for taken in cell.retrain.values()]
    state = [f"{cell.events:.0f}", str(cell.n_free), number(cell.relative_gap)]
    return [f"{cell.gamma:g}", f"{cell.C:g}", duration(cell.update), duration(cell.first), *rivals, *ratios, *state]


def print_report(stream: Stream, cells: list[Cell], tolerances: list[float], cpu: bool) -> None:
    """Print the table and, for each tolerance, the geometric mean and the worst cell."""
    rivals = [f"SVC {tolerance:g}" for tolerance in tolerances]
    header = ["gamma", "C", "update", "first", *rivals, *(f"ratio {t:g}" for t in tolerances), "events", "free", "gap"]
    print(f"{stream.name}: n={WINDOW}, {stream.X.shape[1]} features, {MOVED} in and {MOVED} out")
    print(machine() + (", processor time" if cpu else ""))
    print(table(header, [_line(cell) for cell in cells]))
    for tolerance in tolerances:
        ratios = [cell.retrain[tolerance] / cell.update for cell in cells]
        worst = cells[int(np.argmin(ratios))]
        print(
            f"tolerance {tolerance:g}: geometric mean {geometric_mean(ratios):.1f} times faster, "
            f"worst {min(ratios):.1f} at C={worst.C:g} gamma={worst.gamma:g}"
        )
        ratios = [cell.retrain[tolerance] / cell.first for cell in cells]
        print(f"  the first slide alone: {geometric_mean(ratios):.1f}, worst {min(ratios):.1f}")
    print(f"worst relative gap {number(max(cell.relative_gap for cell in cells))}")
    if any(cell.capped for cell in cells):
        print(f"* stopped at {ITERATIONS} iterations, short of its tolerance")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--quick", action="store_true", help="six cells")
    parser.add_argument("--cell", type=float, nargs=2, metavar=("C", "GAMMA"), help="one cell")
    parser.add_argument("--repeats", type=int, default=3, help="times there and back; fits of the rival")
    parser.add_argument("--tight", action="store_true", help="also SVC at tolerance 1e-6")
    parser.add_argument("--cpu", action="store_true", help="processor time, for a machine that is busy")
    parser.add_argument("--series", type=Path, help="another series: npz of columns (k,) and values (T, k)")
    parser.add_argument("--target", default="", help="the column of --series to forecast")
    options = parser.parse_args(arguments)
    stream = from_file(options.series, options.target, SERIES_ROWS) if options.series else fisher()
    if len(stream.y) < WINDOW + MOVED:
        raise SystemExit(f"{stream.name} has {len(stream.y)} examples; {WINDOW + MOVED} are needed")
    pairs = QUICK if options.quick else [(gamma, C) for gamma in GAMMAS for C in COSTS]
    if options.cell:
        pairs = [(options.cell[1], options.cell[0])]
    clock = time.process_time if options.cpu else time.perf_counter
    tolerances = [1e-3, 1e-6] if options.tight else [1e-3]
    warm_up()  # compile everything, also what comes up rarely, before anything is timed,
    _updates(stream, 1.0, 0.01, 0, clock)  # and use the memory once
    cells = [measure(stream, C, gamma, tolerances, options.repeats, clock) for gamma, C in pairs]
    print_report(stream, cells, tolerances, options.cpu)
    return 0


if __name__ == "__main__":
    sys.exit(main())
