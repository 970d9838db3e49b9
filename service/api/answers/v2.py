"""Answers of the Open Inference Protocol (V2)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """Base of answers about a model."""

    model_config = ConfigDict(protected_namespaces=())


class ServerMetadata(BaseModel):
    """The service, as the protocol describes servers."""

    name: str
    version: str
    extensions: list[str]


class ServerLive(BaseModel):
    """Whether the process can answer."""

    live: bool


class ServerReady(BaseModel):
    """Whether the service can do its work."""

    ready: bool


class ModelReady(BaseModel):
    """Whether a model can predict."""

    name: str
    ready: bool


class TensorMetadata(BaseModel):
    """An input or an output; -1 in its shape is any number."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """A model, as the protocol describes models."""

    name: str
    versions: list[str] = Field(description="The current one.")
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class AnswerTensor(TensorMetadata):
    """An output of an answer."""

    parameters: dict[str, Any] | None = Field(default=None, description="`binary_data_size`: bytes behind the JSON.")
    data: list[Any] | None = Field(default=None, description="Row after row; absent where it follows in binary.")


class InferAnswer(Answer):
    """Outputs, and the version that answered."""

    model_name: str
    model_version: str
    id: str | None = None
    parameters: dict[str, Any] = Field(description="`stale`: as in the answer of `predict`.")
    outputs: list[AnswerTensor]
