"""The models of one service, by id: create, find, restore, delete."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from service.errors import ModelUnavailable, TooManyModels, UnknownModel
from service.live import LiveModel, Surroundings
from service.metrics import ModelSample
from service.schemas import ModelSpec
from service.store import codec
from service.store.base import Lease, ModelExists, StoredModel, StoreError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FailedModel:
    """A stored model that could not be restored, and why."""

    id: str
    spec: ModelSpec
    lease: Lease
    reason: str


class Registry:
    """Owns every model. Its calls block on the store; none belongs on the event loop except :meth:`get`."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._models: dict[str, LiveModel | FailedModel] = {}
        self._making: set[str] = set()
        self._lock = threading.Lock()

    def get(self, model: str) -> LiveModel:
        """The live model of that id; raises UnknownModel or ModelUnavailable."""
        found = self.find(model)
        if isinstance(found, FailedModel):
            raise ModelUnavailable(f"model {model} could not be restored: {found.reason}")
        return found

    def find(self, model: str) -> LiveModel | FailedModel:
        """The model of that id, whatever its state; raises UnknownModel."""
        found = self._models.get(model)
        if found is None:
            raise UnknownModel(f"there is no model {model[:64]!r}")
        return found

    def all(self) -> list[LiveModel | FailedModel]:
        """Every model, by id."""
        return [model for _, model in sorted(self._models.items())]

    def samples(self) -> list[ModelSample]:
        """What the metrics show of every model."""
        return [m.sample() if isinstance(m, LiveModel) else ModelSample(m.id, failed=True) for m in self.all()]

    def create(self, spec: ModelSpec) -> LiveModel:
        """Store a new model and start it; raises ModelExists, TooManyModels or StoreError."""
        model = spec.id or f"m-{secrets.token_hex(6)}"
        spec = spec.model_copy(update={"id": model})
        with self._reserved(model):
            store, health = self._around.source.store, self._around.source.health
            with health.store_call("create"):
                lease = store.create(model, codec.encode({"spec": spec.model_dump_json()}))
            try:
                self._models[model] = live = LiveModel(spec, lease, self._around)
            except StoreError as error:
                self._models[model] = FailedModel(model, spec, lease, str(error))  # it is stored: it can be deleted
                raise
        return live

    def delete(self, model: str) -> None:
        """Remove a model and all that is stored of it; raises UnknownModel or StoreError."""
        found = self.find(model)
        if isinstance(found, LiveModel):
            found.delete().result()
            found.stop()
        else:
            with self._around.source.health.store_call("delete"):
                self._around.source.store.delete(found.lease)
        self._models.pop(model, None)

    def restore(self) -> None:
        """Bring back every stored model, several at a time; one that cannot be is kept as failed."""
        with self._around.source.health.store_call("load"):
            stored = self._around.source.store.models()
        with ThreadPoolExecutor(self._around.settings.solves, "restore") as pool:
            for model in pool.map(self._restore, stored):
                self._models[model.id] = model

    def _restore(self, stored: StoredModel) -> LiveModel | FailedModel:
        spec = ModelSpec.model_validate_json(codec.decode(stored.spec)["spec"])
        with self._around.source.health.store_call("load"):
            lease = self._around.source.store.acquire(stored.id)
        try:
            return LiveModel(spec, lease, self._around)
        except StoreError as error:
            log.error("model %s could not be restored: %s", stored.id, error)
            return FailedModel(stored.id, spec, lease, str(error))

    def stop(self) -> None:
        """Drain every writer; each writes a snapshot."""
        for model in self.all():
            if isinstance(model, LiveModel):
                model.stop()

    @contextmanager
    def _reserved(self, model: str) -> Iterator[None]:
        """Hold an id, and its place in the quota, while its model is being made."""
        with self._lock:
            if model in self._models or model in self._making:
                raise ModelExists(f"a model {model} exists")
            if len(self._models) + len(self._making) >= self._around.settings.max_models:
                raise TooManyModels(f"there are {self._around.settings.max_models} models, the limit")
            self._making.add(model)
        try:
            yield
        finally:
            self._making.discard(model)
