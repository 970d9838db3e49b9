"""A real Sentinel of the tests' own, which watches one server as ``river``."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from tests.contract.redis_server import START_SECONDS, executable, free_port


class Sentinel:
    """One Sentinel in a directory of its own.

    Parameters
    ----------
    directory : where it keeps its configuration and its log
    watched : port of the server on this machine that it watches, and tells its clients of
    options : further lines of its configuration, ``tls_replication="yes"``; with ``tls_port`` it has no other
    """

    def __init__(self, directory: Path, watched: int, **options: str) -> None:
        self._directory = directory
        self._watched = watched
        self._options = {name.replace("_", "-"): value for name, value in options.items()}
        self.port = int(options.get("tls_port", 0)) or free_port()

    def __enter__(self) -> Self:
        """Start, and wait until it answers."""
        self._directory.mkdir(exist_ok=True)
        lines = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self._directory)}
        lines |= ({"port": "0"} if "tls-port" in self._options else {}) | self._options
        lines["sentinel"] = f"monitor river 127.0.0.1 {self._watched} 1"
        place = self._directory / "sentinel.conf"
        place.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
        with (self._directory / "sentinel.log").open("wb") as log:
            self._process = subprocess.Popen([executable(), str(place), "--sentinel"], stdout=log, stderr=log)
        self._wait()
        return self

    def _wait(self) -> None:
        """Wait until it listens."""
        secured: dict[str, Any] = {"ssl": True, "ssl_cert_reqs": "none"} if "tls-port" in self._options else {}
        end = time.monotonic() + START_SECONDS
        with redis.Redis(port=self.port, **secured) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.RedisError:
                    if time.monotonic() > end or self._process.poll() is not None:
                        self._end()
                        raise
                    time.sleep(0.02)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
