"""Schemas of answers about the service: its health, the rights of an API key, and problem documents."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Access(BaseModel):
    """The label of the caller's API key, and the calls that the service allows this caller."""

    keys: bool = Field(description="Whether the service asks for API keys.")
    label: str | None = Field(default=None, description="Of the key that was sent.")
    scope: Literal["read", "learn", "admin"] | None = Field(description="Null: nothing that needs a key.")
    paths: list[str] | None = Field(default=None, description="Paths with a call that the key may make.")


class Health(BaseModel):
    """The state of the service, and what is wrong in it."""

    status: Literal["alive", "serving", "ready"]
    degraded: list[str] | None = Field(
        default=None,
        description="What is wrong in a ready service: models not served or read-only, waiting jobs, and more.",
    )


class Fault(BaseModel):
    """One fault in a request; its row and column are counted from 0."""

    field: str = Field(description="`X`, `y`, `keys` and `weights` of what is added; else with dots: `remove.keys`.")
    pointer: str = Field(description="JSON pointer to it in the body.")
    reason: str
    row: int | None = None
    column: int | None = None


class Problem(BaseModel):
    """RFC 9457 problem document; its row and column are counted from 0."""

    type: str = Field(description="Stable name of the kind of problem.")
    title: str
    status: int
    detail: str
    field: str | None = None
    pointer: str | None = None
    row: int | None = None
    column: int | None = None
    reason: str | None = None
    reasons: list[str] | None = Field(default=None, description="All reasons why the service is not ready.")
    errors: list[Fault] | None = None
    error: str | None = Field(default=None, description="Below `/v2`: the detail, where its clients look for it.")
