"""All models, or all feeds, as a front end knows them: from the store's index and from actors' announcements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from livesvm.service.feeds.batch import Batch, BatchDone
from livesvm.service.history.names import id_of
from livesvm.service.hosting import summary
from livesvm.service.hosting.collection import Collection, Kind
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.kinds import FEED, MODEL
from livesvm.service.hosting.logged import first_summary
from livesvm.service.models.types import ServingState
from livesvm.service.ray import commands
from livesvm.service.ray.actors import Actors
from livesvm.service.ray.calls import Call
from livesvm.service.ray.handle import RemoteFeed, RemoteModel, is_told
from livesvm.service.ray.messages import View
from livesvm.service.store.base import Indexed, StoreError

MODELS: Kind[Any] = replace(cast("Kind[Any]", MODEL), replica=RemoteModel)
FEEDS: Kind[Any] = replace(cast("Kind[Any]", FEED), replica=RemoteFeed)


class RemoteCollection(Collection[Any]):
    """All models or all feeds, which live in actors and not in this process. Methods of this collection wait for the
    store and for actors, except :meth:`get` of a known replica.

    Only replicas that are awake or unavailable in their actors have a handle here; all other replicas only have an
    index entry.
    """

    def __init__(self, kind: Kind[Any], context: Context, actors: Actors) -> None:
        super().__init__(kind, context, lambda size: None)
        self.actors = actors

    def find(self, id: str) -> Any:
        """Return a replica, even if another front end has just created it; raises UnknownModel or UnknownFeed."""
        source, stored = self._context.source, self.kind.stored(id)
        if self.known(id) is None and source.health.store_up and id_of(stored) == id:
            with suppress(StoreError):
                for found in source.store.index([stored]):
                    self.learn([found])
        return super().find(id)

    def states(self) -> Mapping[ServingState, int]:
        """Return the number of replicas by state."""
        return Counter(one.state for one in self.page()) if self.actors.is_lost else super().states()

    def create(self, id: str | None, spec: Any) -> Any:
        """Create a replica in its actor; raises the errors that the actor's collection raises."""
        kind = self.kind
        kind.check(spec, self._context)
        id = id or self.new_id()
        stored = kind.stored(id)
        self._check_new(id, stored)
        with self._reserved(id):
            made = self._add(id, Indexed(stored, 0, first_summary(spec, kind.replica.home.wakes(spec)), 0))
            call = made.ask(commands.CREATE(spec))
            try:
                call.result()
            except BaseException as error:
                if not (isinstance(error, kind.exists) and call.tries > 1):  # else it was made before it was lost
                    self.drop(id)
                    raise
        return made

    def _check_new(self, id: str, stored: str) -> None:
        """Raise an error if another front end has created this replica; forget it if another one has deleted it."""
        with self._context.source.health.store_call("load"):
            if self.actors.is_stored(stored):
                raise self._exists(id)
        if id in self.settled():
            self.drop(id)

    def observe_many(self, batch: Batch) -> BatchDone:
        """Send each actor its part of a batch as one call; raises the first error from an actor's collection."""
        parts: dict[str, list[str]] = {}
        for id_ in batch.tables:
            parts.setdefault(self.actors.at(self.kind.stored(id_)).place.name, []).append(id_)
        calls = [self._asked(batch.part(ids)) for ids in parts.values()]
        done, errors = BatchDone(given=batch.given), list[Exception]()
        for call in calls:
            try:
                done.add(call.result())
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        if new := [self.kind.stored(id_) for id_ in done.answers if id_ not in self]:
            with suppress(StoreError):
                self.learn(list(self._context.source.store.index(new)))  # the index is read before this is locked
        return done

    def _asked(self, part: Batch) -> Call:
        """Send an actor its part of a batch, by a call to the first feed in that part, which may be a new feed."""
        id_ = next(iter(part.tables))
        found = self.known(id_)
        if found is None:
            stored = self.kind.stored(id_)
            found = self.kind.replica(id_, stored, Indexed(stored, 0, b"", 0), self._context, self)
        call: Call = found.ask(commands.OBSERVE_MANY(part, part.request))
        return call

    def forget(self, id: str) -> None:
        """Forget a deleted replica."""
        self.drop(id)

    # What actors tell.

    def seen(self, stored: str, view: View | None = None) -> None:
        """Store the new view of a replica; None means that only the index entry describes the replica."""
        id_ = id_of(stored)
        with self._lock:
            if id_ not in self._index:
                return
            replica: Any = self.known(id_)
            if view is not None and view.state != "restoring":
                self._stale.discard(id_)
            if view is None or view.rests:
                self._kept.pop(id_, None)
            else:
                self._kept[id_] = replica
            if view is not None and isinstance(view.now, Indexed):
                self._index[id_] = view.now
                replica.found_again(view.now)
            replica.learn()

    def settled(self) -> set[str]:
        """Return the ids of all replicas, except those that are being created."""
        with self._lock:
            return self._index.keys() - self._making

    def drop(self, id: str) -> None:
        """Remove a replica and its view from this collection."""
        with self._lock:
            if id in self._index:
                self.actors.forget(self.kind.stored(id))
            super().drop(id)

    def _learn(self, found: Indexed) -> None:
        id_ = id_of(found.id)
        there = self.actors.at(found.id)
        super()._learn(found._replace(holder="", damage=""))  # its actor knows both
        if id_ in self._stale and is_told(found, summary.read(found.summary)):
            self._stale.discard(id_)
        if (replica := self._handles.get(id_)) is not None:
            replica.found_again(found)
        elif (view := there.view(found.id)) is not None:
            self.seen(found.id, view)
