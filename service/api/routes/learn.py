"""Calls that a model's writer executes: updates, certificates, snapshots and writing back to the store."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from livesvm.service.api.answers.certificates import Certificate
from livesvm.service.api.answers.learn import Checkpoint, UpdateAnswer, UpdatesAnswer, Writeback
from livesvm.service.api.bodies.reading import JSON, NPZ, parse_json, read_body
from livesvm.service.api.bodies.tables import MEDIA as TABLE_MEDIA
from livesvm.service.api.bodies.tables import NONE, TABLES, TABLES_OF_MANY, Roles, parse_update, parse_updates
from livesvm.service.api.bodies.updates import NDJSON
from livesvm.service.api.problem_documents import kind_of, problem
from livesvm.service.api.requests import UpdateRequest, UpdatesRequest
from livesvm.service.api.routes.access import IdempotencyKey, ModelId, Parts, Within, awaited, json_of, replied
from livesvm.service.api.routes.calls import Calls, answers
from livesvm.service.logs.calls import note
from livesvm.service.models.commands import memory_of
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.solvers.models.repeats import OnRepeat

QUICK_BYTES = 2**14
"""JSON up to this size is parsed on the event loop, as passing it to a thread would take longer."""


async def _roles(
    target: Annotated[str | None, Query(max_length=128, description="Of a table: its column that is `y`.")] = None,
    keys: Annotated[str | None, Query(max_length=128, description="Of a table: its column with keys.")] = None,
    weights: Annotated[str | None, Query(max_length=128, description="Of a table: its column with weights.")] = None,
    times: Annotated[str | None, Query(max_length=128, description="Of a table: its column with times.")] = None,
    on_repeat: Annotated[OnRepeat, Query(description="Of a table: as in a body of JSON.")] = "refuse",
) -> Roles:
    """Return the roles that the query gives to those columns of a table that are not features."""
    return Roles(target, keys, weights, times, on_repeat)


RolesGiven = Annotated[Roles, Depends(_roles)]

calls = Calls("learning")
updates = Calls("learning")


@updates(
    "POST /models/{id}/update",
    "learn",
    "Add, remove, correct and reweight examples",
    body=UpdateRequest,
    media=[NPZ, *TABLES],
    is_quick=True,
)
@answers(UpdateAnswer, "The update is applied, published, and as durable as it says.")
async def update(
    id: ModelId,
    request: Request,
    service: Parts,
    solve: Within,
    roles: RolesGiven = NONE,
    key: IdempotencyKey = None,
) -> Response:
    """Add, remove, correct and reweight examples of a model, and change C, along one path, completely or not at all.

    The body is JSON or an npz file. An npz file may have the arrays `X`, `y`, `keys`, `weights`, `on_repeat`,
    `remove_keys`, `remove_oldest`, `relabel_keys`, `relabel_y`, `reweight_keys`, `reweight_weights`, `decay` and `C`;
    arrays that the update does not need are left out. For a model with columns, the body may also be a table of
    examples to add, as CSV, NDJSON, Parquet or Arrow; the parameters `target`, `keys`, `weights` and `times` name the
    table's columns that are not features.
    """
    live = service.models().get(id)
    body = await read_body(request, TABLE_MEDIA)
    if len(body.data) <= QUICK_BYTES and body.media == JSON and roles == NONE:
        wanted = parse_json(body, UpdateRequest).command()
    else:
        wanted = await service.workers.placed(parse_update, body, roles)
    with service.budget.holding("updates", memory_of(wanted)):
        return replied(await awaited(request, live.update(wanted, key, solve), solve))


@calls("POST /updates", "learn", "Update many models", body=UpdatesRequest, media=(NDJSON, *TABLES_OF_MANY))
@answers(UpdatesAnswer, "What is not refused is applied, published, and as durable as it says.")
async def update_many(
    request: Request,
    service: Parts,
    solve: Within,
    roles: RolesGiven = NONE,
    model: Annotated[
        str | None, Query(max_length=128, description="Of a table: its column with ids of models.")
    ] = None,
    key: IdempotencyKey = None,
) -> Response:
    """Update many models in one call, each completely or not at all; the store writes 64 updates in one step.

    The body is JSON `{"updates": [..]}`, or NDJSON with one update in each line. Each update has the form of an update
    of one model, and in addition the field `model` with the model's id. For models with columns, the body may also be a
    table of examples to add, as CSV, Parquet or Arrow; its column `model` has the id of the model that learns each row.
    A refused update changes nothing, and does not affect the updates of other models. A call that is repeated with the
    same Idempotency-Key changes each model only once.
    """
    models = service.models()
    body = await read_body(request, TABLE_MEDIA)
    wanted = await service.workers.placed(parse_updates, body, roles, model)
    with service.budget.holding("updates", wanted.memory()), service.many.place():
        work = service.many.begin(models.update_many, wanted.updates, key, solve)
        done = await awaited(request, work, solve, changes=False)  # an update that has begun goes on all the same
    errors = wanted.errors | done.errors
    note(model="models", updated=len(done.answers), refused=len(errors), replayed=done.replayed)
    told = b",".join(
        _told(model, 200, b"answer", done.answers[model])
        if model in done.answers
        else _told(model, kind_of(errors[model]).status, b"problem", to_json(problem(errors[model])))
        for model in wanted.order
    )
    return Response(b'{"updates":[%b],"replayed":%d}' % (told, done.replayed), media_type="application/json")


def _told(model: str, status: int, name: bytes, body: bytes) -> bytes:
    return b'{"model":%b,"status":%d,"%b":%b}' % (to_json(model), status, name, body)


@calls("GET /models/{id}/certificate", "read", "Prove that a model is optimal")
@answers(Certificate, "Recomputed from the data of the window.")
async def certificate(id: ModelId, request: Request, service: Parts, solve: Within) -> Response:
    """Compute a model's duality gap and violations from the window's data, after waiting for earlier updates."""
    found = await awaited(request, service.models().get(id).certificate(solve), solve, changes=False)
    return json_of(found)


@calls("POST /models/{id}/checkpoint", "learn", "Write a snapshot")
@answers(Checkpoint, "The version is in a snapshot.")
async def checkpoint(id: ModelId, request: Request, service: Parts) -> Response:
    """Write a snapshot now; acknowledged updates are safe without a snapshot, but with it a restart is quicker."""
    found = await awaited(request, service.models().get(id).checkpoint(), Solve())
    return json_of(found)


@calls("POST /models/{id}/writeback", "admin", "Write a model back that the store has lost")
@answers(Writeback, "The store holds the version that is served.")
async def write_back(id: ModelId, request: Request, service: Parts) -> Response:
    """Write a model from memory to the store, if the store has lost the model or some of its updates.

    The call restores neither earlier versions nor Idempotency-Keys: a repeated earlier request counts as a new request.
    The call is refused if the store has newer updates than memory, or if another service holds the model.
    """
    found = await awaited(request, service.models().get(id).write_back(), Solve())
    return json_of(found)
