"""Readings of many feeds in one call: one step of the store logs them all, then each feed learns its own.

The feeds are held while that goes on, all in one order, so that their other calls come before or after it as a whole.
What a feed refuses, or fails with, whatever that is, changes nothing there, and nothing elsewhere. Done again under its
Idempotency-Key, a call has its effect on those that have not had it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

from livesvm.service import crash
from livesvm.service.errors import (
    IdempotencyConflict,
    NotSolved,
    QueueFull,
    ServiceError,
    UnknownFeed,
)
from livesvm.service.feeds.batch import Batch, BatchDone, Refusal
from livesvm.service.feeds.forecaster import Forecaster, Preset, choose_for
from livesvm.service.history.journal import append_together, remember_together, remembering
from livesvm.service.hosting.collection import Collection
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.feed import HostedFeed, Planned
from livesvm.service.hosting.handle import Reply
from livesvm.service.logs.audit import changed
from livesvm.service.resources.machine import give_back
from livesvm.service.store.base import Appending, StoreBehind, StoreError, StoreUnavailable
from livesvm.service.store.batches import batches
from livesvm.solvers.errors import InvalidInput, NotOptimal, SolverError

log = logging.getLogger(__name__)

SAMPLE = 5
"""Feeds from which the shared settings are chosen."""
HOT = 16
"""Feeds of a call that keep what the next one would make again."""
AT_ONCE = 64
"""Answers that are remembered in one step."""

T = TypeVar("T")


class Taking:
    """One batch under way.

    Parameters
    ----------
    home, context : where the feeds are, and what they share
    order : held while feeds are made to wait, so that any two batches come to all feeds in one order
    """

    def __init__(self, home: Collection[HostedFeed], context: Context, order: threading.Lock, batch: Batch) -> None:
        self._home, self._context, self._order, self._batch = home, context, order, batch
        self._done = BatchDone(given=batch.given)
        self._held: dict[str, HostedFeed] = {}
        self._records: dict[str, Appending] = {}  # that are logged, or may be
        self._learnt = self._woken = 0

    def run(self) -> BatchDone:
        """Take the batch; raises QueueFull, IdempotencyConflict or StoreUnavailable, with nothing changed."""
        try:
            self._hold()
            planned = self._planned()
            if planned:
                self._take(self._with_choice(planned))
        finally:
            self._release(list(self._held))
        done = self._done
        if self._learnt > HOT:
            give_back()
        if done.answers:
            changed("observe", "feeds", feeds=len(done.answers), refused=len(done.refused), replayed=done.replayed)
        return done

    def _hold(self) -> None:
        """Have the other calls of all feeds wait; those that are not served are refused, and new ones created."""
        waits: dict[str, Future[None]] = {}
        found = dict(self._each(self._batch.tables, self._found, QueueFull, StoreUnavailable))
        try:
            with self._order:
                waits.update(self._each(found, lambda id_: found[id_].hold(), QueueFull))
        finally:
            for id_, wait in waits.items():
                wait.result()
                self._held[id_] = found[id_]

    def _found(self, id: str) -> HostedFeed:
        """Return a feed by its id, creating it if it is missing and its rows can be accepted."""
        found = self._home.known(id)
        if found is not None:
            return found
        spec = self._batch.spec
        if spec is None:
            raise UnknownFeed("there is no such series, and the fleet creates none")
        self._batch.call(id).check(Forecaster(spec))
        return self._home.create(id, spec)

    def _planned(self) -> dict[str, Planned]:
        """Return the checked plan of the batch for each feed; nothing is written yet."""
        request = self._batch.request
        opened = [id_ for id_, _ in self._each(self._held, self._open, StoreUnavailable)]
        stored = [self._held[id_].stored for id_ in opened]
        known = set() if request is None else remembering(self._context.source, stored, request)
        planned: dict[str, Planned] = {}

        def plan(id: str) -> Reply | Planned:
            """Return the plan of one, which is logged under a digest of its own readings: erasures leave the others."""
            feed, call = self._held[id], self._batch.call(id)
            digest = b"" if request is None else call.digest()
            return feed.plan_with(call, digest, is_stored=feed.stored in known)

        for id_, found in self._each(opened, plan, IdempotencyConflict, StoreUnavailable):
            if isinstance(found, Reply):
                self._done.answers[id_] = found.body
                self._done.replayed += 1
            else:
                planned[id_] = found
        return planned

    def _open(self, id: str) -> None:
        """Have a feed take calls now; those at rest wake, and few of them stay hot."""
        feed = self._held[id]
        was_awake = feed.is_awake
        feed.open_with()
        if not was_awake:
            self._woken += 1
            if self._woken > HOT:
                feed.cool_held()  # or all that wake would hold at once what one makes at a time

    def _with_choice(self, planned: dict[str, Planned]) -> dict[str, Planned]:
        """Return the plan with the choices of a full window, for feeds that fill their window in this batch.

        Where the fleet has no choice, that of a feed that has models is taken: the process may have died before the
        fleet's was stored.
        """
        if self._done.given is None:
            feeds = map(self._feed, planned)
            self._done.given = next((one.made_with for one in feeds if one.models and one.spec.recipes is None), None)
        filling = [id_ for id_, one in planned.items() if self._feed(id_).fills_with(one.plan)]
        while filling and self._done.given is None:
            sample, filling = filling[:SAMPLE], filling[SAMPLE:]
            filling = self._choose(planned, sample) + filling
        given = self._done.given
        return planned if given is None else planned | {id_: planned[id_].with_given(given) for id_ in filling}

    def _choose(self, planned: dict[str, Planned], sample: Sequence[str]) -> list[str]:
        """Choose from some feeds; return them without those that fail by themselves, which are refused."""

        def choose(ids: Sequence[str]) -> Preset:
            with self._context.turns.turn(self._held[ids[0]].begun()):
                return choose_for([self._feed(id_).filled_by(planned[id_].plan) for id_ in ids])

        try:
            self._done.given = choose(sample)
        except NotSolved:
            raise
        except Exception:
            log.exception("nothing could be chosen from %d series together; each is tried by itself", len(sample))
            found = dict(self._each(sample, lambda id_: choose([id_]), NotSolved))
            for id_ in set(sample) - found.keys():
                del planned[id_]
            self._done.given = next(iter(found.values()), None)
            return list(found)
        return list(sample)

    def _feed(self, id: str) -> Forecaster:
        return self._held[id].current.forecaster

    def _take(self, planned: dict[str, Planned]) -> None:
        """Log all in one step, then have each feed apply its own."""
        settings = self._context.settings
        self._context.turns.check_open()
        self._records = records = dict(self._each(planned, lambda id_: self._held[id_].appending(planned[id_])))
        logged = list(records.values())
        crash.point("before-log")
        durability, errors = append_together(self._context.source, logged, settings.idempotency_keep)
        away = next((error for error in errors if isinstance(error, StoreUnavailable)), None)
        failed = dict(zip(records, errors, strict=True))

        def take(id: str) -> bytes:
            """Have one feed apply its own; its answer."""
            feed = self._held[id]
            reported = feed.take_with(planned[id], records[id], durability, failed[id])
            self._learnt += 1
            if self._learnt > HOT:
                with feed.following():
                    feed.cool_held()
            return reported

        for ids in batches(records, AT_ONCE):
            self._done.answers.update(self._each(ids, take))
            self._answered(ids)
        if away is not None:
            raise away

    def _answered(self, ids: Sequence[str]) -> None:
        """Remember the answers of some feeds, and let these go."""
        request, reported = self._batch.request, self._done.answers
        if request is not None:
            answers = [(self._held[id_].journal, request, reported[id_]) for id_ in ids if id_ in reported]
            if answers:
                remember_together(self._context.source, answers)
        crash.point("before-answer")
        self._release(ids)

    def _release(self, ids: Iterable[str]) -> None:
        """Have the other calls of some feeds run again."""
        for id_ in ids:
            feed = self._held.pop(id_)
            with feed.following():
                feed.release_with(self._records.get(id_))

    def _each(
        self, ids: Iterable[str], ask: Callable[[str], T], *concerns_all: type[Exception]
    ) -> Iterator[tuple[str, T]]:
        """Yield what is asked of each feed; one is refused for what it raises, unless that concerns all of them."""
        for id_ in ids:
            try:
                found = ask(id_)
            except concerns_all:
                raise
            except Exception as error:
                if not isinstance(error, ServiceError | SolverError | StoreError):
                    log.exception("feed %s failed in an unforeseen way; the others go on", id_)
                self._done.refused[id_] = refusal_of(error)
            else:
                yield id_, found


def refusal_of(error: Exception) -> Refusal:
    """Return the description of an error for the answer."""
    if isinstance(error, InvalidInput):
        return Refusal(error.reason, error.row, error.field)
    if isinstance(error, StoreBehind):
        return Refusal("the store no longer has all that it had acknowledged", of_rows=False)
    if isinstance(error, ServiceError | SolverError | StoreError):
        return Refusal(str(error), of_rows=isinstance(error, NotOptimal))
    reason = f"failed in an unforeseen way, {type(error).__name__}, and is as it was; the log of the service says more"
    return Refusal(reason, of_rows=not isinstance(error, MemoryError))
