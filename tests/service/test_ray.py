"""Models in actors of a Ray cluster: what every front end must do, and what must survive."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from livesvm.service.ray.messages import Answer, packed, unpacked
from livesvm.service.ray.places import place_of
from livesvm.service.settings import Settings
from livesvm.solvers.errors import InvalidInput, UnknownKey
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess, blobs
from tests.service.starts import Forked
from tests.support.erasing import bytes_of_directory, bytes_of_redis, places
from tests.support.jobs_over_rest import awaited, of_seconds
from tests.support.ray_cluster import TASK, RayCluster
from tests.support.updates_under_faults import MODEL, PROBE, batch, check_whole, learnt, send
from tests.support.waiting import until

PATIENCE = 60.0


@dataclass
class Fleet:
    """Two front ends, one of which predicts by itself and the other by the actor, on one cluster and one Redis."""

    cluster: RayCluster
    server: RedisServer
    fronts: tuple[ServiceProcess, ServiceProcess]
    settings: dict[str, Any]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    directory = tmp_path_factory.mktemp("ray")
    with RayCluster(1) as cluster, RedisServer(directory / "redis") as server:
        common: dict[str, Any] = {"redis_url": server.url, "ray": cluster.address, "ray_actors": 1, "lease_seconds": 2}
        common["ray_seconds"] = PATIENCE  # an actor may take long to start, on a machine that has much to do
        first = ServiceProcess(directory / "first", **common)
        second = ServiceProcess(directory / "second", ray_predictions="actor", **common)
        with first, second:
            yield Fleet(cluster, server, (first, second), common)


@pytest.fixture
def http(fleet: Fleet) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """A client of each front end; the model that they share is gone after the test."""
    with fleet.fronts[0].http(PATIENCE) as first, fleet.fronts[1].http(PATIENCE) as second:
        yield first, second
        first.delete("/models/m")


def predicted(http: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = http.post("/models/m/predict", json={"X": PROBE}).json()
    return found


def test_front_ends_share_a_model(http: tuple[httpx.Client, httpx.Client]) -> None:
    first, second = http
    assert first.post("/models", json=MODEL).status_code == 201
    assert second.post("/models", json=MODEL).status_code == 409
    assert second.get("/models/m").json()["state"] == "live"
    assert send(second, 0).json()["version"] == 1
    assert send(first, 1).json()["version"] == 2
    for client in http:
        check_whole(client, [0, 1])
    answers = [client.post("/models/m/predict", json={"X": PROBE}) for client in http]
    assert {answer.json()["version"] for answer in answers} == {2}
    assert all(float(answer.headers["livesvm-age"]) >= 0.0 and not answer.json()["stale"] for answer in answers)
    np.testing.assert_allclose(answers[0].json()["decision"], answers[1].json()["decision"], rtol=0, atol=1e-12)
    again = send(second, 1)
    assert (again.json()["version"], again.headers["idempotent-replayed"]) == (2, "true")
    refused = first.post("/models/m/update", json={"remove": {"keys": ["nobody"]}})
    assert (refused.status_code, refused.json()["row"]) == (422, 0)
    unknown = second.post("/models/m/predict", json={"X": [[1.0]]})
    assert (unknown.status_code, unknown.json()["field"]) == (422, "X")
    assert first.post("/models/m/restore", json={"version": 1}).json()["version"] == 3
    check = second.get("/models/m/recent").json()["updates"]
    assert [update["version"] for update in check] == [3, 2, 1]
    assert second.delete("/models/m").status_code == 204
    assert [client.get("/models/m/certificate").status_code for client in http] == [404, 404]


def test_rows_with_names_reach_an_actor(http: tuple[httpx.Client, httpx.Client]) -> None:
    first, second = http
    assert first.post("/models", json={"id": "m", "C": 1.0, "columns": "auto"}).status_code == 201
    rows, y = [{"plan": plan, "age": float(age)} for age in range(20) for plan in ("gold", "free")], [1, -1] * 20
    for client in (second, first):
        client.post("/models/m/update", json={"add": {"rows": rows, "y": y}}).raise_for_status()
    answers = [client.post("/models/m/predict", json={"rows": rows}).json()["decision"] for client in http]
    np.testing.assert_allclose(answers[0], answers[1], rtol=0, atol=1e-12)
    assert second.get("/models/m/examples").json()["examples"][1]["x"] == rows[1]
    for path, body in (
        ("predict", {"rows": [{"age": "old"}]}),
        ("update", {"add": {"rows": [{"age": "x"}], "y": [1]}}),
    ):
        wrong = second.post(f"/models/m/{path}", json=body)
        assert (wrong.status_code, wrong.json()["row"], wrong.json()["name"]) == (422, 0, "age"), wrong.text
    assert first.post("/models/m/what-if", json={"rows": rows[:1], "decay": 0.5}).status_code == 200


def test_a_model_tunes_itself_in_an_actor(http: tuple[httpx.Client, httpx.Client]) -> None:
    first, second = http
    assert first.post("/models", json={"id": "m", "scale": "standard"}).status_code == 201
    X = np.random.default_rng(3).normal(size=(60, 3))
    add = {"X": X.tolist(), "y": np.where((X[:, :2] ** 2).sum(axis=1) > 1.4, 1, -1).tolist()}
    assert second.post("/models/m/update", json={"add": add}).json()["tuning"] == {"chosen": None, "n_since": 60}
    until(lambda: first.get("/models/m").json()["tuning"]["chosen"] is not None, PATIENCE)
    found = [client.get("/models/m").json() for client in http]
    assert found[0]["tuning"] == found[1]["tuning"]
    assert (found[0]["version"], found[0]["C"]) == (2, found[0]["tuning"]["chosen"]["parameters"]["C"])
    assert second.get("/models/m/certificate").json()["relative_gap"] < 1e-8


def test_a_description_is_not_behind_an_answer_of_another_front_end(http: tuple[httpx.Client, httpx.Client]) -> None:
    http[0].post("/models", json=MODEL).raise_for_status()
    for number in range(20):
        version = send(http[number % 2], number).json()["version"]
        reported = http[1 - number % 2].get("/models/m").json()
        assert (version, reported["version"], reported["n_examples"]) == (
            number + 1,
            number + 1,
            min(60, 10 * number + 10),
        )
    http[0].delete("/models/m").raise_for_status()
    assert http[1].get("/models/m").status_code == 404


def test_a_removal_by_age_that_finds_nothing_is_kept_under_a_name_alone(
    http: tuple[httpx.Client, httpx.Client],
) -> None:
    """As in one process: the name that a call has on its way to the actor is none."""
    learnt(http[0], updates=1)
    for client in http:
        answer = client.post("/models/m/update", json={"remove": {"older_than": 0}})
        assert (answer.json()["version"], answer.json()["removed"]) == (1, [])
    for client in http:
        named = client.post(
            "/models/m/update", json={"remove": {"older_than": 0}}, headers={"Idempotency-Key": "month"}
        )
        assert (named.json()["version"], named.json()["removed"]) == (2, [])


def test_an_erasure_leaves_nothing_in_the_store_nor_at_any_front_end(
    fleet: Fleet, http: tuple[httpx.Client, httpx.Client]
) -> None:
    """The front end that is called signs the receipt, by its own key."""
    first, second = http
    first.post("/models", json=MODEL).raise_for_status()
    X, _ = blobs(np.random.default_rng(4), 12)
    indices = [f"person-{number:04d}@example.org" for number in range(12)]
    y = ["ape", "bee", "cat"] * 3 + ["cat", "bee", "only-his"]
    for part in (slice(0, 6), slice(6, 12)):
        add = {"X": X[part], "y": y[part], "keys": indices[part]}
        first.post("/models/m/update", json={"add": add}).raise_for_status()
    assert traces_of(fleet, indices[11], X[11])
    erased = second.post("/models/m/erase", json={"keys": [indices[11], indices[0]]})
    assert erased.status_code == 200, erased.text
    receipt = erased.json()["receipt"]
    assert (erased.json()["removed"], receipt["version_after"]) == (2, 3)
    assert {"other front ends", "Ray's object store"} < receipt["places"].keys()
    for place in (0, 11):
        assert traces_of(fleet, indices[place], X[place]) == set()
    for client in http:
        assert client.get("/models/m").json()["version"] == 3
        until(partial(predicts_by, client, 3))
        assert client.post("/models/m/predict", json={"X": PROBE}).json()["classes"] == ["ape", "bee", "cat"]
        assert client.post("/models/m/restore", json={"version": 1}).status_code == 422
        assert receipt["receipt"] in [one["receipt"] for one in client.get("/receipts").json()["receipts"]]
        assert client.post("/receipts/verify", json=receipt).json()["verified"]
    own = [client.get("/receipts/key").json()["public_key"] for client in http]
    assert receipt["public_key"] == own[1] != own[0]
    for client, key in zip(http, own, strict=True):
        assert client.post("/receipts/verify", json=receipt).json()["is_own"] == (key == own[1])


def test_what_is_asked_of_a_job_is_answered_by_the_front_end_asked(
    fleet: Fleet, http: tuple[httpx.Client, httpx.Client]
) -> None:
    """Here that it is not there; no other front end is asked over HTTP."""
    marks = [(front.data_dir / "holder").read_text()[:8] for front in fleet.fronts]
    before = [forwarded(client) for client in http]
    for mark, client in zip(marks, reversed(http), strict=True):
        asked = client.get(f"/jobs/j-000000000000-{mark}", headers={"x-request-id": f"for-{mark}"})
        assert (asked.status_code, asked.json()["type"]) == (404, "urn:livesvm:problem:unknown-job")
        assert asked.headers["x-request-id"] == f"for-{mark}"
        assert client.get("/jobs").json() == {"jobs": []}
        assert client.get("/jobs/j-000000000000-ffffffff").status_code == 404
    assert [forwarded(client) - b for client, b in zip(http, before, strict=True)] == [2, 2]


def forwarded(client: httpx.Client) -> float:
    """Return how often a front end has been asked for a job that is not there."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    wanted = {"route": "/jobs/{job}", "status": "404", "method": "GET"}
    (family,) = (family for family in families if family.name == "livesvm_http_requests")
    return sum(s.value for s in family.samples if s.name.endswith("_total") and s.labels == wanted)


