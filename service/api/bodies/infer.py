"""Request bodies of the Open Inference Protocol (V2): JSON text that binary tensors may follow."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Request
from pydantic import ConfigDict, Field

from livesvm.service.api.bodies.reading import BYTES_A_LETTER, BYTES_A_NUMBER, JSON, Body, parse_json, read_body
from livesvm.service.errors import MalformedBody, not_among
from livesvm.service.models import arrays, table_rows
from livesvm.service.models.arrays import Matrix
from livesvm.service.models.fields import Request as RequestBody
from livesvm.service.models.table_rows import BYTES_A_CELL, TableRows
from livesvm.solvers.errors import InvalidInput

BINARY = "application/octet-stream"
HEAD_LENGTH = "inference-header-content-length"
"""The header with the length of the JSON, after which binary tensors follow."""
MEDIA = {JSON: JSON, BINARY: JSON, "": JSON}
"""Media types of requests; an absent or binary one is read as JSON, as the protocol does not require one."""
Datatype = Literal[
    "BOOL", "BYTES", "FP16", "FP32", "FP64", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"
]
DTYPES = {
    "FP16": "<f2", "FP32": "<f4", "FP64": "<f8", "INT8": "<i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8",
    "BOOL": "?", "UINT8": "<u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
}  # fmt: skip
"""NumPy's data type for each datatype of numbers in binary tensors."""
OUTPUTS = ("prediction", "decision", "probability", "classes")
LONGEST = 256
"""Largest number of characters in a name or an id."""


Side = Annotated[int, Field(ge=-1, le=2**53)]
"""Length of one dimension of a tensor; the maximum is above that of any array."""


class Part(RequestBody):
    """Base class of the parts of an inference request; unknown parameters and fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class InputTensor(Part):
    """An input tensor, which holds all rows to predict, or one column of these rows."""

    name: str = Field(max_length=LONGEST)
    shape: list[Side] = Field(max_length=8)
    datatype: Datatype
    parameters: dict[str, Any] = Field(default_factory=dict, description="`binary_data_size`: bytes behind the JSON.")
    data: Any = Field(default=None, description="Cells in rows, or row after row; null where they follow in binary.")


class OutputTensor(Part):
    """An output tensor that the request asks for."""

    name: str = Field(max_length=LONGEST)
    parameters: dict[str, Any] = Field(default_factory=dict, description="`binary_data`: whether in binary.")


class InferRequest(Part):
    """An inference request of the Open Inference Protocol."""

    many = 64

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"inputs": [{"name": "X", "shape": [1, 2], "datatype": "FP64", "data": [0.2, 0.5]}]}]
        }
    )

    id: str | None = Field(default=None, max_length=LONGEST, description="Returned in the answer.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="`binary_data_output`: whether outputs are in binary unless they say."
    )
    inputs: list[InputTensor] = Field(
        description="One tensor of rows, (m, d), under any name; or of a model with columns, one of each column."
    )
    outputs: list[OutputTensor] = Field(
        default_factory=list, description="Only these of `prediction`, `decision`, `probability`, `classes`."
    )


@dataclass(frozen=True)
class Asked:
    """The content of an inference request: the rows to predict, an (m, d) array or a table, and the requested outputs.

    Parameters
    ----------
    id : id of the request
    tensor : name of the input, or of the first one
    outputs : maps the names of outputs to whether each is sent in binary; empty: all outputs of the model
    binary : whether outputs are sent in binary by default
    """

    id: str | None
    tensor: str
    X: Matrix | TableRows
    outputs: dict[str, bool]
    binary: bool

    def has(self, name: str, available: bool = True) -> bool:
        """Return whether an output is requested; a request that names no output asks for every ``available`` output."""
        return name in self.outputs if self.outputs else available


async def read_infer(request: Request) -> Body:
    """Receive the body of an inference request; raises the errors of :func:`read_body`."""
    return await read_body(request, MEDIA)


def parse_infer(body: Body, head_length: str | None, has_columns: bool = False) -> Asked:
    """Parse a request's body: JSON, which binary tensors may follow.

    ``head_length`` is the header with the length of the JSON; without the header, the whole body is JSON.
    Raises MalformedBody, InvalidRequest, or InvalidInput with the tensor's name as the field.
    """
    end = len(body.data)
    if head_length is not None:
        if not head_length.isdecimal() or len(head_length) > 12 or not 0 < int(head_length) <= end:
            raise MalformedBody(f"Inference-Header-Content-Length must be a length within the body's {end} bytes")
        end = int(head_length)
    head = Body(body.data[:end], JSON, body.limit, body.budget)
    wanted = parse_json(head, InferRequest)
    if not wanted.inputs or (len(wanted.inputs) > 1 and not has_columns):
        kind = "a tensor of each column" if has_columns else "one tensor of rows"
        raise InvalidInput(f"must be {kind}, not {len(wanted.inputs)}", field="inputs")
    rest, sizes = memoryview(body.data)[end:], [_size(tensor) for tensor in wanted.inputs]
    if sum(sizes) != len(rest):
        said = f"binary tensors have {sum(sizes)}" if any(sizes) else "no tensor has a binary_data_size"
        raise MalformedBody(f"{len(rest)} bytes follow the JSON, and {said}")
    parts = (rest[last - size : last] for last, size in zip(accumulate(sizes), sizes, strict=True))
    each = zip(wanted.inputs, parts, strict=True)
    X = _of_columns(each, body) if has_columns else _of_tensor(*next(each), body)
    binary = wanted.parameters.get("binary_data_output") is True
    return Asked(wanted.id, wanted.inputs[0].name, X, _outputs(wanted), binary)


def _outputs(wanted: InferRequest) -> dict[str, bool]:
    by_default = wanted.parameters.get("binary_data_output") is True
    found = {}
    for row, output in enumerate(wanted.outputs):
        if output.name not in OUTPUTS:
            raise InvalidInput(f"{output.name[:64]!r} {not_among(output.name, OUTPUTS)}", field="outputs", row=row)
        if output.parameters.keys() & {"classification", "shared_memory_region"}:
            reason = "has neither the classification extension nor shared memory"
            raise InvalidInput(f"{output.name!r} {reason}", field="outputs", row=row)
        found[output.name] = output.parameters.get("binary_data", by_default) is True
    return found


def _size(tensor: InputTensor) -> int:
    """Return the number of bytes that a tensor has after the JSON; 0 if the JSON itself holds the tensor's data."""
    size, shape = tensor.parameters.get("binary_data_size"), tensor.shape
    if size is None:
        return 0
    if tensor.data is not None:
        raise InvalidInput("has data and a binary_data_size; give one of them", field=tensor.name)
    is_text = tensor.datatype == "BYTES"
    needed = (4 if is_text else np.dtype(DTYPES[tensor.datatype]).itemsize) * prod(shape)
    if type(size) is not int or (size < needed if is_text else size != needed):
        reason = f"has a binary_data_size of {str(size)[:24]}; {tensor.datatype} of shape {shape} takes {needed}"
        raise InvalidInput(reason + " at least" * is_text, field=tensor.name)
    return size


