"""Models that tune themselves over REST: what they choose and when, what is kept of it, and what erasures leave."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client, ServiceProblem
from livesvm.service.hosting import choice
from livesvm.service.models.commands import Command, Removal
from livesvm.service.models.self_tuning import TuningSchedule, chosen
from livesvm.service.models.spec import KernelSpec, ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.table_rows import checked
from livesvm.service.models.window import WindowLimits
from livesvm.solvers import IncrementalPUClassifier, IncrementalSVC
from livesvm.solvers.analyses.tuning.automatic import TunedParameters, choose
from livesvm.solvers.models.change import TUNED, Batch, Change, Edits
from livesvm.solvers.runtime.interrupt import check
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.service.test_tables_rest import customers
from tests.support.erasing import keeping
from tests.support.live_models import FailingStore, alive, predicted

RNG = np.random.default_rng(5)
X = RNG.normal(size=(400, 4))
Y = np.where((X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4), 1, -1)
SECONDS = 60.0


def add(http: httpx.Client, model: str, start: int, stop: int, **more: Any) -> dict[str, Any]:
    body = {"add": {"X": X[start:stop].tolist(), "y": Y[start:stop].tolist(), "keys": [*range(start, stop)]}, **more}
    answer = http.post(f"/models/{model}/update", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def tuned(http: httpx.Client, model: str, version: int = 0) -> dict[str, Any]:
    """Return the description of a model once it has chosen, as a version after this one."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = http.get(f"/models/{model}").json()
        if (chosen := found["tuning"]["chosen"]) is not None and chosen["version"] > version:
            return dict(found)
        time.sleep(0.05)
    raise AssertionError(f"{model} has chosen nothing")


def test_a_model_without_parameters_tunes_itself(http: httpx.Client, make: Make) -> None:
    model = make(C=None, scale="standard")
    described = http.get(f"/models/{model}").json()
    assert (described["C"], described["tuning"]) == (1.0, {"chosen": None, "n_since": 0})
    first = add(http, model, 0, 39)
    assert first["tuning"] == {"chosen": None, "n_since": 39}
    add(http, model, 39, 100)
    found = tuned(http, model)
    chosen = found["tuning"]["chosen"]
    assert (chosen["reason"], chosen["n_examples"], chosen["version"], found["version"]) == ("first", 100, 3, 3)
    assert chosen["loss"] <= min(chosen["present"], chosen["defaults"])
    assert (found["C"], found["gamma"]) == (chosen["parameters"]["C"], chosen["parameters"]["gamma"])
    assert http.get(f"/models/{model}/certificate").json()["relative_gap"] < 1e-8
    recent = http.get(f"/models/{model}/recent").json()["updates"]
    assert [one["action"] for one in recent] == ["tune", "update", "update"]
    answer = add(http, model, 100, 101)
    assert answer["tuning"]["chosen"]["version"] == 3
    assert answer["tuning"]["n_since"] == 1


@pytest.mark.parametrize(
    ("spec", "C"),
    [
        ({"C": 1.0}, 1.0),
        ({"C": None, "kernel": {"gamma": "scale"}}, 1.0),
        ({"C": None, "kernel": {"name": "linear"}}, 1.0),
    ],
)
def test_a_model_with_parameters_keeps_them(http: httpx.Client, make: Make, spec: Any, C: float) -> None:
    found = http.get(f"/models/{make(**spec)}").json()
    assert (found["C"], found["tuning"]) == (C, None)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"C": "auto", "kernel": {"name": "linear"}}, "C"),
        ({"C": "auto", "task": "l2svc"}, "C"),
        ({"C": "best"}, "C"),
        ({"task": "svr", "epsilon": "auto", "C": 1.0}, "epsilon"),
    ],
)
def test_what_cannot_be_chosen_is_refused(http: httpx.Client, body: Any, field: str) -> None:
    refused = http.post("/models", json=body)
    assert (refused.status_code, refused.json()["field"].split(".")[0]) == (422, field), refused.text


