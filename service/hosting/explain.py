"""Explain decisions exactly, by the training examples that change a decision most if they are removed."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from livesvm.service.hosting.coverage import memory_of_decisions
from livesvm.service.models.arrays import Key, Rows, Vector
from livesvm.service.models.fields import EITHER, Features, Targets
from livesvm.service.models.learners import task_of
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy
from livesvm.service.settings import Settings
from livesvm.solvers.analyses.leave_one_out.influence import Influences, data_values, influences
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.pairs_predictor import winners
from livesvm.solvers.runtime.interrupt import check

Document = dict[str, Any]

MOST_REPORTED = 1000
"""Most examples in the explanation of a row."""
BYTES_OF_EXAMPLE = 800
"""Bytes of an example in an answer: its key, target and two numbers, as objects and as text."""


class ExplainRequest(Features):
    """A request to explain rows; if it has their targets, the answer says what each example is worth for them."""

    model_config = ConfigDict(json_schema_extra={**EITHER, "examples": [{"X": [[0.2, 0.5]], "most": 5}]})

    y: Targets | None = Field(default=None, description="`svc`, `svr`: asks what examples are worth for these rows.")
    most: int = Field(default=10, ge=1, le=MOST_REPORTED, description="Examples in the answer, for each row or in all.")


def check_task(spec: ModelSpec) -> None:
    """Raise InvalidInput if leave-one-out models cannot be computed exactly for models of this task."""
    if not task_of(spec).is_exact:
        raise InvalidInput(f"models of task {spec.task} cannot be told without an example", field="body")


def memory_of_answer(copy: ModelCopy, asked: ExplainRequest) -> int:
    """Return the bytes that an answer needs, including the decisions from which it is computed."""
    n = len(copy.arrays["keys"])
    rows = len(asked.features)
    reported = (1 if asked.y is not None else rows) * min(asked.most, n)
    return memory_of_decisions(copy, rows) + BYTES_OF_EXAMPLE * reported


def explain(copy: ModelCopy, asked: ExplainRequest, settings: Settings) -> Document:
    """Return the examples of the window that have the largest influence on the decisions for these rows.

    Returns
    -------
    JSON values, as ``ExplainAnswer`` names them

    Raises
    ------
    InvalidInput : rows of another width, or targets or a task without such influences
    NotSolved, SolverError : a model without an example could not be found
    """
    task = task_of(copy.spec)
    if asked.y is not None and len(asked.y) != len(asked.features):
        raise InvalidInput(f"has {len(asked.y)} entries for {len(asked.features)} rows of X", field="y")
    if asked.y is not None and not (task.has_labels or task.has_values):
        raise InvalidInput(f"has no loss for models of task {copy.spec.task}; leave it out", field="y")
    state = copy.state()
    seen = state.published()
    X = seen.checked(copy.spec, asked.features, settings.max_predict_rows)
    targets = dict(zip(state.estimator.keys_, np.asarray(state.estimator.window_y).tolist(), strict=True))
    head = {"version": copy.version, **copy.on_scale}
    if asked.y is not None:
        return head | {"rows": None, **_values(state.estimator, X, asked, targets)}
    found = influences(state.estimator, X)
    rows = _rows(seen.decide(copy.spec, X)[1], seen, found, asked, targets)
    return head | {"rows": rows, "values": None, "loss": None, **_effort(found)}


def _values(estimator: LiveEstimator, X: Rows, asked: ExplainRequest, targets: dict[Key, Any]) -> Document:
    assert asked.y is not None
    found = data_values(estimator, X, asked.y)
    first = np.argsort(found.values, kind="stable")[: asked.most]
    reported = [
        {"key": found.keys[place], "target": targets[found.keys[place]], "value": float(found.values[place])}
        for place in first
    ]
    return {"values": reported, "loss": found.loss, **_effort(found)}


def _effort(found: Any) -> Document:
    return {"n_examples": len(found.keys), "events": found.events, "seconds": found.seconds}


def _rows(
    prediction: NDArray[Any], seen: Published, found: Influences, asked: ExplainRequest, targets: dict[Key, Any]
) -> list[Document]:
    several, labels = found.decisions.ndim == 2, [] if seen.classes is None else seen.classes.tolist()
    reported = []
    for row, label in enumerate(prediction.tolist()):
        check()
        now, without, against = found.decisions[row], found.without[:, row], None
        if several:
            pair, sign, rival = _closest(now, int(winners(now[None], len(labels))[0]), len(labels))
            now, without = sign * now[pair], sign * without[:, pair]
            against = labels[rival]
        reported.append(
            {
                "prediction": label,
                "against": against,
                "decision": float(now),
                "because": _because(found.keys, float(now), without, asked.most, targets),
            }
        )
    return reported


def _because(keys: tuple[Key, ...], now: float, without: Vector, most: int, targets: dict[Key, Any]) -> list[Document]:
    """Return up to ``most`` examples by influence, which is the decision minus the decision without the example."""
    moved = now - without
    first = np.argsort(-np.abs(moved), kind="stable")[:most]
    return [
        {
            "key": keys[place],
            "target": targets[keys[place]],
            "influence": float(moved[place]),
            "without": float(without[place]),
        }
        for place in first
    ]


def _closest(decisions: NDArray[np.float64], won: int, n_classes: int) -> tuple[int, float, int]:
    """Return the pair of classes that the winner won most narrowly, the winner's sign in this pair, and the rival."""
    margins = [
        (1.0 if a == won else -1.0, pair, b if a == won else a)
        for pair, (a, b) in enumerate(combinations(range(n_classes), 2))
        if won in (a, b)
    ]
    sign, pair, rival = min(margins, key=lambda one: one[0] * decisions[one[1]])
    return pair, sign, rival
