"""Known things are done, and every metric's change is compared with what was done."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from livesvm.service.hosting.model import HostedModel
from livesvm.service.models.commands import Removal, Update
from livesvm.service.models.state import ModelState
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.store.base import StoreUnavailable
from livesvm.solvers.errors import NotOptimal, UnknownKey
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.support.live_models import FailingStore, alive, batch

Series = dict[str, float]

BESIDES = ("ping", "watch", "solution")
"""Operations of the store that come when they come."""
WATCHES = (
    "livesvm_http_requests_in_progress",
    "livesvm_ready",
    "livesvm_store_up",
    "livesvm_info",
    "livesvm_durability_info",
    "livesvm_solves",
)
"""Gauges that nothing done here changes."""


def series(text: str) -> Series:
    """Return every sample of ours by its name and labels, but for buckets."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith("livesvm_") and not sample.name.endswith("_bucket"):
                labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
                found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def changes(before: Series, after: Series) -> Series:
    """Return what has changed, without what depends on time and on sizes."""
    found = {name: value - before.get(name, 0.0) for name, value in after.items()}
    found |= {name: -value for name, value in before.items() if name not in after}
    beside = tuple(f"livesvm_store_seconds_count{{operation={name}}}" for name in BESIDES)
    sized = ("_seconds_sum{", "livesvm_model_", "livesvm_memory_held_bytes{kind=models}")
    return {
        n: value for n, value in found.items() if value and n not in beside and not any(part in n for part in sized)
    }


class Books:
    """A client of the service that notes what every call should change."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.due: Counter[str] = Counter()

    def note(self, name: str, by: float = 1, **labels: str) -> None:
        """Something changes by so much."""
        told = ",".join(f"{label}={value}" for label, value in sorted(labels.items()))
        self.due[f"livesvm_{name}{{{told}}}"] += by  # type: ignore[assignment]

    def call(self, method: str, path: str, route: str, status: int, **request: Any) -> httpx.Response:
        """Return one request, answered as expected."""
        answer = self.http.request(method, path, **request)
        assert answer.status_code == status, answer.text
        self.note("http_requests_total", method=method, route=route, status=str(status))
        self.note("http_request_seconds_count", route=route)
        return answer

    def store(self, *operations: str) -> None:
        """Calls of the store."""
        for operation in operations:
            self.note("store_seconds_count", operation=operation)

    def applied(self, task: str, answer: httpx.Response) -> None:
        """An update, or going back, that is the next version."""
        self.note("updates_total", task=task, outcome="applied")
        for name in ("update_seconds_count", "solve_seconds_count", "update_events_count"):
            self.note(name, task=task)
        self.note("update_events_sum", answer.json().get("events", 0), task=task)
        self.store("append")


def rows(task: str, n: int, seed: int = 0) -> dict[str, Any]:
    """Return examples to add."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).tolist()
    return {"X": X} if task == "oneclass" else {"X": X, "y": rng.choice([-1, 1], n).tolist()}


UPDATE, PREDICT = "/models/{id}/update", "/models/{id}/predict"


def learn(books: Books, task: str, model: str) -> None:
    """Updates that are new, repeated, in conflict, and refused before and after they were logged."""
    for seed in range(3):
        books.applied(
            task, books.call("POST", f"/models/{model}/update", UPDATE, 200, json={"add": rows(task, 9, seed)})
        )
    key = {"headers": {"idempotency-key": "once"}}
    add = {"add": rows(task, 2, 7)}
    books.applied(task, books.call("POST", f"/models/{model}/update", UPDATE, 200, json=add, **key))
    books.store("recall", "answer")
    books.call("POST", f"/models/{model}/update", UPDATE, 200, json=add, **key)
    books.note("updates_total", task=task, outcome="replayed")
    books.note("update_seconds_count", task=task)
    books.store("recall")
    books.call("POST", f"/models/{model}/update", UPDATE, 409, json={"remove": {"oldest": 1}}, **key)
    books.note("updates_total", task=task, outcome="refused")
    books.store("recall")
    for _ in range(2):
        books.call("POST", f"/models/{model}/update", UPDATE, 422, json={"remove": {"keys": ["nobody"]}})
        books.note("updates_total", task=task, outcome="refused")
    books.call("POST", f"/models/{model}/update", UPDATE, 422, json={"add": {}})  # no update: it cannot be read


