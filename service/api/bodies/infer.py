"""Bodies of inference requests of the Open Inference Protocol (V2): JSON, and binary tensors after it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Request
from pydantic import ConfigDict, Field

from livesvm.service.api.bodies.reading import BYTES_A_NUMBER, JSON, Body, parse_json, read_body
from livesvm.service.errors import MalformedBody, not_among
from livesvm.service.models import arrays
from livesvm.service.models.arrays import Matrix
from livesvm.service.models.fields import Request as RequestBody
from livesvm.solvers.errors import InvalidInput

BINARY = "application/octet-stream"
HEAD_LENGTH = "inference-header-content-length"
"""The header with the length of the JSON, after which binary tensors follow."""
MEDIA = {JSON: JSON, BINARY: JSON, "": JSON}
"""Clients of the protocol need not name a media type."""
Datatype = Literal["FP16", "FP32", "FP64", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"]
DTYPES = {
    "FP16": "<f2", "FP32": "<f4", "FP64": "<f8", "INT8": "<i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8",
    "UINT8": "<u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
}  # fmt: skip
"""NumPy's types of the numbers in binary tensors."""
OUTPUTS = ("prediction", "decision", "probability", "classes")
LONGEST = 256
"""Most characters of names and ids."""


Side = Annotated[int, Field(ge=-1, le=2**53)]
"""Length of one dimension of a tensor; no array has a longer one."""


class Part(RequestBody):
    """A part of an inference request; unknown parameters and fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class InputTensor(Part):
    """Rows to predict."""

    name: str = Field(max_length=LONGEST)
    shape: list[Side] = Field(max_length=8)
    datatype: Datatype
    parameters: dict[str, Any] = Field(default_factory=dict, description="`binary_data_size`: bytes behind the JSON.")
    data: Any = Field(default=None, description="Numbers in rows, or row after row; null where they follow in binary.")


class OutputTensor(Part):
    """An output that is asked for."""

    name: str = Field(max_length=LONGEST)
    parameters: dict[str, Any] = Field(default_factory=dict, description="`binary_data`: whether in binary.")


class InferRequest(Part):
    """An inference request of the Open Inference Protocol."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"inputs": [{"name": "X", "shape": [1, 2], "datatype": "FP64", "data": [0.2, 0.5]}]}]
        }
    )

    id: str | None = Field(default=None, max_length=LONGEST, description="Returned in the answer.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="`binary_data_output`: whether outputs are in binary unless they say."
    )
    inputs: list[InputTensor] = Field(description="One tensor of rows, (m, d), under any name.")
    outputs: list[OutputTensor] = Field(
        default_factory=list, description="Only these of `prediction`, `decision`, `probability`, `classes`."
    )


@dataclass(frozen=True)
class Asked:
    """Rows to predict, (m, d), and the outputs that are asked for.

    Parameters
    ----------
    id : of the request
    tensor : name of the input
    outputs : names of outputs, each with whether it is sent in binary; empty: all that the model has
    binary : whether outputs are sent in binary by default
    """

    id: str | None
    tensor: str
    X: Matrix
    outputs: dict[str, bool]
    binary: bool

    def has(self, name: str, available: bool = True) -> bool:
        """Return whether an output is asked for: by its name, or if it is ``available``, together with all."""
        return name in self.outputs if self.outputs else available


async def read_infer(request: Request) -> Body:
    """Read the body of an inference request; raises as :func:`read_body`."""
    return await read_body(request, MEDIA)


def parse_infer(body: Body, head_length: str | None) -> Asked:
    """Return the request in a body; ``head_length`` is the header with the JSON's length, None if all is JSON.

    Raises MalformedBody, InvalidRequest, or InvalidInput with the tensor's name as the field.
    """
    end = len(body.data)
    if head_length is not None:
        if not head_length.isdecimal() or len(head_length) > 12 or not 0 < int(head_length) <= end:
            raise MalformedBody(f"Inference-Header-Content-Length must be a length within the body's {end} bytes")
        end = int(head_length)
    head = Body(body.data[:end], JSON, body.limit, body.budget)
    wanted = parse_json(head, InferRequest)
    if len(wanted.inputs) != 1:
        raise InvalidInput(f"must be one tensor of rows, not {len(wanted.inputs)}", field="inputs")
    tensor = wanted.inputs[0]
    X = _of_tensor(tensor, memoryview(body.data)[end:], body)
    return Asked(wanted.id, tensor.name, X, _outputs(wanted), wanted.parameters.get("binary_data_output") is True)


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


def _of_tensor(tensor: InputTensor, rest: memoryview, body: Body) -> Matrix:
    """Return the rows of a tensor; a binary one is in ``rest``, the bytes after the JSON."""
    name, shape = tensor.name, tensor.shape
    if len(shape) != 2 or min(shape) < 1:
        raise InvalidInput(f"must have the shape [rows, columns], not {str(shape)[:64]}", field=name)
    size = tensor.parameters.get("binary_data_size")
    if size is None and rest:
        raise MalformedBody(f"{len(rest)} bytes follow the JSON, and no tensor has a binary_data_size")
    if size is None:
        with body.memory(BYTES_A_NUMBER * min(prod(shape), len(body.data))):
            return _of_list(tensor)
    dtype = np.dtype(DTYPES[tensor.datatype])
    if tensor.data is not None:
        raise InvalidInput("has data and a binary_data_size; give one of them", field=name)
    if size != (needed := prod(shape) * dtype.itemsize) or type(size) is not int:
        reason = f"has a binary_data_size of {str(size)[:24]}; {tensor.datatype} of shape {shape} takes {needed}"
        raise InvalidInput(reason, field=name)
    if len(rest) != size:
        raise MalformedBody(f"{len(rest)} bytes follow the JSON; tensor {name[:64]!r} has {size}")
    with body.memory(2 * 8 * prod(shape)):
        return arrays.check_matrix(np.frombuffer(rest, dtype).reshape(shape), name)


def _of_list(tensor: InputTensor) -> Matrix:
    """Return the rows of data in JSON, nested or row after row."""
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
