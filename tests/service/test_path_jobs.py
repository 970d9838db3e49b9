"""The regularization path of a live model over REST: what it finds, shows, refuses, and moves the model to."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client, ServiceProblem
from livesvm.service.jobs.kinds import KINDS
from livesvm.service.jobs.regularization_path import move_to
from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.support.jobs_over_rest import awaited
from tests.support.path_jobs import GAMMA, RBF, data, learnt


def done(http: httpx.Client, model: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = http.post(f"/models/{model}/regularization-path", json=body)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/jobs/{answer.json()['id']}"
    job = awaited(http, answer.json()["id"])
    assert job["state"] == "done", job
    return job


def test_the_path_of_a_live_window_names_the_best_C_and_moves_the_model_there(http: httpx.Client, make: Make) -> None:
    model = make(kernel=RBF, C=2.0)
    X, y = data(60)
    V, v = data(80, seed=3)
    learnt(http, model, X, y)
    job = done(http, model, {"minimum": 0.01, "maximum": 100, "validation": {"X": V.tolist(), "y": v.tolist()}})
    assert job["asked"] == {"parameter": "C", "minimum": 0.01, "maximum": 100.0, "validation_rows": 80}
    path = IncrementalSVC(C=2.0, gamma=GAMMA).fit(X, y).regularization_path(0.01, 100)
    found, result = path.breakpoints, job["result"]
    np.testing.assert_allclose(result["breakpoints"]["value"], found.value, rtol=1e-9)
    assert result["breakpoints"]["key"] == [f"k{i}" for i in found.example]
    assert result["breakpoints"]["n_support"] == found.n_support.tolist()
    assert set(result["breakpoints"]["becomes"]) == {"free", "bound"}
    assert result["events"] == found.value.size > 20
    reported = result["coefficients"]
    assert (len(reported["value"]), reported["value"][0], reported["value"][-1]) == (202, 0.01, 100.0)
    for place in (0, 100, 201):
        beta = path.coefficients(reported["value"][place])
        indices = [int(key.removeprefix("k")) for key in reported["key"][place]]
        np.testing.assert_allclose(reported["coefficient"][place], beta[indices], rtol=1e-6, atol=1e-9)
        assert np.abs(np.delete(beta, indices)).max() <= np.abs(beta[indices]).min() + 1e-9
        assert reported["intercept"][place] == pytest.approx(path.intercept(reported["value"][place]), abs=1e-6)
    best = path.best(V, v)
    assert result["validation"]["best"] == pytest.approx(vars(best), rel=1e-6)
    assert http.get(f"/models/{model}").json()["version"] == 1
    headers = {"idempotency-key": "to the best"}
    applied = http.post(f"/jobs/{job['id']}/apply", json={}, headers=headers)
    assert applied.json()["version"] == 2
    again = http.post(f"/jobs/{job['id']}/apply", json={}, headers=headers)
    assert (again.json(), again.headers["idempotent-replayed"]) == (applied.json(), "true")
    assert http.get(f"/models/{model}").json()["C"] == pytest.approx(best.value)
    assert http.get(f"/models/{model}/certificate").json()["relative_gap"] <= 1e-9
    decided = http.post(f"/models/{model}/predict", json={"X": V.tolist()}).json()["prediction"]
    assert np.mean(np.array(decided) != v) == best.error
    chosen = http.post(f"/jobs/{job['id']}/apply", json={"choice": {"C": 0.5}})
    assert (chosen.status_code, http.get(f"/models/{model}").json()["C"]) == (200, 0.5)
    for choice, field in (({"C": 1000}, "choice.C"), ({"C": "1"}, "choice.C"), ({"nu": 0.1}, "choice.nu")):
        refused = http.post(f"/jobs/{job['id']}/apply", json={"choice": choice})
        assert (refused.status_code, refused.json()["field"]) == (422, field)


def test_a_path_that_rounding_ends_says_where_and_keeps_what_it_has(http: httpx.Client, make: Make) -> None:
    model = make(task="svr", kernel={"name": "linear"}, C=100.0, epsilon=0.0)
    X, _ = data(600)
    learnt(http, model, X, 1e-6 * X[:, 0])
    reported = http.get(f"/models/{model}").json()
    assert [one["name"] for one in reported["warnings"]] == ["gap_is_large"]
    result = done(http, model, {"minimum": 0.01, "maximum": 1000})["result"]
    assert result["minimum"] == 0.01 < result["maximum"] < 100
    (end,) = result["ended"]
    assert end["value"] == result["maximum"]
    assert "gap" in end["reason"]


def test_the_plot_is_svg_or_png(http: httpx.Client, make: Make) -> None:
    model = make(kernel=RBF)
    X, y = data(40)
    learnt(http, model, X, y)
    for body in ({}, {"validation": {"X": X.tolist(), "y": y.tolist()}}):
        job = done(http, model, body)["id"]
        svg = http.get(f"/jobs/{job}/plot.svg")
        assert (svg.status_code, svg.headers["content-type"]) == (200, "image/svg+xml")
        assert ElementTree.fromstring(svg.text).tag.endswith("svg")
        assert "support vectors" in svg.text
        assert ("share of wrong labels" in svg.text) == ("validation" in body)
        assert http.get(f"/jobs/{job}/plot.svg").content == svg.content
        png = http.get(f"/jobs/{job}/plot.png")
        assert (png.headers["content-type"], png.content[:8]) == ("image/png", b"\x89PNG\r\n\x1a\n")
    assert http.get(f"/jobs/{job}/plot.gif").status_code == 422
    assessed = http.post(f"/models/{model}/assessment", json={"method": "k-fold", "folds": 2}).json()["id"]
    awaited(http, assessed)
    refused = http.get(f"/jobs/{assessed}/plot.svg")
    assert (refused.status_code, refused.json()["type"]) == (404, "urn:livesvm:problem:no-plot")


def test_paths_of_the_other_tasks(http: httpx.Client, make: Make) -> None:
    X, _ = data(40)
    t = X[:, 0] ** 2
    validation = {"X": (X + 0.1).tolist(), "y": t.tolist()}
    svr = make(task="svr", epsilon=0.2, kernel=RBF, C=3.0)
    learnt(http, svr, X, t)
    trained = IncrementalSVR(C=3.0, epsilon=0.2, gamma=GAMMA).fit(X, t)
    for parameter, path in (
        ("C", trained.regularization_path(1e-3, 1e3)),
        ("epsilon", trained.epsilon_path(0.02, 2.0)),
    ):
        job = done(http, svr, {"parameter": parameter, "validation": validation})
        assert (job["result"]["minimum"], job["result"]["maximum"]) == pytest.approx((path.minimum, path.maximum))
        assert job["result"]["validation"]["best"] == pytest.approx(vars(path.best(X + 0.1, t)), rel=1e-6)
    refused = http.post(f"/jobs/{job['id']}/apply", json={})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:livesvm:problem:not-applicable")
    one = make(task="oneclass", nu=0.3, kernel=RBF)
    learnt(http, one, X, None)
    job = done(http, one, {"maximum": 0.8, "validation": {"X": (X + 0.1).tolist()}})
    best = IncrementalOneClassSVM(nu=0.3, gamma=GAMMA).fit(X).regularization_path(0.01, 0.8).best(X + 0.1)
    assert job["result"]["parameter"] == "nu"
    assert job["result"]["validation"]["best"]["error"] == best.error


def test_a_path_of_other_data_with_the_kernel_of_the_model(http: httpx.Client, make: Make) -> None:
    model = make(kernel={"name": "rbf", "gamma": "scale"})
    X, y = data(30)
    other, labels = data(50, seed=4)
    learnt(http, model, X, y)
    weights = np.linspace(0.5, 1.5, 50)
    given = {"X": other.tolist(), "y": labels.tolist(), "weights": weights.tolist()}
    result = done(http, model, {"data": given, "minimum": 0.1, "maximum": 10})["result"]
    gamma = float(IncrementalSVC().fit(X, y).gamma_)
    path = IncrementalSVC(gamma=gamma).fit(other, labels, sample_weight=weights).regularization_path(0.1, 10)
    np.testing.assert_allclose(result["breakpoints"]["value"], path.breakpoints.value, rtol=1e-9)
    assert (result["n_examples"], result["breakpoints"]["key"]) == (50, path.breakpoints.example.tolist())


def test_what_no_path_can_be_made_of(http: httpx.Client, make: Make) -> None:
    model = make()
    url = f"/models/{model}/regularization-path"
    empty = http.post(url, json={})
    assert (empty.status_code, empty.json()["type"]) == (409, "urn:livesvm:problem:empty-model")
    learnt(http, model, np.array([[0.0], [1.0]]), np.array([1.0, 1.0]))
    for body, field in (
        ({"parameter": "nu"}, "parameter"),
        ({"parameter": "epsilon"}, "parameter"),
        ({"minimum": 2, "maximum": 1}, "maximum"),
        ({"minimum": 2000}, "maximum"),
        ({"minimum": 0}, "minimum"),
        ({"validation": {"X": [[1.0]]}}, "validation.y"),
        ({"validation": {"X": [[1.0]], "y": [3]}}, "validation.y"),
        ({"validation": {"X": [[1.0, 2.0]], "y": [1]}}, "validation.X"),
        ({"validation": {"X": [[1.0]], "y": [1, 1]}}, "validation.y"),
        ({"data": {"X": [[1.0], [2.0]], "y": [1, -1], "weights": [1.0]}}, "data.weights"),
        ({"data": {"X": [[1.0], [2.0]], "y": [1, -1], "weights": [0.0, 0.0]}}, "data.weights"),
        ({"data": {"X": [[1.0], [2.0]], "y": [1, 1]}}, "data.y"),
        (
            {"data": {"X": [[1.0, 2.0], [2.0, 1.0]], "y": [1, -1]}, "validation": {"X": [[1.0]], "y": [1]}},
            "validation.X",
        ),
    ):
        answer = http.post(url, json=body)
        assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    one = make(task="oneclass")
    learnt(http, one, np.array([[0.0], [1.0]]), None)
    for body, field in (({"maximum": 2}, "maximum"), ({"validation": {"X": [[1.0]], "y": [0]}}, "validation.y")):
        answer = http.post(f"/models/{one}/regularization-path", json=body)
        assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    single = awaited(http, http.post(url, json={}).json()["id"])
    assert (single["state"], single["error"]["status"]) == ("failed", 422)
    assert "one class" in single["error"]["detail"]


def test_a_path_without_validation_data_wants_a_choice() -> None:
    apply = KINDS["regularization-path"].apply
    assert apply is move_to
    update = move_to({"parameter": "C", "minimum": 1.0, "maximum": 3.0}, {"C": 2})
    assert update.edits is not None
    assert update.edits.C == 2.0


def test_a_model_is_updated_while_its_path_is_walked_and_a_cancelled_job_leaves_no_trace(
    service: ServiceProcess,
) -> None:
    with Client(service.url) as client:
        client.create_model("walked", kernel={"name": "rbf", "gamma": 2.0})
        try:
            X, y = data(1500)
            client.update("walked", X, y)
            before = client.predict("walked", X[:20])
            job = client.regularization_path("walked", 1e-4, 1e6)["id"]
            assert client.cancel(job)["state"] in ("running", "cancelled")
            ended = client.wait(job)
            assert ended["state"] == "cancelled"
            assert "result" not in ended
            assert client.predict("walked", X[:20]) == before
            with pytest.raises(ServiceProblem, match="has no result"):
                client.plot(job)
            job = client.regularization_path("walked", 0.1, 10.0, validation=(X[:100], y[:100]))["id"]
            versions = [client.update("walked", X[:1] + step, y[:1])["version"] for step in range(5)]
            assert versions == [2, 3, 4, 5, 6]
            ended = client.wait(job)
            assert ended["result"]["n_examples"] == 1500 + ended["version"] - 1
            assert client.plot(job).startswith(b"<?xml")
            assert client.apply(job)["version"] == 7
        finally:
            client.delete_model("walked")
