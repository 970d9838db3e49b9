"""Webhooks: created, listed, tried, deleted; and their dead letters."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
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
from livesvm.service.api.bodies.reading import parse_json, read_body, schema_content
from livesvm.service.api.requests import WebhookRequest
from livesvm.service.api.routes.access import Parts, answers, in_control, moment, response_of, scope
from livesvm.service.lifecycle.parts import Service
from livesvm.service.webhooks.spec import Webhook

router = APIRouter(tags=["webhooks"])

WebhookId = Annotated[str, Path(json_schema_extra={"pattern": r"^w-[0-9a-f]{12}$", "maxLength": 14})]
Message = Annotated[str | None, Query(max_length=64, description="Only the message of this id.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many.")]


@router.post(
    "/webhooks",
    status_code=201,
    summary="Create a webhook",
    dependencies=[scope("admin")],
    responses=answers(201, WebhookMade, "The new webhook with its secret, which is not shown again."),
    openapi_extra=schema_content("WebhookRequest"),
)
async def create(request: Request, service: Parts) -> Response:
    """Create a webhook: events are sent to a URL from now on, signed as Standard Webhooks has it.

    The URL has a host of `LIVESVM_WEBHOOK_HOSTS`. Answer a message with a status of 200 to 299; it is sent again
    otherwise, under the same `webhook-id`.
    """
    service.models()
    body = await read_body(request)

    def make() -> Response:
        """Read what is asked and keep it."""
        wanted = parse_json(body, WebhookRequest)
        made = service.webhooks.create(wanted.spec(), wanted.secret)
        answer = WebhookMade(**_described(service, made), secret=made.secret)
        return response_of(
            answer, status=201, headers={"location": f"/webhooks/{made.id}", "cache-control": "no-store"}
        )

    return await in_control(service, make)


@router.get(
    "/webhooks",
    summary="List the webhooks",
    dependencies=[scope("admin")],
    responses=answers(200, WebhookList, "All, oldest first, without their secrets."),
)
async def list_all(service: Parts) -> Response:
    """List every webhook."""
    service.models()
    found = [WebhookDescription(**_described(service, one)) for one in service.webhooks.all()]
    return response_of(WebhookList(webhooks=found))


@router.get(
    "/webhooks/{id}",
    summary="Describe a webhook",
    dependencies=[scope("admin")],
    responses=answers(200, WebhookDescription, "The webhook as it is now, without its secret."),
)
async def describe(id: WebhookId, service: Parts) -> Response:
    """Show one webhook: what it is sent, how much waits, and what came of the newest attempt."""
    service.models()
    return response_of(WebhookDescription(**_described(service, service.webhooks.get(id))))


@router.delete(
    "/webhooks/{id}",
    status_code=204,
    summary="Delete a webhook",
    dependencies=[scope("admin")],
    responses=answers(204, None, "The webhook, what waited for it and its dead letters are gone."),
)
async def delete(id: WebhookId, service: Parts) -> Response:
    """Delete a webhook; an attempt that is under way ends."""
    service.models()

    def remove() -> Response:
        """Remove it from the store."""
        service.webhooks.delete(id)
        return Response(status_code=204)

    return await in_control(service, remove)


@router.post(
    "/webhooks/{id}/ping",
    status_code=202,
    summary="Send a test",
    dependencies=[scope("admin")],
    responses=answers(202, MessageSent, "The test waits to be delivered; `last` of the webhook says what came of it."),
)
async def ping(id: WebhookId, service: Parts) -> Response:
    """Send a message of type `ping`."""
    service.models()
    return await in_control(service, lambda: response_of(MessageSent(id=service.webhooks.ping(id)), status=202))


@router.get(
    "/webhooks/{id}/dead-letters",
    summary="List dead letters",
    dependencies=[scope("admin")],
    responses=answers(200, DeadLetters, "Newest first."),
)
async def dead_letters(id: WebhookId, service: Parts, limit: Limit = 100) -> Response:
    """List messages that were given up, with the reason."""
    service.models()

    def tell() -> Response:
        """Read them."""
        found = [
            DeadLetter(**one | {"dead_at": moment(one["dead_at"])}) for one in service.webhooks.dead_letters(id, limit)
        ]
        return response_of(DeadLetters(dead_letters=found))

    return await in_control(service, tell)


@router.post(
    "/webhooks/{id}/resend",
    summary="Send dead letters again",
    dependencies=[scope("admin")],
    responses=answers(200, Resent, "They wait to be delivered, under the ids that they had."),
)
async def resend(id: WebhookId, service: Parts, message: Message = None) -> Response:
    """Try dead letters again: one, or all."""
    service.models()
    return await in_control(service, lambda: response_of(Resent(resent=service.webhooks.resend(id, message))))


def _described(service: Service, webhook: Webhook) -> dict[str, Any]:
    last = service.deliveries.last(webhook.id)
    return {
        "id": webhook.id,
        **webhook.spec.model_dump(),
        "created_at": moment(webhook.created_at),
        **service.deliveries.of(webhook.id),
        "last": None if last is None else Attempt(**last._asdict() | {"at": moment(last.at)}),
    }
