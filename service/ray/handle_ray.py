"""The handle of a model that lives in an actor: what is known of it here, and calls of the actor."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from livesvm.service.errors import ModelUnavailable, Restoring, ServiceError
from livesvm.service.history.erasure import Intent, Seen
from livesvm.service.hosting.handle import NEWS_SECONDS, Description, Erased, Reply
from livesvm.service.models.arrays import Key, Rows
from livesvm.service.models.commands import Update
from livesvm.service.models.examples import Page, Wanted
from livesvm.service.models.published import Published
from livesvm.service.models.retrained import Retrained
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.metrics import ModelSample
from livesvm.service.ray.calls import Call, Office
from livesvm.service.ray.in_actor import InActor, Unnamed, request_name
from livesvm.service.ray.messages import View
from livesvm.service.ray.places import Place
from livesvm.service.resources.turns import Solve
from livesvm.service.settings import Settings

CHANGES = frozenset({"update", "restore", "swap"})
"""Verbs after which there is another version to predict by."""
LATELY_SECONDS = 5.0
"""For which a model that was predicted by a copy here gets a new one with the answer to an update."""
DECIDED_ROWS = 10_000
"""More rows are not sent to the actor: what decides them comes here instead."""


@dataclass(frozen=True)
class _Decided(Published):
    """A version of which only what it decided of some rows is here."""

    found: Any = None

    def check(self, spec: ModelSpec, X: Rows, limit: int) -> None:
        """It was checked where it was decided."""

    def decide(self, spec: ModelSpec, X: Rows) -> Any:
        """What was decided."""
        return self.found


class RayRecent:
    """What a model has done lately, asked where it lives; and rows predicted here, which it is told of later."""

    def __init__(self, ask: Callable[[], list[dict[str, Any]]]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._rows = 0

    def updates(self) -> list[dict[str, Any]]:
        """The newest updates, newest first; asks the actor, so it belongs in a thread."""
        return self._ask()

    def note_predicted(self, rows: int) -> None:
        """Count rows that were predicted here."""
        with self._lock:
            self._rows += rows

    @property
    def predicted(self) -> int:
        """Rows that were predicted here and that nobody was told of yet."""
        return self._rows

    def taken(self) -> int:
        """The same, to be told now."""
        with self._lock:
            rows, self._rows = self._rows, 0
        return rows


class RayModel(InActor):
    """A model in an actor. Implements :class:`~livesvm.service.hosting.handle.ModelHandle`.

    Invariant: ``_view`` is the newest that was heard of; what predicts here is of a version at most that new.
    """

    def __init__(self, id: str, spec: ModelSpec, place: Place, office: Office, settings: Settings) -> None:
        super().__init__(id, place, office, settings)
        self.id = id
        self._spec = spec
        self._view: View | None = None
        self._held: Published | None = None
        self._held_until = 0.0
        self._copied_at = -LATELY_SECONDS
        self.recent = RayRecent(lambda: self._now("recent"))

    # What is known here.

    @property
    def spec(self) -> ModelSpec:
        """What it was created as."""
        return self._spec if self._view is None else self._view.spec

    def hear(self, view: View | None, at: float) -> None:
        """The actor said at some time, monotonic, how it is; None: the same as before."""
        now = self._view
        if view is not None and (now is None or view.life != now.life or view.moment >= now.moment):
            if now is not None and now.life != view.life:
                self._held = None
            self._view = view
        self._heard(at)

    @property
    def stale(self) -> bool:
        """Whether newer data may be unknown."""
        return self._view is None or self._view.stale or self.is_lost or self.age > self._settings.lease_seconds

    @property
    def published(self) -> Published:
        """The newest version that is known here; with what it decides by, where that is here and may be used."""
        if self._view is None:
            return Published(0, None, Description("restoring").sizes, self._spec.n_features, 0, self._spec.C, None)
        held = self._held
        return held if held is not None and self._may_use(held) else self._view.published

    def _may_use(self, held: Published) -> bool:
        assert self._view is not None
        if self._settings.ray_predictions != "snapshot":
            return False
        if held.version == self._view.version:
            self._held_until = time.monotonic() + self._settings.ray_stale_seconds
            return True
        return time.monotonic() < self._held_until

    def reader(self, X: Rows) -> Published:
        """The version that rows X (m, d) are to be decided by; it may be asked of the actor, in a thread."""
        limit = self._settings.max_predict_rows
        if self._settings.ray_predictions == "actor" and len(X) <= DECIDED_ROWS:
            version, decision, prediction, _, classes = self._now("decide", X, limit)
            found, sizes = (decision, prediction), self.published.sizes
            return _Decided(version, None, sizes, X.shape[1], 0, None, None, classes=classes, found=found)
        seen, self._copied_at = self.published, time.monotonic()
        if seen.predictor is not None or (self._view is not None and not self._view.can_predict):
            return seen
        try:
            newest: Published = self._now("published")
        except ModelUnavailable:
            if self._held is None:
                raise
            return self._held  # it says that it is stale
        self.hold(newest)
        return newest

    def hold(self, copy: Published) -> None:
        """Predict by this version from now on, unless a newer one is here."""
        held = self._held
        if held is None or copy.version > held.version or (copy.version == held.version and copy.calibration):
            self._held, self._held_until = copy, time.monotonic() + self._settings.ray_stale_seconds

    def taken(self) -> int:
        """Rows that were predicted here since this was last asked."""
        return self.recent.taken()

    def describe(self) -> Description:
        """The model as it was last heard of."""
        if self._view is None:
            return Description("restoring", n_features=self._spec.n_features, C=self._spec.C, error="its actor starts")
        now = self._view.description
        if self.is_lost:
            return replace(now, state="restoring", error="its actor was lost, and is started again")
        return replace(now, predicted=now.predicted + self.recent.predicted)

    @property
    def state(self) -> ServingState:
        """Whether it is served."""
        return self.describe().state

    def sample(self) -> ModelSample:
        """What the metrics show."""
        return ModelSample(self.id, self.state) if self._view is None else self._view.sample(self.id)

    @property
    def node(self) -> str:
        """Where it was last heard of."""
        return "" if self._view is None else self._view.node

    def serving(self) -> RayModel:
        """The model itself; one that its actor does not serve raises ModelUnavailable, or Restoring."""
        if self._view is not None and not self._view.is_served:
            now = self._view.description
            kind = Restoring if now.state == "restoring" else ModelUnavailable
            raise kind(f"model {self.id} is not served: {now.error}")
        return self

    # What the actor is asked.

    def news(self) -> Call:
        """What others were told of may not have come here yet."""
        return self._ask("hear", spec=self.spec, patience=NEWS_SECONDS)

    def update(self, update: Update, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Apply an update; without a name it gets one, so that it is applied once if the actor dies on the way."""
        return self._named("update", (update,), request, solve)

    def restore(self, version: int, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Go back to a kept version, as a new one."""
        return self._named("restore", (version,), request, solve)

    def swap(self, found: Retrained, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Put what a retraining has found in place of the model; raises StoreUnavailable if that cannot be read."""
        return self._named("swap", (found.carried(),), request, solve)

    def _named(self, verb: str, arguments: tuple[Any, ...], request: str | None, solve: Solve | None) -> Future[Reply]:
        if request is not None:
            return self.ask(verb, *arguments, request, solve=solve)
        return Unnamed(self.ask(verb, *arguments, request_name(), solve=solve))

    def versions(self) -> dict[str, Any]:
        """Which versions can be had."""
        found: dict[str, Any] = self._now("versions")
        return found

    def seen(self, keys: Sequence[Key]) -> Future[Seen]:
        """How many of these keys the window holds."""
        return self.ask("seen", keys)

    def erase(self, intent: Intent, solve: Solve | None = None) -> Future[Erased]:
        """Forget examples, and all that was stored of the model before."""
        return self.ask("erase", intent, solve=solve)

    def certificate(self, solve: Solve | None = None) -> Future[dict[str, Any]]:
        """Recompute the certificate."""
        return self.ask("certificate", solve=solve)

    def calibrated(self, solve: Solve | None = None) -> Future[Published]:
        """The newest version with its calibration, which is kept here from then on."""
        call = self.ask("calibrated", solve=solve)
        call.add_done_callback(self._keep)
        return call

    def _keep(self, call: Future[Published]) -> None:
        if call.cancelled() or call.exception() is not None:
            return
        self.hold(call.result())

    def copy(self) -> Future[ModelCopy]:
        """Copy the version that is newest when its turn comes."""
        return self.ask("copy")

    def examples(self, wanted: Wanted) -> Future[Page]:
        """Some of the examples."""
        return self.ask("examples", wanted)

    def checkpoint(self) -> Future[dict[str, Any]]:
        """Write a snapshot."""
        return self.ask("checkpoint")

    def write_back(self) -> Future[dict[str, Any]]:
        """Have the store hold this model again, should it have lost it."""
        return self.ask("write_back")

    def delete(self) -> Future[None]:
        """Remove the model from the store."""
        return self.ask("delete")

    def ask(self, verb: str, *arguments: Any, solve: Solve | None = None, spec: ModelSpec | None = None) -> Call:
        """Call the actor."""
        predicts = verb in CHANGES and time.monotonic() - self._copied_at < LATELY_SECONDS
        return self._ask(verb, *arguments, spec=spec or self.spec, solve=solve, predicts=predicts)

    def _now(self, verb: str, *arguments: Any) -> Any:
        return self.ask(verb, *arguments).result()

    def give_up(self, reason: ServiceError) -> None:
        """There is nothing here to give up."""

    def stop(self) -> None:
        """It goes on without this front end."""
