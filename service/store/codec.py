"""The format of stored documents: a magic number, the schema version, a SHA-256, and msgpack with raw arrays.

    0   4  magic "LSVM"
    4   2  schema version, little endian
    6  32  SHA-256 of bytes 0 to 6 and of the payload
    38  .  payload: msgpack; an array is extension 1: msgpack (dtype, shape), then raw little-endian bytes; sparse rows
           are extension 2: msgpack of their arrays as CSR; an array of words is extension 3: msgpack of the words

Any single damaged byte is noticed. Documents are never read by ``pickle``. Documents of a schema version that is not in
:data:`READABLE` are refused.
"""

from __future__ import annotations

import hashlib
import math
import struct
from functools import lru_cache
from typing import Any

import msgpack
import numpy as np

from livesvm.service.store.base import StoreDamaged, StoreTooNew
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.sparse import SparseRows

SCHEMA = 8
"""8: keys that left are known, and rows that came before can be left out. 7: the schema of 0.2.0."""
READABLE = frozenset({7, 8})

_MAGIC = b"LSVM"
_HEADER = struct.Struct("<4sH32s")
_PREFIX = struct.Struct("<4sH")
_ARRAY, _SPARSE, _WORDS = 1, 2, 3
_DTYPES = frozenset({"<f8", "<f4", "<i8", "<i4", "<i2", "<u8", "|i1", "|u1", "|b1"})


def encode(document: dict[str, Any]) -> bytes:
    """Return the bytes of a document of numbers, strings, lists, dicts and arrays."""
    payload = pack(document)
    return _HEADER.pack(_MAGIC, SCHEMA, _digest(SCHEMA, payload)) + payload


def pack(document: dict[str, Any]) -> bytes:
    """Return a document's payload, without the header; equal documents have equal payloads in all schema versions."""
    payload: bytes = msgpack.packb(document, default=_pack, use_bin_type=True)
    return payload


def digest(document: dict[str, Any]) -> bytes:
    """Return the SHA-256 of a document's payload, by which requests are compared."""
    return hashlib.sha256(pack(document)).digest()


def unpack(payload: bytes) -> dict[str, Any]:
    """Return the document of a payload; raises ValueError if the payload holds no document."""
    document: dict[str, Any] = msgpack.unpackb(payload, ext_hook=_unpack, strict_map_key=False)
    return document


def decode(data: bytes) -> dict[str, Any]:
    """Return the document in ``data``; raises StoreDamaged or StoreTooNew."""
    if len(data) < _HEADER.size:
        raise StoreDamaged(f"record of {len(data)} bytes is too short")
    magic, schema, found = _HEADER.unpack_from(data)
    payload = data[_HEADER.size :]
    if magic != _MAGIC or found != _digest(schema, payload):
        raise StoreDamaged("record does not match its checksum")
    if schema not in READABLE:
        raise StoreTooNew(f"record has schema {schema}; this version reads {sorted(READABLE)}")
    return unpack(payload)


def _digest(schema: int, payload: bytes) -> bytes:
    return hashlib.sha256(_PREFIX.pack(_MAGIC, schema) + payload).digest()


def _pack(value: Any) -> Any:
    if type(value) is np.ndarray and value.dtype.str in _DTYPES:  # as nearly always
        return msgpack.ExtType(_ARRAY, _head(value.dtype.str, value.shape) + value.tobytes())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, SparseRows):
        return msgpack.ExtType(_SPARSE, pack(value.to_arrays()))
    if not isinstance(value, np.ndarray):
        raise TypeError(f"cannot store a {type(value).__name__}")
    if value.dtype.kind == "U" and value.ndim == 1:
        return msgpack.ExtType(_WORDS, msgpack.packb(value.tolist(), use_bin_type=True))
    little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
    if little.dtype.str not in _DTYPES:
        raise TypeError(f"cannot store an array of {value.dtype}")
    return msgpack.ExtType(_ARRAY, _head(little.dtype.str, value.shape) + little.tobytes())


@lru_cache(maxsize=1024)
def _head(kind: str, shape: tuple[int, ...]) -> bytes:
    """Return the bytes of an array that come before its numbers: its type and its shape."""
    found: bytes = msgpack.packb((kind, shape))
    return found


def _unpack(code: int, data: bytes) -> Any:
    if code == _SPARSE:
        return _rows(msgpack.unpackb(data, ext_hook=_unpack))
    if code == _WORDS:
        return np.array(msgpack.unpackb(data), dtype=np.str_)
    if code != _ARRAY:
        raise StoreDamaged(f"record holds an extension {code} that is not known")
    head = msgpack.Unpacker(max_buffer_size=len(data))
    head.feed(data)
    dtype, shape = head.unpack()
    raw = data[head.tell() :]
    if dtype not in _DTYPES or len(raw) != math.prod(shape) * np.dtype(dtype).itemsize:
        raise StoreDamaged("record holds an array whose size does not fit its shape")
    return np.frombuffer(raw, dtype=dtype).reshape(shape).copy()


def _rows(arrays: dict[str, Any]) -> SparseRows:
    try:
        return SparseRows.from_arrays(arrays)
    except (InvalidInput, KeyError, AttributeError) as error:
        raise StoreDamaged(f"record holds sparse rows that are none: {error}") from error
