"""One call of predict, in blocks of rows, so that others have their turn between them and memory is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from livesvm.service.api.bodies import json_bounds, json_rows
from livesvm.service.api.bodies.json_rows import NotRows
from livesvm.service.api.bodies.reading import JSON, Body, parse_predict
from livesvm.service.hosting.handle import Reader
from livesvm.service.logs.calls import note, stage
from livesvm.service.models.arrays import Matrix, Rows, Vector
from livesvm.service.models.published import Cut, Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.resources.memory import Budget
from livesvm.service.resources.shared_threads import Steps
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.sparse_values import STEP
from livesvm.solvers.pu.held_out import Threshold
from livesvm.solvers.sparse import BYTES, SparseRows

PARSING = 20.0
"""What reading a byte costs, in multiplications, the unit of work."""
KERNEL = 16.0
"""What a kernel value costs besides its features."""
ROW = 500.0
"""What a row costs besides its kernel values: its part of the answer, mostly."""
BLOCK = 5e6
"""Work of one block, some milliseconds."""
QUICK = 3e5
"""Work that is done where it comes in, as handing it to a thread would take longer."""
ANSWER_BYTES = 64
"""What a row takes in the answer: two numbers as text, twice while it is put together."""


@dataclass(frozen=True)
class Calibrated:
    """Rows (m, d) about which more is asked than a decision, and the version that tells it.

    ``cut`` says where decisions are to be cut; None: probabilities are asked for.
    """

    seen: Published
    X: Rows | None = None
    cut: Cut | None = None


def answering(
    live: Reader,
    body: Body,
    most_rows: int,
    budget: Budget,
    metrics: Metrics,
    calibrated: Calibrated | None = None,
) -> Steps[bytes]:
    """Return the answer to a request for predictions, by the version that is newest when its turn comes.

    Of one that is ``calibrated``, with probabilities or a threshold; rows that were read already are among that.
    """
    start = perf_counter()
    X = calibrated.X if calibrated is not None and calibrated.X is not None else (yield from _read(body))
    del body
    stage("predict")
    seen, stale = live.reader(X) if calibrated is None else calibrated.seen, live.stale
    note(version=seen.version, rows=len(X))
    seen.check(live.spec, X, most_rows)
    with budget.holding("predictions", X.nbytes + ANSWER_BYTES * seen.n_values * len(X)):
        answer = yield from _decided(live, seen, stale, X, calibrated)
    metrics.predictions.labels(live.spec.task).inc(len(X))
    live.recent.note_predicted(len(X))
    metrics.predict_seconds.labels(live.spec.task).observe(perf_counter() - start)
    return answer


def is_quick(live: Reader, body: Body) -> bool:
    """Return whether an answer takes no longer than to hand the question to a thread."""
    if body.media != JSON or PARSING * len(body.data) >= QUICK:
        return False
    if (seen := live.published).predictor is None:
        return False
    rows = body.data.count(b"[")  # at most
    return PARSING * len(body.data) + rows * _of_row(seen, float(seen.n_features or 0)) < QUICK


def _of_row(seen: Published, products: float) -> float:
    """Work of one row, whose kernel values take so many multiplications each."""
    return ROW * seen.n_values + seen.n_support * (KERNEL + products + seen.n_values - 1)


def at_once(steps: Steps[bytes]) -> bytes:
    """Return the result of work in steps, without a break."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: bytes = end.value
            return answer


def _read(body: Body) -> Steps[Rows]:
    """Return the rows; those of a long body piece by piece."""
    if (cost := PARSING * len(body.data)) < BLOCK:
        return parse_predict(body)
    try:
        return (yield from _read_in_pieces(body))
    except NotRows:
        yield cost
        return parse_predict(body)


def _read_in_pieces(body: Body) -> Steps[Matrix]:
    """Return the rows; raises NotRows for what has to be read as a whole."""
    if body.media != JSON:
        raise NotRows
    shape = json_bounds.check(body.data, body.most_rows)
    if (shape.objects, shape.fields, shape.strings) != (1, 1, 1):
        raise NotRows
    with body.memory(json_rows.BYTES_A_NUMBER * shape.values):
        blocks = []
        for rows in json_rows.pieces(body.data):
            blocks.append(rows)
            yield PARSING * json_rows.PIECE
        if len({rows.shape[1] for rows in blocks}) > 1:
            raise NotRows
        return np.concatenate(blocks)


def _decided(live: Reader, seen: Published, stale: bool, X: Rows, asked: Calibrated | None) -> Steps[bytes]:
    """Return the answer's JSON, put together block by block."""
    threshold = None if asked is None or asked.cut is None else seen.threshold(asked.cut)
    with_chances = asked is not None and threshold is None
    decisions, predictions, chances = [], [], []
    of_row = _of_row(seen, _products(X, seen))
    rows = max(1, int(BLOCK / of_row))
    for first in range(0, len(X), rows):
        if first:
            yield rows * of_row
        decision, prediction = _decide(live, seen, X, slice(first, first + rows))
        if threshold is not None:
            prediction = np.where(decision > threshold.value, 1, 0)
        decisions.append(_listed(decision))
        predictions.append(_listed(prediction))
        if with_chances:
            chances.append(_listed(seen.probabilities(decision)))
    head = b'{"version":%d,"decision":[' % seen.version
    tail = _named(seen, live.spec, with_chances) + _cut(threshold) + _tail(stale)
    if chances:
        tail = b'],"probability":[' + b",".join(chances) + tail
    return b"".join((head, b",".join(decisions), b'],"prediction":[', b",".join(predictions), tail))


def _products(X: Rows, seen: Published) -> float:
    """Return multiplications that the features of a kernel value take."""
    own = seen.sparse_bytes
    if isinstance(X, SparseRows) and own is not None:
        return STEP * (X.nbytes / len(X) + own) / BYTES
    return float(X.shape[1] if own is None else STEP * X.shape[1])


def _decide(live: Reader, seen: Published, X: Rows, rows: slice) -> tuple[Vector, NDArray[Any]]:
    """Decision values and predictions of a block; an error names the row of the request."""
    try:
        return seen.decide(live.spec, X[rows])
    except InvalidInput as error:
        row = None if error.row is None else error.row + rows.start
        raise InvalidInput(error.reason, field=error.field, row=row, column=error.column) from None


def _listed(values: NDArray[Any]) -> bytes:
    """Return the numbers as JSON, with commas between them."""
    return to_json(values.tolist())[1:-1]


def _named(seen: Published, spec: ModelSpec, with_chances: bool) -> bytes:
    """Return which classes decisions are of, and pairs of them, where that does not go without saying."""
    classes = seen.answers_with
    if with_chances and seen.classes is not None:
        classes = seen.classes.tolist()
    if classes is None:
        return b"]"
    told: dict[str, Any] = {"classes": classes}
    if len(classes) > 2 and spec.decision_function_shape == "ovo":
        told["pairs"] = list(combinations(classes, 2))
    return b"]," + to_json(told)[1:-1]


def _cut(threshold: Threshold | None) -> bytes:
    """Return where decisions were cut, if not at 0."""
    return b"" if threshold is None else b',"threshold":' + to_json(threshold._asdict())


def _tail(stale: bool) -> bytes:
    return b',"stale":' + to_json(stale) + b"}"
