"""The long form of the fault tests: kill the service and Redis many times, and report. `make faults` runs it.

    python -m tests.faults.campaign --service-kills 1000 --redis-kills 200 --stops 20 --outages 20 [--seed 0]

A client sends updates one after another, each under its own Idempotency-Key, and repeats one until it is answered;
while the service is killed, it does so to models of two classes, of several, and of scaled features alternately, erases
examples in between, and repeats that until it has the receipt. Lost is an
acknowledged update that is not there after a recovery; duplicated is one that is there twice; different is a model that
is not the one trained from nothing on what was acknowledged, or a fenced writer that wrote. Traces are examples that
were erased, and stand somewhere in what is stored. After every recovery the version is checked by its number and the
model by training.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

from livesvm.service.crash import ERASE_POINTS, POINTS, REST_POINTS, SNAPSHOT_POINTS, SOLUTION_POINTS
from tests.contract.redis_server import RedisServer
from tests.faults.subjects import SUBJECTS, Course
from tests.service.process import ServiceProcess
from tests.support.erasing import bytes_of_directory, bytes_of_redis, traces
from tests.support.updates_under_faults import MODEL, PROBE, send

PATIENCE = 30.0
UNREADY_SECONDS = 2.0
"""From the moment that Redis is away until readiness must be false."""
WORKING_SECONDS = 5.0
"""From the moment that it is back until an update must be acknowledged."""
MOST_CALLS = 300
"""After which the service must have died."""
IMPATIENT = 0.4
"""How often an update is sent with too little time first."""
RESTLESS = 0.01
"""Seconds after which a model goes to rest, at every other start: between any two looks at it."""
ERASING = 0.15
"""How often examples are erased in place of an update; more often where the service is to die of it."""

Everything = Callable[[], dict[str, bytes]]
"""Every byte that is stored."""


@dataclass
class Tally:
    """What one series of faults found; times in seconds."""

    name: str
    cycles: int = 0
    given_up: int = 0
    lost: int = 0
    duplicated: int = 0
    different: int = 0
    traces: int = 0
    recovery: list[float] = field(default_factory=list)
    courses: list[Course] = field(default_factory=lambda: [Course()])

    @property
    def course(self) -> Course:
        """Of the only model."""
        (course,) = self.courses
        return course

    @property
    def is_clean(self) -> bool:
        """Whether every promise held."""
        return self.lost == self.duplicated == self.different == self.traces == 0

    def line(self) -> str:
        """Return one row of the report."""
        times = np.array(self.recovery or [0.0])
        acknowledged, erased = (
            sum(found) for found in zip(*((c.acknowledged, len(c.erased)) for c in self.courses), strict=True)
        )
        return (
            f"{self.name:<24}{self.cycles:>8}{acknowledged:>14}{self.given_up:>10}{self.lost:>7}{self.duplicated:>12}"
            f"{self.different:>11}{erased:>8}{self.traces:>8}"
            f"{np.median(times):>10.2f} s{times.max():>8.2f} s"
        )


HEADER = (
    f"{'fault':<24}{'cycles':>8}{'acknowledged':>14}{'given up':>10}{'lost':>7}{'duplicated':>12}{'different':>11}"
    f"{'erased':>8}{'traces':>8}{'recovery':>12}{'worst':>10}"
)


def compare(http: httpx.Client, tally: Tally) -> None:
    """Count what the models' versions say is lost or applied twice."""
    for course in tally.courses:
        extra = int(http.get(course.subject.path).json()["version"]) - course.acknowledged
        tally.lost += max(0, -extra)
        tally.duplicated += max(0, extra - 1)  # one may have been logged and not answered


def compare_whole(http: httpx.Client, tally: Tally) -> None:
    """Count models that are not those trained from nothing on what was acknowledged."""
    tally.different += sum(not course.is_right(http) for course in tally.courses)


