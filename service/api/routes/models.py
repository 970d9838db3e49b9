"""Calls that create, list, describe, watch and delete models."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import Request
from starlette.responses import Response

from livesvm.service.api.answers.models import (
    ModelDescription,
    ModelList,
    RecentUpdates,
)
from livesvm.service.api.bodies.reading import parse_json
from livesvm.service.api.routes.access import (
    PAGE,
    After,
    Limit,
    ModelId,
    Parts,
    Whole,
    moment,
    page_of,
    remove,
    response_of,
    up_to_date,
)
from livesvm.service.api.routes.calls import EVENTS, Calls, answers
from livesvm.service.api.streams import Event, event_stream
from livesvm.service.errors import ModelUnavailable, Restoring, UnknownModel
from livesvm.service.hosting.handle import ModelHandle
from livesvm.service.models.learners import task_of
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec

calls = Calls("models")


@calls("POST /models", "admin", "Create a model", body=ModelSpec)
@answers(ModelDescription, "The new, empty model.", status=201)
def create(service: Parts, body: Whole) -> Response:
    """Create an empty model; it can learn examples at once, and can predict after its first example."""
    models, spec = service.models(), parse_json(body, ModelSpec)
    live = models.create(spec.id, spec)
    return response_of(description(live, service), status=201, headers={"location": f"/models/{live.id}"})


@calls("GET /models", "read", "List the models")
@answers(ModelList, "Models, by id.")
def list_all(service: Parts, after: After = "", limit: Limit = PAGE) -> Response:
    """List models by id; to get more than `limit` models, repeat the call with `after` set to `next`."""
    models = service.models()
    found, following = page_of(models, after, limit)
    return response_of(ModelList(models=[description(model, service) for model in found], next=following))


@calls("GET /models/{id}", "read", "Describe a model")
@answers(ModelDescription, "The model as it is now.")
async def describe(id: ModelId, service: Parts) -> Response:
    """Describe the present state of one model."""
    model = service.models().find(id)
    await up_to_date(model)
    return response_of(description(model, service))


@calls("DELETE /models/{id}", "admin", "Delete a model")
@answers(None, "The model and all that was stored of it are gone.", status=204)
async def delete(id: ModelId, service: Parts) -> Response:
    """Delete a model, its jobs, and all of its stored data."""
    service.models().find(id)
    return await remove(service, id)


@calls("GET /models/{id}/events", "read", "Watch a model")
@answers(EVENTS, "Events, until the model is deleted or the service stops.")
async def watch(id: ModelId, request: Request, service: Parts) -> Response:
    """Send each new version of a model as a server-sent event; a slow reader does not get all versions."""
    service.models().get(id)

    def look() -> Event | None:
        """Return an event about the model's newest version, or None if the model was deleted."""
        try:
            live = service.hosting.models.get(id)
        except (UnknownModel, ModelUnavailable, Restoring):
            return None
        return Event("update", _seen(live.published))

    return event_stream(request, look)


@calls("GET /models/{id}/recent", "read", "See what the newest updates did")
@answers(RecentUpdates, "The newest updates since the model was restored, newest first.")
def recent(id: ModelId, service: Parts) -> Response:
    """List the effects and the durations of a model's newest updates; the list is only kept in memory."""
    live = service.models().get(id)
    updates = [update | {"at": moment(update["at"])} for update in live.recent.updates()]
    return response_of(RecentUpdates.model_validate({"updates": updates}), exclude_none=True)


def _seen(published: Published) -> dict[str, object]:
    reported = {name: getattr(published, name) for name in ("version", "C", "gamma", "n_support", "drift", "tuning")}
    return reported | {"updated_at": moment(published.updated_at)} | asdict(published.sizes)


def description(model: ModelHandle, service: Parts) -> ModelDescription:
    """Return the description of a model that answers contain."""
    spec, now, level = model.spec, model.describe(), service.health.durability
    shown = spec.model_dump(exclude={"id"}) | now.parameters | vars(now) | vars(now.sizes)
    shown |= {"id": model.id, "durability": None if level is None else level.value}
    shown |= {"updated_at": moment(now.updated_at), "recovery": now.returned and vars(now.returned)}
    if not now.kernel:
        shown["kernel"] = spec.kernel.model_dump()
    counts = None if now.counts is None else [{"label": c, "n_examples": n} for c, n in now.counts.items()]
    shown |= {"classes": counts, "record": now.record and now.record.shown()}
    if not task_of(spec).has_labels:
        shown["decision_function_shape"] = None
    return ModelDescription.model_validate(shown)
