"""Files of arrays that are not what they say: refused, without more memory than was allowed."""

from __future__ import annotations

import io
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable

import numpy as np
import pytest

from livesvm.service.errors import BodyTooLarge
from livesvm.service.files.malformed import Malformed
from livesvm.service.files.npz import npy_array
from livesvm.solvers.errors import InvalidInput
from tests.support.npz import MEMBERS, REFUSALS, npy, npz, npz_arrays

LIMIT = 2**20


def zipped(members: list[tuple[str, bytes]], comment: bytes = b"") -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # of a name that stands twice
        for name, content in members:
            archive.writestr(name, content)
        archive.comment = comment
    return stream.getvalue()


def declaring(size: int, held: int) -> bytes:
    """Return an archive whose directory says ``size`` bytes of a member that inflates to ``held``."""
    data = bytearray(zipped([("X.npy", bytes(held))]))
    place = data.index(b"PK\x01\x02")
    data[place + 24 : place + 28] = struct.pack("<L", size)
    return bytes(data)


def many(count: int) -> bytes:
    """Return an archive whose directory names one member so many times."""
    data = zipped([("X.npy", GOOD)])
    start, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    entries = data[start:end] * count
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count % 2**16, count % 2**16, len(entries), start, 0)
    return data[:start] + entries + tail


def in_64_bits() -> bytes:
    """Return an archive with another end before its end, in 64 bits, as the readers of large ones want it."""
    data = zipped([("X.npy", GOOD)])
    start, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    large = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, end - start, start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    return data[:end] + large + locator + data[end:]


GOOD = npy(np.arange(6.0).reshape(2, 3))
BOMBS: dict[str, Callable[[], bytes]] = {
    "less is declared than there is": lambda: declaring(100, 64 * LIMIT),
    "as much is declared as there is": lambda: zipped([("X.npy", bytes(64 * LIMIT))]),
    "more is declared than there is": lambda: declaring(2**31, 10),
    "many members": lambda: many(20_000),
    "a member twice": lambda: zipped([("X.npy", GOOD), ("X.npy", GOOD)]),
    "long names": lambda: zipped([("n" * 60_000, GOOD), ("m" * 60_000, GOOD)]),
    "a long name": lambda: zipped([("n" * 5000, GOOD)]),
    "a comment": lambda: zipped([("X.npy", GOOD)], b"PK\x05\x06"),
    "a directory in 64 bits": in_64_bits,
    "nothing": lambda: b"",
    "an end alone": lambda: b"PK\x05\x06" + bytes(18),
}


@pytest.mark.parametrize("case", BOMBS)
def test_what_is_not_as_it_says_is_refused_within_the_limit(case: str) -> None:
    data = BOMBS[case]()
    tracemalloc.start()
    try:
        if case == "an end alone":
            assert npz_arrays(data, MEMBERS, LIMIT) == {}
        else:
            with pytest.raises(REFUSALS) as caught:
                npz_arrays(data, MEMBERS, LIMIT)
            assert len(str(caught.value)) < 300
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * LIMIT + 2 * len(data)


def test_sizes_that_are_declared_are_judged_before_anything_is_inflated() -> None:
    with pytest.raises(BodyTooLarge):
        npz_arrays(zipped([("X.npy", bytes(LIMIT)), ("y.npy", bytes(2))]), MEMBERS, LIMIT)
    with pytest.raises(InvalidInput, match="is not one of"):
        npz_arrays(zipped([("Z.npy", bytes(2 * LIMIT))]), MEMBERS, LIMIT)


def test_archives_that_are_written_without_looking_back_are_read() -> None:
    class Pipe(io.BytesIO):
        """A stream that cannot be gone back in: sizes stand behind each member then."""

        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise OSError

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", GOOD)
        with archive.open("y.npy", "w", force_zip64=True) as member:
            member.write(npy(np.ones(2)))
    found = npz_arrays(pipe.getvalue(), MEMBERS, LIMIT)
    np.testing.assert_array_equal(found["X"], np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(found["y"], [1.0, 1.0])


def test_what_numpy_writes_is_read() -> None:
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, X=np.eye(3), y=np.ones(3, np.float32))
        assert npz_arrays(stream.getvalue(), MEMBERS, LIMIT).keys() == MEMBERS
    assert npz_arrays(npz(zipfile.ZIP_STORED, X=np.eye(2)), MEMBERS, LIMIT).keys() == {"X"}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("fill", [b" ", b"(", b"{'descr':"])
def test_a_header_without_end_is_not_read(version: int, fill: bytes) -> None:
    header = (fill * LIMIT)[: 60_000 if version == 1 else LIMIT]
    data = b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2 * version, "little") + header
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            npy_array(data, "X")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**17


def test_one_huge_string_is_a_key_that_is_too_long() -> None:
    from livesvm.service.models.arrays import npy_keys

    with pytest.raises(InvalidInput, match="1 to 128 characters"):
        npy_keys(npy_array(npy(np.array(["k" * 100_000])), "keys"), "keys")
