"""Parameters that change on a live model: along a path or by solving again, scales among them; and warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.window import WindowLimits
from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.models.change import Batch, Change, Edits
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.support.live_models import FailingStore, alive, predicted

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) * [1.0, 100.0, 0.01] + [0.0, 500.0, 3.0]
LABELS = np.where(X[:, 0] + X[:, 1] / 100 > 5, 1, -1)
VALUES = X[:, 0] + np.sin(X[:, 1] / 50)
PROBE = RNG.normal(size=(15, 3)) * [1.0, 100.0, 0.01] + [0.0, 500.0, 3.0]
TASKS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "svc": ({"task": "svc", "C": 2.0}, LABELS, IncrementalSVC(C=2.0, classes=(-1, 1))),
    "several": ({"task": "svc", "C": 2.0}, np.arange(40) % 3, IncrementalSVC(C=2.0)),
    "svr": ({"task": "svr", "C": 2.0, "epsilon": 0.3}, VALUES, IncrementalSVR(C=2.0, epsilon=0.3)),
    "oneclass": ({"task": "oneclass", "nu": 0.3}, None, IncrementalOneClassSVM(nu=0.3)),
}
CHANGES: dict[str, dict[str, Any]] = {
    "C": {"C": 20.0},
    "gamma": {"gamma": 0.05},
    "kernel": {"kernel": {"name": "poly", "gamma": 0.01, "degree": 2, "coef0": 1.0}},
    "scale": {"scale": "robust"},
    "intercept": {"fit_intercept": False},
    "class weights": {"class_weight": {"1": 3.0}},
    "epsilon": {"epsilon": 0.05},
    "no tube": {"epsilon": 0.0},
    "nu": {"nu": 0.6},
}


def fitting(task: str) -> list[str]:
    missing = {"svc": ["epsilon", "no tube", "nu"], "svr": ["class weights", "nu"]}
    own = missing.get("svc" if task == "several" else task, ["C", "epsilon", "no tube", "class weights", "intercept"])
    return [name for name in CHANGES if name not in own]


def change(http: httpx.Client, model: str, body: dict[str, Any], key: str = "") -> Any:
    headers = {"idempotency-key": key} if key else {}
    answer = http.post(f"/models/{model}/update", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def as_library(changed: dict[str, Any]) -> dict[str, Any]:
    kernel = dict(changed.pop("kernel", {}))
    if kernel:
        changed |= {"kernel": kernel.pop("name"), **kernel}
    if "class_weight" in changed:
        changed["class_weight"] = {int(label): weight for label, weight in changed["class_weight"].items()}
    return changed


@pytest.mark.parametrize("task", TASKS)
def test_a_change_is_that_of_the_library(task: str, make: Make, http: httpx.Client) -> None:
    spec, y, library = TASKS[task]
    model = make(scale="standard", **spec)
    library.scale = "standard"
    change(http, model, {"add": {"X": X.tolist()} | ({} if y is None else {"y": y.tolist()})})
    library.fit(X, y)
    for name in fitting(task):
        reported = change(http, model, {"change": CHANGES[name]})
        report = library.change(**as_library(dict(CHANGES[name])))
        assert reported["resolved"] is bool(report.retrained), name
        assert reported["gamma"] == pytest.approx(library.gamma_)
        found = http.post(f"/models/{model}/predict", json={"X": PROBE.tolist()}).json()["decision"]
        expected = getattr(library, "decision_function", library.predict)(PROBE)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=name)
        assert http.get(f"/models/{model}/certificate").json()["relative_gap"] <= 1e-8
    described = http.get(f"/models/{model}").json()
    assert (described["scale"], described["gamma"]) == ("robust", pytest.approx(library.gamma_))
    for refused in ("C", "nu", "epsilon"):
        if refused not in fitting(task):
            answer = http.post(f"/models/{model}/update", json={"change": {refused: 0.5}})
            assert (answer.status_code, answer.json()["field"]) == (422, f"change.{refused}")


def test_rescaling_is_one_announced_durable_idempotent_update(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as process:
        with process.http() as http:
            http.post("/models", json={"id": "m", "C": 1.0, "scale": "standard"}).raise_for_status()
            change(http, "m", {"add": {"X": X[:20].tolist(), "y": LABELS[:20].tolist()}})
            change(
                http, "m", {"add": {"X": (X[20:] * 3).tolist(), "y": LABELS[20:].tolist()}, "remove": {"oldest": 10}}
            )
            reported = change(http, "m", {"rescale": True}, "once")
            again = change(http, "m", {"rescale": True}, "once")
            assert reported == again
            assert (reported["version"], reported["changed"], reported["resolved"]) == (3, 30, True)
            change(http, "m", {"change": {"gamma": 0.7}})
            assert http.get("/models/m/recent").json()["updates"][1]["action"] == "rescale"
            page = http.get("/models/m/examples").json()["examples"]
            assert [example["x"] for example in page] == [*X[10:20].tolist(), *(X[20:] * 3).tolist()]
            before = http.post("/models/m/predict", json={"X": PROBE.tolist()}).json()
        process.kill()
        process.start()
        with process.http() as http:
            after = http.post("/models/m/predict", json={"X": PROBE.tolist()}).json()
            assert after["version"] == before["version"]
            np.testing.assert_allclose(after["decision"], before["decision"], rtol=0, atol=1e-8)
            assert http.get("/models/m").json()["kernel"]["gamma"] == 0.7
            http.post("/models/m/restore", json={"version": 2}).raise_for_status()
            library = IncrementalSVC(scale="standard").fit(X[:20], LABELS[:20])
            library.update(add=(X[20:] * 3, LABELS[20:]), remove=list(range(10)))
            found = http.post("/models/m/predict", json={"X": PROBE.tolist()}).json()["decision"]
            np.testing.assert_allclose(found, library.decision_function(PROBE), rtol=0, atol=1e-8)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"change": {}}, "change"),
    "unknown": ({"change": {"colour": 1}}, "change.colour"),
    "kernel and gamma": ({"change": {"gamma": 1.0, "kernel": {}}}, "change.gamma"),
    "null": ({"change": {"C": None}}, "change.C"),
    "not alone": ({"change": {"C": 2.0}, "decay": 0.5}, "change"),
    "nothing to rescale": ({"rescale": True}, "rescale"),
    "false": ({"rescale": False}, "rescale"),
    "beside the verbs": ({"gamma": 2.0}, "decay, C, robust, change, rescale"),
    "negative": ({"change": {"C": -1.0}}, "change.C"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_change_that_cannot_be_is_refused_by_name(case: str, make: Make, http: httpx.Client) -> None:
    body, field = BAD[case]
    model = make()
    change(http, model, {"add": {"X": X[:5].tolist(), "y": LABELS[:5].tolist()}})
    answer = http.post(f"/models/{model}/update", json=body)
    assert answer.status_code == 422
    assert field in str(answer.json())
    assert http.get(f"/models/{model}").json()["version"] == 1


def test_a_model_that_knows_nothing_takes_parameters(make: Make, http: httpx.Client) -> None:
    model = make()
    change(http, model, {"change": {"C": 7.0, "scale": "minmax", "kernel": {"name": "linear"}}})
    change(http, model, {"add": {"X": X.tolist(), "y": LABELS.tolist()}})
    library = IncrementalSVC(C=7.0, scale="minmax", kernel="linear").fit(X, LABELS)
    found = http.post(f"/models/{model}/predict", json={"X": PROBE.tolist()}).json()["decision"]
    np.testing.assert_allclose(found, library.decision_function(PROBE), rtol=0, atol=1e-7)
    assert http.get(f"/models/{model}").json()["gamma"] is None


def test_data_whose_scale_makes_the_kernel_useless_are_warned_of(make: Make, http: httpx.Client) -> None:
    model = make(kernel={"gamma": 5.0})
    reported = change(http, model, {"add": {"X": X.tolist(), "y": LABELS.tolist()}})
    assert [one["name"] for one in reported["warnings"]] == ["kernel_is_identity"]
    assert "scale='standard'" in reported["warnings"][0]["message"]
    assert http.get(f"/models/{model}").json()["warnings"] == reported["warnings"]
    assert "warnings" not in change(http, model, {"change": {"scale": "standard", "gamma": 0.3}})
    assert http.get(f"/models/{model}").json()["warnings"] == []


def test_a_change_that_fails_leaves_the_model_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FailingStore(tmp_path / "store")
    live = alive(store, store.create("m", b""), ModelSpec(id="m", scale="standard"))
    live.update(Change(Batch(X, LABELS.astype(np.float64))), None).result()
    before, described = predicted(live, PROBE), live.describe()

    def failing(*_: Any) -> None:
        raise NotOptimal("not now")

    with monkeypatch.context() as patched:
        patched.setattr("livesvm.solvers.models.window.Window.update", failing)
        for edits in (Edits(change={"C": 9.0}), Edits(change={"gamma": 3.0, "scale": "none"}), Edits(rescale=True)):
            with pytest.raises(NotOptimal):
                live.update(Change(edits=edits), None).result()
    np.testing.assert_array_equal(predicted(live, PROBE).decision, before.decision)
    assert (live.describe().kernel, live.describe().C) == (described.kernel, described.C)
    live.stop()
    store.close()


@pytest.mark.parametrize("scale", ["none", "standard"])
@pytest.mark.parametrize("changed", [{"gamma": 2.0}, {"C": 5.0}, {"scale": "minmax"}])
def test_what_is_reached_without_the_path_is_the_same(scale: Any, changed: dict[str, Any]) -> None:
    def state() -> ModelState:
        found = ModelState.empty(ModelSpec(id="m", scale=scale), 8)
        update = Change(Batch(X[:30], LABELS[:30].astype(np.float64)))
        found.apply(found.window.plan(update, LIMITS, 0.0, None))
        return found

    live, cold = state(), state()
    updates = (Change(edits=Edits(change=changed)), Change(Batch(X[30:], LABELS[30:].astype(np.float64))))
    for update in updates:
        live.apply(live.window.plan(update, LIMITS, 1.0, None))
        cold.apply_cold(cold.window.plan(update, LIMITS, 1.0, None))
    for one in (live, ModelState.decode(live.spec, 8, live.encode())):
        np.testing.assert_allclose(
            one.estimator.predictor().decision_function(PROBE),
            cold.estimator.predictor().decision_function(PROBE),
            rtol=0,
            atol=1e-7,
        )
    assert live.document()["changed"] == cold.document()["changed"]


LIMITS = WindowLimits(1000, 10)


def test_the_client_changes_and_rescales(make: Make, service: ServiceProcess) -> None:
    model = make(scale="minmax")
    with Client(service.url) as client:
        client.update(model, X, LABELS)
        assert client.update(model, change={"C": 4.0})["resolved"] is False
        assert client.update(model, rescale=True)["resolved"] is True
        assert client.model(model)["C"] == 4.0
