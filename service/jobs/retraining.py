"""The job that retrains a model in a process of its own: the request, the course of the training, and the result.

The work is done by :mod:`.retraining_worker`, in a process of its own, so that the service still answers predictions
and updates; if that process is killed, the model stays as it was.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import Literal, get_args

from pydantic import ConfigDict, Field

from livesvm.service.datasets.arrays import MOST_LABELS, memory_of
from livesvm.service.errors import EmptyModel, UnknownDataset
from livesvm.service.hosting.handle import Description
from livesvm.service.jobs import plots
from livesvm.service.jobs.kind import FOUND, Document, JobKind, Order, Workplace
from livesvm.service.jobs.plots import Curve, Extension
from livesvm.service.models.fields import SHORT, Cost, Id, Request
from livesvm.service.models.learners import task_of
from livesvm.service.models.spec import KernelSpec, ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.service.resources.machine import cores
from livesvm.service.resources.memory import MEGABYTE
from livesvm.service.resources.subprocess_work import run_beside
from livesvm.service.store import codec
from livesvm.service.store.base import StoreUnavailable
from livesvm.service.store.files import write_whole
from livesvm.solvers.errors import Cancelled, InvalidInput
from livesvm.solvers.runtime.progress import Progress

WORK = "livesvm.service.jobs.retraining_worker:retrain"
COPIES = 4
"""Copies of a dataset in memory: mapped, prepared for the kernel in two precisions, and the active examples. With
more than two classes, every example is prepared for each of the others."""
BROUGHT = "dataset"
"""Directory at a job's workplace to which a dataset of another front end is copied."""
BESIDE = 768 * MEGABYTE
"""Memory of a process besides its data: libraries, compiled code, and a reserve."""

Solver = Literal["auto", "fw", "mfw", "usmo", "batch"]
ASKED: tuple[Solver, ...] = get_args(Solver)


class RetrainRequest(Request):
    """How to retrain a model: by which solver, on which data, and with which new parameters."""

    most_bytes = SHORT
    model_config = ConfigDict(json_schema_extra={"examples": [{"hold_out": 0.1, "C": 10.0}]})

    solver: Solver = Field(
        default="auto",
        description="`l2svc`: `auto`, blocks of Frank-Wolfe steps, or `fw`, `mfw`; `pu`: `usmo`, the default, or "
        "`batch`; others: `batch`, the engine from nothing.",
    )
    dataset: Id | None = Field(default=None, description="`l2svc`: train on this dataset instead of the window.")
    kernel: KernelSpec | None = Field(default=None, description="The kernel from then on; the present one when absent.")
    C: Cost | None = Field(default=None, description="C from then on; the present one when absent.")
    tol: float | None = Field(
        default=None,
        ge=1e-12,
        le=1.0,
        description="Relative gap at which `fw`, `mfw` and `auto` of `l2svc` end, 0.1 when absent; "
        "tau of `usmo`, 1e-6.",
    )
    shards: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="`l2svc`, solver `auto`, on a dataset, over Ray: cut it into so many shards, each held by a worker "
        "of the cluster; absent: only what is larger than LIVESVM_RAY_SHARD_MB.",
    )
    hold_out: float | None = Field(
        default=None,
        gt=0,
        le=0.5,
        description="Share, at random, that a first training leaves out, to tell the error on it.",
    )


def _ordered(request: RetrainRequest, spec: ModelSpec, now: Description) -> Order:
    task = task_of(spec)
    solver = task.solvers[0] if request.solver == "auto" else request.solver
    if solver not in task.solvers:
        known = ", ".join(name for name in ASKED if name in ("auto", *task.solvers))
        raise InvalidInput(f"is not for models of task {spec.task}; these are: {known}", field="solver")
    if request.C is not None and not spec.has_C:
        raise InvalidInput(f"is no parameter of {spec.task}", field="C")
    if (request.shards or 1) > 1 and (solver != "blocks" or request.dataset is None):
        raise InvalidInput("are of a dataset that solver auto of l2svc is to work on", field="shards")
    n = now.sizes.n_examples
    if request.dataset is not None and task.is_exact:
        reason = f"is for models of task l2svc; one of task {spec.task} holds all that it has learnt in its window"
        raise InvalidInput(reason, field="dataset")
    if request.dataset is None and n == 0:
        raise EmptyModel(f"model {spec.id} knows no example yet")
    if request.dataset is None and request.hold_out is not None and request.hold_out * n < 1.0:
        raise InvalidInput(f"is less than one of the window's {n} examples", field="hold_out")
    return Order(request.model_dump(exclude_none=True) | {"solver": solver})


def _needed(asked: Document, now: Description) -> int:
    data = asked.get("dataset")
    if isinstance(data, dict):
        if asked.get("shards", 1) > 1:  # this process holds only the active examples
            return memory_of(data) + now.cache_mb * MEGABYTE
        several = len(data["labels"] or ()) or MOST_LABELS
        return (COPIES + max(0, several - 2)) * memory_of(data) + now.cache_mb * MEGABYTE
    several = 0 if asked["solver"] not in ("blocks", "fw", "mfw") else max(0, len(now.counts or ()) - 2)
    rows = several * int(now.row_bytes * now.sizes.n_examples)
    return 2 * now.memory + rows + (now.cache_mb * MEGABYTE if asked["solver"] in ("blocks", "fw", "mfw") else 0)


