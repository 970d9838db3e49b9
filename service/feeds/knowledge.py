"""Assumptions of forecasts on columns known ahead: announced as they came, announced otherwise, or held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

Assumed = Literal["perfect", "announced", "held", "mixed"]


LOOKS = 5  #: how often a feed looks at its scales before what was not announced since counts as not known any more


class Knowledge:
    """How far ahead known columns are known, and of how many scored forecasts they were.

    Parameters
    ----------
    steps : how many steps there are
    """

    def __init__(self, steps: int) -> None:
        self.lead = 0  #: models have learnt what is known up to this step
        self.longest = 0  #: up to which step columns were known lately
        self.looks = 0  #: since when that is
        self.counts = np.zeros((steps, 3), np.int64)  #: of scored forecasts: as it came, announced otherwise, held
        self._is_exact: dict[int, bool] = {}

    def is_over(self) -> bool:
        """Count a look; say whether the time is over in which :attr:`longest` was found."""
        self.looks = (self.looks + 1) % LOOKS
        return self.looks == 0

    def compare(self, slot: int, announced: tuple[float, ...] | None, came: tuple[float, ...]) -> None:
        """Take what was announced of a slot, and what came."""
        self._is_exact[slot] = announced == came

    def score(self, step: int, slot: int, *, was_known: bool) -> None:
        """Count a forecast that is scored, of ``step`` by index."""
        kind = 2 if not was_known else 0 if self._is_exact.get(slot, False) else 1
        self.counts[step, kind] += 1

    def scored(self, slot: int) -> None:
        """Forget announcements for a slot with scored forecasts."""
        self._is_exact.pop(slot, None)

    def assumed(self, step: int) -> Assumed | None:
        """Return what the errors of ``step``, by index, assume; None before the first."""
        exact, otherwise, held = self.counts[step].tolist()
        if not exact + otherwise + held:
            return None
        if held:
            return "mixed" if exact + otherwise else "held"
        return "announced" if otherwise else "perfect"

    def to_arrays(self) -> dict[str, Any]:
        """Return what it knows."""
        return {"lead": self.lead, "longest": self.longest, "looks": self.looks, "counts": self.counts.copy()}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Take over what ``to_arrays`` returned; feeds had nothing of it before."""
        self.lead, self.longest, self.looks = (int(arrays.get(name, 0)) for name in ("lead", "longest", "looks"))
        self.counts[:] = arrays.get("counts", 0)
