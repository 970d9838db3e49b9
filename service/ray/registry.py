"""The models of a Ray cluster, by id, as one of several front ends sees them: it owns none, and the store knows all."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from prometheus_client.core import Metric

from livesvm.service.errors import TooManyModels, UnknownModel
from livesvm.service.history.names import is_feed
from livesvm.service.live.surroundings import Surroundings
from livesvm.service.logs.audit import changed
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.metrics import ModelSample
from livesvm.service.ray.calls import Call
from livesvm.service.ray.cluster import Cluster, answered, when_done
from livesvm.service.ray.handle_ray import RayModel
from livesvm.service.ray.messages import News, View, unpacked
from livesvm.service.ray.places import Place, place_of
from livesvm.service.store import codec
from livesvm.service.store.base import ModelExists, StoredModel, StoreError
from livesvm.service.store.redis import RedisStore
from livesvm.solvers.errors import InvalidInput

LOOK_SECONDS = 0.25
"""Between two looks at what the store knows, and whether actors have fallen silent."""
SCRAPE_SECONDS = 1.0
FIRST_SECONDS = 20.0
"""For which a start waits to hear of the models."""

log = logging.getLogger(__name__)


class _Watch:
    """What an actor has told of its models, and the call in which it tells what is new."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.incarnation, self.moment = "", 0
        self.views: dict[str, View] = {}
        self.is_asked = False
        self.heard_at = time.monotonic()


