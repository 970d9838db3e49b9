"""Kill what models on Ray depend on, under load over many models, many times, and report.

    python -m tests.faults.cluster --kills 200 [--minutes 40] [--models 20] [--feeds 3] [--actors 4] [--only node]

Each model has a client that sends one update after another, each under its own Idempotency-Key, to either of two front
ends, and repeats one until it is answered; so has each feed, but for one that takes its readings from a Redis Stream.
Meanwhile an actor, all processes of a node, a front end or Redis is killed, or a node is stopped until its actors are
elsewhere, and comes back; or the head of the cluster is killed, and comes back soon, or only when all nodes have ended.
The version or the position in every answer tells what was lost or applied twice; at the end each model is compared with
one trained from nothing on what was acknowledged, each feed with one never troubled, and the entries of the stream are
counted: with one effect each, and one dead letter for each that is no reading. With --jobs, jobs are asked for all
along, and some cancelled: each ends, or says why it cannot. No front end ends by itself.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from tests.contract.redis_server import RedisServer
from tests.faults.cluster_jobs import Jobs
from tests.faults.cluster_subjects import Feed, Metered, Model, Subject
from tests.faults.feed_source import RedisMeter
from tests.service.process import ServiceProcess
from tests.support.ray_cluster import RayCluster
from tests.support.waiting import until

PATIENCE = 180.0
HEAD_SECONDS = 20
"""For which nodes wait for a head that is away."""
READINGS = 100_000
"""More than a feed takes from its Redis Stream meanwhile."""


@dataclass
class Client:
    """A client that updates one subject: the times of its updates, and what was wrong with answers."""

    subject: Subject
    fronts: Sequence[ServiceProcess]
    done: threading.Event
    asked: list[float] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def fault(self, what: str) -> None:
        """Note what is wrong."""
        self.faults.append(f"{self.subject.path}: {what}")

    def create(self) -> None:
        """Have the subject made, by an actor that may have to be started first."""
        end = time.monotonic() + PATIENCE
        with self.fronts[0].http(PATIENCE) as http:
            while (answer := self.subject.create(http)).status_code not in (201, 409):
                if time.monotonic() > end:
                    answer.raise_for_status()

    def run(self, chosen: int) -> None:
        """Send one update after the other until it is done, to another front end where one has no answer."""
        while not self.done.wait(self.subject.pause):
            self.asked.append(time.monotonic())
            while not self.sent(self.fronts[chosen % 2]):
                if self.done.is_set() and time.monotonic() > self.asked[-1] + 2 * PATIENCE:
                    self.fault("its last update is not answered")
                    return
                chosen += 1
                time.sleep(0.05)

    def sent(self, front: ServiceProcess) -> bool:
        """Return whether an update was acknowledged."""
        number = len(self.moments)
        try:
            with front.http(40.0) as http:
                answer = self.subject.update(http, number)
        except (httpx.TransportError, httpx.InvalidURL):
            return False
        if answer.status_code != 200:
            if answer.status_code not in (429, 503):
                self.fault(f"update {number} was answered {answer.status_code}: {answer.text}\n{front.errors[-3000:]}")
            return False
        reported = self.subject.reported(answer.json())
        if reported < number + 1 and not self.subject.acknowledges:
            return False
        if reported != number + 1:
            self.fault(f"it has had {reported} updates, as the answer to update {number + 1} says")
        self.moments.append(time.monotonic())
        return True

    def answered(self, since: float) -> float | None:
        """Return when the first update was acknowledged that was first sent after a moment; None if it was not yet."""
        number = bisect_right(self.asked, since)
        return self.moments[number] if number < len(self.moments) else None

    def check(self, http: httpx.Client) -> None:
        """Compare the subject with one that was never troubled."""
        try:
            self.faults += [f"{self.subject.path}: {fault}" for fault in self.subject.faults(http, len(self.moments))]
        except (httpx.TransportError, LookupError, ValueError) as error:
            self.fault(f"cannot be compared: {error!r}")


@dataclass
class Scene:
    """What can be killed; each way tells when that was."""

    cluster: RayCluster
    redis: RedisServer
    fronts: Sequence[ServiceProcess]
    chance: random.Random

    def actor(self) -> float:
        self._one_with_actors()
        pid = self.chance.choice(self.cluster.actors())
        os.kill(pid, signal.SIGKILL)
        return time.monotonic()

    def node(self) -> float:
        node = self._one_with_actors()
        since = time.monotonic()
        self.cluster.kill_node(node)
        self.cluster.add_node()
        return since

    def front(self) -> float:
        front, since = self.chance.choice(self.fronts), time.monotonic()
        front.kill()
        front.start()
        return since

    def store(self) -> float:
        since = time.monotonic()
        self.redis.kill()
        time.sleep(self.chance.uniform(0.0, 1.0))
        self.redis.start()
        return since

    def stopped(self) -> float:
        """Return a node stands still until its actors are elsewhere, and then goes on."""
        node = self._one_with_actors()
        had, end = len(self.cluster.actors()), time.monotonic() + PATIENCE
        self.cluster.raylets.remove(node)
        since = time.monotonic()
        self.cluster.signal_node(node, signal.SIGSTOP)
        while len(self.cluster.actors()) < had and time.monotonic() < end:
            time.sleep(0.1)
        self.cluster.signal_node(node, signal.SIGCONT)
        self.cluster.add_node()
        return since

    def head(self) -> float:
        """Return the head is away for a while, and comes back knowing its nodes and actors."""
        since, had = time.monotonic(), len(self.cluster.raylets)
        self.cluster.behead()
        time.sleep(self.chance.uniform(0.0, 5.0))
        self.cluster.crown()
        self.cluster.lose()
        for _ in range(had - len(self.cluster.raylets)):  # on a machine so busy that they waited too long
            self.cluster.add_node()
        return since

    def headless(self) -> float:
        """Return the head does not come back before all nodes have given it up and ended; others come with it."""
        end, had = time.monotonic() + PATIENCE, len(self.cluster.raylets)
        self.cluster.behead()
        while not self.cluster.lose() and time.monotonic() < end:
            time.sleep(0.1)
        since = time.monotonic()
        self.cluster.crown()
        for _ in range(had):
            self.cluster.add_node()
        return since

    def ended(self) -> list[str]:
        """Return what front ends said that have ended by themselves; they are started again."""
        over = [front for front in self.fronts if front.status is not None]
        for front in over:
            front.start()
        return [front.errors[-2000:] for front in over]

    def _one_with_actors(self) -> int:
        nodes = until(lambda: [node for node in self.cluster.raylets if self.cluster.actors(node)], PATIENCE)
        return self.chance.choice(nodes)  # actors of nodes that were lost may have been on their way to others


KINDS: dict[str, Callable[[Scene], float]] = {
    "actor": Scene.actor,
    "node": Scene.node,
    "front": Scene.front,
    "store": Scene.store,
    "stopped": Scene.stopped,
    "head": Scene.head,
    "headless": Scene.headless,
}


def seconds_until_all_answer(clients: Sequence[Client], since: float) -> list[float]:
    """Return seconds from a moment until each one's first update that was first sent after it was acknowledged."""
    end = time.monotonic() + PATIENCE
    found: list[float] = []
    for client in clients:
        while (moment := client.answered(since)) is None and time.monotonic() < end:
            time.sleep(0.05)
        if moment is None:
            client.fault(f"no update was acknowledged for {PATIENCE:g} s")
        found.append(PATIENCE if moment is None else moment - since)
    return found


