"""Examples in files: npz and JSON with ``X``, ``y``, ``keys``, ``weights``, ``times``, ``tags``; tables; svmlight.

In a table, the columns ``y``, ``key``, ``weight``, ``time`` and ``tags`` have the fields of these names, and all other
columns are features, in their order. But a column is a feature if the model has a column of the same name. Files in
svmlight format have sparse features, with columns counted from 1. An npz file can have sparse features in ``indptr``,
``indices``, ``values`` and ``n_features``. Targets are numbers if all are numbers, and otherwise words.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livesvm.service.cli import readings
from livesvm.service.feeds.cells import cell, inert
from livesvm.service.files import csv_text, svmlight
from livesvm.solvers.errors import InvalidInput

COLUMNS = ("y", "key", "weight", "time", "tags")
PLAIN = ("weight", "time")  #: features of the first table of a model with columns, as cars have a weight
Line = list[str]
SPARSE = ("indptr", "indices", "values", "n_features")


@dataclass(frozen=True)
class Examples:
    """The examples in a file: features (n, d), dense or scipy.sparse, and other fields, None if absent in the file."""

    X: Any
    y: NDArray[Any] | None = None
    keys: list[int | str] | None = None
    weights: NDArray[np.float64] | None = None
    times: list[Any] | None = None  #: ISO 8601 with a UTC offset, or Unix seconds
    tags: list[Any] | None = None  #: of each a text, a list of them, or None


def read(
    path: Path,
    given: dict[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    key: str | None = None,
    *,
    learns: bool = False,
) -> Examples:
    """Read the examples in a file in the format that its extension names; raises OSError or ValueError.

    Parameters
    ----------
    given : options of :mod:`.readings` that describe a table
    columns : names of the model's columns; empty: not known yet; None: the model takes numbers without names
    target, key : names of a table's columns of targets and keys, if not ``y`` and ``key``
    learns : whether rows of a table with named columns are left out, with a note, if they have no target
    """
    reader = _READERS.get(path.suffix.lower())
    try:
        if reader is not None:
            return reader(path)
        table = ExampleTable(path, given, columns, target, key)
        at, rows = table.roles.get("y"), [*table.found.rows()]
        if not learns or at is None or columns is None:
            return table.examples(rows)
        with_target = [row for row in rows if row[at]]
        if left_out := len(rows) - len(with_target):
            print(f"livesvm: {path}: {left_out} rows without a target are left out", file=sys.stderr)
        return table.examples(with_target)
    except InvalidInput as error:
        places = {"row": error.row, "column": error.column}
        where = "".join(f"{name} {at + 1}: " for name, at in places.items() if at is not None)
        raise ValueError(f"{path} cannot be read: {where}{error.reason}") from error
    except (ValueError, KeyError, TypeError) as error:
        said = str(error).removeprefix(f"{path}: ")
        raise ValueError(f"{path} cannot be read: {said}") from error


class ExampleTable:
    """A file that is a table of examples, with the roles of its columns; reading it raises OSError or ValueError."""

    def __init__(
        self,
        path: Path,
        given: dict[str, Any] | None,
        columns: Sequence[str] | None,
        target: str | None,
        key: str | None,
    ) -> None:
        self.found = readings.table(path, given, of_examples=True)
        names = self.found.names
        own, asked = set(columns or ()), {"y": target, "key": key}
        for name in filter(None, asked.values()):
            if name not in names:
                raise ValueError(f"the file has no column {name!r}; it has {', '.join(names)[:200]}")
        self.roles = {
            role: names.index(asked.get(role) or role)
            for role in COLUMNS
            if asked.get(role) or (role in names and role not in own and (own or columns is None or role not in PLAIN))
        }
        rest = [name for at, name in enumerate(names) if at not in self.roles.values()]
        unknown, absent = [name for name in rest if name not in own], sorted(own - {*rest})
        if own and absent:
            raise ValueError(f"the file has no column {absent[0]!r}, which the model has")
        if own and len(unknown) == 1 and "y" not in self.roles:  # what the model does not have is what it tells
            self.roles["y"] = names.index(unknown[0])
            rest.remove(unknown[0])
        elif own and unknown:
            raise ValueError(f"{unknown[0]} is no column of the model; say --target or --key-column where it is one")
        self.features, self.is_named = rest, columns is not None

    @property
    def said(self) -> dict[str, Any]:
        """How the table was read, and which of its columns are not features."""
        roles = {"target" if role == "y" else role: self.found.names[at] for role, at in self.roles.items()}
        return {**readings.told(self.found.understood), **roles}

    def examples(self, lines: Iterable[Line], before: int = 0) -> Examples:
        """Convert rows to examples; the file has ``before`` rows before these rows. Raises InvalidInput."""
        found = [*lines]
        columns = dict(zip(self.found.names, zip(*found, strict=True), strict=True)) if found else {}
        held = {role: columns.get(self.found.names[at]) for role, at in self.roles.items()}
        keys, times, tags = held.get("key"), held.get("time"), held.get("tags")
        return Examples(
            self._named(columns, len(found)) if self.is_named else self._numbers(columns, before),
            _targets(held.get("y")),
            None if keys is None else [as_key(key) for key in keys],
            _numbers(held.get("weight")),
            None if times is None else [_time(text) for text in times],
            None if tags is None else [_tags(text) for text in tags],
        )

    def _named(self, columns: dict[str, Any], count: int) -> list[dict[str, Any]]:
        numbers = {*self.found.numbers}
        cells = [
            [cell(one, False) if name in numbers else one or None for one in columns.get(name, ())]
            for name in self.features
        ]
        return [dict(zip(self.features, row, strict=True)) for row in zip(*cells, strict=True)] if count else []

    def _numbers(self, columns: dict[str, Any], before: int) -> NDArray[np.float64]:
        for name in self.features:
            for row, one in enumerate(columns.get(name, ())):
                if not csv_text.is_number(one):
                    what = f"{name}: {one[:32]!r} is not a number" if one else f"{name}: is empty"
                    raise InvalidInput(what, field=name, row=before + row)
        return np.array([columns.get(name, ()) for name in self.features], dtype=np.float64).T


def as_wide(X: Any, n_features: int | None) -> Any:
    """Widen sparse rows to the model's number of features; a file without entries in the last columns gives fewer."""
    if n_features is not None and hasattr(X, "tocsr") and X.shape[1] < n_features:
        X.resize((X.shape[0], n_features))
    return X


