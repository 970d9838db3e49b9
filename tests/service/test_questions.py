"""Questions about a model: the answer is what the change would make of it, and nothing changes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC

from livesvm.service.cli.main import main
from livesvm.service.client import Client, ServiceProblem
from livesvm.service.hosting.coverage import COPIES, memory_without_each
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.window import WindowLimits
from livesvm.solvers import IncrementalSVC, IncrementalSVR, conformal, drift
from livesvm.solvers.analyses.leave_one_out.models_without import models_without_each
from livesvm.solvers.models.change import Batch, Change
from tests.service.process import ServiceProcess
from tests.support.waiting import until

KERNEL = {"name": "rbf", "gamma": 0.5}
RNG = np.random.default_rng(3)
X = RNG.normal(size=(80, 2))
Y = np.where(X[:, 0] + 0.4 * RNG.normal(size=80) > 0, 1, -1)
NEW, LABELS = RNG.normal(size=(6, 2)), [1, -1, 1, 1, -1, -1]
ROWS = RNG.normal(size=(20, 2))
WORDS = np.array(["ape", "bee", "cat"])[(X[:, 1] > 0).astype(int) + (X[:, 0] > 0.5)]
CHANGES: dict[str, dict[str, Any]] = {
    "add": {"X": NEW, "y": LABELS, "keys": list(range(100, 106))},
    "slide": {"X": NEW, "y": LABELS, "remove": {"oldest": 6}},
    "relabel": {"relabel": {3: 1, 4: -1}},
    "reweight": {"reweight": {3: 5.0}, "decay": 0.9},
    "C": {"C": 7.0},
    "kernel": {"change": {"gamma": 2.0}},
}


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[Client]:
    with Client(service.url) as client:
        yield client
        for model in client.models():
            client.delete_model(model["id"])


def learnt(client: Client, y: Any = Y, **spec: Any) -> None:
    client.create_model("m", C=2.0, kernel=KERNEL, **spec)
    client.update("m", X, y, keys=list(range(80)), tags=["early"] * 10 + [None] * 70)


@pytest.mark.parametrize("change", CHANGES)
def test_the_answer_is_what_the_update_then_does(change: str, client: Client) -> None:
    learnt(client)
    before, described = client.predict("m", ROWS), client.model("m")
    reported = client.what_if("m", ROWS, **CHANGES[change])
    assert client.predict("m", ROWS) == before
    assert client.model("m") | {"predicted": 0} == described | {"predicted": 0}
    assert reported["rows"]["before"]["decision"] == before["decision"]
    done = client.update("m", **CHANGES[change])
    for name in ("added", "removed", "changed", "n_examples", "n_free", "n_bound"):
        assert reported[name] == done[name], name
    after = client.predict("m", ROWS)
    np.testing.assert_allclose(reported["rows"]["after"]["decision"], after["decision"], atol=1e-9)
    assert reported["rows"]["n_changed"] == np.count_nonzero(np.array(before["prediction"]) != after["prediction"])
    assert reported["rows"]["largest_move"] == pytest.approx(
        np.abs(np.subtract(after["decision"], before["decision"])).max(), abs=1e-9
    )
    assert reported["certificate"]["relative_gap"] < 1e-8


@pytest.mark.parametrize("labels", [Y, WORDS], ids=["two classes", "three classes"])
def test_an_erasure_is_weighed_by_key_and_tag(labels: Any, client: Client) -> None:
    learnt(client, labels)
    receipts = client.receipts()
    reported = client.what_if("m", ROWS, erase={"keys": [10, 11, "nobody"], "tags": ["early"]})
    assert reported["removed"] == list(range(12))
    assert reported["n_examples"] == reported["window"]["n_stay"] == 68
    peer = SVC(C=2.0, gamma=0.5, tol=1e-10, decision_function_shape="ovr").fit(X[12:], labels[12:])
    decisions = np.array(reported["rows"]["after"]["decision"])
    assert (np.array(reported["rows"]["after"]["prediction"]) == peer.predict(ROWS)).all()
    np.testing.assert_allclose(decisions, peer.decision_function(ROWS), atol=1e-5)
    was = SVC(C=2.0, gamma=0.5, tol=1e-10).fit(X, labels).predict(X[12:])
    assert reported["window"]["n_changed"] == np.count_nonzero(was != peer.predict(X[12:]))
    assert client.model("m")["n_examples"] == 80
    assert client.receipts() == receipts


def test_values_and_an_emptied_window(client: Client) -> None:
    client.create_model("m", task="svr", C=2.0, kernel=KERNEL)
    client.update("m", X, X[:, 0], keys=list(range(80)))
    reported = client.what_if("m", ROWS, remove={"oldest": 5})
    assert reported["rows"]["n_changed"] is None is reported["window"]["n_changed"]
    assert reported["window"]["largest_move"] > 0.0
    assert client.what_if("m", remove={"oldest": 5})["rows"] is None
    gone = client.what_if("m", ROWS, remove={"oldest": 80})
    assert gone["n_examples"] == 0


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ({"remove": {"keys": [99]}}, 422, "remove.keys"),
        ({"rows": [[1.0]], "C": 3.0}, 422, "X"),
        ({"X": [[1.0]], "y": [1]}, 422, "X"),
        ({}, 422, "body"),
        ({"erase": {}}, 422, "erase"),
    ],
)
def test_what_cannot_be_done_is_refused(asked: dict[str, Any], status: int, field: str | None, client: Client) -> None:
    learnt(client)
    with pytest.raises(ServiceProblem) as caught:
        client.what_if("m", **asked)
    assert (caught.value.status, caught.value.document.get("field")) == (status, field)


def test_models_whose_updates_change_no_prediction_are_refused_by_name(client: Client) -> None:
    client.create_model("m", task="l2svc", kernel=KERNEL)
    client.update("m", X, Y)
    with pytest.raises(ServiceProblem, match="predict by their last training"):
        client.what_if("m", C=3.0)


def without(key: int, labels: Any) -> SVC:
    stay = np.arange(80) != key
    return SVC(C=2.0, gamma=0.5, tol=1e-10, decision_function_shape="ovo").fit(X[stay], labels[stay])


@pytest.mark.parametrize("labels", [Y, WORDS], ids=["two classes", "three classes"])
def test_a_decision_is_explained_by_models_trained_without_an_example(labels: Any, client: Client) -> None:
    learnt(client, labels)
    reported, predicted = client.explain("m", ROWS[:4], most=5), client.predict("m", ROWS[:4])
    assert [row["prediction"] for row in reported["rows"]] == predicted["prediction"]
    for place, row in enumerate(reported["rows"]):
        moved = [abs(one["influence"]) for one in row["because"]]
        assert moved == sorted(moved, reverse=True)
        assert len(moved) == 5
        for one in row["because"]:
            peer = without(one["key"], labels)
            decisions = peer.decision_function(ROWS[place : place + 1])
            if row["against"] is None:
                decision = decisions[0]
            else:
                names = peer.classes_.tolist()
                two = sorted((names.index(row["prediction"]), names.index(row["against"])))
                sign = 1.0 if names[two[0]] == row["prediction"] else -1.0
                decision = sign * decisions[0, [[0, 1], [0, 2], [1, 2]].index(two)]
            assert one["without"] == pytest.approx(decision, abs=1e-5)
            assert one["influence"] == pytest.approx(row["decision"] - one["without"], abs=1e-12)
            assert one["target"] == labels[one["key"]]


def test_wrong_labels_are_worth_least(client: Client) -> None:
    labels = np.where(X[:, 0] > 0, 1, -1)
    wrong = [7, 30]
    learnt(client, np.where(np.isin(np.arange(80), wrong), -labels, labels))
    reported = client.explain("m", ROWS, np.where(ROWS[:, 0] > 0, 1, -1), most=80)
    assert {one["key"] for one in reported["values"][:6]} >= set(wrong)
    assert all(one["value"] < 0 for one in reported["values"] if one["key"] in wrong)
    assert reported["loss"] > 0
    assert reported["rows"] is None
    with pytest.raises(ServiceProblem, match="has 1 entries for 20 rows"):
        client.explain("m", ROWS, [1])


@pytest.mark.parametrize("labels", [Y, WORDS], ids=["two classes", "three classes"])
def test_a_prediction_says_which_classes_may_be(labels: Any, client: Client) -> None:
    learnt(client, labels)
    reported, plain = client.predict("m", ROWS, coverage=0.9), client.predict("m", ROWS)
    assert {name: reported[name] for name in plain} == plain
    assert reported["promise"]["coverage"] == 0.9
    assert reported["promise"]["at_least"] == pytest.approx(0.8)
    peer = conformal(IncrementalSVC(C=2.0, gamma=0.5).fit(X, labels))
    sets = peer.sets(ROWS, 0.9)
    assert reported["set"] == [np.unique(labels)[row].tolist() for row in sets]
    assert (
        client._http.post(  # the same in a body of JSON
            "/models/m/predict", json={"X": ROWS.tolist(), "coverage": 0.9}
        ).json()
        == reported
    )
    client.update("m", remove={"oldest": 40})
    then = client.predict("m", ROWS, coverage=0.9)
    assert then["version"] == reported["version"] + 1
    assert then["set"] != reported["set"]


def test_a_prediction_says_between_which_values(client: Client) -> None:
    values = X[:, 0] + 0.1 * RNG.normal(size=80)
    client.create_model("m", task="svr", C=2.0, kernel=KERNEL)
    client.update("m", X, values, times=[1000.0 * n for n in range(80)])
    peer = conformal(IncrementalSVR(C=2.0, gamma=0.5).fit(X, values))
    aged = conformal(IncrementalSVR(C=2.0, gamma=0.5).fit(X, values), weights=0.5 ** (np.arange(80)[::-1] / 20))
    asked: dict[str, Any]
    for asked, found, at_least in (
        ({}, peer.intervals(ROWS, 0.9), 0.8),
        ({"interval": "minmax"}, peer.intervals(ROWS, 0.9, "minmax"), 0.9),
        ({"half_life": 20_000.0}, aged.intervals(ROWS, 0.9), 0.8),
    ):
        reported = client.predict("m", ROWS, coverage=0.9, **asked)
        np.testing.assert_allclose([reported["low"], reported["high"]], found, atol=1e-9)
        assert reported["promise"]["at_least"] == pytest.approx(at_least)
    assert client.predict("m", ROWS[:1], coverage=0.995)["low"] == [None]


def test_a_coverage_is_asked_of_models_with_targets_alone(client: Client) -> None:
    client.create_model("m", task="oneclass", kernel=KERNEL)
    client.update("m", X)
    asked: dict[str, Any]
    learnt_not: tuple[str, dict[str, Any]] = ("cannot be promised by models of task oneclass", {"coverage": 0.9})
    for reason, asked in (learnt_not, ("is of task oneclass", {"coverage": 0.9, "alerts": 0.1})):
        with pytest.raises(ServiceProblem, match=reason):
            client.predict("m", ROWS, **asked)


@pytest.mark.parametrize(
    ("spec", "y"),
    [
        ({}, Y),
        ({}, WORDS),
        ({"class_weight": "balanced"}, WORDS),
        ({"task": "svr"}, X[:, 0]),
        ({"task": "oneclass"}, None),
    ],
)
def test_the_memory_of_models_without_an_example_is_known_before(spec: dict[str, Any], y: Any) -> None:
    state = ModelState.empty(ModelSpec.model_validate({"id": "m", "kernel": KERNEL, **spec}), 8)
    state.apply(state.plan(Change(Batch(X, y)), WindowLimits(1000, 10), 9, 1.0, None))
    found = models_without_each(state.estimator)
    assert found.nbytes <= memory_without_each(state.copy()) / COPIES <= 12 * found.nbytes


def test_what_does_not_fit_is_refused_before_it_is_made(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(6000, 2)), rng.normal(size=6000)
    with ServiceProcess(tmp_path, memory_mb=1000, cache_mb=16) as service, Client(service.url) as client:
        client.create_model("m", task="svr", C=1e-4, epsilon=0.0, kernel=KERNEL)  # all are at a bound
        client.update("m", rows, y)
        with pytest.raises(ServiceProblem, match="more are needed for jobs"):
            client.predict("m", ROWS, coverage=0.9)
        assert len(client.predict("m", ROWS)["decision"]) == len(ROWS)


def many_rows(service: ServiceProcess) -> bytes:
    """Have a model learn; return a request that asks it for the coverage of a million rows, in a few kilobytes."""
    with Client(service.url) as client:
        client.create_model("m", task="svr", C=2.0, kernel=KERNEL)
        client.update("m", *(np.tile(part, (3, 1))[:200].squeeze() for part in (X, X[:, :1])))
        client.predict("m", ROWS, coverage=0.9)
    packed = io.BytesIO()
    np.savez_compressed(packed, X=np.zeros((10**6, 2), np.int8))
    head = f"POST /models/m/predict?coverage=0.9 HTTP/1.1\r\nhost: {service.url.removeprefix('http://')}\r\n"
    head += f"content-type: application/x-npz\r\ncontent-length: {len(packed.getvalue())}\r\n\r\n"
    return head.encode() + packed.getvalue()


def test_what_takes_too_long_for_a_coverage_is_refused_before(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, solve_seconds=20, max_predict_rows=10**6) as service:
        with service.connect() as connection:
            connection.sendall(many_rows(service))
            answer = b""
            while b"}" not in answer and (piece := connection.recv(2**16)):  # the head may come before the body
                answer += piece
        assert answer.startswith(b"HTTP/1.1 422")
        assert b"LIVESVM_SOLVE_SECONDS" in answer
        assert b'"field":"X"' in answer


def test_a_coverage_is_not_worked_out_for_a_caller_that_has_left(tmp_path: Path) -> None:
    with (
        ServiceProcess(tmp_path, solve_seconds=86_400, max_predict_rows=10**6, max_calls=1) as service,
        service.http() as http,
    ):

        def wait_for(status: int) -> None:
            """Ask for a row again and again, until it is answered so."""
            until(lambda: http.post("/models/m/predict", json={"X": ROWS[:1].tolist()}).status_code == status)

        asked = many_rows(service)
        with service.connect() as connection:
            connection.sendall(asked)
            wait_for(429)  # it has the only place
        wait_for(200)
        lines = http.get("/metrics").text.splitlines()
        answered = [float(line.split()[-1]) for line in lines if line.startswith("livesvm_predictions_total{")]
        assert sum(answered) < 10**5


def drifting(client: Client, **spec: Any) -> tuple[list[dict[str, Any]], Any]:
    """Have a model see its labels turn over; return the answers of its updates, and all labels."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(240, 2))
    y = np.where(rows[:, 0] * np.where(np.arange(240) < 180, 1, -1) > 0, 1, -1)
    client.create_model("m", C=2.0, kernel=KERNEL, **spec)
    reported = [
        client.update("m", rows[i : i + 20], y[i : i + 20], times=np.arange(i, i + 20) + 1e9) for i in range(0, 240, 20)
    ]
    return reported, (rows, y)


