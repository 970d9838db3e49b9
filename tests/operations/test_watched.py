"""What a real Prometheus sees of two services: every query of the dashboards, and alerts when something is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest
import yaml

from livesvm.service.client import Client
from tests.contract.redis_server import RedisServer, free_port
from tests.faults.disks import MEGABYTES, Disk, disk
from tests.service.process import ServiceProcess, blobs
from tests.support.feeds import FEED, rows_of, series
from tests.support.receiver import Receiver
from tests.support.updates_under_faults import MODEL, PROBE, check_whole, send

pytestmark = pytest.mark.operations

DEPLOY = Path(__file__).parents[2] / "deploy"
SECONDS = 5.0
"""By when the metrics have to say what a user finds."""
SCRAPED = 2.0
"""What a scrape and an evaluation every second add to that, and a busy machine."""
SOON = 2
"""Seconds that the rules wait here where they are deployed with more; `alerts.test.yml` tests them as they are."""
CLUSTER = 'node!=""'
"""Of what a cluster alone has."""
MAY_BE_EMPTY = {"Time of a job", "Jobs by state", "Store errors and bad snapshots a second", "Actors and nodes"}
MODELS = 51
"""One more than have series of their own."""
MEGABYTE = 2**20


class Prometheus:
    """Answers queries."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, trust_env=False)

    def query(self, expression: str) -> dict[str, float]:
        """Return the values of an expression by instance; raises HTTPStatusError if it cannot be answered."""
        answer = self.http.get("/api/v1/query", params={"query": expression}).raise_for_status().json()
        return {one["metric"].get("instance", ""): float(one["value"][1]) for one in answer["data"]["result"]}

    def firing(self, alert: str) -> set[str]:
        """Return the instances for which an alert fires."""
        return set(self.query(f'ALERTS{{alertname="{alert}", alertstate="firing"}}'))

    def all_firing(self) -> set[str]:
        """Return the alerts that fire."""
        found = self.http.get("/api/v1/alerts").raise_for_status().json()["data"]["alerts"]
        return {one["labels"]["alertname"] for one in found if one["state"] == "firing"}

    def annotations(self, alert: str) -> list[str]:
        """Return what an alert says where it fires."""
        found = self.http.get("/api/v1/alerts").raise_for_status().json()["data"]["alerts"]
        mine = [one["annotations"] for one in found if one["labels"]["alertname"] == alert]
        return [text for annotations in mine for text in annotations.values()]

    def is_ready(self) -> bool:
        """Return whether it answers."""
        try:
            return self.http.get("/-/ready").is_success
        except httpx.TransportError:
            return False


@contextmanager
def prometheus(directory: Path, targets: list[str]) -> Iterator[Prometheus]:
    """Yield a Prometheus with the rules that are deployed, that looks every second and waits for seconds."""
    rules = (DEPLOY / "prometheus/alerts.yml").read_text()
    rules = re.sub(r"\bfor: (\d+)([smh])", lambda found: f"for: {min(int(found[1]), SOON)}s", rules)
    (directory / "alerts.yml").write_text(rules.replace("oldest_seconds > 300", f"oldest_seconds > {SOON}"))
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"}
    config["rule_files"] = [str(directory / "alerts.yml")]
    (job,) = config["scrape_configs"]
    del job["authorization"]
    job["static_configs"] = [{"targets": targets}]
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    words = ["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/tsdb"]
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*words, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        found = Prometheus(f"http://{address}")
        until("Prometheus answers", found.is_ready, 30)
        with closing(found.http):
            yield found
    finally:
        process.terminate()
        process.wait(30)


def until(what: str, holds: Callable[[], bool], limit: float) -> None:
    """Wait until something holds, and print when it did; fails where it does not in time."""
    begin = time.monotonic()
    while not holds():
        if time.monotonic() - begin > limit:
            pytest.fail(f"not within {limit:g} s: {what}")
        time.sleep(0.05)
    print(f"{time.monotonic() - begin:6.1f} s  {what}", flush=True)


def panels(dashboard: str = "livesvm") -> dict[str, list[str]]:
    """Return the queries of each panel of a dashboard, for every instance, model and feed."""
    found = {}
    for panel in json.loads((DEPLOY / f"grafana/dashboards/{dashboard}.json").read_text())["panels"]:
        queries = [target["expr"] for target in panel.get("targets", [])]
        everything = (("$instance", ".*"), ("$model", ".*"), ("$feed", ".*"), ("$__rate_interval", "10s"))
        for name, value in everything:
            queries = [query.replace(name, value) for query in queries]
        found[panel["title"]] = queries
    return found


def check_panels(watch: Prometheus, dashboard: str = "livesvm") -> None:
    """Check that every query of every panel is answered, and has something to show."""
    asked = panels(dashboard)
    for title, queries in asked.items():
        for query in queries:
            is_there = title not in MAY_BE_EMPTY and not title.startswith("Fleets") and CLUSTER not in query
            if not watch.query(query) and is_there:
                pytest.fail(f"panel {title!r} has nothing to show: {query}")


def readiness(http: httpx.Client) -> int:
    return http.get("/health/ready").status_code


