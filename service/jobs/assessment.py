"""The job that assesses a model on examples that the model has not seen: the job's request and result."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from livesvm.service.errors import EmptyModel
from livesvm.service.hosting.handle import Description
from livesvm.service.jobs.kind import Document, JobKind, Order
from livesvm.service.models.fields import SHORT, Request
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.solvers.analyses.leave_one_out.assessment import in_order, k_fold, leave_one_out
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.progress import Progress


class AssessmentRequest(Request):
    """How to assess a model: leave out each example in turn, or each of several folds of consecutive examples."""

    most_bytes = SHORT
    model_config = ConfigDict(json_schema_extra={"examples": [{"method": "leave-one-out"}]})

    method: Literal["leave-one-out", "k-fold"]
    folds: int | None = Field(default=None, ge=2, le=10**6, description="`k-fold`: how many; 10 when absent.")

    @model_validator(mode="after")
    def _folds_of_k_fold(self) -> Self:
        if self.method == "k-fold":
            self.folds = self.folds or 10
        elif self.folds is not None:
            raise InvalidInput("is no parameter of leave-one-out", field="folds")
        return self


def assess(asked: Document, model: ModelCopy, progress: Progress) -> Document:
    """Return the exact decision of each example of the window by a model that has not seen that example."""
    estimator = model.estimator()
    if asked["method"] == "k-fold":
        found = k_fold(estimator, asked["folds"], times=model.times, progress=progress)
    else:
        found = leave_one_out(estimator, progress=progress)
    order = in_order(model.times, len(found.keys))
    pairs = list(zip(found.positive, found.negative, strict=True))
    means = {"positive": list(found.positive), "negative": list(found.negative)} if pairs else {}
    return {
        "error": found.error,
        **model.on_scale,
        "n_examples": len(found.keys),
        "events": found.events,
        "seconds": found.seconds,
        "keys": [found.keys[i] for i in order],
        "decisions": found.decisions[order].tolist(),
        **means,
        **({"pairs": pairs} if found.decisions.ndim == 2 else {}),
    }


def _ordered(request: AssessmentRequest, spec: ModelSpec, now: Description) -> Order:
    n = now.sizes.n_examples
    if n == 0:
        raise EmptyModel(f"model {spec.id} knows no example yet")
    if n < 2 or (request.folds or 0) > n:
        raise InvalidInput(f"asks for {request.folds or 2} examples at least, the window holds {n}", field="folds")
    return Order(request.model_dump(exclude_none=True))


KIND = JobKind(
    summary="Assess a model on its own window, exactly",
    description="""
Find the decision of each example by a model that has not seen it: leave-one-out or k-fold, by exact unlearning.

The result holds the error (`svc`: share of wrong labels; `svr`: mean absolute error, or mean pinball loss; `oneclass`:
share of outliers) and, oldest first, `keys` and `decisions`. For `svc` a decision above 0 stands for the label in
`positive`, any other for the one in `negative`. With more than two classes decisions, `positive` and `negative` have a
column for each of the `pairs`.
""",
    request=AssessmentRequest,
    check=_ordered,
    run=assess,
    family="assessments",
)
