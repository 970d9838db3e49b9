"""A real Redis 7 that evicts, is full, refuses commands, is a cluster or a replica, and fails over by Sentinel."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import redis
import yaml

from livesvm.service.cli.main import main
from livesvm.service.feeds.sources.base import SourceError
from livesvm.service.feeds.sources.redis_stream import RedisStream
from livesvm.service.feeds.sources.spec import RedisStreamSpec
from livesvm.service.store import scripts
from livesvm.service.store.base import Durability, Idempotency, Solution, StoreError, StoreUnavailable
from livesvm.service.store.redis import RedisStore
from tests.contract.redis_server import RedisServer, free_port
from tests.contract.sentinel import Sentinel
from tests.documents import read
from tests.service.process import ServiceProcess
from tests.support.feeds import FEED
from tests.support.memory_limit import memory_limit
from tests.support.redis_services import is_ready, service_on, start_model
from tests.support.updates_under_faults import MODEL, PROBE, batch, check_whole, send
from tests.support.waiting import until

pytestmark = pytest.mark.operations

MB = 2**20
SCALE = 8
"""By which the memory of a shipped Redis is divided."""
CLUSTER = "this is a Redis Cluster, which LiveSVM does not support: use a single Redis, or Sentinel"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as started:
        yield started


# Eviction.


def update(http: httpx.Client, model: str, number: int) -> httpx.Response:
    return http.post(f"/models/{model}/update", json=batch(number), headers={"Idempotency-Key": f"u{number}"})


def evicted(server: RedisServer) -> int:
    return int(server.client().info("stats")["evicted_keys"])


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random"])
def test_what_redis_evicts_is_never_lost_in_silence(policy: str, tmp_path: Path) -> None:
    """While others fill Redis, updates are answered with what it keeps, or refused; no start takes less for all."""
    server = RedisServer(tmp_path / "redis", **{"maxmemory-policy": policy, "maxmemory-samples": "10"})
    names = [f"m{number}" for number in range(6)]
    acknowledged: dict[str, int] = {}
    with server, service_on(server, tmp_path, snapshot_updates=4) as service, service.http() as http:
        for name in names:
            http.post("/models", json=MODEL | {"id": name}).raise_for_status()
        assert "maxmemory-policy" in " ".join(http.get("/health/ready").json()["degraded"])
        assert "maxmemory-policy" in service.errors
        client = server.client()
        client.config_set("maxmemory", int(client.info("memory")["used_memory"]) + 2 * MB)
        refused = set[str]()
        for number in range(30):
            for name in names[:3]:  # the others rest
                answer = update(http, name, number)
                if answer.status_code == 200:
                    assert answer.json()["durability"] == "memory"
                    acknowledged[name] = number + 1
                else:
                    assert answer.status_code == 503
                    refused.add(answer.json()["type"].rpartition(":")[2])
            for part in range(4):
                client.set(f"filler:{number}:{part}", bytes(MB // 16))
        assert evicted(server) > 0
        assert refused <= {"store-behind", "store-damaged", "store-unavailable", "model-unavailable"}
        assert refused
        predicted = http.post(f"/models/{names[0]}/predict", json={"X": PROBE})
        assert predicted.status_code == 200
        service.kill()
        client.config_set("maxmemory", 0)
        again = service_on(server, tmp_path)
        again.launch()
        with ExitStack() as stack:
            stack.callback(again.kill)
            try:
                status = again.wait(timeout=20)
            except subprocess.TimeoutExpired:
                status = None
            if status is not None:
                assert "Redis has lost" in again.errors
                return
        with service_on(server, tmp_path) as again, again.http() as http:
            if "Redis is empty, and held a store" in again.errors:  # all of it was evicted
                assert "restore a backup" in " ".join(http.get("/health/ready").json()["degraded"])
                return
            for name in names:
                described = http.get(f"/models/{name}")
                if described.status_code == 200 and described.json().get("state") == "live":
                    assert described.json()["version"] >= acknowledged.get(name, 0)
                else:
                    assert "lost" in described.text or "lacks" in described.text


# Memory.


def shipped() -> tuple[dict[str, str], int]:
    """Return the options of the shipped Redis with its maxmemory scaled down, and its limit as well."""
    found = yaml.safe_load(read("docker/compose.yaml"))["services"]["redis"]
    words = found["command"][1:]
    options = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
    assert (options["maxmemory"], found["mem_limit"]) == ("768mb", "2g")
    return options | {"maxmemory": str(768 * MB // SCALE)}, 2048 * MB // SCALE


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[tuple[RedisServer, int]]:
    """The shipped Redis, and the bytes that it may have."""
    options, limit = shipped()
    with RedisServer(tmp_path / "before", **options) as idle:
        pages = int(Path(f"/proc/{idle.pid}/statm").read_text().split()[0])
    with (
        memory_limit(limit, pages * resource.getpagesize()) as enter,
        RedisServer(tmp_path / "redis", enter, **options) as server,
    ):
        yield server, limit


def fill(server: RedisServer) -> None:
    """Write what is no model's until the server refuses it."""
    for size in (100_000, 1_000, 1_000):  # each over a connection of its own, as buffers take memory too
        with closing(server.client()) as client, suppress(redis.OutOfMemoryError):
            while True:
                client.lpush("filler", bytes(size))


