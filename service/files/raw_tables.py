"""Files of rows before their columns have a meaning: text tables, Parquet, range queries of Prometheus."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from livesvm.service.errors import ServiceError
from livesvm.service.files import dialect, parquet
from livesvm.service.files.dialect import FileOptions, Line
from livesvm.service.files.malformed import Malformed

MEMORY_MB = 512
"""That unpacking a Parquet file, or the text of a JSON file, may take."""
BLOCK = 10_000
"""Rows of a Parquet file that are read at once."""
LONG = ("time", "series", "value")
"""Names of a table with a row for each series and time."""


@dataclass
class Raw:
    """Cells of text, ``width`` in a row.

    Parameters
    ----------
    rows : begins at the first row each time
    said : what was understood
    is_text : whether people wrote the numbers, with marks of their own
    """

    names: Line
    rows: Callable[[], Iterator[Line]]
    said: dict[str, Any]
    width: int
    separator: str = ","
    is_text: bool = True


def opened(path: Path, given: FileOptions) -> Raw:
    """Return a file by what it begins with; raises Malformed, InvalidInput, ValueError or OSError."""
    with dialect.unpacked(path) as file:
        first = file.read(64).lstrip(b"\xef\xbb\xbf \r\n\t")
    if first.startswith(b"PAR1") or path.suffix.lower() in (".parquet", ".pq"):
        return _parquet(path)
    if first.startswith(b"{"):
        return _prometheus(path)
    one = dialect.understood(path, given)
    said = {
        "encoding": one.encoding,
        "separator": dialect.NAMES.get(one.separator, one.separator),
        "lines before the header": one.lead or None,
        "header": "none" if one.header is None else None,
        "lines under the header": one.units,
    }
    return Raw(one.names, partial(dialect.rows, path, one), said, len(one.used), one.separator)


def _parquet(path: Path) -> Raw:
    def rows() -> Iterator[Line]:
        """Yield rows as text; raises ValueError."""
        try:
            with parquet.opened(path, MEMORY_MB) as found:
                for block in found.blocks(BLOCK):
                    yield from ([*map(parquet.text_of, line)] for line in block)
        except (ServiceError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error

    try:
        with parquet.opened(path, MEMORY_MB) as found:
            names = [*found.kinds]
    except (ServiceError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    return Raw(names, rows, {"format": "Parquet"}, len(names), is_text=False)


def _prometheus(path: Path) -> Raw:
    """Return the answer of a range query of Prometheus, a row each series and time."""
    with dialect.unpacked(path) as file:
        text = file.read(MEMORY_MB * 2**20 + 1)
    if len(text) > MEMORY_MB * 2**20:
        raise Malformed(f"holds more than {MEMORY_MB} MB of JSON", field="body")
    try:
        found = json.loads(text)["data"]["result"]
        lines = [
            [f"{stamp:.3f}".rstrip("0").rstrip("."), _series_of(one["metric"]), value]
            for one in found
            for stamp, value in one["values"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise Malformed("is JSON, and no answer of Prometheus to a range query", field="body") from error
    return Raw([*LONG], lambda: iter(lines), {"format": "Prometheus range query"}, 3, is_text=False)


def _series_of(labels: dict[str, str]) -> str:
    rest = ",".join(f"{name}={value}" for name, value in labels.items() if name != "__name__")
    return labels.get("__name__", "") + (f"{{{rest}}}" if rest else "") or "{}"
