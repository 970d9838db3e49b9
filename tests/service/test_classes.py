"""Labels and classes over REST: any label, two classes or more, new ones in any update, whole or not at all."""

from __future__ import annotations

import csv
import io
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client, ServiceProblem
from livesvm.service.models import commands
from livesvm.service.models.commands import Removal
from livesvm.service.models.spec import KernelSpec, ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.solvers import IncrementalSVC
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.models.change import Batch, Change, Edits
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.support.live_models import FailingStore, alive, predicted

WORDS = np.array(["ape", "bee", "cat", "dog"])
CENTRES = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
PROBE = np.random.default_rng(1).normal(size=(20, 2)) + 1.0


def blobs(seed: int, n: int, classes: int = 3) -> tuple[Any, Any]:
    """Return features (n, 2) and words (n,), all classes among them."""
    rng = np.random.default_rng(seed)
    places = rng.permutation(np.arange(n) % classes)
    return CENTRES[places] + rng.normal(size=(n, 2)), WORDS[places]


def library(X: Any, y: Any, **parameters: Any) -> IncrementalSVC:
    return IncrementalSVC(C=3.0, gamma=0.5, **parameters).fit(X, y)


@pytest.mark.parametrize("new", ["ant", "bug", "eel"])
def test_an_update_that_fails_with_a_new_class_leaves_the_others_as_they_were(
    new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FailingStore(tmp_path / "store")
    live = alive(store, store.create("m", b""), ModelSpec(id="m", C=3.0, kernel=KernelSpec(gamma=0.5)))
    X, y = blobs(7, 30)
    live.update(Change(Batch(X[:20], y[:20])), None).result()
    with monkeypatch.context() as patched:
        patched.setattr("livesvm.solvers.models.window.Window._walk", _not_now)
        with pytest.raises(NotOptimal):
            live.update(Change(Batch(X[:1], np.array([new]))), None).result()
    live.update(Change(Batch(X[20:], y[20:])), None).result()
    expected = library(X, y).decision_function(PROBE)
    np.testing.assert_allclose(predicted(live, PROBE).decision, expected, atol=1e-8)
    live.stop()
    store.close()


def _not_now(*_: Any) -> None:
    raise NotOptimal("not now")


def test_words_are_learnt_predicted_proved_and_seen(make: Make, service: ServiceProcess, http: httpx.Client) -> None:
    model = make(C=3.0, kernel={"gamma": 0.5})
    X, y = blobs(0, 30)
    with Client(service.url) as client:
        first = client.update(model, X[:20], y[:20])
        assert (first["version"], first["n_examples"]) == (1, 20)
        client.update(model, X[20:], y[20:], remove={"oldest": 5}, relabel={7: "bee"})
        y[7] = "bee"
        found = client.predict(model, PROBE)
        own = library(X[5:], y[5:])
        assert found["classes"] == ["ape", "bee", "cat"]
        assert found["prediction"] == own.predict(PROBE).tolist()
        np.testing.assert_allclose(found["decision"], own.decision_function(PROBE), rtol=0, atol=1e-7)
        proof = client.certificate(model)
        assert [tuple(pair["classes"]) for pair in proof["pairs"]] == list(combinations(WORDS[:3].tolist(), 2))
        assert proof["relative_gap"] == max(pair["relative_gap"] for pair in proof["pairs"]) <= 1e-8
        assert proof["worst"] in [pair["classes"] for pair in proof["pairs"]]
        reported = client.model(model)["classes"]
        assert {one["label"]: one["n_examples"] for one in reported} == {
            word: int((y[5:] == word).sum()) for word in ("ape", "bee", "cat")
        }
        page = client.examples(model)["examples"]
        assert [example["y"] for example in page] == y[5:].tolist()
        assert {len(example["coefficient"]) for example in page} == {2}
        job = client.wait(client.assess(model)["id"])["result"]
        assert job["pairs"] == [list(two) for two in combinations(WORDS[:3].tolist(), 2)]
        assert (job["positive"], job["negative"]) == (["ape", "ape", "bee"], ["bee", "cat", "cat"])
        assert np.shape(job["decisions"]) == (25, 3)
    table = list(csv.DictReader(io.StringIO(http.get(f"/models/{model}/examples?format=csv").text)))
    assert [row["y"] for row in table] == y[5:].tolist()
    assert {"coefficient0", "coefficient1"} <= table[0].keys()
    with np.load(io.BytesIO(http.get(f"/models/{model}/examples?format=npz").content)) as members:
        again = {name: members[name] for name in ("X", "y", "keys", "weights")}
    data = io.BytesIO()
    np.savez(data, **again)
    other = make(C=3.0, kernel={"gamma": 0.5}, decision_function_shape="ovo")
    http.post(
        f"/models/{other}/update", content=data.getvalue(), headers={"content-type": "application/x-npz"}
    ).raise_for_status()
    pairs = http.post(f"/models/{other}/predict", json={"X": PROBE.tolist()}).json()
    assert pairs["pairs"] == [list(two) for two in combinations(WORDS[:3].tolist(), 2)]
    own.decision_function_shape = "ovo"
    np.testing.assert_allclose(pairs["decision"], own.decision_function(PROBE), rtol=0, atol=1e-7)


def test_the_path_of_several_classes_is_reported_and_applied(
    make: Make, service: ServiceProcess, http: httpx.Client
) -> None:
    model = make(C=1.0, kernel={"gamma": 0.5}, decision_function_shape="ovo")
    X, y = blobs(3, 60)
    V, v = blobs(4, 80)
    low, high = 0.05, 50.0
    with Client(service.url) as client:
        client.update(model, X, y, keys=[f"k{i}" for i in range(60)])
        job = client.wait(client.regularization_path(model, minimum=low, maximum=high, validation=(V, v))["id"])
        result, path = job["result"], IncrementalSVC(C=1.0, gamma=0.5).fit(X, y).regularization_path(low, high)
        assert result["pairs"] == [list(two) for two in combinations(WORDS[:3].tolist(), 2)]
        found = path.breakpoints
        np.testing.assert_allclose(result["breakpoints"]["value"], found.value, rtol=1e-6)
        assert result["breakpoints"]["pair"] == found.pair.tolist()
        assert result["breakpoints"]["key"] == [f"k{i}" for i in found.example]
        assert result["breakpoints"]["n_support"] == found.n_support.tolist()
        reported = result["coefficients"]
        for place in (0, 120, 201):
            indices = [int(key.removeprefix("k")) for key in reported["key"][place]]
            beta = path.coefficients(reported["value"][place])
            np.testing.assert_allclose(reported["coefficient"][place], beta[indices], atol=1e-6)
            assert indices == np.argsort(-np.abs(beta).max(axis=1), kind="stable")[:10].tolist()
            np.testing.assert_allclose(
                reported["intercept"][place], path.intercepts(reported["value"][place]), atol=1e-6
            )
            assert reported["label"][place] == y[indices].tolist()
        best = path.best(V, v)
        assert result["validation"]["best"] == pytest.approx(vars(best), rel=1e-6)
        assert client.apply(job["id"])["version"] == 2
        assert client.model(model)["C"] == pytest.approx(best.value)
        trained = IncrementalSVC(C=best.value, gamma=0.5, decision_function_shape="ovo").fit(X, y)
        np.testing.assert_allclose(
            client.predict(model, PROBE)["decision"], trained.decision_function(PROBE), atol=1e-6
        )
        other = client.wait(client.regularization_path(model, minimum=low, maximum=high, data=(X, y))["id"])["result"]
        np.testing.assert_allclose(other["breakpoints"]["value"], found.value, rtol=1e-6)
    assert http.get(f"/jobs/{job['id']}/plot.svg").status_code == 200


def test_suspected_labels_of_several_classes_are_one_list(
    make: Make, service: ServiceProcess, http: httpx.Client
) -> None:
    model = make(C=5.0, kernel={"gamma": 0.5})
    rng = np.random.default_rng(5)
    places = np.arange(90) % 3
    X, right = CENTRES[places] + 0.5 * rng.normal(size=(90, 2)), WORDS[places]
    y = right.copy()
    y[:9] = WORDS[(places[:9] + 1) % 3]
    with Client(service.url) as client:
        client.update(model, X, y, keys=[f"k{i}" for i in range(90)])
        job = client.wait(client.outlier_path(model, "s", hold_out=0.2)["id"])
        result = job["result"]
        suspected = result["suspected"]
        path = IncrementalSVC(C=5.0, gamma=0.5).fit(X, y).outlier_path("s")
        assert suspected["key"] == [f"k{one.key}" for one in path.suspects]
        assert suspected["others"] == [list(one.others) for one in path.suspects]
        assert suspected["label"] == [y[one.key] for one in path.suspects]
        np.testing.assert_allclose(suspected["value"], [one.value for one in path.suspects], atol=1e-6)
        wrong = {f"k{i}": right[i] for i in range(9)}
        assert set(suspected["key"][:6]) <= wrong.keys()
        assert result["pairs"] == [list(two) for two in path.pairs]
        assert [one["key"] for one in result["suspected_by_pair"]] == [
            [f"k{key}" for key, _ in one.order_of_outliers()] for one in path.pairs.values()
        ]
        assert result["switches"]["value"] == sorted(result["switches"]["value"])
        assert len(set(result["switches"]["pair"])) == 3
        moves = zip(result["switches"]["key"], result["switches"]["pair"], result["switches"]["side"], strict=True)
        first = result["outliers_at_start"]
        sides = dict(zip(zip(first["key"], first["pair"], strict=True), first["side"], strict=True))
        sides.update(((key, pair), side) for key, pair, side in moves)
        assert {key for (key, _), side in sides.items() if side} == set(suspected["key"])
        rest, held = np.arange(90) % 5 != 0, np.arange(90) % 5 == 0
        others = IncrementalSVC(C=5.0, gamma=0.5).fit(X[rest], y[rest]).outlier_path("s")
        least = others.best(X[held], y[held])
        assert result["validation"]["best"] == pytest.approx({"value": least.value, "error": least.error}, abs=1e-6)
        with pytest.raises(ServiceProblem, match="relabel or remove what is suspected") as refused:
            client.apply(job["id"])
        assert refused.value.status == 409
        relabel: dict[int | str | np.integer[Any], float | str] = {
            key: suspected["others"][suspected["key"].index(key)][0] for key in wrong
        }
        assert sum(relabel[key] == word for key, word in wrong.items()) >= 8
        assert client.update(model, relabel=relabel)["changed"] == 9
    assert http.get(f"/jobs/{job['id']}/plot.svg").status_code == 200


def test_signs_stay_what_they_were_until_another_label_comes(make: Make, http: httpx.Client) -> None:
    model = make(C=3.0, kernel={"gamma": 0.5})
    X, _ = blobs(3, 12)

    def learn(X: Any, y: list[Any], **more: Any) -> dict[str, Any]:
        answer = http.post(f"/models/{model}/update", json={"add": {"X": X.tolist(), "y": y}, **more})
        answer.raise_for_status()
        return dict(answer.json())

    def asked() -> dict[str, Any]:
        return dict(http.post(f"/models/{model}/predict", json={"X": PROBE.tolist()}).json())

    learn(X[:2], [-1, -1])
    assert set(asked()) == {"version", "decision", "prediction", "stale"}
    assert set(asked()["prediction"]) == {-1}
    assert max(asked()["decision"]) < 0
    learn(X[2:4], [5, 5])  # no example is 1, so that these are two classes
    assert asked()["classes"] == [-1, 5]
    learn(X[4:8], [1, 1, 2, 2])
    assert asked()["classes"] == [-1, 1, 2, 5]
    assert http.get(f"/models/{model}").json()["classes"] == [
        {"label": -1, "n_examples": 2},
        {"label": 1, "n_examples": 2},
        {"label": 2, "n_examples": 2},
        {"label": 5, "n_examples": 2},
    ]
    before = asked()
    for y, reason in (
        (["ape", "bee"], "as no label before is"),
        ([0.5, 1], "whole number"),
        ([True, 1], "boolean"),
    ):
        refused = http.post(f"/models/{model}/update", json={"add": {"X": X[8:10].tolist(), "y": y}})
        assert (refused.status_code, refused.json()["field"]) == (422, "y")
        assert reason in refused.json()["detail"]
    many = {"X": [[float(i), 0.0] for i in range(120)], "y": list(range(10, 130))}
    refused = http.post(f"/models/{model}/update", json={"add": many})
    assert (refused.status_code, refused.json()["field"]) == (422, "y")
    assert "124 classes, the limit is 100" in refused.json()["detail"]
    assert asked() == before


@pytest.mark.parametrize("y", [["a", 1], ["a", None], ["", "b"], ["a" * 129, "b"], ["a\u0000", "b"], [["a"], "b"]])
def test_what_is_no_label_is_refused_by_row(y: list[Any], make: Make, http: httpx.Client) -> None:
    answer = http.post(f"/models/{make()}/update", json={"add": {"X": [[0.0], [1.0]], "y": y}})
    assert (answer.status_code, answer.json()["field"]) == (422, "y")
    assert "row" in answer.json()


@pytest.mark.parametrize("y", [[1, "five"], ["five", 1], [np.int64(1), np.str_("five")], (2, "2")])
def test_words_among_numbers_are_refused_by_row(y: Any, make: Make, service: ServiceProcess) -> None:
    with Client(service.url) as client:
        model = make()
        for verbs, field in (({"X": np.eye(2), "y": y}, "y"), ({"relabel": dict(enumerate(y))}, "relabel.y")):
            with pytest.raises(ServiceProblem) as refused:
                client.update(model, **verbs)
            problem = refused.value.document
            assert (problem["status"], problem["field"], problem["row"]) == (422, field, 1)
            client.update(model, np.eye(2), [1, 2], keys=[0, 1], idempotency_key="once")
        assert client.model(model)["n_examples"] == 2


@pytest.mark.parametrize("task", ["svr", "pu"])
def test_other_tasks_take_numbers(task: str, make: Make, http: httpx.Client) -> None:
    model = make(task=task, **({"prior": 0.4} if task == "pu" else {}))
    answer = http.post(f"/models/{model}/update", json={"add": {"X": [[0.0], [1.0]], "y": ["a", "b"]}})
    assert (answer.status_code, answer.json()["field"], answer.json()["row"]) == (422, "y", 0)


def test_class_weights_are_named_by_text_and_may_be_of_classes_to_come(make: Make, service: ServiceProcess) -> None:
    X, y = blobs(4, 24)
    codes = np.searchsorted(WORDS, y)
    with Client(service.url) as client:
        model = make(C=3.0, kernel={"gamma": 0.5}, class_weight={"0": 2.0, "2": 0.5})
        two = codes < 2
        client.update(model, X[two], codes[two])
        client.update(model, X[~two], codes[~two])
        own = library(X, codes, class_weight={0: 2.0, 2: 0.5})
        np.testing.assert_allclose(
            client.predict(model, PROBE)["decision"], own.decision_function(PROBE), rtol=0, atol=1e-7
        )
        model = make(C=3.0, kernel={"gamma": 0.5}, class_weight="balanced")
        client.update(model, X[:10], y[:10])
        client.update(model, X[10:], y[10:])
        own = library(X, y, class_weight="balanced")
        np.testing.assert_allclose(
            client.predict(model, PROBE)["decision"], own.decision_function(PROBE), rtol=0, atol=1e-7
        )


def test_retraining_keeps_classes(make: Make, service: ServiceProcess) -> None:
    X, y = blobs(5, 24)
    with Client(service.url) as client:
        model = make(C=3.0, kernel={"gamma": 0.5})
        client.update(model, X, y)
        job = client.wait(client.retrain(model, C=9.0, hold_out=0.25)["id"])
        assert 0 <= job["result"]["held_back"]["accuracy"] <= 1
        client.update(model, X[:3] + 0.1, ["dog", "dog", "ape"])
        client.apply(job["id"])
        found = client.predict(model, PROBE)
        assert found["classes"] == WORDS.tolist()
        every_example = np.concatenate([X, X[:3] + 0.1]), np.concatenate([y, ["dog", "dog", "ape"]])
        own = IncrementalSVC(C=9.0, gamma=0.5).fit(*every_example)
        np.testing.assert_allclose(found["decision"], own.decision_function(PROBE), rtol=0, atol=1e-7)


@pytest.mark.parametrize("task", ["svc", "l2svc"])
def test_a_closed_list_of_labels_refuses_others_by_row(task: str, make: Make, service: ServiceProcess) -> None:
    words, numbers = make(task=task, labels=["ham", "spam", "junk"]), make(task=task, labels=[0, 1])
    with Client(service.url) as client:

        def refused(model: str, field: str, row: int, reason: str, *batch: Any, **update: Any) -> None:
            version = client.model(model)["version"]
            with pytest.raises(ServiceProblem) as caught:
                client.update(model, *batch, **update)
            reported = caught.value.document
            assert (reported["status"], reported["field"], reported["row"], reported["reason"]) == (
                422,
                field,
                row,
                reason,
            )
            assert client.model(model)["version"] == version

        X = [[0.0], [1.0]]
        assert client.model(words)["labels"] == ["ham", "spam", "junk"]
        others = "is not one of 'ham', 'spam', 'junk'"
        refused(words, "y", 1, f"'Spam ' {others}; did you mean 'spam'?", X, ["ham", "Spam "])
        refused(words, "y", 0, f"1 {others}", X, [1, -1])
        client.update(words, X, ["ham", "spam"])
        refused(words, "relabel.y", 1, f"'hem' {others}; did you mean 'ham'?", relabel={0: "spam", 1: "hem"})
        client.update(words, X, ["junk", "ham"], relabel={0: "spam"})
        assert {one["label"] for one in client.model(words)["classes"]} == {"ham", "spam", "junk"}
        client.update(numbers, X, [0, 1])
        versions = make(task=task, labels=["v1.0", "v2.0"])
        refused(versions, "y", 0, "'V1.0' is not one of 'v1.0', 'v2.0'; did you mean 'v1.0'?", X, ["V1.0", "v2.0"])
        refused(numbers, "y", 0, "-1 is not one of 0, 1; did you mean 1?", X, [-1, 1])
        assert client.model(make())["labels"] is None


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({"labels": ["a", "b", "a"]}, "labels", "holds 'a' twice"),
        ({"labels": []}, "labels", "at least one"),
        ({"labels": ["a", 1]}, "labels", "must be a string"),
        ({"labels": [0, 1.5]}, "labels", "a whole number"),
        ({"labels": list(range(1001))}, "labels", "the limit is 1000"),
        ({"labels": ["a", "b"], "task": "svr"}, "labels", "is no parameter of svr"),
        ({"labels": ["a", "b"], "class_weight": {"a": 1, "B": 2}}, "class_weight.B", "did you mean b?"),
    ],
)
def test_closed_lists_that_cannot_be(spec: dict[str, Any], field: str, reason: str, http: httpx.Client) -> None:
    answer = http.post("/models", json=spec)
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert reason in answer.json()["reason"]


