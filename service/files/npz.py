"""npz and npy files: arrays in NumPy's format are read within size limits, even if a header is wrong.

No object is unpickled. Each size that a file declares is checked before memory is allocated, and no member is unpacked
beyond its declared size.
"""

from __future__ import annotations

import errno
import io
import math
import mmap
import shutil
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from livesvm.service.errors import not_among
from livesvm.service.files.malformed import Malformed
from livesvm.solvers.errors import InvalidInput

MOST_HEADER = 4096
"""Largest number of bytes of the header of an npy file; numpy writes 128."""
MOST_DIRECTORY = 8192
"""Number of bytes that the directory of an npz file may always have; twelve members need about 800."""
ENTRY = 128
"""Largest number of bytes of one member in the directory, without its name; numpy writes 46."""
END = struct.Struct("<4s4H2LH")
"""The end of a zip file: signature, four numbers of disks and members, size and place of the directory, comment."""

_COMPRESSIONS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_NO_HEADER = (ValueError, KeyError, SyntaxError, EOFError, TypeError, tokenize.TokenError, MemoryError, RecursionError)
_NO_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, RuntimeError, EOFError, OverflowError)
_KINDS = {"fiu": "numbers", "iu": "integers", "iuU": "integers or text", "SU": "text"}

Members = Mapping[str, zipfile.ZipInfo]


def check_directory(data: bytes, allowed: Collection[str]) -> None:
    """Raise Malformed if an npz file's directory, which is read in one piece, is larger than allowed members need.

    A zip comment or 64-bit end record is refused, because it could hide another directory; NumPy writes neither.
    """
    end = END.unpack(data[-END.size :]) if len(data) >= END.size else (b"",)
    if end[0] != b"PK\x05\x06" or end[-1] != 0:
        raise Malformed("is not an npz file: it does not end with a zip directory and no comment", field="body")
    if data[-END.size - 20 :].startswith(b"PK\x06\x07"):
        raise Malformed("has a directory in 64 bits, which is for larger npz files", field="body")
    most = max(MOST_DIRECTORY, sum(ENTRY + len(name.encode()) for name in allowed))
    if end[5] > most:
        raise Malformed(f"has a directory of {end[5]} bytes as an npz file, the limit is {most}", field="body")


@contextmanager
def opened(file: IO[bytes], allowed: Collection[str]) -> Iterator[tuple[zipfile.ZipFile, Members]]:
    """Yield an npz file and its members by name; raises Malformed, or InvalidInput for a name that is not allowed."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive, _members(archive, allowed)
    except InvalidInput:
        raise
    except OSError as error:
        if error.errno != errno.EINVAL:  # which is a place before the file's beginning
            raise
        raise Malformed("is not an npz file: a place in it is outside", field="body") from error
    except _NO_ZIP as error:
        raise Malformed(f"is not an npz file: {str(error)[:128]}", field="body") from error


def _members(archive: zipfile.ZipFile, allowed: Collection[str]) -> Members:
    found: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist()[: len(allowed) + 1]:
        name = member.filename.removesuffix(".npy")
        if name not in allowed:
            raise InvalidInput(not_among(name, sorted(allowed)), field=name[:64])
        if name in found:
            raise InvalidInput("stands twice in the file", field=name)
        if member.compress_type not in _COMPRESSIONS:
            raise Malformed("is neither stored nor deflated, as NumPy writes it", field=name)
        found[name] = member
    return found


def unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> NDArray[Any]:
    """Return the array in a member, unpacked into memory."""
    with archive.open(member) as content:
        return npy_array(content.read(member.file_size), name)


def mapped(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, kinds: str, directory: Path) -> NDArray[Any]:
    """Return the array in a member, mapped from a temporary file that is removed with the array.

    ``kinds`` has the letters of NumPy's data type kinds that are allowed.
    """
    with archive.open(member) as content, TemporaryFile(dir=directory) as file:
        shutil.copyfileobj(content, file)
        file.flush()
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.tell() else b""
    return _array(data, name, kinds)


def npy_array(data: bytes, name: str) -> NDArray[Any]:
    """Return the array in an npy file; raises Malformed, or InvalidInput unless it holds numbers or text."""
    found = _array(data, name, "fiuU")
    return found.astype(found.dtype.newbyteorder("="))


def _array(data: bytes | mmap.mmap, name: str, kinds: str) -> NDArray[Any]:
    """Return an array that shares the memory of ``data``; raises Malformed if its header declares another size."""
    stream = io.BytesIO(data[:MOST_HEADER])
    try:
        version = npy.read_magic(stream)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran, dtype = read(stream)
    except _NO_HEADER as error:
        raise Malformed("is not an npy array of version 1 or 2", field=name) from error
    if dtype.kind not in kinds or dtype.itemsize == 0:
        wanted = _KINDS.get(kinds, "numbers or strings")
        raise InvalidInput(f"must hold {wanted}, not {str(dtype)[:64]}", field=name)
    begin, size = stream.tell(), math.prod(shape) * dtype.itemsize
    if any(side < 0 for side in shape) or len(data) - begin != size:
        how = "more" if 0 <= size < len(data) - begin else "fewer"
        raise Malformed(f"holds {how} bytes than its shape {str(shape)[:64]} asks for", field=name)
    try:
        return np.frombuffer(memoryview(data)[begin:], dtype=dtype).reshape(shape, order="F" if fortran else "C")
    except (ValueError, TypeError) as error:
        raise Malformed(f"has a shape that no array has: {error}", field=name) from error
