"""Webhooks, their waiting messages and their dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field


class Attempt(BaseModel):
    """The newest attempt since the start of the service."""

    at: datetime
    status: int | None = Field(description="Of the receiver's answer; null where there was none.")
    reason: str | None = Field(description="Why the message was not delivered.")


class WebhookDescription(BaseModel):
    """A webhook as it is now."""

    id: str
    url: str
    events: list[str]
    models: list[str] | None
    feeds: list[str] | None
    above: float | None
    below: float | None
    created_at: datetime
    waiting: int = Field(description="Messages that wait, as of the last look, a second ago at most.")
    dead: int = Field(description="Dead letters, as of the same look.")
    last: Attempt | None


class WebhookMade(WebhookDescription):
    """A new webhook."""

    secret: str = Field(description="Signs its messages, and is not shown again.")


class WebhookList(BaseModel):
    """All webhooks, oldest first."""

    webhooks: list[WebhookDescription]


class MessageSent(BaseModel):
    """A message that waits to be delivered."""

    id: str = Field(description="The header `webhook-id` of every attempt.")


class DeadLetter(BaseModel):
    """A message that was given up."""

    id: str
    type: str
    attempts: int
    reason: str | None = Field(description="Why the last attempt failed.")
    dead_at: datetime | None
    message: dict[str, Any] = Field(description="The body.")


class DeadLetters(BaseModel):
    """Dead letters of a webhook, newest first."""

    dead_letters: list[DeadLetter]


class Resent(BaseModel):
    """How many dead letters wait to be delivered again."""

    resent: int
