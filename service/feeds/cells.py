"""Cells of tables: read cells from text, turn columns into rows, and write text that spreadsheets do not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NOTHING = frozenset(("", "nan", "na", "null"))
"""Texts of a reading that is not there."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Characters before what a spreadsheet runs, as OWASP lists them."""


def cell(text: str, is_time: bool) -> float | str | None:
    """Return the number that a text spells, None for an empty text, or else the text itself, which the feed refuses."""
    text = text.strip()
    if text.lower() in NOTHING:
        return None
    if is_time:
        return text
    try:
        return text if "_" in text else float(text)
    except ValueError:
        return text


def inert(value: Any) -> Any:
    """Return a cell for CSV: put an apostrophe before text that a spreadsheet would run, but leave numbers as they are.

    >>> inert("=1+1"), inert("-3.5"), inert(-3.5), inert("a-b")
    ("'=1+1", '-3.5', -3.5, 'a-b')
    """
    if not isinstance(value, str) or not value.startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value if value.strip() == value else f"'{value}"


def rows_of(columns: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Return columns of equal length as rows."""
    names = list(columns)
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