@pytest.mark.slow
def test_every_front_end_answers_for_every_job(http: tuple[httpx.Client, httpx.Client]) -> None:
    first, second = http
    learnt(first, updates=1)
    asked = second.post("/models/m/assessment", json={"method": "k-fold", "folds": 2})
    job = asked.headers["location"]
    assert [client.get(job, headers={"x-request-id": "mine"}).headers["x-request-id"] for client in http] == [
        "mine"
    ] * 2
    events = first.get(f"{job}/events")
    assert events.headers["content-type"].startswith("text/event-stream")
    assert '"state":"done"' in events.text.split("event: job")[-1]
    here, there = (client.get(job).json() for client in http)
    assert here == there
    assert here["state"] == "done"
    for client in http:
        assert [found["id"] for found in client.get("/jobs").json()["jobs"]] == [here["id"]]
        refused = client.post(f"{job}/apply", json={})
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:livesvm:problem:not-applicable")
        assert client.get(f"{job}/plot.svg").json()["type"] == "urn:livesvm:problem:no-plot"
        assert client.get(f"{job[:-1]}x").status_code == client.get("/jobs/j-000000000000").status_code == 404
    assert first.delete(job).json()["state"] == "done"
    for client in http:
        assert (client.get(job).status_code, client.get("/jobs").json()) == (404, {"jobs": []})


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.03, 0.1])
def test_an_erasure_ends_though_its_actor_is_killed(
    seconds: float, fleet: Fleet, http: tuple[httpx.Client, httpx.Client]
) -> None:
    first, second = http
    learnt(first, updates=3)
    gone, name = {"keys": ["0-3", "2-7"]}, {"idempotency-key": f"officer {seconds}"}
    with ThreadPoolExecutor(1) as pool:
        erasing = pool.submit(lambda: second.post("/models/m/erase", json=gone, headers=name))
        time.sleep(seconds)
        os.kill(fleet.cluster.actors()[0], signal.SIGKILL)
        answer = erasing.result()
    end = time.monotonic() + PATIENCE
    while answer.status_code == 503:
        assert time.monotonic() < end
        answer = second.post("/models/m/erase", json=gone, headers=name)
    assert answer.status_code == 200, answer.text
    assert answer.json()["version"] == 4
    for number, row in ((0, 3), (2, 7)):
        assert traces_of(fleet, "a key that nobody has", batch(number)["add"]["X"][row]) == set()
    reported = second.get("/models/m").json()
    assert (reported["version"], reported["n_examples"]) == (4, 28)


