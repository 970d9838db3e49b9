"""The collection of all models, or of all feeds, by id: it creates, finds, lists and deletes these replicas. A replica
at rest takes no more memory than its index entry."""

from __future__ import annotations

import secrets
import threading
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

from livesvm.service.errors import ModelUnavailable, ServiceError
from livesvm.service.feeds.batch import Batch, BatchDone
from livesvm.service.history.names import AFTER_SERIES, fleet_of
from livesvm.service.hosting import summary
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.handle import FeedHandle, ModelHandle, Reader, Reply, Updated
from livesvm.service.hosting.logged import first_summary
from livesvm.service.hosting.replica import Replica
from livesvm.service.logs.calls import changed
from livesvm.service.models.types import ServingState
from livesvm.service.resources.pools import LOOK_SECONDS
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.settings import Settings
from livesvm.service.store.base import Indexed, ModelExists, StoreError
from livesvm.solvers.models.change import Change

R = TypeVar("R", covariant=True)


@dataclass(frozen=True)
class Kind(Generic[R]):
    """The differences between the two kinds of replicas, models and feeds.

    Parameters
    ----------
    replica : the class of the handles
    prefix : prefix of the names under which replicas are stored
    letter : first letter of generated ids
    exists, too_many : errors that refuse a new replica
    limit : returns how many replicas the settings allow
    check : raises InvalidInput for a specification that this service does not accept, or OutOfMemory
    """

    replica: type[R]
    prefix: str
    letter: str
    exists: type[Exception]
    too_many: type[ServiceError]
    limit: Callable[[Settings], int]
    check: Callable[[Any, Context], None]

    def stored(self, id: str) -> str:
        """Return the name of a replica in the store."""
        return self.prefix + id