def instance(service: ServiceProcess) -> str:
    return service.url.removeprefix("http://")


class Scene(NamedTuple):
    """Two services, what they use, and what watches them."""

    watch: Prometheus
    first: ServiceProcess
    second: ServiceProcess
    full: Disk
    server: RedisServer
    store: RedisServer

    def fires(self, alert: str, service: ServiceProcess, seconds: float = 0.0) -> None:
        """Return when an alert fires for a service alone, and says in words what is wrong."""
        limit = seconds + SOON + SECONDS + SCRAPED
        until(f"{alert} fires", lambda: self.watch.firing(alert) == {instance(service)}, limit)
        said = self.watch.annotations(alert)
        assert said
        assert not [text for text in said if "no value" in text or "{{" in text]

    def rests(self, alert: str, seconds: float = 0.0) -> None:
        """Return when an alert is over."""
        until(f"{alert} is over", lambda: not self.watch.firing(alert), seconds + SECONDS + SCRAPED)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    place = tmp_path_factory.mktemp("watched")
    with ExitStack() as opened:
        full = opened.enter_context(disk(place / "a"))
        server = opened.enter_context(RedisServer(place / "source"))
        store = opened.enter_context(RedisServer(place / "store", maxmemory="1gb"))
        private = {"webhook_hosts": "127.0.0.1", "webhook_private": "true", "disk_room_mb": 2}
        more: dict[str, Any] = {"sources": f"plant={server.url}", **private}
        first = opened.enter_context(ServiceProcess(place / "a" / "data", port=free_port(), **more))
        on_redis = {"redis_url": store.url, "port": free_port(), **more}
        second = opened.enter_context(ServiceProcess(place / "b" / "data", **on_redis))
        for service in (first, second):
            with service.http() as http:
                use(http)
        feed_from(second, server)
        watch = opened.enter_context(prometheus(place, [instance(first), instance(second)]))
        until("both are seen", lambda: len(watch.query("livesvm_ready == 1")) == 2, 10)
        yield Scene(watch, first, second, full, server, store)


def use(http: httpx.Client) -> None:
    """Learn and predict something."""
    http.post("/models", json={**MODEL, "drift_alarms": 0.01}).raise_for_status()
    for number in range(3):
        send(http, number).raise_for_status()
        http.post("/models/m/predict", json={"X": PROBE}).raise_for_status()


def feed_from(service: ServiceProcess, server: RedisServer) -> None:
    """Create a feed with the record of forecasts, which takes readings from a stream."""
    source = {"connection": "plant", "stream": "meters"}
    with service.http() as http, server.client() as client:
        http.post("/feeds", json={"id": "load", **FEED, "source": source}).raise_for_status()
        for row in rows_of(series(120)):
            client.xadd("meters", row)
        until("the feed has its readings", lambda: http.get("/feeds/load").json()["position"] == 120, 30)


def test_rules_pass_their_own_tests() -> None:
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]):
        subprocess.run(["promtool", *words], cwd=DEPLOY / "prometheus", check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("dashboard", ["livesvm", "feeds"])
def test_every_panel_of_a_dashboard_shows_something(scene: Scene, dashboard: str) -> None:
    time.sleep(3)  # rates need two scrapes
    check_panels(scene.watch, dashboard)


def test_alerts_of_parts_that_are_well_rest(scene: Scene) -> None:
    assert scene.watch.all_firing() <= {"LiveSVMFeedBehindNaive", "LiveSVMFeedBandOff"}  # which wait for an hour


def test_a_receiver_that_is_down_is_seen_before_its_messages_are_dead(scene: Scene) -> None:
    with Receiver(lambda number: 503) as receiver, Client(scene.first.url) as client:
        made = client.create_webhook(receiver.url, ["drift"])
        receiver.secret = made["secret"]
        client.ping_webhook(made["id"])
        scene.fires("LiveSVMWebhookFailing", scene.first)
        assert client.webhook(made["id"])["dead"] == 0
        receiver.status = lambda number: 204
        scene.rests("LiveSVMWebhookFailing", 16.0)
        client.delete_webhook(made["id"])


def test_drift_of_a_model_without_series_of_its_own_is_seen(scene: Scene) -> None:
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(240, 2))
    y = np.where(rows[:, 0] * np.where(np.arange(240) < 180, 1, -1) > 0, 1, -1)
    with Client(scene.second.url) as client:
        for number in range(MODELS - 1):
            client.create_model(f"n{number:02}", C=1.0)
        client.create_model("z", C=2.0, kernel={"name": "rbf", "gamma": 0.5}, drift_alarms=0.01)
        for i in range(0, 240, 20):
            client.update("z", rows[i : i + 20], y[i : i + 20], times=np.arange(i, i + 20) + 1e9)
        assert scene.watch.query('livesvm_model_version{model="z"}') == {}
        scene.fires("LiveSVMModelDrift", scene.second)
        client.delete_model("z")
        scene.rests("LiveSVMModelDrift")


