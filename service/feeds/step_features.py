"""The features of one step's examples, from the window of rows that all steps share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.represent import MOST, StepScale, base_of, represented, scaled
from livesvm.service.feeds.rows import Rows
from livesvm.service.feeds.spec import Represent
from livesvm.solvers.kernels.lines import Scaling, write_scaled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class StepFeatures(NamedTuple):
    """The window of rows as the model of a ``step``, an index, sees it; examples are named by ordinals."""

    rows: Rows
    step: int
    represent: Represent

    def of(self, ordinals: Sequence[int]) -> Floats:
        """Return features of examples, (m, d), not scaled."""
        shared, own = self.rows.features(ordinals)
        return represented(self.rows.layout, self.represent, shared, own[:, self.step])

    def write(self, ordinals: Ints, scale: StepScale, out: Floats) -> None:
        """Write scaled features of examples, in ascending order, to the first columns of ``out`` (d, m or more)."""
        found = self.rows.lines(self.step)
        if found is None:
            out[:, : ordinals.size] = scaled(scale, self.of(ordinals.tolist())).T
            return
        lines, first = found
        base = base_of(self.rows.layout, self.represent)
        write_scaled(lines, Scaling(scale.centre, scale.width, MOST), base, ordinals - first, out)
