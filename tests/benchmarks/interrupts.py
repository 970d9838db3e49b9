"""How long a solve goes on after it is asked to stop: `python -m tests.benchmarks.interrupts [names]`.

A second thread asks again and again. Printed are the longest time between a question and its answer, where the answer
was given, and, as each solve is ended after a while, how long it took to bring the model back.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import numpy as np

from livesvm.solvers import IncrementalSVC, leave_one_out, warm_up
from livesvm.solvers.errors import SolverError
from livesvm.solvers.runtime.interrupt import Interrupt, interruptible

SECONDS = 30.0  # after which a solve is ended
EVERY = 0.02


class Over(SolverError):
    """That was long enough."""


def random_rows(n: int, d: int) -> tuple[Any, Any]:
    """Return labels that have nothing to do with the features."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.choice([-1, 1], n)


def fitted(n: int, d: int, **parameters: Any) -> IncrementalSVC:
    return IncrementalSVC(**parameters, cache_mb=2000).fit(*random_rows(n, d))


def nothing() -> None:
    """Set up nothing."""


def hard(_: Any) -> None:
    fitted(20_000, 10, C=1e8, gamma=2.0)


def all_free(_: Any) -> None:
    fitted(4000, 20, C=1e4, gamma=50.0)


def wide(_: Any) -> None:
    fitted(3000, 10_000, C=1.0, gamma=1e-4)


def more(model: IncrementalSVC) -> None:
    X, y = random_rows(20_000, 100)
    model.update(add=(X[:50] + 0.1, y[:50]), C=2e-3)


CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "20,000 x 10, C = 1e8": (nothing, hard),
    "4,000 all free": (nothing, all_free),
    "3,000 x 10,000": (nothing, wide),
    "certificate of 20,000 x 100": (lambda: fitted(20_000, 100, C=1e-3, gamma=0.01), lambda m: m.certificate()),
    "update of 20,000 x 100": (lambda: fitted(20_000, 100, C=1e-3, gamma=0.01), more),
    "C path of 20,000 x 5": (
        lambda: fitted(20_000, 5, C=1e-3, gamma=0.1),
        lambda m: m.regularization_path(1e-4, 1e3).validation_error(*random_rows(2000, 5)),
    ),
    "outlier path of 10,000 x 5": (
        lambda: fitted(10_000, 5, C=1e-2, gamma=0.1),
        lambda m: m.outlier_path("theta").validation_errors(*random_rows(2000, 5)),
    ),
    "leave one out of 3,000 x 20": (lambda: fitted(3000, 20, C=10.0, gamma=0.1), leave_one_out),
}


class Clock:
    """Asks, and notes how long each answer takes."""

    def __init__(self) -> None:
        self.asked = 0.0
        self.answers = 0
        self.worst = 0.0
        self.where = ""
        self.end = 0.0
        self.ended = 0.0

    def ask(self, interrupt: Interrupt, over: threading.Event) -> None:
        while not over.wait(EVERY):
            if not self.asked:
                self.asked = monotonic()
                interrupt.ask()

    def answer(self) -> None:
        now = monotonic()
        if now - self.asked > self.worst:
            self.worst = now - self.asked
            self.where = " < ".join(f"{f.name}:{f.lineno}" for f in reversed(traceback.extract_stack()[:-2][-9:]))
        self.asked = 0.0
        self.answers += 1
        if now > self.end:
            self.ended = monotonic()
            raise Over


def measure(name: str, given: Any, work: Callable[[Any], Any]) -> None:
    clock, over, begun = Clock(), threading.Event(), monotonic()
    clock.end = begun + SECONDS
    with interruptible(clock.answer) as interrupt:
        asker = threading.Thread(target=clock.ask, args=(interrupt, over), daemon=True)
        asker.start()
        try:
            work(given)
        except Over:
            pass
        finally:
            over.set()
    now = monotonic()
    back = f", back after {now - clock.ended:.2f} s" if clock.ended else ""
    print(f"{name:32s} {now - begun:6.1f} s {clock.answers:5d} answers, worst {clock.worst:.3f} s{back}")
    print(f"    {clock.where}", flush=True)
    asker.join()
    sleep(EVERY)


def main() -> None:
    warm_up()
    for name, (setup, work) in CASES.items():
        if len(sys.argv) == 1 or any(word in name for word in sys.argv[1:]):
            started = monotonic()
            given = setup()
            print(f"({monotonic() - started:.1f} s to set up)", flush=True)
            measure(name, given, work)


if __name__ == "__main__":
    main()
