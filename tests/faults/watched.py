"""What a real Prometheus sees of two services, one of whose disks is filled, taken away and read-only; one is killed.

    python -m tests.faults.watched

It needs prometheus and promtool on PATH and the right to mount (root), installs nothing, and takes two minutes. It
prints how long everything took to be seen, and ends with status 1 at the first thing that is not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import yaml

from tests.contract.redis_server import RedisServer, free_port
from tests.faults.disks import Disk, disk
from tests.service.process import ServiceProcess
from tests.support.feeds import FEED, rows_of, series
from tests.support.updates_under_faults import MODEL, PROBE, check_whole, send

DEPLOY = Path(__file__).parents[2] / "deploy"
SECONDS = 5.0
"""By when the metrics have to say what a user finds."""
SCRAPED = 2.0
"""What a scrape and an evaluation every second add to that, and a busy machine."""
CLUSTER = 'node!=""'
"""Of what a cluster alone has."""
MAY_BE_EMPTY = {"Time of a job", "Jobs by state", "Store errors and bad snapshots a second"}


class Prometheus:
    """Answers queries."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, trust_env=False)

    def query(self, expression: str) -> dict[str, float]:
        """Return the values of an expression by instance; raises HTTPStatusError if it cannot be answered."""
        answer = self._http.get("/api/v1/query", params={"query": expression}).raise_for_status().json()
        return {one["metric"].get("instance", ""): float(one["value"][1]) for one in answer["data"]["result"]}

    def firing(self, alert: str) -> set[str]:
        """Return the instances for which an alert fires."""
        return set(self.query(f'ALERTS{{alertname="{alert}", alertstate="firing"}}'))

    def is_ready(self) -> bool:
        """Return whether it answers."""
        try:
            return self._http.get("/-/ready").is_success
        except httpx.TransportError:
            return False


@contextmanager
def prometheus(directory: Path, targets: list[str]) -> Iterator[Prometheus]:
    """Yield a Prometheus with the rules as they are deployed, that looks every second."""
    config = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"}
    config["rule_files"] = [str(DEPLOY / "prometheus/alerts.yml")]
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
        yield found
    finally:
        process.terminate()
        process.wait(30)


def until(what: str, holds: Callable[[], bool], limit: float) -> None:
    """Wait until something holds, and print when it did; ends the process where it does not in time."""
    begin = time.monotonic()
    while not holds():
        if time.monotonic() - begin > limit:
            sys.exit(f"FAILED after {limit:g} s: {what}")
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
            if not watch.query(query) and title not in MAY_BE_EMPTY and CLUSTER not in query:
                sys.exit(f"FAILED: panel {title!r} has nothing to show: {query}")
    print(f"          {sum(map(len, asked.values()))} queries of the dashboard {dashboard!r} are answered")


def readiness(http: httpx.Client) -> int:
    return http.get("/health/ready").status_code


def instance(service: ServiceProcess) -> str:
    return service.url.removeprefix("http://")


def use(http: httpx.Client) -> None:
    """Learn and predict something."""
    http.post("/models", json=MODEL).raise_for_status()
    for number in range(3):
        send(http, number).raise_for_status()
        http.post("/models/m/predict", json={"X": PROBE}).raise_for_status()


def feed_from(service: ServiceProcess, server: RedisServer) -> None:
    """Create a feed with the record of forecasts, which takes readings from a stream, and refuses one."""
    source = {"connection": "plant", "stream": "meters"}
    with service.http() as http, server.client() as client:
        http.post("/feeds", json={"id": "load", **FEED, "source": source}).raise_for_status()
        for row in rows_of(series(120)):
            client.xadd("meters", row)
        until("the feed has its readings", lambda: http.get("/feeds/load").json()["position"] == 120, 30)


def watch_feeds(watch: Prometheus, service: ServiceProcess, server: RedisServer) -> None:
    """Check that refused readings, and a source that dies, are seen."""
    one = instance(service)
    with server.client() as client:
        client.xadd("meters", {"y": "broken"})
    print("-- an entry that is no reading, then a source that is killed")
    until("LiveSVMFeedDeadLetters fires", lambda: watch.firing("LiveSVMFeedDeadLetters") == {one}, SECONDS + SCRAPED)
    server.kill()
    down = panels("feeds")["Sources that are read"][0]
    until("panel 'Sources that are read'", lambda: watch.query(down) == {one: 0}, SECONDS + SCRAPED)
    with service.http() as http:
        assert "source of feed load" in http.get("/health/ready").text
    server.start()
    until("it is read again", lambda: watch.query(down) == {one: 1}, SECONDS + SCRAPED)


