"""Live models on a store that fails on demand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from livesvm.service.history.journal import Source
from livesvm.service.history.recovery import Recovered
from livesvm.service.history.replay import Patience
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.logged import first_summary
from livesvm.service.hosting.model import HostedModel
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.monitoring.health import Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.solve_scheduler import SolveScheduler
from livesvm.service.settings import Settings
from livesvm.service.store.base import Indexed, Lease, Store, StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.errors import NotOptimal
from livesvm.solvers.models.change import Batch, Change

SPEC = ModelSpec(id="m", C=10.0)


PROBE = np.random.default_rng(1).normal(size=(10, 2))


class FailingStore(SqliteStore):
    """Fails in the named call, before or after it had its effect."""

    failing: str = ""
    after_effect: bool = False

    @contextmanager
    def _may_fail(self, call: str) -> Iterator[None]:
        if call == self.failing and not self.after_effect:
            raise StoreUnavailable(f"{call} failed")
        yield
        if call == self.failing:
            raise StoreUnavailable(f"{call} failed after it had its effect")

    def append(self, *arguments: Any, **options: Any) -> Any:
        with self._may_fail("append"):
            return super().append(*arguments, **options)

    def append_many(self, *arguments: Any, **options: Any) -> Any:
        with self._may_fail("append_many"):
            return super().append_many(*arguments, **options)

    def remember_many(self, *arguments: Any) -> None:
        with self._may_fail("remember_many"):
            super().remember_many(*arguments)

    def last_sequence(self, *arguments: Any) -> int:
        with self._may_fail("last_sequence"):
            return super().last_sequence(*arguments)

    def abort(self, *arguments: Any) -> None:
        with self._may_fail("abort"):
            super().abort(*arguments)

    def remember(self, *arguments: Any) -> None:
        with self._may_fail("remember"):
            super().remember(*arguments)

    def save_snapshot(self, *arguments: Any) -> None:
        with self._may_fail("save_snapshot"):
            super().save_snapshot(*arguments)

    def save_solution(self, *arguments: Any) -> None:
        with self._may_fail("save_solution"):
            super().save_solution(*arguments)


class Alone:
    """Owns a single replica, and has no other to put to rest."""

    def __init__(self) -> None:
        self.rests: list[Indexed] = []

    def woke(self, replica: Any) -> None:
        """Do nothing."""

    def rested(self, replica: Any, now: Indexed) -> None:
        """Note it."""
        self.rests.append(now)

    def make_room(self, size: int) -> None:
        """There is none to be made."""


class Recovering(HostedModel):
    """A model that keeps what it was recovered from."""

    recovered: Recovered[ModelState]

    def _recover(self, lease: Lease, patience: Patience) -> Recovered[ModelState]:
        self.recovered = super()._recover(lease, patience)
        return self.recovered


def context_of(store: Store, **settings: Any) -> Context:
    metrics = Metrics()
    source = Source(store, Health(metrics), metrics)
    limits = {"snapshot_replay_seconds": 1e9, "solution_seconds": 1e9, "solve_seconds": 3600.0}  # a call may compile
    chosen = Settings(**limits | settings)
    return Context(chosen, source, SolveScheduler(1), holder="me")


def alive(store: Store, lease: Lease, spec: ModelSpec = SPEC, **settings: Any) -> Recovering:
    """Return a model of which nothing is written for the time its updates take: the first may have code to compile."""
    summary = first_summary(spec, wakes=False)
    found = Indexed(lease.model, store.last_sequence(lease), summary, 0)
    made = Recovering(lease.model, lease.model, found, context_of(store, **settings), Alone())
    made.begin(lease)
    return made


def looked_after(live: HostedModel) -> bool:
    """Have a snapshot written if it is time for one, as the registry does; always true."""
    if live.is_due:
        live.look_after()
    return True


def batch(seed: int, n: int = 8) -> Change:
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], n)
    return Change(Batch(rng.normal(size=(n, 2)) + y[:, None], y))


class Predicted(NamedTuple):
    """What a version makes of rows."""

    version: int
    decision: Any
    prediction: Any


def predicted(model: HostedModel, X: Any) -> Predicted:
    """Return what the newest version makes of rows, as a route would ask it."""
    seen = model.reader(X)
    seen.checked(model.spec, X, model.context.settings.max_predict_rows)
    return Predicted(seen.version, *seen.decide(model.spec, X))


def decisions(model: HostedModel) -> Any:
    return predicted(model, PROBE).decision


def check_restored(store: SqliteStore, model: HostedModel) -> None:
    """Another process would find the same model."""
    again = alive(store, store.acquire("m"))
    assert again.published.version == model.published.version
    assert again.sample().updated_at == model.sample().updated_at
    np.testing.assert_allclose(decisions(again), decisions(model), rtol=0, atol=1e-9)
    again.stop()


def failing_together(state: ModelState, commands: Any, net: Any) -> None:
    raise NotOptimal("nor on one path for all of them")
