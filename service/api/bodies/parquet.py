"""Parquet files in request bodies: read within known bounds, whatever they say of themselves.

Their values are coded: a text that stands once in the file may be the cell of every row, and a page of a few bytes may
unpack to a gigabyte. So what the file will be in memory is counted first: its footer, its pages by their own headers,
which are what is unpacked, and then the texts of all cells.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from livesvm.service.api.bodies.observations import BYTES_A_CELL, MOST_COLUMNS
from livesvm.service.api.bodies.reading import Body
from livesvm.service.errors import BodyTooLarge, MalformedBody, UnsupportedMedia
from livesvm.solvers.errors import InvalidInput

MOST_PAGES = 2**14
"""Pages that all columns may have; a writer makes one for each 20,000 rows or so, and one for a dictionary."""
MOST_FOOTER = 2**19
"""Bytes of the description at the end of a file."""
MOST_LISTED = 2**14
"""Things in any list of it; memory for them is taken before they are read."""
BYTES_A_FOOTER_BYTE = 400
"""Memory that a byte of it may take: the entry of a column that says nothing is one byte."""
MAGIC = b"PAR1"
PREFIXED = 7
"""The encoding of texts that share their beginnings, which what is unpacked gives no bound for."""
_KIND, _UNPACKED, _PACKED, _VALUES = 1, 2, 3, 1
"""Fields of a page's header: its kind and sizes; and of the part for its kind the number of values."""
_DICTIONARY = 2
_PARTS = {0: (5, 2), _DICTIONARY: (7, 2), 3: (8, 4)}
"""By kind, the field of a page's header that is its part, and the field of that which names the encoding."""
_DEEPEST = 8
"""Structures within each other, in a header of a page; there are two."""


