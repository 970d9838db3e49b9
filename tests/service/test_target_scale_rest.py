"""Regressions over REST whose targets are learnt on another scale: what answers are in, errors, replay, erasures."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.models.commands import Command
from livesvm.service.models.self_tuning import chosen
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.window import WindowLimits
from livesvm.solvers import IncrementalSVR, conformal
from livesvm.solvers.analyses.tuning.automatic import choose
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.change import TUNED, Batch, Change, Edits
from tests.service.conftest import Make
from tests.service.test_self_tuning_rest import tuned
from tests.support.jobs_over_rest import awaited

RNG = np.random.default_rng(63)
X = RNG.normal(size=(200, 3))
PRICE = np.exp(6.0 + X @ [0.8, 0.4, 0.0] + 0.3 * RNG.normal(size=200)).round(2)
GIVEN: dict[str, Any] = {"task": "svr", "C": 3.0, "epsilon": 0.1, "kernel": {"name": "rbf", "gamma": 0.3}}


def add(http: httpx.Client, model: str, start: int, stop: int, **more: Any) -> dict[str, Any]:
    body = {
        "add": {"X": X[start:stop].tolist(), "y": PRICE[start:stop].tolist(), "keys": [*range(start, stop)]},
        **more,
    }
    answer = http.post(f"/models/{model}/update", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def like(n: int) -> tuple[IncrementalSVR, IncrementalSVR]:
    """Return a model of prices on a logarithmic scale, and one of logarithms."""
    given: dict[str, Any] = {"C": 3.0, "epsilon": 0.1, "gamma": 0.3}
    return (
        IncrementalSVR(target_scale="log", **given).fit(X[:n], PRICE[:n]),
        IncrementalSVR(**given).fit(X[:n], np.log(PRICE[:n])),
    )


def test_predictions_intervals_and_the_record_are_in_units_of_y(http: httpx.Client, make: Make) -> None:
    model, rows = make(target_scale="log", **GIVEN), X[150:155].tolist()
    add(http, model, 0, 100)
    add(http, model, 100, 120)
    scaled, logarithms = like(120)
    answer = http.post(f"/models/{model}/predict", json={"X": rows}).json()
    np.testing.assert_allclose(answer["prediction"], scaled.predict(rows), rtol=1e-9)
    np.testing.assert_allclose(answer["decision"], logarithms.predict(rows), rtol=1e-9)
    sure = http.post(f"/models/{model}/predict", params={"coverage": 0.8}, json={"X": rows}).json()
    ends = np.exp(conformal(logarithms).intervals(rows, 0.8))
    np.testing.assert_allclose([sure["low"], sure["high"]], ends, rtol=1e-6)
    shown = http.get(f"/models/{model}").json()
    assert (shown["target_scale"], shown["epsilon"]) == ("log", 0.1)
    before, _ = like(100)
    assert shown["record"]["error"] == pytest.approx(np.abs(before.predict(X[100:120]) - PRICE[100:120]).mean())
    listed = http.get(f"/models/{model}/examples").json()["examples"]
    assert [one["y"] for one in listed] == PRICE[:120].tolist()


def test_analyses_are_on_the_scale_and_say_so(http: httpx.Client, make: Make) -> None:
    model, plain = make(target_scale="log", drift_alarms=0.01, **GIVEN), make(**GIVEN)
    add(http, model, 0, 100)
    add(http, plain, 0, 100)
    scaled, logarithms = like(100)
    rows, y = X[150:153].tolist(), PRICE[150:153].tolist()
    for path, body in (
        ("explain", {"X": rows}),
        ("explain", {"X": rows, "y": y}),
        ("what-if", {"remove": {"oldest": 3}, "X": rows}),
    ):
        assert http.post(f"/models/{model}/{path}", json=body).json()["target_scale"] == "log"
        assert "target_scale" not in http.post(f"/models/{plain}/{path}", json=body).json()
    found = http.post(f"/models/{model}/explain", json={"X": rows}).json()["rows"]
    np.testing.assert_allclose([one["decision"] for one in found], logarithms.predict(rows), rtol=1e-9)
    np.testing.assert_allclose([one["prediction"] for one in found], scaled.predict(rows), rtol=1e-9)
    drift = http.get(f"/models/{model}/drift").json()
    assert drift["target_scale"] == "log"
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("assessment", {"method": "leave-one-out"}),
        ("regularization-path", {"validation": {"X": rows, "y": y}}),
        ("outlier-path", {"parameter": "theta", "theta": 0.5, "validation": {"X": rows, "y": y}}),
        ("tune", {"judge": "k-fold", "folds": 3, "C": [0.5, 5.0], "gammas": [0.3]}),
    )
    for path, body in asked:
        job = awaited(http, http.post(f"/models/{model}/{path}", json=body).raise_for_status().json()["id"])
        assert job["result"]["target_scale"] == "log", job
    body = {"validation": {"X": rows, "y": [1.0, 0.0, 2.0]}}
    asked_badly = http.post(f"/models/{model}/regularization-path", json=body).raise_for_status()
    job = awaited(http, asked_badly.json()["id"])
    assert job["state"] == "failed"
    assert "row 1: must be above 0" in job["error"]["detail"]


@pytest.mark.parametrize(
    ("body", "field", "row"),
    [
        ({"add": {"X": X[:3].tolist(), "y": [1.0, 0.0, 2.0]}}, "y", 1),
        ({"relabel": {"keys": [4, 5], "y": [3.0, -1.0]}}, "relabel.y", 1),
    ],
)
def test_a_target_that_the_scale_does_not_have_is_refused(
    http: httpx.Client, make: Make, body: dict[str, Any], field: str, row: int
) -> None:
    model = make(target_scale="log", **GIVEN)
    version = add(http, model, 0, 50)["version"]
    answer = http.post(f"/models/{model}/update", json=body)
    assert (answer.status_code, answer.json()["field"], answer.json()["row"]) == (422, field, row)
    assert http.get(f"/models/{model}").json()["version"] == version
    first = make(target_scale="log", **GIVEN)
    answer = http.post(f"/models/{first}/update", json={"add": {"X": X[:2].tolist(), "y": [1.0, -1.0]}})
    assert (answer.status_code, answer.json()["row"]) == (422, 1)


def test_the_scale_is_changed_and_impossible_ones_are_refused(http: httpx.Client, make: Make) -> None:
    model, rows = make(**GIVEN), X[150:155].tolist()
    add(http, model, 0, 100)
    http.post(f"/models/{model}/update", json={"change": {"target_scale": "log"}}).raise_for_status()
    answer = http.post(f"/models/{model}/predict", json={"X": rows}).json()
    np.testing.assert_allclose(answer["prediction"], like(100)[0].predict(rows), rtol=1e-6)
    http.post(f"/models/{model}/update", json={"change": {"target_scale": "none"}}).raise_for_status()
    body = {"add": {"X": X[:1].tolist(), "y": [-2.0], "keys": ["debt"]}}
    version = http.post(f"/models/{model}/update", json=body).json()["version"]
    answer = http.post(f"/models/{model}/update", json={"change": {"target_scale": "log"}})
    assert (answer.status_code, answer.json()["field"]) == (422, "change.target_scale")
    assert "'debt'" in answer.json()["detail"]
    assert http.get(f"/models/{model}").json()["version"] == version
    for spec, field in (
        ({"task": "svr", "C": 1.0, "target_scale": "auto"}, "target_scale"),
        ({"task": "svc", "target_scale": "log"}, "target_scale"),
        ({"task": "svr", "target_scale": "sqrt"}, "target_scale"),
    ):
        answer = http.post("/models", json=spec)
        assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text


def test_a_model_chooses_its_scale_and_a_target_below_0_ends_it(http: httpx.Client, make: Make) -> None:
    model = make(task="svr", C=None)
    assert http.get(f"/models/{model}").json()["target_scale"] == "none"
    add(http, model, 0, 150)
    shown = tuned(http, model)
    assert shown["target_scale"] == "log"
    assert shown["tuning"]["chosen"]["parameters"].keys() == {"C", "gamma", "epsilon", "target_scale"}
    http.post(f"/models/{model}/update", json={"add": {"X": X[:1].tolist(), "y": [-2.0]}}).raise_for_status()
    ended = http.get(f"/models/{model}").json()
    assert ended["target_scale"] == "none"
    assert ended["C"] > shown["C"]
    assert http.get(f"/models/{model}/certificate").json()["relative_gap"] < 1e-6


LIMITS = WindowLimits(10_000, 100, None, None)


@pytest.mark.parametrize(
    "spec", [ModelSpec(id="m", task="svr"), ModelSpec(id="m", task="svr", components=20, C="auto")]
)
def test_a_replay_has_the_scale_and_its_end(spec: ModelSpec) -> None:
    log = list[bytes]()
    live = ModelState.empty(spec, 64)

    def take(update: Change) -> None:
        log.append(live.plan(update, LIMITS, 8, 0.0, None).encode())
        live.apply(Command.decode(log[-1]))

    def choice() -> Change:
        model: Any = live.estimator
        return Change(edits=Edits(change={TUNED: chosen(choose(model), "first", is_first=True)}))

    take(Change(Batch(X[:100], PRICE[:100])))
    found = choice()
    take(found)
    states = [live.encode()]
    assert live.parameters["target_scale"] == "log"
    take(Change(Batch(X[100:110], PRICE[100:110]), edits=Edits(relabel={3: 7.0})))
    states.append(live.encode())
    take(Change(Batch(X[:2], np.array([5.0, -2.0]))))
    assert live.parameters["target_scale"] == "none"
    states.append(live.encode())
    with pytest.raises(InvalidInput, match=r"job: cannot be 'log': example 111 must be above 0"):
        live.plan(found, LIMITS, 8, 0.0, None)
    take(Change(edits=Edits(C=2.0)))
    states.append(live.encode())
    seen, rows = live.published(), X[150:160]
    for apply in (ModelState.apply, ModelState.apply_cold):
        other = ModelState.empty(spec, 64)
        for at, record in enumerate(log):
            apply(other, Command.decode(record))
            if at:
                then = ModelState.decode(spec, 64, states[at - 1])
                assert (other.parameters, other.C, other.gamma) == (then.parameters, then.C, then.gamma)
                expected = then.published().decide(spec, rows)[1]
                np.testing.assert_allclose(other.published().decide(spec, rows)[1], expected, rtol=1e-5)
        assert other.changed == live.changed
    gone = ModelState.decode(spec, 64, states[2])
    gone.forget([111])
    fresh = ModelState.empty(spec, 64)
    left = Batch(np.asarray(gone.estimator.window_X), gone.estimator.window_y)
    fresh.apply(fresh.plan(Change(left), LIMITS, 8, 0.0, None))
    assert gone.parameters["target_scale"] == choose(fresh.estimator).parameters.get("target_scale", "none")
    assert seen.decide(spec, rows)[1].tolist() == seen.decide(spec, rows)[0].tolist()


def test_a_retrained_model_and_an_older_version_keep_the_scale(http: httpx.Client, make: Make) -> None:
    model, rows = make(task="svr", C=None), X[180:190].tolist()
    add(http, model, 0, 150)
    shown = tuned(http, model)
    assert shown["target_scale"] == "log"
    expected = http.post(f"/models/{model}/predict", json={"X": rows}).json()["prediction"]
    job = http.post(f"/models/{model}/retrain", json={"solver": "batch"}).raise_for_status().json()["id"]
    assert awaited(http, job)["state"] == "done"
    http.post(f"/jobs/{job}/apply", json={}).raise_for_status()
    add(http, model, 150, 155)
    http.post(f"/models/{model}/update", json={"remove": {"keys": [*range(150, 155)]}}).raise_for_status()
    answer = http.post(f"/models/{model}/predict", json={"X": rows}).json()["prediction"]
    np.testing.assert_allclose(answer, expected, rtol=1e-5)
    ended = http.post(f"/models/{model}/update", json={"add": {"X": rows[:1], "y": [-2.0]}})
    assert ended.status_code == 200, ended.text
    restored = http.post(f"/models/{model}/restore", json={"version": shown["version"]})
    assert restored.status_code == 200, restored.text
    now = http.get(f"/models/{model}").json()
    assert (now["target_scale"], now["C"]) == ("log", shown["C"])
    answer = http.post(f"/models/{model}/predict", json={"X": rows}).json()["prediction"]
    np.testing.assert_allclose(answer, expected, rtol=1e-6)
