"""Routes that a model's writer answers: updates, certificates, checkpoints."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request
from pydantic_core import to_json
from starlette.responses import Response

from livesvm.service.api.answers.certificates import Certificate
from livesvm.service.api.answers.learn import Checkpoint, UpdateAnswer, Writeback
from livesvm.service.api.bodies.reading import NPZ, parse_update, read_body, schema_content
from livesvm.service.api.routes.access import MaxSeconds, ModelId, Parts, answers, awaited, replied, scope, within
from livesvm.service.api.routes.quick import LONGEST_KEY, quick
from livesvm.service.resources.solve_scheduler import Solve

QUICK_BYTES = 2**14
"""A shorter body is read where it comes in, in a fraction of a millisecond, as handing it to a thread takes longer."""

router = APIRouter(tags=["learning"])
updates = APIRouter(tags=["learning"], route_class=quick("learn"))

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=LONGEST_KEY,
        description="The client's name for this request: sent again, it has one effect and the same answer.",
    ),
]


@updates.post(
    "/models/{id}/update",
    summary="Add, remove, correct and reweight examples",
    dependencies=[scope("learn")],
    responses=answers(200, UpdateAnswer, "The update is applied, published, and as durable as it says."),
    openapi_extra=schema_content("UpdateRequest", NPZ),
)
async def update(
    id: ModelId,
    request: Request,
    service: Parts,
    idempotency_key: IdempotencyKey = None,
    max_seconds: MaxSeconds = None,
) -> Response:
    """Add, remove, correct and reweight examples and change C, along one path, whole or not at all.

    Besides JSON this reads an npz file with members `X`, `y`, `keys`, `weights`, `on_repeat`, `remove_keys`,
    `remove_oldest`, `relabel_keys`, `relabel_y`, `reweight_keys`, `reweight_weights`, `decay`, `C`, each where it is
    needed.
    """
    solve, live = within(max_seconds), service.models().get(id)
    body = await read_body(request)
    with service.workers.place():
        wanted = parse_update(body) if len(body.data) <= QUICK_BYTES else await service.workers.run(parse_update, body)
    with service.budget.holding("updates", wanted.memory()):
        reply = await awaited(request, live.update(wanted, idempotency_key, solve), solve)
    return replied(reply)


@router.get(
    "/models/{id}/certificate",
    summary="Prove that a model is optimal",
    dependencies=[scope("read")],
    responses=answers(200, Certificate, "Recomputed from the data of the window."),
)
async def certificate(id: ModelId, request: Request, service: Parts, max_seconds: MaxSeconds = None) -> Response:
    """Recompute the duality gap and the violations from the window's data; waits for its turn behind updates."""
    solve = within(max_seconds)
    found = await awaited(request, service.models().get(id).certificate(solve), solve, changes=False)
    return Response(to_json(found), media_type="application/json")


@router.post(
    "/models/{id}/checkpoint",
    summary="Write a snapshot",
    dependencies=[scope("learn")],
    responses=answers(200, Checkpoint, "The version is in a snapshot."),
)
async def checkpoint(id: ModelId, request: Request, service: Parts) -> Response:
    """Write a snapshot now; nothing acknowledged needs it, but a restart is quicker after it."""
    found = await awaited(request, service.models().get(id).checkpoint(), Solve())
    return Response(to_json(found), media_type="application/json")


@router.post(
    "/models/{id}/writeback",
    summary="Write a model back that the store has lost",
    dependencies=[scope("admin")],
    responses=answers(200, Writeback, "The store holds the version that is served."),
)
async def write_back(id: ModelId, request: Request, service: Parts) -> Response:
    """Have the store hold what memory does, where it has lost the model or some of its updates; else nothing is done.

    Earlier versions and the requests since are not kept: one that is sent again is a new request. Refused where the
    store has more, or another service has the model.
    """
    found = await awaited(request, service.models().get(id).write_back(), Solve())
    return Response(to_json(found), media_type="application/json")
