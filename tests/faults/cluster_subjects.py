"""What is troubled in a cluster: models, feeds that are sent readings, and one that takes them from a Redis Stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import httpx
import numpy as np

from livesvm.solvers import IncrementalSVC
from tests.faults import feed_source
from tests.faults.feeds import SIZE, differences
from tests.service.process import blobs
from tests.support.feeds import FEED, Calls

MODEL: dict[str, Any] = {
    "C": 10.0,
    "kernel": {"name": "rbf", "gamma": 0.3},
    "n_features": 3,
    "window": {"max_examples": 60},
}
PROBE = np.random.default_rng(99).normal(size=(20, 3)).tolist()
AGREE = 1e-6
GAP = 1e-8
ENTRIES = 3
"""Of a Redis Stream, that are one update of the feed which reads it."""


class Subject(Protocol):
    """A model or a feed, which its client brings on one update at a time."""

    kind: str
    pause: float
    """Seconds between two updates."""
    acknowledges: bool
    """Whether the answer to an update says that it counts; else it tells how far the subject has come by itself."""

    @property
    def path(self) -> str:
        """Where it is found."""

    def create(self, http: httpx.Client) -> httpx.Response:
        """Have it made."""

    def update(self, http: httpx.Client, number: int) -> httpx.Response:
        """Do the update of this number, from 0 on; once, however often it is asked for."""

    def reported(self, answer: dict[str, Any]) -> int:
        """Return how many updates it has had, as the answer to one says."""

    def faults(self, http: httpx.Client, updates: int) -> list[str]:
        """Return what is not as it would be, had it had these updates untroubled."""


@dataclass
class Model:
    """A classifier over a window."""

    number: int
    kind = "model"
    pause = 0.5
    acknowledges = True

    @property
    def path(self) -> str:
        return f"/models/m{self.number}"

    def _rows(self, number: int) -> tuple[list[list[float]], list[int]]:
        return blobs(np.random.default_rng([self.number, number]), 4)

    def create(self, http: httpx.Client) -> httpx.Response:
        return http.post("/models", json={"id": f"m{self.number}", **MODEL})

    def update(self, http: httpx.Client, number: int) -> httpx.Response:
        X, y = self._rows(number)
        headers = {"idempotency-key": f"u{number}"}
        return http.post(f"{self.path}/update", json={"add": {"X": X, "y": y}}, headers=headers)

    def reported(self, answer: dict[str, Any]) -> int:
        return int(answer["version"])

    def faults(self, http: httpx.Client, updates: int) -> list[str]:
        """Compare it with one trained from nothing on what was acknowledged."""
        found = []
        if (version := http.get(self.path).json()["version"]) != updates:
            found.append(f"at version {version} after {updates} updates")
        parts = [self._rows(number) for number in range(updates)]
        X = np.concatenate([part[0] for part in parts])[-60:]
        y = np.concatenate([part[1] for part in parts])[-60:]
        expected = IncrementalSVC(C=10.0, gamma=0.3, classes=(-1, 1)).fit(X, y).decision_function(PROBE)
        decided = http.post(f"{self.path}/predict", json={"X": PROBE}).json()["decision"]
        if (off := float(np.abs(np.array(decided) - expected).max())) > AGREE:
            found.append(f"decisions are off by {off:.1e}")
        if (gap := http.get(f"{self.path}/certificate").json()["relative_gap"]) > GAP:
            found.append(f"the gap is {gap:.1e}")
        return found


class Feed:
    """A feed that is sent readings."""

    kind = "feed"
    pause = 1.0
    acknowledges = True

    def __init__(self, number: int) -> None:
        self._id = f"feed-{number}"
        self.path = f"/feeds/{self._id}"
        self._calls = Calls(SIZE)

    def create(self, http: httpx.Client) -> httpx.Response:
        return http.post("/feeds", json={"id": self._id, **FEED})

    def update(self, http: httpx.Client, number: int) -> httpx.Response:
        return self._calls.post(http, self._id, number + 1)

    def reported(self, answer: dict[str, Any]) -> int:
        return int(answer["position"]) // SIZE

    def faults(self, http: httpx.Client, updates: int) -> list[str]:
        """Compare it with one that was never troubled."""
        found = differences(http, updates, feed=self._id)
        if (position := http.get(self.path).json()["position"]) != SIZE * updates:
            found.append(f"at position {position} after {updates} calls of {SIZE} readings")
        return found


class Metered:
    """A feed that takes its readings from a Redis Stream by a consumer group."""

    kind = "source"
    path = "/feeds/load"
    pause = 1.0
    acknowledges = False

    def __init__(self, meter: feed_source.RedisMeter) -> None:
        self._meter = meter

    def create(self, http: httpx.Client) -> httpx.Response:
        return http.post("/feeds", json={"id": "load", **self._meter.spec})

    def update(self, http: httpx.Client, number: int) -> httpx.Response:
        self._meter.send_until(ENTRIES * (number + 1))
        return http.get(self.path)

    def reported(self, answer: dict[str, Any]) -> int:
        return int(answer["position"]) // ENTRIES

    def faults(self, http: httpx.Client, updates: int) -> list[str]:
        """Return entries without effect or with two, and what makes it differ from one that was never troubled."""
        return feed_source.faults_of(http, self._meter)
