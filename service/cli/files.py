"""Examples in files: npz and JSON with ``X``, ``y``, ``keys``, ``weights``, ``times``, ``tags``; CSV; svmlight.

CSV has a row of names: the columns ``y``, ``key``, ``weight``, ``time`` and ``tags`` are what they say, all others are
features, in their order. Files of svmlight hold sparse features, columns from 1; npz may as well, as ``indptr``,
``indices``, ``values`` and ``n_features``. Targets are numbers, or words where one of them is none.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.feeds.cells import inert
from livesvm.service.files import csv_text, svmlight
from livesvm.solvers.errors import InvalidInput

COLUMNS = ("y", "key", "weight", "time", "tags")
SPARSE = ("indptr", "indices", "values", "n_features")


@dataclass(frozen=True)
class Examples:
    """What a file holds: features (n, d), dense or of scipy.sparse, and what else it has of each example."""

    X: Any
    y: NDArray[Any] | None = None
    keys: list[int | str] | None = None
    weights: NDArray[np.float64] | None = None
    times: list[Any] | None = None  #: ISO 8601 with a UTC offset, or Unix seconds
    tags: list[Any] | None = None  #: of each a text, a list of them, or None


def read(path: Path) -> Examples:
    """Return the examples in a file, which its name tells the kind of; raises OSError or ValueError."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path} is none of {', '.join(_READERS)}")
    try:
        return reader(path)
    except InvalidInput as error:
        places = {"row": error.row, "column": error.column}
        where = "".join(f"{name} {at + 1}: " for name, at in places.items() if at is not None)
        raise ValueError(f"{path} cannot be read: {where}{error.reason}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def as_wide(X: Any, n_features: int | None) -> Any:
    """Sparse rows of a file as wide as a model knows them: the last columns may all be 0 in it."""
    if n_features is not None and hasattr(X, "tocsr") and X.shape[1] < n_features:
        X.resize((X.shape[0], n_features))
    return X


def as_key(text: str) -> int | str:
    """Return the key that a text names: a number where it is written as the service writes numbers."""
    is_number = text.isascii() and text.isdigit() and len(text) <= 16 and str(int(text)) == text
    return int(text) if is_number else text


def write_predictions(path: Path, answer: dict[str, Any]) -> None:
    """Write decisions and predictions as CSV, a row each; of more than two classes a column for each or each pair.

    Probabilities have a column for each class, intervals two; a set of classes is words between blanks.
    """
    named = answer.get("pairs", answer.get("classes", []))
    several, chances = len(named) > 2, answer.get("probability")
    names = [f"decision {' / '.join(map(str, one)) if isinstance(one, list) else one}" for one in named]
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        more = [] if chances is None else [f"probability {one}" for one in answer["classes"]]
        more += [name for name in ("set", "low", "high") if name in answer]
        rows.writerow((*(names if several else ["decision"]), "prediction", *more))
        for row, (decision, prediction) in enumerate(zip(answer["decision"], answer["prediction"], strict=True)):
            probabilities = [] if chances is None else chances[row]
            sure = [inert(" ".join(map(str, answer["set"][row])))] if "set" in answer else []
            sure += [answer[name][row] for name in ("low", "high") if name in answer]
            rows.writerow((*(decision if several else [decision]), inert(prediction), *probabilities, *sure))


def _npz(path: Path) -> Examples:
    with np.load(path, allow_pickle=False) as members:
        return _of(dict(members))


def _json(path: Path) -> Examples:
    document = json.loads(path.read_text(encoding="utf-8"))
    return _of(document if isinstance(document, dict) else {"X": document})


def _svmlight(path: Path) -> Examples:
    """Return labels and sparse features."""
    with path.open("rb") as file:
        blocks = list(svmlight.blocks(file))
    ends = np.cumsum([0, *(count for X, _ in blocks for count in np.diff(X.indptr))])
    indices, values = (np.concatenate([getattr(X, name) for X, _ in blocks]) for name in ("indices", "data"))
    return Examples(_sparse(ends, indices - 1, values, None), np.concatenate([y for _, y in blocks]))


def _sparse(indptr: Any, indices: Any, values: Any, n_features: int | None) -> Any:
    from scipy.sparse import csr_array

    columns = np.asarray(indices, np.int64)
    if columns.size and columns.min() < 0:
        raise ValueError("there is a column before the first, which is 1 in svmlight and 0 elsewhere")
    width = int(columns.max(initial=0)) + 1 if n_features is None else int(n_features)
    return csr_array((np.asarray(values, np.float64), columns, np.asarray(indptr)), shape=(len(indptr) - 1, width))


def _csv(path: Path) -> Examples:
    with path.open(newline="", encoding="utf-8-sig") as file:
        names, rows = csv_text.named(file)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    features = [columns[name] for name in names if name not in COLUMNS and rows]
    keys = columns.get("key")
    return Examples(
        np.array(features, dtype=np.float64).T,
        _targets(columns.get("y")),
        None if keys is None else [as_key(key) for key in keys],
        _numbers(columns.get("weight")),
        None if "time" not in columns else [_time(text) for text in columns["time"]],
        None if "tags" not in columns else [_tags(text) for text in columns["tags"]],
    )


def _of(members: dict[str, Any]) -> Examples:
    sparse = {name: members.pop(name) for name in SPARSE if name in members}
    if sparse.keys() == set(SPARSE) and "X" not in members:
        members["X"] = _sparse(**sparse)
    elif isinstance(members.get("X"), dict):
        members["X"] = _of_rows(members["X"])
    unknown = members.keys() - {"X", "y", "keys", "weights", "times", "tags"}
    if unknown or "X" not in members:
        raise ValueError(
            f"it holds {', '.join(sorted(members))}; X, y, keys, weights, times and tags are read, and X is needed"
        )
    keys = members.get("keys")
    return Examples(
        members["X"] if hasattr(members["X"], "tocsr") else np.asarray(members["X"], dtype=np.float64),
        _targets(members.get("y")),
        None if keys is None else np.asarray(keys).tolist() if isinstance(keys, np.ndarray) else list(keys),
        _numbers(members.get("weights")),
        None if members.get("times") is None else np.asarray(members["times"]).tolist(),
        _listed(members.get("tags")),
    )


def _of_rows(given: dict[str, Any]) -> Any:
    """Sparse rows as JSON has them."""
    indptr = np.cumsum([0, *map(len, given["indices"])])
    indices, values = ([entry for row in given[name] for entry in row] for name in ("indices", "values"))
    return _sparse(indptr, indices, values, given["n_features"])


def _tags(text: str) -> Any:
    """Return tags in a cell: a JSON list, as the service writes them, or one."""
    return json.loads(text) if text.startswith("[") else text or None


def _listed(tags: Any) -> list[Any] | None:
    """Return tags of a file; of an array (n,) or (n, most), in which an empty text is none."""
    if not isinstance(tags, np.ndarray):
        return None if tags is None else list(tags)
    return [[tag for tag in row if tag] for row in tags.reshape(len(tags), -1).tolist()]


def _time(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _targets(values: Any) -> NDArray[Any] | None:
    """Return numbers if all of them are, else words."""
    if values is None:
        return None
    try:
        return np.asarray(values, dtype=np.float64)
    except ValueError:
        return np.asarray([str(value) for value in values])


def _numbers(values: Any) -> NDArray[np.float64] | None:
    return None if values is None else np.asarray(values, dtype=np.float64)


_READERS: dict[str, Callable[[Path], Examples]] = {
    ".npz": _npz,
    ".json": _json,
    ".csv": _csv,
    ".svmlight": _svmlight,
    ".svm": _svmlight,
}
