"""Models with components over REST: replayed, restored, described, and free of what is erased, landmarks included."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client
from livesvm.service.history.replay import together
from livesvm.service.models.commands import Command, Outcome, Removal
from livesvm.service.models.self_tuning import chosen
from livesvm.service.models.spec import KernelSpec, ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.window import WindowLimits
from livesvm.solvers import IncrementalOneClassSVM, IncrementalPUClassifier, IncrementalSVC, IncrementalSVR
from livesvm.solvers.analyses.tuning import rank
from livesvm.solvers.analyses.tuning.automatic import choose
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.change import TUNED, Batch, Change, Edits
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.support.erasing import keeping
from tests.support.feeds import FEED, rows_of, series

LIMITS = WindowLimits(10**6, 10**4)
SPEC: dict[str, Any] = {"C": 2.0, "kernel": {"name": "rbf", "gamma": 0.3}, "components": 12}
OF_TASK: dict[str, dict[str, Any]] = {
    "svc": SPEC,
    "oneclass": {**SPEC, "C": None, "task": "oneclass", "nu": 0.3},
    "pu": {**SPEC, "C": None, "task": "pu"},
}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3))
Y = np.where(np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * RNG.normal(size=160) > 0.0, 1, -1)
KINDS = np.where((Y > 0) & (RNG.random(160) < 0.5), 1, 0)  # positive and unlabelled


def updates(first: int, task: str = "svc") -> Iterator[Change]:
    """Yield updates that begin with ``first`` examples, slide, correct, and choose other landmarks."""
    keys: list[int | str] = [f"c{at}" for at in range(160)]
    y = {"svc": Y, "oneclass": None, "pu": KINDS}[task]

    def batch(start: int, end: int) -> Batch:
        return Batch(X[start:end], None if y is None else y[start:end], keys[start:end])

    yield Change(batch(0, first))
    for at in range(first, 110, 10):
        yield Change(batch(at, at + 10), Removal(oldest=4))
    yield Change(edits=Edits(relabel={} if y is None else {"c100": 1}, reweight={"c101": 0.5}))
    yield Change(edits=Edits(change={"components": 20}))
    yield Change(batch(120, 130), Removal(oldest=5))
    yield Change(edits=Edits(change={"gamma": 0.2}))
    yield Change(edits=Edits(change={"svc": {"C": 1.0}, "oneclass": {"nu": 0.2}, "pu": {"lam": 0.002}}[task]))


def decisions(state: ModelState) -> Any:
    seen = state.published()
    return seen.decide(state.spec, seen.checked(state.spec, X, 1000))[0]


def applied(spec: ModelSpec, given: Any, log: list[bytes]) -> ModelState:
    state = ModelState.empty(spec, 64)
    for update in given:
        command = state.plan(update, LIMITS, 8, time.time(), None)
        log.append(command.encode())
        state.apply(command)
    return state


@pytest.mark.parametrize("task", OF_TASK)
@pytest.mark.parametrize("first", [4, 60])
def test_a_replayed_log_leads_to_the_same_model(first: int, task: str) -> None:
    spec, log = ModelSpec(id="m", **OF_TASK[task]), list[bytes]()
    live = applied(spec, updates(first, task), log)
    replayed, cold = ModelState.empty(spec, 64), ModelState.empty(spec, 64)
    for record in log:
        replayed.apply(Command.decode(record))
        cold.apply_cold(Command.decode(record))
    np.testing.assert_array_equal(decisions(replayed), decisions(live))
    np.testing.assert_allclose(decisions(cold), decisions(live), atol=1e-7)
    again = ModelState.decode(spec, 64, live.encode())
    np.testing.assert_array_equal(decisions(again), decisions(live))
    for state in (replayed, cold, again):
        assert state.parameters == live.parameters
        assert (state.estimator.feature_scale_.landmarks == live.estimator.feature_scale_.landmarks).all()


def test_updates_are_put_together_once_the_landmarks_are_chosen() -> None:
    spec, log = ModelSpec(id="m", **SPEC), list[bytes]()
    one_by_one = applied(spec, list(updates(60))[:5], log)
    commands = [Command.decode(record) for record in log]
    state = ModelState.empty(spec, 64)
    state.apply(commands[0])
    assert state.is_convex
    state.apply_together(commands[1:], together(commands[1:]))
    np.testing.assert_allclose(decisions(state), decisions(one_by_one), atol=1e-7)
    young = ModelState.empty(spec, 64)
    young.apply(young.plan(Change(Batch(X[:10], Y[:10], list(range(10)))), LIMITS, 8, 0.0, None))
    assert not young.is_convex


def test_a_window_with_components_holds_more_examples() -> None:
    limits = WindowLimits(4, 10**4)
    state = ModelState.empty(ModelSpec(id="m", **SPEC), 64)
    state.apply(state.plan(Change(Batch(X[:80], Y[:80])), limits, 8, 0.0, None))
    for update, field in (
        (Change(Batch(X[80:81], Y[80:81])), "X"),
        (Change(edits=Edits(change={"components": None})), "change.components"),
    ):
        with pytest.raises(InvalidInput) as refused:
            state.plan(update, limits, 8, 0.0, None)
        assert refused.value.field == field
    state.apply(state.plan(Change(remove=Removal(oldest=76)), limits, 8, 0.0, None))
    state.apply(state.plan(Change(edits=Edits(change={"components": None})), limits, 8, 0.0, None))
    with pytest.raises(InvalidInput, match="the limit is 4"):
        state.plan(Change(Batch(X[80:81], Y[80:81])), limits, 8, 0.0, None)


@pytest.fixture(params=["sqlite", "redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with keeping(request.param, tmp_path) as found:
        yield found


OF_KIND: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "two classes": (lambda: IncrementalSVC(C=2.0, gamma=0.3, components=12), Y, SPEC),
    "four classes": (lambda: IncrementalSVC(C=2.0, gamma=0.3, components=12), Y + (X[:, 2] > 0.6), SPEC),
    "one class": (lambda: IncrementalOneClassSVM(nu=0.3, gamma=0.3, components=12), None, OF_TASK["oneclass"]),
    "pu": (lambda: IncrementalPUClassifier(gamma=0.3, components=12), KINDS, OF_TASK["pu"]),
}


@pytest.mark.parametrize("kind", OF_KIND)
def test_of_a_landmark_that_is_erased_nothing_remains(kept: Any, kind: str) -> None:
    make, y, spec = OF_KIND[kind]
    process, everything = kept

    def targets(at: Any) -> Any:
        return None if y is None else y[at].tolist()

    landmarks = make().fit(X[:60], targets(slice(60))).feature_scale_.landmarks
    at = int(np.flatnonzero((landmarks[0] == X[:60]).all(axis=1))[0])

    def remains() -> bool:
        text = everything().values()
        return any(
            struct.pack("<d", float(X[at, 1])) in found or repr(float(X[at, 1])).encode() in found for found in text
        )

    with process as service, Client(service.url) as client:
        client.create_model("m", **spec)
        client.update("m", X[:60].tolist(), targets(slice(60)), keys=[f"c{k}" for k in range(60)])
        client.checkpoint("m")
        client.update("m", X[60:70].tolist(), targets(slice(60, 70)))
        before = client.predict("m", X.tolist())
        service.kill()
    assert remains()
    with process as service, Client(service.url) as client:
        np.testing.assert_allclose(client.predict("m", X.tolist())["decision"], before["decision"], atol=1e-9)
        client.erase("m", [f"c{at}"])
        assert not remains()
        stay = [k for k in range(70) if k != at]
        never = make().fit(X[stay], targets(stay))
        found = client.predict("m", X.tolist())
        np.testing.assert_allclose(found["decision"], never.decision_function(X), atol=1e-6)
        certificate, own = client.certificate("m"), cast("Any", never.certificate())
        assert certificate["relative_gap"] < 1e-8
        assert certificate["approximation"]["left_out"] == pytest.approx(own.left_out, abs=1e-9)
        client.update("m", X[80:82].tolist(), targets(slice(80, 82)))
        client.restore("m", found["version"])
        assert client.predict("m", X.tolist())["decision"] == found["decision"]


def test_it_is_learnt_described_and_changed(http: httpx.Client, make: Make) -> None:
    model = make(**SPEC)
    add = {"X": X[:100].tolist(), "y": Y[:100].tolist()}
    http.post(f"/models/{model}/update", json={"add": add}).raise_for_status()
    http.post(
        f"/models/{model}/update", json={"add": {"X": X[100:].tolist(), "y": Y[100:].tolist()}}
    ).raise_for_status()
    ours = IncrementalSVC(C=2.0, gamma=0.3, components=12).fit(X[:100], Y[:100])
    ours.update((X[100:], Y[100:]))
    shown = http.get(f"/models/{model}").json()
    assert (shown["components"], shown["n_features"], shown["gamma"]) == (12, 3, 0.3)
    assert shown["n_support"] == np.count_nonzero(ours.window_coefficients)
    decided = http.post(f"/models/{model}/predict", json={"X": X.tolist()}).json()["decision"]
    assert decided == pytest.approx(ours.decision_function(X), abs=1e-7)
    proof = http.get(f"/models/{model}/certificate").json()
    found: Any = ours.certificate()
    expected = {"kernel": "rbf", "components": 12, "left_out": pytest.approx(found.left_out)}
    assert proof["approximation"] == expected
    what_if = http.post(f"/models/{model}/what-if", json={"X": X[:2].tolist(), "remove": {"oldest": 1}})
    assert what_if.json()["certificate"]["approximation"]["components"] == 12
    assert http.post(f"/models/{model}/update", json={"change": {"components": 30}}).json()["resolved"]
    whole = http.post(f"/models/{model}/update", json={"change": {"components": None}})
    assert whole.status_code == 200, whole.text
    ours.change(components=None)
    decided = http.post(f"/models/{model}/predict", json={"X": X.tolist()}).json()["decision"]
    assert decided == pytest.approx(ours.decision_function(X), abs=1e-6)
    assert http.get(f"/models/{model}/certificate").json().get("approximation") is None


def test_several_classes_and_numbers(http: httpx.Client, make: Make) -> None:
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    for task, y, kind in (("svc", labels, IncrementalSVC), ("svr", X[:, 0] * X[:, 1], IncrementalSVR)):
        model = make(**SPEC, task=task)
        for part in (slice(0, 100), slice(100, 160)):
            add = {"X": X[part].tolist(), "y": y[part].tolist()}
            http.post(f"/models/{model}/update", json={"add": add}).raise_for_status()
        ours = kind(C=2.0, gamma=0.3, components=12).fit(X[:100], y[:100])
        ours.update((X[100:], y[100:]))
        found = http.post(f"/models/{model}/predict", json={"X": X.tolist()}).json()["prediction"]
        assert found == pytest.approx(ours.predict(X), abs=1e-7)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"components": 0}, "components"),
        ({"components": 10, "kernel": {"name": "sigmoid"}}, "components"),
        ({"components": 10, "task": "l2svc"}, "components"),
        ({"components": "auto", "C": 2.0}, "components"),
        ({"components": "auto", "task": "oneclass"}, "components"),
        ({"components": "some"}, "components"),
    ],
)
def test_what_has_no_components_is_refused(http: httpx.Client, more: dict[str, Any], field: str) -> None:
    answer = http.post("/models", json=more)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert http.post("/models", json={"components": 10, "id": "by-itself"}).json()["C"] == 1.0
    http.delete("/models/by-itself").raise_for_status()


def test_a_chosen_rank_is_logged_replayed_and_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "FEW_FREE", 5)
    monkeypatch.setattr(rank, "SMALLER", (60, 120))
    monkeypatch.setattr(rank, "CHEAPEST_FIRST", (30,))
    spec, log = ModelSpec(id="m", components="auto", kernel=KernelSpec(gamma=0.3)), list[bytes]()
    assert spec.C == "auto"
    live = ModelState.empty(spec, 64)

    def apply(update: Change, limits: WindowLimits = LIMITS) -> None:
        command = live.plan(update, limits, 8, time.time(), None)
        log.append(command.encode())
        live.apply(command)

    apply(Change(Batch(X[:120], Y[:120], list(range(120)))))
    found = chosen(choose(cast("Any", live.copy().estimator())), "first", is_first=True)
    apply(Change(edits=Edits(change={TUNED: found})))
    assert live.parameters["components"] == found["parameters"]["components"] == 30
    apply(Change(Batch(X[120:], Y[120:]), Removal(oldest=10)))
    replayed, cold = ModelState.empty(spec, 64), ModelState.empty(spec, 64)
    for record in log:
        replayed.apply(Command.decode(record))
        cold.apply_cold(Command.decode(record))
    again = ModelState.decode(spec, 64, live.encode())
    for state in (replayed, again):
        np.testing.assert_array_equal(decisions(state), decisions(live))
    np.testing.assert_allclose(decisions(cold), decisions(live), atol=1e-7)
    whole = {**found, "parameters": found["parameters"] | {"components": None}}
    with pytest.raises(InvalidInput, match="without components"):
        apply(Change(edits=Edits(change={TUNED: whole})), WindowLimits(100, 10**4))
    live.forget([20, 21])
    never = ModelState.empty(spec, 64)
    stay = [*range(10, 20), *range(22, 160)]
    never.apply(never.plan(Change(Batch(X[stay], Y[stay])), LIMITS, 8, time.time(), None))
    never._tune_afresh(Outcome(never.sizes))
    assert live.parameters == never.parameters
    np.testing.assert_allclose(decisions(live), decisions(never), atol=1e-7)


@pytest.mark.parametrize("kind", ["two classes", "four classes", "one class", "pu", "pu batch"])
def test_a_retraining_chooses_landmarks_by_the_window(service: ServiceProcess, make: Make, kind: str) -> None:
    make_own, y, spec = OF_KIND[kind.removesuffix(" batch")]
    asked = {"solver": "batch"} if kind.endswith("batch") else {}

    def targets(at: slice) -> Any:
        return None if y is None else y[at].tolist()

    model = make(**spec)
    with Client(service.url) as client:
        client.update(model, X[:100].tolist(), targets(slice(100)))
        client.update(model, X[100:].tolist(), targets(slice(100, 160)), remove={"oldest": 80})
        before, version = client.predict(model, X.tolist()), client.model(model)["version"]
        job = client.wait(client.retrain(model, hold_out=0.1, **asked)["id"])
        assert job["state"] == "done", job
        assert 0.0 <= job["result"]["held_back"]["error"] <= 1.0
        client.update(model, X[:5].tolist(), targets(slice(5)))
        client.apply(job["id"])
        proof = client.certificate(model)
        assert (proof["approximation"]["components"], proof["relative_gap"] < 1e-6) == (12, True)
        shown = client.model(model)
        assert (shown["components"], shown["n_features"], shown["kernel"]["name"]) == (12, 3, "rbf")
        if not kind.startswith("pu"):  # its prior stays, and USMO keeps the map
            anew = make_own().fit(X[80:], targets(slice(80, 160)))
            anew.update((X[:5], targets(slice(5))))
            found = client.predict(model, X.tolist())["decision"]
            np.testing.assert_allclose(found, anew.decision_function(X), atol=1e-6)
        else:
            client.update(model, change={"lam": 0.01})
        client.restore(model, version)
        np.testing.assert_allclose(client.predict(model, X.tolist())["decision"], before["decision"], atol=1e-9)


def test_a_model_chooses_its_rank(service: ServiceProcess, make: Make) -> None:
    model = make(C=None, components="auto", kernel={"name": "rbf", "gamma": 0.3})
    with Client(service.url) as client:
        assert (client.model(model)["C"], client.model(model)["components"]) == (1.0, None)
        client.update(model, X, Y)
        deadline = time.monotonic() + 60.0
        while (shown := client.model(model))["tuning"]["chosen"] is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert (shown["components"], shown["tuning"]["chosen"]["parameters"]["components"]) == (None, None)
        client.update(model, change={"components": 20})
        assert client.model(model)["components"] == 20


def test_feeds_and_fleets_have_components(service: ServiceProcess) -> None:
    settings: dict[str, Any] = {**FEED, "C": 1.0, "gamma": 0.05, "represent": "level", "components": 15}
    rows = rows_of(series(80))
    with Client(service.url) as client:
        client.create_feed(id="ranked", **settings)
        client.observe("ranked", rows)
        assert client.feed("ranked")["settings"]["components"] == 15
        steps = client.feed_certificate("ranked")["steps"]
        assert {step["approximation"]["components"] for step in steps} == {15}
        assert max(step["relative_gap"] for step in steps) < 1e-8
        assert [step["step"] for step in client.feed_drift("ranked")["steps"]] == settings["steps"]
        client.update_feed("ranked", [{"step": 1, "keep": 30, "C": 0.5}])
        done = client.wait(client.backtest("ranked")["id"])
        assert done["state"] == "done", done
        client.delete_feed("ranked")
        client.create_feed(id="ranked", **settings)
        client.observe("ranked", rows)
        client.create_fleet(id="ranks", **settings)
        client.observe_fleet("ranks", [{**row, "series": name} for name in "ab" for row in rows])
        alone = {one["step"]: one["value"] for one in client.forecast("ranked")["forecasts"]}
        found = client.fleet_forecast("ranks")
        assert [one["value"] for one in found] == [alone[one["step"]] for one in found]
        assert len(found) == 2 * len(alone)
        client.delete_feed("ranked")
        client.delete_fleet("ranks")


def test_it_is_tuned(service: ServiceProcess, make: Make) -> None:
    model = make(**SPEC)
    with Client(service.url) as client:
        client.update(model, X, Y)
        job = client.wait(client.tune_model(model, folds=3, gammas=[0.05, 0.3], C=(0.1, 10.0))["id"])
        assert job["state"] == "done", job
        client.apply(job["id"])
        shown, found = client.model(model), job["result"]["parameters"]
        assert (shown["C"], shown["gamma"], shown["components"]) == (found["C"], found["gamma"], 12)
        anew = IncrementalSVC(components=12, **found).fit(X, Y)
        decided = client.predict(model, X.tolist())["decision"]
        assert decided == pytest.approx(anew.decision_function(X), abs=1e-7)
