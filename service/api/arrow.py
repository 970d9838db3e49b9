"""Answers as Arrow IPC streams; they need pyarrow (``pip install livesvm[arrow]``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.api.bodies.rows import ARROW
from livesvm.service.api.predictions import Answered
from livesvm.service.errors import NotAcceptable
from livesvm.service.models.arrays import Matrix, Vector
from livesvm.service.models.examples import SIDES, WindowPage
from livesvm.service.models.published import Published
from livesvm.solvers.sparse import SparseRows

OF_ROWS = ("prediction", "decision", "set", "low", "high")
"""Fields that a prediction with a coverage has for each row."""
_TEXTS = frozenset({"series", "feed", "served", "state", "time", "made_at"})
_FORECAST = ("low", "high", "error", "last", "seasonal", "model", "right", "served", "experts")


def is_accepted(accept: str) -> bool:
    """Return whether an Accept header names Arrow streams; if it does and pyarrow is missing, raises NotAcceptable."""
    if ARROW not in accept.lower():
        return False
    named = any(part.partition(";")[0].strip().lower() == ARROW for part in accept.split(","))
    if named:
        library()
    return named


def library() -> Any:
    """Return the module pyarrow; raises NotAcceptable if it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise NotAcceptable("Arrow needs livesvm[arrow] where the service runs") from None
    return pyarrow


class ArrowForm:
    """Writer of predictions as an Arrow stream with a record batch for each block of rows.

    The columns of the stream are ``prediction``, ``decision`` and ``probability``; with more than two classes, each
    cell of ``decision`` is a list. The schema's metadata holds the model's version, whether a newer version may exist,
    and the ``classes`` or ``pairs`` to which the decision values in a list belong.
    """

    def __init__(self, seen: Published) -> None:
        self._pa = library()
        self._batches: list[Any] = []

    def add(self, decision: Vector, prediction: NDArray[Any], probability: Matrix | None) -> None:
        """Append the predictions for the next block of rows to the stream."""
        columns = {"prediction": self._pa.array(prediction), "decision": self._array(decision)}
        if probability is not None:
            columns["probability"] = self._array(probability)
        self._batches.append(self._pa.RecordBatch.from_pydict(columns))

    def _array(self, values: NDArray[Any]) -> Any:
        if values.ndim == 1:
            return self._pa.array(values)
        flat = self._pa.array(np.ascontiguousarray(values).ravel())
        return self._pa.FixedSizeListArray.from_arrays(flat, values.shape[1])

    def end(self, answered: Answered) -> bytes:
        """Return the bytes of the whole Arrow stream."""
        said: dict[str, Any] = {"version": answered.seen.version, "stale": answered.stale}
        if answered.seen.classes is not None:
            classes = said["classes"] = answered.seen.classes.tolist()
            if len(classes) > 2 and answered.spec.decision_function_shape == "ovo":
                said["pairs"] = list(combinations(classes, 2))
        if answered.threshold is not None:
            said["threshold"] = answered.threshold._asdict()
        return _stream(self._pa.Table.from_batches(self._batches), said)


def _microseconds(times: Vector) -> NDArray[np.int64]:
    """Convert Unix seconds to whole microseconds, rounded in the same way as the times in JSON answers."""
    whole = np.floor(times)
    return whole.astype(np.int64) * 1_000_000 + np.rint((times - whole) * 1e6).astype(np.int64)


def of_answer(reported: Mapping[str, Any]) -> bytes:
    """Return prediction sets or intervals as an Arrow stream; fields that are not about single rows become metadata."""
    pa = library()
    columns = {name: pa.array(reported[name]) for name in OF_ROWS if name in reported}
    return _stream(pa.table(columns), {name: value for name, value in reported.items() if name not in columns})


def of_page(page: WindowPage) -> bytes:
    """Return a page of examples as an Arrow stream with the columns of the CSV form; sparse rows fill two columns."""
    pa = library()
    are_numbers = all(type(key) is int for key in page.keys)
    columns: dict[str, Any] = {"key": pa.array(page.keys if are_numbers else [str(key) for key in page.keys])}
    if isinstance(page.X, SparseRows):
        rows = page.X.packed()
        ends = pa.array(rows.indptr, pa.int32())
        columns |= {
            "indices": pa.ListArray.from_arrays(ends, pa.array(rows.indices)),
            "values": pa.ListArray.from_arrays(ends, pa.array(rows.values)),
        }
    elif page.rows is not None:
        names = page.rows[0] if page.rows else ()
        columns |= {f"x {name}": pa.array([row[name] for row in page.rows]) for name in names}
    else:
        columns |= {f"x{at}": pa.array(column) for at, column in enumerate(page.X.T)}
    several = page.coefficient.ndim == 2
    coefficients = page.coefficient.T if several else [page.coefficient]
    columns |= {
        "y": pa.array(page.y),
        "weight": pa.array(page.weights),
        "time": pa.array(_microseconds(page.times), pa.timestamp("us", "UTC")),
        "side": pa.array([SIDES[side] for side in page.side], pa.string()),
        **{f"coefficient{at if several else ''}": pa.array(one) for at, one in enumerate(coefficients)},
        "outlier": pa.array(page.outlier),
        "tags": pa.array(page.tags, pa.list_(pa.string())),
    }
    said = {"version": page.version, "n_examples": page.n_examples, "next": page.next, "n_features": page.X.shape[1]}
    return _stream(pa.table(columns), said)


def of_history(reported: Mapping[str, Any]) -> bytes:
    """Return a feed's history as an Arrow stream: a row for each forecast, and for each reading without forecasts."""
    rows = []
    for reading in reported["rows"]:
        head = {name: reading[name] for name in ("time", "value", "held")}
        for made in reading["forecasts"] or [{}]:
            said = {"step": made.get("step"), "made_at": made.get("made_at"), "forecast": made.get("value")}
            rows.append(head | said | {name: made.get(name) for name in _FORECAST})
    names = ("time", "value", "held", "step", "made_at", "forecast", *_FORECAST)
    return of_rows(rows, names, {"every": reported["every"]})


def of_rows(rows: Sequence[Mapping[str, Any]], names: Sequence[str], said: Mapping[str, Any] | None = None) -> bytes:
    """Return rows of forecasts as an Arrow stream; times are text, or numbers if the feed numbers its readings."""
    pa = library()

    def kind_of(name: str) -> Any:
        """Return the Arrow type of a column."""
        if name == "step":
            return pa.int64()
        if name in ("held", "right"):
            return pa.bool_()
        if name == "experts":
            return pa.list_(pa.struct([("expert", pa.string()), ("value", pa.float64()), ("weight", pa.float64())]))
        return pa.string() if is_text(rows, name) else pa.float64()

    return _stream(pa.table({name: pa.array([row[name] for row in rows], kind_of(name)) for name in names}), said or {})


def is_text(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Return whether a column in rows of forecasts holds text; a column of times may also hold numbers."""
    return name in _TEXTS and all(isinstance(row[name], str | None) for row in rows)


def _stream(table: Any, said: Mapping[str, Any]) -> bytes:
    """Return a table as an Arrow stream; the schema's metadata holds the values of ``said`` as JSON."""
    pa = library()
    table = table.replace_schema_metadata({name: json.dumps(value) for name, value in said.items()})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())
