"""Predictions for one request, computed in blocks of rows: other calls run between blocks, and memory is limited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from time import perf_counter
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from livesvm.service.api.bodies import json_rows
from livesvm.service.api.bodies.json_rows import NotRows
from livesvm.service.api.bodies.reading import JSON, Body
from livesvm.service.api.bodies.tables import parse_predict
from livesvm.service.hosting.handle import Reader
from livesvm.service.logs.calls import note, stage
from livesvm.service.models.arrays import Matrix, Rows, Vector
from livesvm.service.models.published import Cut, Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.table_rows import BYTES_A_CELL, TableRows
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.memory import Budget
from livesvm.service.resources.shared_threads import Steps
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.sparse_values import STEP
from livesvm.solvers.pu.held_out import Threshold
from livesvm.solvers.sparse import BYTES, SparseRows

PARSING = 20.0
"""Work of parsing a byte; the unit of work is a multiplication."""
KERNEL = 16.0
"""Work of a kernel value, in addition to one multiplication for each feature."""
ROW = 500.0
"""Work of a row in addition to its kernel values, mostly for writing its part of the answer."""
BLOCK = 5e6
"""Work of one block of rows, which takes some milliseconds."""
QUICK = 3e5
"""Requests with less work than this are computed on the event loop, as passing work to a thread takes longer."""
ANSWER_BYTES = 64
"""Bytes of memory for a row of the answer: two numbers as text, held twice while the answer is joined."""


T = TypeVar("T", covariant=True)
A = TypeVar("A")


@dataclass(frozen=True)
class Calibrated:
    """A model's version with the calibration that probabilities and thresholds need.

    ``cut`` is the criterion for the requested threshold; if it is None, the request asks for probabilities.
    """

    seen: Published
    cut: Cut | None = None


@dataclass(frozen=True)
class Answered:
    """The version that computed all predictions, the requested threshold, and whether a newer version may exist."""

    seen: Published
    spec: ModelSpec
    threshold: Threshold | None
    stale: bool


class Form(Protocol[T]):
    """Writer of an answer in one format, which receives the predictions block by block."""

    def add(self, decision: Vector, prediction: NDArray[Any], probability: Matrix | None) -> None:
        """Append decisions (m,) or (m, k), predictions (m,) and probabilities (m, n_classes) of the next m rows."""

    def end(self, answered: Answered) -> T:
        """Return the whole answer."""


def answering(
    live: Reader,
    asked: Body | Rows | TableRows,
    most_rows: int,
    budget: Budget,
    metrics: Metrics,
    form: Callable[[Published], Form[A]],
    calibrated: Calibrated | None = None,
) -> Steps[A]:
    """Compute the answer to a request for predictions with the model's newest version.

    Parameters
    ----------
    asked : the body of the request, or its parsed rows, (m, d) or with column names
    form : returns the writer of the answer for a version, or raises an error that refuses the version
    calibrated : the version that answers with probabilities or a threshold
    """
    start = perf_counter()
    X = (yield from _read(asked)) if isinstance(asked, Body) else asked
    del asked
    stage("predict")
    seen = (yield from live.reading(X)) if calibrated is None else calibrated.seen
    stale = live.stale
    note(version=seen.version, rows=len(X))
    size = X.nbytes
    if isinstance(X, TableRows):
        with budget.holding("predictions", size + BYTES_A_CELL * len(X) * (seen.n_features or 0)):
            X = seen.checked(live.spec, X, most_rows)
    else:
        X = seen.checked(live.spec, X, most_rows)
    with budget.holding("predictions", size + ANSWER_BYTES * seen.n_values * len(X)):
        answer = yield from _decided(live, seen, stale, X, calibrated, form(seen))
    metrics.predictions.labels(live.spec.task).inc(len(X))
    live.recent.note_predicted(len(X))
    metrics.predict_seconds.labels(live.spec.task).observe(perf_counter() - start)
    return answer


def is_quick(live: Reader, asked: Body | Rows | TableRows) -> bool:
    """Return whether computing the answer takes no longer than passing the request to another thread."""
    if (seen := live.published).predictor is None:
        return False
    if not isinstance(asked, Body):
        return len(asked) * _of_row(seen, _products(asked, seen)) < QUICK
    if asked.media != JSON or not is_short(asked):
        return False
    rows = asked.data.count(b"[") + asked.data.count(b"{")  # at most
    return PARSING * len(asked.data) + rows * _of_row(seen, float(seen.n_features or 0)) < QUICK


def is_short(body: Body) -> bool:
    """Return whether parsing a body takes no longer than passing the body to another thread."""
    return PARSING * len(body.data) < QUICK


def _of_row(seen: Published, products: float) -> float:
    """Return the work of predicting one row, in multiplications; a kernel value takes ``products`` multiplications."""
    n_values = seen.n_values
    return ROW * n_values + seen.n_support * (KERNEL + products + n_values - 1)


async def at_once(steps: Steps[A]) -> A:
    """Run all steps of a computation without pauses, except to wait for futures, and return its result."""
    while True:
        try:
            found = next(steps)
        except StopIteration as end:
            answer: A = end.value
            return answer
        if isinstance(found, Future):
            await asyncio.wait([asyncio.wrap_future(found)])


def _read(body: Body) -> Steps[Rows | TableRows]:
    """Parse the rows in a body; a long body is parsed piece by piece."""
    if (cost := PARSING * len(body.data)) < BLOCK:
        return parse_predict(body)
    try:
        return (yield from _read_in_pieces(body))
    except NotRows:
        yield cost
        return parse_predict(body)


def _read_in_pieces(body: Body) -> Steps[Matrix]:
    """Parse the rows in a body piece by piece; raises NotRows if the body can only be parsed as a whole."""
    if body.media != JSON or body.data.count(b'"') != 2:
        raise NotRows
    with body.memory(json_rows.BYTES_A_NUMBER * (body.data.count(b",") + body.data.count(b"["))):
        blocks = []
        for rows in json_rows.pieces(body.data):
            blocks.append(rows)
            yield PARSING * json_rows.PIECE
        if len({rows.shape[1] for rows in blocks}) > 1:
            raise NotRows
        return np.concatenate(blocks)


def _decided(live: Reader, seen: Published, stale: bool, X: Rows, asked: Calibrated | None, form: Form[A]) -> Steps[A]:
    """Compute the predictions block by block, pass each block to the writer ``form``, and return the whole answer."""
    threshold = None if asked is None or asked.cut is None else seen.threshold(asked.cut)
    with_chances = asked is not None and threshold is None
    of_row = _of_row(seen, _products(X, seen))
    rows = max(1, int(BLOCK / of_row))
    for first in range(0, len(X), rows):
        if first:
            yield rows * of_row
        decision, prediction = _decide(live, seen, X, slice(first, first + rows))
        if threshold is not None:
            prediction = np.where(decision > threshold.value, 1, 0)
        form.add(decision, prediction, seen.probabilities(decision) if with_chances else None)
    return form.end(Answered(seen, live.spec, threshold, stale))


class JsonForm:
    """Writer of an answer in JSON."""

    def __init__(self, seen: Published) -> None:
        self._head = b'{"version":%d,"decision":[' % seen.version
        self._decisions: list[bytes] = []
        self._predictions: list[bytes] = []
        self._chances: list[bytes] = []

    def add(self, decision: Vector, prediction: NDArray[Any], probability: Matrix | None) -> None:
        """Append the predictions for the next block of rows."""
        self._decisions.append(listed(decision))
        self._predictions.append(listed(prediction))
        if probability is not None:
            self._chances.append(listed(probability))

    def end(self, answered: Answered) -> bytes:
        """Return the whole answer as JSON."""
        tail = _named(answered, bool(self._chances)) + _cut(answered.threshold) + _tail(answered.stale)
        if self._chances:
            tail = b'],"probability":[' + b",".join(self._chances) + tail
        parts = self._head, b",".join(self._decisions), b'],"prediction":[', b",".join(self._predictions), tail
        return b"".join(parts)


def _products(X: Rows | TableRows, seen: Published) -> float:
    """Return how many multiplications one kernel value takes."""
    own = seen.sparse_bytes
    if isinstance(X, SparseRows) and own is not None:
        return STEP * (X.nbytes / len(X) + own) / BYTES
    return float(X.shape[1] if own is None else STEP * X.shape[1])


def _decide(live: Reader, seen: Published, X: Rows, rows: slice) -> tuple[Vector, NDArray[Any]]:
    """Return the decision values and predictions of a block of rows; errors give row numbers in the whole request."""
    with of_rows(rows):
        return seen.decide(live.spec, X[rows])


@contextmanager
def of_rows(rows: slice) -> Iterator[None]:
    """Change the row number of an error, raised in the ``with`` block, to the row's number in the whole request."""
    try:
        yield
    except InvalidInput as error:
        row = None if error.row is None else error.row + rows.start
        raise InvalidInput(error.reason, field=error.field, row=row, column=error.column, name=error.name) from None


def listed(values: NDArray[Any]) -> bytes:
    """Return an array as a JSON list without its brackets."""
    return to_json(values.tolist())[1:-1]


def _named(answered: Answered, with_chances: bool) -> bytes:
    """Return JSON with the classes and the class pairs of decision values, if the answer must name these."""
    seen = answered.seen
    classes = seen.answers_with
    if with_chances and seen.classes is not None:
        classes = seen.classes.tolist()
    if classes is None:
        return b"]"
    reported: dict[str, Any] = {"classes": classes}
    if len(classes) > 2 and answered.spec.decision_function_shape == "ovo":
        reported["pairs"] = list(combinations(classes, 2))
    return b"]," + to_json(reported)[1:-1]


def _cut(threshold: Threshold | None) -> bytes:
    """Return the threshold as a JSON field, or nothing without a threshold."""
    return b"" if threshold is None else b',"threshold":' + to_json(threshold._asdict())


def _tail(stale: bool) -> bytes:
    return b',"stale":' + to_json(stale) + b"}"
