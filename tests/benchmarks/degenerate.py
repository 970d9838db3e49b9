"""Thousands of degenerate problems: does every update end at an optimum, and how hard was it?

    python -m tests.benchmarks.degenerate --count 2000          all families in turn
    python -m tests.benchmarks.degenerate --only 137            one problem, update by update
    python -m tests.benchmarks.degenerate --family grid --count 200

Each update is judged from the data by `tests.oracle`: the relative gap must be at most 1e-8, or 1e-7 where
C is above 1e4; a gap smaller than what the last bits of an answer in float64 change counts as none, and
such cases are counted. A problem runs in a second process, so that one that never ends is reported and not
waited for. Exit status 1 when a problem fails.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from livesvm.solvers import IncrementalSVC, UpdateReport
from tests.benchmarks.printing import machine, number, table
from tests.judge import apply, infeasibility, judge, window_problem
from tests.oracle import Gap, gap, solve
from tests.problems import FAMILIES, Batch, Problem, problem

LARGE_C = 1e4
NOT_COUNTS = frozenset({"n", "n_free", "n_bound"})


def allowed(C: float) -> float:
    """Return the largest relative gap that passes."""
    return 1e-8 if C <= LARGE_C else 1e-7


@dataclass
class Outcome:
    """What became of one problem."""

    seed: int
    family: str
    C: float
    updates: int = 0
    relative_gap: float = 0.0
    kink_violation: float = 0.0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failure: str = ""


def counts(report: UpdateReport) -> Counter[str]:
    """Return every count of the report: events, refactorizations, last resorts."""
    return Counter({name: int(v) for name, v in report._asdict().items() if type(v) is int and name not in NOT_COUNTS})


Watcher = Callable[[int, Batch, UpdateReport, Gap], None]


def run(given: Problem, watch: Watcher | None = None) -> Outcome:
    """Follow all updates of a problem; stop at the first that fails."""
    outcome = Outcome(given.seed, given.family, given.C)
    model = IncrementalSVC(**given.parameters())
    for step, (batch, window) in enumerate(zip(given.batches, given.windows(), strict=True)):
        started = time.perf_counter()
        try:
            report = apply(model, given, batch)
            outcome.seconds += time.perf_counter() - started
            found = judge(model, given, window)
        except Exception as error:  # whatever it is, the run goes on and names it
            outcome.failure = f"update {step}: {type(error).__name__}: {str(error)[:160]}"
            return outcome
        if watch is not None:
            watch(step, batch, report, found)
        outcome.updates += 1
        outcome.counts += counts(report)
        forgiven = found.relative == 0.0 and found.strict > allowed(given.C)
        outcome.counts["gaps below float64"] += forgiven
        outcome.relative_gap = max(outcome.relative_gap, 0.0 if forgiven else found.strict)
        outcome.kink_violation = max(outcome.kink_violation, found.kink_violation)
        infeasible = infeasibility(found, given)
        if not (found.relative <= allowed(given.C) and infeasible <= 1e-12 * max(len(window), 1)):
            outcome.failure = f"update {step}: relative gap {found.relative:.2e}, infeasible {infeasible:.1e}"
            return outcome
    return outcome


Asked = tuple[int, str | None, int]  # the arguments of `problem`


def _serve(pipe: Connection) -> None:
    """Answer seeds with outcomes until the pipe closes."""
    run(problem(0, "regular"))  # compile before the clock of the first problem runs
    pipe.send(None)
    while True:
        try:
            asked: Asked = pipe.recv()
        except EOFError:
            return
        pipe.send(run(problem(*asked)))


class Worker:
    """A second process that can be given up when a problem does not end."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def run(self, asked: Asked, patience: float) -> Outcome | None:
        """Return the outcome, or None when there is none within ``patience`` seconds or the process died."""
        self._pipe.send(asked)
        try:
            answer = self._pipe.recv() if self._pipe.poll(patience) else None
        except EOFError:
            answer = None
        return answer if isinstance(answer, Outcome) else None

    def end(self) -> None:
        """Stop the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def run_all(all_asked: Iterable[Asked], patience: float) -> list[Outcome]:
    """Run many problems, and name on standard error those that fail as they come."""
    outcomes = []
    worker = Worker()
    for asked in all_asked:
        outcome = worker.run(asked, patience)
        if outcome is None:
            given = problem(*asked)
            outcome = Outcome(given.seed, given.family, given.C, failure=f"no end within {patience:g} s, or a crash")
            worker.end()
            worker = Worker()
        if outcome.failure:
            print(f"{outcome.family} --only {outcome.seed}: {outcome.failure}", file=sys.stderr, flush=True)
        outcomes.append(outcome)
    worker.end()
    return outcomes


def _summary(name: str, group: list[Outcome]) -> list[str]:
    solved = [item for item in group if not item.failure]
    small = [item.relative_gap for item in solved if item.C <= LARGE_C]
    large = [item.relative_gap for item in solved if item.C > LARGE_C]
    updates = sum(item.updates for item in group)
    events = sum(item.counts["events"] for item in group)
    return [
        name,
        str(len(group)),
        str(len(group) - len(solved)),
        str(updates),
        number(max(small, default=0.0)),
        number(max(large, default=0.0)),
        number(max((item.kink_violation for item in solved), default=0.0)),
        f"{events / max(updates, 1):.1f}",
        f"{sum(item.seconds for item in group):.2f}",
    ]


HEADER = ["", "problems", "failed", "updates", "gap C<=1e4", "gap C>1e4", "off kink", "events/upd", "seconds"]


def print_report(outcomes: list[Outcome], rows: int) -> None:
    """Print the tables by family and by C, the counts, and the command that repeats each failure."""
    families = [name for name in FAMILIES if any(item.family == name for item in outcomes)]
    by_family = [_summary(name, [item for item in outcomes if item.family == name]) for name in families]
    costs = sorted({item.C for item in outcomes})
    by_cost = [_summary(f"C={C:g}", [item for item in outcomes if item.C == C]) for C in costs]
    print(machine())
    print(table(HEADER, [*by_family, *by_cost, _summary("all", outcomes)]))
    total = sum((item.counts for item in outcomes), Counter[str]())
    print("counts: " + ", ".join(f"{name} {count}" for name, count in sorted(total.items())))
    failed = [item for item in outcomes if item.failure]
    for item in failed:
        print(f"FAILED --family {item.family} --rows {rows} --only {item.seed}   C={item.C:g}: {item.failure}")
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} problems solved")


def show(given: Problem) -> Outcome:
    """Run one problem in this process and print each update next to what the QP solver makes of its window."""
    print(f"{given.family} seed {given.seed}: table {given.X.shape}, C={given.C:g}, {given.kernel}, ", end="")
    print(f"intercept {given.fit_intercept}, weights {given.weight.min():.1e} to {given.weight.max():.1e}")
    windows = given.windows()

    def watch(step: int, batch: Batch, report: UpdateReport, found: Gap) -> None:
        rows = windows[step]
        print(f"{step}: +{len(batch.add)} -{len(batch.remove)} -> {len(rows)}, {dict(counts(report))}")
        print(f"   free {report.n_free} bound {report.n_bound}, relative gap {found.relative:.2e}, {found}")
        if len(rows):
            K, losses = window_problem(given, rows)
            other = solve(K, losses)
            theirs = gap(K, losses, other.beta, other.intercept)
            print(f"   PIQP: dual {theirs.dual:.12g}, its own relative gap {theirs.relative:.1e}")

    return run(given, watch)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="how many problems")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the others follow")
    parser.add_argument("--only", type=int, help="run this seed in this process, and show it")
    parser.add_argument("--family", choices=list(FAMILIES), help="this family only")
    parser.add_argument("--rows", type=int, default=90, help="problems have fewer rows than this")
    parser.add_argument("--patience", type=float, default=20.0, help="give a problem up after so many seconds")
    options = parser.parse_args(arguments)
    if options.only is not None:
        outcome = show(problem(options.only, options.family, options.rows))
        print(outcome)
        return int(bool(outcome.failure))
    seeds = range(options.seed, options.seed + options.count)
    outcomes = run_all([(seed, options.family, options.rows) for seed in seeds], options.patience)
    print_report(outcomes, options.rows)
    return int(any(item.failure for item in outcomes))


if __name__ == "__main__":
    sys.exit(main())
