"""Predictions, by the newest published version."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from livesvm.service.api.answers import PredictAnswer
from livesvm.service.api.bodies.reading import NPY, NPZ, read_body, schema_content
from livesvm.service.api.predictions import answering, at_once, is_quick
from livesvm.service.api.routes.access import ModelId, Parts, answers, scope
from livesvm.service.api.routes.quick import quick

router = APIRouter(tags=["predictions"], route_class=quick("read"))


@router.post(
    "/models/{id}/predict",
    summary="Predict",
    dependencies=[scope("read")],
    responses=answers(200, PredictAnswer, "Decision values and labels."),
    openapi_extra=schema_content("PredictRequest", NPY, NPZ),
)
async def predict(id: ModelId, request: Request, service: Parts) -> Response:
    """Decide rows by the newest version; never waits for an update."""
    live = service.models().get(id)
    body = await read_body(request)
    with service.readers.place():
        steps = answering(live, body, service.settings.max_predict_rows, service.budget, service.metrics)
        if is_quick(live, body):
            answer = at_once(steps)
        else:
            answer = await service.readers.run_steps(steps, request.is_disconnected)
    headers = None if live.age is None else {"livesvm-age": f"{live.age:.3f}"}
    return Response(answer, 200, headers, "application/json")
