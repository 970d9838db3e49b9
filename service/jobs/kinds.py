"""The table of job kinds: long work on a private copy of a live model, with what may be done with its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from livesvm.service.jobs import outlier_path as outlier_jobs
from livesvm.service.jobs import regularization_path as path_jobs
from livesvm.service.jobs.assessment import assess
from livesvm.service.jobs.plots import Extension
from livesvm.service.models.commands import Update
from livesvm.service.models.state import ModelCopy
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


KINDS: Mapping[str, JobKind] = {
    "assessment": JobKind(assess, family="assessments"),
    "regularization-path": JobKind(path_jobs.walk, path_jobs.move_to, path_jobs.plot, family="regularization paths"),
    "outlier-path": JobKind(
        outlier_jobs.walk, outlier_jobs.make_robust, outlier_jobs.plot, copies=3, family="outlier paths"
    ),
}
