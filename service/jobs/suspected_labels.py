"""The job that ranks the labels of a model's window by how likely they are wrong: its request, result and plot."""

from __future__ import annotations

import io

import numpy as np
from pydantic import ConfigDict, Field

from livesvm.service.errors import EmptyModel, NotApplicable
from livesvm.service.hosting.handle import Description
from livesvm.service.jobs.kind import Document, JobKind, Order
from livesvm.service.jobs.plots import Extension, drawing
from livesvm.service.models.fields import SHORT, Keys, Request
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.solvers import plot
from livesvm.solvers.analyses.suspects import SuspectedLabels, suspected_labels
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.progress import Progress

DRAWN = 20  #: labels in a plot


class Confirmed(Request):
    """Examples with labels that are known to be right, by key; keys that are not in the window are ignored."""

    keys: Keys


class SuspectedLabelsRequest(Request):
    """A request to rank all labels of a model's window, the label that is most likely wrong first."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"confirmed": {"keys": ["k7"]}}]})
    most_bytes = SHORT

    confirmed: Confirmed | None = Field(
        default=None, description="Labels that are known to be right: evidence, and left out of the ranking."
    )


def rank(asked: Document, model: ModelCopy, progress: Progress) -> Document:
    """Rank all labels of a window, the most likely wrong first, starting from the model's last ranking if there is one.

    ``asked["before"]`` has the last ranking, and the versions at which it and the earlier rankings were made.
    """
    estimator, confirmed = model.estimator(), asked.get("confirmed", {}).get("keys", [])
    before, versions = asked.get("before") or (None, [])
    found = suspected_labels(estimator, before=before, confirmed=confirmed, progress=progress)
    here, rows, versions = set(estimator.keys_), found.head(len(found.keys)), [*versions, model.version]
    for one in rows:
        age = one.pop("age")
        one["as_of"] = versions[-1 - age] if age >= 0 else None
    return {
        "confirmed": {"keys": [key for key in confirmed if key in here]},
        "n_examples": len(found.keys),
        "n_doubted": int(np.count_nonzero(found.margin < 0.0)),
        "method": found.method,
        "seconds": found.seconds,
        "suspects": rows,
        "carried": (found.without_window(), versions),
    }


def _ordered(request: SuspectedLabelsRequest, spec: ModelSpec, now: Description) -> Order:
    if spec.task != "svc":
        reason = "has no suspected labels; an outlier path of a regression finds suspected targets"
        raise NotApplicable(f"a model of task {spec.task} {reason}")
    if now.sizes.n_examples == 0:
        raise EmptyModel(f"model {spec.id} knows no example yet")
    if sum(n > 0 for n in (now.counts or {}).values()) < 2:
        raise InvalidInput("has one class only; add examples of another before labels can be suspected", field="window")
    return Order(request.model_dump(exclude_none=True))


def draw(result: Document, extension: Extension) -> bytes:
    """Draw the margins of the labels that are most likely wrong."""
    worst = result["suspects"][:DRAWN]
    labels, better = (np.array([one[name] for one in worst], object) for name in ("label", "better"))
    margin, doubt = (np.array([one[name] for one in worst]) for name in ("margin", "doubt"))
    keys, age = tuple(one["key"] for one in worst), np.zeros(len(worst), np.int64)
    found = SuspectedLabels(keys, labels, better, margin, doubt, result["method"], age, result["seconds"])
    with drawing(extension, out := io.BytesIO(), (8, 1.5 + 0.22 * len(worst))) as figure:
        plot.suspected_labels(found, DRAWN, figure.add_subplot())
    return out.getvalue()


KIND = JobKind(
    summary="Rank the labels of a model, the worst first",
    description="""
Compare each label of a classifier's window with the exact decision of a model that has not seen its example.

The result holds `suspects`, the worst label first. Each has its `key`, its `label`, and the `better` of the others.
`margin` is by how much the given label is ahead; if it is negative, the other one fits better. `doubt` is the
probability that the given label is the wrong one of the two. `why` lists the keys of the three nearest examples that
have the better label; it is empty beyond the first 100 labels where `margin` is positive. `n_doubted` counts the
negative margins.

A ranking begins from the last one of the model, if no restart or erasure came in between. `as_of` is the version in
which the path without the example was followed; the `margin` is exact if that is the version of the job. Otherwise the
decision is new, and only what the example adds to it is of that version. Where `as_of` is null, the example has too
little influence to be in doubt without it, and its margin is at most the given one.

The labels of `confirmed` are not in the ranking; its result lists those that are in the window, for the next one.

`GET /models/{id}/suspected-labels` reads the newest result in pages. To correct labels, send `relabel` in an update.
""",
    request=SuspectedLabelsRequest,
    check=_ordered,
    run=rank,
    plot=draw,
    family="assessments",
    carries=True,
)
