"""Rollouts of the manifests: real processes, probed, replaced and ended as a kubelet and a Deployment do it."""

from __future__ import annotations

import math
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from livesvm.service.access.keys import new_key
from tests.contract.redis_server import RedisServer, free_port
from tests.service.process import ServiceProcess
from tests.support.updates_under_faults import MODEL, PROBE, batch, check_whole
from tests.support.waiting import until
from tests.unit.test_kubernetes import applied, named

pytestmark = pytest.mark.operations

TICK = 0.1
KEY, KEYS = new_key("test", "admin")


class Pod:
    """A container that is probed, and ended by what its manifest says."""

    def __init__(self, template: dict[str, Any], directory: Path, secrets: dict[str, str]) -> None:
        (self.container,) = template["spec"]["containers"]
        self.grace = template["spec"]["terminationGracePeriodSeconds"]
        known = {"POD_NAMESPACE": "ml"}
        settings: dict[str, Any] = {"port": free_port()}
        for entry in self.container["env"]:
            if "valueFrom" not in entry:
                settings[entry["name"].removeprefix("LIVESVM_").lower()] = entry["value"].replace(
                    "$(POD_NAMESPACE)", known["POD_NAMESPACE"]
                )
            elif "secretKeyRef" in entry["valueFrom"]:
                name = entry["valueFrom"]["secretKeyRef"]["key"]
                settings[entry["name"].removeprefix("LIVESVM_").lower()] = secrets[name]
        mounted = directory.with_name("secret") / "api-keys"  # as the volume of the secret is
        mounted.parent.mkdir(exist_ok=True)
        mounted.write_text(secrets["api-keys"])
        settings["api_keys_file"] = mounted
        self.process = ServiceProcess(directory, **settings)
        self.process.url = f"http://127.0.0.1:{settings['port']}"
        self.is_ready = self.is_ending = self.is_gone = False
        self.faults: list[str] = []
        self.process.launch()
        threading.Thread(target=self._probe, daemon=True).start()

    def asks(self, kind: str) -> bool:
        """Probe once."""
        probe = self.container[f"{kind}Probe"]
        http = probe["httpGet"]
        headers = {header["name"]: header["value"] for header in http["httpHeaders"]}
        try:
            seconds = probe.get("timeoutSeconds", 1)
            return httpx.get(self.process.url + http["path"], headers=headers, timeout=seconds).is_success
        except httpx.TransportError:
            return False

    def _probe(self) -> None:
        while not self.asks("startup"):
            time.sleep(self.container["startupProbe"]["periodSeconds"])
        readiness, liveness = self.container["readinessProbe"], self.container["livenessProbe"]
        failed, lives_at = 0, time.monotonic()
        while not self.is_gone:
            if self.asks("readiness"):
                failed, self.is_ready = 0, True
            else:
                failed += 1
                self.is_ready &= failed < readiness["failureThreshold"]
            if not self.is_ending and time.monotonic() - lives_at >= liveness["periodSeconds"]:
                lives_at = time.monotonic()
                if not self.asks("liveness"):
                    self.faults.append("it was not alive")
            time.sleep(readiness["periodSeconds"])

    def end(self) -> None:
        """Begin to end it."""
        self.is_ending = True
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        began = time.monotonic()
        if "lifecycle" in self.container:
            word, seconds = self.container["lifecycle"]["preStop"]["exec"]["command"]
            assert word == "sleep"
            time.sleep(int(seconds))
        self.process.signal(signal.SIGTERM)
        try:
            if self.process.wait(self.grace - (time.monotonic() - began)) != 0:
                self.faults.append(f"it ended with {self.process.status}")
        except Exception:
            self.process.kill()
            self.faults.append("it was killed, as its end took too long")
        self.is_ready, self.is_gone = False, True


class Deployment:
    """Pods of one template, replaced as its strategy says; and the endpoints of the Kubernetes service."""

    def __init__(self, name: str, place: Path, secrets: dict[str, str], volume: Path | None = None) -> None:
        self.spec = named(applied(name))["Deployment", "livesvm"]["spec"]
        self.place, self.secrets, self.volume = place, secrets, volume
        self.pods: list[Pod] = []
        self.made = 0

    def make(self) -> Pod:
        self.made += 1
        directory = self.volume or self.place / str(self.made)
        pod = Pod(self.spec["template"], directory, self.secrets)
        self.pods.append(pod)
        return pod

    def endpoints(self) -> list[Pod]:
        """Return the pods that get requests: those ready; while there is none, those that are so and end."""
        ready = [pod for pod in self.pods if pod.is_ready]
        return [pod for pod in ready if not pod.is_ending] or ready

    def roll(self) -> None:
        """Replace all pods; returns when the old ones are gone and the new ones are there."""
        old, strategy = list(self.pods), self.spec["strategy"]
        if strategy.get("type") == "Recreate":
            for pod in old:
                pod.end()
            until(lambda: all(pod.is_gone for pod in old))
            for _ in range(self.spec["replicas"]):
                self.make()
            return
        wanted, most = self.spec["replicas"], strategy["rollingUpdate"]
        surge, unavailable = (
            _share(most["maxSurge"], wanted, math.ceil),
            _share(most["maxUnavailable"], wanted, math.floor),
        )

        def is_done() -> bool:
            """Do the next step, as the controller of Deployments does."""
            stay = [pod for pod in old if not pod.is_ending]
            new = [pod for pod in self.pods if pod not in old]
            if len(new) < wanted and len(stay) + len(new) < wanted + surge:
                self.make()
                return False
            may_go = len(stay) + len(new) - (wanted - unavailable) - sum(not pod.is_ready for pod in new)
            for pod in sorted(stay, key=lambda one: one.is_ready)[: max(0, may_go)]:
                pod.end()
            return len(new) == wanted and all(pod.is_gone for pod in old)

        until(is_done)

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            for _ in range(self.spec["replicas"]):
                self.make()
            yield
        finally:
            for pod in self.pods:
                if pod.process.status is None:
                    pod.process.kill()
        assert [pod.faults for pod in self.pods] == [[] for _ in self.pods]


