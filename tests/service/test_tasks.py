"""Every task over REST is the library's, across restarts, and takes no parameter or target of another."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client
from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVR
from livesvm.solvers.models.base import LiveEstimator
from tests.service.conftest import Make
from tests.service.process import ServiceProcess

SVR: list[dict[str, Any]] = [{"epsilon": 0.05}, {"loss": "absolute"}, {"loss": "pinball", "quantile": 0.8}]


def same(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def slide(client: Client, model: str, library: LiveEstimator, *, targets: bool) -> None:
    """Let both take the same ten batches, each within a window of 30."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        X = rng.normal(size=(8, 3))
        y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=8) if targets else None
        known = library.keys_ if hasattr(library, "keys_") else []
        library.update(add=(X, y), remove=known[: max(0, len(known) + 8 - 30)])
        answer = client.update(model, X, y)
        assert answer["n_examples"] == library.n_window_ <= 30


@pytest.mark.parametrize("parameters", SVR, ids=str)
def test_regression_equals_the_library(parameters: dict[str, Any], make: Make, service: ServiceProcess) -> None:
    kernel = {"name": "rbf", "gamma": 0.5}
    model = make(task="svr", C=20.0, kernel=kernel, window={"max_examples": 30}, **parameters)
    library = IncrementalSVR(C=20.0, gamma=0.5, **parameters)
    Z = np.random.default_rng(4).normal(size=(20, 3))
    with Client(service.url) as client:
        slide(client, model, library, targets=True)
        found = client.predict(model, Z)
        same(found["decision"], library.predict(Z))
        assert found["prediction"] == found["decision"]
        assert client.certificate(model)["relative_gap"] <= 1e-8
        described = client.model(model)
    assert {name: described[name] for name in parameters} == parameters
    assert (described["task"], described["C"], described["nu"]) == ("svr", 20.0, None)


def test_one_class_equals_the_library(make: Make, service: ServiceProcess) -> None:
    model = make(task="oneclass", nu=0.2, kernel={"name": "rbf", "gamma": 0.5}, window={"max_examples": 30})
    library = IncrementalOneClassSVM(nu=0.2, gamma=0.5)
    Z = np.vstack([np.random.default_rng(4).normal(size=(20, 3)), np.full((1, 3), 9.0)])
    with Client(service.url) as client:
        slide(client, model, library, targets=False)
        found = client.predict(model, Z)
        same(found["decision"], library.decision_function(Z))
        assert found["prediction"] == library.predict(Z).tolist()
        assert found["prediction"][-1] == -1
        on_margin = client.predict(model, library.window_X)
        assert on_margin["prediction"] == library.predict(library.window_X).tolist()
        assert client.certificate(model)["relative_gap"] <= 1e-8
        described = client.model(model)
    assert (described["nu"], described["C"], described["epsilon"]) == (0.2, None, None)


@pytest.mark.parametrize("spec", [{"task": "svr", "epsilon": 0.01}, {"task": "oneclass", "nu": 0.3}], ids=str)
@pytest.mark.alone
def test_a_task_survives_snapshots_kill_and_retries(spec: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 2))
    y = np.sin(X[:, 0]) if spec["task"] == "svr" else None
    process = ServiceProcess(tmp_path)
    with process, Client(process.url) as client:
        client.create_model("m", **spec)
        client.update("m", X[:20], None if y is None else y[:20])
        client.checkpoint("m")
        first = client.update("m", X[20:], None if y is None else y[20:], idempotency_key="once")
        before = client.predict("m", X)
        process.kill()
    with process, Client(process.url) as client:
        recovery = client.model("m")["recovery"]
        assert recovery == {"snapshot_version": 1, "replayed": 1, "damaged_snapshots": 0, "set_aside": 0}
        after = client.predict("m", X)
        np.testing.assert_allclose(after["decision"], before["decision"], rtol=0, atol=1e-9)
        again = client.update("m", X[20:], None if y is None else y[20:], idempotency_key="once")
        assert again == first
        assert client.model("m")["version"] == 2


def npz(**members: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **members)
    return stream.getvalue()


def test_one_class_examples_in_bulk_have_no_targets(http: httpx.Client, make: Make) -> None:
    model = make(task="oneclass")
    headers = {"content-type": "application/x-npz"}
    X = np.random.default_rng(6).normal(size=(12, 2))
    answer = http.post(f"/models/{model}/update", content=npz(X=X), headers=headers)
    assert (answer.status_code, answer.json()["n_examples"]) == (200, 12)
    refused = http.post(f"/models/{model}/update", content=npz(X=X, y=np.ones(12)), headers=headers)
    assert (refused.status_code, refused.json()["field"]) == (422, "y")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nu of svc": ({"nu": 0.5}, "nu"),
    "epsilon of svc": ({"task": "svc", "epsilon": 0.1}, "epsilon"),
    "loss of svc": ({"loss": "absolute"}, "loss"),
    "C of oneclass": ({"task": "oneclass", "C": 1.0}, "C"),
    "no offset": ({"task": "oneclass", "fit_intercept": False}, "fit_intercept"),
    "nu above 1": ({"task": "oneclass", "nu": 1.5}, "nu"),
    "nu zero": ({"task": "oneclass", "nu": 0}, "nu"),
    "negative epsilon": ({"task": "svr", "epsilon": -0.1}, "epsilon"),
    "epsilon of absolute": ({"task": "svr", "loss": "absolute", "epsilon": 0.1}, "epsilon"),
    "quantile of the tube": ({"task": "svr", "quantile": 0.5}, "quantile"),
    "quantile 1": ({"task": "svr", "loss": "pinball", "quantile": 1}, "quantile"),
    "unknown loss": ({"task": "svr", "loss": "squared"}, "loss"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_parameters_of_another_task_are_refused(case: str, http: httpx.Client) -> None:
    spec, field = REFUSED[case]
    answer = http.post("/models", json=spec)
    assert answer.status_code == 422, answer.text
    assert field in [fault["field"] for fault in answer.json()["errors"]]


@pytest.mark.parametrize(
    ("spec", "add", "row"),
    [
        ({"task": "svc"}, {"X": [[1.0]]}, None),
        ({"task": "svc"}, {"X": [[1.0], [2.0]], "y": [1, 0.5]}, 1),
        ({"task": "svr"}, {"X": [[1.0]], "y": None}, None),
        ({"task": "oneclass"}, {"X": [[1.0]], "y": [1]}, None),
    ],
)
def test_targets_of_another_task_are_refused(
    spec: dict[str, Any], add: dict[str, Any], row: int | None, http: httpx.Client, make: Make
) -> None:
    model = make(**spec)
    answer = http.post(f"/models/{model}/update", json={"add": add})
    assert (answer.status_code, answer.json()["field"], answer.json().get("row")) == (422, "y", row)
    assert http.get(f"/models/{model}").json()["version"] == 0
