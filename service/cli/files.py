"""Examples in files: npz with ``X``, ``y``, ``keys``, ``weights``; JSON with the same; CSV with a row of names.

In CSV the columns ``y``, ``key`` and ``weight`` are what they say, all others are features, in their order.
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

COLUMNS = ("y", "key", "weight")


@dataclass(frozen=True)
class Examples:
    """What a file holds: features (n, d), and what else it has of each example."""

    X: NDArray[np.float64]
    y: NDArray[np.float64] | None = None
    keys: list[int | str] | None = None
    weights: NDArray[np.float64] | None = None


def read(path: Path) -> Examples:
    """The examples in a file, which its name tells the kind of; raises OSError or ValueError."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path} is none of {', '.join(_READERS)}")
    try:
        return reader(path)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def as_key(text: str) -> int | str:
    """The key that a text names: a number where it is written as the service writes numbers."""
    is_number = text.isascii() and text.isdigit() and str(int(text)) == text
    return int(text) if is_number else text


def write_predictions(path: Path, answer: dict[str, Any]) -> None:
    """Decision values and predictions as CSV, a row each."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("decision", "prediction"))
        rows.writerows(zip(answer["decision"], answer["prediction"], strict=True))


def _npz(path: Path) -> Examples:
    with np.load(path, allow_pickle=False) as members:
        return _of(dict(members))


def _json(path: Path) -> Examples:
    document = json.loads(path.read_text(encoding="utf-8"))
    return _of(document if isinstance(document, dict) else {"X": document})


def _csv(path: Path) -> Examples:
    with path.open(newline="", encoding="utf-8-sig") as file:
        names, *rows = [row for row in csv.reader(file) if row]
    if any(len(row) != len(names) for row in rows):
        raise ValueError(f"its rows do not all have {len(names)} entries")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    features = [columns[name] for name in names if name not in COLUMNS and rows]
    keys = columns.get("key")
    return Examples(
        np.array(features, dtype=np.float64).T,
        _numbers(columns.get("y")),
        None if keys is None else [as_key(key) for key in keys],
        _numbers(columns.get("weight")),
    )


def _of(members: dict[str, Any]) -> Examples:
    unknown = members.keys() - {"X", "y", "keys", "weights"}
    if unknown or "X" not in members:
        raise ValueError(f"it holds {', '.join(sorted(members))}; X, y, keys and weights are read, and X is needed")
    keys = members.get("keys")
    return Examples(
        np.asarray(members["X"], dtype=np.float64),
        _numbers(members.get("y")),
        None if keys is None else np.asarray(keys).tolist() if isinstance(keys, np.ndarray) else list(keys),
        _numbers(members.get("weights")),
    )


def _numbers(values: Any) -> NDArray[np.float64] | None:
    return None if values is None else np.asarray(values, dtype=np.float64)


_READERS: dict[str, Callable[[Path], Examples]] = {".npz": _npz, ".json": _json, ".csv": _csv}
