"""Known things are done, and every metric's change is compared with what was done."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from livesvm.service.hosting.model import HostedModel
from livesvm.service.models.commands import Removal
from livesvm.service.models.state import ModelState
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.store.base import StoreUnavailable
from livesvm.solvers.errors import NotOptimal, UnknownKey
from livesvm.solvers.models.change import Change
from tests import documents
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
    sized = (
        "_seconds_sum{",
        "livesvm_model_",
        "livesvm_models_",
        "livesvm_disk_",
        "livesvm_memory_held_bytes{kind=models}",
    )
    return {
        n: value for n, value in found.items() if value and n not in beside and not any(part in n for part in sized)
    }


class Bookkeeping:
    """A client of the service that notes what every call should change."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.due: Counter[str] = Counter()

    def note(self, name: str, by: float = 1, **labels: str) -> None:
        """Something changes by so much."""
        reported = ",".join(f"{label}={value}" for label, value in sorted(labels.items()))
        self.due[f"livesvm_{name}{{{reported}}}"] += by  # type: ignore[assignment]

    def call(self, method: str, path: str, route: str, status: int, **request: Any) -> httpx.Response:
        """Return one request, answered as expected."""
        answer = self.http.request(method, path, **request)
        assert answer.status_code == status, answer.text
        self.note("http_requests_total", method=method, route=route, status=str(status))
        self.note("http_request_seconds_count", route=route)
        return answer

    def store(self, *operations: str) -> None:
        """Count the calls of the store."""
        for operation in operations:
            self.note("store_seconds_count", operation=operation)

    def applied(self, task: str, answer: httpx.Response) -> None:
        """Count an update, or a restore, that makes the next version."""
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


def learn(bookkeeping: Bookkeeping, task: str, model: str) -> None:
    """Send updates that are new, repeated, in conflict, and refused before and after they were logged."""
    for seed in range(3):
        bookkeeping.applied(
            task, bookkeeping.call("POST", f"/models/{model}/update", UPDATE, 200, json={"add": rows(task, 9, seed)})
        )
    key = {"headers": {"idempotency-key": "once"}}
    add = {"add": rows(task, 2, 7)}
    bookkeeping.applied(task, bookkeeping.call("POST", f"/models/{model}/update", UPDATE, 200, json=add, **key))
    bookkeeping.store("recall", "answer")
    bookkeeping.call("POST", f"/models/{model}/update", UPDATE, 200, json=add, **key)
    bookkeeping.note("updates_total", task=task, outcome="replayed")
    bookkeeping.note("update_seconds_count", task=task)
    bookkeeping.store("recall")
    bookkeeping.call("POST", f"/models/{model}/update", UPDATE, 409, json={"remove": {"oldest": 1}}, **key)
    bookkeeping.note("updates_total", task=task, outcome="refused")
    bookkeeping.store("recall")
    for _ in range(2):
        bookkeeping.call("POST", f"/models/{model}/update", UPDATE, 422, json={"remove": {"keys": ["nobody"]}})
        bookkeeping.note("updates_total", task=task, outcome="refused")
    bookkeeping.call("POST", f"/models/{model}/update", UPDATE, 422, json={"add": {}})  # no update: it cannot be read


def read(bookkeeping: Bookkeeping, task: str, model: str) -> None:
    """Read predictions, descriptions, certificates."""
    for n in (1, 5):
        bookkeeping.call("POST", f"/models/{model}/predict", PREDICT, 200, json={"X": rows(task, n)["X"]})
        bookkeeping.note("predictions_total", n, task=task)
        bookkeeping.note("predict_seconds_count", task=task)
    bookkeeping.call("POST", f"/models/{model}/predict", PREDICT, 422, json={"X": [[1.0]]})
    bookkeeping.call("GET", f"/models/{model}", "/models/{id}", 200)
    bookkeeping.call("GET", f"/models/{model}/certificate", "/models/{id}/certificate", 200)
    bookkeeping.call("GET", "/models", "/models", 200)


def go_back(bookkeeping: Bookkeeping, task: str, model: str) -> None:
    """Take a snapshot, and restore the version before it."""
    bookkeeping.call("POST", f"/models/{model}/checkpoint", "/models/{id}/checkpoint", 200)
    bookkeeping.note("snapshots_total", outcome="written")
    bookkeeping.store("snapshot")
    bookkeeping.call("GET", f"/models/{model}/versions", "/models/{id}/versions", 200)
    bookkeeping.store("load")
    bookkeeping.applied(
        task, bookkeeping.call("POST", f"/models/{model}/restore", "/models/{id}/restore", 200, json={"version": 2})
    )
    bookkeeping.store("load")
    bookkeeping.call("POST", f"/models/{model}/restore", "/models/{id}/restore", 422, json={"version": 99})
    bookkeeping.note("updates_total", task=task, outcome="refused")
    bookkeeping.store("load")


def work(bookkeeping: Bookkeeping, task: str, model: str) -> None:
    """Run a job to its end, and one that fails."""
    route = "/models/{id}/assessment"
    job = bookkeeping.call("POST", f"/models/{model}/assessment", route, 202, json={"method": "leave-one-out"}).json()[
        "id"
    ]
    while bookkeeping.call("GET", f"/jobs/{job}", "/jobs/{job}", 200).json()["state"] != "done":
        time.sleep(0.02)
    bookkeeping.note("jobs", state="done")
    bookkeeping.note("jobs_ended_total", state="done")
    bookkeeping.note("job_seconds_count", kind="assessment")
    bookkeeping.call("POST", f"/models/{model}/assessment", route, 422, json={"method": "k-fold", "folds": 10**6})


