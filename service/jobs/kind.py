"""What a kind of job is: long work on a private copy of a live model, and what may be done with its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from livesvm.service.jobs.examples import Examples
from livesvm.service.jobs.plots import Extension
from livesvm.service.live.handle import Description
from livesvm.service.models.commands import Update
from livesvm.service.models.fields import Request
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.warm_up import Family

Document = dict[str, Any]


@dataclass(frozen=True)
class Order:
    """What a job is to do, as JSON values, and examples that it works with, by name: as long as it is needed."""

    asked: Document
    given: dict[str, Examples] = field(default_factory=dict)


def _as_asked(request: Request, spec: ModelSpec, now: Description) -> Order:
    return Order(request.model_dump(exclude_none=True))


@dataclass(frozen=True)
class JobKind:
    """One kind of job.

    Parameters
    ----------
    run : from what was ordered, with the examples by name, a private copy of the model, and where to report progress,
        the result as JSON values; stops with Cancelled when ``progress`` returns False
    request : the schema of what may be asked
    check : from what is asked, a model's specification, and how it is now, the order; raises EmptyModel, or
        InvalidInput for what cannot be done for this model
    apply : from a result and what was chosen of it, the update that brings it into the live model; None if the results
        of this kind cannot be applied
    plot : from a result a picture of it; None if there is none
    copies : of the model, with kernel rows and factor, that it works on at once
    family : of the solvers that it needs; None: what updates need is enough
    summary, description : what it does, in a few words and in full, as the API says it
    """

    run: Callable[[Document, ModelCopy, Progress], Document]
    request: type[Request] = Request
    check: Callable[[Any, ModelSpec, Description], Order] = _as_asked
    apply: Callable[[Document, Document], Update] | None = None
    plot: Callable[[Document, Extension], bytes] | None = None
    copies: int = 2
    family: Family | None = None
    summary: str = ""
    description: str = ""
