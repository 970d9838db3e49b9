"""Waiting for jobs over REST."""

from __future__ import annotations

import time
from typing import Any

import httpx

from tests.support.jobs import SECONDS


def awaited(http: httpx.Client, job: str) -> dict[str, Any]:
    end = time.monotonic() + SECONDS
    while (found := http.get(f"/jobs/{job}").json())["state"] in ("queued", "running"):
        assert time.monotonic() < end
        time.sleep(0.01)
    return dict(found)
