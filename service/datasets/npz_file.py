"""npz files: ``X`` and ``y``, or the parts of a CSR array, ``data``, ``indices``, ``indptr`` and ``shape``, and ``y``.

``weights`` and ``keys``, text or whole numbers, where there are any; ``format`` and ``_is_array`` as SciPy writes them.

Nothing is unpickled. Members are read piece by piece, whatever sizes they declare.
"""

from __future__ import annotations

import errno
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from livesvm.service.datasets.arrays import BLOCK, Sink, blocks
from livesvm.service.models.row_marks import marks_of
from livesvm.solvers.errors import InvalidInput

MOST_MEMBERS = 16
LONGEST_TEXT = 256
"""Characters of a key or a label."""
_DENSE, _SPARSE = frozenset({"X"}), frozenset({"data", "indices", "indptr", "shape"})
_OTHER = frozenset({"y", "weights", "keys", "format", "_is_array"})
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""Of compression, as NumPy writes them; others give out what they hold in pieces of any size."""
_NO_HEADER = (ValueError, KeyError, SyntaxError, EOFError, TypeError, tokenize.TokenError, RecursionError)
_NO_ZIP = (zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, EOFError, NotImplementedError)
Document = dict[str, Any]
Shape = tuple[int, ...]
Vector = Generator[NDArray[Any], None, None]


def read(path: Path, sink: Sink, asked: Document) -> None:
    """Read the members; raises InvalidInput that names one, with row and column where it is an entry."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive)
            if members.keys() >= _DENSE:
                _dense(archive, members["X"], sink, path.parent)
            else:
                _sparse(archive, members, sink)
            if "y" in members:
                _targets(archive, members["y"], sink)
            if "weights" in members:
                _hand_over(_vector(archive, members["weights"], "weights", "fiu"), "weights", sink.weigh)
            if "keys" in members:
                salt = str(asked.get("salt", ""))
                keys = _texts(archive, members["keys"], "keys", "iuU")
                _hand_over(keys, "keys", lambda block: sink.mark(marks_of(salt, block.tolist())))
    except _NO_ZIP as error:
        raise InvalidInput(f"is not an npz file: {str(error)[:128]}", field="body") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # which is a place before the file's beginning
            raise
        raise InvalidInput("is not an npz file: a place in it is outside", field="body") from error


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    found: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist()[: MOST_MEMBERS + 1]:
        name = member.filename.removesuffix(".npy")
        if name not in _DENSE | _SPARSE | _OTHER or name in found:
            known = ", ".join(sorted(_DENSE | _SPARSE | _OTHER))
            raise InvalidInput(f"is not one of {known}, each once", field=name[:64])
        if member.compress_type not in _METHODS:
            raise InvalidInput("is compressed by a method that NumPy does not use", field=name)
        found[name] = member
    if found.keys() & _DENSE and found.keys() & _SPARSE:
        raise InvalidInput("holds X, and parts of a sparse array too", field="body")
    if not found.keys() >= _DENSE and (missing := _SPARSE - found.keys()):
        known = "X" if missing == _SPARSE else ", ".join(sorted(missing))
        raise InvalidInput("is missing from the file", field=known)
    if "format" in found:
        _check_format(archive, found["format"])
    return found