def go_astray(bookkeeping: Bookkeeping, task: str, model: str) -> None:
    """Call paths, methods and bodies that do not exist; open a stream, which has no duration."""
    bookkeeping.call("GET", "/nothing", "unmatched", 404)
    bookkeeping.call("PUT", "/models", "/models", 405)
    bookkeeping.call("PROPFIND", "/nowhere", "unmatched", 404)
    bookkeeping.due["livesvm_http_requests_total{method=PROPFIND,route=unmatched,status=404}"] -= 1
    bookkeeping.note("http_requests_total", method="other", route="unmatched", status="404")
    bookkeeping.call(
        "POST", f"/models/{model}/predict", PREDICT, 415, content=b"x", headers={"content-type": "text/plain"}
    )
    with bookkeeping.http.stream("GET", f"/models/{model}/events") as events:
        next(events.iter_raw())
    bookkeeping.note("http_requests_total", method="GET", route="/models/{id}/events", status="200")


@pytest.mark.alone(reason="counts all that one process does; over Ray the actors tell of their part, by node")
@pytest.mark.parametrize("task", ["svc", "svr", "oneclass"])
def test_metrics_say_what_was_done(task: str, service: ServiceProcess, http: httpx.Client, make: Make) -> None:
    bookkeeping, before = Bookkeeping(http), series(http.get("/metrics").text)
    began = time.perf_counter()
    model = make(task=task)
    bookkeeping.note("http_requests_total", method="POST", route="/models", status="201")
    bookkeeping.note("http_request_seconds_count", route="/models")
    bookkeeping.note("models", state="live")
    bookkeeping.note("replicas", state="awake")
    bookkeeping.store("create", "load", "load")  # the model, and what an erasure has left of one of its name
    for part in (learn, read, go_back, work, go_astray):
        part(bookkeeping, task, model)
    bookkeeping.note("http_requests_total", method="GET", route="/metrics", status="200")  # the one from before
    bookkeeping.note("http_request_seconds_count", route="/metrics")
    bookkeeping.due += Counter()  # without what is zero
    end = time.monotonic() + 10
    while changes(before, after := series(http.get("/metrics").text)) != bookkeeping.due and time.monotonic() < end:
        bookkeeping.note(
            "http_requests_total", method="GET", route="/metrics", status="200"
        )  # the stream may not have ended
        bookkeeping.note("http_request_seconds_count", route="/metrics")
        time.sleep(0.05)
    assert changes(before, after) == dict(bookkeeping.due)
    seconds = time.perf_counter() - began
    taken = {name: after[name] - before.get(name, 0.0) for name in after if "_seconds_sum{" in name}
    assert all(0 <= value <= 2 * seconds for value in taken.values())
    labels = f"{{task={task}}}"
    assert 0 < taken[f"livesvm_solve_seconds_sum{labels}"] <= taken[f"livesvm_update_seconds_sum{labels}"]
    assert all(after[name] == before[name] for name in after if name.startswith(WATCHES))


def test_the_series_of_a_model_are_what_its_description_says(http: httpx.Client, make: Make) -> None:
    model = make(C=0.5)
    answer = http.post(f"/models/{model}/update", json={"add": rows("svc", 30)}).raise_for_status().json()
    reported, shown = http.get(f"/models/{model}").json(), series(http.get("/metrics").text)
    assert {name: reported[name] for name in answer if name in reported} == {
        n: answer[n] for n in answer if n in reported
    }
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
    expected = {f"livesvm_model_{name}{{model={model}}}": reported[field] for name, field in names.items()}
    at = f"livesvm_model_last_update_timestamp_seconds{{model={model}}}"
    assert abs(mine.pop(at) - time.time()) < 60
    assert mine == expected
    assert len({reported["n_examples"], reported["n_free"], reported["n_bound"]}) == 3
    assert reported["n_bound"] + reported["n_free"] <= reported["n_examples"] == 30
    http.delete(f"/models/{model}")
    assert not any(model in name for name in series(http.get("/metrics").text))


def test_a_service_has_every_metric_that_an_alert_asks_for(http: httpx.Client) -> None:
    groups = yaml.safe_load(documents.read("deploy/prometheus/alerts.yml"))["groups"]
    queries = " ".join(rule["expr"] for group in groups for rule in group["rules"])
    asked = {*re.findall(r"\b(?:livesvm|process)_[a-z0-9_]+", queries)}
    elsewhere = tuple(f"livesvm_{part}_" for part in ("ray", "redis", "fleet"))
    text = http.get("/metrics").text
    families = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    named = {name for family in families for name in (family, f"{family}_total", f"{family}_bucket")}
    assert {name for name in asked if not name.startswith(elsewhere)} <= named


# What goes wrong with the store, with a model in this process.


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
    gone = after(metrics, lambda: live.update(Change(None, Removal(keys=["z"])), None).result(), UnknownKey)
    assert gone == {"livesvm_updates_total{outcome=refused,task=svc}": 1.0}
    live.stop()
