"""A feed of a made-up series, and the sender of its readings."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

FEED: dict[str, Any] = {
    "target": "y",
    "every": "1h",
    "window": 60,
    "steps": [1, 3],
    "lags": 6,
    "rolling": {"mean": [12]},
    "season": 12,
}
"""Small enough for a test, with all that is chosen."""
BEGIN = datetime(2024, 1, 1)
PIECE = 10_000


def series(n: int, seed: int = 0) -> NDArray[np.float64]:
    """Return a level that wanders, a season of 12, and noise; a longer one begins with the same values."""
    random = np.random.default_rng(seed)
    noise = np.concatenate([random.normal(size=(2, PIECE)) for _ in range(-(-n // PIECE))], axis=1)[:, :n]
    t = np.arange(n)
    return np.asarray(10 + 0.1 * noise[0].cumsum() + 3 * np.sin(2 * np.pi * t / 12) + 0.3 * noise[1])


def rows_of(values: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Hourly readings."""
    return [
        {"time": (BEGIN + timedelta(hours=i)).isoformat(), "y": float(value)} for i, value in enumerate(values.tolist())
    ]


def without_experts(forecasts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return forecasts as a call of readings answers them, without what they are blended of."""
    return [{name: value for name, value in one.items() if name != "experts"} for one in forecasts]


class Calls:
    """The readings of a series, so many to a call."""

    def __init__(self, size: int = 12) -> None:
        self.size = size
        self.values = series(PIECE)
        self.rows = rows_of(self.values)

    def post(self, http: httpx.Client, feed: str, number: int) -> httpx.Response:
        """Send a call, from 1 on, under its name."""
        while self.size * number > len(self.rows):
            self.values = series(2 * len(self.rows))
            self.rows = rows_of(self.values)
        rows = self.rows[self.size * (number - 1) : self.size * number]
        headers = {"idempotency-key": f"call-{number}"}
        return http.post(f"/feeds/{feed}/observations", json={"rows": rows}, headers=headers)


class Stream(Calls):
    """Sends them one after the other."""

    def __init__(self, http: httpx.Client, feed: str = "load", size: int = 12) -> None:
        super().__init__(size)
        self.http, self.feed = http, feed
        self.calls = 0

    def send(self, times: int = 1) -> dict[str, Any]:
        """Return the next calls; the last answer."""
        for _ in range(times):
            self.calls += 1
            found = self.send_again()
        return found

    def send_again(self) -> dict[str, Any]:
        """Return the newest call, again if it was sent."""
        answer = self.post(self.http, self.feed, self.calls)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found
