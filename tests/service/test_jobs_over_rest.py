"""Jobs over REST: the exact assessment of a live window, what is refused, what a kill leaves, and cancelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client, ServiceProblem
from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from tests.service.conftest import Make
from tests.service.process import ServiceProcess, blobs
from tests.support.jobs_over_rest import awaited
from tests.support.waiting import until

LEARNERS: dict[str, tuple[dict[str, Any], Any]] = {
    "svc": ({"task": "svc", "C": 3.0}, IncrementalSVC(C=3.0, gamma=0.4, classes=(-1, 1))),
    "svr": ({"task": "svr", "C": 3.0, "epsilon": 0.2}, IncrementalSVR(C=3.0, epsilon=0.2, gamma=0.4)),
    "oneclass": ({"task": "oneclass", "nu": 0.3}, IncrementalOneClassSVM(nu=0.3, gamma=0.4)),
}


@pytest.mark.parametrize("task", LEARNERS)
@pytest.mark.parametrize("folds", [None, 4])
def test_an_assessment_is_that_of_models_trained_without(
    task: str, folds: int | None, http: httpx.Client, make: Make
) -> None:
    spec, learner = LEARNERS[task]
    model = make(kernel={"name": "rbf", "gamma": 0.4}, **spec)
    X, labels = (np.array(part, dtype=float) for part in blobs(np.random.default_rng(9), 24))
    y = {"svc": labels, "svr": X[:, 0] ** 2, "oneclass": None}[task]
    add = {"X": X.tolist(), "keys": [f"k{i}" for i in range(24)]} | ({} if y is None else {"y": y.tolist()})
    http.post(f"/models/{model}/update", json={"add": add}).raise_for_status()
    body = {"method": "leave-one-out"} if folds is None else {"method": "k-fold", "folds": folds}
    asked = http.post(f"/models/{model}/assessment", json=body)
    assert (asked.status_code, asked.json()["state"]) == (202, "queued")
    assert asked.headers["location"] == f"/jobs/{asked.json()['id']}"
    job = awaited(http, asked.json()["id"])
    assert (job["state"], job["progress"], job["kind"], job["model"], job["version"]) == (
        ("done", 1.0, "assessment", model, 1)
    )
    result = job["result"]
    assert (result["keys"], result["n_examples"]) == (add["keys"], 24)
    parts = [[i] for i in range(24)] if folds is None else np.split(np.arange(24), folds)
    for out in parts:
        stay = np.setdiff1d(np.arange(24), out)
        retrained = learner.fit(X[stay], None if y is None else y[stay])
        wanted = retrained.predictor().decision_function(X[out])
        np.testing.assert_allclose(np.array(result["decisions"])[out], wanted, rtol=0, atol=1e-6)
    assert http.get(f"/models/{model}").json()["version"] == 1


def test_what_no_job_can_be_made_of(http: httpx.Client, make: Make) -> None:
    model = make()
    url = f"/models/{model}/assessment"
    empty = http.post(url, json={"method": "leave-one-out"})
    assert (empty.status_code, empty.json()["type"]) == (409, "urn:livesvm:problem:empty-model")
    http.post(f"/models/{model}/update", json={"add": {"X": [[1.0]], "y": [1]}}).raise_for_status()
    one = http.post(url, json={"method": "leave-one-out"})
    assert (one.status_code, one.json()["field"]) == (422, "folds")
    http.post(f"/models/{model}/update", json={"add": {"X": [[0.0]], "y": [-1]}}).raise_for_status()
    for body, field in (
        ({"method": "bootstrap"}, "method"),
        ({}, "method"),
        ({"method": "k-fold", "folds": 1}, "folds"),
        ({"method": "k-fold", "folds": 3}, "folds"),
        ({"method": "k-fold"}, "folds"),
        ({"method": "leave-one-out", "folds": 2}, "folds"),
    ):
        answer = http.post(url, json=body)
        assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert http.post("/models/nobody/assessment", json={"method": "leave-one-out"}).status_code == 404


@pytest.mark.parametrize("job", ["j-000000000000", "nothing", "..%2F..%2Fmodels", "j-00000000000g"])
def test_a_job_that_does_not_exist(job: str, http: httpx.Client) -> None:
    answers = [
        http.get(f"/jobs/{job}"),
        http.get(f"/jobs/{job}/events"),
        http.delete(f"/jobs/{job}"),
        http.post(f"/jobs/{job}/apply", json={}),
    ]
    assert {answer.status_code for answer in answers} == {404}


def test_an_assessment_cannot_be_applied_and_is_listed_without_its_result(http: httpx.Client, make: Make) -> None:
    model = make()
    X, y = blobs(np.random.default_rng(9), 10)
    http.post(f"/models/{model}/update", json={"add": {"X": X, "y": y}}).raise_for_status()
    job = http.post(f"/models/{model}/assessment", json={"method": "k-fold", "folds": 2}).json()["id"]
    awaited(http, job)
    refused = http.post(f"/jobs/{job}/apply", json={})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:livesvm:problem:not-applicable")
    listed = [found for found in http.get("/jobs").json()["jobs"] if found["id"] == job]
    assert [found["state"] for found in listed] == ["done"]
    assert "result" not in listed[0]
    assert http.delete(f"/jobs/{job}").json()["state"] == "done"  # it had ended: it is deleted, with its result
    assert http.get(f"/jobs/{job}").status_code == http.delete(f"/jobs/{job}").status_code == 404
    text = http.get("/metrics").text
    assert 'livesvm_jobs{state="running"} 0.0' in text
    assert 'livesvm_job_seconds_count{kind="assessment"}' in text
    http.delete(f"/models/{model}").raise_for_status()
    assert http.get(f"/jobs/{job}").status_code == 404


def test_jobs_after_a_kill(tmp_path: Path) -> None:
    process = ServiceProcess(tmp_path)
    with process, Client(process.url) as client:
        client.create_model("m", C=1.0)
        client.update("m", *blobs(np.random.default_rng(9), 2000))
        done = client.wait(client.assess("m", folds=2)["id"])
        cut = [client.assess("m")["id"] for _ in range(4)]
        given_up = client.assess("m")["id"]
        assert client.cancel(given_up)["state"] == "cancelled"
        process.kill()
    with process, Client(process.url) as client:
        assert client.job(done["id"]) == done
        assert client.job(given_up)["state"] == "cancelled"
        for id in cut[1:]:
            found = client.job(id)
            assert (found["state"], found["error"]["type"]) == ("failed", "urn:livesvm:problem:interrupted")
        with pytest.raises(ServiceProblem, match="under way"):
            client.wait(cut[-1])
        assert client.wait(client.assess("m", folds=2)["id"])["state"] == "done"
        assert client.cancel(cut[-1])["state"] == "failed"


def test_a_running_job_is_cancelled_over_rest(http: httpx.Client, make: Make) -> None:
    model = make()
    X, y = blobs(np.random.default_rng(9), 2000)
    http.post(f"/models/{model}/update", json={"add": {"X": X, "y": y}}).raise_for_status()
    job = http.post(f"/models/{model}/assessment", json={"method": "k-fold", "folds": 2000}).json()["id"]
    until(lambda: http.get(f"/jobs/{job}").json()["done"] > 0)
    http.delete(f"/jobs/{job}").raise_for_status()
    ended = awaited(http, job)
    assert (ended["state"], ended["total"]) == ("cancelled", 2000)
    assert 0 < ended["progress"] < 1
    assert "result" not in ended