def read(books: Books, task: str, model: str) -> None:
    """Predictions, descriptions, certificates."""
    for n in (1, 5):
        books.call("POST", f"/models/{model}/predict", PREDICT, 200, json={"X": rows(task, n)["X"]})
        books.note("predictions_total", n, task=task)
        books.note("predict_seconds_count", task=task)
    books.call("POST", f"/models/{model}/predict", PREDICT, 422, json={"X": [[1.0]]})
    books.call("GET", f"/models/{model}", "/models/{id}", 200)
    books.call("GET", f"/models/{model}/certificate", "/models/{id}/certificate", 200)
    books.call("GET", "/models", "/models", 200)


def go_back(books: Books, task: str, model: str) -> None:
    """A snapshot, and the version before it again."""
    books.call("POST", f"/models/{model}/checkpoint", "/models/{id}/checkpoint", 200)
    books.note("snapshots_total", outcome="written")
    books.store("snapshot")
    books.call("GET", f"/models/{model}/versions", "/models/{id}/versions", 200)
    books.store("load")
    books.applied(
        task, books.call("POST", f"/models/{model}/restore", "/models/{id}/restore", 200, json={"version": 2})
    )
    books.store("load")
    books.call("POST", f"/models/{model}/restore", "/models/{id}/restore", 422, json={"version": 99})
    books.note("updates_total", task=task, outcome="refused")
    books.store("load")


def work(books: Books, task: str, model: str) -> None:
    """A job that is done, and one that fails before it is one."""
    route = "/models/{id}/assessment"
    job = books.call("POST", f"/models/{model}/assessment", route, 202, json={"method": "leave-one-out"}).json()["id"]
    while books.call("GET", f"/jobs/{job}", "/jobs/{job}", 200).json()["state"] != "done":
        time.sleep(0.02)
    books.note("jobs", state="done")
    books.note("job_seconds_count", kind="assessment")
    books.call("POST", f"/models/{model}/assessment", route, 422, json={"method": "k-fold", "folds": 10**6})


def go_astray(books: Books, task: str, model: str) -> None:
    """Paths, methods and bodies that are not there for anyone; a stream, whose time says nothing."""
    books.call("GET", "/nothing", "unmatched", 404)
    books.call("PUT", "/models", "/models", 405)
    books.call("PROPFIND", "/nowhere", "unmatched", 404)
    books.due["livesvm_http_requests_total{method=PROPFIND,route=unmatched,status=404}"] -= 1
    books.note("http_requests_total", method="other", route="unmatched", status="404")
    books.call("POST", f"/models/{model}/predict", PREDICT, 415, content=b"x", headers={"content-type": "text/plain"})
    with books.http.stream("GET", f"/models/{model}/events") as events:
        next(events.iter_raw())
    books.note("http_requests_total", method="GET", route="/models/{id}/events", status="200")


@pytest.mark.alone(reason="counts all that one process does; over Ray the actors tell of their part, by node")
@pytest.mark.parametrize("task", ["svc", "svr", "oneclass"])
def test_metrics_say_what_was_done(task: str, service: ServiceProcess, http: httpx.Client, make: Make) -> None:
    books, before = Books(http), series(http.get("/metrics").text)
    began = time.perf_counter()
    model = make(task=task)
    books.note("http_requests_total", method="POST", route="/models", status="201")
    books.note("http_request_seconds_count", route="/models")
    books.note("models", state="live")
    books.note("replicas", state="awake")
    books.store("create", "load", "load")  # the model, and what an erasure has left of one of its name
    for part in (learn, read, go_back, work, go_astray):
        part(books, task, model)
    books.note("http_requests_total", method="GET", route="/metrics", status="200")  # the one from before
    books.note("http_request_seconds_count", route="/metrics")
    books.due += Counter()  # without what is zero
    end = time.monotonic() + 10
    while changes(before, after := series(http.get("/metrics").text)) != books.due and time.monotonic() < end:
        books.note("http_requests_total", method="GET", route="/metrics", status="200")  # the stream may not have ended
        books.note("http_request_seconds_count", route="/metrics")
        time.sleep(0.05)
    assert changes(before, after) == dict(books.due)
    seconds = time.perf_counter() - began
    taken = {name: after[name] - before.get(name, 0.0) for name in after if "_seconds_sum{" in name}
    assert all(0 <= value <= 2 * seconds for value in taken.values())
    labels = f"{{task={task}}}"
    assert 0 < taken[f"livesvm_solve_seconds_sum{labels}"] <= taken[f"livesvm_update_seconds_sum{labels}"]
    assert all(after[name] == before[name] for name in after if name.startswith(WATCHES))


