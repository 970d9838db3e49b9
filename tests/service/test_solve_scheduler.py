"""Places of solves: the cheap pass the hard, the hard take turns, and each ends in its time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from livesvm.service.errors import CutOff, NotSolved, OutOfTime, TurnMissed, Withdrawn
from livesvm.service.resources.solve_scheduler import Solve, SolveScheduler
from livesvm.solvers.runtime.interrupt import check
from tests.support.waiting import until


class Work:
    """A solve that goes on until it is reported that it is done."""

    def __init__(self, solve: Solve | None = None) -> None:
        self.solve = solve or Solve()
        self.steps = 0
        self.is_done = threading.Event()

    def run(self, turns: SolveScheduler) -> int:
        with turns.turn(self.solve):
            while not self.is_done.is_set():
                check()
                self.steps += 1
                time.sleep(0.001)
        return self.steps


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def has_moved(*works: Work) -> None:
    """Check that each goes on from where it is."""
    before = [work.steps for work in works]
    until(lambda: all(work.steps > steps + 3 for work, steps in zip(works, before, strict=True)))


def test_a_cheap_solve_passes_hard_ones(threads: ThreadPoolExecutor) -> None:
    turns, hard = SolveScheduler(1), [Work() for _ in range(3)]
    running = [threads.submit(work.run, turns) for work in hard]
    has_moved(*hard)
    for _ in range(20):
        cheap = Solve()
        with turns.turn(cheap):
            check()
        assert cheap.used < 1.0
    for work in hard:
        work.is_done.set()
    assert all(future.result() > 3 for future in running)


def test_it_is_reported_how_many_run_and_how_many_wait(threads: ThreadPoolExecutor) -> None:
    turns, hard = SolveScheduler(1), [Work() for _ in range(3)]
    assert turns.counts() == {"running": 0, "waiting": 0}
    running = [threads.submit(work.run, turns) for work in hard]
    has_moved(*hard)
    until(lambda: turns.counts() == {"running": 1, "waiting": 2})
    for work in hard:
        work.is_done.set()
    assert all(future.result() for future in running)
    assert turns.counts() == {"running": 0, "waiting": 0}


def test_hard_solves_take_turns_and_no_more_run_than_may(threads: ThreadPoolExecutor) -> None:
    turns, hard = SolveScheduler(1), [Work() for _ in range(3)]
    running = [threads.submit(work.run, turns) for work in hard]
    for _ in range(3):
        has_moved(*hard)
    used = [work.solve.used for work in hard]
    assert min(used) > 0.0
    for work in hard:
        work.is_done.set()
    assert all(future.result() for future in running)


def ended(future: Future[int], kind: type[NotSolved]) -> None:
    with pytest.raises(kind):
        future.result(timeout=20)


def test_a_solve_ends_when_it_had_its_time(threads: ThreadPoolExecutor) -> None:
    turns, patient = SolveScheduler(1), Work()
    went_on = threads.submit(patient.run, turns)
    ended(threads.submit(Work(Solve(seconds=0.1)).run, turns), OutOfTime)
    ended(threads.submit(Work(Solve(until=time.monotonic() + 0.3)).run, turns), OutOfTime)
    has_moved(patient)
    patient.is_done.set()
    assert went_on.result() > 0


def test_time_that_others_take_does_not_count_as_solving(threads: ThreadPoolExecutor) -> None:
    turns, hard, limited = SolveScheduler(1), Work(), Work(Solve(seconds=0.5))
    first = threads.submit(hard.run, turns)
    second = threads.submit(limited.run, turns)
    ended(second, OutOfTime)
    assert 0.5 < limited.solve.used < 0.5 + 0.4
    hard.is_done.set()
    assert hard.solve.used < 1.0 or first.result() > limited.steps / 2


def test_a_solve_that_never_had_a_turn_is_reported_so() -> None:
    with pytest.raises(TurnMissed), SolveScheduler(1).turn(Solve(until=time.monotonic() - 1.0)):
        pass


def test_an_abandoned_solve_ends_whether_it_runs_or_waits(threads: ThreadPoolExecutor) -> None:
    turns, works = SolveScheduler(1), [Work() for _ in range(4)]
    running = [threads.submit(work.run, turns) for work in works]
    has_moved(*works)
    for work, future in zip(works, running, strict=True):
        work.solve.end(Withdrawn("the caller left"))
        ended(future, Withdrawn)
    with turns.turn(Solve()):
        check()


def test_a_closed_service_ends_what_is_there_and_begins_nothing(threads: ThreadPoolExecutor) -> None:
    turns, works = SolveScheduler(1), [Work() for _ in range(4)]
    running = [threads.submit(work.run, turns) for work in works]
    has_moved(*works)
    turns.close()
    for future in running:
        ended(future, CutOff)
    with pytest.raises(CutOff), turns.turn(Solve()):
        pass
    ticker = turns._ticker
    assert ticker is not None
    ticker.join(timeout=20)
    assert not ticker.is_alive()


def test_a_place_is_given_back_when_a_solve_fails(threads: ThreadPoolExecutor) -> None:
    turns = SolveScheduler(1)
    for _ in range(5):
        with pytest.raises(ZeroDivisionError), turns.turn(Solve()):
            raise ZeroDivisionError
    works = [Work(), Work()]
    running = [threads.submit(work.run, turns) for work in works]
    has_moved(*works)
    for work in works:
        work.is_done.set()
    assert all(future.result() > 0 for future in running)
