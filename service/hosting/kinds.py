"""The collections of a service's models and of its feeds, with the differences between the two."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from livesvm.service.errors import FeedExists, ModelUnavailable, TooManyFeeds, TooManyModels
from livesvm.service.feeds.batch import Batch, BatchDone
from livesvm.service.feeds.size import features_at_most, feed_bytes
from livesvm.service.feeds.sources.opening import url_of
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.history.names import FEEDS
from livesvm.service.hosting.batch import ReadingsTogether, UpdatesTogether
from livesvm.service.hosting.collection import Collection, Kind
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.feed import HostedFeed
from livesvm.service.hosting.handle import Updated
from livesvm.service.hosting.model import HostedModel
from livesvm.service.hosting.standby import Standby
from livesvm.service.models.spec import ModelSpec
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.store.base import ModelExists, StoreError
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.change import Change


def _check_model(spec: ModelSpec, context: Context) -> None:
    limit = context.settings.max_features
    if spec.n_features is not None and spec.n_features > limit:
        raise InvalidInput(f"is {spec.n_features}, LIVESVM_MAX_FEATURES is {limit}", field="n_features")


def _check_feed(spec: FeedSpec, context: Context) -> None:
    settings = context.settings
    for name, size, most in (
        ("window", spec.window, settings.max_examples),
        ("features", features_at_most(spec), settings.max_features),
    ):
        if size > most:
            raise InvalidInput(f"makes {size}, the limit is {most}", field=name)
    if spec.source is not None:
        url_of(spec.source, settings)
    context.budget.check("models", feed_bytes(spec))


MODEL = Kind(HostedModel, "", "m", ModelExists, TooManyModels, lambda settings: settings.max_models, _check_model)
FEED = Kind(HostedFeed, FEEDS, "f", FeedExists, TooManyFeeds, lambda settings: settings.max_feeds, _check_feed)


class HostedModels(Collection[HostedModel]):
    """The models of one service, with copies of the models that another service holds."""

    def __init__(self, kind: Kind[HostedModel], context: Context, make_room: Callable[[int], None]) -> None:
        super().__init__(kind, context, make_room)
        self._standbys: dict[str, Standby] = {}
        self._standby_lock = threading.Lock()
        self._order = threading.Lock()

    def create(self, id: str | None, spec: ModelSpec) -> HostedModel:
        """Store a new model; raises InvalidInput, ModelExists, TooManyModels or StoreError."""
        chosen = id or spec.id or self.new_id()
        return super().create(chosen, spec.model_copy(update={"id": chosen}))

    def readable(self, id: str) -> HostedModel | Standby:
        """Return the model, or a copy of it if another service holds it; raises the errors of :meth:`get`."""
        found = self.find(id)
        if found.state != "held":
            return found.serving()  # type: ignore[no-any-return]
        with self._standby_lock:
            standby = self._standbys.get(id)
            if standby is None or standby.spec != found.spec:  # another one was made under that id
                self._standbys[id] = Standby(id, found.spec, self._context)
                if standby is not None:
                    standby.release()
            return self._standbys[id]

    def update_many(self, updates: Mapping[str, Change], request: str | None, asked: Solve) -> Updated:
        """Update many models in one step; see :mod:`~livesvm.service.hosting.batch`."""
        if self._is_closed:
            raise ModelUnavailable("the service is being stopped")
        return UpdatesTogether(self, self._context, self._order, request, updates, asked).run()

    def tidy(self) -> None:
        """Drop unused copies of models, and copies of models that no other service holds any more."""
        for id_, standby in list(self._standbys.items()):
            found = self.known(id_)
            if found is not None and found.state == "held":
                with suppress(StoreError):
                    standby.tidy()
            else:
                self._standbys.pop(id_).release()


class HostedFeeds(Collection[HostedFeed]):
    """The feeds of one service."""

    def __init__(self, kind: Kind[HostedFeed], context: Context, make_room: Callable[[int], None]) -> None:
        super().__init__(kind, context, make_room)
        self._order = threading.Lock()

    def observe_many(self, batch: Batch) -> BatchDone:
        """Add readings to many feeds in one step; see :mod:`~livesvm.service.hosting.batch`."""
        if self._is_closed:
            raise ModelUnavailable("the service is being stopped")
        return ReadingsTogether(self, self._context, self._order, batch).run()
