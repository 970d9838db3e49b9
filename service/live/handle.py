"""The handle of a model: all that routes and jobs know of one, wherever it lives and whether it is served or not."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from livesvm.service.history.erasure import Intent, Seen
from livesvm.service.history.recovery import Recovered
from livesvm.service.models.arrays import Key, Rows
from livesvm.service.models.commands import Update
from livesvm.service.models.examples import Page, Wanted
from livesvm.service.models.outcome import Sizes
from livesvm.service.models.published import Published
from livesvm.service.models.retrained import Retrained
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.metrics import ModelSample
from livesvm.service.resources.turns import Solve

NEWS_SECONDS = 1.0
"""For which a description waits for where a model lives; after that, it is as it was last heard of."""


@dataclass(frozen=True)
class Reply:
    """The bytes of an answer; ``replayed`` if the request had been answered before."""

    body: bytes
    replayed: bool = False


@dataclass(frozen=True)
class Erased:
    """An erasure that the model and its history have behind them, and the certificate of the optimum that is left.

    ``requests`` is how many were forgotten; there is no certificate of a model without examples.
    """

    version: int
    requests: int
    certificate: dict[str, Any] | None


@dataclass(frozen=True)
class Return:
    """How a model came back at the last start; see ``history.recovery.Recovered``."""

    snapshot_version: int
    replayed: int
    damaged_snapshots: int
    set_aside: int

    @classmethod
    def of(cls, found: Recovered[Any]) -> Return:
        """The same of what was found."""
        return cls(found.snapshot_version, found.replayed, found.damaged_snapshots, found.set_aside)


@dataclass(frozen=True)
class Description:
    """A model as it is now; ``memory`` is what it holds of the budget, in bytes; ``error`` is why it is not served.

    ``row_bytes`` are those of one example's features, on average.

    ``predicted`` counts the rows that it has predicted since it came back; ``classes`` has the examples of each label;
    ``parameters`` are the present ones, but for C and the kernel, whose coefficient in use is ``gamma``.
    """

    state: ServingState
    version: int = 0
    sizes: Sizes = field(default_factory=Sizes)
    n_features: int | None = None
    row_bytes: float = 0.0
    n_support: int = 0
    C: float | None = None
    kernel: dict[str, Any] | None = None
    robust: dict[str, Any] | None = None
    classes: dict[Any, int] | None = None
    gamma: float | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    warnings: list[dict[str, str]] = field(default_factory=list)
    updated_at: float | None = None
    queue_depth: int = 0
    memory: int = 0
    cache_mb: int = 0
    predicted: int = 0
    returned: Return | None = None
    error: str | None = None


class RecentUpdates(Protocol):
    """What a model has done lately."""

    @property
    def predicted(self) -> int:
        """Rows that were predicted."""

    def updates(self) -> list[dict[str, Any]]:
        """The newest updates, newest first; may have to be asked for, which a thread does."""

    def note_predicted(self, rows: int) -> None:
        """Count rows that were predicted."""


class Reader(Protocol):
    """What predicts: a model, or a copy of it."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def spec(self) -> ModelSpec:
        """What it was created as."""

    @property
    def published(self) -> Published:
        """The newest version, for readers."""

    @property
    def age(self) -> float | None:
        """Seconds since it was last known here that there is nothing newer; None where that is always known."""

    def reader(self, X: Rows) -> Published:
        """The version that decides rows X (m, d); it may have to be asked for, which a thread does."""

    @property
    def recent(self) -> RecentUpdates:
        """What its newest updates did, and how many rows it has predicted."""

    @property
    def stale(self) -> bool:
        """Whether updates are refused now, so that newer data may be unknown."""


class ModelHandle(Reader, Protocol):
    """A model that is served. Futures end with what its writer found out; calls raise QueueFull or ModelUnavailable."""

    def describe(self) -> Description:
        """The model as it is now."""

    def update(self, update: Update, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Apply an update; ``request`` is its Idempotency-Key, ``solve`` how long it may take."""

    def restore(self, version: int, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Go back to a kept version, as a new one."""

    def swap(self, found: Retrained, request: str | None, solve: Solve | None = None) -> Future[Reply]:
        """Put what a retraining has found in place of the model, as a new version."""

    def versions(self) -> dict[str, Any]:
        """Which versions can be had; asks the store, so it belongs in a thread."""

    def seen(self, keys: Sequence[Key]) -> Future[Seen]:
        """How many of these keys the window holds, in the version that is newest when its turn comes."""

    def erase(self, intent: Intent, solve: Solve | None = None) -> Future[Erased]:
        """Forget examples, whether they are in the window or have left, and all that was stored of the model before.

        Done again, it ends where it would have. What is left to do then, of files and of the store as a whole, is for
        whoever asked.
        """

    def certificate(self, solve: Solve | None = None) -> Future[dict[str, Any]]:
        """Recompute the certificate of the version that is newest when its turn comes."""

    def calibrated(self, solve: Solve | None = None) -> Future[Published]:
        """The newest version with what its decisions become as probabilities; of a model that has them."""

    def copy(self) -> Future[ModelCopy]:
        """Copy the version that is newest when its turn comes, for a job."""

    def examples(self, wanted: Wanted) -> Future[Page]:
        """Some of the examples of the version that is newest when its turn comes."""

    def checkpoint(self) -> Future[dict[str, Any]]:
        """Write a snapshot."""

    def write_back(self) -> Future[dict[str, Any]]:
        """Have the store hold this model again, should it have lost it."""


class AnyModel(Protocol):
    """A model that is served or not."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def spec(self) -> ModelSpec:
        """What it was created as."""

    def news(self) -> Future[None] | None:
        """Ends once all that anybody has been told of the model is known here; None where that is so already.

        It may raise ModelUnavailable, and UnknownModel if the model is gone.
        """

    def describe(self) -> Description:
        """The model as it is now."""


class Models(Protocol):
    """The models of one service, by id, wherever they live."""

    def get(self, model: str) -> ModelHandle:
        """One that is served; raises UnknownModel or ModelUnavailable."""

    def readable(self, model: str) -> Reader:
        """One that predicts, if need be by a copy; raises UnknownModel or ModelUnavailable."""

    def find(self, model: str) -> AnyModel:
        """One, whatever its state; raises UnknownModel."""

    def all(self) -> Sequence[AnyModel]:
        """Every model, by id."""

    def states(self) -> list[ServingState]:
        """The state of every model."""

    def samples(self) -> list[ModelSample]:
        """What the metrics show of every model."""

    def create(self, spec: ModelSpec) -> AnyModel:
        """Store a new model and start it; raises InvalidInput, ModelExists, TooManyModels or StoreError."""

    def delete(self, model: str) -> Future[None]:
        """Remove a model and all that is stored of it."""

    def forget(self, model: str) -> None:
        """Let go of a model that was deleted."""

    def restore(self) -> None:
        """Bring back every stored model; raises StoreError."""

    def restore_rest(self) -> None:
        """Go on with those that took too long, while others are served."""

    def prepare(self) -> None:
        """Have every model do what its first update would do besides."""

    def watch(self) -> None:
        """Learn whether other writers or losses of the store concern any model."""

    def take_over(self) -> None:
        """Restore the models that other services let go of."""

    def stop(self) -> None:
        """Let go of every model."""
