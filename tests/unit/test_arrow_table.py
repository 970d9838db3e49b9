"""Arrow bodies: every writer's cells are read, sizes are known before anything is unpacked, and damage is refused."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import ipc
from pyarrow.feather import write_feather

from livesvm.service.files.arrow_table import columns_of, table_of, text_bytes, unpacked_bytes
from livesvm.service.files.malformed import Malformed
from livesvm.solvers.errors import InvalidInput

NOON = datetime(2024, 3, 1, 12, tzinfo=timezone(timedelta(hours=1)))
CELLS: dict[str, tuple[pa.Array, list[Any]]] = {
    "whole": (pa.array([1, None, 3], pa.int8()), [1, None, 3]),
    "half": (pa.array(np.array([1.5, 2, 3], np.float16)), [1.5, 2.0, 3.0]),
    "gap": (pa.array([1.5, None, float("nan")]), [1.5, None, None]),
    "price": (pa.array([Decimal("1.25"), None, Decimal("-2")]), [1.25, None, -2.0]),
    "word": (pa.array(["a", None, "long" * 9], pa.string_view()), ["a", None, "long" * 9]),
    "plan": (pa.array(["x", None, "x"], pa.large_string()).dictionary_encode(), ["x", None, "x"]),
    "seen": (pa.array(["x", "y", "x"], pa.string_view()).dictionary_encode(), ["x", "y", "x"]),
    "vip": (pa.array([True, None, False]), [True, None, False]),
    "day": (pa.array([date(2024, 1, 2), None, date(1, 1, 1)]), ["2024-01-02", None, "0001-01-01"]),
    "at": (pa.array([NOON, None, NOON], pa.timestamp("ns", "+01:00")), ["2024-03-01T11:00:00+00:00", None] * 2),
    "local": (pa.array([datetime(2024, 3, 1)] * 3, pa.timestamp("s")), ["2024-03-01T00:00:00"] * 3),
    "empty": (pa.nulls(3), [None] * 3),
}
TABLE = pa.table({name: array for name, (array, _) in CELLS.items() if name != "seen"})


def written(table: pa.Table, compression: str | None, *, is_file: bool) -> bytes:
    out, options = io.BytesIO(), ipc.IpcWriteOptions(compression=compression)
    with (ipc.new_file if is_file else ipc.new_stream)(out, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=max(2, table.num_rows // 2))
    return out.getvalue()


def read(data: bytes, most: int = 10**6) -> dict[str, list[Any]]:
    unpacked = unpacked_bytes(data)
    return columns_of(table_of(data, unpacked, most))


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("is_file", [False, True])
def test_cells_of_each_type_are_read(compression: str | None, is_file: bool) -> None:
    data = written(TABLE, compression, is_file=is_file)
    found = read(data)
    for name, cells in found.items():
        expected = CELLS[name][1][:3]
        assert [cell if cell == cell else None for cell in cells] == expected, name
    assert (unpacked_bytes(data) > 0) == (compression is not None)
    with pytest.raises(InvalidInput, match="more than 2 rows"):
        read(data, 2)


def of_polars(**how: Any) -> Iterator[bytes]:
    frame = pl.DataFrame({"a": ["x", None, "word" * 5], "c": pl.Series(["u", "v", "u"], dtype=pl.Categorical)})
    for write in (frame.write_ipc, frame.write_ipc_stream):
        out = io.BytesIO()
        write(out, **how)
        yield out.getvalue()


def of_pandas() -> Iterator[bytes]:
    frame = pd.DataFrame({"a": ["x", None, "word" * 5], "c": pd.Categorical(["u", "v", "u"])})
    for compression in ("uncompressed", "zstd"):
        out = io.BytesIO()
        write_feather(frame, out, compression=compression)
        yield out.getvalue()


@pytest.mark.parametrize("data", [*of_polars(), *of_polars(compression="lz4"), *of_pandas()])
def test_files_of_pandas_and_polars_are_read(data: bytes) -> None:
    assert read(data) == {"a": ["x", None, "word" * 5], "c": ["u", "v", "u"]}


@pytest.mark.parametrize("is_file", [False, True])
def test_the_size_when_unpacked_is_known_before(is_file: bool) -> None:
    table = pa.table({"a": np.zeros(10**6), "b": pa.array(["m"] * 10**6).dictionary_encode()})
    data = written(table.combine_chunks(), "zstd", is_file=is_file)
    assert len(data) < 10**6 < 12 * 10**6 <= unpacked_bytes(data) < 13 * 10**6


def test_texts_that_share_letters_count_each_time() -> None:
    data = written(pa.table({"a": pa.array(["m" * 10**5] * 1000, pa.string_view())}), None, is_file=False)
    assert text_bytes(table_of(data, 0, 10**6)) >= 10**8
    coded = pa.table({"a": pa.array(["m" * 10**5] * 1000).dictionary_encode()})
    assert text_bytes(table_of(written(coded, None, is_file=False), 0, 10**6)) < 10**8


@pytest.mark.parametrize(
    "array",
    [
        pa.array([b"a"]),
        pa.array([[1.0]]),
        pa.array([{"a": 1}]),
        pa.array([time(1)]),
        pa.array([b"a"]).dictionary_encode(),
    ],
)
def test_other_types_are_refused_by_name(array: pa.Array) -> None:
    with pytest.raises(InvalidInput, match="neither numbers, text nor times") as caught:
        read(written(pa.table({"odd": array}), None, is_file=False))
    assert caught.value.field == "odd"
    twice = pa.Table.from_arrays([pa.array([1])] * 2, ["a", "a"])
    with pytest.raises(InvalidInput, match="twice"):
        read(written(twice, None, is_file=False))


@pytest.mark.parametrize("year", [-10, 20_000])
def test_a_year_that_no_calendar_has_is_refused(year: int) -> None:
    at = pa.array([int((year - 1970) * 3.15576e7)], pa.timestamp("s", "UTC"))
    with pytest.raises(InvalidInput, match="time that cannot be read"):
        read(written(pa.table({"at": at}), None, is_file=False))


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_damaged_file_is_refused_or_read(is_file: bool, compression: str | None) -> None:
    rng = np.random.default_rng(1)
    whole = written(TABLE, compression, is_file=is_file)
    refused = 0
    for _ in range(200):
        data = bytearray(whole[: int(rng.integers(len(whole))) if rng.random() < 0.3 else None])
        for at in rng.integers(len(data) or 1, size=3) if data else ():
            data[at] = int(rng.choice([0, 1, 127, 128, 255]))
        try:
            if unpacked_bytes(bytes(data)) < 10**6:
                read(bytes(data))
        except InvalidInput:
            refused += 1
    assert refused > 20


def test_a_file_that_has_a_batch_again_and_again_is_refused() -> None:
    data = written(pa.table({"a": ["m" * 1000]}), None, is_file=True)
    size = int.from_bytes(data[-10:-6], "little")
    footer = data[-10 - size : -10]
    at = next(at for at in range(0, size - 24, 4) if int.from_bytes(footer[at + 16 : at + 24], "little") > 1000)
    lying = footer[: at + 16] + (10**6).to_bytes(8, "little") + footer[at + 24 :]
    with pytest.raises(Malformed):
        unpacked_bytes(data[: -10 - size] + lying + data[-10:])
    with pytest.raises(Malformed):
        unpacked_bytes(b"no table at all, but some text")
