"""The stored form of a command's rows: by column, with an array for each column of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from livesvm.solvers.errors import InvalidInput


def table_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return rows in the form in which observations store them; raises InvalidInput if there are no rows."""
    if not rows:
        raise InvalidInput("holds no row", field="rows")
    names = list(rows[0])
    if all(row.keys() == rows[0].keys() for row in rows):
        return {"columns": {name: _packed([row[name] for row in rows]) for name in names}}
    return {"rows": [dict(row) for row in rows]}


NUMBERS = frozenset((int, float, type(None)))
"""Types of a column that is kept as an array."""


def _packed(values: list[Any]) -> Any:
    """Return a column as an array if it holds only numbers, otherwise unchanged."""
    if not NUMBERS.issuperset(map(type, values)):
        return values
    try:
        return np.array(values, np.float64)
    except OverflowError:
        return np.array([_number(value) for value in values])


def _number(value: float | None) -> float:
    try:
        return math.nan if value is None else float(value)
    except OverflowError:
        return math.inf
