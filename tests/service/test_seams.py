"""A task and a kind of job that are added from outside: one entry each, and everything else comes with it."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.service.process import ServiceStartedAfresh


def test_a_task_and_a_kind_of_job_are_one_entry_each(tmp_path: Path) -> None:
    process = ServiceStartedAfresh(tmp_path)
    process.module = "tests.service.toys"
    with process, process.http() as http:
        _use(http)


def _use(http: httpx.Client) -> None:
    assert http.post("/models", json={"id": "visits", "task": "counts", "C": 10.0}).status_code == 201
    refused = http.post("/models/visits/update", json={"add": {"X": [[0.0]], "y": [0.5]}})
    assert (refused.status_code, refused.json()["reason"]) == (422, "is no count")
    X = [[float(i)] for i in range(12)]
    y = [float(i // 2) for i in range(12)]
    assert http.post("/models/visits/update", json={"add": {"X": X, "y": y}}).json()["n_examples"] == 12
    predicted = http.post("/models/visits/predict", json={"X": X}).json()["prediction"]
    assert all(value == round(value) >= 0 for value in predicted)
    assert http.post("/models/visits/farthest", json={"most": "all"}).status_code == 422
    asked = http.post("/models/visits/farthest", json={"most": 2})
    assert asked.status_code == 202
    job = asked.headers["location"]
    while (found := http.get(job).json())["state"] != "done":
        assert found["state"] in ("queued", "running"), found
    assert len(found["result"]["keys"]) == 2
    assert http.post(f"{job}/apply", json={}).json()["changed"] == 2
    document = http.get("/openapi.json").json()
    assert document["paths"]["/models/{id}/farthest"]["post"]["summary"] == "Name who is far off"
    assert "FarRequest" in document["components"]["schemas"]
