"""Changes of many models or feeds in one call: the store logs them in one step, then each replica applies its own.

The call holds all its replicas until it ends, so that their other calls come before or after the whole change. Calls
that hold several replicas take turns to hold them, so that none waits for a replica that another one holds. A replica
that refuses its part of the call, or fails in any way, stays unchanged; the other replicas still apply their parts. If
a call is repeated under its Idempotency-Key, only the replicas that have not applied it before apply it.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from livesvm.service import crash
from livesvm.service.errors import (
    FeedExists,
    IdempotencyConflict,
    NotSolved,
    QueueFull,
    ServiceError,
    TurnMissed,
    UnknownFeed,
)
from livesvm.service.feeds.batch import Batch, BatchDone, Refusal
from livesvm.service.feeds.forecaster import Forecaster, Preset, choose_for
from livesvm.service.history.journal import append_together, remember_together, remembering
from livesvm.service.hosting.collection import Collection
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.feed import HostedFeed, Planned
from livesvm.service.hosting.handle import Reply, Updated
from livesvm.service.hosting.mailbox import HELD
from livesvm.service.hosting.model import HostedModel, PlannedUpdate
from livesvm.service.logs.calls import changed
from livesvm.service.resources.machine import give_back
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.store.base import Appending, StoreBehind, StoreError, StoreUnavailable
from livesvm.service.store.batches import batches
from livesvm.solvers.errors import InvalidInput, NotOptimal, SolverError
from livesvm.solvers.models.change import Change

log = logging.getLogger(__name__)

SAMPLE = 5
"""How many feeds the shared settings are chosen from."""
HOT = 16
"""How many feeds of a call keep the caches that their next call would build again."""
AT_ONCE = 64
"""How many answers are remembered in one step, and how many models are updated in one."""

H = TypeVar("H", HostedModel, HostedFeed)
P = TypeVar("P", PlannedUpdate, Planned)
T = TypeVar("T")


class Together(ABC, Generic[H, P]):
    """One call that changes many replicas.

    Parameters
    ----------
    home, context : the collection of the replicas, and what they share
    order : a lock that is held while the replicas are held one by one, so that two such calls never wait for each other
    request : the call's Idempotency-Key
    """

    concerns_all: ClassVar[tuple[type[Exception], ...]] = (StoreUnavailable,)
    """Errors of one replica that are raised for the whole call."""
    hot: float = HOT
    """How many replicas of a call keep the caches that their next call would build again."""
    until: float = math.inf
    """The monotonic time after which no replica is waited for."""

    def __init__(self, home: Collection[H], context: Context, order: threading.Lock, request: str | None) -> None:
        self._home: Collection[Any] = home
        self._context, self._order, self._request = context, order, request
        self._held: dict[str, H] = {}
        self._records: dict[str, Appending] = {}  # records that are logged, or may be
        self._learnt = self._woken = self.replayed = 0
        self.answers: dict[str, bytes] = {}
        self.errors: dict[str, Exception] = {}  #: of replicas that refused their part, or failed

    @abstractmethod
    def _found(self, id: str) -> H:
        """Return a replica by its id; raises ServiceError."""

    @abstractmethod
    def _plan(self, one: H, *, is_stored: bool) -> Reply | P:
        """Return the checked plan of one replica's part of the call, or its answer to an earlier identical request."""

    def _ready(self, planned: dict[str, P]) -> dict[str, P]:
        """Return the plans, completed with everything that the log must record."""
        return planned

    def _run(self, ids: Iterable[str]) -> None:
        """Run the call; raises a ``concerns_all`` error if nothing was changed or the client must repeat the call."""
        try:
            self._hold(ids)
            planned = self._planned()
            if planned:
                self._take(self._ready(planned))
        finally:
            self._release(list(self._held))
        if self._learnt > self.hot:
            give_back()

    def _hold(self, ids: Iterable[str]) -> None:
        """Hold all replicas, so that their other calls wait; record an error for each replica that is not served."""
        waits: dict[str, Future[None]] = {}
        found = dict(self._each(ids, self._found))
        try:
            # Under one lock for all such calls, so that no two of them wait for replicas that the other one holds.
            with self._order:
                waits.update(self._each(found, lambda id_: found[id_].hold()))
        finally:
            for id_, wait in waits.items():
                one = found[id_]
                if wait is HELD:
                    self._held[id_] = one
                    continue
                try:
                    wait.result(None if self.until == math.inf else max(0.0, self.until - time.monotonic()))
                except TimeoutError:
                    self.errors[id_] = TurnMissed("its turn did not come in the time that was given")
                    wait.add_done_callback(partial(_let_go, one))
                else:
                    self._held[id_] = one

    def _planned(self) -> dict[str, P]:
        """Return the checked plan of each replica, and write nothing to the store."""
        opened = [id_ for id_, _ in self._each(self._held, self._open)]
        stored = [self._held[id_].stored for id_ in opened]
        known = set() if self._request is None else remembering(self._context.source, stored, self._request)
        planned: dict[str, P] = {}

        def plan(id: str) -> Reply | P:
            """Return the plan of one replica."""
            return self._plan(self._held[id], is_stored=self._held[id].stored in known)

        for id_, found in self._each(opened, plan):
            if isinstance(found, Reply):
                self.answers[id_] = found.body
                self.replayed += found.replayed
            else:
                planned[id_] = found
        return planned

    def _open(self, id: str) -> None:
        """Prepare a replica for the call: wake it if it is at rest, and free its caches if many replicas were woken."""
        one = self._held[id]
        was_awake = one.is_awake
        one.open_with()
        if not was_awake:
            self._woken += 1
            if self._woken > HOT:
                one.cool_held()  # so that the caches of all woken replicas are never in memory at once

    def _take(self, planned: dict[str, P]) -> None:
        """Log the records of all replicas in one step, then let each replica apply its own record."""
        settings = self._context.settings
        self._context.turns.check_open()
        self._records = records = dict(self._each(planned, lambda id_: self._held[id_].appending(*planned[id_].logged)))
        logged = list(records.values())
        crash.point("before-log")
        durability, errors = append_together(self._context.source, logged, settings.idempotency_keep)
        away = next((error for error in errors if isinstance(error, StoreUnavailable)), None)
        failed = dict(zip(records, errors, strict=True))

        def take(id: str) -> bytes:
            """Let one replica apply its logged record; return the replica's answer."""
            one: Any = self._held[id]
            reported: bytes = one.take_with(planned[id], records[id], durability, failed[id])
            self._learnt += 1
            if self._learnt > self.hot:
                with one.following():
                    one.cool_held()
            return reported

        for ids in batches(records, AT_ONCE):
            self.answers.update(self._each(ids, take, ()))
            self._answered(ids)
        if away is not None:
            raise away

    def _answered(self, ids: Sequence[str]) -> None:
        """Store the answers of these replicas under the call's Idempotency-Key, and release the replicas."""
        request, reported = self._request, self.answers
        if request is not None:
            answers = [(self._held[id_].journal, request, reported[id_]) for id_ in ids if id_ in reported]
            if answers:
                remember_together(self._context.source, answers)
        crash.point("before-answer")
        self._release(ids)

    def _release(self, ids: Iterable[str]) -> None:
        """Release these replicas, so that their other calls run again."""
        for id_ in ids:
            one = self._held.pop(id_)
            with one.following():
                one.release_with(self._records.get(id_))

    def _each(
        self, ids: Iterable[str], ask: Callable[[str], T], concerns_all: tuple[type[Exception], ...] | None = None
    ) -> Iterator[tuple[str, T]]:
        """Yield each id with the result of ``ask(id)``; record a replica's error, but raise one that ends the call."""
        for id_ in ids:
            try:
                found = ask(id_)
            except Exception as error:
                if isinstance(error, self.concerns_all if concerns_all is None else concerns_all):
                    raise
                if not isinstance(error, ServiceError | SolverError | StoreError):
                    log.exception("%s failed in an unforeseen way; the others go on", id_)
                self.errors[id_] = error
            else:
                yield id_, found


