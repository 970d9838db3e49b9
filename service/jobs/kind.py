"""A kind of job: long work on a private copy of a live model, and what may be done with its result."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from livesvm.service.datasets.catalogue import Datasets
from livesvm.service.hosting.handle import Description
from livesvm.service.jobs.plots import Extension
from livesvm.service.models.fields import Matrix, Request, Targets, Weights
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.warm_up import Family

Document = dict[str, Any]


FOUND = "found"
"""The file, at the workplace of a job, that a swap reads."""
KEY_FIELDS = frozenset({"key", "keys"})
"""Fields of results that name examples: for callers that may list these alone, and what an erasure looks for."""


LABEL_FIELDS = frozenset({"label", "others"})
"""Fields besides ``key`` that say which label an example has, and which it may have instead."""


def without_keys(result: Any, at: str = "") -> tuple[Any, set[str]]:
    """Return a result without the fields that name examples, and where these stood, with dots."""
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


class Examples(Request):
    """Examples that come with the request of a job and stay with it alone."""

    X: Matrix
    y: Targets | None = None
    weights: Weights | None = None

    def memory(self) -> int:
        """Return bytes that they take."""
        return int(sum(array.nbytes for array in (self.X, self.y, self.weights) if array is not None))


@dataclass(frozen=True)
class Order:
    """What a job is to do, as JSON values, and examples that it works with, by name: as long as it is needed."""

    asked: Document
    given: dict[str, Examples] = field(default_factory=dict)


class Subject(Protocol):
    """What a job works on a copy of."""

    @property
    def id(self) -> str:
        """Its name."""

    def describe(self) -> Description:
        """Return how it is now."""

    def copy(self) -> Future[Any]:
        """Return a copy, with its ``version``, as it is when its turn comes."""


@dataclass(frozen=True)
class Sharding:
    """How a dataset is worked on over shards.

    Parameters
    ----------
    work : what does it in a process of its own, as ``module:function``
    address : of the cluster whose workers hold the shards
    most_bytes : of a dataset that is not cut unless that is asked for, and of a shard of a larger one
    seconds : for which space for the workers is waited for
    """

    work: str
    address: str
    most_bytes: int
    seconds: float

    def count(self, size: int) -> int:
        """Return how many shards a dataset of so many bytes is cut into by default."""
        return max(1, -(-size // self.most_bytes))


@dataclass(frozen=True)
class Workplace:
    """Where work in a process of its own is done.

    Parameters
    ----------
    directory : of the job alone, which is there as long as the job is
    datasets : that it may read
    memory : bytes that the process may take
    check : raises Cancelled when the job is not wanted any more
    sharding : how datasets are worked on over shards, if that is possible
    show : takes what may be plotted while the work goes on, in the form of its result; never changed afterwards
    """

    directory: Path
    datasets: Datasets | None
    memory: int
    check: Callable[[], None]
    sharding: Sharding | None = None
    show: Callable[[Document], None] = lambda _: None


def check_known(labels: Targets | None, now: Description, field: str) -> None:
    """Raise InvalidInput for labels that are none of a model's, if it has classes."""
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
    run : from what was ordered, with the examples by name, a private copy of the model, and where to report progress,
        the result as JSON values; stops with Cancelled when ``progress`` returns False
    request : the schema of what may be asked
    check : from what is asked, a model's specification, and how it is now, the order; raises EmptyModel, or
        InvalidInput for what cannot be done for this model
    apply : from a result and what was chosen of it, the update that brings it into the live model; None if the results
        of this kind cannot be applied
    plot : from a result a picture of it, or from what is shown of it on the way; None if there is none
    in_process : in place of ``run``, where the work is done in a process of its own: the same, with the job's workplace
    swaps : whether the result, with the file of the workplace, takes the place of the model when it is applied
    needs_exact : whether it is for models alone whose every update leads to an optimum
    needed : from what was asked and how the model is now, the bytes that the work takes, if not those of ``copies``
    copies : of the model, with kernel rows and factor, that it works on at once
    family : of the solvers that it needs, one or several; None: what updates need is enough
    path : the end of the path that asks for it, if that is not its name
    summary, description : what it does, in a few words and in full, as the API says it
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
    path: str | None = None
    summary: str = ""
    description: str = ""
