"""The most memory that a feed may need, computed before its first reading."""

from __future__ import annotations

from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.step_model import CACHE_MB
from livesvm.service.resources.memory import FIXED_BYTES, FLOAT, model_bytes

CALENDAR = 14
"""Features of a time, at most."""
SEASONAL = 14
"""Of earlier seasons and weeks, at most."""
FACES = 20
"""Numbers that are kept of each forecast and its score."""
PYTHON = 400
"""Bytes of a reading in the window besides its numbers."""


def feed_bytes(spec: FeedSpec) -> int:
    """Return a feed's memory in bytes, with a full window, and each example of each model as a free support vector."""
    width = features_at_most(spec)
    rows = spec.window + spec.batch + 1
    models = len(spec.horizons) * (1 + len(spec.levels))
    rank = spec.components or 0  # mapped features, and as many free examples
    each = model_bytes(rows, width + FLOAT * rank, rank + 1 if rank else rows, CACHE_MB)
    shared = FLOAT * rows * (width + len(spec.horizons) * (width + FACES)) + PYTHON * rows
    return FIXED_BYTES + shared + models * each


def features_at_most(spec: FeedSpec) -> int:
    """Return how many features a step's models have at most."""
    lags, rolling = len(spec.lag_list), len(spec.rolling_widths())
    return lags + rolling + len(spec.features) + 2 * len(spec.known) + CALENDAR + SEASONAL