def _let_go(one: HostedModel | HostedFeed, held: Future[None]) -> None:
    """Release a replica whose mailbox was put on hold too late: after the time limit of the call had passed."""
    one.let_go()


class UpdatesTogether(Together[HostedModel, PlannedUpdate]):
    """Updates of many models, by model id.

    Solves end at ``asked.until``, and no solve begins after ``asked`` has ended.
    """

    hot = math.inf  # models are updated again soon, and the budget has them cool where memory is short

    def __init__(
        self,
        home: Collection[HostedModel],
        context: Context,
        order: threading.Lock,
        request: str | None,
        updates: Mapping[str, Change],
        asked: Solve,
    ) -> None:
        super().__init__(home, context, order, request)
        self._updates, self._asked, self.until = updates, asked, asked.until

    def run(self) -> Updated:
        """Apply the updates in batches; after StoreUnavailable the caller must send all updates again."""
        for ids in batches(self._updates, AT_ONCE):  # so that no more models than these are held at once
            self._run(ids)
        return Updated(self.answers, self.errors, self.replayed)

    def _found(self, id: str) -> HostedModel:
        self._asked.check()
        found: HostedModel = self._home.get(id)
        return found

    def _plan(self, one: HostedModel, *, is_stored: bool) -> Reply | PlannedUpdate:
        self._asked.check()
        return one.plan_with(self._updates[one.id], self._request, Solve(until=self.until), is_stored=is_stored)


