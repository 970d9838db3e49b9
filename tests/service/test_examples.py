"""A window is its owner's: what `GET /models/{id}/examples` gives back, in each format, page by page, by key."""

from __future__ import annotations

import csv
import io
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client
from tests.service.conftest import Make
from tests.service.process import ServiceProcess, blobs

KERNEL = {"name": "rbf", "gamma": 0.5}


def filled(http: httpx.Client, model: str, n: int = 12) -> dict[str, Any]:
    X, y = blobs(np.random.default_rng(7), n)
    batch = {"X": X, "y": y, "keys": [*range(n - 1), "last, of all"], "weights": [1.0 + i % 3 for i in range(n)]}
    http.post(f"/models/{model}/update", json={"add": batch}).raise_for_status()
    return batch


def test_a_window_comes_back_as_it_went_in(http: httpx.Client, make: Make) -> None:
    model = make(kernel=KERNEL)
    batch = filled(http, model)
    found = http.get(f"/models/{model}/examples").raise_for_status().json()
    assert (found["version"], found["n_examples"], found["next"]) == (1, 12, None)
    for name, column in (("key", "keys"), ("x", "X"), ("y", "y"), ("weight", "weights")):
        assert [example[name] for example in found["examples"]] == batch[column]
    assert all(example["arrived_at"].endswith("Z") and not example["outlier"] for example in found["examples"])


def test_coefficients_are_those_of_the_optimum(http: httpx.Client, make: Make) -> None:
    model = make(kernel=KERNEL, C=1.0)
    batch = filled(http, model)
    examples = http.get(f"/models/{model}/examples").json()["examples"]
    described = http.get(f"/models/{model}").json()
    sides = [example["side"] for example in examples]
    assert sides.count("free") == described["n_free"]
    assert sides.count("bound") == described["n_bound"]
    X, beta = np.array(batch["X"]), np.array([example["coefficient"] for example in examples])
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    decision = np.array(http.post(f"/models/{model}/predict", json={"X": batch["X"]}).json()["decision"])
    offset = decision - K @ beta
    assert np.ptp(offset) < 1e-9  # the intercept
    for example in examples:
        size = abs(example["coefficient"])
        limit = example["weight"]
        assert {"free": size <= limit + 1e-9, "bound": abs(size - limit) < 1e-9, "none": size == 0.0}[example["side"]]


def test_pages_follow_one_another(http: httpx.Client, make: Make) -> None:
    model = make(kernel=KERNEL)
    batch = filled(http, model)
    keys: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        page = http.get(f"/models/{model}/examples", params={"offset": offset, "limit": 5}).json()
        keys += [example["key"] for example in page["examples"]]
        offset = page["next"]
    assert keys == batch["keys"]
    assert http.get(f"/models/{model}/examples", params={"offset": 99}).json()["examples"] == []


def test_npz_goes_back_into_another_model(http: httpx.Client, make: Make) -> None:
    model, other = make(kernel=KERNEL), make(kernel=KERNEL)
    batch = filled(http, model)
    answer = http.get(f"/models/{model}/examples", headers={"accept": "application/x-npz"})
    assert answer.headers["content-type"] == "application/x-npz"
    with np.load(io.BytesIO(answer.content)) as found:
        assert found["X"].tolist() == batch["X"]
        members = {name: found[name] for name in ("X", "y", "keys", "weights")}
    packed = io.BytesIO()
    np.savez(packed, **members)
    headers = {"content-type": "application/x-npz"}
    http.post(f"/models/{other}/update", content=packed.getvalue(), headers=headers).raise_for_status()
    one, two = (http.post(f"/models/{m}/predict", json={"X": batch["X"]}).json()["decision"] for m in (model, other))
    assert np.allclose(one, two, atol=1e-9)


def test_csv(http: httpx.Client, make: Make) -> None:
    model = make(kernel=KERNEL)
    batch = filled(http, model)
    answer = http.get(f"/models/{model}/examples", params={"format": "csv"})
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [[float(row[f"x{i}"]) for i in range(3)] for row in rows] == batch["X"]
    assert [row["key"] for row in rows] == [str(key) for key in batch["keys"]]


def test_by_key(http: httpx.Client, make: Make, service: ServiceProcess) -> None:
    model = make(kernel=KERNEL)
    filled(http, model)
    with Client(service.url) as client:
        found = client.examples(model, ["last, of all", 3])
        assert [example["key"] for example in found["examples"]] == [3, "last, of all"]
        assert client.examples(model, limit=2)["next"] == 2
    unknown = http.get(f"/models/{model}/examples", params={"keys": "nobody"})
    assert (unknown.status_code, unknown.json()["type"]) == (422, "urn:livesvm:problem:unknown-key")


def test_an_empty_window_has_no_examples_and_no_format_is_no_answer(http: httpx.Client, make: Make) -> None:
    model = make()
    assert http.get(f"/models/{model}/examples").json()["examples"] == []
    for format in ("npz", "csv"):
        http.get(f"/models/{model}/examples", params={"format": format}).raise_for_status()
    assert http.get(f"/models/{model}/examples", headers={"accept": "image/png"}).status_code == 406


@pytest.mark.parametrize(("task", "y"), [("svr", [0.5, 1.5, 9.0, 2.5]), ("oneclass", None)])
def test_other_tasks(task: str, y: list[float] | None, http: httpx.Client, make: Make) -> None:
    model = make(task=task, kernel=KERNEL)
    batch: dict[str, Any] = {"X": [[0.0], [1.0], [2.0], [3.0]]} | ({} if y is None else {"y": y})
    http.post(f"/models/{model}/update", json={"add": batch}).raise_for_status()
    examples = http.get(f"/models/{model}/examples").json()["examples"]
    assert [example["x"] for example in examples] == batch["X"]
    assert any(example["side"] != "none" for example in examples)
    if y is not None:
        assert [example["y"] for example in examples] == y
