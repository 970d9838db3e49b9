"""Examples that come with the request of a job."""

from __future__ import annotations

from livesvm.service.models.fields import Matrix, Request, Targets, Weights


class Examples(Request):
    """Examples that come with the request of a job and stay with it alone."""

    X: Matrix
    y: Targets | None = None
    weights: Weights | None = None

    def memory(self) -> int:
        """Return bytes that they take."""
        return int(sum(array.nbytes for array in (self.X, self.y, self.weights) if array is not None))
