"""Everything that Prometheus sees. Labels are bounded: routes by template, models by a quota."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import product
from operator import add
from pathlib import Path
from shutil import disk_usage
from time import perf_counter
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from livesvm.service.models.tasks import TASKS
from livesvm.service.monitoring.feeds import (
    TOTALS_OF_FEEDS,
    FeedSample,
    FleetSample,
    FleetSeries,
    Replicas,
    ReplicaSeries,
    Shown,
    Total,
    gauges,
    series_of_feeds,
)
from livesvm.service.resources.memory import Budget
from livesvm.service.store.base import LeaseHeld, ModelExists, StoreError
from livesvm.solvers.errors import SolverError

disable_created_metrics()  # type: ignore[no-untyped-call]

_SECONDS = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_JOB_SECONDS = (0.01, 0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 36_000.0)
_OUTCOMES = ("applied", "replayed", "refused", "timed-out", "withdrawn", "failed")
_EVENTS = (0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)

ERASURES = ("done", "refused", "unfinished")
"""How a call of an erasure ends: with its receipt, with nothing changed, or begun and to be ended."""

WATCHED = tuple(name for name, task in TASKS.items() if task.is_exact and (task.has_labels or task.has_values))
"""Tasks with models that can be tested for drift."""

CUTS = (
    "displaced",
    "head-timeout",
    "head-too-large",
    "malformed-request",
    "silent",
    "stalled",
    "too-many-connections",
)
"""Why the service ends a connection."""


def _alarm(model: Any) -> float | None:
    return None if model.drift is None else float(model.drift["alarm"] is not None)


_PER_MODEL: tuple[Shown[Any], ...] = (
    ("version", "Version of the published snapshot", lambda m: m.version),
    ("examples", "Examples in the window", lambda m: m.sizes.n_examples),
    ("free_examples", "Examples on the margin", lambda m: m.sizes.n_free),
    ("bound_examples", "Examples at the bound", lambda m: m.sizes.n_bound),
    ("max_violation", "Largest optimality violation after the newest update", lambda m: m.sizes.max_violation),
    ("relative_gap", "Duality gap over the objective after the newest update", lambda m: m.sizes.relative_gap),
    ("queue_depth", "Commands waiting for the writer", lambda m: m.queue_depth),
    (
        "error_before_learning",
        "Mean error of the newest examples before they were learnt",
        lambda m: (m.drift or {}).get("error"),
    ),
    ("drift_evidence", "Evidence of the test for drift; 1 gives an alarm", lambda m: (m.drift or {}).get("evidence")),
    ("drift_alarm", "1 while an alarm of drift stands", _alarm),
    ("last_update_timestamp_seconds", "Unix time of the newest version", lambda m: m.updated_at),
)
"""Of descriptions of models, as ``hosting.handle`` has them."""
_OVER_MODELS: tuple[Total[Any], ...] = (
    ("worst_violation", "Largest optimality violation of any model", lambda m: m.sizes.max_violation, max),
    ("largest_gap", "Largest duality gap over the objective of any model", lambda m: m.sizes.relative_gap, max),
    ("longest_queue", "Commands that wait for a writer, the most of one model", lambda m: m.queue_depth, max),
    ("most_free_examples", "Examples on the margin, the most of one model", lambda m: m.sizes.n_free, max),
    ("drifting", "Models with an alarm of drift that stands", _alarm, add),
)


def _series_of_models(shown: Sequence[Any]) -> Iterator[Metric]:
    return gauges("model", ["model"], _PER_MODEL, [([sample.id], sample) for sample in shown])


class _Counts(Collector):
    """A number for each state of something, or by other labels."""

    def __init__(
        self,
        name: str,
        help_: str,
        counts: Callable[[], Mapping[str, int] | Mapping[tuple[str, str], float]],
        labels: Sequence[str] = ("state",),
    ) -> None:
        self._name, self._help = name, help_
        self._counts, self._labels = counts, labels

    def collect(self) -> Iterator[Metric]:
        """Collect one number for each."""
        family = GaugeMetricFamily(self._name, self._help, labels=self._labels)
        for named, count in self._counts().items():
            family.add_metric([named] if isinstance(named, str) else named, count)
        yield family


class _Memory(Collector):
    """The memory budget, and what is held of it."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def collect(self) -> Iterator[Metric]:
        """Collect the limit, and one number for each kind of what holds it."""
        yield GaugeMetricFamily(
            "livesvm_memory_budget_bytes", "Memory that the process may take", value=self._budget.limit
        )
        family = GaugeMetricFamily("livesvm_memory_held_bytes", "Memory that is accounted for", labels=["kind"])
        for kind, size in self._budget.held().items():
            family.add_metric([kind], size)
        yield family