def test_a_job_that_fails_is_seen(scene: Scene) -> None:
    with Client(scene.first.url) as client:
        client.create_model("large", C=1.0)
        client.update("large", *blobs(np.random.default_rng(9), 1000))
        job = client.assess("large")["id"]
        scene.first.kill()
    with scene.first.start().http() as http:
        assert http.get(f"/jobs/{job}").json()["state"] == "failed"
        http.delete("/models/large").raise_for_status()
    scene.fires("LiveSVMJobsFailed", scene.first)


def test_memory_of_redis_is_seen_before_it_is_used_up(scene: Scene) -> None:
    with scene.store.client() as client:
        used = int(client.info("memory")["used_memory"])
        client.config_set("maxmemory", str(used + used // 20))
        scene.fires("LiveSVMRedisNearlyFull", scene.second)
        client.config_set("maxmemory", "1gb")
        scene.rests("LiveSVMRedisNearlyFull")


def test_refused_readings_and_a_source_that_dies_are_seen(scene: Scene) -> None:
    server, one = scene.server, instance(scene.second)
    with server.client() as client:
        client.xadd("meters", {"y": "broken"})
    scene.fires("LiveSVMFeedDeadLetters", scene.second)
    server.kill()
    down = panels("feeds")["Sources that are read"][0]
    until("panel 'Sources that are read'", lambda: scene.watch.query(down) == {one: 0}, SECONDS + SCRAPED)
    scene.fires("LiveSVMFeedSourceDown", scene.second)
    with scene.second.http() as http:
        assert "source of feed load" in http.get("/health/ready").text
    server.start()
    until("it is read again", lambda: scene.watch.query(down) == {one: 1}, 10 + SECONDS + SCRAPED)
    scene.rests("LiveSVMFeedSourceDown")


def test_a_disk_that_fills_up_is_seen_before_it_is_full_and_then(scene: Scene) -> None:
    watch, service, full = scene.watch, scene.first, scene.full
    ready, store = (panels()[title][0] for title in ("Ready", "Store takes updates"))
    one, other = instance(service), instance(scene.second)
    with service.http() as http:
        full.fill(leave=MEGABYTES * MEGABYTE // 11)
        scene.fires("LiveSVMDiskNearlyFull", service)
        assert not watch.firing("LiveSVMDiskAtReserve")
        full.fill(leave=MEGABYTE + MEGABYTE // 2)
        scene.fires("LiveSVMDiskAtReserve", service)
        assert send(http, 3).status_code == 200
        full.fill()
        until("its readiness says so", lambda: readiness(http) == 503, SECONDS)
        for title, query in (("Ready", ready), ("Store takes updates", store)):
            until(f"panel {title!r}", lambda q=query: watch.query(q) == {one: 0, other: 1}, SECONDS + SCRAPED)  # type: ignore[misc]
        scene.fires("LiveSVMStoreDown", service)
        assert send(http, 4).status_code == 503
        until("an update fails: LiveSVMUpdatesFailing", lambda: one in watch.firing("LiveSVMUpdatesFailing"), SECONDS)
        full.empty()
        until("its readiness says so", lambda: readiness(http) == 200, SECONDS)
        scene.rests("LiveSVMStoreDown")
        scene.rests("LiveSVMDiskNearlyFull")
        assert send(http, 4).json()["version"] == 5


def test_the_last_values_of_a_dead_service_are_stale(scene: Scene) -> None:
    ready, store = (panels()[title][0] for title in ("Ready", "Store takes updates"))
    scene.second.kill()
    seen = {instance(scene.second): 0.0, instance(scene.first): 1.0}
    until("panel 'Ready'", lambda: scene.watch.query(ready) == seen, SECONDS)
    until("panel 'Store takes updates'", lambda: scene.watch.query(store) == seen, SECONDS)
    scene.fires("LiveSVMDown", scene.second)


def test_a_service_starts_on_a_disk_that_is_full_or_read_only_and_outlives_its_loss(scene: Scene) -> None:
    scene.first.stop()
    data_dir, broken = scene.first.data_dir, scene.full
    broken.fill()
    start_without_writing(data_dir, broken.empty)
    with ServiceProcess(data_dir) as service:
        service.kill()  # SQLite's log is there
    broken.mount("remount,ro")
    with ServiceProcess(data_dir) as service, service.http() as http:
        assert readiness(http) == 503
        check_whole(http, list(range(6)))
        broken.mount("remount,rw")
        until("it can be written: ready", lambda: readiness(http) == 200, SECONDS)
        assert send(http, 6).json()["version"] == 7
        broken.take_away()
        until("its readiness says so", lambda: readiness(http) == 503, SECONDS)


def start_without_writing(data_dir: Path, mend: Callable[[], None]) -> None:
    """Check that a service that cannot write serves what it can read, until ``mend``."""
    with ServiceProcess(data_dir) as service, service.http() as http:
        assert readiness(http) == 503, service.said
        check_whole(http, list(range(5)))
        assert send(http, 5).status_code == 503
        mend()
        until("it takes updates again", lambda: send(http, 5).status_code == 200, SECONDS + SCRAPED)
        until("its readiness says so", lambda: readiness(http) == 200, SECONDS)
        service.stop()
        assert "Traceback" not in service.errors, service.errors
