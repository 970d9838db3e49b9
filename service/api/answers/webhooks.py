"""Schemas of answers about webhooks, their waiting messages and their dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field


class Attempt(BaseModel):
    """The newest attempt to deliver a message, if there was one since the service started."""

    at: datetime
    status: int | None = Field(description="Of the receiver's answer; null where there was none.")
    reason: str | None = Field(description="Why the message was not delivered.")


class WebhookDescription(BaseModel):
    """The present state of a webhook."""

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
    """A message that the service has given up delivering."""

    id: str
    type: str
    attempts: int
    reason: str | None = Field(description="Why the last attempt failed.")
    dead_at: datetime | None
    message: dict[str, Any] = Field(description="The body.")


class DeadLetters(BaseModel):
    """The dead letters of a webhook, which are messages that could not be delivered, newest first."""

    dead_letters: list[DeadLetter]


class Resent(BaseModel):
    """The number of dead letters that the service will try to deliver again."""

    resent: int
