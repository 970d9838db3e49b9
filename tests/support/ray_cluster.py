"""A Ray cluster of a test's own, and what can happen to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ACTOR = b"ray::ModelActor"
TASK = b"ray::_work"


class RayCluster:
    """A head without models, and nodes with them, in processes that can be killed.

    Parameters
    ----------
    nodes : for models
    redis : host:port of one in which the head keeps what it knows; without, its loss ends all
    patience : seconds for which nodes wait for the head before they end
    """

    def __init__(self, nodes: int = 1, redis: str = "", patience: int = 60) -> None:
        self._n, self._redis, self._patience = nodes, redis, patience
        self.address = ""
        self.head = 0
        self.raylets: list[int] = []
        self.ids: dict[int, str] = {}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "livesvm.service.ray.local", "--nodes", str(self._n), "--redis", self._redis]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LIVESVM_")}
        environment["RAY_gcs_rpc_server_reconnect_timeout_s"] = str(self._patience)
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        reported = self._told()
        self.address, self.head = reported["address"], reported["raylet"]
        while "raylet" in (reported := self._told()):
            self._has(reported)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        killer = threading.Timer(30.0, self._process.kill)
        killer.start()
        self._process.wait()
        killer.cancel()
        self._process.stdout.close()

    def _told(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    return found
        raise RuntimeError("the cluster has ended")

    def add_node(self) -> int:
        """Return one more node; the process that its workers are children of."""
        return self._has(self._asked("add"))

    def behead(self) -> None:
        """Kill the head's server by ``kill -9``."""
        self._asked("behead")

    def crown(self) -> None:
        """Start the head's server again, where it was."""
        self._asked("head")

    def lose(self) -> bool:
        """Forget nodes that have ended; whether all have."""
        self.raylets = [raylet for raylet in self.raylets if _command(raylet)]
        return not self.raylets and not _command(self.head)

    def _asked(self, what: str) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return self._told()

    def _has(self, reported: dict[str, Any]) -> int:
        raylet = int(reported["raylet"])
        self.raylets.append(raylet)
        self.ids[raylet] = reported["node"]
        return raylet

    def drain(self, raylet: int) -> None:
        """Have Ray drain a node, as an operator does."""
        command = [str(Path(sys.executable).with_name("ray")), "drain-node", "--address", self.address]
        why = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "its models move"]
        subprocess.run([*command, "--node-id", self.ids[raylet], *why], check=True, capture_output=True)

    def actors(self, raylet: int | None = None) -> list[int]:
        """Return processes of actors, of one node or of all."""
        return self.workers(ACTOR, raylet)

    def workers(self, name: bytes, raylet: int | None = None) -> list[int]:
        """Return processes that do what has a name, on one node or on all."""
        nodes = self.raylets if raylet is None else [raylet]
        return [pid for node in nodes for pid in children(node) if _command(pid).startswith(name)]

    def signal_node(self, raylet: int, number: int) -> None:
        """Send a signal to all processes of a node."""
        for pid in [raylet, *children(raylet)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill_node(self, raylet: int) -> None:
        """Kill all processes of a node by ``kill -9``."""
        self.raylets.remove(raylet)
        self.signal_node(raylet, signal.SIGKILL)


def children(parent: int) -> list[int]:
    """Return processes that one has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.append(int(path.parent.name))
    return found


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