def own_bytes(pid: int) -> int:
    """Return the bytes of a process that it shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def rewritten(client: Any) -> None:
    """Wait until the append-only file is written again."""
    until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
    assert client.info("persistence")["aof_last_bgrewrite_status"] == "ok"


def test_a_full_redis_refuses_and_is_not_killed(limited: tuple[RedisServer, int], tmp_path: Path) -> None:
    server, _ = limited
    with service_on(server, tmp_path) as service, service.http() as http:
        start_model(http, 2)
        http.post("/models", json=MODEL | {"id": "large"}).raise_for_status()
        wide = np.random.default_rng(0).normal(size=(30, 10, 400))
        for rows in wide:
            added = {"X": rows.tolist(), "y": [-1, 1] * 5}
            http.post("/models/large/update", json={"add": added}).raise_for_status()
        client, number = server.client(), 2
        fill(server)
        while (answer := send(http, number)).status_code == 200:
            number += 1
        assert answer.status_code == 503
        assert "it is full: raise its maxmemory, or delete models" in answer.json()["detail"]
        until(lambda: not is_ready(http))
        assert http.post("/models/m/predict", json={"X": PROBE}).status_code == 200
        rewritten(client)  # one that it began by itself
        client.bgrewriteaof()
        rewritten(client)
        service.kill()
        server.kill()
        server.start()
        with service_on(server, tmp_path) as again, again.http() as http:  # which takes its leases all the same
            check_whole(http, list(range(number)))
            fill(server)
            while send(http, number).status_code == 200:
                number += 1
            assert http.delete("/models/large").status_code == 204
            until(lambda: send(http, number).status_code == 200)
            until(lambda: is_ready(http))
            again.kill()
        with service_on(server, tmp_path) as again, again.http() as http:
            check_whole(http, list(range(number + 1)))


def test_redis_is_not_killed_when_all_changes_while_its_file_is_written(limited: tuple[RedisServer, int]) -> None:
    """The process that writes is held until each page that it shares with the server has been copied."""
    server, limit = limited
    client: Any = server.client()
    most = int(client.config_get("maxmemory")["maxmemory"])
    client.config_set("auto-aof-rewrite-percentage", 0)
    sizes = np.random.default_rng(0).integers(100, 10_000, 100).tolist()

    def overwrite(keys: Iterable[int]) -> None:
        pipe = client.pipeline(transaction=False)
        for key in keys:
            pipe.set(f"filler:{key}", os.urandom(sizes[key % 100]))
        pipe.execute()

    n = 0
    while client.info("memory")["used_memory"] < 0.98 * most:  # as a full one takes no changes
        overwrite(range(n, n := n + 200))  # much at once, as a snapshot comes
    client.bgrewriteaof()
    until(lambda: Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text())
    writer = int(Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text())
    os.kill(writer, signal.SIGSTOP)
    for first in range(0, n, 20):
        overwrite(range(first, min(first + 20, n)))
    together = own_bytes(server.pid) + own_bytes(writer)
    os.kill(writer, signal.SIGCONT)
    assert 1.8 * most < together < limit
    rewritten(client)
    assert client.dbsize() == n


# Rights.


def documented_user() -> list[str]:
    """Return what the documents give a user of Redis, without its name."""
    found = re.search(r"ACL SETUSER livesvm (on .*?)\n\n", read("docs/howto/store.md"), re.S)
    assert found is not None
    return found[1].replace("\\", " ").split()


def url_of(server: RedisServer, *less: str, streams: str = "") -> str:
    """Return a URL of a user with the documented rights, but for some."""
    rules = [rule.replace("PASSWORD", "secret") for rule in documented_user() if rule not in less]
    extra = [f"~{streams}*", *STREAM_RIGHTS.split()] if streams else []
    client: Any = server.client()
    client.execute_command("ACL", "SETUSER", "livesvm", "reset", *rules, *extra)
    return server.url.replace("redis://", "redis://livesvm:secret@")


STREAM_RIGHTS = "+xgroup +xreadgroup +xautoclaim +xack +xpending +xinfo"


def test_the_documented_rights_suffice_for_all_that_a_service_does(server: RedisServer, tmp_path: Path) -> None:
    url = url_of(server, streams="readings")
    assert STREAM_RIGHTS in read("docs/howto/store.md")
    client = server.client()
    spec = {"id": "load", **FEED, "source": {"stream": "readings"}}
    settings: dict[str, Any] = {"redis_url": url, "lease_seconds": 1, "snapshot_updates": 2}
    with ServiceProcess(tmp_path / "1", **settings) as one, one.http() as http:
        start_model(http, 5)
        http.post("/feeds", json=spec).raise_for_status()
        client.xadd("readings", {"time": "2026-01-01T00:00", "y": "1"})
        client.xadd("readings", {"time": "no time", "y": "1"})
        until(lambda: client.xlen("readings:dead:load") == 1)
        assert (is_ready(http), http.get("/health/ready").json().get("degraded")) == (True, None)
        assert "Redis refuses" not in one.errors
        receipt = http.post("/models/m/erase", json={"keys": ["0-1"]}).json()["receipt"]
        assert receipt["places"]["append-only file"] == "written anew"
        one.kill()
        with ServiceProcess(tmp_path / "2", **settings) as two, two.http() as other:
            until(lambda: send(other, 5).json().get("version") == 7)
            until(lambda: is_ready(other))
            assert two.stop() == 0
    assert main(["store", "copy", url, str(tmp_path / "copy")]) == 0


def test_each_right_that_is_missing_is_named(server: RedisServer, tmp_path: Path) -> None:
    rights = {rule for rule in documented_user() if rule.startswith("+")}
    optional = {"+config|get", "+info", "+bgrewriteaof", "+select"}
    for right in sorted(rights - optional):
        with pytest.raises(StoreError, match=re.escape(f"Redis refuses {right[1:].upper()}, ".rstrip(", "))):
            RedisStore(url_of(server, right), "me")
    with pytest.raises(StoreError, match=r"or the key \{another\}:schema"):
        RedisStore(url_of(server), "me", prefix="another")
    listed = {command.split()[0].lower() for command in scripts.COMMANDS.split(",")}
    assert {right[1:] for right in rights - optional} == listed | {"eval"}
    service = ServiceProcess(tmp_path, redis_url=url_of(server, "+hset"))
    service.launch()
    assert service.wait() == 1
    assert "Redis refuses HSET" in service.errors


@pytest.mark.parametrize("right", ["+config|get", "+info", "+bgrewriteaof"])
def test_a_right_that_may_be_missing_is_named_once_and_nothing_is_claimed(
    right: str, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(RedisStore(url_of(server, right), "me")) as store:
        lease = store.create("m", b"")
        level = store.append(lease, 1, b"", Idempotency("k", b""), keep=1)
        reported = store.wipe(wholly=True)["append-only file"]
        if right == "+config|get":
            assert (level, store.durability()) == (Durability.MEMORY, Durability.MEMORY)
            assert "allow it +config|get" in (store.weakness or "")
            assert reported == "written anew"
        else:
            assert (level, store.durability(), store.weakness) == (Durability.FSYNCED, Durability.FSYNCED, None)
            name = right[1:].upper()
            assert reported == f"not known to be written again: Redis refuses {name} to this user, allow it {right}"
            assert f"Redis refuses {name} to this user: reports of erasures cannot say" in caplog.text
        store.save_solution(lease, Solution(1, b""))


# Cluster and replicas.


@pytest.fixture(params=[1, 3])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    """One of the nodes of a cluster that serves all slots."""
    with ExitStack() as stack:
        options = {"cluster-enabled": "yes", "cluster-node-timeout": "2000"}
        nodes = [
            stack.enter_context(RedisServer(tmp_path / f"node-{n}", **options | {"cluster-port": str(free_port())}))
            for n in range(request.param)
        ]
        client: Any = nodes[0].client()
        if len(nodes) == 1:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        else:
            addresses = [f"127.0.0.1:{node.port}" for node in nodes]
            command = ["redis-cli", "--cluster", "create", *addresses, "--cluster-yes"]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        until(lambda: "cluster_state:ok" in str(client.execute_command("CLUSTER", "INFO")))
        yield nodes[-1]


def test_a_cluster_is_refused_in_one_sentence(
    cluster: RedisServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = ServiceProcess(tmp_path / "data", redis_url=cluster.url)
    service.launch()
    assert service.wait() == 1
    assert CLUSTER in service.errors
    with ServiceProcess(tmp_path / "embedded") as other:
        other.stop()
    assert main(["store", "copy", str(tmp_path / "embedded"), cluster.url]) == 1
    assert CLUSTER in capsys.readouterr().err
    source = RedisStream(RedisStreamSpec(stream="s"), "load", "time", cluster.url, "one", 1.0)
    with closing(source), pytest.raises(SourceError, match=f"stream s cannot be read: {CLUSTER}"):
        source.begin(None, [])


def test_a_sentinel_that_is_taken_for_a_store_is_refused(server: RedisServer, tmp_path: Path) -> None:
    with (
        Sentinel(tmp_path / "sentinel", server.port) as sentinel,
        pytest.raises(StoreError, match="this is a Sentinel: its URL is redis"),
    ):
        RedisStore(f"redis://127.0.0.1:{sentinel.port}/0", "me")


def test_a_replica_takes_no_updates_says_so_and_goes_on_as_primary(server: RedisServer, tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path / "other") as other,
        service_on(server, tmp_path / "1") as service,
        service.http() as http,
    ):
        start_model(http, 2)
        client, second = server.client(), other.client()
        second.replicaof("127.0.0.1", str(server.port))
        until(lambda: second.info("replication")["master_link_status"] == "up")
        until(lambda: second.exists("{livesvm}:m:m:log") == 1)
        with (
            closing(RedisStore(other.url, "me")) as store,
            pytest.raises(StoreUnavailable, match="it is a replica, which takes no writes"),
        ):
            store.ping()
        second.replicaof("NO", "ONE")
        client.replicaof("127.0.0.1", str(other.port))
        refused = send(http, 2)
        assert refused.status_code == 503
        assert "it is a replica, which takes no writes: give the service the primary" in refused.json()["detail"]
        until(lambda: not is_ready(http))
        assert http.post("/models/m/predict", json={"X": PROBE}).json()["stale"] is True
        client.replicaof("NO", "ONE")
        until(lambda: send(http, 2).status_code == 200)
        check_whole(http, [0, 1, 2])


@pytest.mark.parametrize("killed", ["when the replicas have all", "when they lack the last update", "in mid-update"])
def test_after_a_failover_a_model_is_behind_if_and_only_if_the_new_primary_lacks_updates(
    killed: str, tmp_path: Path
) -> None:
    """With the documented settings: a primary, two replicas, and a Sentinel.

    In mid-update the primary may end before or after a replica has what it acknowledged: the log there tells.
    """
    options = {"min-replicas-to-write": "1", "min-replicas-max-lag": "10", "repl-diskless-sync-delay": "0"}
    watching = {"sentinel down-after-milliseconds river": "1000", "sentinel failover-timeout river": "5000"}
    with ExitStack() as stack:
        primary = stack.enter_context(RedisServer(tmp_path / "primary", **options))
        followers = [
            stack.enter_context(
                RedisServer(tmp_path / f"replica-{n}", **options, replicaof=f"127.0.0.1 {primary.port}")
            )
            for n in range(2)
        ]
        until(lambda: int(primary.client().info("replication")["min_slaves_good_slaves"]) == 2)
        sentinel = stack.enter_context(Sentinel(tmp_path / "sentinel", primary.port, **watching))
        until(lambda: len(sentinel_replicas(sentinel.port)) == 2)
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/river/0"
        service = stack.enter_context(ServiceProcess(tmp_path / "data", redis_url=url, lease_seconds=1))
        http = stack.enter_context(service.http())
        start_model(http, 3)
        acknowledged, is_over = 3, threading.Event()

        def kill_soon() -> None:
            time.sleep(0.3)
            primary.kill()
            is_over.set()

        if killed == "in mid-update":
            threading.Thread(target=kill_soon).start()
        else:
            until(lambda: all(newest_of(one) == acknowledged for one in followers))
            if killed == "when they lack the last update":
                for one in followers:
                    one.signal(signal.SIGSTOP)
                send(http, acknowledged).raise_for_status()
                acknowledged += 1
            primary.kill()
            is_over.set()
            if killed == "when they lack the last update":  # what waits for them in their sockets goes too
                for one in followers:
                    one.kill()
                    one.start()
        lacked, end, after = list[int](), time.monotonic() + 60, 0
        while after < 3 and time.monotonic() < end:
            was_over = is_over.is_set()
            answer = send(http, acknowledged)
            if answer.status_code == 200:
                acknowledged += 1
                after += was_over
            elif answer.json()["type"].endswith(":store-behind"):
                until(lambda: len(primaries(followers)) == 1)  # Sentinel may still be at it
                lacked.append(acknowledged - newest_of(*primaries(followers)))
                assert http.post("/models/m/writeback").json()["written"] is True
            else:
                assert answer.status_code == 503
                time.sleep(0.1)
        assert after == 3
        assert len(lacked) <= 1
        assert all(count >= 1 for count in lacked)
        if killed != "in mid-update":
            assert lacked == ([] if killed == "when the replicas have all" else [1])
        check_whole(http, list(range(acknowledged)))
        service.kill()
        again = stack.enter_context(ServiceProcess(tmp_path / "data", redis_url=url, lease_seconds=1))
        with again.http() as http:
            check_whole(http, list(range(acknowledged)))


def primaries(servers: Sequence[RedisServer]) -> list[RedisServer]:
    """Return the servers that take writes."""
    return [one for one in servers if one.client().info("replication")["role"] == "master"]


def newest_of(server: RedisServer) -> int:
    """Return the version of the newest record that a server has of the model; 0 while it has none."""
    client: Any = server.client()
    found = client.xrevrange("{livesvm}:m:m:log", count=1)
    return int(found[0][0].split(b"-")[0]) if found else 0


def sentinel_replicas(port: int) -> list[Any]:
    with redis.Redis(port=port) as client:
        found: list[Any] = client.sentinel_slaves("river")
    return [one for one in found if not one["is_disconnected"]]