def traces_of(fleet: Fleet, key: str, x: list[float]) -> set[str]:
    """Return where there is any trace of an example: in Redis and its files, at the front ends and in their logs."""
    everything = {f"front {at}/{name}": found for at, front in enumerate(fleet.fronts)
                  for name, found in bytes_of_directory(front.data_dir).items()}  # fmt: skip
    everything |= {f"log of {at}": front.errors.encode() for at, front in enumerate(fleet.fronts)}
    everything |= {f"redis/{name}": found for name, found in bytes_of_directory(fleet.server.directory).items()}
    with fleet.server.client() as redis:
        everything |= bytes_of_redis(redis)
    return places(everything, key, x)


@pytest.mark.slow
def test_an_erasure_and_a_deletion_reach_the_jobs_of_every_front_end(http: tuple[httpx.Client, httpx.Client]) -> None:
    first, second = http
    learnt(first, updates=2)

    def assessed() -> str:
        """Return a job of the second front end."""
        job = second.post("/models/m/assessment", json={"method": "k-fold", "folds": 2}).json()["id"]
        awaited(second, job)
        return f"/jobs/{job}"

    old = assessed()
    erased = first.post("/models/m/erase", json={"keys": ["0-3"]})
    assert erased.status_code == 200, erased.text
    assert "other front ends" in erased.json()["receipt"]["places"]
    until(lambda: second.get(old).status_code == 404)
    new = assessed()
    assert second.get(new).status_code == 200
    first.delete("/models/m").raise_for_status()
    until(lambda: second.get(new).status_code == 404)


