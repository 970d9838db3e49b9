"""Parquet files, read by DuckDB if it is installed (``pip install livesvm[parquet]``).

Values in Parquet files are encoded: a text stored once may be the cell of every row, and a page of a few bytes may
unpack to a gigabyte. DuckDB unpacks the values within a memory limit, and has no access to other files, the network or
extensions; the size of all texts is checked before Python objects are created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from livesvm.service.errors import BodyTooLarge, UnsupportedMedia
from livesvm.service.files.malformed import Malformed

KINDS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "number"),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"), "time"),
    "VARCHAR": "text",
}
"""Kind of a column for each type of DuckDB; other types keep DuckDB's name."""
_AS_NUMBERS = ("DECIMAL", '"NULL"')  # types that are read as double precision; of the latter all cells are missing


def is_there() -> bool:
    """Return whether DuckDB, which reads Parquet files, is installed."""
    return find_spec("duckdb") is not None


class ParquetTable:
    """The columns and rows of a Parquet file.

    Parameters
    ----------
    most_rows : number of rows that are read; later rows are ignored
    kinds : kind of each column by name: "integer", "number", "text", "time", or DuckDB's name of another type
    """

    def __init__(self, connection: Any, path: Path, most_rows: int) -> None:
        self._connection = connection
        described = connection.execute(f"describe select * from read_parquet({quoted(path)})").fetchall()
        exact = [name for name, kind, *_ in described if kind.startswith(_AS_NUMBERS)]
        casts = ", ".join(f"cast({column} as double) as {column}" for column in map(_named, exact))
        columns = f"* replace ({casts})" if exact else "*"
        self._file = f"(select {columns} from read_parquet({quoted(path)}) limit {most_rows})"
        kinds = {name: KINDS.get(kind, kind.lower()) for name, kind, *_ in described}
        self.kinds: Mapping[str, str] = kinds | dict.fromkeys(exact, "number")

    def size(self) -> int:
        """Return the number of bytes of all cells, if each were a number."""
        count = self._connection.execute(f"select count(*) from {self._file}").fetchone()[0]
        return 8 * int(count) * len(self.kinds)

    def text_sizes(self) -> tuple[int, int]:
        """Return the total size of all texts in bytes, and the size of the longest text."""
        texts = [_named(name) for name, kind in self.kinds.items() if kind == "text"]
        if not texts:
            return 0, 0
        each = [f"coalesce(sum(strlen({name})), 0), coalesce(max(strlen({name})), 0)" for name in texts]
        found = self._connection.execute(f"select {', '.join(each)} from {self._file}").fetchone()
        return int(sum(found[::2])), int(max(found[1::2]))

    def blocks(self, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield ``size`` rows at a time; their cells are numbers, texts, dates, datetimes or None."""
        result = self._connection.execute(f"select * from {self._file}")
        while block := result.fetchmany(size):
            yield block


@contextmanager
def opened(path: Path, memory_mb: int, most_rows: int = 2**62) -> Iterator[ParquetTable]:
    """Yield a Parquet file as a table of its first ``most_rows`` rows; raises the errors of :func:`connected`."""
    with connected(path, memory_mb) as connection:
        yield ParquetTable(connection, path, most_rows)


@contextmanager
def connected(path: Path, memory_mb: int) -> Iterator[Any]:
    """Yield a connection to a new DuckDB with a memory limit, which may read and write only this file.

    Raises Malformed, UnsupportedMedia, or BodyTooLarge if a part of the file does not fit in memory.
    """
    try:
        import duckdb
    except ImportError:
        raise UnsupportedMedia("parquet needs livesvm[parquet] where it is read") from None
    options: dict[str, Any] = {"threads": 1, "memory_limit": f"{memory_mb}MB", "max_temp_directory_size": "0B"}
    try:
        with duckdb.connect(config=options) as connection:
            connection.execute(f"set TimeZone='UTC'; set allowed_paths=[{quoted(path)}]")
            connection.execute("set enable_external_access=false; set lock_configuration=true")
            yield connection
    except duckdb.OutOfMemoryException as error:
        reason = "holds a part that is too large to be read; write it with fewer rows in a row group, and smaller pages"
        raise BodyTooLarge(f"the parquet file {reason}") from error
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0].replace(str(path), path.name)
        raise Malformed(f"is not a parquet file: {reason[:128]}", field="body") from error


def text_of(value: Any) -> str:
    """Return a cell as the text that a CSV file would have; raises ValueError for a truth value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        raise ValueError("holds true or false; readings are numbers, and names of series text or whole numbers")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 7.0 names the series 7
    return repr(value) if isinstance(value, float) else str(value)


def _named(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def quoted(path: Path) -> str:
    """Return a path as a quoted text in SQL."""
    return "'" + str(path).replace("'", "''") + "'"
