"""Regressions over REST whose targets are learnt on another scale: what answers are in, errors, replay, erasures."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.solvers import IncrementalSVR, conformal
from tests.service.conftest import Make

RNG = np.random.default_rng(63)
X = RNG.normal(size=(200, 3))
PRICE = np.exp(6.0 + X @ [0.8, 0.4, 0.0] + 0.3 * RNG.normal(size=200)).round(2)
GIVEN: dict[str, Any] = {"task": "svr", "C": 3.0, "epsilon": 0.1, "kernel": {"name": "rbf", "gamma": 0.3}}


def add(http: httpx.Client, model: str, start: int, stop: int, **more: Any) -> dict[str, Any]:
    body = {"add": {"X": X[start:stop].tolist(), "y": PRICE[start:stop].tolist(), "keys": [*range(start, stop)]}, **more}
    answer = http.post(f"/models/{model}/update", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def like(n: int) -> tuple[IncrementalSVR, IncrementalSVR]:
    """Return a model of prices on a logarithmic scale, and one of logarithms."""
    given = {"C": 3.0, "epsilon": 0.1, "gamma": 0.3}
    return (
        IncrementalSVR(target_scale="log", **given).fit(X[:n], PRICE[:n]),
        IncrementalSVR(**given).fit(X[:n], np.log(PRICE[:n])),
    )


def test_predictions_intervals_and_the_record_are_in_units_of_y(http: httpx.Client, make: Make) -> None:
    model, rows = make(target_scale="log", **GIVEN), X[150:155].tolist()
    add(http, model, 0, 100)
    add(http, model, 100, 120)
    scaled, logarithms = like(120)
    answer = http.post(f"/models/{model}/predict", json={"X": rows}).json()
    np.testing.assert_allclose(answer["prediction"], scaled.predict(rows), rtol=1e-9)
    np.testing.assert_allclose(answer["decision"], logarithms.predict(rows), rtol=1e-9)
    sure = http.post(f"/models/{model}/predict", params={"coverage": 0.8}, json={"X": rows}).json()
    ends = np.exp(conformal(logarithms).intervals(rows, 0.8))
    np.testing.assert_allclose([sure["low"], sure["high"]], ends, rtol=1e-6)
    shown = http.get(f"/models/{model}").json()
    assert (shown["target_scale"], shown["epsilon"]) == ("log", 0.1)
    before, _ = like(100)
    assert shown["record"]["error"] == pytest.approx(np.abs(before.predict(X[100:120]) - PRICE[100:120]).mean())
    listed = http.get(f"/models/{model}/examples").json()["examples"]
    assert [one["y"] for one in listed] == PRICE[:120].tolist()
