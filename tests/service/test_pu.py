"""Positive-unlabelled models over REST: what other tasks can do, they can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner

from livesvm.service.cli.app import app
from livesvm.service.client import Client
from livesvm.solvers import IncrementalPUClassifier
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.support.jobs_over_rest import awaited
from tests.support.waiting import until

KERNEL = {"name": "rbf", "gamma": 0.5}
RNG = np.random.default_rng(7)
X = RNG.normal(size=(60, 3)) + 0.8 * np.repeat([[1.0], [-1.0]], 30, axis=0)
S = (np.arange(60) < 12).astype(int)
Z = RNG.normal(size=(20, 3))


def test_a_model_equals_the_library(make: Make, service: ServiceProcess) -> None:
    model = make(task="pu", prior=0.4, lam=0.02, kernel=KERNEL)
    library = IncrementalPUClassifier(prior=0.4, lam=0.02, gamma=0.5).fit(X, S)
    with Client(service.url) as client, service.http() as http:
        client.update(model, X, S, keys=list(range(60)))
        changes = {"relabel": {"keys": [20, 21, 50], "y": [1, 1, -1]}, "remove": {"keys": [0, 40]}, "C": 40.0}
        http.post(f"/models/{model}/update", json=changes).raise_for_status()
        library.update(relabel={20: 1, 21: 1, 50: -1}, remove=[0, 40], C=40.0)
        found = client.predict(model, Z)
        np.testing.assert_allclose(found["decision"], library.decision_function(Z), rtol=1e-9, atol=1e-9)
        assert found["prediction"] == library.predict(Z).tolist()
        assert set(found["prediction"]) == {0, 1}
        assert client.certificate(model)["relative_gap"] <= 1e-9
        described = client.model(model)
    assert (described["prior"], described["lam"], described["C"]) == (0.4, 0.0125, 40.0)


def test_what_it_cannot_learn_is_said(make: Make, http: httpx.Client) -> None:
    for prior in (0, 1, -0.1, "half"):
        assert http.post("/models", json={"task": "pu", "prior": prior}).status_code == 422
    assert http.post("/models", json={"task": "svc", "prior": 0.5}).status_code == 422
    model = make(task="pu", prior=0.4, lam=0.02, kernel=KERNEL)

    def update(**body: object) -> httpx.Response:
        return http.post(f"/models/{model}/update", json=body)

    assert "1 (positive), 0 (unlabelled) or -1" in update(add={"X": X[:2].tolist(), "y": [1, -2]}).text
    update(add={"X": X.tolist(), "y": S.tolist(), "keys": list(range(60))}).raise_for_status()
    version = http.get(f"/models/{model}").json()["version"]
    assert update(remove={"keys": list(range(12))}).status_code == 422
    assert http.get(f"/models/{model}").json()["version"] == version
    assert http.post(f"/models/{model}/outlier-path", json={}).status_code == 422


def finished(http: httpx.Client, asked: httpx.Response) -> dict[str, object]:
    job = awaited(http, asked.raise_for_status().json()["id"])
    assert job["state"] == "done", job
    result: dict[str, object] = job["result"]
    return result


def test_its_jobs(make: Make, http: httpx.Client) -> None:
    model = make(task="pu", prior=0.4, lam=0.02, kernel=KERNEL)
    body = {"add": {"X": X.tolist(), "y": S.tolist(), "keys": list(range(60))}}
    http.post(f"/models/{model}/update", json=body).raise_for_status()
    assessed = finished(http, http.post(f"/models/{model}/assessment", json={"method": "leave-one-out"}))
    assert assessed["n_examples"] == 60
    asked = {"minimum": 5.0, "maximum": 200.0, "validation": {"X": Z.tolist(), "y": [0, 1] * 10}}
    answer = http.post(f"/models/{model}/regularization-path", json=asked)
    path = finished(http, answer)
    assert (path["parameter"], path["minimum"], path["maximum"]) == ("C", pytest.approx(5.0), pytest.approx(200.0))
    applied = http.post(f"/jobs/{answer.json()['id']}/apply", json={"choice": {"C": 50.0}})
    applied.raise_for_status()
    assert http.get(f"/models/{model}").json()["C"] == 50.0
    assert http.get(f"/models/{model}/certificate").json()["relative_gap"] <= 1e-9
    relabel = {"relabel": {"keys": [50, 51], "y": [-1, -1]}}
    http.post(f"/models/{model}/update", json=relabel).raise_for_status()
    shown = http.post(f"/models/{model}/predict", json={"X": Z.tolist()}).json()["decision"]
    for request in ({"hold_out": 0.2}, {"solver": "batch"}):
        found: Any = finished(http, http.post(f"/models/{model}/retrain", json=request))
        assert found["relative_gap"] <= 1e-6
        assert http.get(f"/models/{model}/certificate").json()["relative_gap"] <= 1e-9
        decisions = http.post(f"/models/{model}/predict", json={"X": Z.tolist()}).json()["decision"]
        np.testing.assert_allclose(decisions, shown, atol=1e-5)


def test_the_window_and_its_history(make: Make, service: ServiceProcess) -> None:
    model = make(task="pu", prior=0.4, lam=0.02, kernel=KERNEL)
    with Client(service.url) as client:
        client.update(model, X[:50], S[:50], keys=list(range(50)))
        first = client.predict(model, Z)
        client.update(model, X[50:], S[50:], relabel={30: 1, 31: -1}, reweight={3: 2.0, 40: 0.5})
        client.update(model, decay=0.9)
        page = client.examples(model)
        assert [one["key"] for one in page["examples"]] == list(range(60))
        assert [one["y"] for one in page["examples"]] == [1 if k < 12 or k == 30 else -(k == 31) for k in range(60)]
        assert client.checkpoint(model)["version"] == 3
        assert client.certificate(model)["relative_gap"] <= 1e-9
        assert client.versions(model)["oldest"] <= 1
        assert client.restore(model, 1)["version"] == 4
        np.testing.assert_allclose(client.predict(model, Z)["decision"], first["decision"], rtol=1e-8, atol=1e-8)
        reported = client.erase(model, [0, 20])
        assert reported["removed"] == 2
        rest = np.delete(np.arange(50), [0, 20])
        library = IncrementalPUClassifier(prior=0.4, lam=0.02, gamma=0.5).fit(X[rest], S[rest])
        found = client.predict(model, Z)["decision"]
        np.testing.assert_allclose(found, library.decision_function(Z), rtol=1e-7, atol=1e-7)


def test_a_job_that_means_nothing_for_it_is_refused_by_name(make: Make, http: httpx.Client) -> None:
    model = make(task="pu", prior=0.4, lam=0.02, kernel=KERNEL)
    mixed = np.arange(60) * 7 % 60  # folds are of consecutive examples, and each needs positives outside
    body = {"add": {"X": X[mixed].tolist(), "y": S[mixed].tolist()}}
    http.post(f"/models/{model}/update", json=body).raise_for_status()
    folds = finished(http, http.post(f"/models/{model}/assessment", json={"method": "k-fold", "folds": 3}))
    assert folds["n_examples"] == 60
    for job, asked, reason in (
        ("outlier-path", {}, "robust"),
        ("retrain", {"solver": "fw"}, "these are: auto, usmo, batch"),
        ("retrain", {"dataset": "flows"}, "one of task pu"),
        ("regularization-path", {"parameter": "epsilon"}, "epsilon"),
    ):
        refused = http.post(f"/models/{model}/{job}", json=asked)
        assert refused.status_code == 422, refused.text
        assert reason in refused.text, refused.text
    path = finished(http, http.post(f"/models/{model}/regularization-path", json={"minimum": 10, "maximum": 20}))
    assert (path["parameter"], path["minimum"]) == ("C", pytest.approx(10.0))
    found = http.post(f"/models/{model}/retrain", json={"C": 50.0, "kernel": {"name": "linear"}})
    assert finished(http, found)["solver"] == "usmo"
    assert http.post(f"/jobs/{found.json()['id']}/apply", json={}).status_code == 200
    described = http.get(f"/models/{model}").json()
    assert (described["C"], described["kernel"]["name"]) == (50.0, "linear")
    assert http.get(f"/models/{model}/certificate").json()["relative_gap"] <= 1e-9


@pytest.mark.parametrize("prior", [1e-6, 0.4, 1.0 - 1e-6])
def test_any_prior_and_unlabelled_that_are_all_the_same_have_an_optimum(
    make: Make, service: ServiceProcess, prior: float
) -> None:
    model = make(task="pu", prior=prior, lam=0.02, kernel=KERNEL)
    with Client(service.url) as client:
        client.update(model, np.vstack([X[:12], np.tile(X[40], (20, 1))]), S[:32])
        assert client.certificate(model)["relative_gap"] <= 1e-9
        assert client.predict(model, Z[:1])["prediction"][0] in (0, 1)


def test_a_prior_that_is_left_out_is_estimated_and_reported(make: Make, service: ServiceProcess) -> None:
    model, said = make(task="pu", lam=0.02, kernel=KERNEL), make(task="pu", prior="estimate", lam=0.02, kernel=KERNEL)
    library = IncrementalPUClassifier(lam=0.02, gamma=0.5).fit(X, S)
    found = library.prior_estimate_
    assert found is not None
    with Client(service.url) as client, service.http() as http:
        assert (client.model(model)["prior"], client.model(model)["prior_estimate"]) == ("estimate", None)
        for one in (model, said):
            client.update(one, X, S, keys=list(range(60)))
            described = client.model(one)
            assert described["prior"] == found.prior
            assert described["prior_estimate"] == pytest.approx(vars(found))
            assert client.certificate(one)["relative_gap"] <= 1e-9
        np.testing.assert_allclose(client.predict(model, Z)["decision"], library.decision_function(Z), atol=1e-8)
        client.update(model, Z, np.zeros(20, int))
        assert client.model(model)["prior"] == found.prior
        client.update(model, change={"prior": "estimate"})
        library.update(add=(Z, np.zeros(20)))
        library.change(prior=None)
        assert client.model(model)["prior"] == library.prior_
        client.update(model, change={"prior": 0.3})
        assert (client.model(model)["prior"], client.model(model)["prior_estimate"]) == (0.3, None)
        retrained = http.post(f"/models/{said}/retrain", json={"solver": "usmo"})
        finished(http, retrained)
        http.post(f"/jobs/{retrained.json()['id']}/apply", json={}).raise_for_status()
        assert client.model(said)["prior_estimate"] == pytest.approx(vars(found))
        client.erase(said, [59])
        assert client.model(said)["prior_estimate"] != pytest.approx(vars(found))
        assert client.certificate(said)["relative_gap"] <= 1e-9


def test_parameters_and_scale_change_while_it_lives(make: Make, service: ServiceProcess) -> None:
    model = make(task="pu", prior=0.4, lam=0.02, scale="standard")
    wide = np.array([1.0, 100.0, 0.01])
    with Client(service.url) as client, service.http() as http:
        client.update(model, X * wide, S)
        plain = IncrementalPUClassifier(0.4, 0.02, scale="standard").fit(X * wide, S)
        np.testing.assert_allclose(client.predict(model, Z * wide)["decision"], plain.decision_function(Z * wide))
        client.update(model, X[:20] * wide + 1.0, np.zeros(20, int))
        client.update(model, rescale=True)
        plain.update(add=(X[:20] * wide + 1.0, np.zeros(20)))
        plain.rescale()
        client.update(model, change={"lam": 0.05, "prior": 0.3})
        client.update(model, change={"kernel": {"name": "linear"}, "scale": "minmax"})
        plain.change(lam=0.05, prior=0.3, kernel="linear", scale="minmax")
        found = client.predict(model, Z * wide)["decision"]
        np.testing.assert_allclose(found, plain.decision_function(Z * wide), atol=1e-7)
        retrained = http.post(f"/models/{model}/retrain", json={"solver": "usmo"})
        finished(http, retrained)
        http.post(f"/jobs/{retrained.json()['id']}/apply", json={}).raise_for_status()
        np.testing.assert_allclose(client.predict(model, Z * wide)["decision"], found, atol=1e-4)
        described = client.model(model)
        assert [described[name] for name in ("prior", "lam", "C", "scale")] == [0.3, 0.05, 10.0, "minmax"]
        refused = http.post(f"/models/{model}/update", json={"change": {"nu": 0.5}})
        assert "is no parameter of pu" in refused.text


def test_positives_alone_wait_for_unlabelled_ones(tmp_path: Path) -> None:
    library = IncrementalPUClassifier()
    for part in (slice(0, 12), slice(12, 40), slice(40, 60)):
        library.update(add=(X[part], S[part]))
    library.change(lam=None, prior=None)
    with ServiceProcess(tmp_path) as service:
        with Client(service.url) as client, service.http() as http:
            assert client.create_model("m", task="pu")["lam"] == "auto"
            waiting = client.update("m", X[:12], S[:12], keys=list(range(12)))
            assert [one["name"] for one in waiting["warnings"]] == ["waits"]
            refused = http.post("/models/m/predict", json={"X": Z.tolist()})
            assert refused.status_code == 409
            assert "the model waits for unlabelled examples: it has 0" in refused.text
            described = client.model("m")
            assert [described[name] for name in ("n_examples", "lam", "prior", "C")] == [12, "auto", "estimate", None]
            assert described["warnings"] == waiting["warnings"]
            client.update("m", X[12:40], S[12:40], keys=list(range(12, 40)))
            client.update("m", X[40:], S[40:], keys=list(range(40, 60)))
            until(lambda: client.model("m")["tuning"]["chosen"])  # lam, by 40 examples or more
            before, found = client.model("m"), client.predict("m", Z)
        service.kill()
        service.start()
        with Client(service.url) as client:
            after = client.model("m")
            for name in ("lam", "prior", "gamma", "C", "n_examples", "version"):
                assert after[name] == before[name]
            assert "warnings" not in after or "waits" not in str(after["warnings"])
            np.testing.assert_allclose(client.predict("m", Z)["decision"], found["decision"], atol=1e-7)
            client.update("m", change={"lam": "auto", "prior": "estimate"})
            assert (client.model("m")["lam"], client.model("m")["prior"]) == (library.lam_, library.prior_)
            client.update("m", change={"lam": 0.1, "prior": 0.01})
            assert [one["name"] for one in client.model("m")["warnings"]] == ["nothing_is_flagged"]
            client.update("m", C=50.0)
            assert (client.model("m")["lam"], client.model("m")["C"]) == (0.01, 50.0)


def test_a_threshold_is_a_query_of_predict(make: Make, service: ServiceProcess, tmp_path: Path) -> None:
    model, plain = make(task="pu", prior=0.4, lam=0.02, kernel=KERNEL), make()
    library = IncrementalPUClassifier(prior=0.4, lam=0.02, gamma=0.5).fit(X, S)
    np.savez(tmp_path / "rows.npz", X=Z)
    asks: list[dict[str, Any]] = [{"alerts": 0.1}, {"precision": 0.7}]
    with Client(service.url) as client, service.http() as http:
        client.update(model, X, S, keys=list(range(60)))
        for asked in asks:
            cut = library.threshold(**asked)
            for rows in (Z, csr_array(Z)):
                found = client.predict(model, rows, **asked)
                assert found["threshold"] == pytest.approx(cut._asdict(), abs=1e-6)
                assert found["prediction"] == [int(f > found["threshold"]["value"]) for f in found["decision"]]
            reported = http.post(f"/models/{model}/predict", params=asked, json={"X": Z.tolist()}).json()
            assert reported["prediction"] == found["prediction"] == library.predict(Z, **asked).tolist()
        assert "threshold" not in client.predict(model, Z)
        client.update(model, Z, np.zeros(20, int))
        library.update(add=(Z, np.zeros(20)))
        assert client.predict(model, Z, alerts=0.1)["threshold"] == pytest.approx(
            library.threshold(0.1)._asdict(), abs=1e-6
        )
        line = ["predict", model, str(tmp_path / "rows.npz"), "--alerts", "0.1", "--url", service.url, "--json"]
        done = CliRunner().invoke(app, line)
        assert json.loads(done.output)["threshold"] == client.predict(model, Z, alerts=0.1)["threshold"]
        for params, where, reason in (
            ({"alerts": 0.1, "precision": 0.5}, model, "give one of"),
            ({"alerts": 1.5}, model, "less than 1"),
            ({"precision": 0.5}, plain, "of task svc"),
        ):
            refused = http.post(f"/models/{where}/predict", params=params, json={"X": Z.tolist()})
            assert refused.status_code == 422, refused.text
            assert reason in refused.text


def test_it_is_tuned(make: Make, http: httpx.Client) -> None:
    model = make(task="pu", prior=0.4, lam=0.02)
    http.post(f"/models/{model}/update", json={"add": {"X": X.tolist(), "y": S.tolist()}}).raise_for_status()
    asked = http.post(f"/models/{model}/tune", json={"gammas": [0.1, 1.0], "C": [1.0, 100.0], "folds": 3})
    found = finished(http, asked)
    assert found["what"] == "risk for the class prior"
    http.post(f"/jobs/{asked.json()['id']}/apply", json={}).raise_for_status()
    described = http.get(f"/models/{model}").json()
    best = found["parameters"]
    assert isinstance(best, dict)
    assert (described["C"], described["gamma"]) == (pytest.approx(best["C"]), best["gamma"])
    assert http.get(f"/models/{model}/certificate").json()["relative_gap"] <= 1e-9


def test_it_survives_a_kill(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as service:
        with Client(service.url) as client, service.http() as http:
            client.create_model("estimated", task="pu", kernel=KERNEL)
            client.update("estimated", X[:40], S[:40])
            client.update("estimated", X[40:], S[40:])
            estimated = client.model("estimated")["prior_estimate"]
            client.create_model("m", task="pu", prior=0.4, lam=0.02, kernel=KERNEL)
            client.update("m", X[:40], S[:40])
            client.update("m", X[40:], S[40:])
            http.post("/models/m/update", json={"C": 60.0}).raise_for_status()
            before = client.predict("m", Z)
        service.kill()
        service.start()
        with Client(service.url) as client:
            after = client.predict("m", Z)
            np.testing.assert_allclose(after["decision"], before["decision"], rtol=1e-8, atol=1e-8)
            assert client.model("m")["C"] == 60.0
            assert client.model("estimated")["prior_estimate"] == estimated
            assert client.certificate("estimated")["relative_gap"] <= 1e-9
            assert client.certificate("m")["relative_gap"] <= 1e-9
