"""Rows of readings made of what carries them: text, and columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

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
