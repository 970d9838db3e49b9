"""A private service: ``python -m livesvm.service`` as a child process on a free loopback port."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

READY = re.compile(r"LiveSVM is ready at (http://\S+)")
START_SECONDS = 300.0
STOP_SECONDS = 40.0


class ServerError(Exception):
    """The service did not start, or did not stop as it should."""


class Server:
    """One service process with a data directory, a log and a port of its own.

    Parameters
    ----------
    data_dir : an empty directory; removed by :meth:`stop`
    settings : of the service, as variables of its environment
    """

    def __init__(self, data_dir: Path, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self.data_dir = data_dir
        self._settings = settings
        self.address = ""
        self.seconds = 0.0
        self._log = data_dir / "service.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the service and wait until it reports that it is ready; raises :class:`ServerError`."""
        begin = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "livesvm.service"],
                env=_environment(self.data_dir) | dict(self._settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while not (ready := READY.search(self._log.read_text(errors="replace"))):
            if self._process.poll() is not None:
                raise ServerError(f"the service ended with status {self._process.returncode}")
            if time.monotonic() - begin > START_SECONDS:
                raise ServerError(f"the service was not ready within {START_SECONDS:g} s")
            time.sleep(0.05)
        self.address = ready.group(1)
        self.seconds = time.monotonic() - begin

    def stop(self) -> int:
        """End the service, remove its data, and return its exit status."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            status = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        shutil.rmtree(self.data_dir, ignore_errors=True)
        return abs(status)

    def log_tail(self) -> str:
        """Return the last lines that the service logged."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return "\n".join(text.splitlines()[-20:])

    def how_to_use(self) -> str:
        """Return a text with the address of the running service and the way to stop it."""
        pid = self._process.pid if self._process else 0
        return (
            f"\nThe service is still up at {self.address} (API: {self.address}/docs).\n"
            f"Stop it with: kill {pid} && rm -r {self.data_dir}"
        )


def _environment(data_dir: Path) -> dict[str, str]:
    """Return this process's environment variables, with service settings replaced by the demonstration's."""
    ours = {"LIVESVM_HOST": "127.0.0.1", "LIVESVM_PORT": "0", "LIVESVM_DATA_DIR": str(data_dir / "data")}
    others = {name: value for name, value in os.environ.items() if not name.startswith("LIVESVM_")}
    return others | ours | {"LIVESVM_COMPILE_AHEAD": "0", "LIVESVM_LOG_FORMAT": "text", "PYTHONUNBUFFERED": "1"}
