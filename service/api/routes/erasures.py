"""Erasing: forgetting that is final, and its receipts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from pydantic_core import to_json
from starlette.responses import Response

from livesvm.service.api.answers.erasures import EraseAnswer, PublicKeys, ReceiptList, Verification
from livesvm.service.api.bodies.reading import JSON, parse_json, read_body, schema_content, with_json
from livesvm.service.api.requests import EraseRequest, FeedEraseRequest
from livesvm.service.api.routes.access import ModelId, Parts, answers, scope, told
from livesvm.service.lifecycle.parts import Service
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
    too, and rows of datasets with these keys. Requests whose answers name them are known to have had their effect, and
    no more. Erasing again is harmless; one erasure waits for another, and too many are answered 429. Once it has begun
    it is ended, by a restart if need be. What the receipt proves is that this service said so: not what backups,
    replicas and clients keep.
    """
    service.models().get(id)
    body = await read_body(request)
    with service.erasing.place():
        wanted = await service.erasing.run(parse_json, body, EraseRequest)
        return await _erased(service, service.erasures.erase, id, wanted.keys)


async def _erased(service: Service, erase: Callable[..., dict[str, Any]], *asked: Any) -> Response:
    call = current()
    receipt = await service.erasing.run(erase, *asked, None if call is None else call.key)
    keys = receipt["keys"]
    answer = {"version": receipt["version_after"], "removed": keys["in_window"], "receipt": receipt}
    return Response(to_json(answer), media_type="application/json")


@router.post(
    "/feeds/{id}/erase",
    summary="Erase readings for good",
    dependencies=[scope("admin")],
    responses=answers(200, EraseAnswer, "Nothing of them remains, as the receipt says."),
    openapi_extra=schema_content("FeedEraseRequest"),
)
async def erase_readings(id: ModelId, request: Request, service: Parts) -> Response:
    """Forget readings of some times, or of a range, in a feed's window, record and all that is stored of it.

    It is then as if they had been missing: their places hold the reading before, and every model learns the window
    anew. A time before the window stands for all that models still see of those. Requests under an Idempotency-Key
    are known to have had their effect, and no more. The rest is as for models.
    """
    service.feeds().get(id)
    body = await read_body(request)
    with service.erasing.place():
        wanted = await service.erasing.run(parse_json, body, FeedEraseRequest)
        return await _erased(service, service.erasures.erase_readings, id, wanted.wanted())


@router.post(
    "/receipts/verify",
    summary="Verify a receipt",
    dependencies=[scope("read")],
    responses=answers(200, Verification, "Whether it is as this service, or another one, signed it."),
    openapi_extra={"requestBody": {"required": True, "content": {JSON: {"schema": {"type": "object"}}}}},
)
async def verify(request: Request, service: Parts) -> Response:
    """Say whether a receipt, in the bytes in which it was kept, is as a service signed it, and whether as this one.

    Anyone may do the same without the service: `livesvm receipt verify FILE`.
    """
    service.models()
    body = await read_body(request)
    with service.control.place():
        found = await service.control.run(with_json, body, service.erasures.verify)
    return told(Verification.model_validate(found))


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


@router.get(
    "/receipts/key",
    summary="Tell the public key of receipts",
    dependencies=[scope("read")],
    responses=answers(200, PublicKeys, "What receipts of this service are verified by."),
)
async def key(service: Parts) -> Response:
    """The public key that receipts are signed by, and those of before, so that nobody has to trust a receipt's own."""
    service.models()
    with service.control.place():
        *earlier, now = await service.control.run(service.erasures.public_keys)
    return told(PublicKeys(public_key=now, earlier=earlier))
