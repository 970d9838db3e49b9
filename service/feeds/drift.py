"""Whether errors have grown for good: the test of Page and Hinkley.

It sums up by how much each value is above the mean of those before, less a tolerance, and speaks where the sum has
risen far above its least [Page 1954; Gama et al., ACM Computing Surveys 2014].
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TOLERANCE = 0.25  #: of the mean error
THRESHOLD = 50.0  #: mean errors
LEAST = 30  #: values before it speaks
CLIP = 20.0  #: mean errors; a single value counts no more


class PageHinkley:
    """The test on a sequence of errors, each relative to the mean of those before."""

    def __init__(self) -> None:
        self.n, self.mean, self.sum, self.least = 0, 0.0, 0.0, 0.0

    def learn(self, error: float) -> bool:
        """Take an error, >= 0; say whether they have grown. The test then starts anew."""
        if self.n >= LEAST and self.mean > 0.0:
            self.sum += min(error / self.mean, CLIP) - 1.0 - TOLERANCE
            self.least = min(self.least, self.sum)
            if self.sum - self.least > THRESHOLD:
                self.__init__()  # type: ignore[misc]
                return True
        self.n += 1
        bounded = min(error, CLIP * self.mean) if self.n > LEAST and self.mean > 0.0 else error
        self.mean += (bounded - self.mean) / self.n
        return False

    def to_arrays(self) -> dict[str, Any]:
        """Return what it knows."""
        return dict(vars(self))

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Take over what ``to_arrays`` returned."""
        for name in vars(self):
            setattr(self, name, type(getattr(self, name))(arrays[name]))
