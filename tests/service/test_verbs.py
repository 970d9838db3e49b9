"""Relabel, reweight, decay and C over REST: the library's path, whole or not at all, logged and replayed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client
from livesvm.service.models.commands import Command
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.window import WindowLimits
from livesvm.solvers import IncrementalSVC
from livesvm.solvers.models.change import Batch, Change, Edits
from tests.service.conftest import Make
from tests.service.process import ServiceProcess, blobs

PROBE = np.random.default_rng(1).normal(size=(25, 3))


def filled(client: Client, model: str) -> IncrementalSVC:
    """Thirty examples with keys 0 to 29 in the model, and in the library's."""
    X, y = blobs(np.random.default_rng(2), 30)
    client.update(model, X, y, weights=np.linspace(0.5, 2.0, 30))
    library = IncrementalSVC(C=5.0, gamma=0.4, classes=(-1, 1))
    library.update(add=(X, y), sample_weight=np.linspace(0.5, 2.0, 30))
    return library


VERBS: dict[str, dict[str, Any]] = {
    "relabel": {"relabel": {3: 1.0, 7: -1.0, 8: 1.0}},
    "reweight": {"reweight": {0: 0.0, 5: 7.5}},
    "decay": {"decay": 0.9},
    "C up": {"C": 50.0},
    "C down": {"C": 0.2},
    "all": {"relabel": {3: -1.0}, "reweight": {3: 4.0, 9: 0.5}, "decay": 0.5, "C": 2.0},
}


@pytest.mark.parametrize("case", VERBS)
def test_a_verb_equals_the_library(case: str, make: Make, service: ServiceProcess) -> None:
    model = make(C=5.0, kernel={"name": "rbf", "gamma": 0.4})
    X, y = blobs(np.random.default_rng(8), 4)
    with Client(service.url) as client:
        library = filled(client, model)
        report = library.update(add=(X, y), remove=[0, 1] if case == "all" else None, **VERBS[case])
        removal = {"keys": [0, 1]} if case == "all" else None
        answer = client.update(model, X, y, remove=removal, **VERBS[case])
        assert (answer["changed"], answer["events"]) == (report.changed, report.events)
        found = client.predict(model, PROBE)["decision"]
        np.testing.assert_allclose(found, library.decision_function(PROBE), rtol=1e-12, atol=1e-12)
        assert client.certificate(model)["relative_gap"] <= 1e-8
        assert client.model(model)["C"] == VERBS[case].get("C", 5.0)


@pytest.mark.alone
def test_verbs_are_replayed_after_a_kill_with_and_without_a_snapshot(tmp_path: Path) -> None:
    process = ServiceProcess(tmp_path)
    with process, Client(process.url) as client:
        client.create_model("m", C=5.0, kernel={"name": "rbf", "gamma": 0.4})
        client.create_model("empty", C=5.0)
        client.update("empty", C=3.0, decay=0.5)
        filled(client, "m")
        client.update("m", C=9.0, decay=0.8)
        client.checkpoint("m")
        first = client.update("m", relabel={4: 1.0}, reweight={5: 3.0}, C=11.0, idempotency_key="once")
        before = client.predict("m", PROBE)["decision"]
        process.kill()
    with process, Client(process.url) as client:
        assert client.model("m")["recovery"]["snapshot_version"] == 2
        assert (client.model("m")["C"], client.model("empty")["C"]) == (11.0, 3.0)
        after = client.predict("m", PROBE)["decision"]
        np.testing.assert_allclose(after, before, rtol=0, atol=1e-9)
        again = client.update("m", relabel={4: 1.0}, reweight={5: 3.0}, C=11.0, idempotency_key="once")
        assert again == first
        client.checkpoint("empty")
        process.stop()
    with process, Client(process.url) as client:
        assert client.model("empty")["C"] == 3.0
        assert not client.model("m")["awake"]
        np.testing.assert_allclose(client.predict("m", PROBE)["decision"], before, rtol=0, atol=1e-9)
        assert client.model("m")["recovery"]["replayed"] == 0


