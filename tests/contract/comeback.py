"""A service is killed and started again on the same store: shared by the tests of what lies in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.service.process import ServiceProcess, blobs


def check_that_models_come_back(settings: dict[str, Any], place: Path) -> None:
    """Check that a model that has learnt is there again after the service was killed."""
    X, y = blobs(np.random.default_rng(0), 20)
    with ServiceProcess(place / "data", None, **settings) as service, service.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0}).raise_for_status()
        answer = http.post("/models/m/update", json={"add": {"X": X, "y": y}}).json()
        assert (answer["version"], answer["durability"]) == (1, "fsynced")
        service.kill()
    with ServiceProcess(place / "data", None, **settings) as service, service.http() as http:
        assert http.get("/models/m").json()["version"] == 1
