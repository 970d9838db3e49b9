"""Jobs over REST: waiting for one, and one that takes long."""

from __future__ import annotations

import time
from typing import Any

import httpx
import numpy as np

from tests.service.process import blobs
from tests.support.waiting import PATIENCE


def awaited(http: httpx.Client, job: str) -> dict[str, Any]:
    end = time.monotonic() + PATIENCE
    while (found := http.get(f"/jobs/{job}").json())["state"] in ("queued", "running"):
        assert time.monotonic() < end
        time.sleep(0.03)
    return dict(found)


def of_seconds(http: httpx.Client, model: str) -> str:
    """Return the address of a job that takes many seconds, of a model that is made for it."""
    X, y = blobs(np.random.default_rng(5), 3000)
    http.post("/models", json={"id": model, "C": 100.0}).raise_for_status()
    http.post(f"/models/{model}/update", json={"add": {"X": X, "y": y}}).raise_for_status()
    asked = http.post(f"/models/{model}/assessment", json={"method": "k-fold", "folds": 3000})
    assert asked.status_code == 202, asked.text
    return str(asked.headers["location"])