def columns(body: Body, most_rows: int) -> dict[str, list[Any]]:
    """Return columns of numbers, texts and times; a time without a zone is reported without one.

    Raises MalformedBody, UnsupportedMedia, BodyTooLarge, MemoryBusy, or InvalidInput with the column.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise UnsupportedMedia("parquet needs livesvm[parquet] where the service runs") from None
    bounds = {"thrift_string_size_limit": MOST_FOOTER, "thrift_container_size_limit": MOST_LISTED}
    refusals = (pa.ArrowException, OSError, MemoryError, ValueError, OverflowError)
    try:
        with body.memory(BYTES_A_FOOTER_BYTE * _footer(body.data)):
            metadata = parquet.ParquetFile(io.BytesIO(body.data), **bounds).metadata
            _check_rows(metadata, most_rows)
            texts = [field.name for field in metadata.schema.to_arrow_schema() if _is_text(pa, field)]
            unpacked = _unpacked(body.data, metadata, {*texts})
            if unpacked > body.limit:
                raise BodyTooLarge(f"the columns have {unpacked} bytes when unpacked, the limit is {body.limit}")
            with body.memory(3 * unpacked + BYTES_A_CELL * metadata.num_rows * max(1, metadata.num_columns)):
                file = parquet.ParquetFile(io.BytesIO(body.data), metadata=metadata, read_dictionary=texts, **bounds)
                table = file.read(use_threads=False)
                return {name: _listed(pa, table[name], body.limit) for name in table.column_names}
    except InvalidInput:
        raise
    except refusals as error:
        raise MalformedBody(f"the body is not a parquet file: {str(error)[:128]}") from error


def _footer(data: bytes) -> int:
    """Return the bytes of the footer; raises MalformedBody."""
    size = int.from_bytes(data[-8:-4], "little")
    if data[:4] != MAGIC or data[-4:] != MAGIC or len(data) < size + 12:
        raise MalformedBody("the body is not a parquet file: it does not begin and end as one")
    if size > MOST_FOOTER:
        raise MalformedBody(f"the footer of the parquet file has {size} bytes, the limit is {MOST_FOOTER}")
    return size


def _check_rows(metadata: Any, most_rows: int) -> None:
    if metadata.num_columns > MOST_COLUMNS:
        raise InvalidInput(f"has {metadata.num_columns} columns, the limit is {MOST_COLUMNS}", field="rows")
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    if max(rows, metadata.num_rows) > most_rows:
        raise InvalidInput(f"holds more than {most_rows} rows", field="rows")
    if metadata.num_rows != rows or any(group.num_rows < 0 for group in groups):
        raise MalformedBody(f"the parquet file says that it has {metadata.num_rows} rows, and its parts have {rows}")


def _is_text(pa: Any, field: Any) -> bool:
    """Return whether a column holds text; raises InvalidInput unless it holds that, numbers or times."""
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    is_text: bool = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    if not (is_text or is_number or pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise InvalidInput(f"holds {str(kind)[:64]}, neither numbers, text nor times", field=field.name[:64])
    return is_text


def _unpacked(data: bytes, metadata: Any, texts: set[str]) -> int:
    """Return the bytes of all pages when they are unpacked; raises MalformedBody, or InvalidInput with the column."""
    found, pages = 0, 0
    for group in (metadata.row_group(at) for at in range(metadata.num_row_groups)):
        for chunk in (group.column(at) for at in range(group.num_columns)):
            if chunk.num_values != group.num_rows:
                raise MalformedBody(f"the parquet file has {chunk.num_values} values in {group.num_rows} rows")
            for size, encoding in _pages(data, chunk):
                if encoding == PREFIXED and chunk.path_in_schema in texts:
                    reason = "is encoded as DELTA_BYTE_ARRAY; write the file with dictionaries, or plain"
                    raise InvalidInput(reason, field=chunk.path_in_schema[:64])
                found, pages = found + size, pages + 1
                if pages > MOST_PAGES:
                    reason = f"has more than {MOST_PAGES} pages; write the file with larger ones"
                    raise InvalidInput(reason, field="rows")
    return found


def _pages(data: bytes, chunk: Any) -> Iterator[tuple[int, int]]:
    """Yield the bytes of each page of a column when it is unpacked, and its encoding; raises MalformedBody."""
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < (first := chunk.dictionary_page_offset) < at:
        at = first
    end, seen = at + chunk.total_compressed_size, 0
    if not 0 <= at <= end <= len(data):
        raise MalformedBody("the parquet file has a column outside of itself")
    while at < end and seen < chunk.num_values:
        header, at = _Compact(data, at, end).read()
        part, encoding = _PARTS.get(header.get(_KIND, -1), (0, 0))
        about = header.get(part, {}) if part else {_VALUES: 0}
        size, packed, values = header.get(_UNPACKED, -1), header.get(_PACKED, -1), about.get(_VALUES, -1)
        if size < 0 or packed < 0 or not 0 <= values <= max(size, chunk.num_values):
            raise MalformedBody("the parquet file has a page that is none")
        seen += 0 if part == _PARTS[_DICTIONARY][0] else values
        at += packed
        yield size, about.get(encoding, -1)


class _Compact:
    """Reads a structure of Thrift's compact protocol, which headers of pages are written in: whole numbers alone.

    Whatever else it holds is passed over.
    """

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data, self._at, self._end = data, at, end

    def read(self) -> tuple[dict[int, Any], int]:
        """Return its numbers, and structures of these, by field, and where it ends; raises MalformedBody."""
        return self._structure(0), self._at

    def _structure(self, depth: int) -> dict[int, Any]:
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            value = self._value(head & 15, depth)
            if value is not None:
                found[field] = value
        return found

    def _value(self, kind: int, depth: int) -> Any:
        """Return a number or a structure; None of anything else."""
        if kind in (1, 2):  # true and false, without a byte of their own
            return None
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 12 and depth < _DEEPEST:
            return self._structure(depth + 1)
        if kind in (3, 7):
            self._skip(1 if kind == 3 else 8)
        elif kind == 8:
            self._skip(self._unsigned())
        else:
            raise MalformedBody("the parquet file has a page without a header")
        return None

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def _unsigned(self) -> int:
        number = 0
        for place in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << place
            if byte < 128:
                return number
        raise MalformedBody("the parquet file has a page without a header")

    def _byte(self) -> int:
        self._skip(1)
        return self._data[self._at - 1]

    def _skip(self, size: int) -> None:
        self._at += size
        if self._at > self._end:
            raise MalformedBody("the parquet file has a page that does not end in it")


def _listed(pa: Any, column: Any, limit: int) -> list[Any]:
    """Return the cells of a column; a text that stands in many is one object. Raises BodyTooLarge."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return [None if one is None else one.isoformat() for one in column.to_pylist()]
    if kind == column.type:
        plain: list[Any] = column.to_pylist()
        return plain
    found: list[Any] = []
    size = 0
    for chunk in column.chunks:
        known = chunk.dictionary.to_pylist()
        cells = [None if place is None else known[place] for place in chunk.indices.to_pylist()]
        size += sum(len(cell) for cell in cells if isinstance(cell, str))
        if size > limit:
            raise BodyTooLarge(f"the texts of a column have {size} bytes in all cells, the limit is {limit}")
        found += cells
    return found
