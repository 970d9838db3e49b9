"""A real service in a process of its own, for tests that start, stop and kill it."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.service.starts import Forked, Started, afresh
from tests.support.elsewhere import settings_for
from tests.support.waiting import until

START_SECONDS = 240.0
"""The first start compiles; the later ones find that in the cache."""


def _compiles() -> dict[str, str]:
    """Return what the environment says of how solvers are compiled, and where that is kept."""
    return {name: value for name, value in os.environ.items() if name.startswith("NUMBA_")}


COMPILED = _compiles()
"""For what is forked."""


class ServiceProcess:
    """``python -m livesvm.service`` on a free port with its own data directory.

    Parameters
    ----------
    data_dir : the embedded store's directory, kept between starts
    prepare : run in the child before it starts, to set limits
    settings : settings without their prefix, as ``queue_size=2``; what is empty is not set
    """

    forks = False
    """Whether it is forked from a process that has loaded everything once, as tests say and commands do not; what is
    to compile differently is started afresh all the same."""

    def __init__(self, data_dir: Path, prepare: Callable[[], None] | None = None, **settings: Any) -> None:
        self.data_dir = data_dir
        self.prepare = prepare
        self.settings = settings
        self.module = "livesvm.service"
        self.waits_for_models = True
        self.said = ""
        self.url = ""
        self.errors = ""
        self._lines: queue.Queue[str] = queue.Queue()
        self._readers: list[threading.Thread] = []
        self._process: Started | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def start(self) -> Self:
        """Start and wait until the service says that it is ready, or what keeps it from that."""
        self.launch()
        try:
            line = self._lines.get(timeout=START_SECONDS)
        except queue.Empty:
            self.kill()
            raise RuntimeError(f"the service was not ready after {START_SECONDS:g} s: {self.errors}") from None
        found = re.search(r"^LiveSVM is (?:ready|up) at (http://[^;\s]+)", line)
        if found is None:
            raise RuntimeError(f"the service ended with status {self.wait()}: {self.errors}")
        self.said, self.url = line.strip(), found[1]
        if self.waits_for_models:
            self._wait_for_models()
        return self

    def _wait_for_models(self) -> None:
        """Return when no model is still being restored, as one may be on a slow machine."""
        with self.http() as http:
            until(lambda: "still being restored" not in http.get("/health/ready").text, START_SECONDS)

    def launch(self) -> None:
        """Start without waiting."""
        self._lines = queue.Queue()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LIVESVM_")}
        settings = {"port": 0, "data_dir": self.data_dir, **self.settings}
        if self.module == "livesvm.service" and "redis_url" not in settings:
            settings |= settings_for(self.data_dir)
        environment |= {f"LIVESVM_{name.upper()}": str(value) for name, value in settings.items() if value != ""}
        if self.forks and _compiles() == COMPILED:
            self._process = Forked(self.module, environment, self.prepare)
        else:
            self._process = afresh(self.module, environment, self.prepare)
        self._readers = [
            threading.Thread(target=reader, args=(self._process,), daemon=True)
            for reader in (self._read_lines, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()

    def _read_lines(self, process: Started) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put("")

    def _read_errors(self, process: Started) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                self.errors += line

    def http(self, timeout: float = 30.0) -> httpx.Client:
        """Return a client for plain requests."""
        return httpx.Client(base_url=self.url, timeout=timeout, trust_env=False, verify=False)  # which is plain

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """Return a connection of its own, from an address of this machine."""
        url = httpx.URL(self.url)
        return socket.create_connection((url.host, url.port or 80), timeout=30, source_address=(source, 0))

    def raw(self, head: str) -> bytes:
        """Return all that comes back for the lines of a head as they stand."""
        with self.connect() as plain:
            plain.sendall(head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n")
            plain.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: plain.recv(65536), b""))

    def signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def wait(self, timeout: float = 30.0) -> int:
        """Return the exit status."""
        assert self._process is not None
        status = self._process.wait(timeout)
        for reader in self._readers:
            reader.join()
        return status

    def kill(self) -> None:
        """Kill it by ``kill -9``."""
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self.kill()
        self.wait()


class ServiceStartedAfresh(ServiceProcess):
    """One that is never forked, where a start or an end is what is tested."""

    forks = False


def blobs(rng: Any, n: int, d: int = 3) -> tuple[list[list[float]], list[int]]:
    """Draw ``n`` examples of two overlapping classes."""
    y = rng.choice([-1, 1], n)
    X = rng.normal(size=(n, d)) + 0.7 * y[:, None]
    return X.tolist(), y.tolist()
