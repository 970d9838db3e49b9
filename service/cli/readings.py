"""Readings in files: CSV with a row of names, or Parquet, as lines of text and as rows."""

from __future__ import annotations

import csv
import io
from datetime import date
from pathlib import Path
from typing import Any

from livesvm.service.feeds.cells import cell

Line = list[str]


def table(file: Path) -> tuple[Line, list[Line]]:
    """Return the names and the lines of a file; raises ValueError or OSError."""
    if file.suffix.lower() in (".parquet", ".pq"):
        return _parquet(file)
    with file.open(newline="", encoding="utf-8-sig") as opened:
        names, *lines = [line for line in csv.reader(opened) if line] or [[]]
    if not names:
        raise ValueError(f"{file} is empty: its first row has the names of columns")
    return names, lines


def rows_in(file: Path, time: str | None) -> list[dict[str, Any]]:
    """Return the rows of a file by column, numbers as such, but for its column of times."""
    names, lines = table(file)
    return [{name: cell(text, name == time) for name, text in zip(names, line, strict=True)} for line in lines]


def csv_of(lines: list[Line]) -> bytes:
    """Return lines as CSV."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(lines)
    return text.getvalue().encode()


def _parquet(file: Path) -> tuple[Line, list[Line]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ValueError("Parquet needs livesvm[parquet]") from None
    try:
        found = parquet.read_table(file)
    except ArrowException as error:
        raise ValueError(f"{file} is no Parquet file: {error}") from error
    columns = [column.to_pylist() for column in found.columns]
    try:
        return list(found.column_names), [[_text(value) for value in line] for line in zip(*columns, strict=True)]
    except ValueError as error:
        raise ValueError(f"{file} {error}") from None


def _text(value: Any) -> str:
    """Return a cell as CSV has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        raise ValueError("holds true or false; readings are numbers, and names of series text or whole numbers")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 7.0 names the series 7
    return repr(value) if isinstance(value, float) else str(value)
