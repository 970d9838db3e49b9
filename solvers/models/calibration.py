"""Calibration: decisions become probabilities, without a solver and without scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from livesvm.solvers.models.pairs_predictor import scores
from livesvm.solvers.runtime.types import Floats


@dataclass(frozen=True)
class Calibration:
    """A map from decisions to the probability of each class, or of the second class alone if there are two."""

    #: "sigmoid": a and b of 1 / (1 + exp(a f + b)) [Platt]; "isotonic": places and values, linear between them
    method: str
    maps: tuple[tuple[Floats, Floats], ...]  #: for each column of ``columns`` these two, (1,) or (k,) each

    def probabilities(self, values: Floats) -> Floats:
        """Return the probability of each class, (m, n_classes), from ``columns`` (m, k)."""
        each = [self._of(one, column) for one, column in zip(self.maps, values.T, strict=True)]
        if len(each) == 1:
            return np.stack([1.0 - each[0], each[0]], axis=1)
        found = np.stack(each, axis=1)
        sums = found.sum(axis=1, keepdims=True)
        return np.where(sums > 0.0, found / np.where(sums > 0.0, sums, 1.0), 1.0 / len(each))

    def _of(self, one: tuple[Floats, Floats], values: Floats) -> Floats:
        if self.method == "sigmoid":
            from scipy.special import expit  # importing it takes a twentieth of the start of a service

            return np.asarray(expit(-(one[0] * values + one[1])))
        return np.asarray(np.interp(values, *one))


def columns(decisions: Floats, n_classes: int) -> Floats:
    """Return the input of a calibration: decisions (m, 1) for two classes, else class scores (m, n_classes)."""
    return decisions[:, None] if decisions.ndim == 1 else scores(decisions, n_classes)
