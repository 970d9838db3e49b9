"""Readings in files: CSV with a row of names, or Parquet, as lines of text and as rows."""

from __future__ import annotations

import csv
import io
from datetime import date
from pathlib import Path
from typing import Any

from livesvm.service.feeds.cells import cell

Line = list[str]
MEMORY_MB = 512
"""That unpacking a Parquet file may take."""
BLOCK = 10_000
"""Rows that are read at once."""


def table(file: Path) -> tuple[Line, list[Line]]:
    """Return the names and the lines of a file; raises ValueError or OSError."""
    if file.suffix.lower() in (".parquet", ".pq"):
        return _parquet(file)
    from livesvm.service.files import csv_text

    with file.open(newline="", encoding="utf-8-sig") as opened:
        return csv_text.named(opened)


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
    from livesvm.service.errors import ServiceError
    from livesvm.service.files import parquet

    try:
        with parquet.opened(file, MEMORY_MB) as found:
            lines = [[_text(value) for value in line] for block in found.blocks(BLOCK) for line in block]
            return list(found.kinds), lines
    except (ServiceError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from error


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
