"""Schemas of answers of the Open Inference Protocol (V2)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """Base class of the protocol's answers about a model."""

    model_config = ConfigDict(protected_namespaces=())


class ServerMetadata(BaseModel):
    """The name, the version and the protocol extensions of this service."""

    name: str
    version: str
    extensions: list[str]


class ServerLive(BaseModel):
    """Whether the service's process can answer requests at all."""

    live: bool


class ServerReady(BaseModel):
    """Whether the service can make predictions."""

    ready: bool


class ModelReady(BaseModel):
    """Whether a model can predict."""

    name: str
    ready: bool


class TensorMetadata(BaseModel):
    """An input or an output tensor of a model; -1 in its shape stands for any number."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """The name, the version, the inputs and the outputs of a model."""

    name: str
    versions: list[str] = Field(description="The current one.")
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class AnswerTensor(TensorMetadata):
    """An output tensor in an answer to an inference request."""

    parameters: dict[str, Any] | None = Field(default=None, description="`binary_data_size`: bytes behind the JSON.")
    data: list[Any] | None = Field(default=None, description="Row after row; absent where it follows in binary.")


class InferAnswer(Answer):
    """The output tensors of an inference, and the version of the model that computed them."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: dict[str, Any] = Field(description="`stale`: as in the answer of `predict`.")
    outputs: list[AnswerTensor]