def test_numbers_that_are_given_stay_and_end_the_tuning(http: httpx.Client, make: Make) -> None:
    model = make(task="svr", C="auto", kernel={"gamma": 0.5})
    body = {"add": {"X": X[:80].tolist(), "y": (0.1 * X[:80, 0]).tolist()}}
    http.post(f"/models/{model}/update", json=body).raise_for_status()
    found = tuned(http, model)
    assert found["gamma"] == 0.5
    assert 0 < found["epsilon"] < 0.1
    epsilon = found["epsilon"]
    given = http.post(f"/models/{model}/update", json={"C": 3.0}).json()
    assert "tuning" not in given
    found = http.get(f"/models/{model}").json()
    assert (found["C"], found["gamma"], found["epsilon"], found["tuning"]) == (3.0, 0.5, epsilon, None)
    again = http.post(f"/models/{model}/update", json={"change": {"C": "auto", "epsilon": "auto"}})
    assert again.status_code == 200, again.text
    assert http.get(f"/models/{model}").json()["tuning"] is not None


def test_a_tuning_that_is_asked_for_is_a_job(service: ServiceProcess, make: Make) -> None:
    model = make(C=None, scale="standard")
    with Client(service.url) as client, service.http() as http:
        add(http, model, 0, 60)
        tuned(http, model)
        add(http, model, 60, 110)
        done = client.wait(client.tune_model(model)["id"])
        assert (done["state"], done["result"]["judge"], done["result"]["n_examples"]) == ("done", "evidence", 110)
        assert done["result"]["loss"] <= min(done["result"]["present"], done["result"]["defaults"])
        applied = client.apply(done["id"])
        assert applied["tuning"]["chosen"]["reason"] == "asked"
        assert client.model(model)["tuning"]["chosen"]["version"] == applied["version"]
        assert client.certificate(model)["relative_gap"] < 1e-8
        by_folds = client.wait(client.tune_model(model, folds=2, gammas=[0.1, 1.0])["id"])
        late = client.tune_model(model)
        client.apply(by_folds["id"])
        assert client.model(model)["tuning"] is None  # numbers were given
        with pytest.raises(ServiceProblem, match="tune itself"):
            client.apply(client.wait(late["id"])["id"])
        with pytest.raises(ServiceProblem, match="tune themselves"):
            client.tune_model(model, judge="evidence")


def test_a_restored_version_has_its_own_parameters(http: httpx.Client, make: Make) -> None:
    model = make(C=None, scale="standard")
    add(http, model, 0, 50)
    before = tuned(http, model)
    http.post(f"/models/{model}/update", json={"change": {"C": 7.0}}).raise_for_status()
    http.post(f"/models/{model}/restore", json={"version": before["version"]}).raise_for_status()
    found = http.get(f"/models/{model}").json()
    assert [found[name] for name in ("C", "gamma", "tuning")] == [before[name] for name in ("C", "gamma", "tuning")]


def test_nothing_of_the_future_decides(http: httpx.Client, make: Make) -> None:
    """A marker: rows to be predicted have a column that tells everything; it is noise in the window."""
    rows, y = customers(160)
    noise = RNG.normal(size=160)
    marked = [{**row, "marker": float(one)} for row, one in zip(rows, noise, strict=True)]
    future = [{**row, "marker": 1e6 if label == "stays" else -1e6, "plan": f"plan {label}"}
              for row, label in zip(rows[100:], y[100:], strict=True)]  # fmt: skip
    asked, alone = (make(C=None, columns="auto") for _ in range(2))
    for model in (asked, alone):
        body = {"add": {"rows": marked[:100], "y": y[:100]}}
        http.post(f"/models/{model}/update", json=body).raise_for_status()
        if model == asked:
            http.post(f"/models/{model}/predict", json={"rows": future}).raise_for_status()
            http.post(f"/models/{model}/what-if", json={"rows": future, "decay": 0.9}).raise_for_status()
    found = [tuned(http, model) for model in (asked, alone)]
    for name in ("C", "gamma", "columns"):
        assert found[0][name] == found[1][name]
    for name in ("parameters", "loss", "present", "defaults"):
        assert found[0]["tuning"]["chosen"][name] == found[1]["tuning"]["chosen"][name]
    answers = [http.post(f"/models/{model}/predict", json={"rows": marked}).json() for model in (asked, alone)]
    assert answers[0]["decision"] == answers[1]["decision"]
    marker = next(one for one in found[0]["columns"] if one["name"] == "marker")
    assert marker["relevance"] < 0.1


