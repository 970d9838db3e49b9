"""How models differ from one that they all have left: what each takes to decide is as much as has changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from livesvm.solvers.runtime.types import Floats, Ints


@dataclass(frozen=True)
class Changes:
    """The coefficients of models less those of one, by place: of the free all, of others those that are not 0."""

    free: Ints  #: (F,) places
    of_free: Floats  #: (m, F)
    starts: Ints  #: (m + 1,) where in the next two each model begins
    places: Ints  #: (k,) others
    of_others: Floats  #: (k,)
    of_b: Floats  #: (m,)

    @property
    def nbytes(self) -> int:
        """Bytes of all."""
        arrays = (self.free, self.of_free, self.starts, self.places, self.of_others, self.of_b)
        return sum(array.nbytes for array in arrays)

    def renamed(self, place_of: Ints) -> Changes:
        """Return the same with other names of places."""
        return replace(self, free=place_of[self.free], places=place_of[self.places])

    def decide(self, values: Floats) -> Floats:
        """Return how decisions differ, (m, r), of rows with kernel values (r, n)."""
        from scipy.sparse import csr_array  # only loaded where it is used: a start must not wait for it

        rest = csr_array((self.of_others, self.places, self.starts), shape=(self.of_b.size, values.shape[1]))
        found = self.of_free @ np.ascontiguousarray(values[:, self.free]).T + self.of_b[:, None]
        return np.asarray(found + rest @ values.T)
