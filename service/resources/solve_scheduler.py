"""Schedule solves: a limited number run at the same time, short ones before long ones, none beyond its time limit.

Long solves take turns, and each continues where it was interrupted. A solve can also be ended between two events of its
path, which leaves its model as it was. No update waits for the end of another model's long solve.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf

from livesvm.service.errors import CutOff, NotSolved, OutOfTime, TurnMissed
from livesvm.service.logs.calls import stage
from livesvm.solvers.runtime.interrupt import Interrupt, interruptible

SHORT_SECONDS = 0.05
"""A solve that has run for less is short; one place more is for short solves."""
SLICE_SECONDS = 0.2
"""Least time that a long solve runs before another long one takes its place."""
TICK_SECONDS = 0.02
"""Seconds between two checks of the running solves."""
LINGER_SECONDS = 1.0
"""Seconds for which the checks go on when nothing runs, so that a stream of small updates need not restart them."""


@dataclass(eq=False, slots=True)
class Solve:
    """One solve: its time limits, the time that it has run, and whether its result is still wanted.

    Parameters
    ----------
    seconds : limit of the time of solving, waiting not included
    until : the monotonic time at which it must end, waiting included
    """

    seconds: float = inf
    until: float = inf
    used: float = 0.0
    _since: float | None = field(default=None, init=False)
    _came: float = field(default=0.0, init=False)
    _ended: NotSolved | None = field(default=None, init=False)
    _must_yield: bool = field(default=False, init=False)
    _go: threading.Event | None = field(default=None, init=False)
    _interrupt: Interrupt | None = field(default=None, init=False)

    def end(self, error: NotSolved) -> None:
        """Make the solve end soon with this error; safe from any thread; the first error counts."""
        self._ended = self._ended or error

    @property
    def has_ended(self) -> bool:
        """Whether the solve was asked to end, because its result is no longer wanted."""
        return self._ended is not None

    def check(self) -> None:
        """Raise NotSolved if the solve was asked to end, or a time limit has passed."""
        if (error := self.objection()) is not None:
            raise error

    def objection(self) -> NotSolved | None:
        """Return the error with which the solve must end, None if it may go on."""
        now = time.monotonic()
        if self._ended is not None:
            return self._ended
        if (self.used if self._since is None else self.used_by(now)) > self.seconds:
            limit = f"no optimum was reached within {self.seconds:g} s of solving (LIVESVM_SOLVE_SECONDS)"
            return OutOfTime(f"{limit}; nothing was changed; send fewer examples a call, or allow more")
        if now > self.until and self.used == 0.0 and self._since is None:
            return TurnMissed("other solves took the time that was given; nothing was changed")
        if now > self.until:
            return OutOfTime("no optimum was reached by the time that was asked for; nothing was changed")
        return None

    def rest(self) -> float | None:
        """Return the seconds until the solve must end, None if it has no time limit ``until``."""
        return None if self.until == inf else max(0.0, self.until - time.monotonic())

    def used_by(self, now: float) -> float:
        """Return the seconds that the solve has run until ``now``, a monotonic time."""
        return self.used + (0.0 if self._since is None else now - self._since)


class SolveScheduler:
    """Decides which solves run; each solve runs in the thread that calls :meth:`turn`.

    Parameters
    ----------
    at_once : long solves that run at once; one short solve more may run
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lock = threading.Lock()
        self._running: list[Solve] = []
        self._waiting: list[Solve] = []
        self._closed = False
        self._wake = threading.Event()
        self._ticker: threading.Thread | None = None

    @contextmanager
    def turn(self, solve: Solve) -> Iterator[None]:
        """Wait for a place and hold it during the block; raises NotSolved in the block when the solve must end."""
        stage("turn")
        self._take(solve)
        stage("solve")
        try:
            with interruptible(partial(self._heed, solve)) as solve._interrupt:
                yield
        finally:
            with self._lock:
                self._leave(solve)
                if self._waiting:
                    self._admit()
            solve._interrupt = None  # it refers to the solved problem, which would stay in memory

    def counts(self) -> dict[str, int]:
        """Return how many solves run now, and how many wait for their turn."""
        with self._lock:
            return {"running": len(self._running), "waiting": len(self._waiting)}

    def check_open(self) -> None:
        """Raise CutOff when no further solves may begin."""
        if self._closed:
            raise CutOff("the service stops; nothing was changed")

    def close(self) -> None:
        """End every solve that runs or waits, and refuse further ones."""
        with self._lock:
            self._closed = True
            self._wake.set()
            for solve in [*self._running, *self._waiting]:
                solve.end(CutOff("the service stopped while it solved this; nothing was changed"))

    # In a solve's thread.

    def _take(self, solve: Solve) -> None:
        """Wait until the solve may run; raises NotSolved if it must end before."""
        solve.check()
        with self._lock:
            self.check_open()
            if not self._wake.is_set():
                self._start_ticking()
            solve._came = time.monotonic()
            if not self._waiting and len(self._running) < self._at_once:
                self._running.append(solve)
                solve._since = solve._came
                return
            self._waiting.append(solve)
            self._admit()
            if solve._since is not None:
                return
            go = solve._go = threading.Event()
        go.wait()
        if solve._since is None:  # it was woken without a place, as it must end
            solve.check()

    def _heed(self, solve: Solve) -> None:
        """Raise NotSolved if the running solve must end; if it must yield, pause it until its next turn."""
        solve.check()
        with self._lock:
            if not solve._must_yield:
                return
            self._leave(solve)
        self._take(solve)

    # Under the lock.

    def _leave(self, solve: Solve) -> None:
        if solve._since is not None:
            solve.used += time.monotonic() - solve._since
            solve._since, solve._must_yield = None, False
            self._running.remove(solve)

    def _admit(self) -> None:
        """Let waiting solves run as far as there are places: short solves first, then in the order of arrival."""
        now = time.monotonic()
        for solve in sorted(self._waiting, key=lambda waiting: (_is_long(waiting, now), waiting._came)):
            long = sum(_is_long(running, now) for running in self._running)
            if len(self._running) > self._at_once or (_is_long(solve, now) and long >= self._at_once):
                return
            self._waiting.remove(solve)
            self._running.append(solve)
            solve._since = now
            if solve._go is not None:
                solve._go.set()
                solve._go = None

    def _start_ticking(self) -> None:
        if self._ticker is None:
            self._ticker = threading.Thread(target=self._tick, name="turns", daemon=True)
            self._ticker.start()
        self._wake.set()

    # In the ticker's thread.

    def _tick(self) -> None:
        idle_since, is_over = time.monotonic(), False
        while not is_over:
            self._wake.wait()
            time.sleep(TICK_SECONDS)
            with self._lock:
                now = time.monotonic()
                if self._running or self._waiting:
                    self._look()
                    idle_since = now
                elif self._closed:
                    is_over = True
                elif now - idle_since > LINGER_SECONDS:
                    self._wake.clear()

    def _look(self) -> None:
        """Interrupt the running solves that must end or yield, and wake the waiting solves that must end."""
        for solve in self._to_yield():
            solve._must_yield = True
        for solve in self._running:
            if (solve._must_yield or solve.objection() is not None) and solve._interrupt is not None:
                solve._interrupt.ask()
        for solve in [solve for solve in self._waiting if solve.objection() is not None]:
            self._waiting.remove(solve)
            if solve._go is not None:
                solve._go.set()
                solve._go = None

    def _to_yield(self) -> list[Solve]:
        """Return the long solves that must yield: the newest if too many run, else the oldest if a long solve waits."""
        now = time.monotonic()
        long = sorted((solve for solve in self._running if _is_long(solve, now)), key=lambda solve: solve._since or now)
        if len(long) > self._at_once:
            return long[self._at_once :]
        has_run = bool(long) and now - (long[0]._since or now) >= SLICE_SECONDS
        return long[:1] if has_run and any(_is_long(solve, now) for solve in self._waiting) else []


def _is_long(solve: Solve, now: float) -> bool:
    return solve.used_by(now) >= SHORT_SECONDS
