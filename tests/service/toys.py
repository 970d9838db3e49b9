"""The service with a task and a kind of job of ours: one entry each."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.cli.main import main
from livesvm.service.jobs.kind import Document, JobKind
from livesvm.service.jobs.kinds import KINDS
from livesvm.service.models.arrays import Rows, Vector
from livesvm.service.models.fields import Request
from livesvm.service.models.state import ModelCopy
from livesvm.service.models.tasks import TASKS, Task
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.regression import LiveSVR
from livesvm.solvers.models.change import Change, Edits
from livesvm.solvers.models.predictor import Predictor
from livesvm.solvers.runtime.progress import Progress


def check_counts(y: Vector | None, field: str) -> None:
    """Check that targets are whole numbers, none of them negative."""
    if y is None or (y < 0).any() or (y != np.round(y)).any():
        raise InvalidInput("is no count", field=field)


def count(predictor: Predictor, X: Rows, *_: object) -> tuple[Vector, NDArray[Any]]:
    decision = predictor.decision_function(X)
    return decision, np.maximum(np.round(decision), 0.0)


COUNTS = Task(LiveSVR, {"C": 1.0, "loss": "epsilon_insensitive"}, check_counts, count, "mean absolute error")


class FarRequest(Request):
    """How many to name."""

    most: int


def farthest(asked: Document, model: ModelCopy, progress: Progress) -> Document:
    """Return the keys of the examples that are farthest from what the model says of them."""
    estimator = model.estimator()
    off = np.abs(estimator.window_y - estimator.predictor().decision_function(estimator.window_X))
    return {"keys": [estimator.keys_[i] for i in np.argsort(-off)[: asked["most"]]]}


def forget_weight(result: Document, choice: Document) -> Change:
    return Change(edits=Edits(reweight=dict.fromkeys(result["keys"], 0.5)))


FAR = JobKind(farthest, FarRequest, apply=forget_weight, summary="Name who is far off")

if __name__ == "__main__":
    TASKS["counts"] = COUNTS
    KINDS["farthest"] = FAR
    sys.exit(main(["serve"]))
