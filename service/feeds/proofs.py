"""Certificates of the models of a feed's steps, recomputed from their windows."""

from __future__ import annotations

from typing import Any

from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.state import FeedState
from livesvm.service.models.proofs import approximation_of

Document = dict[str, Any]


def proofs_of(feed: Forecaster) -> list[Document]:
    """Return the certificate of each model of each step."""
    return [
        {"step": step, "model": name, **_proof(model)}
        for step, one in zip(feed.steps, feed.models, strict=False)
        for name, model in zip(_names(feed.spec), one.models, strict=True)
    ]


def worst_of(state: FeedState) -> Document | None:
    """Return the worst certificate values over all models, for a receipt; None while there are no models."""
    found = [_proof(model) for one in state.forecaster.models for model in one.models]
    if not found:
        return None
    worst = {name: max(one[name] for one in found) for name in ("relative_gap", "max_violation")}
    return {"version": state.version, **worst, "n_examples": max(one["n_examples"] for one in found)}


def _names(spec: FeedSpec) -> list[str]:
    """Return the names of a step's models: the forecast, and each quantile."""
    return ["forecast", *(f"quantile {level:g}" for level in spec.levels)]


def _proof(model: Any) -> dict[str, Any]:
    found = model.certificate()
    return {
        "relative_gap": float(found.relative_gap),
        "max_violation": float(found.max_violation),
        "n_examples": int(found.n_examples),
        **approximation_of(found),
    }
