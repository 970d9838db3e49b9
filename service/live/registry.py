"""The models of one service, by id: create, find, restore, delete."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress

from livesvm.service.errors import (
    CutOff,
    ModelUnavailable,
    NotSolved,
    OutOfTime,
    TooManyModels,
    UnknownModel,
)
from livesvm.service.history.names import is_feed
from livesvm.service.history.replay import Patience
from livesvm.service.history.writeback import encoded
from livesvm.service.live.failed import FailedModel
from livesvm.service.live.model import LiveModel
from livesvm.service.live.standby import Standby
from livesvm.service.live.surroundings import Surroundings
from livesvm.service.logs.audit import changed
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.metrics import ModelSample
from livesvm.service.resources.machine import cores
from livesvm.service.resources.turns import Solve
from livesvm.service.store import codec
from livesvm.service.store.base import (
    Lease,
    LeaseHeld,
    ModelExists,
    StoredModel,
    StoreError,
    StoreUnavailable,
)
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.threads import threads

RESTORE_SECONDS = 1.0
"""Time of solving that models may take, together, to come back before the others are served; then they go on alone."""
LEAST_RESTORE_SECONDS = 0.1
"""Of it, what each may take at least."""
RETRY_SECONDS = 1.0
"""Between two tries while the store is away."""
RESTORED_ALONE = 8
"""Such models that are restored at once, in turns."""

log = logging.getLogger(__name__)


class Registry:
    """Owns every model. Its calls block on the store; none belongs on the event loop except :meth:`get`."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._models: dict[str, LiveModel | FailedModel] = {}
        self._making: set[str] = set()
        self._standbys: dict[str, Standby] = {}
        self._lock = threading.Lock()
        self._alone = ThreadPoolExecutor(RESTORED_ALONE, "restore-alone")
        self._restore_seconds = RESTORE_SECONDS

    def get(self, model: str) -> LiveModel:
        """The live model of that id; raises UnknownModel or ModelUnavailable."""
        return self.find(model).serving()

    def readable(self, model: str) -> LiveModel | Standby:
        """The model of that id, or what can be read here of one that another service holds; raises as :meth:`get`."""
        found = self.find(model)
        if found.state != "held":
            return found.serving()
        with self._lock:
            standby = self._standbys.get(model)
            if standby is None or standby.spec != found.spec:  # another one was made under that id
                self._standbys[model] = Standby(model, found.spec, self._around)
                if standby is not None:
                    standby.release()
            return self._standbys[model]

    def find(self, model: str) -> LiveModel | FailedModel:
        """The model of that id, whatever its state; raises UnknownModel."""
        found = self._models.get(model)
        if found is None:
            raise UnknownModel(f"there is no model {model[:64]!r}")
        return found

    def known(self, model: str) -> LiveModel | FailedModel | None:
        """The model of that id, if there is one."""
        return self._models.get(model)

    def all(self) -> list[LiveModel | FailedModel]:
        """Every model, by id."""
        return [model for _, model in sorted(self._models.items())]

    def states(self) -> list[ServingState]:
        """The state of every model."""
        return [model.state for model in self.all()]

    def samples(self) -> list[ModelSample]:
        """What the metrics show of every model."""
        return [model.sample() for model in self.all()]

    def create(self, spec: ModelSpec) -> LiveModel:
        """Store a new model and start it; raises InvalidInput, ModelExists, TooManyModels or StoreError."""
        limit = self._around.settings.max_features
        if spec.n_features is not None and spec.n_features > limit:
            raise InvalidInput(f"is {spec.n_features}, LIVESVM_MAX_FEATURES is {limit}", field="n_features")
        model = spec.id or f"m-{secrets.token_hex(6)}"
        spec = spec.model_copy(update={"id": model})
        with self._reserved(model):
            store, health = self._around.source.store, self._around.source.health
            with health.store_call("create"):
                lease = store.create(model, encoded(spec))
            try:
                self._models[model] = live = LiveModel(spec, lease, self._around)
            except StoreError as error:
                self._models[model] = self._unserved(model, spec, lease, str(error))  # it is stored: it can be deleted
                raise
        changed("create", model, version=0)
        return live

    def delete(self, model: str) -> Future[None]:
        """Remove a model and all that is stored of it; raises UnknownModel, ModelUnavailable or StoreError at once.

        What its writer finds out later is in the future; whoever asked calls :meth:`forget` when that is done.
        """
        return self.find(model).delete()

    def forget(self, model: str) -> None:
        """Let go of a model that was deleted."""
        found = self._models.pop(model, None)
        changed("delete", model)
        if found is not None:
            found.stop()

    def restore(self) -> None:
        """Bring back every stored model, several at a time; one that cannot be is kept as failed.

        Nobody is served yet, so all cores are used. Those that take long to solve again wait for :meth:`restore_rest`.
        """
        with self._around.source.health.store_call("load"):
            stored = [found for found in self._around.source.store.models() if not is_feed(found.id)]
        at_once = max(1, min(self._around.settings.solves, len(stored)))
        share = max(1, cores() // at_once)
        with threads(share), ThreadPoolExecutor(at_once, "restore") as pool:
            for model in pool.map(self._restore, stored):
                self._models[model.id] = model

    def restore_rest(self) -> None:
        """Go on with those that took too long, while others are served; returns at once."""
        for model in self.all():
            if model.patience is not None:
                self._alone.submit(self._restore_one, model)

    def _restore_one(self, waiting: FailedModel) -> None:
        """Bring one model back, however long it takes, unless it is deleted meanwhile."""
        now = self._opened_at_last(waiting)
        with self._lock:
            is_wanted = self._models.get(waiting.id) is waiting
            if is_wanted:
                self._models[waiting.id] = now
        if not is_wanted:
            now.stop()
        elif now.is_served:
            log.info("model %s is back, at version %d", now.id, now.describe().version)
            now.prepare()

    def _opened_at_last(self, waiting: FailedModel) -> LiveModel | FailedModel:
        """The model once the store is there."""
        assert waiting.lease is not None
        assert waiting.patience is not None
        while True:
            try:
                return self._opened(waiting.id, waiting.spec, waiting.lease, waiting.patience)
            except StoreUnavailable as error:
                if waiting.patience.whole.objection() is not None:  # it is not wanted any more
                    return self._unserved(waiting.id, waiting.spec, waiting.lease, str(error))
                time.sleep(RETRY_SECONDS)

    def prepare(self) -> None:
        """Have every model do what its first update would do besides, while nobody waits for it."""
        for model in self.all():
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
            stored = {model.id: model for model in self._around.source.store.models() if not is_feed(model.id)}
        for id_, model in stored.items():
            if id_ not in self._making and self._may_be_taken(self._models.get(id_)):
                with suppress(StoreError):
                    self._take(model)
        for gone in [m.id for m in self.all() if m.state == "held" and m.id not in stored]:
            self._models.pop(gone, None)
        for standby in list(self._standbys.values()):
            found = self._models.get(standby.id)
            if found is not None and found.state == "held":
                with suppress(StoreError):
                    standby.tidy()
            else:
                self._standbys.pop(standby.id).release()

    @staticmethod
    def _may_be_taken(model: LiveModel | FailedModel | None) -> bool:
        return model is None or model.state in ("held", "fenced")

    def _take(self, stored: StoredModel) -> None:
        before = self._models.get(stored.id)
        now = self._restore(stored)
        if before is not None and before.is_served and now.state == "held":
            return  # it goes on predicting as of when it was taken
        self._models[stored.id] = now
        now.prepare()
        if before is not None:
            before.give_up(ModelUnavailable(f"model {stored.id} was taken over and has come back; ask again"))
            before.stop()
        if isinstance(now, FailedModel) and now.patience is not None:
            self._alone.submit(self._restore_one, now)

    def _restore(self, stored: StoredModel) -> LiveModel | FailedModel:
        """The model, or why it is not served here: that of one must not keep the others from being served."""
        spec = ModelSpec(id=stored.id)
        fault: StoreError | None = None
        try:
            stored.check()
            spec = ModelSpec.model_validate_json(codec.decode(stored.spec)["spec"])
        except StoreError as error:
            fault = error
        try:
            with self._around.source.health.store_call("load"):
                lease = self._around.source.store.acquire(stored.id)
        except LeaseHeld as error:
            if fault is not None:
                return self._failed(stored.id, spec, None, fault)
            return self._unserved(stored.id, spec, None, str(error), "held")
        except StoreUnavailable:
            raise
        except StoreError as error:
            return self._failed(stored.id, spec, None, fault or error)
        if fault is not None:
            return self._failed(stored.id, spec, lease, fault)
        quick = Solve(max(LEAST_RESTORE_SECONDS, self._restore_seconds))
        found = self._opened(stored.id, spec, lease, Patience.short(quick))
        if found.state == "restoring":
            self._restore_seconds -= quick.used
        return found

    def _opened(self, id: str, spec: ModelSpec, lease: Lease, patience: Patience) -> LiveModel | FailedModel:
        """The live model; or the failed one, or one that is still restoring when its ``patience`` is over."""
        try:
            return LiveModel(spec, lease, self._around, patience)
        except OutOfTime:
            log.warning("model %s takes long to solve again; it is restored while others are served", id)
            longer = Patience.at_last(self._around.settings.solve_seconds)
            return self._unserved(id, spec, lease, "it is being restored", "restoring", longer)
        except NotSolved as error:  # it is not wanted any more
            return self._unserved(id, spec, lease, str(error))
        except StoreUnavailable:
            raise
        except Exception as error:
            return self._failed(id, spec, lease, error)

    def _unserved(
        self,
        id: str,
        spec: ModelSpec,
        lease: Lease | None,
        reason: str,
        state: ServingState = "failed",
        patience: Patience | None = None,
    ) -> FailedModel:
        return FailedModel(id, spec, lease, reason, self._around.source, state, patience)

    def _failed(self, id: str, spec: ModelSpec, lease: Lease | None, error: Exception) -> FailedModel:
        if isinstance(error, StoreError):
            log.error("model %s could not be restored: %s", id, error)
            return self._unserved(id, spec, lease, str(error))
        log.error("model %s could not be restored, in an unforeseen way", id, exc_info=error)
        return self._unserved(id, spec, lease, f"{type(error).__name__}: {error}")

    def stop(self) -> None:
        """Drain every writer; each writes a snapshot. What is still being restored is given up."""
        for model in self.all():
            if model.patience is not None:
                model.patience.end(CutOff("the service stops"))
        self._alone.shutdown(cancel_futures=True)
        for model in self.all():
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
