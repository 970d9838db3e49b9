"""Reports as tables that notebooks show."""

from __future__ import annotations

from dataclasses import fields
from html import escape
from typing import Any

import numpy as np

MOST = 6  #: values of an array or a tuple that are written out


def html_of(report: Any) -> str:
    """Return the fields of a report, a dataclass or a named tuple, as a table in HTML."""
    names = getattr(report, "_fields", None) or [one.name for one in fields(report) if one.repr]
    return table_of(type(report).__name__, [[name, getattr(report, name)] for name in names])


def table_of(title: str, rows: list[list[Any]], names: tuple[str, ...] = ()) -> str:
    """Return rows of values as a table in HTML, with the given names above the columns."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(brief(value))}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><tr>{head}</tr>{body}</table>"


def brief(value: Any) -> str:
    """Return a value as a short text: a number has four digits; of many values the text has the first and the count."""
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, np.ndarray | tuple | list):
        values = np.asarray(value, object).ravel()
        more = f", ... ({' x '.join(map(str, np.shape(value)))})" if values.size > MOST else ""
        return ", ".join(brief(one) for one in values[:MOST]) + more
    if isinstance(value, dict):
        return ", ".join(f"{name} {brief(one)}" for name, one in value.items())
    return str(value)
