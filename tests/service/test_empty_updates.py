"""An update that holds nothing, as on a day without data, changes nothing and says so."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from livesvm.service.client import Client
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.service.test_api import ROWS
from tests.support.npz import npz

EMPTY: list[dict[str, Any]] = [
    {},
    {"add": {"X": [], "y": []}},
    {"add": {"X": [], "y": [], "keys": [], "weights": [], "times": [], "tags": []}},
    {"add": {"X": {"indices": [], "values": [], "n_features": 2}, "y": []}},
    {"remove": {"keys": []}},
    {"remove": {"oldest": 0}},
    {"remove": {"older_than": 0}},
    {"relabel": {"keys": [], "y": []}, "reweight": {"keys": [], "weights": []}},
    {"decay": 1.0},
    {"add": {"X": []}, "remove": {"keys": []}, "decay": 1},
]
NPZ: list[dict[str, Any]] = [
    {},
    {"X": np.empty((0, 2)), "y": np.empty(0)},
    {"X": np.empty((0, 2)), "keys": np.empty(0, np.int64), "weights": np.empty(0)},
    {"remove_keys": np.empty(0, np.int64)},
    {"remove_oldest": np.array(0)},
    {"relabel_keys": np.empty(0, np.int64), "relabel_y": np.empty(0)},
    {"decay": np.array(1.0)},
]
HEADERS = {"content-type": "application/x-npz"}


def check(answer: httpx.Response, version: int, n: int) -> None:
    found = answer.json()
    assert answer.status_code == 200, answer.text
    assert (found["version"], found["n_examples"]) == (version, n)
    assert (found["added"], found["removed"], found["changed"], found["events"]) == ([], [], 0, 0)


def test_nothing_changes_nothing(http: httpx.Client, make: Make) -> None:
    model, path = make(), "/models/{}/update".format
    for body in EMPTY:
        check(http.post(path(model), json=body), 0, 0)
    http.post(path(model), json={"add": ROWS}).raise_for_status()
    before = http.get(f"/models/{model}").json()
    for body in EMPTY:
        name = {} if "older_than" in (body.get("remove") or {}) else {"idempotency-key": "day"}
        check(http.post(path(model), json=body, headers=name), 1, 3)
    for arrays in NPZ:
        check(http.post(path(model), content=npz(**arrays), headers=HEADERS), 1, 3)
    after = http.get(f"/models/{model}").json()
    assert {name: after[name] for name in ("version", "updated_at")} == {
        name: before[name] for name in ("version", "updated_at")
    }
    full = http.post(path(model), json={"decay": 0.5}, headers={"idempotency-key": "day"})
    assert full.json()["version"] == 2  # a name that was given to nothing is not taken


def test_a_named_removal_by_age_that_found_nothing_has_no_effect_later(http: httpx.Client, make: Make) -> None:
    rows: Any = ROWS
    model, name = make(), {"idempotency-key": "month"}
    asked = {"remove": {"older_than": "2024-06-01T00:00Z"}}
    http.post(f"/models/{model}/update", json={"add": ROWS}).raise_for_status()
    first = http.post(f"/models/{model}/update", json=asked, headers=name).json()
    late = {"X": rows["X"][:1], "y": rows["y"][:1], "times": ["2024-01-01T00:00Z"]}
    http.post(f"/models/{model}/update", json={"add": late}).raise_for_status()
    assert http.post(f"/models/{model}/update", json=asked, headers=name).json() == first
    assert http.get(f"/models/{model}").json()["n_examples"] == len(rows["X"]) + 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"add": {"X": [], "y": [1]}}, "add.y"),
        ({"add": {"X": [[1.0, 2.0]], "y": []}}, "add.y"),
        ({"add": {"X": [[1.0, 2.0]], "y": [1], "keys": []}}, "add.keys"),
        ({"relabel": {"keys": [], "y": [1]}}, "relabel.y"),
        ({"relabel": {"keys": [0], "y": []}}, "relabel.y"),
        ({"change": {}}, "change"),
    ],
)
def test_what_is_half_empty_is_refused(http: httpx.Client, make: Make, body: dict[str, Any], field: str) -> None:
    model = make()
    http.post(f"/models/{model}/update", json={"add": ROWS}).raise_for_status()
    answer = http.post(f"/models/{model}/update", json=body)
    assert answer.status_code == 422
    assert field.rpartition(".")[2] in str(answer.json())
    assert http.get(f"/models/{model}").json()["version"] == 1


def test_clients_send_nothing_and_series(service: ServiceProcess, make: Make) -> None:
    model = make()
    with Client(service.url) as client:
        first: Any = ROWS
        client.update(model, first["X"], first["y"])
        empty: list[tuple[Any, Any]] = [
            (None, None),
            ([], []),
            (np.empty((0, 2)), np.empty(0)),
            (sparse.csr_array((0, 2)), []),
            (pd.DataFrame({"a": [], "b": []}), pd.Series([], dtype=float)),
        ]
        rows: Any
        y: Any
        for rows, y in empty:
            assert client.update(model, rows, y)["version"] == 1
        nothing: Any = pd.Series([], dtype=float)
        assert client.update(model, relabel={}, reweight=nothing, remove={"keys": []})["version"] == 1
        weights: Any = pd.Series([2.0, 3.0], index=[0, 1])
        assert client.update(model, reweight=weights)["changed"] == 2
        labels: Any = pd.Series([1], index=[1])
        assert client.update(model, relabel=labels)["changed"] == 1
