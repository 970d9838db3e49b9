"""A kind of job: how to check its request, do its long work on a copy of a live model, and use its result."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import ConfigDict

from livesvm.service.datasets.catalogue import Datasets
from livesvm.service.hosting.handle import Description
from livesvm.service.jobs.plots import Extension
from livesvm.service.models.fields import EITHER, Features, Request, Targets, Weights
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.warm_up import Family

Document = dict[str, Any]


FOUND = "found"
"""Name of the file at a job's workplace with the new model, which a swap reads."""
KEY_FIELDS = frozenset({"key", "keys"})
"""Fields of results with keys of examples: shown only to callers that may list examples, searched by erasures."""


LABEL_FIELDS = frozenset({"label", "others", "better", "why"})
"""Fields besides ``key`` that say which label an example has, which it may have instead, and why."""


def without_keys(result: Any, at: str = "") -> tuple[Any, set[str]]:
    """Return a result without the fields that name examples, and the dotted paths of these fields."""
    if isinstance(result, list) and result and isinstance(result[0], dict):
        found = [without_keys(one, at) for one in result]
        return [one for one, _ in found], set().union(*(withheld for _, withheld in found))
    if not isinstance(result, dict):
        return result, set()
    kept: Document = {}
    hidden = KEY_FIELDS | LABEL_FIELDS if "key" in result else KEY_FIELDS
    withheld = {f"{at}{name}" for name in result if name in hidden}
    for name in result.keys() - hidden:
        kept[name], below = without_keys(result[name], f"{at}{name}.")
        withheld |= below
    return {name: kept[name] for name in result if name in kept}, withheld


class Examples(Features):
    """Examples that come with the request of a job; only this job uses them."""

    model_config = ConfigDict(json_schema_extra={**EITHER})

    y: Targets | None = None
    weights: Weights | None = None

    def memory(self) -> int:
        """Return the bytes that the examples take."""
        return int(sum(array.nbytes for array in (self.features, self.y, self.weights) if array is not None))

    def features_of(self, model: LiveEstimator) -> Any:
        """Return the features in the form that ``model`` takes; raises InvalidInput, which names row and column."""
        return self.X if self.rows is None else self.rows.read_by(model.columns_)


@dataclass(frozen=True)
class Order:
    """A checked request for a job: its parameters as JSON values, and the examples that came with it, by name."""

    asked: Document
    given: dict[str, Examples] = field(default_factory=dict)


class Subject(Protocol):
    """A model or feed; a job works on a copy of it."""

    @property
    def id(self) -> str:
        """Name under which the jobs of the model or feed are kept."""

    def describe(self) -> Description:
        """Return the present description of the model or feed."""

    def copy(self) -> Future[Any]:
        """Return the future of a copy with its ``version``, which the writer makes when it reaches this call."""


@dataclass(frozen=True)
class Sharding:
    """How a job works on a dataset that is cut into shards.

    Parameters
    ----------
    work : the function that does the work in a process of its own, as ``module:function``
    address : of the cluster whose workers hold the shards
    most_bytes : largest dataset that is not cut by default, and largest shard of a larger one
    seconds : longest wait for space for the workers
    """

    work: str
    address: str
    most_bytes: int
    seconds: float

    def count(self, size: int) -> int:
        """Return the default number of shards of a dataset of ``size`` bytes."""
        return max(1, -(-size // self.most_bytes))


@dataclass(frozen=True)
class Workplace:
    """The directory, data, memory and callbacks of a job that works in a process of its own.

    Parameters
    ----------
    directory : private to the job, and kept as long as the job
    datasets : that it may read
    memory : bytes that the process may take
    check : raises Cancelled once the job is not wanted any more
    sharding : how datasets are worked on over shards, if that is possible
    show : takes an intermediate result for plots, which must not be changed afterwards
    """

    directory: Path
    datasets: Datasets | None
    memory: int
    check: Callable[[], None]
    sharding: Sharding | None = None
    show: Callable[[Document], None] = lambda _: None


def check_known(labels: Targets | None, now: Description, field: str) -> None:
    """Raise InvalidInput for a label that the model does not have, provided that the model has classes."""
    if labels is None or now.counts is None:
        return
    for row, label in enumerate(labels.tolist()):
        if label not in now.counts:
            raise InvalidInput(f"{label!r} is not one of the labels {list(now.counts)}", field=field, row=row)


def _as_asked(request: Request, spec: ModelSpec, now: Description) -> Order:
    return Order(request.model_dump(exclude_none=True))


@dataclass(frozen=True)
class JobKind:
    """One kind of job, of models or of feeds.

    Parameters
    ----------
    run : takes the order, with its examples by name, a private copy of the model, and ``progress``; returns the result
        as JSON values, and raises Cancelled when ``progress`` returns False
    request : the schema of the request
    check : takes the request, a model's specification and its description; returns the order, and raises EmptyModel,
        or InvalidInput for what cannot be done for this model
    apply : takes a result and a choice; returns the update that applies it to the live model; None if the results of
        this kind cannot be applied
    plot : takes a result or an intermediate result, and returns its picture; None if there is none
    in_process : replaces ``run`` if the work is done in a process of its own; takes the job's workplace too
    swaps : whether a result is applied by replacing the model with that in the file of the workplace
    needs_exact : whether it is only for models of tasks that every update solves to an optimum
    needed : takes the request and the model's description; returns the bytes of the work, if not those of ``copies``
    copies : number of copies of the model, with kernel rows and factor, that it works on at once
    family : one or several families of solvers that it needs; None if those of updates are enough
    carries : whether ``carried`` in a result is kept in memory, for the next job of this kind for the model, which has
        it as ``before`` in its order
    path : last part of the path of its route, if that is not its name
    summary, description : what it does, in a few words and in full, for the API's documentation
    """

    run: Callable[[Document, Any, Progress], Document] | None = None
    request: type[Request] = Request
    check: Callable[[Any, ModelSpec, Description], Order] = _as_asked
    apply: Callable[[Document, Document], Any] | None = None
    plot: Callable[[Document, Extension], bytes] | None = None
    in_process: Callable[[Document, ModelCopy, Progress, Workplace], Document] | None = None
    swaps: bool = False
    needs_exact: bool = True
    needed: Callable[[Document, Description], int] | None = None
    copies: int = 2
    family: Family | tuple[Family, ...] | None = None
    carries: bool = False
    path: str | None = None
    summary: str = ""
    description: str = ""