def be_impatient(http: httpx.Client, tally: Tally, course: Course, rng: random.Random) -> None:
    """Send the next update with too little time, or leave before its answer comes; it is sent again."""
    seconds, number = rng.uniform(0.001, 0.06), course.updates
    try:
        if rng.random() < 0.5:
            answer = course.subject.send(http, number, params={"max_seconds": seconds})
            if answer.status_code not in (200, 422, 429, 503):
                raise RuntimeError(f"update {number} was answered {answer.status_code}: {answer.text}")
            tally.given_up += answer.status_code != 200
        else:
            course.subject.send(http, number, timeout=seconds)
    except httpx.TimeoutException:
        tally.given_up += 1


def acknowledge(
    http: httpx.Client, tally: Tally, course: Course | None = None, rng: random.Random | None = None
) -> None:
    """Send the next update until it is answered; with ``rng`` it is given up on some times first."""
    course = course or tally.course
    course.is_updating = True
    while rng is not None and rng.random() < IMPATIENT:
        be_impatient(http, tally, course, rng)
    end = time.monotonic() + PATIENCE
    while (answer := course.subject.send(http, course.updates)).status_code != 200:
        if answer.status_code not in (429, 503) or time.monotonic() > end:
            raise RuntimeError(f"update {course.updates} was answered {answer.status_code}: {answer.text}")
        time.sleep(0.02)
    _compare_answer(answer, tally, course)
    course.updated()


def erase(http: httpx.Client, tally: Tally, course: Course, rng: random.Random) -> None:
    """Have examples of the window erased, and one that left it or was erased before; until there is a receipt."""
    name = {"idempotency-key": f"erasure {len(course.erased)} of {course.subject.path}"}
    answer = http.post(f"{course.subject.path}/erase", json={"keys": course.keys(rng)}, headers=name)
    if answer.status_code != 200:
        raise RuntimeError(f"an erasure was answered {answer.status_code}: {answer.text}")
    _compare_answer(answer, tally, course)
    course.forgotten()


def _compare_answer(answer: httpx.Response, tally: Tally, course: Course) -> None:
    tally.duplicated += answer.json()["version"] > course.acknowledged + 1
    tally.lost += answer.json()["version"] < course.acknowledged + 1


def search(everything: dict[str, bytes], tally: Tally) -> None:
    """Count the erased examples with any feature, or all, left somewhere."""
    for x in (x for course in tally.courses for x in course.searched()):
        wanted = [trace for what, trace in traces("", x).items() if what != "key"]
        tally.traces += any(trace in data for data in everything.values() for trace in wanted)


