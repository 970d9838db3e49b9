"""Outlier paths of a live model over REST: what they find, show and refuse, and robust models that stay so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client
from livesvm.service.jobs import plots
from livesvm.service.jobs.outlier_path import make_robust, plot
from livesvm.service.models.commands import Command, digest_of
from livesvm.solvers import IncrementalSVC, IncrementalSVR
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.change import Change, Edits
from livesvm.solvers.robust.settings import Robustness
from tests.oracle import Kernel
from tests.robust import judge_labels
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.support.jobs_over_rest import awaited
from tests.support.path_jobs import GAMMA, RBF, data, learnt


def spoilt(n: int = 80) -> tuple[Any, Any, Any]:
    """Return rows, labels of which some are wrong, and the places of those."""
    X, y = data(n)
    wrong = np.random.default_rng(1).random(n) < 0.15
    return X, np.where(wrong, -y, y), wrong


def done(http: httpx.Client, model: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = http.post(f"/models/{model}/outlier-path", json=body)
    assert answer.status_code == 202, answer.text
    job = awaited(http, answer.json()["id"])
    assert job["state"] == "done", job
    return job


@pytest.mark.parametrize("parameter", ["theta", "s"])
def test_the_path_of_a_live_window_is_that_of_the_library(http: httpx.Client, make: Make, parameter: Any) -> None:
    X, y, wrong = spoilt()
    V, v = data(60, seed=3)
    model = make(kernel=RBF, C=2.0)
    learnt(http, model, X, y)
    job = done(http, model, {"parameter": parameter, "validation": {"X": V.tolist(), "y": v.tolist()}})
    result = job["result"]
    path = IncrementalSVC(C=2.0, gamma=GAMMA).fit(X, y).outlier_path(parameter)
    order = path.order_of_outliers()
    assert result["suspected"]["key"] == [f"k{key}" for key, _ in order]
    np.testing.assert_allclose(result["suspected"]["value"], [value for _, value in order], rtol=1e-7, atol=1e-12)
    assert np.mean(wrong[[int(key) for key, _ in order[:5]]]) >= 0.8
    values, errors = path.validation_errors(V, v)
    np.testing.assert_allclose(result["validation"]["value"], values, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(result["validation"]["error"], errors)
    assert result["validation"]["best"]["error"] == errors.min()
    assert http.get(f"/models/{model}").json()["version"] == 1
    for extension, start in (("svg", b"<?xml"), ("png", b"\x89PNG")):
        assert http.get(f"/jobs/{job['id']}/plot.{extension}").content.startswith(start)


def test_what_is_applied_stays_robust(http: httpx.Client, make: Make) -> None:
    X, y, _ = spoilt()
    model = make(kernel=RBF, C=2.0)
    learnt(http, model, X, y)
    job = done(http, model, {"parameter": "s", "hold_out": 0.25})
    assert job["result"]["validation"]["held_back"] == 20
    answer = http.post(f"/jobs/{job['id']}/apply", json={"choice": {"value": -0.25}})
    assert answer.status_code == 200, answer.text
    rival = IncrementalSVC(C=2.0, gamma=GAMMA).fit(X, y)
    rival.update(robust=rival.outlier_path("s").robustness(-0.25))
    more, labels = data(20, seed=5)
    http.post(f"/models/{model}/update", json={"add": {"X": more.tolist(), "y": (-labels).tolist()}}).raise_for_status()
    rival.update(add=(more, -labels))
    assert judge_labels(rival, Kernel("rbf", GAMMA), 2.0, 0.0, -0.25).violation <= 1e-7
    certificate = http.get(f"/models/{model}/certificate").json()
    assert certificate["relative_gap"] <= 1e-9
    assert certificate["robust"]["s"] == -0.25
    assert certificate["robust"]["n_outliers"] == int(np.count_nonzero(rival._window.sides))
    assert certificate["robust"]["violation"] <= 1e-7
    assert certificate["robust"]["wall_distance"] > 0
    f = http.post(f"/models/{model}/predict", json={"X": X.tolist()}).json()["decision"]
    np.testing.assert_allclose(f, rival.decision_function(X), atol=1e-7)


@pytest.mark.parametrize("task", ["svc", "svr"])
def test_a_robust_model_says_so_and_goes_back_to_the_convex_problem(
    task: str, http: httpx.Client, make: Make, service: ServiceProcess
) -> None:
    X, y, _ = spoilt()
    model, plain = make(kernel=RBF, C=2.0, task=task), make(kernel=RBF, C=2.0, task=task)
    for each in (model, plain):
        learnt(http, each, X, y)
    with Client(service.url) as client:
        s = None if task == "svc" else 0.7
        client.apply(client.wait(client.outlier_path(model, "theta", s=s)["id"])["id"], value=0.2)
        proof = client.certificate(model)["robust"]
        reported = client.model(model)["robust"]
        assert reported == {name: proof[name] for name in ("theta", "s", "n_outliers")}
        assert reported["n_outliers"] > 0
        assert sum(example["outlier"] for example in client.examples(model)["examples"]) == reported["n_outliers"]
        client.update(model, convex=True)
        assert client.model(model)["robust"] is None
        assert "robust" not in client.certificate(model)
        one, two = (client.predict(each, X)["decision"] for each in (model, plain))
        np.testing.assert_allclose(one, two, atol=1e-8)
        client.update(plain, convex=True, C=1.0)  # which it is already
    again = http.post(f"/models/{model}/update", json={"robust": None})
    assert (again.status_code, again.json()["field"]) == (422, "robust")


def test_a_robust_model_survives_kill_and_restart(tmp_path: Path) -> None:
    X, y, _ = spoilt()
    with ServiceProcess(tmp_path) as process:
        with Client(process.url) as client:
            client.create_model("robust", C=2.0, kernel=RBF)
            client.update("robust", X, y)
            job = client.wait(client.outlier_path("robust", "theta", theta=0.2)["id"])
            assert client.apply(job["id"], value=0.3)["version"] == 2
            client.update("robust", *data(10, seed=4))
            before = client.predict("robust", X)["decision"]
        process.kill()
        process.start()
        with Client(process.url) as client:
            np.testing.assert_allclose(client.predict("robust", X)["decision"], before, atol=1e-12)
            assert client.update("robust", *data(10, seed=6))["version"] == 4


def test_regression(http: httpx.Client, make: Make) -> None:
    X, _ = data(60)
    y = X[:, 0] + np.where(np.arange(60) % 12 == 0, 5.0, 0.0)
    model = make(task="svr", kernel=RBF, C=3.0, epsilon=0.1)
    learnt(http, model, X, y)
    result = done(http, model, {"parameter": "s", "s": 1.0})["result"]
    path = IncrementalSVR(C=3.0, epsilon=0.1, gamma=GAMMA).fit(X, y).outlier_path("s", s=1.0)
    assert result["suspected"]["key"] == [f"k{key}" for key, _ in path.order_of_outliers()]
    update = make_robust(result, {})
    assert update.edits is not None
    assert update.edits.robust == Robustness(
        0.0, 1.0, {f"k{key}": side for key, side in path.robustness(1.0).outliers.items()}
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"theta": -0.1}, "theta"),
        ({"theta": 1.0}, "theta"),
        ({"s": 0.5}, "s"),
        ({"parameter": "C"}, "parameter"),
        ({"hold_out": 0.9}, "hold_out"),
        ({"hold_out": 5e-324}, "hold_out"),
        ({"hold_out": 1e-3}, "hold_out"),
        ({"validation": {"X": [[0.0, 0.0]], "y": [2]}}, "validation.y"),
        ({"validation": {"X": [[0.0]], "y": [1]}}, "validation.X"),
        ({"validation": {"X": [[0.0, 0.0]], "y": [1]}, "hold_out": 0.2}, "hold_out"),
    ],
)
def test_what_cannot_be_asked_is_refused(http: httpx.Client, make: Make, body: dict[str, Any], field: str) -> None:
    model = make(kernel=RBF)
    learnt(http, model, *data(10))
    answer = http.post(f"/models/{model}/outlier-path", json=body)
    assert answer.status_code == 422
    assert answer.json()["field"] == field


def test_models_that_cannot_be_robust(http: httpx.Client, make: Make) -> None:
    empty = make(kernel=RBF)
    assert http.post(f"/models/{empty}/outlier-path", json={}).json()["type"].endswith("empty-model")
    oneclass = make(task="oneclass", kernel=RBF, nu=0.3)
    learnt(http, oneclass, data(10)[0], None)
    assert "no robust losses" in http.post(f"/models/{oneclass}/outlier-path", json={}).json()["detail"]
    svr = make(task="svr", kernel=RBF, epsilon=0.1)
    learnt(http, svr, *data(10))
    assert http.post(f"/models/{svr}/outlier-path", json={"s": 0.0}).status_code == 422


@pytest.mark.parametrize("choice", [{"value": 2.0}, {"value": "much"}, {"C": 1.0}])
def test_only_a_value_of_the_path_can_be_applied(choice: dict[str, Any]) -> None:
    result = {
        "parameter": "theta",
        "fixed": 0.0,
        "start": 1.0,
        "end": 0.0,
        "outliers_at_start": {"key": [], "side": []},
        "switches": {"value": [], "key": [], "side": []},
    }
    with pytest.raises(InvalidInput, match="choice"):
        make_robust(result, choice)


def test_commands_keep_what_makes_a_model_robust() -> None:
    robust = Robustness(0.5, 0.0, {"a": 1, 7: -1})
    command = Command(None, [], Edits(robust=robust), arrived=0.0, next_key=0)
    assert Command.decode(command.encode()) == command
    assert Edits(robust=robust).only({7}) == Edits(robust=Robustness(0.5, 0.0, {7: -1}))
    assert digest_of(Change(edits=Edits(C=1.0))) != digest_of(Change(edits=Edits(C=1.0, robust=robust)))


@pytest.mark.parametrize("is_judged", [False, True])
def test_a_plot_counts_the_outliers_from_switch_to_switch(is_judged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []

    def note(*given: Any, **_: Any) -> bytes:
        drawn.extend(given)
        return b""

    monkeypatch.setattr(plots, "draw", note)
    result: dict[str, Any] = {
        "parameter": "s", "n_examples": 9, "d_steps": 2, "start": 2.0, "end": 0.0,
        "outliers_at_start": {"key": ["a", "b"], "side": [1, -1]},
        "switches": {"value": [1.5, 1.0, 1.0, 0.5], "key": ["c", "a", "d", "d"], "side": [1, 0, 1, 0]},
    }  # fmt: skip
    if is_judged:
        result["validation"] = {"what": "error", "value": [2.0, 1.0], "error": [0.3, 0.1], "best": {"value": 1.0}}
    plot(result, "svg")
    extension, title, label, curves, best = drawn
    assert (extension, label, best) == ("svg", "s", (1.0, 1.0) if is_judged else None)
    assert "9 examples" in title
    assert [*curves[-1].x] == [2.0, 1.5, 1.5, 1.0, 1.0, 0.5, 0.5, 0.0]
    assert [*curves[-1].y] == [2, 2, 3, 3, 3, 3, 2, 2]
    judged = [([2.0, 1.0], [0.3, 0.1])] if is_judged else []
    assert [(one.x, one.y) for one in curves[:-1]] == judged
