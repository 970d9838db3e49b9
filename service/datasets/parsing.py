"""An uploaded file made into arrays, in a process of its own: what each format holds, and what is wrong with it.

Rows and columns that are told count from 0, those of a table without its head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from livesvm.service.datasets import npz_file, parquet_file, svmlight, table
from livesvm.service.datasets.arrays import Sink

Format = Literal["npz", "svmlight", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
Document = dict[str, Any]

_READERS: Mapping[str, Callable[[Path, Sink, Document], None]] = {
    "npz": npz_file.read,
    "svmlight": svmlight.read,
    "csv": table.read,
    "parquet": parquet_file.read,
}


def parse(asked: Document, tell: Callable[[Document], None]) -> Document:
    """What is known of the dataset in a file, whose arrays are written beside it; raises InvalidInput.

    Parameters
    ----------
    asked : ``file``, ``directory``, ``format``, ``target``, ``weights``, ``most_bytes``, ``most_features``
    """
    with Sink(Path(asked["directory"]), asked["most_bytes"], asked["most_features"]) as sink:
        _READERS[asked["format"]](Path(asked["file"]), sink, asked)
        return sink.finish()
