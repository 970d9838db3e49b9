"""Services on a Redis of a test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess
from tests.support.updates_under_faults import MODEL, send


def service_on(server: RedisServer, directory: Path, **settings: Any) -> ServiceProcess:
    return ServiceProcess(directory, redis_url=server.url, lease_seconds=1, **settings)


def is_ready(http: httpx.Client) -> bool:
    return http.get("/health/ready").status_code == 200


def start_model(http: httpx.Client, updates: int) -> None:
    http.post("/models", json=MODEL).raise_for_status()
    for number in range(updates):
        assert send(http, number).json()["durability"] == "fsynced"