def subjects(models: int, feeds: int, redis: RedisServer) -> list[Subject]:
    """So many models and feeds; the last feed reads a Redis Stream."""
    found: list[Subject] = [Model(number) for number in range(models)]
    found += [Feed(number) for number in range(feeds - 1)]
    return [*found, Metered(RedisMeter(redis, READINGS))] if feeds else found


def reported(kind: str, took: Sequence[Sequence[float]], clients: Sequence[Client]) -> str:
    """Return what one kind of fault has cost: until all answered, and each kind of subject by itself."""
    slowest = [max(one) for one in took]
    middle, worst = np.median(slowest), max(slowest)
    line = f"{kind}: {len(took)} times; all answered after {middle:.1f} s at the median, {worst:.1f} s at most"
    for what in dict.fromkeys(client.subject.kind for client in clients):
        each = [one[at] for one in took for at, client in enumerate(clients) if client.subject.kind == what]
        line += f"; one {what} after {np.median(each):.2f} s, {np.quantile(each, 0.95):.1f} s at the 95th percentile"
    return line


def main() -> int:
    """Run it; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which nothing more is killed")
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--feeds", type=int, default=3, help="of which the last reads a Redis Stream")
    parser.add_argument("--actors", type=int, default=4, help="that share all of them; 0: one for each")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(KINDS))
    parser.add_argument("--jobs", action="store_true", help="ask for jobs, too, whose workers start beside the rest")
    given = parser.parse_args()
    chance, done = random.Random(given.seed), threading.Event()
    took: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(place / "redis"))
        known = stack.enter_context(RedisServer(place / "known"))
        cluster = stack.enter_context(RayCluster(given.nodes, f"127.0.0.1:{known.port}", HEAD_SECONDS))
        settings: dict[str, Any] = {"redis_url": redis.url, "ray": cluster.address, "ray_actors": given.actors}
        settings |= {"ray_actor_mb": 128, "compile_ahead": "false", "sources": f"plant={redis.url}"}
        fronts = [stack.enter_context(ServiceProcess(place / f"front-{i}", **settings)) for i in range(2)]
        clients = [Client(subject, fronts, done) for subject in subjects(given.models, given.feeds, redis)]
        for client in clients:
            client.create()
        jobs = Jobs(fronts, given.models, done)
        threads = [threading.Thread(target=client.run, args=(at,)) for at, client in enumerate(clients)]
        for thread in threads:
            thread.start()
        try:
            seconds_until_all_answer(clients, time.monotonic())
            if given.jobs:
                threads.append(threading.Thread(target=jobs.run))
                threads[-1].start()
            scene = Scene(cluster, redis, fronts, chance)
            end = time.monotonic() + 60.0 * given.minutes
            for number in range(given.kills):
                if time.monotonic() > end:
                    break
                kind = given.only or list(KINDS)[number % len(KINDS)]
                time.sleep(chance.uniform(0.0, 0.5))
                jobs.faults += [f"a front end ended by itself:\n{reported}" for reported in scene.ended()]
                since = KINDS[kind](scene)
                took[kind].append(seconds_until_all_answer(clients, since))
                print(f"{number + 1} {kind}: {max(took[kind][-1]):.1f} s", flush=True)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        with fronts[0].http(PATIENCE) as http:
            for client in clients:
                client.check(http)
    acknowledged = sum(len(client.moments) for client in clients)
    faults = [fault for client in clients for fault in client.faults] + jobs.faults
    print(
        f"\n{given.models} models, {given.feeds} feeds, {sum(map(len, took.values()))} kills: "
        f"{acknowledged} updates acknowledged, {len(faults)} faults"
    )
    for kind, found in took.items():
        if found:
            print(reported(kind, found, clients))
    if given.jobs:
        print(f"jobs: {', '.join(f'{count} {how}' for how, count in jobs.ended.most_common())}")
    for fault in faults[:20]:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
