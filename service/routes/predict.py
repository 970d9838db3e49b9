"""Predictions, by the newest published version."""

from __future__ import annotations

from time import perf_counter

from fastapi import APIRouter, Request
from pydantic_core import to_json
from starlette.responses import Response

from service.answer_schemas import PredictAnswer
from service.bodies import NPY, NPZ, Body, parse_predict, read_body, schema_content
from service.live import LiveModel
from service.routes.access import ModelId, Parts, answers, scope

router = APIRouter(tags=["predictions"])


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
    body = await read_body(request, service.reception)
    with service.readers.place():
        answer = await service.readers.run(_answer, live, body, service)
    return Response(answer, media_type="application/json")


def _answer(live: LiveModel, body: Body, service: Parts) -> bytes:
    start = perf_counter()
    found = live.predict(parse_predict(body))
    answer = to_json(
        {
            "version": found.version,
            "decision": found.decision.tolist(),
            "prediction": found.prediction.tolist(),
            "stale": found.stale,
        }
    )
    service.metrics.predict_seconds.labels(live.spec.task).observe(perf_counter() - start)
    return answer
