"""Prometheus metrics of feeds and fleets: time series for a limited number of feeds, and totals over all feeds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Generic, Protocol, TypeVar, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from livesvm.service.models.types import ServingState

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Shown = tuple[str, str, Callable[[T], float | None]]
"""A metric of one object: its name, its help text, and a function that returns its value, or None."""
Total = tuple[str, str, Callable[[T], float | None], Callable[[float, float], float]]
"""A metric over all objects of a kind: name, help text, the value of one object, and what combines two values."""
REST_SECONDS = 0.1
"""Time of one scrape for the replicas at rest; if there are too many, the next scrapes continue."""
SILENT_TIMES = 5
"""A feed is silent if it has had no reading for this many times the usual interval of its readings."""
BAND_OFF = 0.1
"""A band is off if its coverage is less than the wanted one by more than this."""
MOST_STEPS = 8
"""Steps of a feed that have series of their own."""


@dataclass(frozen=True)
class StepSample:
    """Scores of one forecast step over the newest window: errors of the feed and of naive forecasts, and coverage."""

    step: int
    error: float
    naive_error: float
    coverage: float | None = None
    drift_evidence: float | None = None  #: of the test for drift; 1 gives an alarm
    model_weight: float | None = None  #: of the live model in the blend that is forecast


@dataclass(frozen=True)
class SourceSample:
    """Metrics of the source of a feed or fleet: whether it is read, and how many entries wait or were refused.

    ``came_at`` is the Unix time at which the newest entries arrived, None if no entry has arrived since this process
    began to read the source. ``forgotten`` is how often the source had lost the position of its reader.
    """

    is_up: bool
    backlog: int | None
    refused: int
    came_at: float | None = None
    forgotten: int = 0


@dataclass(frozen=True)
class FeedSample:
    """Metrics of one feed; ``every`` is in seconds; ``coverage`` is the share of readings that bands should contain."""

    id: str
    position: int = 0
    queue_depth: int = 0
    updated_at: float | None = None
    every: float | None = None
    coverage: float | None = None
    steps: tuple[StepSample, ...] = ()
    source: SourceSample | None = None

    @property
    def is_unread(self) -> bool:
        """Whether the last attempt to read the feed's source failed."""
        return self.source is not None and not self.source.is_up

    @property
    def backlog(self) -> int | None:
        """The number of entries that wait in the feed's source; None without a source, or if the number is unknown."""
        return None if self.source is None else self.source.backlog

    @property
    def is_silent(self) -> bool:
        """Whether the feed has had no reading for ``SILENT_TIMES`` times the usual interval of its readings."""
        is_known = self.updated_at is not None and self.every is not None and self.every > 0
        return is_known and time.time() - (self.updated_at or 0.0) > SILENT_TIMES * (self.every or 0.0)

    @property
    def is_behind_naive(self) -> bool:
        """Whether the feed's error at any step is larger than the error of the better naive forecast."""
        return any(step.error > step.naive_error for step in self.steps)

    @property
    def is_band_off(self) -> bool:
        """Whether the band of any step contains a much smaller share of the readings than the settings ask for."""
        wanted = 0.0 if self.coverage is None else self.coverage - BAND_OFF
        return any(step.coverage is not None and step.coverage < wanted for step in self.steps)


@dataclass(frozen=True)
class FleetSample:
    """Metrics of one fleet: the number of its series by state, and their errors relative to naive forecasts."""

    id: str
    states: Mapping[str, int]
    position: int
    mean: float | None
    median: float | None
    ahead_of_naive: float | None
    coverage: float | None
    source: SourceSample | None = None


