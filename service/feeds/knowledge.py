"""What scored forecasts assumed of columns known ahead: the right values, other announced values, or held values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

Assumed = Literal["perfect", "announced", "held", "mixed"]


LOOKS = 5  #: how often a feed looks at its scales before what was not announced since counts as not known any more


class Knowledge:
    """How far ahead known columns are announced, and how many scored forecasts used announced or held values.

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
        """Count a check of the scales; say whether it ends the period over which :attr:`longest` is measured."""
        self.looks = (self.looks + 1) % LOOKS
        return self.looks == 0

    def compare(self, slot: int, announced: tuple[float, ...] | None, came: tuple[float, ...]) -> None:
        """Record whether the columns announced for a slot equal those that came with the slot's reading."""
        self._is_exact[slot] = announced == came

    def score(self, step: int, slot: int, *, was_known: bool) -> None:
        """Count a scored forecast of ``step``, an index, by what it assumed of known columns."""
        kind = 2 if not was_known else 0 if self._is_exact.get(slot, False) else 1
        self.counts[step, kind] += 1

    def scored(self, slot: int) -> None:
        """Discard the comparison noted for a slot, after its forecasts are scored."""
        self._is_exact.pop(slot, None)

    def assumed(self, step: int) -> Assumed | None:
        """Return what scored forecasts of ``step``, an index, assumed of known columns; None before the first score."""
        exact, otherwise, held = self.counts[step].tolist()
        if not exact + otherwise + held:
            return None
        if held:
            return "mixed" if exact + otherwise else "held"
        return "announced" if otherwise else "perfect"

    def to_arrays(self) -> dict[str, Any]:
        """Return the state as a dictionary."""
        return {"lead": self.lead, "longest": self.longest, "looks": self.looks, "counts": self.counts.copy()}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state from the dictionary that ``to_arrays`` returned; in older versions it was empty."""
        self.lead, self.longest, self.looks = (int(arrays.get(name, 0)) for name in ("lead", "longest", "looks"))
        self.counts[:] = arrays.get("counts", 0)