class _Disk(Collector):
    """The disk of a directory."""

    def __init__(self, directory: Path, reserve: int) -> None:
        self._directory, self._reserve = directory, reserve

    def collect(self) -> Iterator[Metric]:
        """Collect its size, what is free and what is to stay free; nothing of one that is away."""
        try:
            disk = disk_usage(self._directory)
        except OSError:
            return
        yield GaugeMetricFamily("livesvm_disk_bytes", "Size of the disk of LIVESVM_DATA_DIR", value=disk.total)
        yield GaugeMetricFamily("livesvm_disk_free_bytes", "Bytes that are free on that disk", value=disk.free)
        help_ = "Bytes of that disk that are kept for updates (LIVESVM_DISK_ROOM_MB)"
        yield GaugeMetricFamily("livesvm_disk_reserve_bytes", help_, value=self._reserve)


class _StoreMemory(Collector):
    """The memory of a store that is in memory."""

    def __init__(self, used_and_limit: Callable[[], tuple[int, int] | None]) -> None:
        self._used_and_limit = used_and_limit

    def collect(self) -> Iterator[Metric]:
        """Collect what is used, and the limit if there is one."""
        if (found := self._used_and_limit()) is None:
            return
        used, limit = found
        yield GaugeMetricFamily("livesvm_redis_used_bytes", "Memory that Redis uses (used_memory)", value=used)
        if limit:
            help_ = "Memory that Redis may use (maxmemory); absent without a limit"
            yield GaugeMetricFamily("livesvm_redis_limit_bytes", help_, value=limit)