def test_the_series_of_a_model_are_what_its_description_says(http: httpx.Client, make: Make) -> None:
    model = make(C=0.5)
    answer = http.post(f"/models/{model}/update", json={"add": rows("svc", 30)}).raise_for_status().json()
    told, shown = http.get(f"/models/{model}").json(), series(http.get("/metrics").text)
    assert {name: told[name] for name in answer if name in told} == {n: answer[n] for n in answer if n in told}
    mine = {name: value for name, value in shown.items() if name.endswith(f"{{model={model}}}")}
    names = {
        "version": "version",
        "examples": "n_examples",
        "free_examples": "n_free",
        "bound_examples": "n_bound",
        "max_violation": "max_violation",
        "relative_gap": "relative_gap",
        "queue_depth": "queue_depth",
    }
    expected = {f"livesvm_model_{name}{{model={model}}}": told[field] for name, field in names.items()}
    at = f"livesvm_model_last_update_timestamp_seconds{{model={model}}}"
    assert abs(mine.pop(at) - time.time()) < 60
    assert mine == expected
    assert len({told["n_examples"], told["n_free"], told["n_bound"]}) == 3
    assert told["n_bound"] + told["n_free"] <= told["n_examples"] == 30
    http.delete(f"/models/{model}")
    assert not any(model in name for name in series(http.get("/metrics").text))


# What goes wrong with the store, with a model in this process.


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FailingStore]:
    with closing(FailingStore(tmp_path / "store")) as opened:
        yield opened


def after(metrics: Metrics, call: Callable[[], Any], error: type[Exception] | None = None) -> Series:
    """Return what a call changes."""
    before = series(metrics.render().decode())
    if error is None:
        call()
    else:
        with pytest.raises(error):
            call()
    return changes(before, series(metrics.render().decode()))


def unsolved(state: ModelState, command: object) -> None:
    raise NotOptimal("no optimum was reached")


def test_what_fails_is_counted_as_that(store: FailingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    live: HostedModel = alive(store, store.create("m", b""))
    metrics = live.context.source.metrics
    live.update(batch(0), None).result()
    failed = {"livesvm_updates_total{outcome=failed,task=svc}": 1.0}
    down = {"livesvm_store_up{}": -1.0}

    def errors(operation: str, times: float = 1.0) -> Series:
        names = (f"livesvm_store_{name}{{operation={operation}}}" for name in ("errors_total", "seconds_count"))
        return dict.fromkeys(names, times)

    store.failing = "append"
    assert after(metrics, lambda: live.update(batch(1), None).result(), StoreUnavailable) == {
        **failed,
        **down,
        **errors("append"),
    }
    store.failing = ""
    live.update(batch(3), None).result()  # which says that it is there again
    store.failing = "save_snapshot"
    assert after(metrics, lambda: live.checkpoint().result(), StoreUnavailable) == {
        "livesvm_snapshots_total{outcome=failed}": 1.0,
        **down,
        **errors("snapshot"),
    }
    store.failing = ""
    live.update(batch(4), None).result()
    with monkeypatch.context() as patched:
        patched.setattr(ModelState, "apply", lambda state, command: 1 // 0)
        seen = after(metrics, lambda: live.update(batch(1), None).result(), ZeroDivisionError)
    assert {name: value for name, value in seen.items() if "updates" in name} == failed
    with monkeypatch.context() as patched:
        patched.setattr(ModelState, "apply", unsolved)
        seen = after(metrics, lambda: live.update(batch(2), None).result(), NotOptimal)
    assert seen == {
        "livesvm_updates_total{outcome=refused,task=svc}": 1.0,
        "livesvm_store_seconds_count{operation=append}": 1.0,
        "livesvm_store_seconds_count{operation=abort}": 1.0,
    }
    gone = after(metrics, lambda: live.update(Update(None, Removal(keys=["z"])), None).result(), UnknownKey)
    assert gone == {"livesvm_updates_total{outcome=refused,task=svc}": 1.0}
    live.stop()
