"""Calls that erase examples and readings from all stored data, and calls for the receipts of erasures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

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
    Ready,
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
W = TypeVar("W", bound=EraseRequest | FeedEraseRequest)

MOST_SERIES = 1000
"""Largest number of a fleet's series in an erasure that names no series."""


@calls("POST /models/{id}/erase", "admin", "Erase examples for good", body=EraseRequest)
@answers(EraseAnswer, "Nothing of them remains, as the receipt says.")
async def erase(id: ModelId, request: Request, service: Parts, key: IdempotencyKey = None) -> Response:
    """Erase examples by key or tag from a model's window and all stored data, even if they have left the window.

    The model is solved without these examples, and the resulting version replaces its history: earlier versions cannot
    be restored. The model's jobs and all dataset rows with these keys are removed. Stored answers that name the
    examples are erased, and only the fact that their requests had an effect is kept. If no stored data contain any of
    the keys and tags, the answer has status 404, and nothing is changed. In a successful answer, `not_found` lists the
    keys and tags that no stored data contain, and the receipt's `elsewhere` lists other models that contain some of the
    keys and tags. A call that is repeated with the same Idempotency-Key is answered with the first call's receipt. Only
    one erasure runs at a time; if too many wait, a further call is answered with status 429. An erasure that has begun
    is always completed, if necessary by the next start of the service. The receipt proves what this service has
    declared to be erased; it does not prove what backups, replicas and clients store.
    """
    service.models().get(id)
    erase = service.erasures.erase
    return await _erased(service, request, key, EraseRequest, lambda one, asked: erase(id, one.sought(), asked))


@calls("POST /erase", "admin", "Erase examples from everywhere for good", body=EraseRequest)
@answers(EraseEverywhereAnswer, "Nothing of them remains, as the receipt says.")
async def erase_everywhere(request: Request, service: Ready, key: IdempotencyKey = None) -> Response:
    """Erase examples by key or tag from all models, feeds and datasets that contain any of them, with one receipt.

    Models, feeds and datasets without any of these keys and tags are not changed. Readings of feeds have no keys; a
    feed's record of a request is erased if the request's Idempotency-Key is one of the keys. Models and feeds that the
    service cannot search now are listed in `refused`, with the reason. If an example with an integer key is found by
    its tag, this key is erased only in the model that contains the tag. In all other respects the call works like the
    erasure of examples from one model.
    """
    erase = service.erasures.erase_everywhere
    return await _erased(service, request, key, EraseRequest, lambda one, asked: erase(one.sought(), asked))


async def _erased(
    service: Service,
    request: Request,
    key: str | None,
    form: type[W],
    erase: Callable[[W, ErasureRequest], AnsweredErasure],
) -> Response:
    """Erase what a request names, in the thread of erasures; ``form`` is the schema of its body."""
    body, call = await read_body(request), current()
    with service.erasing.place():
        wanted = await service.erasing.run(parse_json, body, form)
        asked = ErasureRequest(None if call is None else call.key, key, wanted.model_dump_json())
        found = await service.erasing.run(erase, wanted, asked)
        return replied(Reply(to_json(_told(found.receipt, wanted)), found.replayed))


def _told(receipt: dict[str, Any], wanted: EraseRequest | FeedEraseRequest) -> dict[str, Any]:
    """Return the answer of an erasure with its receipt; the answer spells keys and tags as the request does."""
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
    """Erase readings by time, or in a range of times, from a feed's window, its record and all of its stored data.

    The erased readings then count as missing: each is replaced by the reading before it, and the feed's models learn
    the window again. If a requested time is before the window, all readings before the window that models still use are
    erased. The feed then knows only that earlier requests with an Idempotency-Key had their effect. In all other
    respects the call works like the erasure of examples from a model.
    """
    service.feeds().get(id)
    erase = service.erasures.erase_readings
    return await _erased(service, request, key, FeedEraseRequest, lambda one, asked: erase(id, one.wanted(), asked))


@calls("POST /fleets/{id}/erase", "admin", "Erase readings of series for good", body=FleetEraseRequest)
@answers(EraseEverywhereAnswer, "Nothing of them remains, as the receipt says.")
async def erase_series(id: FleetId, request: Request, service: Ready, key: IdempotencyKey = None) -> Response:
    """Erase readings by time, or in a range of times, from some series of a fleet or from all, with one receipt.

    From each series, readings are erased as from a feed; series without such readings are not changed.
    """

    def erase(wanted: FleetEraseRequest, asked: ErasureRequest) -> AnsweredErasure:
        """Erase the readings in these series."""
        feeds = _series_of(service, id, wanted.series)
        return service.erasures.erase_series(id, feeds, wanted.wanted(), asked)

    return await _erased(service, request, key, FleetEraseRequest, erase)


def _series_of(service: Service, id: str, names: Sequence[str | int | float] | None) -> list[str]:
    """Return the feed ids of the named series of a fleet, or of all its series; raises UnknownFleet or InvalidInput."""
    fleet = service.fleets.live(id)
    if names is not None:
        return [feed_of(id, name_of(name, row)) for row, name in enumerate(names)]
    if service.feeds().count(fleet.prefix) > MOST_SERIES:
        raise InvalidInput(f"name them, as the fleet has more than {MOST_SERIES}", field="series")
    return ids_of(service.feeds(), fleet)


@calls("POST /receipts/verify", "read", "Verify a receipt", body={JSON: {"schema": {"type": "object"}}})
@answers(Verification, "Whether it is as this service, or another one, signed it.")
def verify(service: Ready, body: Whole) -> Response:
    """Check whether a receipt, sent as a file, is unchanged since it was signed, and was signed by this service.

    The command `livesvm receipt verify FILE` makes the same check without the service.
    """
    return response_of(Verification.model_validate(with_json(body, service.erasures.receipts.verify)))


@calls("GET /receipts", "admin", "List the receipts of erasures")
@answers(ReceiptList, "Every receipt that is kept, oldest first.")
def receipts(service: Ready) -> Response:
    """List all stored receipts, including the receipts of deleted models."""
    return json_of({"receipts": service.erasures.receipts.all()})


@calls("GET /receipts/key", "read", "Get the public key of receipts")
@answers(PublicKeys, "The public keys that verify the receipts of this service.")
def key(service: Ready) -> Response:
    """Return the service's present and earlier public keys, so that the key in a receipt need not be trusted."""
    *earlier, now = service.erasures.receipts.public_keys()
    return response_of(PublicKeys(public_key=now, earlier=earlier))
