"""The parts of one running service, how they come up and how they go down."""

from __future__ import annotations

import asyncio
import gc
import threading

from service.auth import parse_keys
from service.errors import NotReady
from service.health import Health
from service.job_files import JobFiles
from service.jobs import JobLimits, Jobs
from service.journal import Source
from service.live import Surroundings
from service.metrics import Metrics
from service.pools import Pool
from service.registry import Registry
from service.settings import Settings
from service.store.base import StoreError
from service.store.lock import DirectoryLock
from service.store.sqlite import SqliteStore
from service.streams import Streams
from solvers import warm_up

PING_SECONDS = 0.5
"""Between two questions to the store whether it is there."""


class Service:
    """The parts of one running service.

    Opening takes the data directory and is quick; restoring brings the models back and may take a while, during which
    the service is alive and not ready.
    """

    def __init__(self, settings: Settings) -> None:
        """Take the data directory and open the store; raises StoreError."""
        self.settings = settings
        self.keys = parse_keys(settings.api_keys)
        self._lock = DirectoryLock(settings.data_dir)
        try:
            self.store = SqliteStore(settings.data_dir / "livesvm.sqlite3")
        except StoreError:
            self._lock.release()
            raise
        self.metrics = Metrics()
        self.health = Health(self.metrics)
        source = Source(self.store, self.health, self.metrics)
        self.registry = Registry(Surroundings(settings, source, threading.BoundedSemaphore(settings.solves)))
        self.metrics.watch(self.registry.samples, settings.metrics_models)
        limits = JobLimits(settings.jobs, settings.jobs_waiting, settings.jobs_kept)
        self.jobs = Jobs(JobFiles(settings.data_dir / "jobs"), limits, self.metrics)
        self.metrics.watch_jobs(self.jobs.counts)
        self.streams = Streams(settings.streams, settings.heartbeat_seconds, settings.body_seconds)
        self.readers = Pool("predict", settings.predict_threads, settings.max_calls)
        self.workers = Pool("update", 2, settings.max_calls)
        self.control = Pool("control", 2, settings.max_calls)

    def models(self) -> Registry:
        """The models, once they are restored; raises NotReady before."""
        if not self.health.is_restored:
            raise NotReady("the models are being restored")
        return self.registry

    def restore(self) -> None:
        """Compile what is compiled and bring the models back; blocks."""
        warm_up()
        self.registry.restore()
        self.health.ask_store(self.store)
        gc.collect()
        gc.freeze()  # what lives from here to the end need not be walked by every collection
        self.health.restored()

    async def watch_store(self) -> None:
        """Keep asking whether the store is there."""
        while True:
            await asyncio.sleep(PING_SECONDS)
            await asyncio.to_thread(self.health.ask_store, self.store)

    def close(self) -> None:
        """Drain the writers, write snapshots, let go of everything; blocks."""
        self.health.stopping()
        for pool in (self.readers, self.workers, self.control):
            pool.close()
        self.jobs.stop()
        self.registry.stop()
        self.store.close()
        self._lock.release()
