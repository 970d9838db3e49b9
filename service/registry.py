"""The models of one service, by id: create, find, restore, delete."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from service.answer_schemas import ServingState
from service.errors import ModelUnavailable, TooManyModels, UnknownModel
from service.live import LiveModel, Surroundings
from service.metrics import ModelSample
from service.schemas import ModelSpec
from service.store import codec
from service.store.base import Lease, LeaseHeld, ModelExists, ModelGone, StoredModel, StoreError, StoreUnavailable
from service.writeback import encoded
from solvers.cores import threads
from solvers.errors import InvalidInput

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FailedModel:
    """A stored model that is not served here, and why; ``held`` is one that another service serves."""

    id: str
    spec: ModelSpec
    lease: Lease | None
    reason: str
    state: ServingState = "failed"


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
            raise ModelUnavailable(f"model {model} is not served here: {found.reason}")
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

    def states(self) -> list[ServingState]:
        """The state of every model."""
        return [model.state for model in self.all()]

    def samples(self) -> list[ModelSample]:
        """What the metrics show of every model."""
        return [m.sample() if isinstance(m, LiveModel) else ModelSample(m.id, m.state) for m in self.all()]

    def create(self, spec: ModelSpec) -> LiveModel:
        """Store a new model and start it; raises InvalidInput, ModelExists, TooManyModels or StoreError."""
        limit = self._around.settings.max_features
        if spec.n_features is not None and spec.n_features > limit:
            raise InvalidInput(f"is {spec.n_features}, the limit is {limit}", field="n_features")
        model = spec.id or f"m-{secrets.token_hex(6)}"
        spec = spec.model_copy(update={"id": model})
        with self._reserved(model):
            store, health = self._around.source.store, self._around.source.health
            with health.store_call("create"):
                lease = store.create(model, encoded(spec))
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
        elif found.lease is None:
            raise ModelUnavailable(f"model {model} is not served here: {found.reason}")
        else:
            with self._around.source.health.store_call("delete"), suppress(ModelGone):
                self._around.source.store.delete(found.lease)
        self._models.pop(model, None)

    def restore(self) -> None:
        """Bring back every stored model, several at a time; one that cannot be is kept as failed.

        Nobody is served yet, so all cores are used.
        """
        with self._around.source.health.store_call("load"):
            stored = self._around.source.store.models()
        at_once = max(1, min(self._around.settings.solves, len(stored)))
        share = max(1, len(os.sched_getaffinity(0)) // at_once)
        with threads(share), ThreadPoolExecutor(at_once, "restore") as pool:
            for model in pool.map(self._restore, stored):
                self._models[model.id] = model

    def prepare(self) -> None:
        """Have every model do what its first update would do besides, while nobody waits for it."""
        for model in self.all():
            if isinstance(model, LiveModel):
                model.prepare()

    def watch(self) -> None:
        """Learn whether other writers or losses of the store concern any model."""
        live = {model.id: model for model in self.all() if isinstance(model, LiveModel)}
        known = {id_: model.known for id_, model in live.items()}
        with self._around.source.health.store_call("watch"):
            heads = self._around.source.store.heads(live)
        for id_, model in live.items():
            model.observe(known[id_], heads.get(id_))

    def take_over(self) -> None:
        """Restore the models that other services let go of, forget the deleted ones.

        Where no other service uses the store, a model is fenced if it was read from a disk that could not be written.
        """
        if not self._around.source.store.shared and "fenced" not in self.states():
            return
        with self._around.source.health.store_call("load"):
            stored = {model.id: model for model in self._around.source.store.models()}
        for id_, model in stored.items():
            if id_ not in self._making and self._may_be_taken(self._models.get(id_)):
                with suppress(StoreError):
                    self._take(model)
        for gone in [
            m.id for m in self.all() if isinstance(m, FailedModel) and m.state == "held" and m.id not in stored
        ]:
            self._models.pop(gone, None)

    @staticmethod
    def _may_be_taken(model: LiveModel | FailedModel | None) -> bool:
        return model is None or model.state in ("held", "fenced")

    def _take(self, stored: StoredModel) -> None:
        before = self._models.get(stored.id)
        now = self._restore(stored)
        if isinstance(before, LiveModel) and isinstance(now, FailedModel) and now.state == "held":
            return  # it goes on predicting as of when it was taken
        self._models[stored.id] = now
        if isinstance(now, LiveModel):
            now.prepare()
        if isinstance(before, LiveModel):
            before.stop()

    def _restore(self, stored: StoredModel) -> LiveModel | FailedModel:
        """The model, or why it is not served here: that of one must not keep the others from being served."""
        spec, lease, fault = ModelSpec(id=stored.id), None, None
        try:
            spec = ModelSpec.model_validate_json(codec.decode(stored.spec)["spec"])
        except StoreError as error:
            fault = error
        try:
            with self._around.source.health.store_call("load"):
                lease = self._around.source.store.acquire(stored.id)
            if fault is not None:
                raise fault
            return LiveModel(spec, lease, self._around)
        except LeaseHeld as error:
            return FailedModel(stored.id, spec, None, str(error), "held")
        except StoreUnavailable:
            raise
        except StoreError as error:
            log.error("model %s could not be restored: %s", stored.id, error)
            return FailedModel(stored.id, spec, lease, str(error))
        except Exception as error:
            log.exception("model %s could not be restored, in an unforeseen way", stored.id)
            return FailedModel(stored.id, spec, lease, f"{type(error).__name__}: {error}")

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