def predicts_by(client: httpx.Client, version: int) -> bool:
    """Return whether a front end predicts by a version, which it does soon after another has acknowledged it."""
    return bool(predicted(client)["version"] == version)


def applied(client: httpx.Client) -> tuple[dict[str, Any], list[Any]]:
    """Return a front end's metrics by family, and its samples of updates that were applied."""
    families = {family.name: family for family in text_string_to_metric_families(client.get("/metrics").text)}
    return families, [s for s in families["livesvm_updates"].samples if s.labels["outcome"] == "applied" and s.value]


def knows(client: httpx.Client) -> bool:
    """Return whether a front end has metrics of an actor's updates, and of the model."""
    families, done = applied(client)
    return bool(done and families["livesvm_model_version"].samples)


@pytest.mark.slow
def test_the_metrics_tell_what_is_done_where(http: tuple[httpx.Client, httpx.Client]) -> None:
    first, _ = http
    learnt(first, updates=2)
    for client in http:
        until(lambda: knows(client))  # noqa: B023 (an actor is asked, and the store read, soon after they are known)
        families, done = applied(client)
        assert [(sample.labels["task"], sample.labels["actor"]) for sample in done] == [("svc", "models-0-of-1")]
        assert done[0].value >= 2
        assert {s.labels["node"] for s in families["livesvm_solve_seconds"].samples} == {done[0].labels["node"]}
        (version,) = families["livesvm_model_version"].samples
        assert (version.labels["model"], version.value) == ("m", 2)


@pytest.mark.slow
def test_a_job_is_a_task_of_the_cluster(fleet: Fleet, http: tuple[httpx.Client, httpx.Client]) -> None:
    first, _ = http
    learnt(first, updates=4)
    asked = first.post("/models/m/assessment", json={"method": "k-fold", "folds": 4})
    found = awaited(first, asked.json()["id"])
    assert (found["state"], found["done"], found["version"]) == ("done", 4, 4)
    assert len(found["result"]["decisions"]) == 40
    long = of_seconds(first, "large")
    until(lambda: bool(fleet.cluster.workers(TASK)))
    assert first.delete(long).status_code == 200
    until(lambda: not fleet.cluster.workers(TASK))
    until(lambda: first.get(long).json()["state"] == "cancelled")
    first.delete("/models/large").raise_for_status()


@pytest.mark.slow
def test_an_actor_that_is_killed_comes_back_with_all_that_was_acknowledged(
    fleet: Fleet, http: tuple[httpx.Client, httpx.Client]
) -> None:
    first, second = http
    learnt(first, updates=3)
    predicted(first)
    (actor,) = fleet.cluster.actors()
    os.kill(actor, signal.SIGKILL)
    kept = predicted(first)  # by what is here
    assert (kept["version"], len(kept["decision"])) == (3, len(PROBE))
    for number, client in ((3, second), (2, first), (4, first)):
        end = time.monotonic() + PATIENCE
        while (answer := send(client, number)).status_code == 503:
            assert time.monotonic() < end
        assert answer.json()["version"] == number + 1
    for client in http:
        check_whole(client, [0, 1, 2, 3, 4])
    assert len(fleet.cluster.actors()) == 1


