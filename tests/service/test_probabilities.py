"""Probabilities over REST: those of the library, of the window as it is now, before and after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from scipy.sparse import csr_array

from livesvm.service.client import Client, ServiceProblem
from livesvm.solvers import IncrementalSVC
from tests.service.conftest import Make
from tests.service.process import ServiceProcess

RNG = np.random.default_rng(5)
CENTRES = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
PLACES = RNG.permutation(np.arange(60) % 3)
X = CENTRES[PLACES] + RNG.normal(size=(60, 2))
PROBE = RNG.normal(size=(12, 2)) + 0.7
LABELS: dict[str, Any] = {
    "signs": np.where(PLACES == 0, -1, 1),
    "words": np.array(["no", "yes", "yes"])[PLACES],
    "several": np.array(["ape", "bee", "cat"])[PLACES],
}


@pytest.mark.parametrize("method", [True, "isotonic"])
@pytest.mark.parametrize("labels", LABELS)
def test_they_are_those_of_the_window_as_it_is(
    labels: str, method: Any, make: Make, service: ServiceProcess, http: httpx.Client
) -> None:
    y = LABELS[labels]
    shape = "ovo" if method == "isotonic" else "ovr"
    model = make(C=2.0, kernel={"gamma": 0.5}, probability=method, decision_function_shape=shape)
    library = IncrementalSVC(C=2.0, gamma=0.5, probability=method).fit(X[:50], y[:50])
    with Client(service.url) as client:
        client.update(model, X[:50], y[:50])
        plain = client.predict(model, PROBE)
        found = client.predict(model, PROBE, probability=True)
        np.testing.assert_allclose(found["probability"], library.predict_proba(PROBE), rtol=0, atol=1e-5)
        assert found["classes"] == library.classes_.tolist()
        assert found["decision"] == plain["decision"]
        assert client.predict(model, PROBE) == plain
        client.update(model, X[50:], y[50:], remove={"oldest": 10})
        library.update(add=(X[50:], y[50:]), remove=list(range(10)))
    body = {"X": PROBE.tolist(), "probability": True}
    answer = http.post(f"/models/{model}/predict", json=body).json()
    np.testing.assert_allclose(answer["probability"], library.predict_proba(PROBE), rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.sum(answer["probability"], axis=1), 1.0)
    assert "probability" not in http.post(f"/models/{model}/predict", json=body | {"probability": False}).json()
    assert http.get(f"/models/{model}").json()["probability"] == method


def test_they_are_not_turned_around_where_classes_are_balanced(make: Make, service: ServiceProcess) -> None:
    for labels, counts in (("signs", [0, 1]), ("several", [0, 1, 2])):
        rows = np.concatenate([np.flatnonzero(place == PLACES)[:15] for place in counts])
        model = make(C=0.01, kernel={"gamma": 0.5}, probability=True)
        with Client(service.url) as client:
            client.update(model, X[rows], LABELS[labels][rows])
            found = client.predict(model, X[rows], probability=True)
            likely = np.array(found["classes"])[np.argmax(found["probability"], axis=1)]
            assert np.mean(likely == LABELS[labels][rows]) > 0.75
            assert np.mean(likely == np.array(found["prediction"])) > 0.85
            assert client.drift(model)["present"] < 0.5


def test_sparse_rows_have_them_too(make: Make, service: ServiceProcess) -> None:
    model = make(C=2.0, kernel={"gamma": 0.5}, probability=True)
    with Client(service.url) as client:
        client.update(model, csr_array(X[:50]), LABELS["several"][:50])
        dense = client.predict(model, PROBE, probability=True)
        assert client.predict(model, csr_array(PROBE), probability=True)["probability"] == dense["probability"]


def test_they_come_back_after_a_kill(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as process:
        with Client(process.url) as client:
            client.create_model("m", C=1.0, probability=True)
            client.update("m", X, LABELS["several"])
            before = client.predict("m", PROBE, probability=True)
        process.kill()
        process.start()
        with Client(process.url) as client:
            again = client.predict("m", PROBE, probability=True)
        np.testing.assert_allclose(again["probability"], before["probability"], rtol=0, atol=1e-6)


def test_a_model_without_says_so(make: Make, service: ServiceProcess, http: httpx.Client) -> None:
    with Client(service.url) as client:
        without, empty, few = make(), make(probability=True), make(probability=True)
        client.update(without, X[:4], [1, -1, 1, -1])
        client.update(few, X[:4], [1, -1, 1, 1])
        for model, field in ((without, "probability"), (few, "window")):
            with pytest.raises(ServiceProblem) as refused:
                client.predict(model, PROBE, probability=True)
            assert (refused.value.status, refused.value.document["field"]) == (422, field)
        with pytest.raises(ServiceProblem, match="knows no example yet"):
            client.predict(empty, PROBE, probability=True)
    assert http.post("/models", json={"task": "svr", "probability": True}).json()["field"] == "probability"