_PER_SOURCE: tuple[Shown[SourceSample], ...] = (
    ("up", "1 when its source was read last time", lambda s: s.is_up),
    ("backlog", "Entries that wait in its source, of a broker those in flight", lambda s: s.backlog),
    ("newest_timestamp_seconds", "Unix time at which the newest entries came from its source", lambda s: s.came_at),
)
_PER_FLEET: tuple[Shown[FleetSample], ...] = (
    ("position", "Readings that all its series have accepted", lambda f: f.position),
    ("error_ratio_mean", "Error over the better naive one's, the mean over series", lambda f: f.mean),
    ("error_ratio_median", "The same, the median over series", lambda f: f.median),
    ("ahead_of_naive", "Share of series with less error than the better naive forecast", lambda f: f.ahead_of_naive),
    ("coverage", "Share of the newest readings that the band held, the mean over series", lambda f: f.coverage),
)
_PER_FEED: tuple[Shown[FeedSample], ...] = (
    ("position", "Readings that were accepted", lambda f: f.position),
    ("queue_depth", "Calls waiting for the writer", lambda f: f.queue_depth),
    ("last_reading_timestamp_seconds", "Unix time at which the newest readings came", lambda f: f.updated_at),
    ("every_seconds", "How far apart its readings are", lambda f: f.every),
    ("wanted_coverage", "Share of readings that the band is to hold", lambda f: f.coverage),
)
_PER_STEP: tuple[Shown[StepSample], ...] = (
    ("error", "Mean absolute error over the newest window, of directions the share of wrong ones", lambda s: s.error),
    ("naive_error", "The same of the better naive forecast", lambda s: s.naive_error),
    ("coverage", "Share of the newest readings that the band held", lambda s: s.coverage),
    ("drift_evidence", "Evidence of the test for drift; 1 gives an alarm", lambda s: s.drift_evidence),
    ("model_weight", "Weight of the live model in the blend that is forecast", lambda s: s.model_weight),
)

TOTALS_OF_FEEDS: tuple[Total[FeedSample], ...] = (
    ("silent", "Feeds without a reading for five times as long as they are apart", lambda f: f.is_silent, add),
    ("behind_naive", "Feeds that forecast a step worse than naive forecasts do", lambda f: f.is_behind_naive, add),
    ("band_off", "Feeds with a band that holds less of a step than was asked for", lambda f: f.is_band_off, add),
    ("longest_queue", "Calls that wait for a writer, the most of one feed", lambda f: f.queue_depth, max),
    ("sources_down", "Feeds with a source that was not read last time", lambda f: f.is_unread, add),
    ("most_backlog", "Entries that wait in a source, the most of one feed", lambda f: f.backlog, max),
)


def gauges(
    word: str, labels: Sequence[str], table: Sequence[Shown[T]], shown: Sequence[tuple[list[str], T]]
) -> Iterator[Metric]:
    """Yield a metric family for each row of a table, named by ``word`` and the row; leave out values of None."""
    for name, help_, value_of in table:
        family = GaugeMetricFamily(f"livesvm_{word}_{name}", help_, labels=labels)
        for values, one in shown:
            if (value := value_of(one)) is not None:
                family.add_metric(values, value)
        yield family


def _of_sources(word: str, shown: Sequence[FeedSample] | Sequence[FleetSample]) -> Iterator[Metric]:
    """Yield the metric families about the sources of feeds or fleets."""
    sources = [([sample.id], sample.source) for sample in shown if sample.source is not None]
    yield from gauges(f"{word}_source", [word], _PER_SOURCE, sources)
    letters = CounterMetricFamily(
        f"livesvm_{word}_dead_letters", "Entries of its source that it refused", labels=[word]
    )
    help_ = "Times that its source did not remember it, so that readings may be missing"
    lost = CounterMetricFamily(f"livesvm_{word}_source_forgotten", help_, labels=[word])
    for id_, source in sources:
        letters.add_metric(id_, source.refused)
        lost.add_metric(id_, source.forgotten)
    yield from (letters, lost)


class Replicas(Protocol[T_co]):
    """All models of the service, or all feeds that are not series of a fleet."""

    def states(self) -> Mapping[ServingState, int]:
        """Return the number of models or feeds in each state."""

    def samples(self, limit: int) -> Iterable[T_co]:
        """Return the metrics of at most ``limit`` models or feeds, the first ones that are served."""

    def samples_awake(self) -> Iterable[T_co]:
        """Return the metrics of the models or feeds that are in memory."""

    def samples_at_rest(self) -> Iterator[T_co]:
        """Yield the metrics of the models or feeds at rest, computed one by one during the iteration."""


