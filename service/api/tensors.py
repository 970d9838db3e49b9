"""Answers of the Open Inference Protocol (V2), which contain predictions as output tensors."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from livesvm.service.api.answers.v2 import TensorMetadata
from livesvm.service.api.bodies.infer import Asked
from livesvm.service.api.predictions import Answered, listed
from livesvm.service.errors import VersionNotServed, not_among
from livesvm.service.hosting.handle import Reader
from livesvm.service.models.arrays import Matrix, Vector
from livesvm.service.models.learners import task_of
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.tables.cells import Kind

OF_KINDS: dict[Kind, str] = {"number": "FP64", "yes-no": "BOOL", "category": "BYTES", "time": "BYTES"}
"""The tensor datatype for each kind of column; times are ISO 8601 text."""


@dataclass
class _Output:
    """One output tensor of an answer, with the rows that were added so far."""

    binary: bool
    datatype: str = ""
    shape: list[int] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)

    def add(self, values: NDArray[Any]) -> None:
        """Add the values of the next rows to the tensor."""
        values = _plain(values)
        self.datatype = _datatype(values)
        self.shape = [len(values) + sum(self.shape[:1]), *values.shape[1:]]
        self.pieces.append(_binary(values) if self.binary else listed(values.ravel()))


class TensorForm:
    """Writer of an answer with output tensors.

    Parameters
    ----------
    version : the requested version, which must be the served one; None: any version
    """

    def __init__(self, model: str, asked: Asked, version: str | None, seen: Published) -> None:
        check_version(model, version, seen.version)
        self._model, self._asked = model, asked
        self._outputs: dict[str, _Output] = {}

    def add(self, decision: Vector, prediction: NDArray[Any], probability: Matrix | None) -> None:
        """Add the predictions for the next block of rows to the output tensors."""
        self._add("prediction", prediction)
        self._add("decision", decision)
        if probability is not None:
            self._add("probability", probability)

    def _add(self, name: str, values: NDArray[Any]) -> None:
        if self._asked.has(name):
            binary = self._asked.outputs.get(name, self._asked.binary)
            self._outputs.setdefault(name, _Output(binary)).add(values)

    def end(self, answered: Answered) -> tuple[bytes, bytes | None]:
        """Return the JSON of the answer, and the binary outputs that follow the JSON, or None if none are binary."""
        if answered.seen.classes is not None and task_of(answered.spec).has_labels:
            self._add("classes", answered.seen.classes)
        named = {} if self._asked.id is None else {"id": self._asked.id}
        head = named | {
            "model_name": self._model,
            "model_version": str(answered.seen.version),
            "parameters": {"stale": answered.stale},
        }
        outputs = b",".join(_told(name, one) for name, one in self._outputs.items())
        text = to_json(head)[:-1] + b',"outputs":[' + outputs + b"]}"
        binary = [b"".join(one.pieces) for one in self._outputs.values() if one.binary]
        return text, b"".join(binary) if binary else None


def _told(name: str, output: _Output) -> bytes:
    head = {"name": name, "datatype": output.datatype, "shape": output.shape}
    if output.binary:
        return to_json(head | {"parameters": {"binary_data_size": sum(map(len, output.pieces))}})
    return to_json(head)[:-1] + b',"data":[' + b",".join(output.pieces) + b"]}"


def check_version(model: str, asked: str | None, served: int) -> None:
    """Raise VersionNotServed if the version that the caller ``asked`` for is not the ``served`` version."""
    if asked is not None and asked != str(served):
        reason = f"version {asked[:24]} of model {model} does not answer; it is at version {served}"
        raise VersionNotServed(f"{reason}; ask without a version, or restore that one")


def check_outputs(live: Reader, asked: Asked) -> None:
    """Raise InvalidInput if the caller asks for an output that the model does not have."""
    known = [output.name for output in outputs_of(live.spec, live.published)]
    for row, name in enumerate(asked.outputs):
        if name not in known:
            raise InvalidInput(f"{name} {not_among(name, known)} of this model", field="outputs", row=row)


def outputs_of(spec: ModelSpec, seen: Published) -> list[TensorMetadata]:
    """Return the metadata of a model's outputs; -1 stands for the number of rows, or for a dimension not known yet."""
    task = task_of(spec)
    classes = seen.classes if task.has_labels else None
    are_words = isinstance((spec.labels or [0])[0], str) if classes is None else classes.dtype.kind == "U"
    label = "FP64" if task.has_values else "BYTES" if are_words else "INT64"
    k = -1 if classes is None else int(classes.size)
    n_decisions = k * (k - 1) // 2 if spec.decision_function_shape == "ovo" else k
    found = [
        TensorMetadata(name="prediction", datatype=label, shape=[-1]),
        TensorMetadata(name="decision", datatype="FP64", shape=[-1, n_decisions] if k > 2 else [-1]),
    ]
    if spec.probability:
        found.append(TensorMetadata(name="probability", datatype="FP64", shape=[-1, k]))
    if task.has_labels:
        found.append(TensorMetadata(name="classes", datatype=label, shape=[k]))
    return found


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Convert values to int64, unless they are floating-point numbers or words."""
    if values.dtype.kind == "f" or values.dtype.kind == "U":
        return values
    return np.asarray(values, np.int64)


def _datatype(values: NDArray[Any]) -> str:
    return {"f": "FP64", "U": "BYTES"}.get(values.dtype.kind, "INT64")


def _binary(values: NDArray[Any]) -> bytes:
    """Return values as little-endian bytes; each word comes after its length in four bytes."""
    if values.dtype.kind == "U":
        words = [word.encode() for word in values.tolist()]
        return b"".join(len(word).to_bytes(4, "little") + word for word in words)
    return (values.byteswap() if sys.byteorder == "big" else values).tobytes()
