"""Rows that are sent again, by keys: one effect, over restarts and from snapshots, and no trace of what was erased."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.window import WindowLimits
from livesvm.solvers.models.change import Batch, Change
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.support.erasing import Kept, data, keeping, places

SIZE = 8
X, Y = data(48)
KEYS = [f"order-{number:04d}-of-customer" for number in range(48)]
SPEC: dict[str, Any] = {"C": 2.0, "kernel": {"name": "rbf", "gamma": 0.4}, "window": {"max_examples": SIZE}}

REMEMBERING = {"window": {"max_examples": SIZE, "remember_keys": 100}}


@pytest.fixture(params=["sqlite", "redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    with keeping(request.param, tmp_path) as found:
        yield found


def rows(some: list[int], **more: Any) -> dict[str, Any]:
    return {"X": [X[i] for i in some], "y": [Y[i] for i in some], "keys": [KEYS[i] for i in some], **more}


def send(http: httpx.Client, model: str, add: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    body = more if add is None else {"add": add, **more}
    answer = http.post(f"/models/{model}/update", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def held(http: httpx.Client, model: str) -> tuple[Any, Any]:
    """Return the window without times, and decisions."""
    examples = http.get(f"/models/{model}/examples").json()["examples"]
    window = [{name: one[name] for name in ("key", "X", "y", "weight") if name in one} for one in examples]
    return window, http.post(f"/models/{model}/predict", json={"X": X}).json()["decision"]


def check_same(http: httpx.Client, *models: str) -> None:
    (window, decision), (other, expected) = (held(http, model) for model in models)
    assert window == other
    np.testing.assert_allclose(decision, expected, rtol=0, atol=1e-6)


def test_batches_that_come_again_have_one_effect(kept: Kept) -> None:
    """In order, with any earlier one again at any time, past a kill and past snapshots."""
    process, _ = kept
    draw, batches = random.Random(7), [list(range(at, at + 4)) for at in range(0, 48, 4)]
    spec = SPEC | REMEMBERING
    for life in range(3):
        with process as service, service.http() as http:
            for model in ("once", "again") if not life else ():
                http.post("/models", json=spec | {"id": model}).raise_for_status()
            for number in range(4 * life, 4 * life + 4):
                send(http, "once", rows(batches[number]))
                assert "ignored" not in send(http, "again", rows(batches[number], on_repeat="ignore"))
                if number == 6:
                    http.post("/models/again/checkpoint").raise_for_status()
                for earlier in draw.choices(batches[: number + 1], k=2):
                    again = rows(earlier, on_repeat="ignore")
                    answer = send(http, "again", again, decay=0.5, remove={"oldest": 1})
                    assert (answer["added"], answer["removed"], answer["ignored"]) == ([], [], again["keys"])
                check_same(http, "once", "again")
            service.kill()


def test_the_rule_is_one_over_all_bodies(http: httpx.Client, make: Make, service: ServiceProcess) -> None:
    """A window of 4 with the keys a to d: each of them is a repeat, whichever would leave; so is what left."""
    model = make(**SPEC | {"window": {"max_examples": 4}})
    keys = ["gone", "a", "b", "c", "d"]
    for i, key in enumerate(keys):
        send(http, model, {"X": [X[i]], "y": [Y[i]], "keys": [key]})
    before = held(http, model)
    asked = {"X": X[8:14], "y": Y[8:14], "keys": ["a", "new", "d", "new", "gone", "newer"]}
    for key in keys:
        refused = http.post(f"/models/{model}/update", json={"add": {"X": [X[9]], "y": [Y[9]], "keys": [key]}})
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:livesvm:problem:duplicate-key")
    document = http.post(f"/models/{model}/update", json={"add": asked}).json()
    assert (document["field"], document["row"]) == ("keys", 0)
    wanted = "4 keys are repeated: keys 'a', 'd' are in the window already; key 'gone' has left the window; key 'new' "
    assert document["reason"].startswith(wanted + "stands twice; on_repeat")
    assert held(http, model) == before
    then = http.post(f"/models/{model}/what-if", json={"add": asked | {"on_repeat": "ignore"}}).json()
    assert (then["added"], then["ignored"]) == (["new", "newer"], ["a", "d", "new", "gone"])
    stream = io.BytesIO()
    members: dict[str, Any] = {**asked, "on_repeat": "ignore"}
    np.savez(stream, **members)
    headers = {"content-type": "application/x-npz"}
    answer = http.post(f"/models/{model}/update", content=stream.getvalue(), headers=headers).json()
    assert (answer["added"], answer["ignored"]) == (["new", "newer"], ["a", "d", "new", "gone"])
    assert answer["removed"] == ["a", "b"]
    with Client(service.url) as client:
        answer = client.update(model, X[:2], Y[:2], keys=["c", "gone"], on_repeat="replace", remove={"keys": ["d"]})
        assert (answer["added"], answer["removed"]) == (["c", "gone"], ["d", "c"])
        answer = client.update(model, X[:1], Y[:1], keys=["a"], on_repeat="ignore")
        assert (answer["added"], answer["ignored"]) == ([], ["a"])
    assert [one["key"] for one in held(http, model)[0]] == ["new", "newer", "c", "gone"]
    assert send(http, model, {"X": [X[20]], "y": [Y[20]], "keys": ["c"]}, remove={"keys": ["c"]})["removed"] == ["c"]


def test_a_repeat_under_a_name_has_the_same_answer(http: httpx.Client, make: Make) -> None:
    model, name = make(**SPEC), {"idempotency-key": "again"}
    send(http, model, rows([0, 1, 2, 3]))
    bodies = [{"add": rows([1, 2], on_repeat=rule)} for rule in ("ignore", "replace")]
    first = http.post(f"/models/{model}/update", json=bodies[0], headers=name)
    again = http.post(f"/models/{model}/update", json=bodies[0], headers=name)
    assert (first.json(), again.headers["idempotent-replayed"]) == (again.json(), "true")
    assert (first.json()["version"], first.json()["n_examples"]) == (2, 4)
    assert http.post(f"/models/{model}/update", json=bodies[1], headers=name).status_code == 409


def test_keys_of_erased_examples_are_not_remembered(kept: Kept) -> None:
    """By key, and by the tag of examples that left long ago; what is erased may come back."""
    process, everything = kept
    with process as service, service.http() as http:
        http.post("/models", json=SPEC | {"id": "m"} | REMEMBERING).raise_for_status()
        send(http, "m", rows(list(range(8)), tags=["customer", *[None] * 7]))
        for at in (8, 16):
            send(http, "m", rows(list(range(at, at + 4))))
            http.post("/models/m/checkpoint").raise_for_status()
        assert send(http, "m", rows([0, 1], on_repeat="ignore"))["ignored"] == KEYS[:2]
        send(http, "m", remove={"keys": [KEYS[9]]})
        for _ in range(2):
            send(http, "m", decay=0.9)
            http.post("/models/m/checkpoint").raise_for_status()
        for asked, i in (({"tags": ["customer"]}, 0), ({"keys": [KEYS[1]]}, 1), ({"keys": [KEYS[9]]}, 9)):
            assert places(everything(), KEYS[i], X[i])
            http.post("/models/m/erase", json=asked).raise_for_status()
            assert not places(everything(), KEYS[i], X[i])
        service.kill()
    with process as service, service.http() as http:
        assert send(http, "m", rows([2, 0], on_repeat="ignore"))["added"] == [KEYS[0]]


@pytest.mark.parametrize("restarts", [False, True])
def test_numbers_are_remembered_where_some_are_made_here(restarts: bool) -> None:
    """Numbers of clients are known after the service has given out a higher one, also past a snapshot."""
    state = ModelState.empty(ModelSpec.model_validate(SPEC | {"id": "m"}), 8)
    limits = WindowLimits(1000, 10, max_examples=SIZE)
    for first in (0, None, 100):
        keys: list[Any] | None = None if first is None else list(range(first, first + 4))
        update = Change(Batch(np.ones((4, 3)), np.resize([-1.0, 1.0], 4), keys))
        state.apply(state.window.plan(update, limits, 0.0, None))
        if restarts:
            state = ModelState.decode(state.spec, 8, state.encode())
    again = Batch(np.ones((2, 3)), np.ones(2), [0, 200])
    command = state.window.plan(Change(again, on_repeat="ignore"), limits, 0.0, None)
    assert (command.added, command.ignored) == ([200], [0])


def test_what_an_old_snapshot_lacks_is_not_known_and_not_missed() -> None:
    spec = ModelSpec.model_validate(SPEC | {"id": "m"})
    windows: list[dict[str, int]] = [
        {},
        {"max_examples": 5},
        {"max_examples": 10**8},
        {"max_examples": 5, "remember_keys": 0},
    ]
    numbers = [ModelSpec.model_validate({"window": window}).window.n_remembered for window in windows]
    assert numbers == [10_000, 5, 10**6, 0]
    state = ModelState.empty(spec, 8)
    assert "left" not in state.document()
    state.window.left["a"] = None
    document = state.document()
    assert list(ModelState.of(spec, 8, document).window.left) == ["a"]
    del document["left"]
    assert ModelState.of(spec, 8, document).window.left == {}