class _Totals(Generic[T]):
    """Totals over all models or feeds; for those at rest, the totals use the values of the last complete pass.

    A pass over many models or feeds at rest takes several scrapes.
    """

    def __init__(self, table: Sequence[Total[T]], replicas: Replicas[T]) -> None:
        self._table, self._replicas = table, replicas
        self._rest: Iterator[T] | None = None
        self._found: list[float] = []
        self._last: list[float] | None = None
        self._lock = threading.Lock()

    def values(self) -> list[float]:
        """Return the totals, in the order of the table's rows."""
        with self._lock:
            self._look()
            return self._with(self._found if self._last is None else self._last, self._replicas.samples_awake())

    def _look(self) -> None:
        if self._rest is None:
            self._rest, self._found = self._replicas.samples_at_rest(), [0.0] * len(self._table)
        until = time.perf_counter() + REST_SECONDS
        for sample in self._rest:
            self._found = self._with(self._found, [sample])
            if time.perf_counter() > until:
                return
        self._last, self._rest = self._found, None

    def _with(self, found: Sequence[float], samples: Iterable[T]) -> list[float]:
        numbers = list(found)
        for sample in samples:
            for at, (_, _, value_of, together) in enumerate(self._table):
                if (value := value_of(sample)) is not None:
                    numbers[at] = together(numbers[at], value)
        return numbers


class ReplicaSeries(Collector, Generic[T]):
    """Collector of the metrics of models or feeds; each scrape computes them, so that deleted ones leave no metrics.

    Parameters
    ----------
    word : ``model`` or ``feed``, for names of metrics
    limit : most replicas that have series
    series_of : returns the series of samples
    totals : metrics over all replicas
    """

    def __init__(
        self,
        word: str,
        replicas: Replicas[T],
        limit: int,
        series_of: Callable[[Sequence[T]], Iterable[Metric]],
        totals: Sequence[Total[T]],
    ) -> None:
        self._word, self._replicas, self._limit = word, replicas, limit
        self._series_of, self._table, self._totals = series_of, totals, _Totals(totals, replicas)

    def collect(self) -> Iterator[Metric]:
        """Yield the number of models or feeds in each state, the metrics of the first ones, and the totals over all."""
        counts, shown = self._replicas.states(), list(self._replicas.samples(self._limit))
        states = GaugeMetricFamily(f"livesvm_{self._word}s", f"{self._word.title()}s held", labels=["state"])
        for state in get_args(ServingState):
            states.add_metric([state], counts.get(state, 0))
        yield states
        yield from self._series_of(shown)
        for (name, help_, *_), value in zip(self._table, self._totals.values(), strict=True):
            yield GaugeMetricFamily(f"livesvm_{self._word}s_{name}", help_, value=value)


def series_of_feeds(shown: Sequence[FeedSample]) -> Iterator[Metric]:
    """Yield the metric families about feeds, about their sources, and about each feed's first forecast steps."""
    yield from gauges("feed", ["feed"], _PER_FEED, [([sample.id], sample) for sample in shown])
    yield from _of_sources("feed", shown)
    steps = [([sample.id, str(step.step)], step) for sample in shown for step in sample.steps[:MOST_STEPS]]
    yield from gauges("feed", ["feed", "step"], _PER_STEP, steps)


class FleetSeries(Collector):
    """Collector of the metrics of fleets; the number of metrics does not grow with the number of series in a fleet."""

    def __init__(self, samples: Callable[[], Iterable[FleetSample]]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        """Yield the number of series of each fleet by state, and the metrics of the fleets' forecasts."""
        shown = list(self._samples())
        if not shown:
            return
        states = GaugeMetricFamily("livesvm_fleet_series", "Series of a fleet", labels=["fleet", "state"])
        for sample in shown:
            for state, count in sample.states.items():
                states.add_metric([sample.id, state], count)
        yield states
        yield from gauges("fleet", ["fleet"], _PER_FLEET, [([sample.id], sample) for sample in shown])
        yield from _of_sources("fleet", shown)
