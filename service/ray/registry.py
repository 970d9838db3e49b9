"""The models of a Ray cluster, by id, as one of several front ends sees them: it owns none, and the store knows all."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress

from livesvm.service.errors import TooManyModels, UnknownModel
from livesvm.service.history.names import is_feed
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.metrics import ModelSample
from livesvm.service.ray.handle_ray import RayModel
from livesvm.service.ray.office import Office
from livesvm.service.ray.places import place_of
from livesvm.service.store import codec
from livesvm.service.store.base import ModelExists, StoredModel, StoreError
from livesvm.solvers.errors import InvalidInput


class RayRegistry:
    """Knows every model. Its calls block on the store and on Ray, but for :meth:`get` of known ones."""

    def __init__(self, around: Surroundings, gone: Callable[[str], object]) -> None:
        """Raise StoreUnavailable if no cluster is named. ``gone`` is called with a model that another has deleted."""
        self._models: dict[str, RayModel] = {}
        self._lock = threading.RLock()
        self.gone = gone
        self.office = Office(around)
        self.office.keep(self)

    # What routes ask.

    def get(self, model: str) -> RayModel:
        """The model of that id; raises UnknownModel or ModelUnavailable."""
        return self.find(model).serving()

    def readable(self, model: str) -> RayModel:
        """The same: whoever holds a model, it is in an actor."""
        return self.get(model)

    def find(self, model: str) -> RayModel:
        """The model of that id, which another front end may just have made; raises UnknownModel."""
        found, office = self._models.get(model), self.office
        if found is None and office.health.store_up and not is_feed(model):
            with suppress(StoreError):
                stored = office.store.model(model)
                found = None if stored is None else self.learn(stored)
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
        settings, office = self.office.settings, self.office
        if spec.n_features is not None and spec.n_features > settings.max_features:
            reason = f"is {spec.n_features}, LIVESVM_MAX_FEATURES is {settings.max_features}"
            raise InvalidInput(reason, field="n_features")
        id_ = spec.id or f"m-{secrets.token_hex(6)}"
        if len(self._models) >= settings.max_models:
            raise TooManyModels(f"there are {settings.max_models} models, the limit")
        with office.health.store_call("load"):
            if office.store.model(id_) is not None:
                raise ModelExists(f"a model {id_} exists")
        spec = spec.model_copy(update={"id": id_})
        made = RayModel(id_, spec, place_of(id_, settings.ray_actors), office, settings)
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
        return made

    def delete(self, model: str) -> Future[None]:
        """Have a model removed with all that is stored of it; whoever asked calls :meth:`forget` when that is done."""
        return self.find(model).delete()

    def forget(self, model: str) -> None:
        """Let go of a model that was deleted."""
        with self._lock:
            self._models.pop(model, None)

    # What the service does by itself.

    def restore(self) -> None:
        """Learn which models there are, and wait a while to hear of each; raises StoreError."""
        self.office.restore()

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
        self.office.stop()

    # What the office asks.

    def by_name(self) -> Mapping[str, RayModel]:
        """Those that are known, by what they are stored under."""
        return dict(self._models)

    def holds(self, stored: str) -> bool:
        """Whether what is stored under this is a model."""
        return not is_feed(stored)

    def learn(self, found: StoredModel) -> RayModel:
        """A model that is stored, known from now on."""
        try:
            spec = ModelSpec.model_validate_json(codec.decode(found.spec)["spec"])
        except StoreError:
            spec = ModelSpec(id=found.id)  # its actor says what is wrong with it
        settings = self.office.settings
        with self._lock:
            if found.id not in self._models:
                place = place_of(found.id, settings.ray_actors)
                self._models[found.id] = made = RayModel(found.id, spec, place, self.office, settings)
                self.office.told_of(made)
            return self._models[found.id]

    def drop(self, stored: str) -> None:
        """A model that another front end has deleted."""
        with self._lock:
            self._models.pop(stored, None)
        self.gone(stored)