@pytest.mark.slow
def test_an_actor_comes_back_where_jobs_have_all_cores(fleet: Fleet, http: tuple[httpx.Client, httpx.Client]) -> None:
    first, second = http
    learnt(first, updates=1)
    jobs = [of_seconds(first, "large")]
    again = second.post("/models/large/assessment", json={"method": "k-fold", "folds": 3000})
    jobs.append(again.raise_for_status().headers["location"])
    until(lambda: len(fleet.cluster.workers(TASK)) == 2)
    (actor,) = fleet.cluster.actors()
    os.kill(actor, signal.SIGKILL)
    send(first, 1).raise_for_status()
    assert [first.get(job).json()["state"] for job in jobs] == ["running", "running"]
    for job in jobs:
        first.delete(job).raise_for_status()
    first.delete("/models/large").raise_for_status()


@pytest.mark.slow
def test_models_leave_a_node_that_is_drained(fleet: Fleet, http: tuple[httpx.Client, httpx.Client]) -> None:
    first, second = http
    learnt(first, updates=3)
    (left,) = (raylet for raylet in fleet.cluster.raylets if fleet.cluster.actors(raylet))
    other = fleet.cluster.add_node()
    fleet.cluster.drain(left)
    end, number = time.monotonic() + PATIENCE, 3
    while not fleet.cluster.actors(other) or number < 6:
        assert time.monotonic() < end
        time.sleep(0.05)
        answer = send((first, second)[number % 2], number)
        assert answer.status_code in (200, 503), answer.text
        if answer.status_code == 200:
            number += 1
            assert answer.json()["version"] == number
    assert not fleet.cluster.actors(left)
    for client in http:
        check_whole(client, list(range(number)))


@pytest.mark.slow
def test_an_actor_whose_model_was_taken_over_is_fenced_and_ends(
    fleet: Fleet, http: tuple[httpx.Client, httpx.Client], tmp_path: Path
) -> None:
    first, _ = http
    learnt(first, updates=1)
    (before,) = fleet.cluster.actors()
    os.kill(before, signal.SIGSTOP)
    try:
        with fleet.server.client() as redis:  # what the next incarnation does
            redis.hset("{livesvm}:m:m:meta", "lease", "999:another")
    finally:
        os.kill(before, signal.SIGCONT)
    end = time.monotonic() + PATIENCE
    while (answer := send(first, 1)).status_code == 503:
        assert time.monotonic() < end
    assert answer.json()["version"] == 2
    assert fleet.cluster.actors() != [before]
    check_whole(first, [0, 1])


def test_messages_keep_what_errors_say_and_arrays_that_can_be_written() -> None:
    for error in (UnknownKey("is not there", field="keys", row=3), ValueError("no")):
        found = unpacked(packed(Answer(error=error))).error
        assert type(found) is type(error)
        assert (str(found), vars(found)) == (str(error), vars(error))
    assert isinstance(unpacked(packed(InvalidInput("x", field="X"))), InvalidInput)
    assert unpacked(packed(np.ones((2, 3)))).flags.writeable


def test_each_model_has_one_place() -> None:
    ids = [f"m{number}" for number in range(200)]
    for actors in (0, 1, 7):
        places = {id_: place_of(id_, actors) for id_ in ids}
        assert len({place.name for place in places.values()}) == (actors or len(ids))
        assert {place.model for place in places.values()} == ({None} if actors else set(ids))


def test_settings_ask_for_redis_with_ray() -> None:
    with pytest.raises(ValueError, match="LIVESVM_REDIS_URL"):
        Settings(ray="auto")


def test_without_ray_nothing_of_it_is_loaded() -> None:
    service = Forked("tests.support.loaded", os.environ)
    assert service.stdout is not None
    assert service.stderr is not None
    with service.stdout as out, service.stderr as err:
        loaded = out.read().split()
        assert service.wait(30) == 0, err.read()
    assert {"livesvm.service.api.app", "livesvm.service.process.server"} <= set(loaded)
    assert "ray" not in loaded


