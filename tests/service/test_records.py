"""The record of a hosted model: on every way of an update, in snapshots, after restores and erasures, over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.client import Client
from livesvm.service.history.replay import together
from livesvm.service.models.commands import Command
from livesvm.service.models.published import ModelRecord
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.window import WindowLimits
from livesvm.service.store import codec
from livesvm.solvers import IncrementalSVC
from livesvm.solvers.models.change import Batch, Change, Edits
from tests.service.conftest import Make
from tests.service.process import ServiceProcess

LIMITS = WindowLimits(10**6, 100, 50, None)
SPEC: dict[str, Any] = {"C": 2.0, "kernel": {"name": "rbf", "gamma": 0.5}}
RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 2))
VALUES = X[:, 0] + 0.4 * RNG.normal(size=120)
Y = {"svc": np.where(VALUES > 0, 1, -1), "svr": VALUES}


def hosted(task: str = "svc", **more: Any) -> ModelState:
    return ModelState.empty(ModelSpec(id="m", task=task, **SPEC, **more), 10)


def planned(state: ModelState, part: slice, edits: Edits | None = None) -> Command:
    update = Change(Batch(X[part], Y[state.spec.task][part]), edits=edits)
    return state.plan(update, LIMITS, 10, float(part.start), None)


def taught(state: ModelState, *ends: int) -> list[Command]:
    """Have a model learn the examples up to each end; return the commands."""
    commands = []
    for start, end in zip((0, *ends), ends, strict=False):
        commands.append(planned(state, slice(start, end)))
        state.apply(commands[-1])
    return commands


def record_of(state: ModelState) -> Any:
    assert state.estimator.record is not None
    return state.estimator.record.shown()


@pytest.mark.parametrize("task", ["svc", "svr"])
def test_a_record_is_the_same_on_each_way_of_an_update_and_in_a_snapshot(task: str) -> None:
    state, cold = hosted(task), hosted(task)
    taught(state, 40, 41, 45)
    taught(cold, 40, 41, 45)
    again = ModelState.decode(state.spec, 10, state.encode())
    assert again.encode() == state.encode()
    for one in (state, again):
        one.apply(planned(one, slice(45, 80)))
    cold.apply_cold(planned(cold, slice(45, 80)))
    for other in (again, cold):
        for name in ("n", "error", "naive_error"):
            assert record_of(other)[name] == pytest.approx(record_of(state)[name], rel=1e-6)
        assert record_of(other)["confusion"] == record_of(state)["confusion"]
    cold.apply(planned(cold, slice(80, 81)))
    state.apply(planned(state, slice(80, 81)))
    assert record_of(cold)["naive_error"] == pytest.approx(record_of(state)["naive_error"])


def test_updates_replayed_together_are_all_in_the_record() -> None:
    one, other = hosted(), hosted()
    commands = taught(one, 30, 60, 100)  # the window has 50: some come and leave
    other.apply(commands[0])
    other.apply_together(commands[1:], together(commands[1:]))
    assert record_of(other)["n"] == record_of(one)["n"] == 70
    told = IncrementalSVC(C=2.0, gamma=0.5).fit(X[:30], Y["svc"][:30]).predict(X[30:100])
    assert record_of(other)["error"] == np.mean(told != Y["svc"][30:100])
    for state in (one, other):
        state.apply(planned(state, slice(100, 110)))
    assert record_of(other)["n"] == record_of(one)["n"] == 80


def test_a_choice_of_parameters_keeps_the_record_and_an_erasure_begins_it_again() -> None:
    state = hosted()
    taught(state, 40, 60)
    before = record_of(state)
    for change in ({"fit_intercept": False}, {"kernel": "laplacian"}):
        state.apply(state.plan(Change(edits=Edits(change=change)), LIMITS, 10, 90.0, None))
        assert record_of(state) == before
    state.forget([next(iter(state.window.arrivals))])
    assert record_of(state)["n"] == 0
    state.apply(planned(state, slice(60, 61)))
    assert record_of(state)["n"] == 1


def test_an_older_snapshot_and_a_model_without_a_record_go_on() -> None:
    state = hosted()
    taught(state, 40, 60)
    document = codec.decode(state.encode())
    del document["arrays"]["record"]
    old = ModelState.of(state.spec, 10, document)
    old.apply(planned(old, slice(60, 64)))
    assert record_of(old)["n"] == 4
    none = hosted(record=False)
    taught(none, 40, 60)
    assert "record" not in codec.decode(none.encode())["arrays"]
    assert none.published().record is None


def test_a_model_at_rest_is_described_with_its_record() -> None:
    state = hosted()
    taught(state, 40, 60)
    kept = codec.decode(codec.encode(state.published().document()))
    known = ModelRecord.in_document(kept)
    assert known["record"].shown() == record_of(state)
    assert ModelRecord.in_document({name: kept[name] for name in kept if name != "record"})["record"] is None


def test_a_record_over_rest_is_what_predict_said(http: httpx.Client, make: Make) -> None:
    model, told = make(**SPEC), []
    for start, end in ((0, 40), (40, 50), (50, 51), (51, 80)):
        rows, y = X[start:end].tolist(), Y["svc"][start:end].tolist()
        if start:
            told += http.post(f"/models/{model}/predict", json={"X": rows}).json()["prediction"]
        http.post(f"/models/{model}/update", json={"add": {"X": rows, "y": y}}).raise_for_status()
    found = http.get(f"/models/{model}").json()["record"]
    given = Y["svc"][40:80].tolist()
    assert (found["n"], found["loss"]) == (40, "share of wrong labels")
    assert found["error"] == np.mean(np.array(told) != given)
    pairs = {(one["label"], one["predicted"]): one["n"] for one in found["confusion"]}
    assert pairs == {two: n for two in pairs if (n := list(zip(given, told, strict=True)).count(two))}
    assert sum(part["n"] for part in found["history"]) == 40
    metrics = dict(line.rsplit(" ", 1) for line in http.get("/metrics").text.splitlines() if line[:1] != "#")
    lately = {"error": found["lately"]["error"], "naive_error": found["lately"]["naive_error"], "predicted": 40}
    told_there = {name: float(metrics[f'livesvm_model_{name}_before_learning{{model="{model}"}}']) for name in lately}
    assert told_there == pytest.approx(lately)
    other = make(**SPEC, record=False)
    http.post(f"/models/{other}/update", json={"add": {"X": rows, "y": y}}).raise_for_status()
    assert http.get(f"/models/{other}").json()["record"] is None


def test_a_record_is_there_after_a_crash_and_that_of_a_version_after_its_restore(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as process:
        with Client(process.url) as client:
            client.create_model("m", **SPEC)
            found = []
            for start in range(0, 60, 20):
                client.update("m", X[start : start + 20], Y["svc"][start : start + 20])
                found.append(client.model("m")["record"])
            client.update("m", X[60:61], Y["svc"][60:61])
            found.append(client.model("m")["record"])
        process.kill()
        process.start()
        with Client(process.url) as client:
            assert client.model("m")["record"]["n"] == 41
            client.restore("m", 2)
            assert client.model("m")["record"] == found[1]
