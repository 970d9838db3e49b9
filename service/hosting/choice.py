"""The choice of parameters for one model that tunes itself; it runs on a copy, so the model still accepts updates."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from livesvm.service.models.self_tuning import Document, chosen
from livesvm.service.models.state import ModelCopy
from livesvm.solvers.analyses.tuning.automatic import MOST, choose
from livesvm.solvers.errors import Cancelled, SolverError
from livesvm.solvers.runtime.interrupt import interruptible

ASIDE = 5
"""Niceness of the thread that chooses, so that updates go first."""
ARRAYS = 6
"""How many square arrays, with a row for each example that is used, a choice holds at once."""

log = logging.getLogger(__name__)


def choosing_bytes(n: int) -> int:
    """Return the bytes that a choice of parameters for a window of n examples needs, besides a copy of the model."""
    return ARRAYS * 8 * min(n, MOST) ** 2


class TuningRun:
    """One choice of parameters, from the moment it is due until the model uses the chosen parameters.

    Parameters
    ----------
    copy : a copy of the model
    basis : ``ModelState.basis`` of the copied model, its parameters
    reason : why the choice is due
    done : called with this choice and the chosen parameters as a document, None if the window allowed no choice
    """

    def __init__(
        self, copy: ModelCopy, basis: object, reason: str, done: Callable[[TuningRun, Document | None], None]
    ) -> None:
        self.copy, self.basis, self._reason, self._done = copy, basis, reason, done
        self._interrupt = interruptible(self._check)
        self.is_over = False

    def end(self) -> None:
        """Make the choice of parameters stop soon without a result; any thread may call this."""
        self.is_over = True
        self._interrupt.ask()

    def _check(self) -> None:
        if self.is_over:
            raise Cancelled("the choice is not wanted any more")

    def run(self) -> None:
        """Choose parameters for the copy, and call ``done`` with the result."""
        with suppress(OSError):  # without that right, updates wait a little longer
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), ASIDE)
        found: Document | None = None
        try:
            with self._interrupt:
                self._check()
                model: Any = self.copy.estimator()
                found = chosen(choose(model), self._reason, is_first=not model.chosen_)
        except SolverError as error:
            log.info("model %s: nothing is chosen: %s", self.copy.spec.id, error)
        except Exception:
            log.exception("model %s: a choice failed in an unforeseen way", self.copy.spec.id)
        self._done(self, found)
