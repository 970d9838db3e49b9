"""Models: create, list, describe, delete."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request
from starlette.responses import Response

from livesvm.service.api.answers.models import ModelDescription, ModelList, RecentUpdates
from livesvm.service.api.bodies.reading import parse_json, read_body, schema_content
from livesvm.service.api.routes.access import (
    PAGE,
    After,
    Limit,
    ModelId,
    Parts,
    answers,
    in_control,
    moment,
    page_of,
    remove,
    response_of,
    scope,
    stream_answers,
    up_to_date,
)
from livesvm.service.api.streams import Event, event_stream
from livesvm.service.errors import ModelUnavailable, Restoring, UnknownModel
from livesvm.service.hosting.handle import ModelHandle
from livesvm.service.models.learners import task_of
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec

router = APIRouter(tags=["models"])


@router.post(
    "/models",
    status_code=201,
    summary="Create a model",
    dependencies=[scope("admin")],
    responses=answers(201, ModelDescription, "The new, empty model."),
    openapi_extra=schema_content("ModelSpec"),
)
async def create(request: Request, service: Parts) -> Response:
    """Create a live model; it can be updated at once and predicts once it knows an example."""
    models = service.models()
    body = await read_body(request)

    def make() -> ModelHandle:
        """Read what is asked and store it."""
        spec = parse_json(body, ModelSpec)
        return models.create(spec.id, spec)

    with service.control.place():
        live = await service.control.run(make)
    headers = {"location": f"/models/{live.id}"}
    return response_of(description(live, service), status=201, headers=headers)


@router.get(
    "/models",
    summary="List the models",
    dependencies=[scope("read")],
    responses=answers(200, ModelList, "Models, by id."),
)
async def list_all(service: Parts, after: After = "", limit: Limit = PAGE) -> Response:
    """List models by id; beyond `limit`, `next` is the id after which to ask for more."""
    models = service.models()

    def tell() -> Response:
        """Put one page together."""
        found, following = page_of(models, after, limit)
        return response_of(ModelList(models=[description(model, service) for model in found], next=following))

    return await in_control(service, tell)


@router.get(
    "/models/{id}",
    summary="Describe a model",
    dependencies=[scope("read")],
    responses=answers(200, ModelDescription, "The model as it is now."),
)
async def describe(id: ModelId, service: Parts) -> Response:
    """Describe one model in its present state."""
    model = service.models().find(id)
    await up_to_date(model)
    return response_of(description(model, service))


@router.delete(
    "/models/{id}",
    status_code=204,
    summary="Delete a model",
    dependencies=[scope("admin")],
    responses=answers(204, None, "The model and all that was stored of it are gone."),
)
async def delete(id: ModelId, service: Parts) -> Response:
    """Delete a model and everything that is stored of it, its jobs too."""
    service.models().find(id)
    return await remove(service, id)


@router.get(
    "/models/{id}/events",
    summary="Watch a model",
    dependencies=[scope("read")],
    response_class=Response,
    responses=stream_answers("Events, until the model is deleted or the service stops."),
)
async def watch(id: ModelId, request: Request, service: Parts) -> Response:
    """Server-sent events: the newest version, each time there is one; a reader slower than the updates misses some."""
    service.models().get(id)

    def look() -> Event | None:
        """Return the newest version; None once the model is gone."""
        try:
            live = service.hosting.models.get(id)
        except (UnknownModel, ModelUnavailable, Restoring):
            return None
        return Event("update", _seen(live.published))

    return event_stream(request, look)


@router.get(
    "/models/{id}/recent",
    summary="See what the newest updates did",
    dependencies=[scope("read")],
    responses=answers(200, RecentUpdates, "The newest updates since the model came back, newest first."),
)
async def recent(id: ModelId, service: Parts) -> Response:
    """Return what the newest updates did and how long their paths took; none of it is stored."""
    live = service.models().get(id)

    def tell() -> Response:
        """Ask where the model lives."""
        updates = [update | {"at": moment(update["at"])} for update in live.recent.updates()]
        return response_of(RecentUpdates.model_validate({"updates": updates}), exclude_none=True)

    return await in_control(service, tell)


def _seen(published: Published) -> dict[str, object]:
    reported = {name: getattr(published, name) for name in ("version", "C", "n_support", "drift")}
    return reported | {"updated_at": moment(published.updated_at)} | asdict(published.sizes)


def description(model: ModelHandle, service: Parts) -> ModelDescription:
    """Return the API's description of a model."""
    spec, now, level = model.spec, model.describe(), service.health.durability
    counts = None if now.counts is None else [{"label": c, "n_examples": n} for c, n in now.counts.items()]
    return ModelDescription.model_validate(
        spec.model_dump()
        | now.parameters
        | vars(now)
        | vars(now.sizes)
        | {
            "id": model.id,
            "kernel": now.kernel or spec.kernel.model_dump(),
            "decision_function_shape": spec.decision_function_shape if task_of(spec).has_labels else None,
            "classes": counts,
            "durability": None if level is None else level.value,
            "updated_at": moment(now.updated_at),
            "recovery": None if now.returned is None else vars(now.returned),
        }
    )