def test_drift_is_reported_with_a_remedy_that_one_update_applies(client: Client) -> None:
    reported, (rows, y) = drifting(client, drift_alarms=0.01)
    alarms = [one["drift"] for one in reported if "drift" in one]
    assert len(alarms) == 1
    described = client.model("m")["drift"]
    assert described["alarms"] == 1
    assert described["alarm"] | {"n_since": 0} == alarms[0] | {"n_since": 0}
    before = client.model("m")["version"]
    found = client.drift("m")
    assert client.model("m")["version"] == before
    assert abs(found["alarm"]["began"] - 1e9 - 180) < 10
    assert abs(found["before_learning"]["alarm"]["began"] - 1e9 - 180) < 10
    remedy = found["remedy"]
    assert remedy["kind"] == "window"
    kept = int(remedy["value"])
    peer = SVC(C=2.0, gamma=0.5, tol=1e-10)
    library = IncrementalSVC(C=2.0, gamma=0.5).fit(rows, y)
    assert remedy["error"] == next(r.error for r in drift(library, newest=found["newest"]).remedies if r.value == kept)
    once = {**remedy["update"], "idempotency_key": "drift-1"}
    done = client.update("m", **once)
    assert client.update("m", **once) == done
    assert done["n_examples"] == kept
    assert client.model("m")["drift"]["alarm"] is None or kept > found["before_learning"]["alarm"]["n_since"]
    np.testing.assert_allclose(
        client.predict("m", ROWS)["decision"],
        peer.fit(rows[240 - kept :], y[240 - kept :]).decision_function(ROWS),
        atol=1e-4,
    )