def test_an_alarm_of_drift_is_a_reason_to_choose_again(store: FailingStore) -> None:
    live: Any = alive(store, store.create("m", b""), OPEN, tune_share=1000.0)
    live.update(some(0, 60), None).result()
    first = until_chosen(live)
    state = live.current
    state.watch_by(0.01)
    state.watch.raised = {"version": state.version + 1}  # of the next examples
    live.update(some(60, 61), None).result()
    again = until_chosen(live, first["version"])
    assert (again["reason"], again["n_examples"]) == ("drift", 61)
    live.stop()


@pytest.fixture(params=["sqlite", "redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with keeping(request.param, tmp_path) as found:
        yield found


def test_lam_is_chosen_again_survives_a_kill_and_is_chosen_without_what_is_erased(kept: Any) -> None:
    s = ((Y == 1) & (np.arange(400) % 3 == 0)).astype(int)
    with kept[0] as service, Client(service.url) as client, service.http() as http:
        client.create_model("m", task="pu", prior=0.4, kernel={"gamma": 0.5})
        client.update("m", X[:20], s[:20], keys=[*range(20)])
        first = client.model("m")
        assert first["tuning"] == {"chosen": None, "n_since": 20}
        client.update("m", X[20:200], s[20:200], keys=[*range(20, 200)])
        before = tuned(http, "m")
        found = before["tuning"]["chosen"]
        assert (found["reason"], found["version"], found["n_examples"]) == ("first", 3, 200)
        assert found["loss"] <= min(found["present"], found["defaults"])
        assert before["lam"] == found["parameters"]["lam"] != first["lam"]
        assert before["C"] == pytest.approx(0.5 / before["lam"])
        assert http.get("/models/m/recent").json()["updates"][0]["action"] == "tune"
        counted = 'livesvm_tunings_total{reason="first",task="pu"} 1.0'
        assert counted in http.get("/metrics").text.splitlines()
        again = IncrementalPUClassifier(0.4, before["lam"], gamma=0.5).fit(X[:200], s[:200])
        assert client.predict("m", X)["decision"] == pytest.approx(again.decision_function(X), abs=1e-6)
        service.kill()
    with kept[0] as service, Client(service.url) as client:
        found = client.model("m")
        for name in ("C", "lam", "prior", "tuning", "version"):
            assert found[name] == before[name]
        assert client.predict("m", X)["decision"] == pytest.approx(again.decision_function(X), abs=1e-6)
        client.erase("m", [3, 4])
        found, stay = client.model("m"), np.setdiff1d(np.arange(200), [3, 4])
        again = IncrementalPUClassifier(0.4, gamma=0.5).fit(X[stay], s[stay])
        assert found["tuning"]["chosen"]["reason"] == "erased"
        assert found["lam"] == again.lam_
        client.update("m", C=30.0)
        assert client.model("m")["tuning"] is None


@pytest.mark.parametrize("components", [None, 15])
def test_what_was_chosen_comes_back_and_holds_nothing_of_what_is_erased(kept: Any, components: int | None) -> None:
    """Of a table: encodings, relevances, C and gamma come back after a kill, and are chosen without what is erased."""
    rows, y = customers(120)
    with kept[0] as service, Client(service.url) as client, service.http() as http:
        client.create_model("m", columns="auto", C="auto", components=components)
        client.update("m", rows, y, keys=[f"c{at}" for at in range(120)])
        before = tuned(http, "m")
        decision = client.predict("m", rows[:20])["decision"]
        service.kill()
    with kept[0] as service, Client(service.url) as client:
        found = client.model("m")
        for name in ("C", "gamma", "columns", "tuning", "version"):
            assert found[name] == before[name]
        assert client.predict("m", rows[:20])["decision"] == pytest.approx(decision, abs=1e-9)
        client.erase("m", ["c3", "c4"])
        found = client.model("m")
        chosen = found["tuning"]["chosen"]
        page = client.examples("m")["examples"]
        fresh = IncrementalSVC(columns="auto", components=components)
        ours = choose(fresh.fit([one["x"] for one in page], [one["y"] for one in page]))
        assert chosen["reason"] == "erased"
        assert chosen["parameters"] == {name: ours.parameters[name] for name in ("C", "gamma")}
        assert found["columns"] == ours.parameters["columns"]
        assert [chosen[name] for name in ("loss", "present", "defaults")] == [ours.loss, ours.present, ours.defaults]
        client.erase("m", [one["key"] for one in page[:100]])
        found = client.model("m")
        assert (found["C"], found["tuning"]["chosen"]) == (1.0, None)  # too few are left to choose by
        assert {one["relevance"] for one in found["columns"]} == {1.0}


@pytest.mark.parametrize("C", ["auto", 3.0])
def test_rows_that_come_one_by_one_are_a_table_too(C: Any, tmp_path: Path) -> None:
    """The first row says nothing of its columns; what they are made of is fitted again as rows become more."""
    rows, y = customers(150)
    with ServiceProcess(tmp_path) as service, Client(service.url) as client, service.http() as http:
        client.create_model("m", columns="auto", C=C)
        for at in range(40):
            client.update("m", rows[at : at + 1], y[at : at + 1])
        before = tuned(http, "m") if C == "auto" else client.model("m")
        recent = http.get("/models/m/recent").json()["updates"]
        fitted = [one["n_examples"] for one in reversed(recent) if one["action"] != "update"]
        assert fitted == [2, 4, 8, 16, 32] + [40] * (C == "auto")
        right = [found == label for found, label in zip(client.predict("m", rows)["prediction"], y, strict=True)]
        assert np.mean(right) > 0.7
        service.kill()
    with ServiceProcess(tmp_path) as service, Client(service.url) as client:
        decision = client.predict("m", rows)["decision"]
        for name in ("C", "gamma", "columns", "tuning", "version"):
            assert client.model("m")[name] == before[name]
        ours = IncrementalSVC(C=before["C"], gamma=before["gamma"], columns=before["columns"])
        ours.fit(rows[:40] if C == "auto" else rows[:32], y[:40] if C == "auto" else y[:32])
        ours.update(None if C == "auto" else (rows[32:40], y[32:40]))
        assert decision == pytest.approx(ours.decision_function(rows), abs=1e-6)


@pytest.mark.alone(reason="crash points end an actor alone")
@pytest.mark.parametrize("point", ["before-log", "after-log"])
def test_a_kill_while_a_choice_is_logged_loses_and_doubles_nothing(point: str, tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, crash_at=f"{point}:2") as service, service.http() as http:
        http.post("/models", json={"id": "m"}).raise_for_status()
        add(http, "m", 0, 50)
        assert service.wait() == -9
    with ServiceProcess(tmp_path) as service, service.http() as http:
        http.get("/models/m/certificate").raise_for_status()  # it wakes, and chooses where that was lost
        found = tuned(http, "m")
        assert (found["version"], found["tuning"]["chosen"]["version"], found["n_examples"]) == (2, 2, 50)
        assert found["C"] == found["tuning"]["chosen"]["parameters"]["C"]
        assert add(http, "m", 50, 51)["version"] == 3


# -- in this process ---------------------------------------------------------------------------------------------------

OPEN = ModelSpec(id="m")
GIVEN_GAMMA = ModelSpec(id="m", C="auto", kernel=KernelSpec(gamma=0.5))
LIMITS = WindowLimits(10**6, 10**4)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Have choices wait until ``opened``, once they have ``begun``."""
    both = SimpleNamespace(begun=threading.Event(), opened=threading.Event())

    def waiting(model: Any) -> TunedParameters:
        both.begun.set()
        assert both.opened.wait(SECONDS)
        return choose(model)

    monkeypatch.setattr(choice, "choose", waiting)
    yield both
    both.opened.set()


def some(start: int, stop: int) -> Change:
    return Change(Batch(X[start:stop], Y[start:stop].astype(float), [*range(start, stop)]))


def until_chosen(live: Any, version: int = 0) -> dict[str, Any]:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if (found := live.published.tuning["chosen"]) is not None and found["version"] > version:
            return dict(found)
        time.sleep(0.01)
    raise AssertionError("nothing was chosen")


@pytest.fixture
def live(store: FailingStore) -> Iterator[Any]:
    made = alive(store, store.create("m", b""), OPEN)
    yield made
    made.stop()


def test_what_changes_meanwhile_is_kept(live: Any, gate: SimpleNamespace) -> None:
    live.update(some(0, 60), None).result()
    assert gate.begun.wait(SECONDS)
    live.update(some(60, 90), None).result()
    relabel = Edits(relabel={3: -Y[3].astype(float)}, decay=0.9)
    live.update(Change(remove=Removal(oldest=2), edits=relabel), None).result()
    assert live.published.version == 3
    gate.opened.set()
    found = until_chosen(live)
    assert (found["version"], found["n_examples"]) == (4, 60)
    state = live.copy().result()
    assert list(state.window.arrivals) == [*range(2, 90)]
    fresh = IncrementalSVC(C=found["parameters"]["C"], gamma=found["parameters"]["gamma"])
    y = Y[2:90].astype(float)
    y[1] = -y[1]
    fresh.fit(X[2:90], y, sample_weight=np.where(np.arange(2, 90) < 90, 0.9, 1.0))
    np.testing.assert_allclose(predicted(live, X[:50]).decision, fresh.decision_function(X[:50]), atol=1e-6)


@pytest.mark.parametrize(
    "edits", [Edits(C=3.0), Edits(change={"kernel": "linear"}), Edits(change={"gamma": 0.3}), Edits(change={"C": 2.0})]
)
def test_a_choice_for_other_parameters_is_dropped(live: Any, gate: SimpleNamespace, edits: Edits) -> None:
    live.update(some(0, 60), None).result()
    assert gate.begun.wait(SECONDS)
    live.update(Change(edits=edits), None).result()
    before = predicted(live, X[:20])
    gate.opened.set()
    live.context.tuners.shutdown()
    live.checkpoint().result()
    assert predicted(live, X[:20]).version == before.version == 2
    np.testing.assert_array_equal(predicted(live, X[:20]).decision, before.decision)


def test_a_model_that_stops_waits_for_no_choice(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(model: Any) -> TunedParameters:
        begun.set()
        try:
            while True:
                check()
                time.sleep(0.01)
        finally:
            ended.set()

    monkeypatch.setattr(choice, "choose", endless)
    live.update(some(0, 60), None).result()
    assert begun.wait(SECONDS)
    live.stop()
    assert ended.wait(SECONDS)


def test_a_window_that_cannot_be_judged_by_is_tried_again_later(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def counted(model: Any) -> TunedParameters:
        tried.append(model.n_window_)
        return choose(model)

    monkeypatch.setattr(choice, "choose", counted)
    for start in range(0, 100, 10):
        y = np.where(np.arange(start, start + 10) == 0, -1.0, 1.0)
        live.update(Change(Batch(X[start : start + 10], y, [*range(start, start + 10)])), None).result()
        live.context.tuners.submit(int).result()  # after a choice that was begun
        live.checkpoint().result()
    assert tried == [40, 80]
    assert live.published.tuning["chosen"] is None


def tuned_command(state: ModelState, **parameters: Any) -> Command:
    """Return what a choice is logged as; some parameters are others than those found."""
    estimator: Any = state.estimator
    found = chosen(choose(estimator), "first", is_first=True)
    found["parameters"] |= parameters
    return state.plan(Change(edits=Edits(change={TUNED: found})), LIMITS, 8, 0.0, None)


OF_RANK: dict[str, Any] = {"id": "m", "C": "auto", "components": 15}


@pytest.mark.parametrize(
    "spec",
    [
        *(OPEN, GIVEN_GAMMA, ModelSpec(id="m", columns="auto"), ModelSpec(id="m", task="svr")),
        *(ModelSpec(**(OF_RANK | more)) for more in ({}, {"columns": "auto"}, {"task": "svr", "components": 60})),
    ],
)
def test_a_replayed_choice_leads_to_the_same_model(spec: ModelSpec) -> None:
    log = list[bytes]()
    rows, labels = customers(100)
    given: Any = checked(rows) if spec.columns else X[:100]
    y: Any = np.array(labels) if spec.columns else np.sin(2 * X[:100, 0]) if spec.task == "svr" else Y[:100] * 1.0
    live = ModelState.empty(spec, 64)

    def take(command: Command) -> Any:
        log.append(command.encode())
        return live.apply(Command.decode(log[-1]))

    take(live.plan(Change(Batch(given, y)), LIMITS, 8, 0.0, None))
    outcome = take(tuned_command(live, **{"C": 1.2} if spec is GIVEN_GAMMA else {}))
    assert outcome.more["resolved"] == (spec is not GIVEN_GAMMA)
    if spec is GIVEN_GAMMA:
        assert outcome.events > 0  # C moved along its path
    take(live.plan(Change(Batch(given, y), Removal(oldest=50)), LIMITS, 8, 0.0, None))
    take(live.plan(Change(edits=Edits(C=2.0)), LIMITS, 8, 0.0, None))
    replayed, cold = ModelState.empty(spec, 64), ModelState.empty(spec, 64)
    for record in log:
        replayed.apply(Command.decode(record))
        cold.apply_cold(Command.decode(record))
    again = ModelState.decode(spec, 64, live.encode())
    seen = live.published()
    shown = [seen.decide(spec, seen.checked(spec, given, 1000))[0]]
    for state in (replayed, cold, again):
        other = state.published()
        np.testing.assert_allclose(other.decide(spec, seen.checked(spec, given, 1000))[0], shown[0], atol=1e-7)
        assert state.parameters == live.parameters
        assert (state.C, state.gamma, state.tuning.last) == (live.C, live.gamma, live.tuning.last)
        assert state.changed == live.changed


def test_when_a_choice_is_due() -> None:
    tuning = TuningSchedule()
    assert [tuning.due(n, 100, None, 0.2) for n in (39, 40)] == [None, "first"]
    tuning.take({"n_examples": 40, "seconds": 1.0}, 2, 0.0)
    assert tuning.choices == 0.0  # the first is free
    for seconds, due in ((4.9, None), (10.0, "doubled")):
        tuning.updates = seconds
        assert tuning.due(80, None, None, 0.2) == due
    assert tuning.due(79, None, None, 0.2) is None
    assert tuning.due(50, 50, None, 0.2) == "full"
    assert tuning.due(50, None, 3, 0.2) == "drift"
    assert tuning.due(50, None, 1, 0.2) is None  # that was before
    tuning.came(50)
    assert tuning.due(50, None, None, 0.2) == "renewed"
    tuning.refused(50)
    assert tuning.due(50, None, 3, 0.2) is None
    tuning.came(40)
    tuning.take({"n_examples": 50, "seconds": 1.5}, 4, 0.0)
    assert (tuning.choices, tuning.since) == (1.5, 0)
    tuning.updates = 14.9  # of which 1.5 seconds are gone, and another choice takes 1.5 again
    assert tuning.due(50, None, 5, 0.2) is None
    tuning.updates = 15.1
    assert tuning.due(50, None, 5, 0.2) == "drift"
