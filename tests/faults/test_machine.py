"""Create, update, retry, crash, go back, in any order, on both stores: always the model trained from nothing."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from livesvm.service import crash
from livesvm.service.errors import IdempotencyConflict, RequestErased
from livesvm.service.history.erasure import ErasurePart, Intent
from livesvm.service.hosting.model import HostedModel
from livesvm.service.lifecycle.search import requests_of
from livesvm.service.models.commands import Removal
from livesvm.service.models.spec import ModelSpec
from livesvm.service.store import codec
from livesvm.service.store.base import Store
from livesvm.service.store.redis import RedisStore
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers import IncrementalSVC
from livesvm.solvers.errors import InvalidInput, SolverError
from livesvm.solvers.models.change import Batch, Change
from tests.contract.redis_server import RedisServer
from tests.support.live_models import alive, predicted

pytestmark = pytest.mark.alone(reason="of replicas in the process of the test")

SPEC = ModelSpec.model_validate(
    {"id": "m", "C": 5.0, "kernel": {"name": "rbf", "gamma": 0.4}, "window": {"max_examples": 25}}
)
PROBE = np.random.default_rng(3).normal(size=(6, 2))
EXAMPLES = int(os.environ.get("MACHINE_EXAMPLES", "12"))
"""Sequences that each store is tried with; `make faults` asks for more."""


class Crash(Exception):
    """Stands in for kill -9 at a named point: what was in memory is thrown away."""


Window = dict[int, tuple[tuple[float, ...], float]]


class Machine(RuleBasedStateMachine):
    """The service's model next to plain dictionaries of what every version must hold."""

    open_store: Callable[[str], Store]

    def __init__(self) -> None:
        super().__init__()
        self.place = uuid.uuid4().hex
        self.history: list[Window] = [{}]
        self.requests: dict[str, tuple[Callable[[], Any], bytes]] = {}
        self.names = itertools.count()
        self.next_key = 0

    @initialize(every=st.integers(1, 6), solves=st.booleans())
    def create(self, every: int, solves: bool) -> None:
        self.solves = solves
        seconds = 1e-9 if solves else 1e9
        self.settings = {"snapshot_updates": every, "idempotency_keep": 1000, "solution_seconds": seconds}
        self.settings |= {"snapshot_replay_seconds": 60.0}
        self.store = self.open_store(self.place)
        self.live = self.alive(self.store.create("m", codec.encode({"spec": SPEC.model_dump_json()})))

    def alive(self, lease: Any) -> HostedModel:
        return alive(self.store, lease, SPEC, **self.settings)

    def reopen(self) -> None:
        """Another process starts on what is stored."""
        self.store.close()
        self.store = self.open_store(self.place)
        self.live = self.alive(self.store.acquire("m"))

    # What the model must hold.

    def batch(self, seed: int, n: int, forget: int) -> tuple[Change, Window, int]:
        """Return an update, the window after it, and the counter for keys after it."""
        rng = np.random.default_rng(seed)
        y = rng.choice([-1.0, 1.0], n)
        X = rng.normal(size=(n, 2)) + 0.6 * y[:, None]
        forget = min(forget, len(self.history[-1]))
        kept = dict(list(self.history[-1].items())[forget:])
        for row in range(n):
            kept[self.next_key + row] = (tuple(X[row]), float(y[row]))
        kept = dict(list(kept.items())[-25:])
        return Change(Batch(X, y), Removal(oldest=forget) if forget else None), kept, self.next_key + n

    @rule(seed=st.integers(0, 10**6), n=st.integers(1, 6), forget=st.integers(0, 4), named=st.booleans())
    def update(self, seed: int, n: int, forget: int, named: bool) -> None:
        update, window, next_key = self.batch(seed, n, forget)
        name = f"r{next(self.names)}" if named else None
        answer = self.live.update(update, name).result()
        assert not answer.replayed
        self.history.append(window)
        self.next_key = next_key
        if name is not None:
            self.requests[name] = (lambda: self.live.update(update, name).result(), answer.body)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def retry(self, data: Any) -> None:
        call, body = self.requests[data.draw(st.sampled_from(sorted(self.requests)))]
        again = call()
        assert again.replayed
        assert again.body == body

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def another_request_under_the_same_name(self, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(self.requests)))
        with pytest.raises(IdempotencyConflict):
            self.live.update(Change(Batch(np.full((1, 2), 77.0), np.ones(1))), name).result()

    @rule()
    def refuse(self) -> None:
        with pytest.raises(SolverError):
            self.live.update(Change(None, Removal(keys=["nobody"])), None).result()

    @rule(
        point=st.sampled_from((*crash.POINTS, *crash.SOLUTION_POINTS)),
        seed=st.integers(0, 10**6),
        n=st.integers(1, 6),
        back=st.none() | st.integers(0, 9),
    )
    def crash_within_an_update(self, point: str, seed: int, n: int, back: int | None) -> None:
        """Crash, then ask again and get one effect, whether the update was written or not."""
        update, window, next_key = self.batch(seed, n, 0)
        name, version = f"r{next(self.names)}", len(self.history) - 1
        target = None if back is None else max(self.oldest(), version - back)
        if point in crash.SOLUTION_POINTS and not (self.solves and (target is None or self.history[target])):
            point = "before-answer"  # there is nothing to solve, or no solution is kept

        def call() -> Any:
            return (self.live.update(update, name) if target is None else self.live.restore(target, name)).result()

        self.die_at(point, call)
        self.reopen()
        written = point != "before-log"
        assert self.live.published.version == version + written
        answer = call()
        assert answer.replayed is written
        self.history.append(window if target is None else dict(self.history[target]))
        self.next_key = next_key if target is None else self.next_key
        self.requests[name] = (call, answer.body)

    def die_at(self, point: str, call: Callable[[], Any]) -> None:
        """Make a call whose writer dies at a point."""

        def die(here: str) -> None:
            if here == point:
                self.live._is_broken = True  # the dead write no snapshot
                raise Crash

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(crash, "point", die)
            with pytest.raises(Crash):
                call()
            self.live._mailbox.close()

    @precondition(lambda self: self.next_key)
    @rule(data=st.data(), point=st.none() | st.sampled_from(crash.ERASE_POINTS[1:4]))
    def erase(self, data: Any, point: str | None) -> None:
        """Erase within the window or not; the next process ends what a crash cuts off, no request is done twice."""
        gone = data.draw(st.sets(st.integers(0, self.next_key - 1), min_size=1, max_size=4))
        intent = Intent("m", (ErasurePart("m"),))
        going = requests_of(self.store.requests("m"), gone, ())
        intent = replace(intent, keys=tuple(map(intent.hash, gone)), requests=tuple(map(intent.hash, going)))
        if point is not None:
            self.die_at(point, lambda: self.live.erase(intent).result())
            self.reopen()
        self.live.erase(intent).result()
        window = {key: row for key, row in self.history[-1].items() if key not in gone}
        if len(window) < len(self.history[-1]):
            self.history.append(window)
        for name, (call, body) in list(self.requests.items()):
            reported = json.loads(body)
            if gone & {*reported.get("added", ()), *reported.get("removed", ())}:
                del self.requests[name]
                with pytest.raises(RequestErased):
                    call()

    @rule()
    def crash_at_rest(self) -> None:
        self.live._mailbox.close()
        self.reopen()

    @rule()
    def restart(self) -> None:
        self.live.stop()
        self.reopen()

    @rule()
    def checkpoint(self) -> None:
        self.live.checkpoint().result()

    def oldest(self) -> int:
        self.live.look_after()
        self.live.wake().result()  # the snapshot after the last update is written
        found: int = self.live.versions()["oldest"]
        return found

    @rule(data=st.data(), named=st.booleans())
    def go_back(self, data: Any, named: bool) -> None:
        target = data.draw(st.integers(self.oldest(), len(self.history) - 1))
        name = f"r{next(self.names)}" if named else None
        answer = self.live.restore(target, name).result()
        self.history.append(dict(self.history[target]))
        if name is not None:
            self.requests[name] = (lambda: self.live.restore(target, name).result(), answer.body)

    @rule()
    def go_where_nothing_is(self) -> None:
        for version in (len(self.history), self.oldest() - 1):
            with pytest.raises(InvalidInput):
                self.live.restore(version, None).result()

    @invariant()
    def is_the_model_trained_from_nothing(self) -> None:
        window, seen = self.history[-1], self.live.published
        assert seen.version == len(self.history) - 1
        assert seen.sizes.n_examples == len(window)
        assert list(self.live.current.window.arrivals) == list(window)
        if window:
            assert self.live.certificate().result()["relative_gap"] <= 1e-8
            X, y = (np.array(column) for column in zip(*window.values(), strict=True))
            fresh = IncrementalSVC(C=5.0, gamma=0.4, classes=(-1, 1)).fit(X, y)
            np.testing.assert_allclose(
                predicted(self.live, PROBE).decision, fresh.decision_function(PROBE), rtol=0, atol=1e-6
            )

    def teardown(self) -> None:
        if hasattr(self, "live"):
            self.live._mailbox.close()
            self.store.close()


def run(open_store: Callable[[str], Store]) -> None:
    """Try the machine on a store."""
    tried: Any = type("TriedMachine", (Machine,), {"open_store": staticmethod(open_store)})
    case = tried.TestCase
    case.settings = settings(max_examples=EXAMPLES, stateful_step_count=15, deadline=None)
    case("runTest").runTest()


def test_on_the_embedded_store() -> None:
    with tempfile.TemporaryDirectory() as directory:
        run(lambda place: SqliteStore(Path(directory) / place))


def test_on_redis(redis_server: RedisServer) -> None:
    run(lambda place: RedisStore(redis_server.url, "me", prefix=place))
