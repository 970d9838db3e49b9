"""The Prometheus metrics of a service, with labels that have a limited number of values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from itertools import product
from operator import add
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

from livesvm.service.models.self_tuning import REASONS
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
from livesvm.service.store.base import StoreError

disable_created_metrics()  # type: ignore[no-untyped-call]

_SECONDS = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_JOB_SECONDS = (0.01, 0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 36_000.0)
_OUTCOMES = ("applied", "replayed", "refused", "timed-out", "withdrawn", "failed")
_FEED_EVENTS = (
    "live",
    "suspected",
    "shifted",
    "rescaled",
    "drift",
    "chosen",
    "updated",
    "dead-letters",
    "paused",
    "resumed",
)
_EVENTS = (0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)

ERASURES = ("done", "refused", "unfinished")
"""Outcomes of an erasure: completed with a receipt, refused without a change, or begun and still to complete."""

WATCHED = tuple(name for name, task in TASKS.items() if task.is_exact and (task.has_labels or task.has_values))
"""Tasks with models that can be tested for drift."""

TUNING = tuple(name for name, task in TASKS.items() if task.tuned_by)
"""Tasks with models that can tune themselves."""

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
        "Error of the newer examples before they were learnt",
        lambda m: m.record and m.record.lately.error,
    ),
    (
        "naive_error_before_learning",
        "Error of the majority, median or quantile of the window on the same examples",
        lambda m: m.record and m.record.lately.naive_error,
    ),
    ("predicted_before_learning", "Examples in the record of a model", lambda m: m.record and m.record.n),
    ("drift_evidence", "Evidence of the test for drift; 1 gives an alarm", lambda m: (m.drift or {}).get("evidence")),
    ("drift_alarm", "1 while an alarm of drift stands", _alarm),
    ("last_update_timestamp_seconds", "Unix time of the newest version", lambda m: m.updated_at),
)
"""Metrics of one model, from its description in ``hosting.handle``."""
_OVER_MODELS: tuple[Total[Any], ...] = (
    ("worst_violation", "Largest optimality violation of any model", lambda m: m.sizes.max_violation, max),
    ("largest_gap", "Largest duality gap over the objective of any model", lambda m: m.sizes.relative_gap, max),
    ("longest_queue", "Commands that wait for a writer, the most of one model", lambda m: m.queue_depth, max),
    ("most_free_examples", "Examples on the margin, the most of one model", lambda m: m.sizes.n_free, max),
    ("drifting", "Models with an alarm of drift that stands", _alarm, add),
)


def _series_of_models(shown: Sequence[Any]) -> Iterator[Metric]:
    return gauges("model", ["model"], _PER_MODEL, [([sample.id], sample) for sample in shown])


SHOWN: dict[str, tuple[str, tuple[str, ...]]] = {
    "replicas": ("Models and feeds by whether they are in memory", ("state",)),
    "jobs": ("Jobs that are known", ("state",)),
    "solves": ("Solves that run, or wait for their turn", ("state",)),
    "webhook_messages": ("Messages that are not delivered", ("state",)),
    "webhook_oldest_seconds": ("For how long the oldest message to a webhook has waited; 0 when none waits", ()),
    "api_key_last_used_timestamp_seconds": (
        "Unix time of the last call with an API key; 0: none since the start",
        ("key", "scope"),
    ),
    "memory_budget_bytes": ("Memory that the process may take", ()),
    "memory_held_bytes": ("Memory that is accounted for", ("kind",)),
    "disk_bytes": ("Size of the disk of LIVESVM_DATA_DIR", ()),
    "disk_free_bytes": ("Bytes that are free on that disk", ()),
    "disk_reserve_bytes": ("Bytes of that disk that are kept for updates (LIVESVM_DISK_ROOM_MB)", ()),
    "redis_used_bytes": ("Memory that Redis uses (used_memory)", ()),
    "redis_limit_bytes": ("Memory that Redis may use (maxmemory); absent without a limit", ()),
    "ray_head_up": ("1 when the head of the Ray cluster answers", ()),
    "ray_nodes": ("Nodes of the Ray cluster that are alive, when its head answered last", ()),
    "ray_actors": ("Actors of the Ray cluster that have models", ("state",)),
}
"""Help texts and labels of the metrics that :meth:`Metrics.show` may show."""
Number = Callable[[], float | Mapping[Any, float] | None]
"""Called at each scrape: returns a number, or numbers by label. If it returns None or fails, nothing is shown."""


class _Shown(Collector):
    """Collector of one metric, which is a single number, or a number for each value of its labels."""

    def __init__(self, name: str, number: Number) -> None:
        self._name, self._number = name, number

    def collect(self) -> Iterator[Metric]:
        """Yield the metric with its present values."""
        found = None
        with suppress(OSError):  # of a disk that is away
            found = self._number()
        if found is None:
            return
        help_, labels = SHOWN[self._name]
        family = GaugeMetricFamily(f"livesvm_{self._name}", help_, labels=labels)
        for values, number in (found if isinstance(found, Mapping) else {(): found}).items():
            family.add_metric([values] if isinstance(values, str) else values, number)
        yield family


class Metrics:
    """All metrics of one service, in a separate Prometheus registry."""

    def __init__(self) -> None:
        self.registry = r = CollectorRegistry()
        self._others: Callable[[], Iterable[Metric]] | None = None
        ProcessCollector(registry=r)
        GCCollector(registry=r)

        def counter(name: str, help_: str, **labels: Iterable[str]) -> Counter:
            """Create a counter that has a time series for each combination of the given label values."""
            made = Counter(f"livesvm_{name}", help_, list(labels), registry=r)
            for values in product(*labels.values()) if labels else ():
                made.labels(*values)
            return made

        def gauge(name: str, help_: str, *labels: str) -> Gauge:
            return Gauge(f"livesvm_{name}", help_, labels, registry=r)

        def histogram(name: str, help_: str, *labels: str, buckets: Sequence[float] = _SECONDS) -> Histogram:
            return Histogram(f"livesvm_{name}", help_, labels, buckets=buckets, registry=r)

        of_update = "Time of an update in its writer, from its plan to its published version, store included"
        self.update_seconds = histogram("update_seconds", of_update, "task")
        self.solve_seconds = histogram("solve_seconds", "Time of the path of one update", "task")
        self.update_events = histogram("update_events", "Events on the path of one update", "task", buckets=_EVENTS)
        of_abandoned = "Paths given up, as they failed or were more work than solving the window from nothing"
        self.abandoned = counter("paths_abandoned", of_abandoned, task=TASKS)
        self.drift_alarms = counter("drift_alarms", "Alarms of drift of models", task=WATCHED)
        of_tunings = "Choices of parameters by models that tune themselves, by their reason"
        self.tunings = counter("tunings", of_tunings, task=TUNING, reason=REASONS)
        of_tuning = "Processor time of such a choice"
        self.tuning_seconds = histogram("tuning_seconds", of_tuning, "task", buckets=_JOB_SECONDS)
        self.updates = counter("updates", "Updates by outcome", task=TASKS, outcome=_OUTCOMES)
        self.feed_calls = counter("feed_calls", "Calls of readings by outcome", outcome=_OUTCOMES)
        self.feed_calls_of = {became: self.feed_calls.labels(became) for became in _OUTCOMES}
        self.feed_events = counter("feed_events", "What feeds announced", kind=_FEED_EVENTS)
        of_readings = "Time of one call of readings in its writer, for all steps, store included"
        self.feed_seconds = histogram("feed_call_seconds", of_readings)
        of_job = "Time of one job from its start to its end"
        self.job_seconds = histogram("job_seconds", of_job, "kind", buckets=_JOB_SECONDS)
        self.jobs_ended = counter("jobs_ended", "Jobs that have ended, by state", state=("done", "failed", "cancelled"))
        self.erasures = counter("erasures", "Erasures by outcome", outcome=ERASURES)
        of_erasure = "Time of an erasure that was ended, waiting for those before it included"
        self.erasure_seconds = histogram("erasure_seconds", of_erasure, buckets=_JOB_SECONDS)
        of_unfinished = "Erasures that were begun and could not be ended yet"
        self.erasures_unfinished = gauge("erasures_unfinished", of_unfinished)
        self.predictions = counter("predictions", "Rows predicted", task=())
        self.predict_seconds = histogram("predict_seconds", "Time of one predict call in its thread", "task")
        self.store_seconds = histogram("store_seconds", "Time of one call of the store", "operation")
        self.store_errors = counter("store_errors", "Calls of the store that failed", operation=())
        of_kinds = ("model", "feed")
        self.wakes = counter("wakes", "Replicas that a call, or a start, has woken", kind=of_kinds)
        self.rests = counter("rests", "Replicas that went to rest", kind=of_kinds)
        of_messages = "Messages delivered to webhooks, attempts that failed, messages given up and dead letters dropped"
        of_outcomes = ("delivered", "failed", "dead", "dropped")
        self.webhook_deliveries = counter("webhook_deliveries", of_messages, outcome=of_outcomes)
        self.actors_lost = counter("actors_lost", "Actors of Ray that were lost, or silent")
        self.snapshots = counter("snapshots", "Snapshots by outcome", outcome=("written", "failed", "damaged"))
        self.http_requests = counter("http_requests", "HTTP requests answered", method=(), route=(), status=())
        self.http_seconds = histogram("http_request_seconds", "Time of one HTTP request", "route")
        self.http_in_progress = gauge("http_requests_in_progress", "HTTP requests under way")
        self.connections = gauge("connections", "HTTP connections that are open")
        of_cuts = "HTTP connections that the service ended, by reason"
        self.connections_cut = counter("connections_cut", of_cuts, reason=CUTS)
        self.durability = gauge("durability_info", "1 for the durability level that the store gives", "level")
        self.ready = gauge("ready", "1 when the service is ready: it serves and accepts updates")
        self.serving = gauge("serving", "1 when predictions are answered and calls belong here")
        self.standby = gauge("standby", "1 when another service takes the calls")
        self.store_up = gauge("store_up", "1 when the store answered last time")
        gauge("info", "The version of the service", "version").labels(version("livesvm")).set(1)

    def watch(self, models: Replicas[Any], limit: int) -> None:
        """Register the metrics of models: numbers by state, totals, and time series for at most ``limit`` models."""
        self.registry.register(ReplicaSeries("model", models, limit, _series_of_models, _OVER_MODELS))

    def watch_fleets(self, samples: Callable[[], Iterable[FleetSample]]) -> None:
        """Register the metrics of fleets that ``samples`` returns."""
        self.registry.register(FleetSeries(samples))

    def watch_feeds(self, feeds: Replicas[FeedSample], limit: int) -> None:
        """Register the metrics of feeds, as :meth:`watch` does for models."""
        self.registry.register(ReplicaSeries("feed", feeds, limit, series_of_feeds, TOTALS_OF_FEEDS))

    def show(self, **numbers: Number) -> None:
        """Register metrics of :data:`SHOWN`, each with the function that returns its value."""
        for name, number in numbers.items():
            self.registry.register(_Shown(name, number))

    def watch_others(self, families: Callable[[], Iterable[Metric]]) -> None:
        """Also report the metrics of other processes; labels name the process of each metric."""
        self._others = families

    @contextmanager
    def erasure(self) -> Iterator[None]:
        """Measure the duration of an erasure in the ``with`` block, and count its outcome."""
        start = perf_counter()
        try:
            yield
        except Exception as error:
            self.erasures.labels("unfinished" if isinstance(error, StoreError) else "refused").inc()
            raise
        self.erasures.labels("done").inc()
        self.erasure_seconds.observe(perf_counter() - start)

    def render(self) -> bytes:
        """Return all metrics as the text that Prometheus scrapes."""
        return generate_latest(self if self._others is not None else self.registry)

    def collect(self) -> Iterator[Metric]:
        """Yield each metric family once, with the time series of all processes."""
        found: dict[str, Metric] = {}
        for family in [*self.registry.collect(), *(self._others() if self._others is not None else ())]:
            if (known := found.get(family.name)) is None:
                found[family.name] = known = Metric(family.name, family.documentation, family.type)
            known.samples += family.samples
        yield from found.values()
