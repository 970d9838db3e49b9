"""Arrow streams and files in memory: the size of their unpacked data, and their columns as cells.

Any client can send Arrow files, also damaged or malicious ones. Declared sizes are therefore checked before pyarrow
unpacks any data, and pyarrow checks all offsets and texts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from itertools import islice
from typing import Any

import numpy as np

from livesvm.service.files.malformed import Malformed
from livesvm.solvers.errors import InvalidInput

MAGIC = b"ARROW1"
"""First and last bytes of a file; a stream has none."""
MOST_BUFFERS = 2**20
_DICTIONARY, _RECORDS = 2, 3  # types of messages that have a body
_LEAST = 16  # bytes of a message
_PARTS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # of a second


def unpacked_bytes(data: bytes) -> int:
    """Return the total unpacked size of the compressed buffers in a stream or file.

    Each buffer starts with its unpacked size, and pyarrow never unpacks more bytes than this size. Raises Malformed.
    """
    try:
        messages = (_of_file if data.startswith(MAGIC) else _of_stream)(data)
        sizes = (size for message in messages for size in _unpacked(data, *message))
        found = sum(islice(sizes, MOST_BUFFERS))
        if next(sizes, None) is None:
            return found
    except struct.error:
        pass
    raise Malformed("is no Arrow stream or file that can be read", field="body")


def _of_stream(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the offsets of each message in a stream and of the message's body."""
    at = 0
    while at < len(data):
        message, size = _message(data, at)
        if size == 0:
            return
        if size < _LEAST:
            raise struct.error("less than a message has")
        length = _field(data, _table(data, message), 3)
        yield message, message + size
        at = message + size + (0 if length is None else max(0, _at("<q", data, length)))


def _of_file(data: bytes) -> Iterator[tuple[int, int]]:
    end, listed = len(data) - len(MAGIC) - 4, 0
    footer = _table(data, end - _at("<i", data, end))
    for slot in (2, 3):  # dictionaries, batches
        if (blocks := _field(data, footer, slot)) is None:
            continue
        first, count = _vector(data, blocks)
        for number in range(count):
            offset, size, length = struct.unpack_from("<qi4xq", data, first + 24 * number)
            listed += size + length
            if size < _LEAST or length < 0 or listed > len(data):  # one message would be read again and again
                raise struct.error("more than the file has")
            yield _message(data, offset)[0], offset + size


def _message(data: bytes, at: int) -> tuple[int, int]:
    """Return the offset and the size of a frame's message; frames from before Arrow 0.15 begin with the size."""
    size = _at("<i", data, at)
    return (at + 8, _at("<i", data, at + 4)) if size == -1 else (at + 4, size)


def _unpacked(data: bytes, message: int, body: int) -> Iterator[int]:
    """Yield the unpacked size of each compressed buffer of a message."""
    table = _table(data, message)
    kind, header = _field(data, table, 1), _field(data, table, 2)
    type_ = None if kind is None else _at("<B", data, kind)
    if header is None or type_ not in (_DICTIONARY, _RECORDS):
        return
    records = _table(data, header)
    if type_ == _DICTIONARY and (inner := _field(data, records, 1)) is not None:
        records = _table(data, inner)
    if _field(data, records, 3) is None or (buffers := _field(data, records, 2)) is None:
        return
    first, count = _vector(data, buffers)
    for number in range(count):
        offset, length = struct.unpack_from("<qq", data, first + 16 * number)
        yield max(0, _at("<q", data, body + offset)) if length else 0


def _at(form: str, data: bytes, place: int) -> int:
    if place < 0:
        raise struct.error("before the beginning")
    number: int = struct.unpack_from(form, data, place)[0]
    return number


def _table(data: bytes, start: int) -> int:
    return start + _at("<I", data, start)


def _field(data: bytes, table: int, slot: int) -> int | None:
    """Return the offset of a field in a FlatBuffers table; None if the table does not have the field."""
    names = table - _at("<i", data, table)
    if 4 + 2 * slot >= _at("<H", data, names):
        return None
    return table + at if (at := _at("<H", data, names + 4 + 2 * slot)) else None


