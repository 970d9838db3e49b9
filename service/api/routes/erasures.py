"""Erasing: forgetting that is final, and its receipts."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic_core import to_json
from starlette.responses import Response

from livesvm.service.api.answers import EraseAnswer, ReceiptList
from livesvm.service.api.bodies.reading import parse_json, read_body, schema_content
from livesvm.service.api.requests import EraseRequest
from livesvm.service.api.routes.access import ModelId, Parts, answers, scope
from livesvm.service.logs.calls import current

router = APIRouter(tags=["erasing"])


@router.post(
    "/models/{id}/erase",
    summary="Erase examples for good",
    dependencies=[scope("admin")],
    responses=answers(200, EraseAnswer, "Nothing of them remains, as the receipt says."),
    openapi_extra=schema_content("EraseRequest"),
)
async def erase(id: ModelId, request: Request, service: Parts) -> Response:
    """Forget examples by key, of the window and of all that is stored, whether they are in it or left it before.

    The model is solved without them, and that replaces its history: earlier versions cannot be had again. Its jobs go
    too. Requests whose answers name them are known to have had their effect, and no more. Erasing again is harmless;
    one erasure waits for another, and too many are answered 429. Once it has begun it is ended, by a restart if need
    be. What the receipt proves is that this service said so: not what backups, replicas and clients keep.
    """
    service.models().get(id)
    body = await read_body(request)
    call = current()
    asked_by = None if call is None else call.key
    with service.erasing.place():
        wanted = await service.erasing.run(parse_json, body, EraseRequest)
        receipt: dict[str, Any] = await service.erasing.run(service.erasures.erase, id, wanted.keys, asked_by)
    keys = receipt["keys"]
    answer = {"version": receipt["version_after"], "removed": keys["in_window"], "receipt": receipt}
    return Response(to_json(answer), media_type="application/json")


@router.get(
    "/receipts",
    summary="List the receipts of erasures",
    dependencies=[scope("admin")],
    responses=answers(200, ReceiptList, "Every receipt that is kept, oldest first."),
)
async def receipts(service: Parts) -> Response:
    """Every receipt that is kept, of models that are gone too."""
    service.models()
    with service.control.place():
        return Response(
            to_json({"receipts": await service.control.run(service.erasures.receipts)}), media_type="application/json"
        )
