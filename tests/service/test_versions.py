"""Going back to a kept version over REST."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from tests.service.conftest import Make
from tests.service.process import blobs

PROBE, _ = blobs(np.random.default_rng(77), 8)


def learn(http: httpx.Client, model: str, seed: int, **more: Any) -> None:
    X, y = blobs(np.random.default_rng(seed), 6)
    http.post(f"/models/{model}/update", json={"add": {"X": X, "y": y}, **more}).raise_for_status()


def decide(http: httpx.Client, model: str) -> Any:
    return http.post(f"/models/{model}/predict", json={"X": PROBE}).json()["decision"]


def test_a_version_comes_back_as_a_new_one(http: httpx.Client, make: Make) -> None:
    model = make(C=3.0)
    decisions = []
    for seed in range(4):
        learn(http, model, seed)
        decisions.append(decide(http, model))
    found = http.get(f"/models/{model}/versions").json()
    assert (found["current"], found["oldest"], found["snapshots"], found["erased_at"]) == (4, 0, [], None)
    answer = http.post(f"/models/{model}/restore", json={"version": 2})
    assert answer.status_code == 200
    said = answer.json()
    assert (said["version"], said["restored"], said["n_examples"], said["durability"]) == (5, 2, 12, "fsynced")
    np.testing.assert_allclose(decide(http, model), decisions[1], rtol=0, atol=1e-7)
    assert http.get(f"/models/{model}/certificate").json()["relative_gap"] <= 1e-8
    learn(http, model, 9)
    assert http.get(f"/models/{model}").json()["n_examples"] == 18


def test_what_the_model_was_asked_since_is_undone_and_keys_are_not_given_out_again(
    http: httpx.Client, make: Make
) -> None:
    model = make(C=3.0)
    learn(http, model, 0)
    before = decide(http, model)
    learn(http, model, 1, C=30.0)
    http.post(f"/models/{model}/update", json={"remove": {"oldest": 3}}).raise_for_status()
    http.post(f"/models/{model}/restore", json={"version": 1}).raise_for_status()
    assert http.get(f"/models/{model}").json()["C"] == 3.0
    np.testing.assert_allclose(decide(http, model), before, rtol=0, atol=1e-7)
    X, y = blobs(np.random.default_rng(5), 1)
    assert http.post(f"/models/{model}/update", json={"add": {"X": X, "y": y}}).json()["added"] == [12]


def test_snapshots_are_listed_and_old_versions_leave_with_the_log(http: httpx.Client, make: Make) -> None:
    model = make()
    for seed in range(3):
        learn(http, model, seed)
        http.post(f"/models/{model}/checkpoint").raise_for_status()
    found = http.get(f"/models/{model}/versions").json()
    assert [snapshot["version"] for snapshot in found["snapshots"]] == [3, 2]
    assert all(snapshot["bytes"] > 100 for snapshot in found["snapshots"])
    assert found["oldest"] == 2
    refused = http.post(f"/models/{model}/restore", json={"version": 1})
    assert (refused.status_code, refused.json()["field"]) == (422, "version")
    assert "the oldest is 2" in refused.json()["detail"]
    refused = http.post(f"/models/{model}/restore", json={"version": 9})
    assert (refused.status_code, refused.json()["field"]) == (422, "version")
    assert "the newest 3" in refused.json()["detail"]


@pytest.mark.parametrize("body", [{}, {"version": -1}, {"version": 2.5}, {"version": 99}, {"version": 0, "more": 1}])
def test_what_cannot_be_restored_is_refused(body: dict[str, Any], http: httpx.Client, make: Make) -> None:
    model = make()
    learn(http, model, 0)
    assert http.post(f"/models/{model}/restore", json=body).status_code == 422
    assert http.get(f"/models/{model}").json()["version"] == 1


def test_the_empty_model_can_be_restored(http: httpx.Client, make: Make) -> None:
    model = make()
    learn(http, model, 0)
    assert http.post(f"/models/{model}/restore", json={"version": 0}).json()["n_examples"] == 0
    learn(http, model, 1)
    assert http.get(f"/models/{model}").json()["n_examples"] == 6


def test_going_back_has_one_effect_under_one_name(http: httpx.Client, make: Make) -> None:
    model = make()
    for seed in range(2):
        learn(http, model, seed)
    headers = {"Idempotency-Key": "undo"}
    first = http.post(f"/models/{model}/restore", json={"version": 1}, headers=headers)
    again = http.post(f"/models/{model}/restore", json={"version": 1}, headers=headers)
    assert (again.content, again.headers["idempotent-replayed"]) == (first.content, "true")
    assert http.post(f"/models/{model}/restore", json={"version": 0}, headers=headers).status_code == 409
    assert http.get(f"/models/{model}").json()["version"] == 3
