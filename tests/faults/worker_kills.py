"""Kills of the processes of a service with workers, as ``tests.faults.campaign --workers`` has them."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx

from tests.faults.campaign import ERASING, RESTLESS, Everything, Tally, compare, go_on, look_whole, progress
from tests.faults.subjects import SUBJECTS, Course
from tests.service.process import ServiceProcess
from tests.support.ray_cluster import children

KILLED = ("worker", "worker", "worker", "front", "both", "origin")
"""What is killed of a service with workers, at random."""


def kill_workers(directory: Path, cycles: int, seed: int, everything: Everything, workers: int) -> Tally:
    """Kill -9 a worker, the process that answers HTTP, both, or what workers are forked from, at random moments.

    Measured until a call of each model is answered after that.
    """
    courses = [Course(subject) for subject in SUBJECTS]
    tally = Tally(f"{workers} workers, SQLite", courses=courses)
    rng = random.Random(f"{tally.name} {seed}")
    start = time.monotonic()
    while True:
        chosen = {"snapshot_updates": rng.randint(1, 6), "solution_seconds": rng.choice([1e-9, 0.05])}
        chosen |= {"rest_seconds": rng.choice([RESTLESS, 600.0]), "workers": workers}
        service = ServiceProcess(directory, None, **chosen)
        with service, service.http() as http, suppress(httpx.TransportError):
            if not tally.cycles:
                for course in courses:
                    http.post("/models", json=course.subject.spec).raise_for_status()
            while True:
                look_whole(http, tally, rng, ERASING, everything)
                compare(http, tally)
                if tally.cycles:
                    tally.recovery.append(time.monotonic() - start)
                if tally.cycles >= cycles:
                    return tally
                tally.cycles += 1
                killer = threading.Timer(rng.uniform(0.0, 1.0), _kill_some, (service, rng.choice(KILLED)))
                killer.start()
                while killer.is_alive():
                    go_on(http, tally, rng.choice(courses), rng, ERASING)
                start = time.monotonic()
                progress(tally)
        start = time.monotonic()


def _kill_some(service: ServiceProcess, which: str) -> None:
    """Kill -9 some processes of a service with workers, in any order."""
    origins = children(service.pid)
    workers = [worker for origin in origins for worker in children(origin)]
    one = random.sample(workers, 1) if workers else []
    chosen = {"worker": one, "front": [service.pid], "both": [service.pid, *workers], "origin": [*origins, *one]}[which]
    for process in random.sample(chosen, len(chosen)):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
