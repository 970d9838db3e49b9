"""A real Mosquitto of the tests' own: a free port, its own directory, gone at the end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.contract.redis_server import free_port
from tests.support.waiting import until

EXECUTABLE = shutil.which("mosquitto", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))
needs_mosquitto = pytest.mark.skipif(EXECUTABLE is None, reason="needs mosquitto (apt-get install mosquitto)")
START_SECONDS = 20.0
ANSWER_SECONDS = 10.0
_KEPT = ("persistence true", "autosave_interval 1", "autosave_on_changes true", "max_queued_messages 0")


class Mosquitto:
    """One broker, kept on its port and its directory over kills and starts; it saves its state after each change.

    Parameters
    ----------
    directory : where it keeps its files
    options : further lines of its configuration
    """

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.port = free_port()
        user = ["user root"] if os.name == "posix" and os.geteuid() == 0 else []
        access = [] if any(option.startswith("password_file") for option in options) else ["allow_anonymous true"]
        listener = [f"listener {self.port} 127.0.0.1", *user, *access, *_KEPT, f"persistence_location {directory}/"]
        self._lines = [*listener, *options]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start, and wait until it listens."""
        assert EXECUTABLE is not None
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "mosquitto.conf"
        config.write_text("\n".join([*self._lines, ""]))
        with (self.directory / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen([EXECUTABLE, "-c", str(config)], stdout=log, stderr=log)
        end = time.monotonic() + START_SECONDS
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            if time.monotonic() > end or self._process.poll() is not None:
                self.kill()
                raise RuntimeError((self.directory / "mosquitto.log").read_text())
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill it by ``kill -9``."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Have it save its state and end."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


@contextmanager
def client_of(broker: Mosquitto, user: str | None = None, password: str | None = None) -> Iterator[Client]:
    """Yield a client of its own, connected."""
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    if user is not None:
        client.username_pw_set(user, password)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def publish(client: Client, topic: str, *payloads: str | bytes, retain: bool = False) -> None:
    """Publish at QoS 1, and wait until the broker has all."""
    for sent in [client.publish(topic, payload, 1, retain) for payload in payloads]:
        sent.wait_for_publish(ANSWER_SECONDS)
        assert sent.is_published()


class Listener:
    """Keeps all messages of a topic that come from now on."""

    def __init__(self, client: Client, topic: str) -> None:
        self.messages: list[MQTTMessage] = []
        done: list[Any] = []
        client.on_message = lambda client, _, message: self.messages.append(message)
        client.on_subscribe = lambda *asked: done.append(asked)
        client.subscribe(topic, 1)
        until(lambda: done, ANSWER_SECONDS)