def test_training_from_nothing_reaches_the_same_optimum() -> None:
    """What recovery falls back on when a path cannot be followed again."""
    spec = ModelSpec(C=5.0)
    command = Command(
        Batch(PROBE[:4], np.array([1.0, -1.0, 1.0, -1.0]), [100, 101, 102, 103]),
        [1, 2],
        Edits({3: 1.0, 4: -1.0}, {5: 3.0}, 0.7, 8.0),
        arrived=1.0,
        next_key=104,
    )
    X, y = (np.array(part, dtype=float) for part in blobs(np.random.default_rng(2), 30))
    first = Command(Batch(X, y, list(range(30)), np.linspace(0.5, 2.0, 30)), [], arrived=0.0, next_key=30)
    warm, cold = (ModelState.empty(spec, 64) for _ in range(2))
    for state in (warm, cold):
        state.apply(first)
    warm.apply(command)
    cold.apply_cold(command)
    assert cold.C == warm.C == 8.0
    assert cold.estimator.keys_ == warm.estimator.keys_
    found, wanted = (state.estimator.predictor().decision_function(PROBE) for state in (cold, warm))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-7)


def test_edits_of_what_leaves_by_itself_have_no_effect() -> None:
    spec = ModelSpec()
    state = ModelState.empty(spec, 64)
    limits = WindowLimits(100, 10, max_examples=3)
    y = np.array([1.0, -1.0, 1.0])
    state.apply(state.window.plan(Change(Batch(PROBE[:3], y)), limits, 0.0, None))
    update = Change(Batch(PROBE[3:4], y[:1]), edits=Edits(relabel={0: -1.0, 1: 1.0}))
    command = state.window.plan(update, limits, 1.0, None)
    assert command.remove == [0]
    assert command.edits == Edits(relabel={1: 1.0})
    assert state.apply(command).changed == 1


@pytest.mark.parametrize("n", [0, 6])
def test_a_decay_by_one_is_an_update_without_effect(n: int, service: ServiceProcess, make: Make) -> None:
    model = make(C=5.0, kernel={"name": "rbf", "gamma": 0.4})
    with Client(service.url) as client:
        if n:
            client.update(model, *blobs(np.random.default_rng(2), n))
        before = client.model(model)
        answer = client.update(model, decay=1.0)
        assert (answer["version"], answer["changed"], answer["events"]) == (before["version"], 0, 0)
        after = client.model(model)
        for name in ("n_examples", "n_free", "n_bound", "relative_gap"):
            assert after[name] == answer[name] == before[name]


