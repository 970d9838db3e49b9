"""No number, in any field of any request, makes the service fail: it is used, or refused with the field's name."""

from __future__ import annotations

import time
from typing import Any

import httpx
import numpy as np
import pytest

from tests.service.conftest import Make
from tests.service.process import blobs

NUMBERS = ["NaN", "Infinity", "-Infinity", "-0.0", "5e-324", "-5e-324", "1e-308", "1e-100", "1e308", "-1e308", "1e7"]
NUMBERS += ["0", "-1", "true", "null", "9007199254740993", "1" + "0" * 399]
SPECS = {
    "C": '{"C":%s}',
    "gamma": '{"kernel":{"gamma":%s}}',
    "degree": '{"kernel":{"name":"poly","degree":%s,"coef0":1}}',
    "coef0": '{"kernel":{"name":"poly","coef0":%s}}',
    "epsilon": '{"task":"svr","epsilon":%s}',
    "quantile": '{"task":"svr","loss":"pinball","quantile":%s}',
    "nu": '{"task":"oneclass","nu":%s}',
    "n_features": '{"n_features":%s}',
    "max_examples": '{"window":{"max_examples":%s}}',
    "max_age_seconds": '{"window":{"max_age_seconds":%s}}',
}
DATA = '{"data":{"X":[[1,2,3],[2,1,3],[1,1,%s]],"y":[1,-1,1],"weights":[1,1,%s]}}'
JOBS = {
    "minimum": ("regularization-path", '{"minimum":%s,"maximum":1e8}'),
    "maximum": ("regularization-path", '{"maximum":%s}'),
    "data.X": ("regularization-path", DATA.replace("%s", "@", 1).replace("%s", "1").replace("@", "%s")),
    "data.weights": ("regularization-path", DATA.replace("%s", "1", 1)),
    "validation.X": ("regularization-path", '{"validation":{"X":[[1,2,%s]],"y":[1]}}'),
    "theta": ("outlier-path", '{"theta":%s}'),
    "s": ("outlier-path", '{"parameter":"s","s":%s}'),
    "hold_out": ("outlier-path", '{"hold_out":%s}'),
    "folds": ("assessment", '{"method":"k-fold","folds":%s}'),
}
HEADERS = {"content-type": "application/json"}
SECONDS = 30.0


def examples(task: str = "svc") -> dict[str, Any]:
    X, y = blobs(np.random.default_rng(0), 20)
    return {"add": {"X": X} if task == "oneclass" else {"X": X, "y": y}}


def verdict(answer: httpx.Response, name: str) -> int:
    """Return the status; of a refusal, with the field at fault."""
    assert answer.status_code < 500, answer.text
    if answer.status_code == 422:
        assert name.rpartition(".")[2] in (answer.json()["field"], *answer.json()["field"].split(".")), answer.text
    return answer.status_code


@pytest.mark.parametrize("field", SPECS)
def test_of_a_model(field: str, http: httpx.Client) -> None:
    for number in NUMBERS:
        answer = http.post("/models", content=SPECS[field] % number, headers=HEADERS)
        if verdict(answer, field) != 201:
            continue
        model, task = answer.json()["id"], answer.json()["task"]
        for call, body in (("update", examples(task)), ("predict", {"X": examples()["add"]["X"]})):
            assert http.post(f"/models/{model}/{call}", json=body).status_code < 500, number
        assert http.get(f"/models/{model}/certificate").status_code < 500, number
        http.delete(f"/models/{model}")


@pytest.mark.parametrize("field", JOBS)
def test_of_a_job(field: str, http: httpx.Client, make: Make) -> None:
    model = make()
    assert http.post(f"/models/{model}/update", json=examples()).status_code == 200
    path, body = JOBS[field]
    for number in NUMBERS:
        answer = http.post(f"/models/{model}/{path}", content=body % number, headers=HEADERS)
        if verdict(answer, field) != 202:
            continue
        end, job = time.monotonic() + SECONDS, answer.json()
        while job["state"] in ("queued", "running"):
            assert time.monotonic() < end, number
            time.sleep(0.01)
            job = http.get(f"/jobs/{job['id']}").json()
        assert job["state"] == "done" or job["error"]["status"] < 500, (number, job)