def test_a_kill_and_going_back_keep_every_pair_optimal(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path) as process, Client(process.url) as client:
        client.create_model("m", C=3.0, kernel={"name": "rbf", "gamma": 0.5}, labels=WORDS)
        X, y = blobs(6, 60, 4)
        y[:20] = np.where(y[:20] == "dog", "ape", y[:20])  # a fourth class comes later
        for start, end in pairwise(range(0, 61, 6)):
            client.update("m", X[start:end], y[start:end], remove={"oldest": 3} if start > 20 else None)
            if start == 24:
                client.checkpoint("m")
        before = client.predict("m", PROBE)
        process.kill()
        process.start()
        after = Client(process.url)
        again = after.predict("m", PROBE)
        assert again["version"] == before["version"]
        assert (again["prediction"], again["classes"]) == (before["prediction"], before["classes"])
        np.testing.assert_allclose(again["decision"], before["decision"], rtol=0, atol=1e-8)
        assert after.certificate("m")["relative_gap"] <= 1e-8
        assert after.model("m")["labels"] == WORDS.tolist()
        with pytest.raises(ServiceProblem, match="'Dog' is not one of"):
            after.update("m", X[:1], ["Dog"])
        after.restore("m", 2)
        assert after.predict("m", PROBE)["classes"] == ["ape", "bee", "cat"]
        after.restore("m", before["version"])
        np.testing.assert_allclose(after.predict("m", PROBE)["decision"], before["decision"], rtol=0, atol=1e-8)
        after.close()


