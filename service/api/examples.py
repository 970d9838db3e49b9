"""Encoding of a window's examples in the requested format: JSON, npz, CSV or Arrow."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
from pydantic_core import to_json

from livesvm.service.api import arrow
from livesvm.service.api.bodies.rows import ARROW
from livesvm.service.errors import NotAcceptable
from livesvm.service.feeds.cells import inert
from livesvm.service.hosting.handle import Description
from livesvm.service.models.arrays import Rows, Tags, npz_members
from livesvm.service.models.examples import SIDES, WindowPage
from livesvm.solvers.sparse import SparseRows, dense

Format = Literal["json", "npz", "csv", "arrow"]
MEDIA: dict[Format, str] = {"json": "application/json", "npz": "application/x-npz", "csv": "text/csv", "arrow": ARROW}
PAGE = 1000
"""Default number of examples in a JSON answer."""
MOST = 10_000
"""Largest number of examples in a JSON answer."""
_BYTES: dict[Format, int] = {"json": 60, "npz": 32, "csv": 60, "arrow": 32}
"""Bytes of memory for one number of an answer in each format, from the model's array to the encoded text."""
_SMALLEST = 6
"""Smallest number of bytes for a number in a model: a sparse entry stores two numbers in twelve bytes."""
_BESIDE = 8
"""Numbers that take as much memory as the key and the other fields of one example."""


def format_for(accept: str, asked: Format | None) -> Format:
    """Return the format ``asked``, or the first format that the Accept header allows; raises NotAcceptable."""
    found = asked or _accepted(accept)
    if found == "arrow":
        arrow.library()
    return found


def _accepted(accept: str) -> Format:
    named = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    for name in named:
        for format, media in MEDIA.items():
            if name == media:
                return format
    if not accept or any(name in ("*/*", "application/*", "") for name in named):
        return "json"
    if "text/*" in named:
        return "csv"
    raise NotAcceptable(f"this call answers with {', '.join(MEDIA.values())}")


def memory(model: Description, count: int | None, format: Format) -> int:
    """Return the bytes of memory that an answer with ``count`` examples takes; None stands for all examples."""
    n = model.sizes.n_examples if count is None else min(count, model.sizes.n_examples)
    return int(_BYTES[format] * n * (model.row_bytes / _SMALLEST + _BESIDE))


def encoded(page: WindowPage, format: Format) -> bytes:
    """Encode a page of examples in a format, and return the bytes as the body of an answer."""
    encode: dict[Format, Callable[[WindowPage], bytes]] = {
        "json": _json,
        "npz": _npz,
        "csv": _csv,
        "arrow": arrow.of_page,
    }
    return encode[format](page)


def _json(page: WindowPage) -> bytes:
    rows = zip(
        page.keys,
        _listed(page.X) if page.rows is None else page.rows,
        page.y.tolist(),
        page.weights.tolist(),
        page.times.tolist(),
        page.side.tolist(),
        page.coefficient.tolist(),
        page.outlier.tolist(),
        page.tags,
        strict=True,
    )
    examples = [
        {
            "key": key,
            "x": x,
            "y": y,
            "weight": weight,
            "time": datetime.fromtimestamp(time, UTC),
            "side": SIDES[side],
            "coefficient": coefficient,
            "outlier": outlier,
            "tags": tags,
        }
        for key, x, y, weight, time, side, coefficient, outlier, tags in rows
    ]
    head = {"version": page.version, "n_examples": page.n_examples, "next": page.next}
    return to_json(head | {"examples": examples})


def _listed(X: Rows) -> list[Any]:
    """Return the features of each row as JSON values, in the form in which requests send features."""
    if not isinstance(X, SparseRows):
        listed: list[Any] = X.tolist()
        return listed
    rows = X.packed()
    ends, indices, values = rows.indptr.tolist(), rows.indices.tolist(), rows.values.tolist()
    return [
        {"indices": indices[start:stop], "values": values[start:stop], "n_features": X.width}
        for start, stop in itertools.pairwise(ends)
    ]


def _npz(page: WindowPage) -> bytes:
    """Return an npz file with the arrays that updates read, and more arrays; keys are text unless all are integers."""
    if page.rows is not None:
        raise NotAcceptable(f"rows with names are sent as {MEDIA['json']} or {MEDIA['csv']}, not as {MEDIA['npz']}")
    keys = page.keys if all(type(key) is int for key in page.keys) else [str(key) for key in page.keys]
    out = io.BytesIO()
    np.savez(
        out,
        **dict[str, Any](npz_members(page.X)),
        y=page.y,
        keys=np.array(keys),
        weights=page.weights,
        times=page.times,
        side=np.array([SIDES[side] for side in page.side], "U8"),
        coefficient=page.coefficient,
        outlier=page.outlier,
        **dict[str, Any]({"tags": _tag_columns(page.tags)} if any(page.tags) else {}),
        version=np.array(page.version),
    )
    return out.getvalue()


def _tag_columns(tags: Tags) -> np.ndarray[Any, Any]:
    """Return the tags of n examples as an (n, most) array of text; empty strings fill the rows with fewer tags."""
    most = max(map(len, tags))
    return np.array([[*one, *[""] * (most - len(one))] for one in tags])


def _features(page: WindowPage) -> dict[str, Iterable[object]]:
    """Return the CSV columns of the features, by column name."""
    if page.rows is None:
        return {f"x{at}": map(repr, column.tolist()) for at, column in enumerate(dense(page.X).T)}
    names = page.rows[0] if page.rows else ()
    return {f"x {name}": [_text(row[name]) for row in page.rows] for name in names}


def _text(cell: Any) -> object:
    """Return a cell of a row as text for CSV; a missing cell becomes an empty text."""
    return "" if cell is None else inert(cell) if isinstance(cell, str) else json.dumps(cell)


def _csv(page: WindowPage) -> bytes:
    if isinstance(page.X, SparseRows):
        raise NotAcceptable(f"sparse features are sent as {MEDIA['json']} or {MEDIA['npz']}, not as {MEDIA['csv']}")
    several, is_word = page.coefficient.ndim == 2, page.y.dtype.kind == "U"
    columns: dict[str, Iterable[object]] = {
        "key": map(inert, page.keys),
        **_features(page),
        "y": map(inert if is_word else repr, page.y.tolist()),
        "weight": map(repr, page.weights.tolist()),
        "time": [datetime.fromtimestamp(time, UTC).isoformat() for time in page.times.tolist()],
        "side": [SIDES[side] for side in page.side],
        **{
            f"coefficient{at if several else ''}": map(repr, one.tolist())
            for at, one in enumerate(page.coefficient.T if several else [page.coefficient])
        },
        "outlier": map(int, page.outlier),
    }
    if any(page.tags):
        columns["tags"] = [json.dumps(tags, ensure_ascii=False) for tags in page.tags]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue().encode()
