"""Updates that fault tests send, and what a model has to be after them."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np

from livesvm.solvers import IncrementalSVC
from tests.service.process import blobs

MODEL = {"id": "m", "C": 10.0, "kernel": {"name": "rbf", "gamma": 0.3}, "window": {"max_examples": 60}}


PROBE = np.random.default_rng(99).normal(size=(20, 3)).tolist()


def batch(number: int) -> dict[str, Any]:
    """Return the ``number``-th update: ten examples under their own keys."""
    X, y = blobs(np.random.default_rng(number), 10)
    return {"add": {"X": X, "y": y, "keys": [f"{number}-{row}" for row in range(10)]}}


def send(http: httpx.Client, number: int, **options: Any) -> httpx.Response:
    headers = {"Idempotency-Key": f"update-{number}"}
    return http.post("/models/m/update", json=batch(number), headers=headers, **options)


def learnt(http: httpx.Client, updates: int) -> None:
    """Create the model, and send it the first updates."""
    http.post("/models", json=MODEL).raise_for_status()
    for number in range(updates):
        send(http, number).raise_for_status()


def trained_from_nothing(numbers: list[int]) -> Any:
    """Return decisions of the library, trained at once on the window that these updates leave."""
    batches = [batch(number)["add"] for number in numbers]
    X = np.concatenate([one["X"] for one in batches])[-60:]
    y = np.concatenate([one["y"] for one in batches])[-60:]
    return IncrementalSVC(C=10.0, gamma=0.3, classes=(-1, 1)).fit(X, y).decision_function(PROBE)


def check_whole(http: httpx.Client, numbers: list[int]) -> None:
    """Check that the model is the one that exactly these updates make."""
    described = http.get("/models/m").json()
    assert described["version"] == len(numbers)
    assert described["n_examples"] == min(60, 10 * len(numbers))
    certificate = http.get("/models/m/certificate").json()
    assert certificate["relative_gap"] <= 1e-8
    decision = http.post("/models/m/predict", json={"X": PROBE}).json()["decision"]
    np.testing.assert_allclose(decision, trained_from_nothing(numbers), rtol=0, atol=1e-6)