def crash_at(rng: random.Random, cycle: int, snapshot_updates: int) -> str:
    """Return where the service dies in this cycle: at each of its named points in turn, at its 2nd to 8th passage."""
    every = (*POINTS, *SNAPSHOT_POINTS, *SOLUTION_POINTS, *ERASE_POINTS, *REST_POINTS)
    name = every[cycle % len(every)]
    if name in ERASE_POINTS:
        return f"{name}:2"  # the first passage may be at the start, of an erasure that is to be ended
    if name in REST_POINTS:
        return f"{name}:{rng.randint(3 * len(SUBJECTS), 16)}"  # the first ones may be at the start
    passages = rng.randint(1, max(1, 8 // snapshot_updates)) if name in SNAPSHOT_POINTS else rng.randint(2, 8)
    return f"{name}:{passages}"


def kill_service(directory: Path, cycles: int, seed: int, everything: Everything, **settings: object) -> Tally:
    """Kill -9 the service at each of its named points in turn; measured from its start until it is ready.

    Some updates are given too little time at first, or their client leaves.
    """
    courses = [Course(subject) for subject in SUBJECTS]
    tally = Tally("service, " + ("Redis" if "redis_url" in settings else "SQLite"), courses=courses)
    rng = random.Random(f"{tally.name} {seed}")
    for cycle in range(cycles + 1):
        snapshot_updates = rng.randint(1, 6)
        point = crash_at(rng, cycle, snapshot_updates) if cycle < cycles else ""
        solution_seconds = 1e-9 if point.startswith(SOLUTION_POINTS) else rng.choice([1e-9, 0.05])
        chosen = settings | {"snapshot_updates": snapshot_updates, "solution_seconds": solution_seconds}
        may_rest = not point.startswith(SNAPSHOT_POINTS)  # one that goes to rest at the start passes those
        rests = point.startswith(REST_POINTS) or (may_rest and rng.random() < 0.5)
        chosen |= {"rest_seconds": RESTLESS if rests else 600.0}
        service = ServiceProcess(directory, None, crash_at=point, **chosen)
        service.module = "tests.faults.slow_updates"
        start = time.monotonic()
        with service, service.http() as http:
            if cycle == 0:
                for course in courses:
                    http.post("/models", json=course.subject.spec).raise_for_status()
            else:
                tally.recovery.append(time.monotonic() - start)
                compare(http, tally)
            if cycle < cycles:
                erasing = 0.5 if point.startswith(ERASE_POINTS) else ERASING
                _send_until_it_dies(http, tally, rng, erasing, everything)
                tally.cycles += 1
            else:
                look_whole(http, tally, rng, 0.0, everything)
        progress(tally)
    return tally


def _send_until_it_dies(
    http: httpx.Client, tally: Tally, rng: random.Random, erasing: float, everything: Everything
) -> None:
    """Compare the whole models once the calls under way at the crash are answered; go on until the service is gone."""
    try:
        look_whole(http, tally, rng, erasing, everything)
        for _ in range(MOST_CALLS):
            go_on(http, tally, rng.choice(tally.courses), rng, erasing)
    except httpx.TransportError:
        return
    raise RuntimeError("the service did not die")


def look_whole(http: httpx.Client, tally: Tally, rng: random.Random, erasing: float, everything: Everything) -> None:
    """Compare the whole models, and search for the erased, after a call of each."""
    for course in tally.courses:
        go_on(http, tally, course, rng, erasing)
    compare_whole(http, tally)
    search(everything(), tally)


def go_on(http: httpx.Client, tally: Tally, course: Course, rng: random.Random, erasing: float) -> None:
    """Return the call under way, or the next one."""
    if course.wants_to_erase(rng, erasing):
        erase(http, tally, course, rng)
    else:
        acknowledge(http, tally, course, rng)


def kill_redis(directory: Path, cycles: int, seed: int) -> Tally:
    """Kill -9 Redis at random moments of a stream of updates; measured until an update is acknowledged again."""
    tally = Tally("Redis, fsync always")
    rng = random.Random(f"{tally.name} {seed}")
    with RedisServer(directory / "redis") as server:
        service = ServiceProcess(directory / "data", redis_url=server.url, snapshot_updates=7, solution_seconds=1e-9)
        with service, service.http() as http:
            http.post("/models", json=MODEL).raise_for_status()
            while tally.cycles < cycles:
                killer = threading.Timer(rng.uniform(0.0, 0.05), server.kill)
                killer.start()
                while send(http, tally.course.updates).status_code == 200:
                    tally.course.updated()
                killer.join()
                server.start()
                start = time.monotonic()
                acknowledge(http, tally)
                tally.recovery.append(time.monotonic() - start)
                compare(http, tally)
                tally.cycles += 1
                compare_whole(http, tally)
                progress(tally)
    return tally


def stop_writers(directory: Path, cycles: int) -> Tally:
    """Stop the writer, let another service take over, let it go on: it must be fenced; measured until the takeover."""
    tally = Tally("writer stopped")
    with RedisServer(directory / "redis") as server:
        services = [ServiceProcess(directory / name, redis_url=server.url, lease_seconds=1) for name in ("one", "two")]
        with services[0] as one, one.http() as first, services[1] as two, two.http() as second:
            holder, other = (one, first), (two, second)
            first.post("/models", json=MODEL).raise_for_status()
            while second.get("/models/m").status_code == 404:  # until the second has seen it
                time.sleep(0.05)
            while tally.cycles < cycles:
                acknowledge(holder[1], tally)
                holder[0].signal(signal.SIGSTOP)
                start = time.monotonic()
                acknowledge(other[1], tally)
                tally.recovery.append(time.monotonic() - start)
                holder[0].signal(signal.SIGCONT)
                tally.different += send(holder[1], 10**6).status_code == 200
                compare(other[1], tally)
                compare_whole(other[1], tally)
                holder, other = other, holder
                tally.cycles += 1
                progress(tally)
    return tally


def stop_redis(directory: Path, cycles: int) -> tuple[Tally, Tally]:
    """Stop Redis, and let it go on or start it again: seconds until not ready, and until an update is acknowledged.

    Predictions must go on in between; each that does not counts as different, and so does each time over its limit.
    """
    unready, working = Tally("Redis away: not ready"), Tally("Redis back: updates")
    with RedisServer(directory / "redis") as server:
        service = ServiceProcess(directory / "data", redis_url=server.url)
        with service, service.http() as http:
            http.post("/models", json=MODEL).raise_for_status()
            acknowledge(http, working)
            for cycle in range(cycles):
                is_killed = cycle % 2 == 1
                server.signal(signal.SIGKILL if is_killed else signal.SIGSTOP)
                start = time.monotonic()
                while http.get("/health/ready").status_code == 200:
                    unready.different += not _predicts(http, stale=None)
                unready.recovery.append(time.monotonic() - start)
                unready.different += not _predicts(http, stale=True)
                if is_killed:
                    server.kill()
                    server.start()
                else:
                    server.signal(signal.SIGCONT)
                start = time.monotonic()
                acknowledge(http, working)
                working.recovery.append(time.monotonic() - start)
                while http.get("/health/ready").status_code != 200:
                    time.sleep(0.01)
                compare(http, working)
                compare_whole(http, working)
                for tally, limit in ((unready, UNREADY_SECONDS), (working, WORKING_SECONDS)):
                    tally.different += tally.recovery[-1] > limit
                    tally.cycles += 1
                    progress(tally)
    return unready, working


def _predicts(http: httpx.Client, stale: bool | None) -> bool:
    """Return whether a prediction is answered, and says ``stale`` unless that is None."""
    answer = http.post("/models/m/predict", json={"X": PROBE})
    return answer.status_code == 200 and (stale is None or answer.json()["stale"] is stale)


def progress(tally: Tally) -> None:
    if sys.stderr.isatty():
        print(f"\r{tally.name}: {tally.cycles}", end="", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for and print the report; 1 if any promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--service-kills", type=int, default=1000, help="in all, half on each of the two stores")
    parser.add_argument("--redis-kills", type=int, default=200)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--outages", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the faults")
    loaded = "fork services from a process that has loaded everything; recovery is then no start of a service"
    parser.add_argument("--forked", action="store_true", help=loaded)
    options = parser.parse_args(arguments)
    ServiceProcess.forks = options.forked
    on_redis = options.service_kills // 2
    print(HEADER, flush=True)
    tallies: list[Tally] = []
    with ExitStack() as stack:
        places = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(5)]
        server = stack.enter_context(RedisServer(places[1] / "redis"))
        client = stack.enter_context(server.client())

        def in_files() -> dict[str, bytes]:
            """Return what the embedded store and its service keep."""
            return bytes_of_directory(places[0])

        def in_redis() -> dict[str, bytes]:
            """Return what Redis and its service keep."""
            files = bytes_of_directory(places[1])
            return bytes_of_redis(client) | {name: found for name, found in files.items() if "log" not in name}

        every: list[Callable[[], tuple[Tally, ...]]] = [
            lambda: (kill_service(places[0], options.service_kills - on_redis, options.seed, in_files),),
            lambda: (kill_service(places[1] / "data", on_redis, options.seed, in_redis, redis_url=server.url),),
            lambda: (kill_redis(places[2], options.redis_kills, options.seed),),
            lambda: (stop_writers(places[3], options.stops),),
            lambda: stop_redis(places[4], options.outages),
        ]
        for series in every:
            for tally in series():
                tallies.append(tally)
                print(tally.line(), flush=True)
    return 0 if all(tally.is_clean for tally in tallies) else 1


if __name__ == "__main__":
    sys.exit(main())
