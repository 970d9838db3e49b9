"""Stored bytes: everything comes back, and no damage goes unnoticed."""

from __future__ import annotations

import hashlib
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from livesvm.service.models.commands import Command
from livesvm.service.store import codec
from livesvm.service.store.base import StoreDamaged, StoreTooNew
from livesvm.solvers.models.change import Batch, Edits

DOCUMENT = {"X": np.arange(6.0).reshape(2, 3), "keys": ["a", 2**53 - 1, "1", 1], "n": 3, "none": None, "f": 0.1}


@given(
    hnp.arrays(
        st.sampled_from(["<f8", "<i8", "<i4", "|u1", "|b1", ">f8"]).map(np.dtype),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0),
    )
)
def test_arrays_come_back_bit_for_bit(array: Any) -> None:
    back = codec.decode(codec.encode({"a": array}))["a"]
    assert back.shape == array.shape
    assert back.tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()
    assert back.flags.writeable


def test_documents_come_back_with_their_types() -> None:
    back = codec.decode(codec.encode(DOCUMENT))
    assert [type(key) for key in back["keys"]] == [str, int, str, int]
    assert {name: value for name, value in back.items() if name != "X"} == {
        name: value for name, value in DOCUMENT.items() if name != "X"
    }


def test_every_single_damaged_byte_is_noticed() -> None:
    data = codec.encode(DOCUMENT)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 8)
        with pytest.raises(StoreDamaged):
            codec.decode(bytes(damaged))


@pytest.mark.parametrize("length", [0, 3, 38, -1])
def test_a_cut_record_is_noticed(length: int) -> None:
    with pytest.raises(StoreDamaged):
        codec.decode(codec.encode(DOCUMENT)[:length])


@pytest.mark.parametrize("schema", [6, codec.SCHEMA + 1])
def test_another_schema_is_refused_by_name(schema: int) -> None:
    payload = msgpack.packb({})
    prefix = b"LSVM" + schema.to_bytes(2, "little")
    with pytest.raises(StoreTooNew, match=f"schema {schema}"):
        codec.decode(prefix + hashlib.sha256(prefix + payload).digest() + payload)


@pytest.mark.parametrize("value", [np.array([["a"]]), np.array([object()]), object()])
def test_what_is_not_data_is_not_stored(value: Any) -> None:
    with pytest.raises(TypeError):
        codec.encode({"a": value})


def test_edits_come_back_with_the_types_of_their_keys() -> None:
    edits = Edits({"1": 1.0, 1: -1.0}, {2: 0.5}, 0.9, 3.0)
    back = Command.decode(Command(None, [], edits, arrived=0.0, next_key=0).encode())
    assert back.edits == edits


def test_commands_come_back() -> None:
    batch = Batch(np.ones((2, 3)), np.array([1.0, -1.0]), ["a", 7], None)
    command = Command(batch, [1, "z"], arrived=12.5, next_key=9, request="request")
    back = Command.decode(command.encode())
    assert (back.remove, back.arrived, back.next_key, back.request, back.added) == (
        [1, "z"],
        12.5,
        9,
        "request",
        ["a", 7],
    )
    assert back.add is not None
    np.testing.assert_array_equal(back.add.X, batch.X)
    assert Command.decode(Command(None, [3], arrived=0.0, next_key=0).encode()) == Command(
        None, [3], arrived=0.0, next_key=0
    )
