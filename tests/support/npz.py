"""Arrays and columns as bodies of requests."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np

from livesvm.service.api.bodies.reading import NPZ, Body, unpacked
from livesvm.service.errors import BodyTooLarge, MalformedBody
from livesvm.service.resources.memory import Budget
from livesvm.solvers.errors import InvalidInput

REFUSALS = (InvalidInput, MalformedBody, BodyTooLarge)


MEMBERS = frozenset({"X", "y"})


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def npz(compression: int = zipfile.ZIP_DEFLATED, **members: Any) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, array in members.items():
            archive.writestr(f"{name}.npy", npy(array))
    return stream.getvalue()


def parquet_of(columns: dict[str, Any], **options: Any) -> bytes:
    """Return a file of columns."""
    import pyarrow as pa
    from pyarrow import parquet

    stream = io.BytesIO()
    parquet.write_table(pa.table(columns), stream, **options)
    return stream.getvalue()


def npz_arrays(data: bytes, allowed: frozenset[str], limit: int) -> dict[str, Any]:
    """Return the arrays of a body that may have so many bytes when unpacked."""
    with unpacked(Body(data, NPZ, limit, Budget()), allowed) as found:
        return found
