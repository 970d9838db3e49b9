"""Updates of many models in one call: each has the effect, or the refusal, of a call for itself."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.client import Client
from livesvm.service.errors import Withdrawn
from livesvm.service.hosting.collection import Collection
from livesvm.service.hosting.kinds import MODEL, HostedModels
from livesvm.service.hosting.model import HostedModel
from livesvm.service.models.spec import ModelSpec
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.store.sqlite import SqliteStore
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.support.live_models import batch as update_of
from tests.support.live_models import context_of

NDJSON = {"content-type": "application/x-ndjson"}
MANY = 70


def batch(seed: int, n: int = 5) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    y = rng.choice([-1, 1], n)
    return {"add": {"X": (rng.normal(size=(n, 3)) + 0.4 * y[:, None]).tolist(), "y": y.tolist()}}


def without_times(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer but for what differs by rounding and by the clock."""
    return {name: value for name, value in answer.items() if name not in ("seconds", "max_violation", "relative_gap")}


def test_each_update_has_the_answer_of_a_call_for_itself(http: httpx.Client, make: Make) -> None:
    together, alone = [make(C=1.0) for _ in range(MANY)], [make(C=1.0) for _ in range(MANY)]
    for round_ in range(2):
        updates = [{"model": id_, **batch(seed + round_)} for seed, id_ in enumerate(together)]
        if round_:
            answer = http.post("/updates", content="\n".join(map(json.dumps, updates)), headers=NDJSON)
        else:
            answer = http.post("/updates", json={"updates": updates})
        assert answer.status_code == 200, answer.text
        found = answer.json()["updates"]
        assert [(one["model"], one["status"]) for one in found] == [(id_, 200) for id_ in together]
        for seed, id_ in enumerate(alone):
            single = http.post(f"/models/{id_}/update", json=batch(seed + round_)).json()
            assert without_times(found[seed]["answer"]) == without_times(single)
    for one in together[:3]:
        assert http.get(f"/models/{one}/certificate").json()["relative_gap"] < 1e-9


def test_a_refusal_is_that_of_a_call_for_itself_and_keeps_no_other_from_being_made(
    http: httpx.Client, make: Make
) -> None:
    served, narrow, closed = make(C=1.0), make(C=1.0, n_features=2), make(C=1.0)
    bad: list[dict[str, Any]] = [
        {"model": "test-unknown", **batch(0)},
        {"model": narrow, **batch(0)},
        {"model": closed, "add": {"X": [[1, 2, "x"]], "y": [1]}},
    ]
    answer = http.post("/updates", json={"updates": [*bad, {"model": served, **batch(0)}]})
    found = answer.json()["updates"]
    assert [one["status"] for one in found] == [404, 422, 422, 200]
    for one, asked in zip(found[:3], bad, strict=True):
        body = {name: value for name, value in asked.items() if name != "model"}
        single = http.post(f"/models/{asked['model']}/update", json=body)
        assert (one["status"], one["problem"]) == (single.status_code, single.json())
    assert http.get(f"/models/{closed}").json()["n_examples"] == 0


def test_a_call_that_is_sent_again_has_its_effect_once(http: httpx.Client, make: Make) -> None:
    one, other = make(C=1.0), make(C=1.0)
    key = {"idempotency-key": "again"}
    first = http.post("/updates", json={"updates": [{"model": one, **batch(1)}]}, headers=key).json()
    both = {"updates": [{"model": one, **batch(1)}, {"model": other, **batch(2)}]}
    again = http.post("/updates", json=both, headers=key).json()
    assert again["replayed"] == 1
    assert again["updates"][0] == first["updates"][0]
    assert [http.get(f"/models/{id_}").json()["version"] for id_ in (one, other)] == [1, 1]
    differing = {"updates": [{"model": one, **batch(3)}]}
    refused = http.post("/updates", json=differing, headers=key).json()["updates"][0]
    assert (refused["status"], refused["problem"]["type"]) == (409, "urn:livesvm:problem:idempotency-conflict")


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"updates": [{"model": "a"}, {"model": "a"}]}, 422, "a second update of model 'a'"),
        ({"updates": [{"add": {}}]}, 422, "names its model"),
        ({"updates": {}}, 422, '{"updates": [..]}'),
        ([], 422, '{"updates": [..]}'),
        ({"updates": [{"model": "a"}] * 1001}, 422, "at most 1000"),
    ],
)
def test_a_body_that_is_no_list_of_updates_is_refused_as_a_whole(
    http: httpx.Client, body: Any, status: int, says: str
) -> None:
    answer = http.post("/updates", json=body)
    assert (answer.status_code, says in answer.json()["detail"]) == (status, True), answer.text


def test_a_line_that_cannot_be_read_is_named(http: httpx.Client) -> None:
    answer = http.post("/updates", content='{"model": "a"}\n{"model": ', headers=NDJSON)
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("line 2: ")


def test_the_client_updates_many_models(service: ServiceProcess, make: Make) -> None:
    one, other = make(C=1.0), make(C=1.0)
    rows = batch(0)["add"]
    with Client(service.url) as client:
        found = client.update_many({one: rows, other: {**rows, "keys": list("abcde")}, "test-unknown": rows})
        assert [entry["status"] for entry in found["updates"]] == [200, 200, 404]
        assert found["updates"][1]["answer"]["added"] == list("abcde")
        left = client.update_many({other: {"remove": {"oldest": 2}}})["updates"][0]
    assert left["answer"]["removed"] == ["a", "b"]


def test_models_whose_turn_does_not_come_in_time_stay_as_they_are(service: ServiceProcess, make: Make) -> None:
    busy, other = make(C=1e6, kernel={"name": "rbf", "gamma": 0.1}), make(C=1.0)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 3)), rng.choice([-1, 1], 1500)
    with Client(service.url) as client, ThreadPoolExecutor(1) as threads:
        solving = threads.submit(lambda: client.update(busy, X, y))
        rows = batch(0)["add"]
        found = client.update_many({busy: rows, other: rows}, max_seconds=0.2)["updates"]
        statuses = [one["status"] for one in found]
        assert set(statuses) <= {200, 503}
        solving.result()
        for model, status, before in zip((busy, other), statuses, (1500, 0), strict=True):
            assert client.model(model)["n_examples"] == before + 5 * (status == 200)
            assert client.update(model, **batch(1)["add"])["n_examples"] > before  # nothing holds it


@pytest.mark.parametrize("home_of", [HostedModels, Collection])
def test_what_has_not_begun_when_the_caller_leaves_is_not_done(
    home_of: type[Collection[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, asked, names = home_of(MODEL, context_of(SqliteStore(tmp_path / "db")), lambda size: None), Solve(), "abc"
    models = {name: home.create(name, ModelSpec(C=1.0, id=name)) for name in names}
    planned = HostedModel._planned

    def leaving(model: HostedModel, *arguments: Any) -> Any:
        """Plan the first update; its caller has left meanwhile."""
        asked.end(Withdrawn("the caller left"))
        return planned(model, *arguments)

    monkeypatch.setattr(HostedModel, "_planned", leaving)
    held = {} if home_of is HostedModels else {name: models[name].hold() for name in "bc"}
    done = home.update_many({name: update_of(0) for name in names}, None, asked)
    for name in held:
        models[name].let_go()
    assert done.answers.keys() == {"a"}
    assert {name: type(error) for name, error in done.errors.items()} == dict.fromkeys("bc", Withdrawn)
    assert [models[name].published.version for name in names] == [1, 0, 0]
    for model in models.values():
        model.stop()
