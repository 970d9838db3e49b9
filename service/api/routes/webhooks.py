"""Calls that create, list, test and delete webhooks, and calls for their dead letters."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from starlette.responses import Response

from livesvm.service.api.answers.webhooks import (
    Attempt,
    DeadLetter,
    DeadLetters,
    MessageSent,
    Resent,
    WebhookDescription,
    WebhookList,
    WebhookMade,
)
from livesvm.service.api.bodies.reading import parse_json
from livesvm.service.api.requests import WebhookRequest
from livesvm.service.api.routes.access import Ready, Whole, moment, response_of
from livesvm.service.api.routes.calls import Calls, answers
from livesvm.service.lifecycle.parts import Service
from livesvm.service.webhooks.spec import Webhook

calls = Calls("webhooks")

WebhookId = Annotated[str, Path(json_schema_extra={"pattern": r"^w-[0-9a-f]{12}$", "maxLength": 14})]
Message = Annotated[str | None, Query(max_length=64, description="Only the message of this id.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many.")]


@calls("POST /webhooks", "admin", "Create a webhook", body=WebhookRequest)
@answers(WebhookMade, "The new webhook with its secret, which is not shown again.", status=201)
def create(service: Ready, body: Whole) -> Response:
    """Create a webhook, which sends events to a URL from now on, signed as Standard Webhooks specifies.

    The setting `LIVESVM_WEBHOOK_HOSTS` lists the hosts that the URL may have. The receiver must answer a message with a
    status from 200 to 299; otherwise the service sends the message again, with the same `webhook-id`.
    """
    wanted = parse_json(body, WebhookRequest)
    made = service.webhooks.create(wanted.spec(), wanted.secret)
    answer = WebhookMade(**_described(service, made), secret=made.secret)
    return response_of(answer, status=201, headers={"location": f"/webhooks/{made.id}", "cache-control": "no-store"})


@calls("GET /webhooks", "admin", "List the webhooks")
@answers(WebhookList, "All, oldest first, without their secrets.")
async def list_all(service: Ready) -> Response:
    """List all webhooks."""
    found = [WebhookDescription(**_described(service, one)) for one in service.webhooks.all()]
    return response_of(WebhookList(webhooks=found))


@calls("GET /webhooks/{id}", "admin", "Describe a webhook")
@answers(WebhookDescription, "The webhook as it is now, without its secret.")
async def describe(id: WebhookId, service: Ready) -> Response:
    """Describe one webhook: its events, how many messages wait, how many are dead letters, and its last attempt."""
    return response_of(WebhookDescription(**_described(service, service.webhooks.get(id))))


@calls("DELETE /webhooks/{id}", "admin", "Delete a webhook")
@answers(None, "The webhook, what waited for it and its dead letters are gone.", status=204)
def delete(id: WebhookId, service: Ready) -> Response:
    """Delete a webhook; a message that is being sent is still sent."""
    service.webhooks.delete(id)
    return Response(status_code=204)


@calls("POST /webhooks/{id}/ping", "admin", "Send a test")
@answers(MessageSent, "The test waits to be delivered; `last` of the webhook says what came of it.", status=202)
def ping(id: WebhookId, service: Ready) -> Response:
    """Send a test message, which has the type `ping`, to a webhook."""
    return response_of(MessageSent(id=service.webhooks.ping(id)), status=202)


@calls("GET /webhooks/{id}/dead-letters", "admin", "List dead letters")
@answers(DeadLetters, "Newest first.")
def dead_letters(id: WebhookId, service: Ready, limit: Limit = 100) -> Response:
    """List the messages of a webhook that the service has given up delivering, with the reasons."""
    found = [
        DeadLetter(**one | {"dead_at": moment(one["dead_at"])}) for one in service.webhooks.dead_letters(id, limit)
    ]
    return response_of(DeadLetters(dead_letters=found))


@calls("POST /webhooks/{id}/resend", "admin", "Send dead letters again")
@answers(Resent, "They wait to be delivered, under the ids that they had.")
def resend(id: WebhookId, service: Ready, message: Message = None) -> Response:
    """Try again to deliver one dead letter of a webhook, or all."""
    return response_of(Resent(resent=service.webhooks.resend(id, message)))


def _described(service: Service, webhook: Webhook) -> dict[str, Any]:
    last = service.deliveries.last(webhook.id)
    return {
        "id": webhook.id,
        **webhook.spec.model_dump(),
        "created_at": moment(webhook.created_at),
        **service.deliveries.of(webhook.id),
        "last": None if last is None else Attempt(**last._asdict() | {"at": moment(last.at)}),
    }
