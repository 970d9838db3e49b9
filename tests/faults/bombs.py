"""Small requests that would become large: inflation, names, fields and depth without end."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from tests.faults.hostile_bodies import npy
from tests.faults.scene import CSV, JSON, NPZ, PARQUET, Scene, request
from tests.faults.wire import Sent
from tests.support.npz import parquet_of

INFLATED = 2**25
"""Numbers in an archive of less than 300 kB; 256 MB."""
LARGE = 6 * 2**20
"""Bytes of what is large as it comes."""
LONG = 2 * 10**6
"""Letters of one text."""


@cache
def archive(*, lies: bool) -> bytes:
    """Return an npz file of zeros; where it lies, it says that they are 100 bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("X.npy", npy(np.zeros((INFLATED // 2, 2))))
    found = bytearray(stream.getvalue())
    if lies:
        directory = found.rindex(b"PK\x01\x02")
        found[directory + 24 : directory + 28] = found[22:26] = (100).to_bytes(4, "little")
    return bytes(found)


@cache
def text(kind: int) -> bytes:
    """Return JSON that is hard to parse."""
    repeat = (b'"a%d":1,', b"[", b"[],", b'{"a":', b"1,", b'"",', b"[[1e1]],")[kind % 7]
    if kind % 7 == 0:
        return b"{" + b"".join(b'"a%d":1,' % n for n in range(LARGE // 12)) + b'"b":1}'
    start = (b'{"X":', b'{"add":{"X":[', b'{"', b"")[kind // 7]
    return start + repeat * (LARGE // len(repeat)) + b'":1}' * (kind // 7 == 2)


parquet = partial(parquet_of, compression="zstd")


def repeated(text: str, rows: int, kind: str = "string") -> Any:
    """Return a text so many times, as the few bytes of a dictionary."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([text], kind))


def views(text: str, rows: int) -> Any:
    """Return a text so many times, as what points to it."""
    import pyarrow as pa

    return pa.array([text] * rows, pa.string_view())


def listing(count: int) -> bytes:
    """Return a file of a few bytes that says in its description that it lists so many columns."""
    size = b"".join(bytes([count >> shift & 127 | (128 if shift < 28 else 0)]) for shift in range(0, 35, 7))
    footer = b"\x15\x02\x19\xfc" + size
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def lying(data: bytes, said: int, now: int) -> bytes:
    """Return a file that says another number in its description; by default than that of its bytes."""
    if not said:
        from pyarrow import parquet

        said = parquet.read_metadata(io.BytesIO(data)).row_group(0).total_byte_size

    def written(number: int) -> bytes:
        """Return a whole number as that holds it."""
        number, found = 2 * number, bytearray()
        while number > 127:
            found.append(number & 127 | 128)
            number >>= 7
        return bytes([*found, number])

    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    changed = data[at:-8].replace(written(said), written(now))
    assert changed != data[at:-8]
    return data[:at] + changed + len(changed).to_bytes(4, "little") + b"PAR1"


def columns_of_zeros(dtype: str, rows: int) -> bytes:
    """Return an npz file of a column."""
    out = io.BytesIO()
    np.savez_compressed(out, meter=np.zeros(rows, dtype))
    return out.getvalue()


CODED: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a long text in each row": (PARQUET, lambda: parquet({"meter": repeated("m" * LONG, 1000)})),
    "a text in each of many rows": (PARQUET, lambda: parquet({"meter": repeated("m" * 10_000, 200_000)})),
    "a long text as a view": (PARQUET, lambda: parquet({"meter": views("m" * (LONG // 4), 200)})),
    "a page that unpacks": (PARQUET, lambda: parquet({"meter": ["m" * 25 * LONG]}, use_dictionary=False)),
    "a page that unpacks, and a lie": (PARQUET, lambda: lying(parquet({"meter": ["m" * 25 * LONG]}), 0, 9)),
    "more rows than are said": (PARQUET, lambda: lying(parquet({"y": np.zeros(3 * 10**7)}), 3 * 10**7, 7)),
    "beginnings that are shared": (
        PARQUET,
        lambda: parquet(
            {"meter": [f"{'m' * 100_000}{row}" for row in range(900)]},
            use_dictionary=False,
            column_encoding={"meter": "DELTA_BYTE_ARRAY"},
        ),
    ),
    "lists": (PARQUET, lambda: parquet({"meter": [[0.0] * 10**7]})),
    "objects": (PARQUET, lambda: parquet({"meter": [{"a": "m" * 10_000}] * 5000})),
    "many columns": (PARQUET, lambda: parquet({f"c{at}": np.zeros(1) for at in range(3000)})),
    "a column for each cell": (PARQUET, lambda: parquet({f"c{at}": np.zeros(199_000) for at in range(100)})),
    "a list that is said to be long": (PARQUET, lambda: listing(2**31 - 1)),
    "a list that might be long": (PARQUET, lambda: listing(10**6)),
    "cells of a byte": (NPZ, lambda: columns_of_zeros("i1", 900_000)),
    "cells of a letter": (NPZ, lambda: columns_of_zeros("U1", 200_000)),
    "lines that end as they did once": (CSV, lambda: b"meter\r" + b"1\r" * 450_000),
    "a million columns": (CSV, lambda: b"," * 900_000 + b"\n"),
    "one long cell": (CSV, lambda: b'meter\n"' + b"m" * 900_000 + b'"\n'),
    "letters of four bytes": (JSON, lambda: b'{"rows":[{"meter":"' + "\U0001f600".encode() + b"m" * 900_000 + b'"}]}'),
}
"""Rows of a fleet, coded in less than a megabyte: their media type, and what makes them."""


@cache
def coded(name: str) -> tuple[str, bytes]:
    """Return one of them; where pyarrow is not installed, nothing in place of what it writes."""
    media, make = CODED[name]
    try:
        return media, make()
    except ImportError:
        return media, b""


def bomb(rng: random.Random, scene: Scene) -> Sent:
    """Return one of them."""
    model = rng.choice(list(scene.models.values()))
    call = rng.choice((f"/models/{model}/update", f"/models/{model}/predict"))
    if rng.random() < 0.3:
        media, data = coded(rng.choice(sorted(CODED)))
        return Sent("bomb", request(scene, "POST", f"/fleets/{scene.fleet}/observations", data, media))
    if rng.random() < 0.4:
        return Sent("bomb", request(scene, "POST", call, archive(lies=rng.random() < 0.7), NPZ))
    route = rng.choice((call, "/models", f"/models/{model}/outlier-path", f"/jobs/{scene.job}/apply"))
    return Sent("bomb", request(scene, "POST", route, text(rng.randrange(28)), JSON))
