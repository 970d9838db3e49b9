"""Bytes from outside: whatever they are, arrays or a named refusal come out."""

from __future__ import annotations

import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livesvm.service.errors import MalformedBody
from livesvm.service.files.malformed import Malformed
from livesvm.service.files.npz import npy_array
from livesvm.service.models import arrays
from livesvm.solvers.errors import DuplicateKey, InvalidInput
from tests.support.npz import MEMBERS, REFUSALS, npy, npz, npz_arrays

GOOD_NPY = npy(np.arange(6.0).reshape(2, 3))
GOOD_NPZ = npz(X=np.arange(6.0).reshape(2, 3), y=np.ones(2))

Damage = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4)


def damaged(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for position, value in changes:
        changed[position % len(changed)] = value
    return bytes(changed)


@settings(max_examples=300)
@given(Damage)
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_npy_is_an_array_or_refused(changes: list[tuple[int, int]]) -> None:
    try:
        X = arrays.check_matrix(npy_array(damaged(GOOD_NPY, changes), "X"))
    except REFUSALS:
        return
    assert X.dtype == np.float64
    assert np.isfinite(X).all()


@settings(max_examples=300)
@given(Damage)
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_npz_is_arrays_or_refused(changes: list[tuple[int, int]]) -> None:
    try:
        found = npz_arrays(damaged(GOOD_NPZ, changes), MEMBERS, 10**6)
    except REFUSALS:
        return
    assert found.keys() <= MEMBERS


@settings(max_examples=200)
@given(st.text(alphabet="(){}[]'\",:0123456789<f8 \\descrshapeTrueFalse_or", max_size=80))
@pytest.mark.filterwarnings("ignore")
def test_any_header_is_read_or_refused(text: str) -> None:
    header = text.encode() + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with pytest.raises(REFUSALS):
        arrays.check_matrix(npy_array(data, "X"))


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(compression: int) -> None:
    with pytest.raises(MalformedBody, match="neither stored nor deflated"):
        npz_arrays(npz(compression, X=np.ones((2, 2))), MEMBERS, 10**6)


def test_good_arrays_come_out_as_they_went_in() -> None:
    found = npz_arrays(GOOD_NPZ, MEMBERS, 10**6)
    np.testing.assert_array_equal(found["X"], np.arange(6.0).reshape(2, 3))
    for dtype in (">f8", "<f4", "<i2", "|u1"):
        array = np.arange(6).reshape(3, 2).astype(dtype)
        np.testing.assert_array_equal(arrays.check_matrix(npy_array(npy(array), "X")), array)


Rows = st.integers(1, 4).flatmap(
    lambda d: st.lists(
        st.lists(st.floats(-1e150, 1e150) | st.integers(-(2**60), 2**60), min_size=d, max_size=d),
        min_size=1,
        max_size=5,
    )
)


@given(Rows)
def test_good_rows_come_out_as_they_went_in(rows: list[list[float]]) -> None:
    X = arrays.matrix(rows)
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    assert X.tolist() == [[float(entry) for entry in row] for row in rows]


@given(Rows, st.sampled_from([None, True, "1", [], {}, float("nan"), float("inf"), 1e300]), st.data())
def test_one_bad_entry_is_found(rows: list[list[Any]], bad: Any, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.integers(0, len(rows[0]) - 1))
    rows[row][column] = bad
    with pytest.raises(InvalidInput) as caught:
        arrays.matrix(rows)
    assert (caught.value.field, caught.value.row, caught.value.column) == ("X", row, column)


Keys = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9) | st.integers(0, 2**53 - 1), min_size=1)


@given(Keys)
def test_keys_are_distinct_and_keep_their_types(keys: list[Any]) -> None:
    if len(set(keys)) < len(keys):
        with pytest.raises(DuplicateKey):
            arrays.keys(keys)
    else:
        assert [(type(key), key) for key in arrays.keys(keys)] == [(type(key), key) for key in keys]


@pytest.mark.parametrize("code", [0xD800, 0x110000])
def test_keys_that_are_no_text_are_refused(code: int) -> None:
    array = np.frombuffer(code.to_bytes(4, "little"), dtype="<U1")
    with pytest.raises(InvalidInput):
        arrays.npy_keys(npy_array(npy(array), "keys"), "keys")


@pytest.mark.parametrize(
    ("shape", "size"),
    [((True, 3), 24), ((10**23, 0), 0), ((0, 10**23), 0), ((2**63 - 1, 0), 0), ((1,) * 70, 8), ((-1, -8), 64)],
)
def test_shapes_that_no_array_has_are_refused(shape: tuple[int, ...], size: int) -> None:
    header = f"{{'descr':'<f8','fortran_order':False,'shape':{shape}}}".ljust(501).encode() + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(size)
    with pytest.raises(Malformed):
        npy_array(data, "X")
