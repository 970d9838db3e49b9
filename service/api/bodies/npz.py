"""Bytes of ``.npy`` and ``.npz`` files from outside: read within known bounds, whatever they say of themselves.

Nothing is unpickled. Every size that a file declares is a claim: it is checked before anything is made, and no more is
inflated than was allowed.
"""

from __future__ import annotations

import io
import math
import struct
import tokenize
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from livesvm.service.errors import BodyTooLarge, MalformedBody, not_among
from livesvm.solvers.errors import InvalidInput

MOST_HEADER = 4096
"""Bytes of an npy file that hold its header; numpy writes 128."""
MOST_DIRECTORY = 8192
"""Bytes of the directory of an npz file that are always allowed; twelve members need about 800."""
ENTRY = 128
"""Bytes of one member in it, besides its name; numpy writes 46."""
READING = 10
"""Memory that reading takes, in bytes of what is read: one of it, one of the array, and eight for each as float64."""
END = struct.Struct("<4s4H2LH")
"""The end of a zip file: signature, four numbers of disks and members, size and place of the directory, comment."""

_COMPRESSIONS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_NO_HEADER = (ValueError, KeyError, SyntaxError, EOFError, TypeError, tokenize.TokenError, MemoryError, RecursionError)
_NO_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, RuntimeError, OSError, EOFError)


def npy_array(data: bytes, name: str) -> NDArray[Any]:
    """Return the array in the bytes of a ``.npy`` file; its size must be what its header says."""
    stream = io.BytesIO(data[:MOST_HEADER])
    try:
        version = npy.read_magic(stream)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran, dtype = read(stream)
    except _NO_HEADER as error:
        raise MalformedBody(f"{name} is not an npy array of version 1 or 2") from error
    if dtype.kind not in "fiuU" or dtype.itemsize == 0:
        raise InvalidInput(f"must hold numbers or strings, not {str(dtype)[:64]}", field=name)
    begin = stream.tell()
    if any(side < 0 for side in shape) or len(data) - begin != math.prod(shape) * dtype.itemsize:
        raise MalformedBody(f"{name} does not hold as many bytes as its shape {str(shape)[:64]} asks for")
    try:
        array = np.frombuffer(memoryview(data)[begin:], dtype=dtype).reshape(shape, order="F" if fortran else "C")
    except (ValueError, TypeError) as error:
        raise MalformedBody(f"{name} has a shape that no array has: {error}") from error
    return array.astype(array.dtype.newbyteorder("="))


def npz_arrays(data: bytes, allowed: frozenset[str], limit: int) -> dict[str, NDArray[Any]]:
    """Return the arrays in the bytes of an ``.npz`` file; unpacked they may have ``limit`` bytes together."""
    _check_directory(data, allowed)
    found: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name, member in _members(archive, allowed, limit).items():
                with archive.open(member) as content:
                    found[name] = npy_array(content.read(member.file_size), name)
    except (InvalidInput, MalformedBody, BodyTooLarge):
        raise
    except _NO_ZIP as error:
        raise MalformedBody(f"the body is not an npz file: {str(error)[:128]}") from error
    return found


def declared_bytes(data: bytes, allowed: frozenset[str]) -> int:
    """Return what the members of an ``.npz`` file say to have when unpacked; raises MalformedBody."""
    _check_directory(data, allowed)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return sum(member.file_size for member in archive.infolist())
    except _NO_ZIP as error:
        raise MalformedBody(f"the body is not an npz file: {str(error)[:128]}") from error


def _check_directory(data: bytes, allowed: frozenset[str]) -> None:
    """Raise MalformedBody unless the directory, which is read as a whole, is as short as that of the allowed members.

    A comment or an end in 64 bits could hide another directory from this look, and numpy writes neither.
    """
    end = END.unpack(data[-END.size :]) if len(data) >= END.size else (b"",)
    if end[0] != b"PK\x05\x06" or end[-1] != 0:
        raise MalformedBody("the body is not an npz file: it does not end with a zip directory and no comment")
    if data[-END.size - 20 :].startswith(b"PK\x06\x07"):
        raise MalformedBody("the npz file has a directory in 64 bits, which is for larger ones")
    most = max(MOST_DIRECTORY, sum(ENTRY + len(name.encode()) for name in allowed))
    if end[5] > most:
        raise MalformedBody(f"the directory of the npz file has {end[5]} bytes, the limit is {most}")


def _members(archive: zipfile.ZipFile, allowed: frozenset[str], limit: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name.

    Raises for names, sizes and compressions that are not taken, before anything is inflated.
    """
    found: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if name not in allowed:
            raise InvalidInput(not_among(name, sorted(allowed)), field=name[:64])
        if name in found:
            raise InvalidInput("stands twice in the file", field=name)
        found[name] = member
    if sum(member.file_size for member in found.values()) > limit:
        raise BodyTooLarge(f"the arrays have more than {limit} bytes when unpacked")
    if not {member.compress_type for member in found.values()} <= _COMPRESSIONS:
        raise MalformedBody("the members of the npz file are neither stored nor deflated")
    return found