def test_a_model_written_with_signs_is_read() -> None:
    spec = ModelSpec(id="m", C=3.0)
    state = ModelState.empty(spec, 8)
    X, _ = blobs(7, 10)
    state.window.apply(command := planned(state, Change(Batch(X, np.tile([-1.0, 1.0], 5)))), 0)
    state.window.arrivals.clear()
    state.apply(command)
    document = state.document()
    document["arrays"]["classes"] = np.array([-1, 1])
    back = ModelState.of(spec, 8, document)
    assert back.published().counts == {-1: 5, 1: 5}
    np.testing.assert_array_equal(back.estimator.predictor().decision_function(X), decided(state, X))


def planned(state: ModelState, update: Change) -> commands.Command:
    from livesvm.service.models.window import WindowLimits

    return state.window.plan(update, WindowLimits(1000, 10), 0.0, None)


def decided(state: ModelState, X: Any) -> Any:
    return state.estimator.predictor().decision_function(X)


def test_replay_gives_the_same_bits_and_an_update_that_fails_changes_nothing(tmp_path: Path) -> None:
    store = FailingStore(tmp_path / "store")
    live = alive(store, store.create("m", b""), ModelSpec(id="m", C=3.0, kernel={"gamma": 0.5}))  # type: ignore[arg-type]
    X, y = blobs(8, 30, 4)
    live.update(Change(Batch(X[:20], y[:20])), None).result()
    live.update(Change(edits=Edits(relabel={3: "bee"}, C=2.0)), None).result()
    live.update(Change(Batch(X[20:], y[20:]), Removal(oldest=4)), "named").result()
    before = predicted(live, PROBE)
    again = alive(store, store.acquire("m"), live.spec)
    found = predicted(again, PROBE)
    assert found.version == before.version
    np.testing.assert_array_equal(found.decision, before.decision)
    np.testing.assert_array_equal(found.prediction, before.prediction)
    again.stop()
    store.close()