def _check_format(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Raise InvalidInput unless this is CSR: CSC, say, has the same members, of columns."""
    with archive.open(member) as stream:
        _header(stream, "format", "SU")
        if stream.read(64).replace(b"\0", b"") != b"csr":
            raise InvalidInput("must be csr; tocsr() sees to that", field="format")


def _dense(archive: zipfile.ZipFile, member: zipfile.ZipInfo, sink: Sink, scratch: Path) -> None:
    with archive.open(member) as stream:
        shape, fortran, dtype = _header(stream, "X", "fiu")
        if len(shape) != 2 or 0 in shape:
            raise InvalidInput(f"must have two dimensions and at least one row and column, not {shape}", field="X")
        n, d = shape
        sink.declare(d)
        if not fortran:
            for block in _pieces(stream, n * d, dtype, "X", BLOCK // d * d or d):
                sink.dense(block.reshape(-1, d))
            return
        sink.check_room(8 * n * d)
        by_columns = scratch / "by-columns"
        with by_columns.open("wb") as file:
            for block in _pieces(stream, n * d, dtype, "X", BLOCK):
                file.write(block.tobytes())
    X = np.memmap(by_columns, np.float64, "r", shape=shape, order="F")
    for rows in blocks(n, BLOCK // d):
        sink.dense(np.ascontiguousarray(X[rows]))
    by_columns.unlink()


def _sparse(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], sink: Sink) -> None:
    shape = np.concatenate([np.empty(0), *_vector(archive, members["shape"], "shape", "iu")])
    if shape.size != 2 or not 1 <= shape[0] <= 2**40 or not 1 <= shape[1] <= 2**40:
        raise InvalidInput("must be the numbers of rows and columns", field="shape")
    n = int(shape[0])
    sink.declare(int(shape[1]))
    with ExitStack() as opened:

        def vector(name: str, kinds: str) -> Vector:
            """Return a member, closed at the end whatever is wrong with another."""
            return opened.enter_context(closing(_vector(archive, members[name], name, kinds)))

        entries = _Entries(vector("data", "fiu"), vector("indices", "iu"))
        _rows(vector("indptr", "iu"), entries, n, int(shape[1]), sink)


def _rows(starts: Iterator[NDArray[Any]], entries: _Entries, n: int, width: int, sink: Sink) -> None:
    """Hand over n rows, which begin at these places among the entries; raises InvalidInput."""
    last, row = -1, 0
    for block in starts:
        ends = block.astype(np.int64)
        if last < 0:
            if ends[0] != 0:
                raise InvalidInput("begins with 0", field="indptr", row=0)
            last, ends = 0, ends[1:]
        counts = np.diff(ends, prepend=last)
        if (counts < 0).any():
            raise InvalidInput("must not descend", field="indptr", row=row + 1 + int(np.argmax(counts < 0)))
        if (counts > width).any():
            at = row + int(np.argmax(counts > width))
            raise InvalidInput(f"gives a row more entries than there are columns, {width}", field="indptr", row=at)
        for part in blocks(counts.size, 4096):
            values, columns = entries.take(int(counts[part].sum()))
            _check_columns(columns, counts[part], width, row)
            sink.sparse(values, columns, counts[part])
            row += counts[part].size
        last = int(ends[-1]) if ends.size else last
    if row != n:
        raise InvalidInput(f"is for {row} rows, shape says {n}", field="indptr")
    entries.check_over()


def _check_columns(columns: NDArray[Any], counts: NDArray[Any], width: int, row: int) -> None:
    def place(at: int) -> int:
        return row + int(np.searchsorted(np.cumsum(counts), at, side="right"))

    outside = (columns < 0) | (columns >= width)
    if outside.any():
        at = int(outside.argmax())
        raise InvalidInput(f"is not from 0 to {width - 1}", field="indices", row=place(at), column=int(columns[at]))
    begins = np.zeros(columns.size + 1, bool)
    begins[np.cumsum(counts) - counts] = True
    wrong = ~begins[1:-1] & (columns[1:] <= columns[:-1])
    if wrong.any():
        at = int(wrong.argmax()) + 1
        reason = "the columns of a row must ascend; sum_duplicates() sees to that"
        raise InvalidInput(reason, field="indices", row=place(at), column=int(columns[at]))


class _Entries:
    """Values and columns of a sparse array, as many at a time as are asked for."""

    def __init__(self, values: Iterator[NDArray[Any]], columns: Iterator[NDArray[Any]]) -> None:
        self._streams = {"data": values, "indices": columns}
        self._rest: dict[str, NDArray[Any]] = {name: np.empty(0) for name in self._streams}

    def take(self, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the next entries; raises InvalidInput if there are no more."""
        return self._take("data", count), self._take("indices", count).astype(np.int64)

    def check_over(self) -> None:
        """Raise InvalidInput if there are entries of no row."""
        for name, stream in self._streams.items():
            if self._rest[name].size or next(stream, None) is not None:
                raise InvalidInput("has more entries than indptr says", field=name)

    def _take(self, name: str, count: int) -> NDArray[Any]:
        parts, have = [self._rest[name]], self._rest[name].size
        while have < count:
            block = next(self._streams[name], None)
            if block is None:
                raise InvalidInput("has fewer entries than indptr says", field=name)
            parts.append(block)
            have += block.size
        found = np.concatenate(parts)
        self._rest[name] = found[count:]
        return found[:count]


def _vector(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, kinds: str) -> Vector:
    """Return the numbers of a member of one dimension, block by block; raises InvalidInput."""
    with archive.open(member) as stream:
        shape, _, dtype = _header(stream, name, kinds)
        if len(shape) != 1:
            raise InvalidInput(f"must have one dimension, not {len(shape)}", field=name)
        yield from _pieces(stream, shape[0], dtype, name, BLOCK)


def _targets(archive: zipfile.ZipFile, member: zipfile.ZipInfo, sink: Sink) -> None:
    """Hand targets over, numbers or words; raises InvalidInput."""
    with archive.open(member) as stream:
        are_words = _header(stream, "y", "fiuU")[2].kind == "U"
    found = _texts(archive, member, "y", "U") if are_words else _vector(archive, member, "y", "fiu")
    _hand_over(found, "y", sink.targets)


def _hand_over(found: Vector, name: str, take: Callable[[NDArray[Any]], None]) -> None:
    """Hand the blocks of a member over; raises InvalidInput if there is none."""
    count = 0
    with closing(found):
        for block in found:
            take(block)
            count += 1
    if not count:
        raise InvalidInput("is empty", field=name)


def _texts(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, kinds: str) -> Vector:
    """Yield words, or whole numbers too, block by block; raises InvalidInput."""
    with archive.open(member) as stream:
        shape, _, dtype = _header(stream, name, kinds)
        if len(shape) != 1 or dtype.itemsize > 4 * LONGEST_TEXT or not dtype.itemsize:
            raise InvalidInput(f"must be a list of at most {LONGEST_TEXT} characters each", field=name)
        row = 0
        for part in blocks(shape[0], BLOCK // LONGEST_TEXT):
            data = stream.read((part.stop - part.start) * dtype.itemsize)
            if len(data) != (part.stop - part.start) * dtype.itemsize:
                raise InvalidInput("holds fewer bytes than its shape asks for", field=name)
            found = np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))
            try:
                reported = found.tolist()
            except ValueError as error:
                raise InvalidInput("holds characters that are none", field=name) from error
            if "" in reported:
                raise InvalidInput("is empty", field=name, row=row + reported.index(""))
            yield found
            row += len(reported)
        if stream.read(1):
            raise InvalidInput("holds more bytes than its shape asks for", field=name)