class ReadingsTogether(Together[HostedFeed, Planned]):
    """New readings of many feeds in one call; it may create feeds, and frees the caches of all but a few feeds."""

    concerns_all = (QueueFull, IdempotencyConflict, StoreUnavailable)

    def __init__(self, home: Collection[HostedFeed], context: Context, order: threading.Lock, batch: Batch) -> None:
        super().__init__(home, context, order, batch.request)
        self._batch, self._given = batch, batch.given

    def run(self) -> BatchDone:
        """Apply the batch; if it raises QueueFull, IdempotencyConflict or StoreUnavailable, no feed has changed."""
        self._run(self._batch.tables)
        if self.answers:
            changed("observe", "feeds", feeds=len(self.answers), refused=len(self.errors), replayed=self.replayed)
        refused = {id_: refusal_of(error) for id_, error in self.errors.items()}
        return BatchDone(self.answers, refused, self.replayed, self._given)

    def _found(self, id: str) -> HostedFeed:
        """Return a feed by its id; create the feed if it is missing and the batch's rows for it are valid."""
        found: HostedFeed | None = self._home.known(id)
        if found is not None:
            return found
        spec = self._batch.spec
        if spec is None:
            raise UnknownFeed("there is no such series, and the fleet creates none")
        self._batch.call(id).check(Forecaster(spec))
        try:
            created: HostedFeed = self._home.create(id, spec)
        except FeedExists:  # as an earlier call created it and was not answered
            created = self._home.find(id)
        return created

    def _plan(self, one: HostedFeed, *, is_stored: bool) -> Reply | Planned:
        """Return the plan of one feed's part; the log gets a digest of this feed's readings alone.

        Therefore an erasure in one feed does not change the digests of other feeds.
        """
        call = self._batch.call(one.id)
        digest = b"" if self._request is None else call.digest()
        return one.plan_with(call, digest, is_stored=is_stored)

    def _ready(self, planned: dict[str, Planned]) -> dict[str, Planned]:
        """Return the plans, and give the fleet's shared settings to feeds that have no settings yet.

        If a process died after a feed had chosen settings, and before these were stored for the fleet, the settings of
        a feed that has models are given.
        """
        if self._given is None:
            feeds = map(self._feed, planned)
            self._given = next((one.made_with for one in feeds if one.models and one.spec.recipes is None), None)
        filling = []
        if self._given is None:
            filling = [id_ for id_, one in planned.items() if self._feed(id_).fills_with(one.plan)]
        while filling and self._given is None:
            sample, filling = filling[:SAMPLE], filling[SAMPLE:]
            filling = self._choose(planned, sample) + filling
        given = self._given
        if given is None:
            return planned
        return {id_: one.with_given(given) if self._feed(id_).may_borrow else one for id_, one in planned.items()}

    def _choose(self, planned: dict[str, Planned], sample: Sequence[str]) -> list[str]:
        """Choose a fleet's settings by the windows of some feeds; refuse feeds that fail, return the other plans."""

        def choose(ids: Sequence[str]) -> Preset:
            with self._context.turns.turn(self._held[ids[0]].begun()):
                return choose_for([self._feed(id_).filled_by(planned[id_].plan) for id_ in ids])

        try:
            self._given = choose(sample)
        except NotSolved:
            raise
        except Exception:
            log.exception("nothing could be chosen from %d series together; each is tried by itself", len(sample))
            found = dict(self._each(sample, lambda id_: choose([id_]), (NotSolved,)))
            for id_ in set(sample) - found.keys():
                del planned[id_]
            self._given = next(iter(found.values()), None)
            return list(found)
        return list(sample)

    def _feed(self, id: str) -> Forecaster:
        return self._held[id].current.forecaster


def refusal_of(error: Exception) -> Refusal:
    """Return the description of an error for the answer to the call."""
    if isinstance(error, InvalidInput):
        return Refusal(error.reason, error.row, error.field)
    if isinstance(error, StoreBehind):
        return Refusal("the store no longer has all that it had acknowledged", of_rows=False)
    if isinstance(error, ServiceError | SolverError | StoreError):
        return Refusal(str(error), of_rows=isinstance(error, NotOptimal))
    reason = f"failed in an unforeseen way, {type(error).__name__}, and is as it was; the log of the service says more"
    return Refusal(reason, of_rows=not isinstance(error, MemoryError))
