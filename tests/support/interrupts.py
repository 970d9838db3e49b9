"""What a handler sees that is called in the middle of a solve; and failures put in at any of its calls."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from livesvm.solvers.runtime.interrupt import interruptible
from tests.interrupts import Looks


@contextmanager
def looked_at(looks: Looks) -> Iterator[Looks]:
    """Call a handler at every look inside."""
    with interruptible(looks) as interrupt:
        looks.start(interrupt)
        yield looks


class Injected(BaseException):
    """A failure that no code expects, such as a KeyboardInterrupt."""


class Calls:
    """The calls of Python and C functions that solvers make, of which one fails.

    Parameters
    ----------
    fail_at : which fails, from 1; None: they are only counted
    """

    def __init__(self, fail_at: int | None = None) -> None:
        self.fail_at = fail_at
        self.count = 0
        self.has_failed = False

    def __enter__(self) -> Calls:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if (
            event not in ("call", "c_call")
            or "/solvers/" not in code.co_filename
            or "site-packages" in code.co_filename
        ):
            return
        if code.co_flags & inspect.CO_GENERATOR:  # what is raised where one is closed is lost
            return
        self.count += 1
        if self.count == self.fail_at:
            sys.setprofile(None)
            self.has_failed = True
            raise Injected(f"at call {self.count}, in {code.co_name}")