def retrain(asked: Document, model: ModelCopy, progress: Progress, place: Workplace) -> Document:
    """Retrain a copy of the model in a process of its own; return the result, and write the new model to a file.

    Raises UnknownDataset if the dataset was deleted or replaced, SolverError, WorkerLost or StoreError.
    """
    work = asked | {
        "spec": model.spec.model_dump_json(),
        "cache_mb": model.cache_mb,
        "threads": max(1, cores() - 1),
        "input": str(place.directory / "given"),
        "output": str(place.directory / FOUND),
        "memory": place.memory * 5 // 4 + BESIDE,
    }
    if "dataset" in asked:
        work["dataset"] = _checked(asked["dataset"], place, model.n_features)
    by = _over_shards(work, place) if asked.get("shards", 1) > 1 else _brought(work, place)
    tags = {key: list(found) for key, found in model.window.tags.items()}
    given = {"arrays": model.arrays, "changed": model.changed, "tags": tags}
    try:
        write_whole(place.directory / "given", codec.encode(given))
    except OSError as error:
        raise StoreUnavailable(f"there is no room for what a retraining is given: {error}") from error

    course = Course(asked["solver"])

    def tell(reported: Document) -> None:
        """Report the progress of the worker to the job, or keep the relative gap for plots."""
        if "relative_gap" in reported:
            course.add(reported["seconds"], reported["relative_gap"])
            place.show(course.document())
        elif not progress(reported["done"], reported["total"]):
            raise Cancelled("the job was cancelled")

    try:
        return run_beside(by, work, tell, place.check)
    finally:
        (place.directory / "given").unlink(missing_ok=True)
        shutil.rmtree(place.directory / BROUGHT, ignore_errors=True)


@dataclass
class Course:
    """The relative gap of a running training as a function of time."""

    solver: str
    points: list[tuple[float, float]] = field(default_factory=list)

    def add(self, seconds: float, gap: float) -> None:
        """Add a point; if its time is before that of the last point, another training has begun: drop all points."""
        if self.points and seconds < self.points[-1][0]:
            self.points.clear()
        # Every second point goes, so that the whole course fits, at half its resolution.
        if len(self.points) >= plots.MOST_POINTS:
            del self.points[1::2]
        self.points.append((seconds, gap))

    def document(self) -> Document:
        """Return the course in the form of a result, for plots."""
        seconds, gaps = zip(*self.points, strict=True)
        return {"solver": self.solver, "history": {"seconds": seconds, "relative_gap": gaps}}


def _checked(asked: Document, place: Workplace, width: int | None) -> Document:
    """Return a dataset's description, and the limit on the number of classes; raises UnknownDataset or InvalidInput."""
    if place.datasets is None:
        raise UnknownDataset("this service keeps no datasets")
    described = place.datasets.check(asked)
    if width is not None and described["n_features"] != width:
        raise InvalidInput(f"has {described['n_features']} features, the model has {width}", field="dataset")
    if not described["has_targets"]:
        raise InvalidInput("has no targets", field="dataset")
    return {"described": described, "most_classes": place.datasets.most_classes}


def _brought(work: Document, place: Workplace) -> str:
    """Copy the dataset's files to this machine if they are elsewhere; return the name of the function that trains."""
    if "dataset" in work and place.datasets is not None:
        at = place.datasets.brought(work["dataset"]["described"], place.directory / BROUGHT, place.check)
        work["dataset"]["at"] = str(at)
    return WORK


def _over_shards(work: Document, place: Workplace) -> str:
    """Add the place of the dataset's files to ``work``; return the name of the function that works over shards."""
    assert place.sharding is not None
    assert place.datasets is not None
    work["dataset"]["where"] = place.datasets.where(work["dataset"]["described"])
    work["cluster"] = {"address": place.sharding.address, "seconds": place.sharding.seconds}
    return place.sharding.work


def plot(result: Document, extension: Extension) -> bytes:
    """Draw the relative gap of a running or finished training against time."""
    history = result["history"]
    curve = Curve("relative gap", history["seconds"], history["relative_gap"])
    title = f"{result['solver']}, so far"
    if "n_support" in result:
        title = f"{result['solver']} on {result['n_examples']} examples, {result['n_support']} support vectors"
    return plots.draw(extension, title, "seconds", [curve], logarithmic=False, logarithmic_y=True)


KIND = JobKind(
    summary="Retrain a model beside the service",
    description="""
Train a model again on its window (`l2svc`: or on a dataset), with other parameters where these are asked for, in a
process of its own.

The result holds the `relative_gap`, `n_support`, `seconds`, and the `history` of the gap, which `plot` shows during
the job too. With `hold_out` it has the error on examples that a first training did not see. Applying the job replaces
the model by the new one, as one logged version. Changes made meanwhile stay: models of other tasks are brought to the
optimum of the present window, with the present parameters unless others were asked for. A job that began before an
erasure is refused. A model of task `l2svc` predicts by its last retraining, and the next retraining starts from
there.
""",
    request=RetrainRequest,
    check=_ordered,
    in_process=retrain,
    swaps=True,
    needs_exact=False,
    needed=_needed,
    plot=plot,
    family="batch solvers",
)
