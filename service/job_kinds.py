"""The table of job kinds: long work on a private copy of a live model, with what may be done with its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from livesvm.service import outlier_jobs, path_jobs
from livesvm.service.commands import Update
from livesvm.service.model import ModelCopy
from livesvm.service.plots import Extension
from livesvm.solvers.analyses.leave_one_out.assessment import k_fold, leave_one_out
from livesvm.solvers.runtime.progress import Progress
from livesvm.solvers.warm_up import Family

Document = dict[str, Any]


@dataclass(frozen=True)
class JobKind:
    """One kind of job.

    Parameters
    ----------
    run : from what was asked for, a private copy of the model and where to report progress, the result as JSON values;
        stops with Cancelled when ``progress`` returns False
    apply : from a result and what was chosen of it, the update that brings it into the live model; None if the results
        of this kind cannot be applied
    plot : from a result a picture of it; None if there is none
    copies : of the model, with kernel rows and factor, that it works on at once
    family : of the solvers that it needs; None: what updates need is enough
    """

    run: Callable[[Document, ModelCopy, Progress], Document]
    apply: Callable[[Document, Document], Update] | None = None
    plot: Callable[[Document, Extension], bytes] | None = None
    copies: int = 2
    family: Family | None = None


def assess(asked: Document, model: ModelCopy, progress: Progress) -> Document:
    """Exact decisions of the window's examples by models that have not seen them."""
    estimator = model.estimator()
    if asked["method"] == "k-fold":
        found = k_fold(estimator, asked["folds"], progress=progress)
    else:
        found = leave_one_out(estimator, progress=progress)
    return {
        "error": found.error,
        "n_examples": len(found.keys),
        "events": found.events,
        "seconds": found.seconds,
        "keys": list(found.keys),
        "decisions": found.decisions.tolist(),
    }


KINDS: Mapping[str, JobKind] = {
    "assessment": JobKind(assess, family="assessments"),
    "regularization-path": JobKind(path_jobs.walk, path_jobs.move_to, path_jobs.plot, family="regularization paths"),
    "outlier-path": JobKind(
        outlier_jobs.walk, outlier_jobs.make_robust, outlier_jobs.plot, copies=3, family="outlier paths"
    ),
}