def _share(given: str | int, of: int, rounded: Callable[[float], int]) -> int:
    return rounded(of * int(given.rstrip("%")) / 100) if isinstance(given, str) else given


class Caller:
    """Calls the service by its endpoints: each update is repeated until it is answered."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.done, self.sent, self.longest, self.most_endpoints = threading.Event(), 0, 0.0, 0
        self._thread = threading.Thread(target=self._run)

    def call(self, path: str, json: Any, key: str = "") -> httpx.Response | None:
        """Return an answer that is none to repeat."""
        headers = {"authorization": f"Bearer {KEY}", "host": "livesvm.ml.svc"}
        headers |= {"idempotency-key": key} if key else {}
        there = self.deployment.endpoints()
        self.most_endpoints = max(self.most_endpoints, len(there))
        for pod in there[:1]:
            try:
                answer = httpx.post(pod.process.url + path, json=json, headers=headers, timeout=10)
                return None if answer.status_code in (429, 503) else answer
            except httpx.TransportError:
                return None
        return None

    def _run(self) -> None:
        answered_at = time.monotonic()
        while not self.done.is_set():
            answer = self.call("/models/m/update", batch(self.sent), f"update-{self.sent}")
            if answer is not None:
                answer.raise_for_status()
                self.sent += 1
                self.longest = max(self.longest, time.monotonic() - answered_at)
                answered_at = time.monotonic()
            time.sleep(TICK)

    def __enter__(self) -> Caller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self._thread.join()


def metric(pod: Pod, name: str) -> float:
    """Return a number that a pod tells; nan while it does not listen yet."""
    try:
        text = httpx.get(f"{pod.process.url}/metrics", headers={"authorization": f"Bearer {KEY}"}).text
    except httpx.ConnectError:
        return math.nan
    return float(text.partition(f"\n{name} ")[2].partition("\n")[0])


def begin(deployment: Deployment) -> Caller:
    """Wait for one endpoint, and have the first model created there."""
    until(lambda: len(deployment.endpoints()) == 1)
    caller = Caller(deployment)
    until(lambda: (answer := caller.call("/models", MODEL)) is not None and answer.status_code in (201, 409))
    return caller


def check_all(deployment: Deployment, caller: Caller) -> None:
    (pod,) = deployment.endpoints()
    with pod.process.http() as http:
        http.headers["authorization"] = f"Bearer {KEY}"
        check_whole(http, list(range(caller.sent)))


def test_two_pods_are_replaced_and_one_serves(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server:
        deployment = Deployment("standby", tmp_path, {"api-keys": KEYS, "redis-url": server.url})
        with deployment.running():
            with begin(deployment) as caller:
                until(lambda: caller.sent > 5)
                old = list(deployment.pods)
                until(lambda: sorted(metric(pod, "livesvm_standby") for pod in old) == [0, 1])
                deployment.roll()
                before = caller.sent
                until(lambda: caller.sent > before + 5)
            new = [pod for pod in deployment.pods if pod not in old]
            (active,) = deployment.endpoints()
            assert active in new
            assert caller.most_endpoints == 1
            until(lambda: sorted(metric(pod, "livesvm_standby") for pod in new) == [0, 1])
            assert sorted(metric(pod, "livesvm_serving") for pod in new) == [0, 1]
            check_all(deployment, caller)
            assert caller.longest < 20  # a takeover, not a start
            server.signal(signal.SIGSTOP)  # the store is away, and memory predicts
            until(lambda: metric(active, "livesvm_ready") == 0)
            time.sleep(5)
            assert deployment.endpoints() == [active]
            predicted = caller.call("/models/m/predict", {"X": PROBE})
            assert predicted is not None
            assert predicted.json()["stale"]
            server.signal(signal.SIGCONT)
            active.process.kill()
            active.is_gone, active.is_ready = True, False
            until(lambda: deployment.endpoints() != [])
            check_all(deployment, caller)


def test_one_pod_with_a_volume_is_replaced_and_predicts_without_its_store(tmp_path: Path) -> None:
    deployment = Deployment("plain", tmp_path, {"api-keys": KEYS}, volume=tmp_path / "volume")
    with deployment.running():
        with begin(deployment) as caller:
            until(lambda: caller.sent > 5)
            deployment.roll()
            before = caller.sent
            until(lambda: caller.sent > before + 5)
        assert caller.most_endpoints == 1
        check_all(deployment, caller)
        (pod,) = deployment.endpoints()
        with closing(sqlite3.connect(tmp_path / "volume/livesvm.sqlite3", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # so no write can begin
            until(lambda: metric(pod, "livesvm_ready") == 0)
            time.sleep(5)
            assert deployment.endpoints() == [pod]
            predicted = caller.call("/models/m/predict", {"X": PROBE})
            assert predicted is not None
            assert predicted.is_success
