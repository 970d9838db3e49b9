"""The OpenAPI document: request bodies are read by the routes themselves, so their schemas are added here."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from livesvm.service.api.answers.operations import Problem
from livesvm.service.api.bodies.infer import InferRequest
from livesvm.service.api.feed_updates import FeedUpdateRequest
from livesvm.service.api.requests import (
    ApplyRequest,
    EraseRequest,
    ExplainRequest,
    FeedEraseRequest,
    FeedRequest,
    FleetEraseRequest,
    FleetRequest,
    PredictRequest,
    RestoreRequest,
    SeriesRequest,
    UpdateRequest,
    UpdatesRequest,
    WebhookRequest,
    WhatIfRequest,
)
from livesvm.service.jobs.kinds import KINDS
from livesvm.service.models.spec import ModelSpec
from livesvm.service.settings import Settings

_NAMED = (
    ModelSpec,
    UpdateRequest,
    UpdatesRequest,
    WhatIfRequest,
    ExplainRequest,
    RestoreRequest,
    PredictRequest,
    InferRequest,
    ApplyRequest,
    EraseRequest,
    FeedEraseRequest,
    FeedRequest,
    FeedUpdateRequest,
    FleetRequest,
    FleetEraseRequest,
    SeriesRequest,
    WebhookRequest,
    Problem,
)


def describe(app: FastAPI, settings: Settings, *, secured: bool) -> None:
    """Complete the application's OpenAPI document; ``secured`` when API keys are asked for."""
    generate = app.openapi

    def complete() -> dict[str, Any]:
        """Return the document, made once, with the schemas of bodies that routes parse themselves."""
        if app.openapi_schema is None:
            document = generate()
            named: list[type[BaseModel]] = [*_NAMED, *(kind.request for kind in KINDS.values())]
            _, found = models_json_schema(
                [(model, "validation") for model in named], ref_template="#/components/schemas/{model}"
            )
            if not secured:
                _forget_security(document)
            document.setdefault("components", {}).setdefault("schemas", {}).update(found["$defs"])
            _limit_features(document["components"]["schemas"]["ModelSpec"], settings.max_features)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = complete  # type: ignore[method-assign]


def _limit_features(model: dict[str, Any], most: int) -> None:
    """Take the limit from a setting."""
    for choice in model["properties"]["n_features"]["anyOf"]:
        if choice["type"] == "integer":
            choice["maximum"] = most


def _forget_security(document: dict[str, Any]) -> None:
    document.get("components", {}).pop("securitySchemes", None)
    for path in document["paths"].values():
        for operation in path.values():
            operation.pop("security", None)
