"""What there is to attack, and valid requests to all of it."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

FEATURES = 3
JSON, NPY, NPZ = "application/json", "application/x-npy", "application/x-npz"
CSV, PARQUET = "text/csv", "application/vnd.apache.parquet"


@dataclass(frozen=True)
class Route:
    """A call that changes nothing but by what its document says."""

    method: str
    path: str
    document: dict[str, Any] | None = None
    packed: str = ""


@dataclass(frozen=True)
class Scene:
    """What there is to attack: its address, its models by task, a job that is done, a fleet and a feed."""

    host: str
    models: dict[str, str]
    job: str
    fleet: str
    feed: str


def rows(rng: random.Random, n: int = 2) -> list[list[float]]:
    """Return rows of numbers."""
    return [[round(rng.uniform(-2, 2), 3) for _ in range(FEATURES)] for _ in range(n)]


def route(rng: random.Random, scene: Scene) -> Route:
    """Return a valid call."""
    task = rng.choice(list(scene.models))
    model = f"/models/{scene.models[task]}"
    examples: dict[str, Any] = {"X": rows(rng), "weights": [1.0, 2.0]}
    if task != "oneclass":
        examples["y"] = [1, -1]
    update = {
        "add": examples | {"keys": [f"k{rng.getrandbits(40)}", rng.getrandbits(50)]},
        "remove": {"oldest": 1},
        "relabel": {"keys": [0], "y": [1]},
        "reweight": {"keys": [1], "weights": [0.5]},
        "decay": 0.999,
        "C": 9.0,
    }
    for verb in rng.sample(sorted(update), rng.randint(0, 5)):
        del update[verb]
    spec = {
        "id": f"made-{rng.getrandbits(32):x}", "task": "svr",
        "kernel": {"name": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0}, "C": 2.0, "loss": "pinball",
        "quantile": 0.3, "fit_intercept": True, "n_features": 3,
        "window": {"max_examples": 9, "max_age_seconds": 1e9},
    }  # fmt: skip
    path = {"parameter": "C", "minimum": 0.1, "maximum": 10.0, "data": examples, "validation": examples}
    outlier = {"parameter": "s", "theta": 0.5, "s": 1.0, "hold_out": 0.2}
    choices = [
        *[Route("POST", f"{model}/update", update or {"decay": 0.99}, "update")] * 4,
        *[Route("POST", f"{model}/predict", {"X": rows(rng)}, "predict")] * 3,
        Route("POST", "/models", spec),
        Route("POST", f"{model}/assessment", {"method": "k-fold", "folds": 3}),
        Route("POST", f"{model}/regularization-path", path),
        Route("POST", f"{model}/outlier-path", outlier),
        Route("POST", f"{model}/restore", {"version": 10**9}),
        Route("POST", f"/jobs/{scene.job}/apply", {"choice": {"C": 2.0, "value": 0.5}}),
        Route("POST", f"{model}/checkpoint"),
    ]
    reads = [
        "/models", model, f"{model}/certificate", f"{model}/versions", f"{model}/events", "/jobs",
        f"/jobs/{scene.job}", "/metrics", f"/jobs/{scene.job}/events", f"/jobs/{scene.job}/plot.svg", "/health/live",
        "/health/ready", "/docs", "/openapi.json", "/redoc",
    ]  # fmt: skip
    return rng.choice([*choices, *choices, *(Route("GET", path) for path in reads)])


def request(
    scene: Scene, method: str, path: str, body: bytes | None = None, media: str = JSON, more: tuple[bytes, ...] = ()
) -> bytes:
    """Return a request as it is sent."""
    head = [f"{method} {path} HTTP/1.1".encode(), b"host: " + scene.host.encode(), *more]
    if body is not None:
        head += [b"content-type: " + media.encode(), b"content-length: %d" % len(body)]
    return b"\r\n".join(head) + b"\r\n\r\n" + (body or b"")


def encoded(document: dict[str, Any] | None) -> bytes | None:
    """Return a document as JSON."""
    return None if document is None else json.dumps(document).encode()
