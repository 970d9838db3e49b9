"""The contest of forecasts for each step: the model's, or a naive one where the rolling record is better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Served = Literal["model", "last-value", "seasonal-naive"]

SERVED: tuple[Served, ...] = ("model", "last-value", "seasonal-naive")
LEAST = 30  #: forecasts that have to be scored before a naive one is served
AHEAD = 0.95  #: times the model's error, which a naive one has to stay below
HALVES = 5  #: how often the weight of an error halves while a window passes


class Contest:
    """The errors of a step's model and of the naive forecasts, of which older ones count less.

    Parameters
    ----------
    window : readings of the feed's window
    """

    def __init__(self, window: int) -> None:
        self.decay = 0.5 ** (HALVES / window)
        self.sums = [0.0] * len(SERVED)
        self.n = 0

    def best(self) -> int:
        """Return which of ``SERVED`` is to be served, by index."""
        naive = 1 if self.sums[1] <= self.sums[2] else 2
        return naive if self.n >= LEAST and self.sums[naive] < AHEAD * self.sums[0] else 0

    def learn(self, actual: float, forecasts: tuple[float, float, float]) -> None:
        """Take a reading with the forecasts of it, in the order of ``SERVED``."""
        both = zip(self.sums, forecasts, strict=True)
        self.sums = [self.decay * before + abs(actual - forecast) for before, forecast in both]
        self.n += 1

    def begin(self, errors: Floats) -> None:
        """Know only these errors, oldest first, (n, 3)."""
        self.n = len(errors)
        weights = self.decay ** np.arange(self.n - 1, -1, -1.0)
        self.sums = (weights @ np.abs(errors).reshape(-1, len(SERVED))).tolist()

    def to_arrays(self) -> dict[str, Any]:
        """Return what it knows."""
        return {"sums": np.array(self.sums), "n": self.n}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Take over what ``to_arrays`` returned; feeds had nothing of it before."""
        if "sums" in arrays:
            self.sums, self.n = arrays["sums"].tolist(), int(arrays["n"])
