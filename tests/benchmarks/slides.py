"""A long run: one example in and one out, again and again. Does rounding add up?

    python -m tests.benchmarks.slides                    one million slides at n = 300
    python -m tests.benchmarks.slides --slides 10000

Every stretch of slides reports the largest violation of the certificate (recomputed from the data) among
its samples; the trend is the slope of the logarithm of that over the logarithm of the number of slides, and
the last quarter is set against the second. Exit status 1 when a violation is above 1e-7.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

from livesvm.solvers import IncrementalSVC
from tests.benchmarks.printing import duration, machine, number, table

N, FEATURES, GAMMA = 300, 5, 0.2
ALLOWED = 1e-7
STRETCHES = 20
SAMPLES = 50  # certificates per stretch


def _examples(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw examples whose classes overlap; one in ten is rounded to integers, so that rows repeat and tie."""
    X = random.normal(size=(count, FEATURES))
    X = np.where(random.random(count)[:, None] < 0.1, np.round(X), X)
    return X, np.where(X[:, 0] + 0.5 * random.normal(size=count) > 0, 1.0, -1.0)


def stretch(model: IncrementalSVC, random: np.random.Generator, slides: int) -> tuple[float, float, int, float]:
    """Slide the window; return the worst violation and relative gap of the samples, events and seconds."""
    X, y = _examples(random, slides)
    every = max(1, slides // SAMPLES)
    violation = relative = taken = 0.0
    events = 0
    for i in range(slides):
        started = time.perf_counter()
        report = model.update(add=(X[i : i + 1], y[i : i + 1]), remove=[model.keys_[0]])
        taken += time.perf_counter() - started
        events += report.events
        if i % every == every - 1:
            certificate = model.certificate()
            violation = max(violation, certificate.max_violation)
            relative = max(relative, certificate.relative_gap)
    return violation, relative, events, taken


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--slides", type=int, default=1_000_000)
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    random = np.random.default_rng(options.seed)
    model = IncrementalSVC(C=options.C, kernel="rbf", gamma=GAMMA, classes=(-1, 1))
    X, y = _examples(random, N)
    model.update(add=(X, y))
    slides = max(1, options.slides // STRETCHES)
    print(f"slides: n={N}, RBF gamma={GAMMA:g}, C={options.C:g}, one in and one out")
    print(machine(), flush=True)
    lines, worst = [], []
    with threadpool_limits(limits=1):
        for number_done in range(slides, STRETCHES * slides + 1, slides):
            violation, relative, events, taken = stretch(model, random, slides)
            worst.append(violation)
            lines.append([str(number_done), number(violation), number(relative)])
            lines[-1] += [f"{events / slides:.1f}", duration(taken / slides)]
            print(" ".join(lines[-1]), file=sys.stderr, flush=True)
    print(table(["slides", "worst violation", "worst gap", "events/slide", "time/slide"], lines))
    logs = np.log10(np.maximum(worst, 1e-17))
    slope = float(np.polyfit(np.log10(slides * np.arange(1, STRETCHES + 1)), logs, 1)[0])
    quarter = STRETCHES // 4
    growth = float(10 ** (logs[-quarter:].mean() - logs[quarter : 2 * quarter].mean()))
    print(
        f"worst violation {number(max(worst))}; it goes as the number of slides to the power {slope:+.2f}; ",
        end="",
    )
    print(f"last quarter over second quarter: {growth:.2f}")
    return int(max(worst) > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