def watch_a_disk_fill(watch: Prometheus, service: ServiceProcess, other: str, full: Disk) -> None:
    """Let a disk fill up: updates stop, and the alerts fire."""
    ready, store = (panels()[title][0] for title in ("Ready", "Store takes updates"))
    one = instance(service)
    with service.http() as http:
        full.fill()
        print("-- the disk of one of two idle services is full")
        until("its readiness says so", lambda: readiness(http) == 503, SECONDS)
        for title, query in (("Ready", ready), ("Store takes updates", store)):
            until(f"panel {title!r}", lambda q=query: watch.query(q) == {one: 0, other: 1}, SECONDS + SCRAPED)  # type: ignore[misc]
        until("LiveSVMStoreDown fires", lambda: watch.firing("LiveSVMStoreDown") == {one}, 10 + SECONDS + SCRAPED)
        assert send(http, 3).status_code == 503
        until("an update fails: LiveSVMUpdatesFailing", lambda: one in watch.firing("LiveSVMUpdatesFailing"), SECONDS)
        full.empty()
        print("-- there is room again")
        until("its readiness says so", lambda: readiness(http) == 200, SECONDS)
        until("LiveSVMStoreDown is over", lambda: not watch.firing("LiveSVMStoreDown"), SECONDS)
        until("LiveSVMUpdatesFailing is over", lambda: not watch.firing("LiveSVMUpdatesFailing"), 60 + SECONDS)
        assert send(http, 3).json()["version"] == 4


def watch_one_die(watch: Prometheus, service: ServiceProcess, other: str) -> None:
    """Check that the last values of a dead service are stale."""
    ready, store = (panels()[title][0] for title in ("Ready", "Store takes updates"))
    service.kill()
    print("-- one of two is killed")
    seen = {instance(service): 0.0, other: 1.0}
    until("panel 'Ready'", lambda: watch.query(ready) == seen, SECONDS)
    until("panel 'Store takes updates'", lambda: watch.query(store) == seen, SECONDS)
    until("LiveSVMDown fires", lambda: watch.firing("LiveSVMDown") == {instance(service)}, 30 + SECONDS)


def start_without_writing(data_dir: Path, mend: Callable[[], None]) -> None:
    """Check that a service that cannot write serves what it can read, until ``mend``."""
    with ServiceProcess(data_dir) as service, service.http() as http:
        assert readiness(http) == 503, service.said
        check_whole(http, [0, 1, 2, 3])
        assert send(http, 4).status_code == 503
        print("          it predicts, refuses updates and is not ready")
        mend()
        until("it takes updates again", lambda: send(http, 4).status_code == 200, SECONDS + SCRAPED)
        until("its readiness says so", lambda: readiness(http) == 200, SECONDS)
        service.stop()
        assert "Traceback" not in service.errors, service.errors


def break_disks(data_dir: Path, broken: Disk) -> None:
    """Check starts on a full and on a read-only disk, and without the disk."""
    broken.fill()
    print("-- a start on a full disk")
    start_without_writing(data_dir, broken.empty)
    with ServiceProcess(data_dir) as service:
        service.kill()  # SQLite's log is there
    broken.mount("remount,ro")
    print("-- a start on a read-only disk")
    with ServiceProcess(data_dir) as service, service.http() as http:
        assert readiness(http) == 503
        check_whole(http, list(range(5)))
        broken.mount("remount,rw")
        until("it can be written: ready", lambda: readiness(http) == 200, SECONDS)
        assert send(http, 5).json()["version"] == 6
        print("-- the disk is taken away")
        broken.take_away()
        until("its readiness says so", lambda: readiness(http) == 503, SECONDS)


def main() -> int:
    """Run everything; 2 where something it needs is missing."""
    missing = [name for name in ("prometheus", "promtool", "mount") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        what = ", ".join(missing) or "the right to mount (run it as root)"
        print(f"this needs {what}; nothing is installed for it (Debian: apt install prometheus)", file=sys.stderr)
        return 2
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]):
        subprocess.run(["promtool", *words], cwd=DEPLOY / "prometheus", check=True, stdout=subprocess.DEVNULL)
    with ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="livesvm-watched-")))
        full = opened.enter_context(disk(place / "a"))
        server = opened.enter_context(RedisServer(place / "redis"))
        sources = f"plant={server.url}"
        first, second = (opened.enter_context(ServiceProcess(place / name / "data", sources=sources)) for name in "ab")
        for service in (first, second):
            with service.http() as http:
                use(http)
        feed_from(second, server)
        watch = opened.enter_context(prometheus(place, [instance(first), instance(second)]))
        until("both are seen", lambda: len(watch.query("livesvm_ready == 1")) == 2, 10)
        time.sleep(3)  # rates need two scrapes
        check_panels(watch)
        check_panels(watch, "feeds")
        watch_feeds(watch, second, server)
        watch_a_disk_fill(watch, first, instance(second), full)
        watch_one_die(watch, second, instance(first))
        first.stop()
        break_disks(place / "a" / "data", full)
    print("all of it was seen")
    return 0


if __name__ == "__main__":
    sys.exit(main())