class RayRegistry:
    """Knows every model. Its calls block on the store and on Ray, but for :meth:`get` of known ones."""

    def __init__(self, around: Surroundings, gone: Callable[[str], object]) -> None:
        """Join the cluster; raises StoreUnavailable. ``gone`` is called with a model that another has deleted."""
        store = around.source.store
        assert isinstance(store, RedisStore)
        self._settings, self._health = around.settings, around.source.health
        self._store = store
        self._models: dict[str, RayModel] = {}
        self._watches: dict[str, _Watch] = {}
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self.open: set[Call] = set()
        self._gone = gone
        self.cluster = Cluster(around.settings)
        around.source.metrics.watch_others(self.scrape)

    # What routes ask.

    def get(self, model: str) -> RayModel:
        """The model of that id; raises UnknownModel or ModelUnavailable."""
        return self.find(model).serving()

    def find(self, model: str) -> RayModel:
        """The model of that id, which another front end may just have made; raises UnknownModel."""
        found = self._models.get(model)
        if found is None and self._health.store_up:
            with suppress(StoreError):
                found = self._learnt(self._store.model(model))
        if found is None:
            raise UnknownModel(f"there is no model {model[:64]!r}")
        return found

    def all(self) -> list[RayModel]:
        """Every model, by id."""
        return [model for _, model in sorted(self._models.items())]

    def states(self) -> list[ServingState]:
        """The state of every model."""
        return [model.state for model in self.all()]

    def samples(self) -> list[ModelSample]:
        """What the metrics show of every model."""
        return [model.sample() for model in self.all()]

    def create(self, spec: ModelSpec) -> RayModel:
        """Have an actor store a new model and start it; raises InvalidInput, ModelExists, TooManyModels, StoreError."""
        settings = self._settings
        if spec.n_features is not None and spec.n_features > settings.max_features:
            reason = f"is {spec.n_features}, LIVESVM_MAX_FEATURES is {settings.max_features}"
            raise InvalidInput(reason, field="n_features")
        id_ = spec.id or f"m-{secrets.token_hex(6)}"
        if len(self._models) >= settings.max_models:
            raise TooManyModels(f"there are {settings.max_models} models, the limit")
        with self._health.store_call("load"):
            if self._store.model(id_) is not None:
                raise ModelExists(f"a model {id_} exists")
        spec = spec.model_copy(update={"id": id_})
        made = RayModel(id_, spec, place_of(id_, settings.ray_actors), self, settings)
        with self._lock:
            self._models[id_] = made
        call = made.ask("create", spec, spec=spec)
        try:
            call.result()
        except BaseException as error:
            if not (isinstance(error, ModelExists) and call.tries > 1):  # else it is this one, made before it was lost
                with self._lock:
                    if self._models.get(id_) is made:
                        del self._models[id_]
                raise
        changed("create", id_, version=0)
        return made

    def delete(self, model: str) -> Future[None]:
        """Have a model removed with all that is stored of it; whoever asked calls :meth:`forget` when that is done."""
        return self.find(model).delete()

    def forget(self, model: str) -> None:
        """Let go of a model that was deleted."""
        with self._lock:
            self._models.pop(model, None)
        changed("delete", model)

    # What the service does by itself.

    def restore(self) -> None:
        """Learn which models there are, and wait a while to hear of each; raises StoreError."""
        self._look()
        threading.Thread(target=self._keep, name="ray-watch", daemon=True).start()
        end = time.monotonic() + FIRST_SECONDS
        while time.monotonic() < end and "restoring" in self.states():
            time.sleep(0.05)

    def scrape(self) -> list[Metric]:
        """What the actors tell of themselves, as far as they do within a second."""
        actors = [self.cluster.known(watch.place) for watch in list(self._watches.values())]
        asked = [actor.scrape.remote() for actor in actors if actor is not None]
        return [family for told in answered(asked, SCRAPE_SECONDS) for family in unpacked(told)]

    def restore_rest(self) -> None:
        """Actors do that by themselves."""

    def prepare(self) -> None:
        """Actors do that by themselves."""

    def watch(self) -> None:
        """Actors do that by themselves."""

    def take_over(self) -> None:
        """Actors do that by themselves."""

    def stop(self) -> None:
        """Leave the cluster; the models live on."""
        self._stopped.set()
        self.cluster.leave()

    # What calls ask.

    def saw(self, model: str, view: View | None, copy: Published | None) -> None:
        """A model is now so, or gone; a version to predict by may come with that."""
        found = self._models.get(model)
        if found is not None and view is not None:
            found.hear(view, time.monotonic())
            if copy is not None:
                found.hold(copy)

    def is_stored(self, model: str) -> bool:
        """Whether the store has a model; raises StoreError."""
        return self._store.model(model) is not None

    # In a thread of its own, and in Ray's.

    def _keep(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                if self._health.store_up:
                    self._look()
                self._ask_for_news()
                for call in list(self.open):
                    call.expire(self._is_silent)
            except StoreError:
                pass  # health knows
            except Exception:
                log.exception("the models of the cluster were not looked at; they are again")

    def _look(self) -> None:
        """Learn which models there are now."""
        before = dict(self._models)
        with self._health.store_call("load"):
            stored = {found.id: found for found in self._store.models() if not is_feed(found.id)}
        for id_ in stored.keys() - before.keys():
            self._learnt(stored[id_])
        for id_ in before.keys() - stored.keys():
            if not any(call.makes(id_) for call in list(self.open)):
                with self._lock:
                    self._models.pop(id_, None)
                self._gone(id_)

    def _learnt(self, stored: StoredModel | None) -> RayModel | None:
        """A model that is stored, known from now on."""
        if stored is None or is_feed(stored.id):
            return None
        try:
            spec = ModelSpec.model_validate_json(codec.decode(stored.spec)["spec"])
        except StoreError:
            spec = ModelSpec(id=stored.id)  # its actor says what is wrong with it
        with self._lock:
            if stored.id not in self._models:
                place = place_of(stored.id, self._settings.ray_actors)
                self._models[stored.id] = found = RayModel(stored.id, spec, place, self, self._settings)
                if (watch := self._watches.get(place.name)) is not None and stored.id in watch.views:
                    found.hear(watch.views[stored.id], watch.heard_at)
            return self._models[stored.id]

    def _ask_for_news(self) -> None:
        """Have every actor that models live in tell what is new; forget those that none lives in any more."""
        models: dict[str, list[RayModel]] = {}
        for model in self.all():
            models.setdefault(model.place.name, []).append(model)
        for name in self._watches.keys() - models.keys():
            self._watches.pop(name, None)
        for name, there in models.items():
            watch = self._watches.setdefault(name, _Watch(there[0].place))
            if not watch.is_asked:
                try:
                    self._ask(watch, self.cluster.actor(watch.place, there[0].spec))
                except Exception as error:
                    self._told(watch, None, error)

    def _ask(self, watch: _Watch, actor: Any) -> None:
        watch.is_asked = True
        there = {model.id: model for model in self.all() if model.place == watch.place}
        predicted = {id_: rows for id_, model in there.items() if (rows := model.recent.taken())}
        try:
            when_done(actor.watch.remote(watch.incarnation, watch.moment, predicted), partial(self._told, watch))
        except Exception:
            watch.is_asked = False  # the next look asks again
            raise

    def _told(self, watch: _Watch, message: bytes | None, error: BaseException | None) -> None:
        """Take in what an actor tells, and ask for more; one that was lost is asked again at the next look."""
        there = [model for model in self.all() if model.place == watch.place]
        if message is None:
            if error is not None:
                self.cluster.lost(watch.place, error)
            for model in there:
                model.is_lost = True
            watch.is_asked = False
            return
        news = unpacked(message)
        watch.heard_at = time.monotonic()
        if not isinstance(news, News) or self._stopped.is_set():
            watch.is_asked = False
            return
        watch.incarnation, watch.moment = news.incarnation, news.moment
        told = watch.views | news.views
        watch.views = {id_: view for id_, view in told.items() if id_ in news.models}  # some may not be known here yet
        for model in there:
            if model.id in news.models:
                model.hear(watch.views.get(model.id), watch.heard_at)
        actor = self.cluster.known(watch.place)
        if actor is None or watch.place.name not in self._watches:
            watch.is_asked = False
        else:
            self._ask(watch, actor)

    def _is_silent(self, place: Place) -> bool:
        watch = self._watches.get(place.name)
        return watch is None or time.monotonic() - watch.heard_at > self._settings.lease_seconds
