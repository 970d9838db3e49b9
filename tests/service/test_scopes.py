"""Access: every call of the API against every scope."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.access.keys import SCOPES, allows, new_key
from tests.service.process import ServiceProcess, blobs
from tests.support.jobs_over_rest import awaited

NEEDED = {
    "GET /health/live": None,
    "GET /health/ready": None,
    "GET /health/serving": None,
    "GET /access": None,
    "GET /metrics": "read",
    "GET /events": "read",
    "GET /models": "read",
    "GET /models/{id}": "read",
    "GET /models/{id}/events": "read",
    "GET /models/{id}/recent": "read",
    "GET /models/{id}/certificate": "read",
    "GET /models/{id}/versions": "read",
    "POST /models/{id}/predict": "read",
    "GET /v2/health/live": None,
    "GET /v2/health/ready": None,
    "GET /v2": "read",
    "GET /v2/models/{id}": "read",
    "GET /v2/models/{id}/ready": "read",
    "POST /v2/models/{id}/infer": "read",
    "GET /v2/models/{id}/versions/{version}": "read",
    "GET /v2/models/{id}/versions/{version}/ready": "read",
    "POST /v2/models/{id}/versions/{version}/infer": "read",
    "GET /datasets": "read",
    "GET /datasets/{name}": "read",
    "PUT /datasets/{name}": "learn",
    "DELETE /datasets/{name}": "learn",
    "GET /feeds": "read",
    "GET /feeds/{id}": "read",
    "GET /feeds/{id}/forecast": "read",
    "GET /feeds/{id}/history": "read",
    "GET /feeds/{id}/events": "read",
    "GET /feeds/{id}/certificate": "read",
    "GET /feeds/{id}/plot.{extension}": "read",
    "POST /feeds/{id}/forecast": "read",
    "POST /feeds/{id}/observations": "learn",
    "POST /feeds/{id}/announce": "learn",
    "POST /feeds/{id}/backtest": "learn",
    "POST /feeds/{id}/tune": "learn",
    "GET /feeds/{id}/drift": "learn",
    "POST /feeds/{id}/update": "learn",
    "POST /feeds": "admin",
    "POST /feeds/{id}/pause": "admin",
    "POST /feeds/{id}/resume": "admin",
    "POST /feeds/{id}/writeback": "admin",
    "DELETE /feeds/{id}": "admin",
    "GET /fleets": "read",
    "GET /fleets/{id}": "read",
    "GET /fleets/{id}/forecast": "read",
    "GET /fleets/{id}/series": "read",
    "POST /fleets/{id}/observations": "learn",
    "POST /fleets/{id}/announce": "learn",
    "POST /fleets": "admin",
    "POST /fleets/{id}/series": "admin",
    "POST /fleets/{id}/erase": "admin",
    "POST /fleets/{id}/pause": "admin",
    "POST /fleets/{id}/resume": "admin",
    "DELETE /fleets/{id}": "admin",
    "GET /webhooks": "admin",
    "GET /webhooks/{id}": "admin",
    "GET /webhooks/{id}/dead-letters": "admin",
    "POST /webhooks": "admin",
    "POST /webhooks/{id}/ping": "admin",
    "POST /webhooks/{id}/resend": "admin",
    "DELETE /webhooks/{id}": "admin",
    "GET /jobs": "read",
    "GET /jobs/{job}": "read",
    "GET /jobs/{job}/events": "read",
    "GET /jobs/{job}/plot.{extension}": "read",
    "GET /models/{id}/examples": "learn",
    "POST /models/{id}/update": "learn",
    "POST /models/{id}/what-if": "learn",
    "POST /models/{id}/explain": "learn",
    "GET /models/{id}/drift": "learn",
    "POST /models/{id}/checkpoint": "learn",
    "POST /models/{id}/restore": "learn",
    "POST /models/{id}/assessment": "learn",
    "POST /models/{id}/regularization-path": "learn",
    "POST /models/{id}/outlier-path": "learn",
    "POST /models/{id}/retrain": "learn",
    "POST /models/{id}/tune": "learn",
    "DELETE /jobs/{job}": "learn",
    "POST /jobs/{job}/apply": "learn",
    "POST /models": "admin",
    "DELETE /models/{id}": "admin",
    "POST /models/{id}/writeback": "admin",
    "POST /models/{id}/erase": "admin",
    "POST /feeds/{id}/erase": "admin",
    "POST /erase": "admin",
    "GET /receipts": "admin",
    "POST /receipts/verify": "read",
    "GET /receipts/key": "read",
}
"""The scope that each call needs; None is open to all."""


@pytest.fixture(scope="module")
def secrets() -> dict[str, tuple[str, str]]:
    return {scope: new_key(scope, scope) for scope in SCOPES}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, secrets: dict[str, tuple[str, str]]) -> Iterator[httpx.Client]:
    entries = ",".join(entry for _, entry in secrets.values())
    with ServiceProcess(tmp_path_factory.mktemp("guarded"), api_keys=entries) as service, service.http() as http:
        yield http


def status(http: httpx.Client, call: str, given: str | None) -> int:
    """Return how a call of nothing that exists is answered."""
    method, path = call.split()
    path = path.format(id="nobody", name="nothing", job="j-000000000000", extension="svg", version="1")
    headers = {} if given is None else {"authorization": given}
    with http.stream(method, path, json=[], headers=headers) as answer:  # some have no end
        return answer.status_code


def test_every_call_is_here(guarded: httpx.Client, secrets: dict[str, tuple[str, str]]) -> None:
    document = guarded.get("/openapi.json", headers={"authorization": f"Bearer {secrets['admin'][0]}"}).json()
    calls = {f"{method.upper()} {path}" for path, found in document["paths"].items() for method in found}
    assert calls == NEEDED.keys()


@pytest.mark.parametrize("call", NEEDED)
def test_a_call_is_open_to_its_scope_and_those_above_only(
    call: str, guarded: httpx.Client, secrets: dict[str, tuple[str, str]]
) -> None:
    needed = NEEDED[call]
    for scope, (secret, _) in secrets.items():
        may = needed is None or allows(scope, needed)
        assert (status(guarded, call, f"Bearer {secret}") not in (401, 403)) == may
    some = secrets["admin"][0]
    for given in (
        None,
        "",
        "Bearer",
        f"Basic {some}",
        some,
        f"Bearer {some}x",
        f"Bearer {some[:-1]}",
    ):
        assert (status(guarded, call, given) == 401) == (needed is not None), given


def test_a_key_is_reported_of_the_paths_that_it_may_call(
    guarded: httpx.Client, secrets: dict[str, tuple[str, str]]
) -> None:
    for scope, (secret, _) in secrets.items():
        reported = guarded.get("/access", headers={"authorization": f"Bearer {secret}"}).json()
        may = {call.split()[1] for call, needed in NEEDED.items() if needed is None or allows(scope, needed)}
        assert reported["paths"] == sorted(may)


def test_a_caller_that_may_not_list_examples_sees_no_key_in_results(
    guarded: httpx.Client, secrets: dict[str, tuple[str, str]]
) -> None:
    by = {scope: {"authorization": f"Bearer {secret}"} for scope, (secret, _) in secrets.items()}
    guarded.headers.update(by["admin"])
    X, y = blobs(np.random.default_rng(2), 12)
    keys = [f"person-{number}" for number in range(12)]
    guarded.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
    guarded.post("/models/m/update", json={"add": {"X": X, "y": y, "keys": keys}}).raise_for_status()
    asked: dict[str, tuple[dict[str, Any], list[str]]] = {
        "assessment": ({"method": "leave-one-out"}, ["keys"]),
        "outlier-path": ({}, ["outliers_at_start.key", "suspected.key", "switches.key"]),
        "regularization-path": ({"minimum": 0.5, "maximum": 2.0}, ["breakpoints.key", "coefficients.key"]),
    }
    for call, (body, withheld) in asked.items():
        job = guarded.post(f"/models/m/{call}", json=body).raise_for_status().json()["id"]
        whole = awaited(guarded, job)
        assert whole["state"] == "done"
        assert "person-" in json.dumps(whole["result"]) or call == "outlier-path"
        assert guarded.get(f"/jobs/{job}", headers=by["learn"]).json() == whole
        seen = guarded.get(f"/jobs/{job}", headers=by["read"])
        assert seen.json()["withheld"] == withheld
        assert "person-" not in seen.text
        assert seen.json()["result"].items() >= {k: v for k, v in whole["result"].items() if type(v) is float}.items()
    guarded.delete("/models/m").raise_for_status()
    for name in by["admin"]:
        del guarded.headers[name]
