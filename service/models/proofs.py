"""Certificates of a model's optimality as JSON values."""

from __future__ import annotations

from typing import Any

import numpy as np

from livesvm.service.models.classifier import Served
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.pairs_predictor import RankCertificate

NAMES = ("relative_gap", "duality_gap", "max_violation", "rounding")


def proof_of(estimator: LiveEstimator) -> dict[str, Any]:
    """Return the certificate of optimality of an estimator, recomputed from its window, which must not be empty."""
    found = estimator.certificate()
    numbers: dict[str, Any] = {name: float(getattr(found, name)) for name in (*NAMES, "primal", "dual")}
    numbers |= approximation_of(found)
    return {**numbers, "n_examples": int(found.n_examples), **_of_robust(estimator), **_by_pair(estimator)}


def approximation_of(found: Any) -> dict[str, Any]:
    """Return how much of the full kernel a certificate's low-rank kernel leaves out; empty for a full kernel."""
    names = ("kernel", "components", "left_out")
    return (
        {"approximation": {name: getattr(found, name) for name in names}} if isinstance(found, RankCertificate) else {}
    )


def _by_pair(estimator: LiveEstimator) -> dict[str, Any]:
    """Return the certificates of all pairs of classes, and the worst pair; an empty dict for at most two classes."""
    pairs = estimator.pair_certificates if isinstance(estimator, Served) else {}
    if not pairs:
        return {}
    reported = [
        {
            "classes": list(two),
            **{name: float(getattr(one, name)) for name in NAMES},
            "n_examples": int(one.n_examples),
        }
        for two, one in pairs.items()
    ]
    worst = max(pairs, key=lambda two: float(pairs[two].relative_gap))
    return {"pairs": reported, "worst": list(worst)}


def _of_robust(estimator: LiveEstimator) -> dict[str, Any]:
    """Return the cutoffs, outliers and local optimality of a robust model; an empty dict for other models."""
    robust = estimator.robustness()
    if robust is None:
        return {}
    found = estimator.local_optimality()
    distance = float(found.wall_distance) if np.isfinite(found.wall_distance) else None
    return {
        "robust": {
            "theta": robust.theta,
            "s": robust.s,
            "n_outliers": len(robust.outliers),
            "n_held": int(found.held.size),
            "violation": found.violation,
            "wall_distance": distance,
        }
    }
