"""The models that are attacked, and how they are judged afterwards: by models trained from nothing."""

from __future__ import annotations

import time
from typing import Any

import httpx
import numpy as np

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from tests.faults.scene import FEATURES, Scene

KERNEL = {"name": "rbf", "gamma": 0.5}
WINDOW = 40
SPECS: dict[str, dict[str, Any]] = {"svc": {"C": 10.0}, "svr": {"C": 10.0, "epsilon": 0.1}, "oneclass": {"nu": 0.3}}
CLOSE = 1e-6
"""How near decisions are to those of a model trained from nothing."""


def draw(rng: np.random.Generator, task: str, n: int) -> dict[str, Any]:
    """Return examples that are easy to learn."""
    y = rng.choice([-1.0, 1.0], n)
    X = rng.normal(size=(n, FEATURES)) + y[:, None]
    target = {"svc": y, "svr": X.sum(1)}.get(task)
    return {"X": X.tolist()} if target is None else {"X": X.tolist(), "y": target.tolist()}


def set_scene(http: httpx.Client, prefix: str = "") -> Scene:
    """Return a model of every task, a job that is done, a fleet without series, and a feed."""
    for task, more in SPECS.items():
        spec = {"id": prefix + task, "task": task, "kernel": KERNEL, "n_features": FEATURES, **more}
        http.post("/models", json=spec | {"window": {"max_examples": WINDOW}}).raise_for_status()
        examples = draw(np.random.default_rng(0), task, 12)
        http.post(f"/models/{prefix}{task}/update", json={"add": examples}).raise_for_status()
    job = http.post(f"/models/{prefix}svc/regularization-path", json={"minimum": 0.1, "maximum": 10}).json()["id"]
    while http.get(f"/jobs/{job}").json()["state"] in ("queued", "running"):
        time.sleep(0.02)
    fleet: dict[str, Any] = {
        "id": f"{prefix}meters",
        "target": "y",
        "series": "meter",
        "time": "time",
        "every": "1h",
        "new": "refuse",
    }
    http.post("/fleets", json=fleet).raise_for_status()
    feed: dict[str, Any] = {"id": f"{prefix}feed", "target": "y", "time": "time", "every": "1h", "known": ["t"]}
    http.post("/feeds", json=feed).raise_for_status()
    rows = [{"time": f"2024-01-{at // 24 + 1:02}T{at % 24:02}:00", "y": at % 7, "t": at % 5} for at in range(48)]
    http.post(f"/feeds/{prefix}feed/observations", json={"rows": rows}).raise_for_status()
    models = {task: prefix + task for task in SPECS}
    return Scene(http.base_url.netloc.decode(), models, job, fleet["id"], feed["id"])


def versions(http: httpx.Client) -> dict[str, int]:
    """Return the version of every model."""
    return {model["id"]: model["version"] for model in http.get("/models").raise_for_status().json()["models"]}


def trained(task: str, examples: dict[str, Any]) -> Any:
    """Return a model of the library, trained from nothing."""
    kernel = {"kernel": "rbf", "gamma": KERNEL["gamma"]}
    made = {"svc": IncrementalSVC, "svr": IncrementalSVR, "oneclass": IncrementalOneClassSVM}[task]
    return made(**kernel, **SPECS[task]).fit(np.array(examples["X"]), *([examples["y"]] if "y" in examples else []))


def distance(http: httpx.Client, task: str, model: str) -> float:
    """Return how far a model, all it knew replaced, is from one trained from nothing; inf where it refuses."""
    rng = np.random.default_rng(7)
    examples, probe = draw(rng, task, WINDOW), rng.normal(size=(20, FEATURES))
    update: dict[str, Any] = {"add": examples} | ({} if task == "oneclass" else {"C": SPECS[task]["C"]})
    answer = http.post(f"/models/{model}/update", json=update)
    predicted = http.post(f"/models/{model}/predict", json={"X": probe.tolist()})
    proved = http.get(f"/models/{model}/certificate")
    if {answer.status_code, predicted.status_code, proved.status_code} != {200} or proved.json()[
        "relative_gap"
    ] > CLOSE:
        return np.inf
    return float(np.abs(predicted.json()["decision"] - decided(trained(task, examples), probe)).max())


def decided(model: Any, X: Any) -> Any:
    """Return the decision values of rows."""
    return model.predict(X) if isinstance(model, IncrementalSVR) else model.decision_function(X)
