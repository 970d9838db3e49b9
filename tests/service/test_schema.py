"""Requests drawn from the OpenAPI document never make the service fail."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.service.process import ServiceProcess

CHECKS = [f"{part}_conformance" for part in ("status_code", "content_type", "response_headers", "response_schema")]
"""Every answer is one that the document foresees."""
KNOWN = "schema-target"
STEADY = "schema-steady"
"""A model that no drawn request changes, so that jobs can work on it."""
ASSESSED = ("/models/{id}/assessment", "/models/{id}/regularization-path")
ENDLESS = ("/models/{id}/events", "/feeds/{id}/events")
"""Answers as long as the model lives; drawn requests ask it of models that there are not."""
PATIENCE = 20.0
"""Seconds in which a queue of jobs has space again."""
UNENDING = "/events"
"""Answers as long as the service lives; asked for once."""


def keep_one_row(body: Any) -> None:
    """Make an update's columns equally long, which drawn ones hardly ever are."""
    add = body.get("add") if isinstance(body, dict) else None
    if isinstance(add, dict):
        for name, column in add.items():
            if isinstance(column, list):
                add[name] = column[:1]


def exercise(operation: Any, url: str, known: dict[str, str]) -> set[int]:
    """Send requests drawn for one operation, on ``known`` resources; the statuses that came back."""
    from schemathesis.specs.openapi import checks  # takes a second to load

    statuses: set[int] = set()
    whole = [getattr(checks, name) for name in CHECKS]

    @settings(
        max_examples=6,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def send(case: Any) -> None:
        if case.method.upper() != "DELETE":
            case.path_parameters.update({name: known[name] for name in case.path_parameters if name in known})
        if len(repr(case.body)) % 2:
            keep_one_row(case.body)
        end = time.monotonic() + PATIENCE
        while (response := case.call(base_url=url)).status_code == 429 and time.monotonic() < end:
            time.sleep(0.1)  # those before it run
        statuses.add(response.status_code)
        is_late = response.status_code == 503 and response.json()["type"] == "urn:livesvm:problem:turn-missed"
        assert response.status_code < 500 or is_late, response.text
        is_stream = response.headers.get("content-type", [""])[0].startswith("text/event-stream")
        case.validate_response(response, checks=whole[:-1] if is_stream else whole)  # of a stream it is the text's
        if response.status_code >= 400:
            assert response.headers["content-type"] == ["application/problem+json"]

    send()
    return statuses


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    """Yield a service of the test's own, as drawn requests make and delete anything."""
    with ServiceProcess(tmp_path, max_body_bytes=2**20) as running:
        yield running


@pytest.fixture
def http(service: ServiceProcess) -> Iterator[httpx.Client]:
    with service.http() as client:
        yield client


def test_no_operation_fails(service: ServiceProcess, http: httpx.Client) -> None:
    from tests.faults import schema_driven  # takes a second to load

    for model in (KNOWN, STEADY):
        http.post("/models", json={"id": model, "C": 1.0}).raise_for_status()
        http.post(f"/models/{model}/update", json={"add": {"X": [[0.0], [1.0]], "y": [-1, 1]}}).raise_for_status()
    http.post("/feeds", json={"id": KNOWN, "target": "y", "time": None, "window": 40}).raise_for_status()
    readings = {"rows": [{"y": float(n % 7)} for n in range(60)]}
    http.post(f"/feeds/{KNOWN}/observations", json=readings).raise_for_status()
    job = http.post(f"/models/{STEADY}/assessment", json={"method": "leave-one-out"}).json()["id"]
    usual = {"id": KNOWN, "job": job}
    special: dict[str, dict[str, str]] = {path: {"id": STEADY} for path in ASSESSED}
    special |= {path: {} for path in ENDLESS}
    document = http.get("/openapi.json").json()
    seen: dict[str, set[int]] = {}
    for operation in schema_driven.operations(document):
        if operation.path == UNENDING:
            with http.stream("GET", UNENDING) as answer:
                seen[f"GET {UNENDING}"] = {answer.status_code}
            continue
        seen[f"{operation.method.upper()} {operation.path}"] = exercise(
            operation, service.url, special.get(operation.path, usual)
        )
    assert len(seen) == sum(len(operations) for operations in document["paths"].values())
    assert seen["POST /models/{id}/update"] >= {200, 422}
    assert seen["POST /models/{id}/assessment"] >= {202, 422}
    assert seen["POST /models/{id}/regularization-path"] >= {202, 422}
    assert seen["GET /jobs/{job}"] == seen["GET /jobs/{job}/events"] == {200}
    assert seen[f"GET {UNENDING}"] == {200}
    assert seen["POST /jobs/{job}/apply"] >= {409}
    assert 200 in seen["GET /feeds/{id}/history"]
    assert 422 in seen["POST /feeds/{id}/observations"]
    assert 201 in seen["POST /models"]