@pytest.mark.slow
def test_what_is_not_used_goes_to_rest_in_its_actor_and_a_call_wakes_it(fleet: Fleet, tmp_path: Path) -> None:
    settings = fleet.settings | {"redis_prefix": "rests", "rest_seconds": 1.0, "ray_actor_mb": 256}
    fronts = [ServiceProcess(tmp_path / name, **settings) for name in ("first", "second", "late")]
    with fronts[0], fronts[1], fronts[0].http(PATIENCE) as first, fronts[1].http(PATIENCE) as second:
        learnt(first, updates=3)
        first.post("/feeds", json={"id": "f", "target": "load", "time": None, "steps": [1], "window": 40})
        first.post("/feeds/f/observations", json={"rows": readings(0, 50)}).raise_for_status()
        forecast = first.get("/feeds/f/forecast").json()
        before = first.get("/models/m").json()
        predictions = predicted(first)
        until(lambda: not any(one["awake"] for client in (first, second) for one in everything(client)))
        with fronts[2], fronts[2].http(PATIENCE) as late:
            for client in (first, second, late):
                (model, feed) = everything(client)
                assert (model["state"], model["version"], model["n_examples"]) == ("live", 3, before["n_examples"])
                assert (feed["state"], feed["position"]) == ("live", 50)
            assert late.get("/feeds/f/forecast").json() == forecast
        assert predicted(second) == predictions
        assert send(second, 3).json()["version"] == 4
        check_whole(first, [0, 1, 2, 3])


def everything(client: httpx.Client) -> list[dict[str, Any]]:
    """Return all models, then all feeds."""
    return [*client.get("/models").json()["models"], *client.get("/feeds").json()["feeds"]]


def readings(first: int, n: int) -> list[dict[str, Any]]:
    """Return ``n`` readings from the ``first`` on, of a wave that repeats every 8."""
    return [{"load": round(10.0 + np.sin(k * np.pi / 4) + 0.01 * (k % 3), 6)} for k in range(first, first + n)]


@pytest.mark.slow
def test_a_feed_lives_in_an_actor_and_outlives_it(fleet: Fleet, http: tuple[httpx.Client, httpx.Client]) -> None:
    first, second = http
    made = first.post("/feeds", json={"id": "f", "target": "load", "time": None, "steps": [1, 2], "window": 60})
    assert made.status_code == 201, made.text
    assert second.post("/feeds", json={"id": "f", "target": "load"}).status_code == 409
    for number in range(8):
        client, key = http[number % 2], {"idempotency-key": f"call {number}"}
        rows = {"rows": readings(12 * number, 12)}
        answer = client.post("/feeds/f/observations", json=rows, headers=key)
        assert answer.json()["position"] == 12 * (number + 1), answer.text
        assert http[1 - number % 2].get("/feeds/f/forecast").json()["position"] == 12 * (number + 1)
    before = second.get("/feeds/f/forecast").json()
    assert (before["state"], before["stale"], len(before["forecasts"])) == ("live", False, 2)
    assert first.get("/feeds/f/forecast").json() == before
    assert first.get("/feeds/f/certificate").json()["relative_gap"] < 1e-8
    refused = second.post("/feeds/f/observations", json={"rows": [{"load": "much"}]})
    assert (refused.status_code, refused.json()["field"]) == (422, "load")

    for actor in fleet.cluster.actors():
        os.kill(actor, signal.SIGKILL)
    again = second.post("/feeds/f/observations", json={"rows": readings(84, 12)}, headers={"idempotency-key": "call 7"})
    assert (again.json()["position"], again.headers["idempotent-replayed"]) == (96, "true")
    until(lambda: first.get("/feeds/f/forecast").json() == before)
    job = first.post("/feeds/f/backtest", json={}).json()["id"]
    found = awaited(first, job)
    assert found["state"] == "done", found
    history = second.get("/feeds/f/history", params={"limit": 10}).json()["rows"]
    assert [row["value"] for row in history] == [row["load"] for row in readings(86, 10)]
    with second.stream("GET", "/feeds/f/events", headers={"last-event-id": "1"}) as stream:
        lines = iter(stream.iter_lines())
        assert next(line for line in lines if line.startswith("id: ")) == "id: 2"
    assert "livesvm_feed_calls_total" in first.get("/metrics").text
    assert second.delete("/feeds/f").status_code == 204
    assert first.get("/feeds/f").status_code == 404
