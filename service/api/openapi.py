"""The OpenAPI document, with the schemas of request bodies, which FastAPI does not know because routes parse bodies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from livesvm.service.api.answers.operations import Problem
from livesvm.service.settings import Settings


def describe(app: FastAPI, settings: Settings, bodies: Iterable[type[BaseModel]], *, secured: bool) -> None:
    """Add the schemas of request bodies to the OpenAPI document; ``secured``: whether API keys are required."""
    generate = app.openapi

    def complete() -> dict[str, Any]:
        """Return the OpenAPI document with the schemas of request bodies; the first call creates the document."""
        if app.openapi_schema is None:
            document = generate()
            named: list[type[BaseModel]] = [*dict.fromkeys(bodies), Problem]
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
    """Set the maximum of ``n_features`` in the schema of a model's settings to the limit ``most``."""
    for choice in model["properties"]["n_features"]["anyOf"]:
        if choice["type"] == "integer":
            choice["maximum"] = most


def _forget_security(document: dict[str, Any]) -> None:
    document.get("components", {}).pop("securitySchemes", None)
    for path in document["paths"].values():
        for operation in path.values():
            operation.pop("security", None)