BAD: dict[str, tuple[dict[str, Any], str, int | None]] = {
    "unknown key": ({"relabel": {"keys": [1, 99], "y": [1, 1]}}, "relabel.keys", 1),
    "unknown weight": ({"reweight": {"keys": ["x"], "weights": [1]}}, "reweight.keys", 0),
    "also removed": ({"relabel": {"keys": [2, 1], "y": [1, 1]}, "remove": {"keys": [1]}}, "relabel.keys", 1),
    "no such label": ({"relabel": {"keys": [1, 2], "y": [1, 0.5]}}, "relabel.y", 1),
    "too few targets": ({"relabel": {"keys": [1, 2], "y": [1]}}, "relabel.y", None),
    "too many weights": ({"reweight": {"keys": [1], "weights": [1, 2]}}, "reweight.weights", None),
    "negative weight": ({"reweight": {"keys": [1, 2], "weights": [1, -1]}}, "reweight.weights", 1),
    "key twice": ({"relabel": {"keys": [1, 1], "y": [1, 1]}}, "relabel.keys", 1),
    "no targets": ({"relabel": {"keys": [1]}}, "relabel.y", None),
    "decay zero": ({"decay": 0}, "decay", None),
    "decay above 1": ({"decay": 1.01}, "decay", None),
    "C zero": ({"C": 0}, "C", None),
    "C as text": ({"C": "5"}, "C", None),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_verb_changes_nothing_of_the_whole_update(case: str, http: httpx.Client, make: Make) -> None:
    body, field, row = BAD[case]
    model = make(C=5.0)
    X, y = blobs(np.random.default_rng(2), 6)
    http.post(f"/models/{model}/update", json={"add": {"X": X, "y": y}}).raise_for_status()
    before = http.post(f"/models/{model}/predict", json={"X": X}).json()
    answer = http.post(f"/models/{model}/update", json=body)
    document = answer.json()
    assert (answer.status_code, document["field"], document.get("row")) == (422, field, row), answer.text
    assert http.post(f"/models/{model}/predict", json={"X": X}).json() == before


def test_verbs_that_a_one_class_model_lacks(http: httpx.Client, make: Make) -> None:
    model = make(task="oneclass", kernel={"name": "rbf", "gamma": 0.5})
    http.post(f"/models/{model}/update", json={"add": {"X": PROBE[:9].tolist()}}).raise_for_status()
    for body, field in (({"C": 2.0}, "C"), ({"relabel": {"keys": [0], "y": [1]}}, "relabel.y")):
        answer = http.post(f"/models/{model}/update", json=body)
        assert (answer.status_code, answer.json()["field"]) == (422, field)
    weighed = http.post(f"/models/{model}/update", json={"reweight": {"keys": [0], "weights": [2]}, "decay": 0.5})
    assert (weighed.status_code, weighed.json()["changed"]) == (200, 9)
    assert http.get(f"/models/{model}/certificate").json()["relative_gap"] <= 1e-8


def test_verbs_in_bulk_are_those_of_json(http: httpx.Client, make: Make) -> None:
    X, y = blobs(np.random.default_rng(2), 12)
    stream = io.BytesIO()
    np.savez(
        stream,
        relabel_keys=np.array([1, 2]),
        relabel_y=np.array([1.0, -1.0]),
        reweight_keys=np.array([3]),
        reweight_weights=np.array([2.5]),
        decay=np.array(0.5),
        C=np.array(7.0),
    )
    body = {
        "relabel": {"keys": [1, 2], "y": [1, -1]},
        "reweight": {"keys": [3], "weights": [2.5]},
        "decay": 0.5,
        "C": 7.0,
    }
    found = []
    for options in (
        {"content": stream.getvalue(), "headers": {"content-type": "application/x-npz", "idempotency-key": "1"}},
        {"json": body, "headers": {"idempotency-key": "1"}},
    ):
        model = make(C=5.0, kernel={"name": "rbf", "gamma": 0.4})
        http.post(f"/models/{model}/update", json={"add": {"X": X, "y": y}}).raise_for_status()
        answer = http.post(f"/models/{model}/update", **options)
        assert (answer.status_code, answer.json()["changed"]) == (200, 12)
        retried = http.post(f"/models/{model}/update", json=body, headers={"idempotency-key": "1"})
        assert retried.headers["idempotent-replayed"] == "true"
        found.append(http.post(f"/models/{model}/predict", json={"X": X}).json()["decision"])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"relabel_keys": np.array([1])}, "relabel_y"),
        ({"reweight_keys": np.array([1]), "reweight_weights": np.array([-1.0])}, "reweight_weights"),
        ({"reweight_weights": np.array([1.0])}, "reweight_keys"),
        ({"decay": np.array(0.0)}, "decay"),
        ({"C": np.array([1.0, 2.0])}, "C"),
        ({"C": np.array("5")}, "C"),
    ],
)
def test_bad_verbs_in_bulk(members: dict[str, Any], field: str, http: httpx.Client, make: Make) -> None:
    stream = io.BytesIO()
    np.savez(stream, **members)
    headers = {"content-type": "application/x-npz"}
    answer = http.post(f"/models/{make()}/update", content=stream.getvalue(), headers=headers)
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
