"""Tuning over REST: what the library finds, as a picture, applied as one update; cancelled; refused by name."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client, ServiceProblem
from livesvm.service.jobs.tuning import KIND
from livesvm.solvers import IncrementalSVC, IncrementalSVR, k_fold, tune
from livesvm.solvers.errors import InvalidInput
from tests.service.conftest import Make
from tests.service.process import ServiceProcess

RNG = np.random.default_rng(3)
X = RNG.normal(size=(48, 2)) * [1.0, 30.0]
PLACES = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
GAMMAS = [0.1, 0.5]
CASES: dict[str, tuple[dict[str, Any], Any, Any, dict[str, Any]]] = {
    "words": ({}, np.array(["no", "yes", "yes"])[PLACES], IncrementalSVC(), {"judge": "k-fold", "folds": 3}),
    "several": ({}, PLACES, IncrementalSVC(), {"judge": "k-fold", "folds": 2}),
    "leave-one-out": ({}, np.where(PLACES > 0, 1, -1), IncrementalSVC(), {"judge": "leave-one-out"}),
    "tube": (
        {"task": "svr"},
        X[:, 0] + np.abs(X[:, 1]) / 30,
        IncrementalSVR(),
        {"judge": "rolling-origin", "folds": 2, "epsilon": (0.01, 1.0)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_finds_what_the_library_does_and_is_applied(
    case: str, make: Make, service: ServiceProcess, http: httpx.Client
) -> None:
    spec, y, library, how = CASES[case]
    model = make(scale="standard", kernel={"gamma": "scale"}, **spec)  # it does not tune itself
    library.scale = "standard"
    library.fit(X, y)
    asked = {**how, "judge": how["judge"].replace("-", "_")}
    expected = tune(library, gammas=GAMMAS, C=(0.1, 100.0), **asked)
    with Client(service.url) as client:
        client.update(model, X, y)
        job = client.wait(client.tune_model(model, gammas=GAMMAS, C=(0.1, 100.0), **how)["id"])
        found = job["result"]
        assert found["error"] == pytest.approx(expected.error)
        assert found["gammas"] == expected.gammas.tolist()
        assert np.shape(found["errors"]) == expected.errors.shape
        assert client.plot(job["id"]).startswith(b"<?xml")
        with pytest.raises(ServiceProblem) as refused:
            client.apply(job["id"], colour=1.0)
        assert refused.value.document["field"] == "choice.colour"
        applied = client.apply(job["id"])
        assert (applied["version"], applied["resolved"]) == (2, True)
        described = client.model(model)
        assert described["gamma"] == pytest.approx(expected.parameters["gamma"])
        assert described["C"] == pytest.approx(expected.parameters["C"])
        assert described["epsilon"] == (pytest.approx(expected.parameters["epsilon"]) if case == "tube" else None)
        assert client.apply(job["id"], C=2.0)["version"] == 3
        assert client.model(model)["C"] == 2.0
    assert http.get("/jobs/" + job["id"]).json()["kind"] == "tuning"


def test_late_examples_are_judged_in_their_place(make: Make, service: ServiceProcess) -> None:
    late, y = RNG.permutation(48), np.where(PLACES > 0, 1, -1)
    how: dict[str, Any] = {"gammas": GAMMAS, "C": (0.1, 100.0), "folds": 3}
    expected = tune(IncrementalSVC().fit(X, y), judge="rolling_origin", **how)
    folds = k_fold(IncrementalSVC(gamma=0.5).fit(X, y), 4).decisions
    with Client(service.url) as client:
        model = make(kernel={"gamma": 0.5})
        for part in np.array_split(late, 3):
            client.update(model, X[part], y[part], keys=[f"{i}" for i in part], times=1e9 + 60.0 * part)
        found = client.wait(client.tune_model(model, judge="rolling-origin", **how)["id"])["result"]
        assert found["error"] == pytest.approx(expected.error, abs=1e-12)
        np.testing.assert_allclose(np.array(found["errors"], float), expected.errors, atol=1e-12)
        assessed = client.wait(client.assess(model, folds=4)["id"])["result"]
        assert assessed["keys"] == [f"{i}" for i in range(48)]
        np.testing.assert_allclose(assessed["decisions"], folds, atol=1e-7)


BAD: dict[str, tuple[dict[str, Any], dict[str, Any], int, str | None]] = {
    "one class": ({}, {}, 422, "window"),
    "range": ({}, {"C": [2.0, 1.0]}, 422, "C"),
    "no gamma": ({}, {"gammas": []}, 422, "gammas"),
    "judge": ({}, {"judge": "nobody"}, 422, "judge"),
    "folds": ({}, {"folds": 7}, 422, "folds"),
    "epsilon of svc": ({}, {"epsilon": [0.1, 1.0]}, 422, "epsilon"),
    "one-class": ({"task": "oneclass"}, {}, 409, None),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_tuned_is_refused_by_name(case: str, make: Make, http: httpx.Client) -> None:
    spec, body, status, field = BAD[case]
    model = make(**spec)
    y = None if spec else [1] * 12 if case == "one class" else [1, -1] * 6
    add = {"X": X[:12].tolist()} | ({} if y is None else {"y": y})
    http.post(f"/models/{model}/update", json={"add": add}).raise_for_status()
    answer = http.post(f"/models/{model}/tune", json=body)
    assert (answer.status_code, answer.json().get("field")) == (status, field), answer.text


def test_one_that_is_cancelled_changes_nothing(make: Make, service: ServiceProcess) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 8))
    model = make()
    with Client(service.url) as client:
        client.update(model, rows, rng.choice([-1, 1], 1500))
        job = client.tune_model(model, judge="leave-one-out")["id"]  # minutes of work
        while client.job(job)["state"] == "queued":
            pass
        client.cancel(job)
        assert client.wait(job)["state"] == "cancelled"
        assert client.model(model)["version"] == 1


def test_a_choice_has_to_be_a_number_above_zero() -> None:
    assert KIND.apply is not None
    with pytest.raises(InvalidInput, match="above 0"):
        KIND.apply({"parameters": {"C": 1.0}}, {"C": -1.0})
