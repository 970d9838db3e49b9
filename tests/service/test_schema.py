"""Requests drawn from the OpenAPI document never make the service fail."""

from __future__ import annotations

from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.result import Ok

from tests.service.process import ServiceProcess

KNOWN = "schema-target"


def test_no_operation_fails(service: ServiceProcess, http: httpx.Client) -> None:
    http.post("/models", json={"id": KNOWN}).raise_for_status()
    rows = {"X": [[0.0, 1.0], [1.0, 0.0]], "y": [1, -1]}
    http.post(f"/models/{KNOWN}/update", json={"add": rows}).raise_for_status()
    document = http.get("/openapi.json").json()
    operations = list(schemathesis.openapi.from_dict(document).get_all_operations())
    assert len(operations) == 11
    seen: dict[str, set[int]] = {}
    for result in operations:
        assert isinstance(result, Ok)
        operation = result.ok()
        statuses = seen.setdefault(f"{operation.method.upper()} {operation.path}", set())

        @settings(
            max_examples=40,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def send(case: Any, statuses: set[int] = statuses) -> None:
            if case.path_parameters and case.method.upper() != "DELETE":
                case.path_parameters["id"] = KNOWN
            response = case.call(base_url=service.url)
            statuses.add(response.status_code)
            assert response.status_code < 500, response.text
            if response.status_code >= 400:
                assert response.headers["content-type"] == "application/problem+json"

        send()
    assert 200 in seen["POST /models/{id}/update"]
    assert 422 in seen["POST /models/{id}/update"]
    assert 201 in seen["POST /models"]
    assert http.get(f"/models/{KNOWN}/certificate").json()["relative_gap"] <= 1e-8
