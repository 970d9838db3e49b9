"""Settings of webhooks: the receiver's URL, the events to send to it, and the secret that signs the messages."""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field

from livesvm.service.access.hosts import ANY, host_of, parse_hosts
from livesvm.service.settings import PREFIX, Settings
from livesvm.service.store.base import StoreDamaged
from livesvm.service.webhooks.address import Refused, check_address, is_address
from livesvm.solvers.errors import InvalidInput

EventType = Literal["forecast.outside", "drift", "store.fenced", "job.finished"]
FORECAST: EventType = "forecast.outside"
"""The only event with numbers that depend on readings."""
PREFIX_OF_SECRET = "whsec_"
LEAST_SECRET, MOST_SECRET = 24, 64
"""Bytes of a secret, by the Standard Webhooks specification."""
SERIES_OF = "/*"
"""Suffix of a fleet's id that stands for all of its series."""
Limit = Annotated[float, Field(allow_inf_nan=False)]
ModelName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
FeedName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}(/([A-Za-z0-9._~-]{1,64}|\*))?$")]


class WebhookSpec(BaseModel):
    """The settings of a webhook."""

    model_config = ConfigDict(strict=True, extra="forbid")

    url: Annotated[str, Field(min_length=1, max_length=2000)] = Field(
        description="Where messages are sent: https, of a host in LIVESVM_WEBHOOK_HOSTS."
    )
    events: Annotated[list[EventType], Field(min_length=1, max_length=4)] = Field(
        description="What it is sent: forecasts outside a threshold, drift of models and feeds, models or feeds that "
        "cannot be written any more, jobs that have ended."
    )
    models: Annotated[list[ModelName], Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="Only these models; all models and feeds when both lists are absent."
    )
    feeds: Annotated[list[FeedName], Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="Only these feeds; `fleet/*` names all series of a fleet."
    )
    above: Limit | None = Field(default=None, description="A forecast above it is outside.")
    below: Limit | None = Field(default=None, description="A forecast below it is outside.")

    def check(self, settings: Settings) -> None:
        """Raise InvalidInput if this service may not or cannot send messages to the webhook's URL."""
        if settings.ray:
            raise InvalidInput(f"webhooks are not sent over Ray: this service has {PREFIX}RAY", field="url")
        _check_url(self.url, settings)
        if len(set(self.events)) < len(self.events):
            raise InvalidInput("names an event twice", field="events")
        has_limit = self.above is not None or self.below is not None
        if has_limit != (FORECAST in self.events):
            reason = f"needs `above`, `below` or both with {FORECAST}, and neither without it"
            raise InvalidInput(reason, field="events")
        if self.above is not None and self.below is not None and self.below > self.above:
            raise InvalidInput(f"is {self.below:g}, more than above, which is {self.above:g}", field="below")

    @property
    def host(self) -> str:
        """Return the host of the receiver's URL."""
        return host_of(_split(self.url).netloc) or ""

    def is_outside(self, value: float) -> bool:
        """Return whether a forecast is outside of the webhook's limits ``above`` and ``below``."""
        return (self.above is not None and value > self.above) or (self.below is not None and value < self.below)

    def concerns(self, model: str | None, feed: str | None) -> bool:
        """Return whether the webhook wants events about this model or feed, or without either, about the service."""
        if (model is None and feed is None) or (self.models is None and self.feeds is None):
            return True
        if feed is None:
            return model in (self.models or ())
        fleet = feed.partition("/")[0] + SERIES_OF if "/" in feed else None
        return bool({feed, fleet} & set(self.feeds or ()))


@dataclass(frozen=True)
class Webhook:
    """A registered webhook, with its settings and secret."""

    id: str
    spec: WebhookSpec
    created_at: float
    secret: str = field(default="", repr=False)

    def encode(self) -> bytes:
        """Encode the webhook as bytes for the store."""
        document = {"spec": self.spec.model_dump(mode="json"), "created_at": self.created_at, "secret": self.secret}
        return json.dumps(document).encode()

    @classmethod
    def decode(cls, id: str, data: bytes) -> Self:
        """Decode the bytes of a stored webhook; raises StoreDamaged."""
        try:
            found: dict[str, Any] = json.loads(data)
            return cls(id, WebhookSpec.model_validate(found["spec"]), found["created_at"], found["secret"])
        except (ValueError, KeyError, TypeError):
            raise StoreDamaged(f"webhook {id} cannot be read") from None  # the reason would repeat the secret


def new_secret() -> str:
    """Return a new random secret."""
    return PREFIX_OF_SECRET + base64.b64encode(secrets.token_bytes(32)).decode()


def key_in(secret: str) -> bytes:
    """Decode a secret to bytes; raises InvalidInput with a message that never contains the secret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX_OF_SECRET), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX_OF_SECRET) or not LEAST_SECRET <= len(key) <= MOST_SECRET:
        reason = f"is {PREFIX_OF_SECRET} and {LEAST_SECRET} to {MOST_SECRET} bytes in base64; leave it out to get one"
        raise InvalidInput(reason, field="secret")
    return key


def _split(url: str) -> SplitResult:
    """Split a URL into its parts; raises InvalidInput if it is not valid."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InvalidInput("is no URL", field="url") from None
    return parts


def _check_url(url: str, settings: Settings) -> None:
    parts = _split(url)
    if parts.scheme not in ("https", "http") or not parts.hostname or not url.isascii() or not url.isprintable():
        raise InvalidInput("is https://host/path, in ASCII", field="url")
    if "@" in parts.netloc or parts.fragment or " " in url:
        raise InvalidInput("has no user, no password, no fragment and no spaces", field="url")
    check_host(host_of(parts.netloc), parse_hosts(settings.webhook_hosts))
    if not settings.webhook_private:
        if parts.scheme == "http":
            raise InvalidInput(f"is plain http, which {PREFIX}WEBHOOK_PRIVATE allows", field="url")
        _check_literal(host_of(parts.netloc) or "")


def _check_literal(host: str) -> None:
    """Raise InvalidInput for localhost or a private address; other names are checked when messages are sent."""
    try:
        if host == "localhost":
            raise Refused("localhost is this machine")
        if is_address(host):
            check_address(host)
    except Refused as error:
        raise InvalidInput(f"{error}; {PREFIX}WEBHOOK_PRIVATE allows such", field="url") from None


def check_host(host: str | None, allowed: Collection[str]) -> None:
    """Raise InvalidInput unless the setting with the allowed hosts contains this host."""
    if host is None or not (host in allowed or ANY in allowed):
        names = ", ".join(sorted(allowed)) or "none"
        raise InvalidInput(f"{PREFIX}WEBHOOK_HOSTS does not name the host {host}; it names {names}", field="url")
