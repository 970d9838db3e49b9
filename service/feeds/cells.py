"""Rows of readings made of what carries them: text, and columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from livesvm.solvers.errors import InvalidInput

NOTHING = frozenset(("", "nan", "na", "null"))
"""Texts of a reading that is not there."""


def cell(text: str, is_time: bool) -> float | str | None:
    """Return a number where the text is one, None where it is empty, else the text, which the feed refuses."""
    text = text.strip()
    if text.lower() in NOTHING:
        return None
    if is_time:
        return text
    try:
        return text if "_" in text else float(text)
    except ValueError:
        return text


def rows_of(columns: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Return columns of equal length as rows."""
    names = list(columns)
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def table_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return rows as observations keep them; raises InvalidInput if there is none."""
    if not rows:
        raise InvalidInput("holds no row", field="rows")
    names = list(rows[0])
    if all(row.keys() == rows[0].keys() for row in rows):
        return {"columns": {name: _packed([row[name] for row in rows]) for name in names}}
    return {"rows": [dict(row) for row in rows]}


def _packed(values: list[Any]) -> Any:
    """Return numbers as an array, whatever else as it is."""
    if all(value is None or type(value) in (int, float) for value in values):
        return np.array([_number(value) for value in values])
    return values


def _number(value: float | None) -> float:
    try:
        return math.nan if value is None else float(value)
    except OverflowError:
        return math.inf