class Metrics:
    """The metrics of one service, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = r = CollectorRegistry()
        self._others: Callable[[], Iterable[Metric]] | None = None
        ProcessCollector(registry=r)
        GCCollector(registry=r)
        self.update_seconds = Histogram(
            "livesvm_update_seconds",
            "Time of an update in its writer, from its plan to its published version, store included",
            ["task"],
            buckets=_SECONDS,
            registry=r,
        )
        self.solve_seconds = Histogram(
            "livesvm_solve_seconds", "Time of the path of one update", ["task"], buckets=_SECONDS, registry=r
        )
        self.update_events = Histogram(
            "livesvm_update_events", "Events on the path of one update", ["task"], buckets=_EVENTS, registry=r
        )
        self.abandoned = Counter(
            "livesvm_paths_abandoned",
            "Paths given up, as they failed or were more work than solving the window from nothing",
            ["task"],
            registry=r,
        )
        for task in TASKS:
            self.abandoned.labels(task)
        self.drift_alarms = Counter("livesvm_drift_alarms", "Alarms of drift of models", ["task"], registry=r)
        for task in WATCHED:
            self.drift_alarms.labels(task)
        self.updates = Counter("livesvm_updates", "Updates by outcome", ["task", "outcome"], registry=r)
        for task, outcome in product(TASKS, _OUTCOMES):
            self.updates.labels(task, outcome)
        self.feed_calls = Counter("livesvm_feed_calls", "Calls of readings by outcome", ["outcome"], registry=r)
        for outcome in _OUTCOMES:
            self.feed_calls.labels(outcome)
        self.feed_events = Counter("livesvm_feed_events", "What feeds announced", ["kind"], registry=r)
        for kind in ("live", "rescaled", "drift", "chosen", "updated", "dead-letters", "paused", "resumed"):
            self.feed_events.labels(kind)
        self.feed_seconds = Histogram(
            "livesvm_feed_call_seconds",
            "Time of one call of readings in its writer, for all steps, store included",
            buckets=_SECONDS,
            registry=r,
        )
        self.job_seconds = Histogram(
            "livesvm_job_seconds",
            "Time of one job from its start to its end",
            ["kind"],
            buckets=_JOB_SECONDS,
            registry=r,
        )
        self.jobs_ended = Counter("livesvm_jobs_ended", "Jobs that have ended, by state", ["state"], registry=r)
        for state in ("done", "failed", "cancelled"):
            self.jobs_ended.labels(state)
        self.erasures = Counter("livesvm_erasures", "Erasures by outcome", ["outcome"], registry=r)
        for outcome in ERASURES:
            self.erasures.labels(outcome)
        self.erasure_seconds = Histogram(
            "livesvm_erasure_seconds",
            "Time of an erasure that was ended, waiting for those before it included",
            buckets=_JOB_SECONDS,
            registry=r,
        )
        self.erasures_unfinished = Gauge(
            "livesvm_erasures_unfinished",
            "Erasures that were begun and could not be ended yet",
            registry=r,
        )
        self.predictions = Counter("livesvm_predictions", "Rows predicted", ["task"], registry=r)
        self.predict_seconds = Histogram(
            "livesvm_predict_seconds", "Time of one predict call in its thread", ["task"], buckets=_SECONDS, registry=r
        )
        self.store_seconds = Histogram(
            "livesvm_store_seconds", "Time of one call of the store", ["operation"], buckets=_SECONDS, registry=r
        )
        self.store_errors = Counter("livesvm_store_errors", "Calls of the store that failed", ["operation"], registry=r)
        self.wakes = Counter("livesvm_wakes", "Replicas that a call, or a start, has woken", ["kind"], registry=r)
        self.rests = Counter("livesvm_rests", "Replicas that went to rest", ["kind"], registry=r)
        for kind in ("model", "feed"):
            self.wakes.labels(kind)
            self.rests.labels(kind)
        self.webhook_deliveries = Counter(
            "livesvm_webhook_deliveries",
            "Messages delivered to webhooks, attempts that failed, messages given up and dead letters dropped",
            ["outcome"],
            registry=r,
        )
        for outcome in ("delivered", "failed", "dead", "dropped"):
            self.webhook_deliveries.labels(outcome)
        self.actors_lost = Counter("livesvm_actors_lost", "Actors of Ray that were lost, or silent", registry=r)
        self.snapshots = Counter("livesvm_snapshots", "Snapshots by outcome", ["outcome"], registry=r)
        for outcome in ("written", "failed", "damaged"):
            self.snapshots.labels(outcome)
        self.http_requests = Counter(
            "livesvm_http_requests", "HTTP requests answered", ["method", "route", "status"], registry=r
        )
        self.http_seconds = Histogram(
            "livesvm_http_request_seconds", "Time of one HTTP request", ["route"], buckets=_SECONDS, registry=r
        )
        self.http_in_progress = Gauge("livesvm_http_requests_in_progress", "HTTP requests under way", registry=r)
        self.connections = Gauge("livesvm_connections", "HTTP connections that are open", registry=r)
        self.connections_cut = Counter(
            "livesvm_connections_cut", "HTTP connections that the service ended, by reason", ["reason"], registry=r
        )
        for reason in CUTS:
            self.connections_cut.labels(reason)
        self.durability = Gauge(
            "livesvm_durability_info", "1 for the durability level that the store gives", ["level"], registry=r
        )
        self.ready = Gauge("livesvm_ready", "1 when the service is ready: it serves and accepts updates", registry=r)
        self.serving = Gauge("livesvm_serving", "1 when predictions are answered and calls belong here", registry=r)
        self.standby = Gauge("livesvm_standby", "1 when another service takes the calls", registry=r)
        self.store_up = Gauge("livesvm_store_up", "1 when the store answered last time", registry=r)
        Gauge("livesvm_info", "The version of the service", ["version"], registry=r).labels(version("livesvm")).set(1)

    def watch(self, models: Replicas[Any], limit: int) -> None:
        """Show models: how many are in which state, numbers over all, and series of the first ``limit``."""
        self.registry.register(ReplicaSeries("model", models, limit, _series_of_models, _OVER_MODELS))

    def watch_fleets(self, samples: Callable[[], Iterable[FleetSample]]) -> None:
        """Show what ``samples`` returns of each fleet."""
        self.registry.register(FleetSeries(samples))

    def watch_feeds(self, feeds: Replicas[FeedSample], limit: int) -> None:
        """Show feeds in the same way."""
        self.registry.register(ReplicaSeries("feed", feeds, limit, series_of_feeds, TOTALS_OF_FEEDS))

    def watch_replicas(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Show how many replicas are awake, and how many at rest, as ``counts`` returns them."""
        self.registry.register(_Counts("livesvm_replicas", "Models and feeds by whether they are in memory", counts))

    def watch_jobs(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Show how many jobs there are by state, as ``counts`` returns them."""
        self.registry.register(_Counts("livesvm_jobs", "Jobs that are known", counts))

    def watch_webhooks(self, counts: Callable[[], Mapping[str, int]], oldest_seconds: Callable[[], float]) -> None:
        """Show how many messages wait and how many are dead letters, and for how long the oldest has waited."""
        self.registry.register(_Counts("livesvm_webhook_messages", "Messages that are not delivered", counts))
        help_ = "For how long the oldest message to a webhook has waited; 0 when none waits"
        Gauge("livesvm_webhook_oldest_seconds", help_, registry=self.registry).set_function(oldest_seconds)

    def watch_disk(self, directory: Path, reserve: int) -> None:
        """Show the disk of a directory, of which so many bytes are kept for updates."""
        self.registry.register(_Disk(directory, reserve))

    def watch_store_memory(self, used_and_limit: Callable[[], tuple[int, int] | None]) -> None:
        """Show what a store in memory holds, and what it may, 0 for no limit; None where that is not known."""
        self.registry.register(_StoreMemory(used_and_limit))

    def watch_keys(self, used: Callable[[], Mapping[tuple[str, str], float]]) -> None:
        """Show when each API key was used last, as ``used`` returns it by label and scope."""
        self.registry.register(
            _Counts(
                "livesvm_api_key_last_used_timestamp_seconds",
                "Unix time of the last call with an API key; 0: none since the start",
                used,
                ("key", "scope"),
            )
        )

    def watch_solves(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Show how many solves run, and how many wait for their turn, as ``counts`` returns them."""
        self.registry.register(_Counts("livesvm_solves", "Solves that run, or wait for their turn", counts))

    def watch_head(self, is_up: Callable[[], bool]) -> None:
        """Show whether the head of the cluster, in which the models live, answers."""
        gauge = Gauge("livesvm_ray_head_up", "1 when the head of the Ray cluster answers", registry=self.registry)
        gauge.set_function(is_up)

    def watch_nodes(self, nodes: Callable[[], int]) -> None:
        """Show how many nodes the cluster has."""
        help_ = "Nodes of the Ray cluster that are alive, when its head answered last"
        Gauge("livesvm_ray_nodes", help_, registry=self.registry).set_function(nodes)

    def watch_actors(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Show how many actors answer, and how many do not."""
        self.registry.register(_Counts("livesvm_ray_actors", "Actors of the Ray cluster that have models", counts))

    def watch_memory(self, budget: Budget) -> None:
        """Show the memory budget."""
        self.registry.register(_Memory(budget))

    @contextmanager
    def store_call(self, operation: str) -> Iterator[None]:
        """Time one call of the store, and count it if it fails."""
        start = perf_counter()
        try:
            yield
        except (LeaseHeld, ModelExists, SolverError):  # answers, not failures
            raise
        except Exception:
            self.store_errors.labels(operation).inc()
            raise
        finally:
            self.store_seconds.labels(operation).observe(perf_counter() - start)

    def watch_others(self, families: Callable[[], Iterable[Metric]]) -> None:
        """Show the series of other processes too: labels say where they are from."""
        self._others = families

    @contextmanager
    def erasure(self) -> Iterator[None]:
        """Time one erasure, and count how it ends."""
        start = perf_counter()
        try:
            yield
        except Exception as error:
            self.erasures.labels("unfinished" if isinstance(error, StoreError) else "refused").inc()
            raise
        self.erasures.labels("done").inc()
        self.erasure_seconds.observe(perf_counter() - start)

    def render(self) -> bytes:
        """Render the text that Prometheus scrapes."""
        return generate_latest(self if self._others is not None else self.registry)

    def collect(self) -> Iterator[Metric]:
        """Collect every family once, with the series of all processes."""
        found: dict[str, Metric] = {}
        for family in [*self.registry.collect(), *(self._others() if self._others is not None else ())]:
            if (known := found.get(family.name)) is None:
                found[family.name] = known = Metric(family.name, family.documentation, family.type)
            known.samples += family.samples
        yield from found.values()