class Collection(Generic[R]):
    """The owner of all replicas of one kind, models or feeds. Its methods block while the store works, except methods
    that only read memory.

    ``_index`` has an entry for each replica. ``_kept`` has the handles of replicas that are awake or unavailable.
    ``_handles`` has every handle that any code references, so that no replica ever gets a second handle.
    """

    def __init__(self, kind: Kind[R], context: Context, make_room: Callable[[int], None]) -> None:
        self.kind: Kind[Any] = kind
        self._context, self.make_room = context, make_room
        self._lock = threading.RLock()
        self._index: dict[str, Indexed] = {}
        self._ids: list[str] = []
        self._kept: dict[str, Any] = {}
        self._handles: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._stale: set[str] = set()
        self._held_by: dict[str, set[str]] = {}
        self._making: set[str] = set()
        self._dropped: set[str] | None = None  # while the store's index is being read
        self._addresses: dict[str, str] = {}
        self._is_closed = False
        self.active = ""  #: another service that takes the calls, and so also replicas that no service holds

    # What routes and jobs ask.

    def get(self, id: str) -> R:
        """Return the replica if it is served; raises UnknownModel or UnknownFeed, ModelUnavailable or Restoring."""
        served: R = cast("Replica[Any]", self.find(id)).serving()
        if self._is_closed:
            raise ModelUnavailable("the service is being stopped")
        return served

    def readable(self, id: str) -> Reader:
        """Return the model, or a copy of it that can predict too; raises the errors of :meth:`get`."""
        return cast("Reader", self.get(id))

    def find(self, id: str) -> R:
        """Return the replica with this id, served or not; raises UnknownModel or UnknownFeed."""
        if (found := self.known(id)) is None:
            raise self.kind.replica.gone(f"there is no {self.kind.replica.word} {id[:64]!r}")
        return found

    def known(self, id: str) -> R | None:
        """Return the replica with this id, served or not; None if no replica has the id."""
        with self._lock:
            found: R | None = self._handles.get(id)
            if found is None and (indexed := self._index.get(id)) is not None:
                found = self._handle(id, indexed)
            return found

    def page(self, after: str = "", limit: int | None = None, under: str = "") -> list[R]:
        """Return up to ``limit`` replicas with ids that follow ``after`` and begin with ``under``, sorted by id.

        If ``under`` is empty, return replicas with any id, except the series of fleets.
        """
        with self._lock:
            ids = list(islice(self._listed(after, under), limit))
        return [found for id_ in ids if (found := self.known(id_)) is not None]

    def _listed(self, after: str, under: str) -> Iterator[str]:
        """Yield the ids that follow ``after`` and begin with ``under``; if it is empty, all ids but those of series."""
        at = bisect_right(self._ids, after) if after else bisect_left(self._ids, under)
        while at < len(self._ids):
            id_ = self._ids[at]
            if under and not id_.startswith(under):
                return
            if not under and (fleet := fleet_of(id_)) is not None:
                at = bisect_left(self._ids, fleet + AFTER_SERIES)
                continue
            yield id_
            at += 1

    def count(self, under: str) -> int:
        """Return the number of ids that begin with the prefix ``under``."""
        with self._lock:
            return bisect_left(self._ids, under[:-1] + AFTER_SERIES) - bisect_left(self._ids, under)

    def __contains__(self, id: str) -> bool:
        """Return whether a replica has this id."""
        return id in self._index

    def __len__(self) -> int:
        """Return the number of replicas."""
        return len(self._ids)

    def awake(self) -> list[R]:
        """Return the replicas with a state in memory, and the replicas that are unavailable."""
        with self._lock:
            return list(self._kept.values())

    def troubles(self) -> list[str]:
        """Return a message for each feed with a source that cannot be read."""
        awake: list[Any] = self.awake()
        flows = [(feed, feed.flow) for feed in awake]
        return sorted(f"the source of {feed}: {flow.fault}" for feed, flow in flows if flow is not None and flow.fault)

    def observe_many(self, batch: Batch) -> BatchDone:
        """Add readings to many feeds; each process that hosts some of the feeds stores its part in one transaction.

        Raises QueueFull, IdempotencyConflict or StoreUnavailable. A repeated call has no second effect.
        """
        raise NotImplementedError(f"there are no readings of a {self.kind.replica.word}")

    def update_many(self, updates: Mapping[str, Change], request: str | None, asked: Solve) -> Updated:
        """Update many models, each independently of the others; ``request`` is the Idempotency-Key of the call.

        ``asked`` holds the time limit of the call, and ends when the client disconnects. Updates that have not begun by
        then are cancelled.
        """
        waits: dict[str, Future[Reply]] = {}
        answers, errors, replayed = dict[str, bytes](), dict[str, Exception](), 0
        for id_, update in updates.items():
            try:
                waits[id_] = cast("ModelHandle", self.get(id_)).update(update, request, Solve(until=asked.until))
            except (ServiceError, StoreError) as error:
                errors[id_] = error
        for id_, wait in waits.items():
            try:
                while not wait_for({wait}, LOOK_SECONDS).done:
                    if asked.has_ended and wait.cancel():
                        asked.check()
                reply = wait.result()
            except Exception as error:
                errors[id_] = error
            else:
                answers[id_] = reply.body
                replayed += reply.replayed
        return Updated(answers, errors, replayed)

    def states(self) -> Mapping[ServingState, int]:
        """Return the number of replicas in each state."""
        with self._lock:
            kept = dict(self._kept)
            held = sum(len(ids - kept.keys()) for ids in self._held_by.values())
            stale = len(self._stale - kept.keys())
            resting = len(self._ids) - len(kept) - held - stale
        counts: Counter[ServingState] = Counter(replica.state for replica in kept.values())
        counts.update({"held": held, "restoring": stale, "live": resting})
        return +counts

    def glance(self, limit: int) -> Mapping[str, object]:
        """Return a value that changes when any description of an awake replica or of the first ``limit`` changes."""
        with self._lock:
            found: dict[str, object] = {id_: self._index[id_] for id_ in islice(self._listed("", ""), limit)}
            kept = [replica for replica in self._kept.values() if fleet_of(replica.id) is None]
        return found | {replica.id: replica.stamp() for replica in kept}

    def samples(self, limit: int) -> list[Any]:
        """Return the metrics samples of the first ``limit`` replicas that are served."""
        with self._lock:
            held = set[str]().union(*self._held_by.values())
            ids = [id_ for id_ in self._listed("", "") if id_ not in held]
        return list(islice(_samples(map(self.known, ids)), limit))

    def samples_awake(self) -> list[Any]:
        """Return the metrics samples of replicas that are awake and served, except the series of fleets."""
        awake: list[Any] = self.awake()
        return list(_samples(one for one in awake if fleet_of(one.id) is None))

    def samples_at_rest(self) -> Iterator[Any]:
        """Yield the metrics samples of replicas at rest, except fleets' series; each is computed when it is needed."""
        with self._lock:
            held = set[str]().union(*self._held_by.values())
            ids = [id_ for id_ in self._listed("", "") if id_ not in held and id_ not in self._kept]
        yield from _samples(self.known(id_) for id_ in ids if id_ not in self._kept)

    def create(self, id: str | None, spec: Any) -> R:
        """Store a new replica; raises InvalidInput, OutOfMemory, StoreError, ``exists`` or ``too_many`` of its kind."""
        kind, source = self.kind, self._context.source
        kind.check(spec, self._context)
        id = id or self.new_id()
        stored, reported = kind.stored(id), first_summary(spec, kind.replica.wakes(spec))
        try:
            with self._reserved(id):
                with source.health.store_call("create"):
                    lease = source.store.create(stored, kind.replica.encode_spec(spec), 0, reported)
                replica: Any = self._add(id, Indexed(stored, 0, reported, 0))
                replica.begin(lease)  # if that fails, the replica is stored all the same, and wakes for the next call
        except ModelExists:
            if id not in self:  # an earlier call created it and was not answered, or another service has created it
                with source.health.store_call("load"):
                    for found in source.store.index([stored]):
                        self.learn_again(found)
            raise self._exists(id) from None
        changed("create", replica.audit_name, version=0)
        return cast("R", replica)

    def new_id(self) -> str:
        """Generate an id."""
        return f"{self.kind.letter}-{secrets.token_hex(6)}"

    def delete(self, id: str) -> Future[None]:
        """Delete a replica with all its stored data; raise an error immediately if another service holds the replica.

        The returned future raises later errors. The caller calls :meth:`forget` when the future is done.
        """
        return cast("Replica[Any]", self.find(id)).delete()

    def forget(self, id: str) -> None:
        """Remove a deleted replica from the collection, and stop its work."""
        found: Any = self.known(id)
        self.drop(id)
        if found is not None:
            changed("delete", found.audit_name)
            found.stop()

    # What its replicas tell.

    def woke(self, replica: Replica[Any]) -> None:
        """Keep the handle of a replica that has become awake or unavailable."""
        with self._lock:
            if self._handles.get(replica.id) is replica:
                self._kept[replica.id] = replica
                self._stale.discard(replica.id)

    def rested(self, replica: Replica[Any], now: Indexed) -> None:
        """Drop the handle of a replica that has gone to rest, and keep ``now`` as the replica's index entry."""
        with self._lock:
            if self._kept.pop(replica.id, None) is not None:
                self._index[replica.id] = now

    # What the registry does.

    def learn(self, found: Iterable[Indexed]) -> None:
        """Add all entries of the store's index, when the service starts."""
        with self._lock:
            for one in found:
                self._learn(one)
            self._ids = sorted(self._index)

    def learn_again(self, found: Indexed) -> None:
        """Replace the index entry of a replica that is not awake."""
        id_ = found.id.removeprefix(self.kind.prefix)
        with self._lock:
            replica = self._handles.get(id_)
            if id_ in self._making or (replica is not None and replica.is_awake):
                return
            if self._dropped is not None and id_ in self._dropped and id_ not in self._index:
                return  # it was deleted after it was read
            for ids in self._held_by.values():
                ids.discard(id_)
            self._kept.pop(id_, None)
            if id_ not in self._index:
                insort(self._ids, id_)
            self._learn(found)
            if replica is not None:
                replica.found_again(found)
                self._judge(replica, found)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While the block reads the store's index, record which replicas are dropped, so that it does not add them."""
        self._dropped = set()
        try:
            yield
        finally:
            self._dropped = None

    def _learn(self, found: Indexed) -> None:
        id_ = found.id.removeprefix(self.kind.prefix)
        self._index[id_] = found
        if holder := self._elsewhere(found):
            self._held_by.setdefault(holder, set()).add(id_)
        elif found.damage:
            self._handle(id_, found)
        elif summary.wakes(found.summary) or found.described < found.sequence or not found.sequence:
            self._stale.add(id_)

    def drop(self, id: str) -> None:
        """Remove all entries of a replica."""
        with self._lock:
            if self._dropped is not None:
                self._dropped.add(id)
            if self._index.pop(id, None) is not None:
                del self._ids[bisect_left(self._ids, id)]
            self._kept.pop(id, None)
            self._handles.pop(id, None)
            self._stale.discard(id)
            for ids in self._held_by.values():
                ids.discard(id)

    def stale(self) -> list[str]:
        """Return the ids of replicas to wake, because their index entry may be outdated or they must read a source."""
        with self._lock:
            return sorted(self._stale)

    def resting(self) -> list[str]:
        """Return the ids of replicas at rest that no code holds a handle of."""
        with self._lock:
            referenced = set(self._handles)
            return [id_ for id_ in self._ids if id_ not in referenced]

    def holders(self) -> dict[str, list[str]]:
        """Map each other service to the stored names of the replicas it holds; "" stands for an unknown service."""
        with self._lock:
            self._addresses.clear()
            found = {name: [self.kind.stored(id_) for id_ in ids] for name, ids in self._held_by.items() if ids}
            unknown = [replica.stored for replica in self._kept.values() if replica.state == "held"]
        named = {id_ for ids in found.values() for id_ in ids}
        if rest := [id_ for id_ in unknown if id_ not in named]:
            found[""] = rest
        return found

    def gone_except(self, stored: set[str]) -> list[str]:
        """Return the ids of replicas that are neither in ``stored``, nor awake, nor being created."""
        with self._lock:
            busy = {id_ for id_, replica in self._kept.items() if replica.is_awake} | self._making
            return [id_ for id_ in self._ids if id_ not in busy and self.kind.stored(id_) not in stored]

    def close(self) -> None:
        """Refuse all further calls."""
        self._is_closed = True

    def all_handles(self) -> list[R]:
        """Return every handle that is referenced."""
        with self._lock:
            return list(self._handles.values())

    def _add(self, id: str, found: Indexed) -> Any:
        with self._lock:
            self._index[id] = found
            insort(self._ids, id)
            return self._handle(id, found)

    def _handle(self, id: str, found: Indexed) -> Any:
        """Create the handle of a replica; no second handle is created while this one is referenced."""
        made = self.kind.replica(id, self.kind.stored(id), found, self._context, self)
        self._handles[id] = made
        self._judge(made, found)
        return made

    def _judge(self, replica: Replica[Any], found: Indexed) -> None:
        """Make a replica unavailable if the index says that another service holds it or that it is damaged."""
        if holder := self._elsewhere(found):
            with suppress(StoreError):
                replica.held_elsewhere(f"it is held by another service, {self._where(holder)}")
        elif found.damage:
            replica.set_aside("failed", found.damage)

    def _elsewhere(self, found: Indexed) -> str:
        """Return the name of the other service that holds a replica, empty if none does."""
        return self.active if found.holder in ("", self._context.holder) else found.holder

    def _where(self, holder: str) -> str:
        """Return the public address of a service; it is cached until :meth:`holders` is called again."""
        if holder not in self._addresses:
            self._addresses[holder] = self._context.source.store.whereabouts(holder)
        return self._addresses[holder]

    def _exists(self, id: str) -> Exception:
        return self.kind.exists(f"a {self.kind.replica.word} {id} exists")

    @contextmanager
    def _reserved(self, id: str) -> Iterator[None]:
        """Reserve an id while the block creates the replica, and count the id towards the quota."""
        most = self.kind.limit(self._context.settings)
        if self.active:
            raise ModelUnavailable(f"this service stands by; create it at the active one, {self._where(self.active)}")
        with self._lock:
            if id in self._index or id in self._making:
                raise self._exists(id)
            if len(self._index) + len(self._making) >= most:
                word = self.kind.replica.word
                raise self.kind.too_many(f"there are {most} {word}s, as many as LIVESVM_MAX_{word.upper()}S allows")
            self._making.add(id)
        try:
            yield
        finally:
            self._making.discard(id)


def _samples(replicas: Iterable[Any]) -> Iterator[Any]:
    """Yield the samples of replicas that exist and are served."""
    for one in replicas:
        if one is not None and one.is_served and (sample := one.sample()) is not None:
            yield sample


class Hosting(Protocol):
    """All models and feeds of one service, in this process or in others. Its methods block while the store works."""

    @property
    def models(self) -> Models:
        """The models."""

    @property
    def feeds(self) -> Feeds:
        """The feeds."""

    def restore(self) -> None:
        """Read all models and feeds from the store's index; raises StoreError."""

    def watch(self, most: int | None = None) -> None:
        """Find replicas that another service has taken over, or that the store has lost; raises StoreError.

        If no other service uses the store, each call checks at most ``most`` replicas, in turn.
        """

    def take_over(self) -> None:
        """Take over replicas that other services released, and drop those that other services deleted.

        Raises StoreError.
        """

    def stop(self) -> None:
        """Release all models and feeds."""


Models = Collection[ModelHandle]
Feeds = Collection[FeedHandle]