def test_any_model_can_be_asked_for_drift_within_its_time(service: ServiceProcess, client: Client) -> None:
    learnt(client, WORDS)
    found = client.drift("m", newest=20, false_alarms=0.05)
    assert found["false_alarms"] == 0.05
    assert found["before_learning"] is None
    assert {one["label"] for one in found["classes"]} == {"ape", "bee", "cat"}
    assert client.model("m")["drift"] is None
    with Client(service.url, patience=0.0) as hurried, pytest.raises(ServiceProblem) as caught:
        hurried.drift("m", max_seconds=1e-6)
    assert caught.value.status == 503  # where it lives in another process, too
    client.delete_model("m")
    client.create_model("m", task="oneclass", kernel=KERNEL)
    client.update("m", X)
    with pytest.raises(ServiceProblem, match="task oneclass"):
        client.drift("m")


def test_drift_of_a_feed_is_told_by_step_and_one_call_applies_what_helps(
    service: ServiceProcess, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    noise, y = np.random.default_rng(0).normal(size=96), [0.0]
    for t in range(1, 96):
        y.append((0.9 if t < 66 else -0.9) * y[-1] + noise[t])
    settings: dict[str, Any] = {"window": 64, "steps": [1, 2], "lags": 3, "rolling": {}, "season": 0, "C": 1.0}
    settings |= {"gamma": 0.05, "represent": "level", "on_drift": "choose"}
    client.create_feed("f", target="y", time=None, **settings)
    kinds = []
    for start in range(0, 96, 8):
        events = client.observe("f", [{"y": value} for value in y[start : start + 8]])["events"]
        kinds.append([event["kind"] for event in events])
    drifted = ["drift" in found for found in kinds]
    assert [("chosen" in found) for found in kinds[1:]] == drifted[:-1]  # with the call after it
    before = client.feed_certificate("f")
    found = client.feed_drift("f", newest=30)
    assert client.feed_certificate("f") == before
    assert [one["step"] for one in found["steps"]] == [1, 2]
    assert found["update"] == {"steps": [change for one in found["steps"] if one["remedy"]
                                         for change in one["remedy"]["update"]["steps"]]}  # fmt: skip
    assert client.feed_drift("f", newest=30, steps=[2])["steps"][0]["remedies"] == found["steps"][1]["remedies"]
    once: dict[str, Any] = {"steps": [{"step": 1, "keep": 31, "C": 2.0}], "idempotency_key": "drift-1"}
    done = client.update_feed("f", **once)
    assert client.update_feed("f", **once) == done
    assert [(one["kind"], one["step"], one["C"]) for one in done["events"]] == [("updated", 1, 2.0)]
    assert [one["n_examples"] for one in client.feed_certificate("f")["steps"]] == [
        31,
        before["steps"][1]["n_examples"],
    ]
    assert client.feed("f")["settings"]["chosen"]["steps"][0]["C"] == 2.0
    twice: list[dict[str, Any]] = [{"step": 1, "C": 1.0}, {"step": 1, "keep": 20}]
    for wrong in ([{"step": 1}], [{"step": 3, "C": 1.0}], twice):
        with pytest.raises(ServiceProblem) as refused:
            client.update_feed("f", wrong)
        assert refused.value.status == 422
    with Client(service.url, patience=0.0) as hurried, pytest.raises(ServiceProblem) as caught:
        hurried.feed_drift("f", max_seconds=1e-6)
    assert caught.value.status == 503
    assert main(["feed", "drift", "f", "--step", "1", "--apply", "--url", service.url]) == 0
    assert "proposed" in capsys.readouterr().out
    client.delete_feed("f")


def test_a_live_model_is_watched_from_an_update_on(client: Client) -> None:
    learnt(client)
    assert client.model("m")["drift"] is None
    client.update("m", change={"drift_alarms": 0.05})
    client.update("m", NEW, LABELS)
    watched = client.model("m")["drift"]
    assert (watched["false_alarms"], watched["n_scored"]) == (0.05, len(LABELS))
    client.update("m", change={"drift_alarms": None})
    assert client.model("m")["drift"] is None