def _header(stream: IO[bytes], name: str, kinds: str) -> tuple[Shape, bool, np.dtype[Any]]:
    try:
        version = npy.read_magic(stream)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran, dtype = read(stream)
    except _NO_HEADER as error:
        raise InvalidInput("is not an npy array of version 1 or 2", field=name) from error
    if dtype.kind not in kinds or any(side < 0 for side in shape):
        wanted = {"fiu": "numbers", "iu": "integers", "SU": "text"}.get(
            kinds, "integers or text" if "f" not in kinds else "numbers or text"
        )
        raise InvalidInput(f"must hold {wanted}, not {str(dtype)[:64]}", field=name)
    return shape, fortran, dtype


def _pieces(stream: IO[bytes], count: int, dtype: np.dtype[Any], name: str, each: int) -> Iterator[NDArray[np.float64]]:
    """So many numbers in blocks of ``each``; raises InvalidInput unless the member holds exactly these."""
    for part in blocks(count, each):
        size = (part.stop - part.start) * dtype.itemsize
        data = stream.read(size)
        if len(data) != size:
            raise InvalidInput("holds fewer bytes than its shape asks for", field=name)
        yield np.frombuffer(data, dtype).astype(np.float64)
    if stream.read(1):
        raise InvalidInput("holds more bytes than its shape asks for", field=name)