def _of_tensor(tensor: InputTensor, data: memoryview, body: Body) -> Matrix:
    """Return the rows in a tensor; ``data`` holds its bytes if the tensor is binary, and is empty otherwise."""
    name, shape = tensor.name, tensor.shape
    if len(shape) != 2 or min(shape) < 1:
        raise InvalidInput(f"must have the shape [rows, columns], not {str(shape)[:64]}", field=name)
    if tensor.datatype in ("BOOL", "BYTES"):
        raise InvalidInput(f"is {tensor.datatype}; this model takes numbers", field=name)
    if not data:
        with body.memory(BYTES_A_NUMBER * min(prod(shape), len(body.data))):
            return _of_list(tensor)
    with body.memory(2 * 8 * prod(shape)):
        return arrays.check_matrix(np.frombuffer(data, DTYPES[tensor.datatype]).reshape(shape), name)


def _of_columns(each: Iterable[tuple[InputTensor, memoryview]], body: Body) -> TableRows:
    """Return the rows of a table from tensors of columns, (m,) or (m, 1); columns without a tensor are missing."""
    columns: dict[str, list[Any]] = {}
    with ExitStack() as held:
        for tensor, data in each:
            name, m, is_long = tensor.name, tensor.shape[0] if tensor.shape else 0, tensor.shape[1:] in ([], [1])
            if m < 1 or not is_long or m != len(next(iter(columns.values()), range(m))):
                shape = str(tensor.shape)[:64]
                raise InvalidInput(f"has the shape {shape}; columns are [m] or [m, 1], and all as long", field=name)
            if name in columns:
                raise InvalidInput("stands twice", field=name)
            held.enter_context(body.memory(BYTES_A_CELL * min(m, len(body.data)) + BYTES_A_LETTER * len(data)))
            columns[name] = _binary_cells(tensor, data) if data else _json_cells(tensor)
        rows = zip(*columns.values(), strict=True)
        return table_rows.checked([dict(zip(columns, row, strict=True)) for row in rows])


def _json_cells(tensor: InputTensor) -> list[Any]:
    cells, m = tensor.data, tensor.shape[0]
    if isinstance(cells, list) and len(tensor.shape) == 2:
        cells = [cell[0] if isinstance(cell, list) and len(cell) == 1 else cell for cell in cells]
    if not isinstance(cells, list) or len(cells) != m:
        raise InvalidInput(f"has no data of its shape {tensor.shape}, nor a binary_data_size", field=tensor.name)
    return cells


def _binary_cells(tensor: InputTensor, data: memoryview) -> list[Any]:
    """Return the cells of a binary tensor; NaN is a missing cell, and before each text stands its length in 4 bytes."""
    if tensor.datatype != "BYTES":
        cells = np.frombuffer(data, DTYPES[tensor.datatype])
        return [cell if cell == cell else None for cell in cells.tolist()]
    found, at = [], 0
    for row in range(tensor.shape[0]):
        first = at + 4
        at = first + int.from_bytes(data[at:first], "little")
        try:
            found.append(bytes(data[first:at]).decode())
        except UnicodeDecodeError:
            raise InvalidInput("is no text in UTF-8", field=tensor.name, row=row) from None
    if at != len(data):
        raise InvalidInput(f"has texts of {at} bytes in all, and a binary_data_size of {len(data)}", field=tensor.name)
    return found


def _of_list(tensor: InputTensor) -> Matrix:
    """Return the rows in a tensor with JSON data, which is a list of rows or a flat list of all numbers."""
    name, data, (m, d) = tensor.name, tensor.data, tensor.shape
    if not isinstance(data, list):
        raise InvalidInput("has no data: an array of numbers, or a binary_data_size", field=name)
    is_flat = not data or not isinstance(data[0], list)
    if is_flat and len(data) != m * d:
        raise InvalidInput(f"has {len(data)} numbers; its shape {tensor.shape} takes {m * d}", field=name)
    X = arrays.matrix([data[first : first + d] for first in range(0, m * d, d)] if is_flat else data, name)
    if X.shape != (m, d):
        raise InvalidInput(f"has data of shape {list(X.shape)}, and says {tensor.shape}", field=name)
    return X
