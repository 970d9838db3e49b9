"""A stored model that is not served here, and why."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

from livesvm.service.errors import ModelUnavailable, Restoring, ServiceError, Withdrawn
from livesvm.service.history.journal import Source
from livesvm.service.history.replay import Patience
from livesvm.service.live.handle import Description
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.metrics import ModelSample
from livesvm.service.store.base import Lease, ModelGone


@dataclass(frozen=True)
class FailedModel:
    """A model that ``held`` by another service, could not be restored, or is ``restoring`` while its patience lasts."""

    id: str
    spec: ModelSpec
    lease: Lease | None
    reason: str
    source: Source = field(compare=False, repr=False)
    state: ServingState = "failed"
    patience: Patience | None = field(default=None, compare=False)
    is_served = False

    def serving(self) -> NoReturn:
        """Raise ModelUnavailable, or Restoring, with the reason."""
        kind = Restoring if self.state == "restoring" else ModelUnavailable
        raise kind(f"model {self.id} is not served here: {self.reason}")

    def news(self) -> None:
        """There is none of one that is not served."""

    def describe(self) -> Description:
        """The model as it is now."""
        return Description(self.state, n_features=self.spec.n_features, C=self.spec.C, error=self.reason)

    def sample(self) -> ModelSample:
        """What the metrics show."""
        return ModelSample(self.id, self.state)

    def delete(self) -> Future[None]:
        """Remove it from the store; raises ModelUnavailable where another service has it, or StoreError."""
        if self.lease is None:
            self.serving()
        self.give_up(Withdrawn(f"model {self.id} was deleted"))
        done: Future[None] = Future()
        with self.source.health.store_call("delete"), suppress(ModelGone):
            self.source.store.delete(self.lease)
        done.set_result(None)
        return done

    def give_up(self, reason: ServiceError) -> None:
        """End its restoration, if it is under way."""
        if self.patience is not None:
            self.patience.end(reason if isinstance(reason, Withdrawn) else Withdrawn(str(reason)))

    def prepare(self) -> None:
        """There is nothing to prepare."""

    def stop(self) -> None:
        """There is nothing to stop."""
