"""Erasure of examples and readings for good, and its receipts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fastapi import Request
from pydantic_core import to_json
from starlette.responses import Response

from livesvm.service.api.answers.erasures import (
    EraseAnswer,
    EraseEverywhereAnswer,
    PublicKeys,
    ReceiptList,
    Verification,
)
from livesvm.service.api.bodies.reading import JSON, parse_json, read_body, with_json
from livesvm.service.api.requests import EraseRequest, FeedEraseRequest, FleetEraseRequest
from livesvm.service.api.routes.access import (
    FeedId,
    FleetId,
    IdempotencyKey,
    ModelId,
    Parts,
    Whole,
    json_of,
    replied,
    response_of,
)
from livesvm.service.api.routes.calls import Calls, answers
from livesvm.service.fleets.names import feed_of, name_of
from livesvm.service.fleets.readings import ids_of
from livesvm.service.hosting.handle import Reply
from livesvm.service.lifecycle.erasures import AnsweredErasure, ErasureRequest
from livesvm.service.lifecycle.parts import Service
from livesvm.service.lifecycle.search import respelled
from livesvm.service.logs.calls import current
from livesvm.service.receipts.receipt import hashed
from livesvm.solvers.errors import InvalidInput

calls = Calls("erasing")

MOST_SERIES = 1000
"""Largest number of a fleet's series in an erasure that names no series."""


@calls("POST /models/{id}/erase", "admin", "Erase examples for good", body=EraseRequest)
@answers(EraseAnswer, "Nothing of them remains, as the receipt says.")
async def erase(id: ModelId, request: Request, service: Parts, key: IdempotencyKey = None) -> Response:
    """Erase examples by key or tag from the window and from all that is stored, even if they left the window before.

    The model is solved without them, and this version replaces its history: earlier versions cannot be restored. Its
    jobs are removed, and rows of datasets with these keys. If an answer named the examples, only the fact that its
    request had its effect is kept. If nothing that is stored contains any of the keys and tags, the answer is 404, and
    nothing is changed. Otherwise `not_found` lists those that were not found, and `elsewhere` of the receipt other
    models that contain some. Sent again with its Idempotency-Key, a call is answered by the first receipt. Erasures
    wait for each other, and too many are answered 429. An erasure that has begun is completed, by a restart if need be.
    The receipt proves what this service has declared, not what backups, replicas and clients keep.
    """
    service.models().get(id)
    body = await read_body(request)
    with service.erasing.place():
        wanted = await service.erasing.run(parse_json, body, EraseRequest)
        erase = partial(service.erasures.erase, id, wanted.sought())
        return await _erased(service, erase, wanted, key)


@calls("POST /erase", "admin", "Erase examples from everywhere for good", body=EraseRequest)
@answers(EraseEverywhereAnswer, "Nothing of them remains, as the receipt says.")
async def erase_everywhere(request: Request, service: Parts, key: IdempotencyKey = None) -> Response:
    """Erase examples by key or tag from all models, feeds and datasets that know any of them, with one receipt.

    Models, feeds and datasets that know none of them stay as they are. Readings of feeds have no keys; in feeds,
    requests with such an Idempotency-Key are erased. Models and feeds that cannot be asked now are listed in `refused`,
    with the reason. An integer key that is found by a tag is erased only in the model of that tag. The rest is as for
    one model.
    """
    service.models()
    body = await read_body(request)
    with service.erasing.place():
        wanted = await service.erasing.run(parse_json, body, EraseRequest)
        erase = partial(service.erasures.erase_everywhere, wanted.sought())
        return await _erased(service, erase, wanted, key)


async def _erased(
    service: Service,
    erase: Callable[[ErasureRequest], AnsweredErasure],
    wanted: EraseRequest | FeedEraseRequest,
    request: str | None,
) -> Response:
    call = current()
    asked = ErasureRequest(None if call is None else call.key, request, wanted.model_dump_json())
    found = await service.erasing.run(erase, asked)
    return replied(Reply(to_json(_told(found.receipt, wanted)), found.replayed))