def as_key(text: str) -> int | str:
    """Convert a text to a key: an integer if the text is written as the service writes integers, else the text."""
    is_number = text.isascii() and text.isdigit() and len(text) <= 16 and str(int(text)) == text
    return int(text) if is_number else text


def corrections(path: Path, *, is_text: bool) -> dict[int | str, float | str]:
    """Read new labels or targets by key from CSV with a line of names, a column of keys, and one of labels.

    Labels are texts if ``is_text``, else numbers. Raises InvalidInput, which names the row, for a bad row or a repeated
    key.
    """
    found: dict[int | str, float | str] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file)
        if len(next(lines, [])) != 2:
            raise InvalidInput(f"the first line of {path} must name two columns, of keys and of labels")
        for row, line in enumerate(filter(None, lines)):
            if len(line) != 2 or not all(line):
                raise InvalidInput(f"must be a key and a label, not {','.join(line)!r}", field=str(path), row=row)
            if as_key(line[0]) in found:
                raise InvalidInput(f"{line[0]!r} is there twice", field=str(path), row=row)
            try:
                found[as_key(line[0])] = line[1] if is_text else float(line[1])
            except ValueError:
                raise InvalidInput(f"{line[1]!r} is no number", field=str(path), row=row) from None
    return found


def write_predictions(path: Path, answer: dict[str, Any]) -> None:
    """Write predictions as CSV; with more than two classes, each class or pair has a column of decision values.

    Probabilities have a column for each class, and intervals have two columns. A set of classes is one cell with the
    classes separated by blanks.
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
    """Read the examples in an svmlight file, which have sparse features."""
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
    """Convert sparse rows from JSON, which has lists of indices and of values for each row."""
    indptr = np.cumsum([0, *map(len, given["indices"])])
    indices, values = ([entry for row in given[name] for entry in row] for name in ("indices", "values"))
    return _sparse(indptr, indices, values, given["n_features"])


def _tags(text: str) -> Any:
    """Return the tags in a cell, which holds one tag, or a JSON list of tags as the service writes it."""
    return json.loads(text) if text.startswith("[") else text or None


def _listed(tags: Any) -> list[Any] | None:
    """Return a list of tags for each example from an array (n,) or (n, most), in which empty texts are not tags."""
    if not isinstance(tags, np.ndarray):
        return None if tags is None else list(tags)
    return [[tag for tag in row if tag] for row in tags.reshape(len(tags), -1).tolist()]


def _time(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _targets(values: Any) -> NDArray[Any] | None:
    """Convert targets to numbers if all are numbers; otherwise return them as words."""
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
    ".svmlight": _svmlight,
    ".svm": _svmlight,
}
