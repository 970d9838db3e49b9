"""The table of job kinds by name; the name usually ends the path of the route, ``POST /models/{id}/<kind>``."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping

from livesvm.service.jobs import (
    assessment,
    feed_work,
    outlier_path,
    regularization_path,
    retraining,
    suspected_labels,
    tuning,
)
from livesvm.service.jobs.kind import JobKind

KINDS: dict[str, JobKind] = {
    "assessment": assessment.KIND,
    "regularization-path": regularization_path.KIND,
    "suspected-labels": suspected_labels.KIND,
    "outlier-path": outlier_path.KIND,
    "retrain": retraining.KIND,
    "tuning": tuning.KIND,
}

ALL_KINDS: Mapping[str, JobKind] = ChainMap(KINDS, feed_work.FEED_KINDS)
"""Kinds of jobs of models and of feeds."""