def _vector(data: bytes, field: int) -> tuple[int, int]:
    """Return the offset of the first item of a FlatBuffers vector, and the number of items."""
    start = field + _at("<I", data, field)
    return start + 4, _at("<I", data, start)


@contextmanager
def _readable() -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise Malformed(f"is no Arrow stream or file that can be read: {error}", field="body") from error


def table_of(data: bytes, unpacked: int, most_rows: int) -> Any:
    """Return the table of a stream or file, with all offsets and texts checked; raises Malformed or InvalidInput.

    ``unpacked`` is the result of :func:`unpacked_bytes`.
    """
    import pyarrow
    from pyarrow import ipc

    with _readable():
        if data.startswith(MAGIC):
            file = ipc.open_file(data)
            schema, batches = file.schema, map(file.get_batch, range(file.num_record_batches))
        else:
            batches = ipc.open_stream(data)
            schema = batches.schema
        for name, kind in zip(schema.names, schema.types, strict=True):
            if not _is_read(kind):
                raise InvalidInput(f"holds {str(kind)[:64]}, neither numbers, text nor times", field=name[:64])
            if schema.names.count(name) > 1:
                raise InvalidInput("stands twice", field=name[:64])
        found, rows = [], 0
        for batch in batches:
            rows += batch.num_rows
            if rows > most_rows:
                raise InvalidInput(f"holds more than {most_rows} rows", field="rows")
            batch.validate()
            if batch.nbytes > len(data) + unpacked:  # columns share their bytes
                raise Malformed("is an Arrow file that is larger than its bytes", field="body")
            batch.validate(full=True)
            found.append(batch)
        return pyarrow.Table.from_batches(found, schema)


def _is_read(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return not types.is_dictionary(kind.value_type) and _is_read(kind.value_type)
    kinds = (
        types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal,
        types.is_string, types.is_large_string, types.is_string_view,
        types.is_date, types.is_timestamp, types.is_duration,
    )  # fmt: skip
    return any(is_it(kind) for is_it in kinds)


def text_bytes(table: Any) -> int:
    """Return the size in bytes of a table's cells; a text in an Arrow dictionary is counted once."""
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    return sum(_view_bytes(chunk) or chunk.nbytes for chunk in chunks)


def _view_bytes(array: Any) -> int:
    """Return the size of the texts in an array of string views, which may share bytes; 0 for other arrays."""
    from pyarrow import types

    if types.is_dictionary(array.type):
        return _view_bytes(array.dictionary)
    if not types.is_string_view(array.type) or not len(array):
        return 0
    sizes = np.frombuffer(array.buffers()[1], "<i4")[::4][array.offset :][: len(array)]
    return int(np.maximum(sizes, 0).sum(dtype=np.int64))


def columns_of(table: Any) -> dict[str, list[Any]]:
    """Return the cells of a table: numbers, truth values, texts, times in ISO 8601, durations in seconds, and None.

    A time without a time zone stays without a zone; a time with a zone is converted to UTC.
    """
    with _readable():
        found: dict[str, list[Any]] = {name: [] for name in table.column_names}
        for name, column in zip(found, table.columns, strict=True):
            for chunk in column.chunks:
                try:
                    found[name] += _cells(chunk)
                except (ValueError, OverflowError) as error:
                    raise InvalidInput(f"has a time that cannot be read: {error}", field=name[:64]) from error
        return found


def _cells(array: Any) -> list[Any]:
    import pyarrow.compute
    from pyarrow import types

    kind = array.type
    if types.is_dictionary(kind):
        words = _cells(array.dictionary)
        return [None if at is None else words[at] for at in array.indices.to_pylist()]
    if types.is_floating(kind) or types.is_decimal(kind):
        array = array.cast(pyarrow.float64())
    elif types.is_timestamp(kind):
        array = array.cast(pyarrow.timestamp("us", kind.tz and "UTC"), safe=False)
    elif types.is_duration(kind):
        array = pyarrow.compute.divide(array.cast(pyarrow.int64()).cast(pyarrow.float64()), _PARTS[kind.unit])
    return [cell.isoformat() if isinstance(cell, date) else cell for cell in array.to_pylist()]