def _told(receipt: dict[str, Any], wanted: EraseRequest | FeedEraseRequest) -> dict[str, Any]:
    """Return the answer that contains a receipt; keys and tags in it are spelled as in the request."""
    missing, salt = set(receipt["keys"]["not_found"]), bytes.fromhex(receipt["keys"]["salt"])
    not_found = [name for name in wanted.named() if hashed(salt, name) in missing]
    other = {hashed(salt, name): name for key in wanted.named() if (name := respelled(key)) is not None}
    found = [other[one] for one in receipt["keys"].get("respelled", []) if one in other]
    answer = {"removed": receipt["keys"]["in_window"], "datasets": receipt.get("datasets", [])}
    answer |= {"respelled": found, "not_found": not_found, "receipt": receipt}
    if receipt["kind"] in ("everywhere", "fleet"):
        names = ("model", "kind", "version_after", "in_window")
        return {"erased": [{name: part[name] for name in names} for part in receipt["parts"]], **answer}
    return {"version": receipt["version_after"], **answer}


@calls("POST /feeds/{id:feed}/erase", "admin", "Erase readings for good", body=FeedEraseRequest)
@answers(EraseAnswer, "Nothing of them remains, as the receipt says.")
async def erase_readings(id: FeedId, request: Request, service: Parts, key: IdempotencyKey = None) -> Response:
    """Erase readings at some times, or in a range, from a feed's window, its record and all that is stored of it.

    They then count as missing: each is filled with the reading before it, and every model learns the window again. A
    time before the window erases all readings before it that models still see. Of requests with an Idempotency-Key,
    only the fact that they had their effect is kept. The rest is as for models.
    """
    service.feeds().get(id)
    body = await read_body(request)
    with service.erasing.place():
        wanted = await service.erasing.run(parse_json, body, FeedEraseRequest)
        erase = partial(service.erasures.erase_readings, id, wanted.wanted())
        return await _erased(service, erase, wanted, key)


@calls("POST /fleets/{id}/erase", "admin", "Erase readings of series for good", body=FleetEraseRequest)
@answers(EraseEverywhereAnswer, "Nothing of them remains, as the receipt says.")
async def erase_series(id: FleetId, request: Request, service: Parts, key: IdempotencyKey = None) -> Response:
    """Erase readings at some times, or in a range, from some series of a fleet or from all, with one receipt.

    Each series is treated as a feed; series without such readings stay as they are.
    """
    service.feeds()
    body = await read_body(request)
    with service.erasing.place():
        wanted = await service.erasing.run(parse_json, body, FleetEraseRequest)
        feeds = await service.erasing.run(_series_of, service, id, wanted.series)
        erase = partial(service.erasures.erase_series, id, feeds, wanted.wanted())
        return await _erased(service, erase, wanted, key)


def _series_of(service: Service, id: str, names: Sequence[str | int] | None) -> list[str]:
    """Return the feeds of some series of a fleet, or of all; raises UnknownFleet or InvalidInput."""
    fleet = service.fleets.live(id)
    if names is not None:
        return [feed_of(id, name_of(name, row)) for row, name in enumerate(names)]
    if service.feeds().count(fleet.prefix) > MOST_SERIES:
        raise InvalidInput(f"name them, as the fleet has more than {MOST_SERIES}", field="series")
    return ids_of(service.feeds(), fleet)


@calls("POST /receipts/verify", "read", "Verify a receipt", body={JSON: {"schema": {"type": "object"}}})
@answers(Verification, "Whether it is as this service, or another one, signed it.")
def verify(service: Parts, body: Whole) -> Response:
    """Check whether a receipt, in the bytes of its file, is as a service signed it, and whether that was this one.

    It can be done without the service too: `livesvm receipt verify FILE`.
    """
    service.models()
    return response_of(Verification.model_validate(with_json(body, service.erasures.receipts.verify)))


@calls("GET /receipts", "admin", "List the receipts of erasures")
@answers(ReceiptList, "Every receipt that is kept, oldest first.")
def receipts(service: Parts) -> Response:
    """List every receipt that is kept, of deleted models too."""
    service.models()
    return json_of({"receipts": service.erasures.receipts.all()})


@calls("GET /receipts/key", "read", "Get the public key of receipts")
@answers(PublicKeys, "The public keys that verify the receipts of this service.")
def key(service: Parts) -> Response:
    """Return the public key of receipts, and earlier ones, so that the key in a receipt need not be trusted."""
    service.models()
    *earlier, now = service.erasures.receipts.public_keys()
    return response_of(PublicKeys(public_key=now, earlier=earlier))
