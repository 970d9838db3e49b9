"""Handlers for tests of interrupted solves."""

from __future__ import annotations

import sys

from livesvm.solvers.errors import SolverError
from livesvm.solvers.runtime.interrupt import Interrupt


class Stop(SolverError):
    """A handler ends a solve."""


class Looks:
    """A handler that has itself called at every look, counts those, and ends the solve at one of them."""

    def __init__(self, end_at: int | None = None) -> None:
        self.end_at = end_at
        self.count = 0
        self.within_compiled_code = 0
        self.interrupt: Interrupt

    def start(self, interrupt: Interrupt) -> None:
        """Ask for the first time."""
        self.interrupt = interrupt
        interrupt.ask()

    def __call__(self) -> None:
        self.count += 1
        self.within_compiled_code += is_in_compiled_code()
        if self.count == self.end_at:
            raise Stop(f"at look {self.count}")
        self.interrupt.ask()


def is_in_compiled_code() -> bool:
    """Say whether the handler that calls this was called out of compiled code."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_paused":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
