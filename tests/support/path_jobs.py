"""Data for jobs that walk paths."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np

from tests.service.process import blobs

GAMMA = 0.4


RBF = {"name": "rbf", "gamma": GAMMA}


def data(n: int, seed: int = 9) -> tuple[Any, Any]:
    X, y = blobs(np.random.default_rng(seed), n)
    return np.array(X, dtype=float), np.array(y, dtype=float)


def learnt(http: httpx.Client, model: str, X: Any, y: Any) -> None:
    add = {"X": X.tolist(), "keys": [f"k{i}" for i in range(len(X))]} | ({} if y is None else {"y": y.tolist()})
    http.post(f"/models/{model}/update", json={"add": add}).raise_for_status()
