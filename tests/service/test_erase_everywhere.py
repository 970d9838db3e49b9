"""Erasing from every place that knows a key, and by tags, which stay with examples for as long as these are stored."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import redis

from livesvm.service.client import Client, ServiceProblem
from livesvm.service.history.entries import Restoration
from livesvm.service.history.replay import together
from livesvm.service.models.commands import Command
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.receipts.receipt import names, names_tag
from livesvm.service.store.base import StoreError
from livesvm.service.store.redis import RedisStore
from livesvm.solvers.models.change import Batch
from tests.service.process import ServiceProcess
from tests.support.erasing import SPEC, Kept, data, keeping
from tests.support.feeds import FEED, Stream
from tests.support.jobs_over_rest import awaited
from tests.support.waiting import until

GONE = "customer-17"
"""A tag, and the text in other names."""
N = 12


def lived(client: Client, http: httpx.Client) -> None:
    """Create two models with the same keys, one that numbers its examples, one with none of them, and a feed."""
    X, y = data(N)
    keys = [f"order-{row}" for row in range(N)]
    tags: list[Any] = [None] * N
    tags[3], tags[5], tags[7] = GONE, [GONE, "store-4"], ["store-4"]
    for name in ("a", "b", "other"):
        client.create_model(**SPEC | {"id": name})
    client.update("a", X, y, keys=keys, tags=tags, idempotency_key=f"{GONE}/1")
    client.update("a", remove={"keys": ["order-5"]})
    client.checkpoint("a")
    client.update("b", X[:8], y[:8], keys=keys[:8])
    client.update("b", X[8:], y[8:], tags=[None, GONE, None, None])  # which are numbered 0 to 3
    client.update("other", X, y)  # 0 to 11
    awaited(http, client.assess("a")["id"])
    rows = "\n".join(f"{key},{x[0]!r},{label}" for key, x, label in zip(keys, X, y, strict=True))
    table, kind = f"who,x,y\n{rows}", {"content-type": "text/csv"}
    http.put("/datasets/theirs", params={"key": "who"}, content=table, headers=kind).raise_for_status()
    client.create_feed("load", **FEED)
    client.observe("load", Stream(http).rows[:12], idempotency_key=f"readings of {GONE}")
    client.observe("load", Stream(http).rows[12:24], idempotency_key="readings of customer-170")


@pytest.mark.parametrize("store", ["sqlite", pytest.param("redis", marks=pytest.mark.slow)])
@pytest.mark.alone(reason="looks into the files of the one process, and kills it")
def test_a_tag_is_erased_from_everywhere(store: str, tmp_path: Path) -> None:
    with keeping(store, tmp_path) as kept:
        erase_a_tag(kept)


def erase_a_tag(kept: Kept) -> None:
    process, everything = kept
    with process as service, service.http() as http, Client(service.url) as client:
        lived(client, http)
        service.kill()
    with process as service, service.http() as http, Client(service.url) as client:
        assert tags_of(client, "a") == {"order-3": [GONE], "order-7": ["store-4"]}
        assert tags_of(client, "b") == {1: [GONE]}
        members = np.load(io.BytesIO(http.get("/models/a/examples", params={"format": "npz"}).content))
        assert members["tags"][members["keys"] == "order-3"].tolist() == [[GONE]]
        assert '"[""store-4""]"' in http.get("/models/a/examples", params={"format": "csv"}).text
        before = {name: client.versions(name) for name in ("a", "b", "other")}
        of_one = client.erase("b", ["order-1"], tags=["nobody"])
        assert (of_one["removed"], of_one["not_found"], of_one["receipt"]["elsewhere"]) == (1, ["nobody"], ["model a"])
        reported = client.erase_everywhere(tags=[GONE], idempotency_key="officer")
        assert [(one["model"], one["kind"], one["in_window"]) for one in reported["erased"]] == [
            ("a", "model", 1),
            ("b", "model", 3),  # order-3 and order-5 by their keys, and the number 1
            ("load", "feed", 0),
        ]
        receipt = reported["receipt"]
        assert (reported["removed"], receipt["kind"], receipt["refused"]) == (4, "everywhere", {})
        assert names_tag(receipt, GONE)
        assert all(names(receipt, key) for key in ("order-3", "order-5", 1))
        assert not names(receipt, "order-7")
        assert client.verify_receipt(receipt)["verified"]
        assert client.versions("other") == before["other"]
        assert client.model("other")["n_examples"] == N
        assert client.versions("a")["oldest"] == before["a"]["current"] + 1
        assert client.model("b")["n_examples"] == N - 4
        assert tags_of(client, "a") == {"order-7": ["store-4"]}
        assert http.get("/jobs").json()["jobs"] == []
        assert receipt["places"]["datasets"].startswith("2 rows removed from theirs")
        assert http.get("/datasets/theirs").json()["n_examples"] == N - 3
        known = http.post(
            "/feeds/load/observations", json={"rows": Stream(http).rows[:12]}, headers=named(f"readings of {GONE}")
        )
        assert (known.status_code, known.json()["type"]) == (409, "urn:livesvm:problem:request-erased")
        check_nothing(everything())
        assert client.erase_everywhere(tags=[GONE], idempotency_key="officer") == reported
        assert http.post("/erase", json={"tags": [GONE]}).status_code == 404
        service.kill()
    with process as service, Client(service.url) as client:
        check_nothing(everything())
        assert client.model("b")["n_examples"] == N - 4
        assert client.feed("load")["position"] == 24


def named(request: str) -> dict[str, str]:
    return {"idempotency-key": request}


def tags_of(client: Client, model: str) -> dict[Any, list[str]]:
    return {one["key"]: one["tags"] for one in client.examples(model)["examples"] if one["tags"]}


def check_nothing(everything: dict[str, bytes]) -> None:
    """Check that no tag or key of the erasure is left anywhere, but for longer ones that begin alike."""
    for name, found in everything.items():
        found = found.replace(f"{GONE}0".encode(), b"")
        for trace in (GONE, "order-5", "order-3"):
            assert trace.encode() not in found, (name, trace)


@pytest.mark.alone(reason="it is killed at crash points of the process that has the models")
@pytest.mark.parametrize("point", ["erase-begun", "erase-superseded", "erase-solved:2", "erase-signed"])
def test_killed_between_two_models(point: str, tmp_path: Path) -> None:
    """What was begun in one is ended in all, with one receipt, which the retry gets."""
    process = ServiceProcess(tmp_path / "data", crash_at=point)
    X, y = data(N)
    keys = [f"order-{row}" for row in range(N)]
    asked, header = {"keys": ["order-2", "order-9"]}, named("officer")
    with process as service, service.http() as http, Client(service.url) as client:
        for name in ("a", "b"):
            client.create_model(**SPEC | {"id": name})
            client.update(name, X, y, keys=keys)
        with pytest.raises(httpx.TransportError):
            http.post("/erase", json=asked, headers=header)
        assert service.wait() == -9
    process.settings["crash_at"] = ""
    with process as service, service.http() as http, Client(service.url) as client:
        (receipt,) = client.receipts()
        assert [(one["model"], one["version_before"], one["version_after"], one["in_window"])
                for one in receipt["parts"]] == [("a", 1, 2, 2), ("b", 1, 2, 2)]  # fmt: skip
        assert client.model("a")["n_examples"] == client.model("b")["n_examples"] == N - 2
        again = http.post("/erase", json=asked, headers=header)
        assert (again.json()["receipt"], again.headers["idempotent-replayed"]) == (receipt, "true")


@contextmanager
def held_elsewhere(url: str) -> Iterator[None]:
    """Have a service that lives hold a model `theirs`, which is what `mine` is."""
    done = threading.Event()
    with redis.Redis.from_url(url) as client, closing(RedisStore(url, "elsewhere")) as store:
        lease = store.create("theirs", client.hget("{livesvm}:models", "mine"))
        for record in store.log("mine", 0):
            store.append(lease, record.sequence, record.data, None, keep=9)

        def live() -> None:
            while not done.wait(0.2):
                with suppress(StoreError):
                    store.ping()

        living = threading.Thread(target=live)
        living.start()
        try:
            yield
        finally:
            done.set()
            living.join()


@pytest.mark.alone(reason="another service holds a model in Redis")
def test_a_model_that_cannot_be_asked_is_named(tmp_path: Path) -> None:
    """Another service has it: what knows the key here is erased, and the rest is said; alone, it is no success."""
    X, y = data(N)
    keys = [f"order-{row}" for row in range(N)]
    with keeping("redis", tmp_path) as (process, _), process as here, Client(here.url, patience=0.0) as client:
        client.create_model(**SPEC | {"id": "mine"})
        client.update("mine", X, y, keys=keys, idempotency_key="first")
        with held_elsewhere(process.settings["redis_url"]):
            until(lambda: [one["id"] for one in client.models()] == ["mine", "theirs"])
            reported = client.erase_everywhere(["order-1"], idempotency_key="officer")
            assert [one["model"] for one in reported["erased"]] == ["mine"]
            assert list(reported["receipt"]["refused"]) == ["model theirs"]
            with pytest.raises(ServiceProblem) as caught:
                client.erase_everywhere(["order-1"])
            assert (caught.value.status, "model theirs" in str(caught.value)) == (503, True)
            one_model = client.erase("mine", ["order-2"], idempotency_key="officer 2")
            assert one_model["receipt"]["elsewhere"] == ["model theirs"]
            with pytest.raises(ServiceProblem) as caught:  # the name belongs to the other erasure
                client.erase_everywhere(["order-2"], idempotency_key="officer 2")
            assert caught.value.status == 409
            with redis.Redis.from_url(process.settings["redis_url"]) as lost:
                lost.flushall()
            with pytest.raises(ServiceProblem) as caught:
                client.erase("mine", ["order-3"])
            assert (caught.value.status, caught.value.type) == (503, "urn:livesvm:problem:store-behind")


def batch(first: int, tags: list[list[str]]) -> Batch:
    X, y = data(10)
    part = slice(first, first + len(tags))
    return Batch(np.array(X[part]), np.array(y[part], float), [*range(first, first + len(tags))], tags=tags)


def test_tags_stay_with_examples_through_snapshots_replays_and_restores() -> None:
    spec = ModelSpec(id="m", C=2.0)
    commands = [
        Command(batch(0, [[], ["red"], ["red", "blue"]]), [], arrived=1.0, next_key=3),
        Command(batch(3, [["blue"], []]), [1], arrived=2.0, next_key=5),
        Command(None, [2], arrived=3.0, next_key=5),
    ]
    one, other = ModelState.empty(spec, 8), ModelState.empty(spec, 8)
    for command in commands:
        one.apply(Command.decode(command.encode()))
        if one.version == 1:
            first = one.encode()
            assert one.window.tags == {1: ("red",), 2: ("red", "blue")}
    assert one.window.tags == {3: ("blue",)}
    other.apply_together(commands, together(commands))
    assert other.window.tags == one.window.tags == ModelState.decode(spec, 8, one.encode()).window.tags
    Restoration(1, first, None, 4.0).apply(one)
    assert one.window.tags == {1: ("red",), 2: ("red", "blue")}
    assert one.forget([2]) is not None
    assert one.window.tags == {1: ("red",)}
    old = Command(Batch(np.ones((1, 2)), np.ones(1), [0]), [], arrived=1.0, next_key=1)
    assert b"tags" not in old.encode()  # and so a digest from before there were any is the same
    assert "tags" not in ModelState.empty(spec, 8).document()


@pytest.mark.parametrize(
    ("tags", "row"), [([["a"], 7], 1), ("red", None), ([["a"] * 2, [""]], 1), ([None, ["x" * 129]], 1), ([None], None)]
)
def test_tags_that_are_none(tags: Any, row: int | None, http: httpx.Client) -> None:
    http.post("/models", json={"id": "erase-tags", "C": 1.0}).raise_for_status()
    add = {"X": [[0.0], [1.0]], "y": [1, -1], "tags": tags}
    answer = http.post("/models/erase-tags/update", json={"add": add})
    assert (answer.status_code, answer.json()["field"].rpartition(".")[2], answer.json().get("row")) == (
        422,
        "tags",
        row,
    )
    http.delete("/models/erase-tags").raise_for_status()
