"""The call that predicts with the newest version of a model."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request
from starlette.responses import Response

from livesvm.service.api.answers.predict import PredictAnswer
from livesvm.service.api.arrow import ArrowForm, is_accepted
from livesvm.service.api.bodies.reading import (
    JSON,
    NPY,
    NPZ,
    Body,
    may_ask_for_more,
    parse_predict_request,
    read_body,
)
from livesvm.service.api.bodies.rows import ARROW
from livesvm.service.api.bodies.tables import MEDIA, TABLES, parse_predict
from livesvm.service.api.predictions import Calibrated, JsonForm, answering, at_once, is_quick
from livesvm.service.api.requests import PredictRequest
from livesvm.service.api.routes.access import ModelId, Parts, awaited
from livesvm.service.api.routes.calls import Calls, answers
from livesvm.service.api.routes.questions import covered
from livesvm.service.hosting.coverage import WantedCoverage
from livesvm.service.hosting.handle import ModelHandle, Reader
from livesvm.service.models.arrays import Rows
from livesvm.service.models.learners import task_of
from livesvm.service.models.published import Cut, Published
from livesvm.service.models.table_rows import TableRows
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.solvers.errors import InvalidInput

calls = Calls("predictions")


@calls("POST /models/{id}/predict", "read", "Predict", body=PredictRequest, media=(NPY, NPZ, *TABLES), is_quick=True)
@answers(PredictAnswer, "Decision values and labels.", other=[ARROW])
async def predict(
    id: ModelId,
    request: Request,
    service: Parts,
    probability: Annotated[
        bool, Query(description="Whether to return probabilities of classes, as in a body of JSON.")
    ] = False,
    alerts: Annotated[
        float | None,
        Query(gt=0, lt=1, description="`pu`: choose a threshold with at most this share of the unlabelled above it."),
    ] = None,
    precision: Annotated[
        float | None,
        Query(gt=0, lt=1, description="`pu`: choose one above which at least this share is estimated positive."),
    ] = None,
    coverage: Annotated[float | None, Query(gt=0, lt=1, description="As in a body of JSON.")] = None,
    half_life: Annotated[float | None, Query(gt=0, le=1e12, description="As in a body of JSON.")] = None,
    interval: Annotated[Literal["plus", "minmax"], Query(description="As in a body of JSON.")] = "plus",
) -> Response:
    """Predict rows with the model's newest version, without waiting for updates.

    For a model with columns, the rows may be a table with column names, as CSV, NDJSON, Parquet or Arrow.

    After an update, the first call with `probability`, `alerts`, `precision` or `coverage` waits until the new version
    is calibrated. To calibrate it for `coverage`, the model is trained once without each example.
    """
    live = service.models().readable(id)
    form, media = (ArrowForm, ARROW) if is_accepted(request.headers.get("accept", "")) else (JsonForm, JSON)
    body = await read_body(request, MEDIA)
    with service.readers.place():
        cut = None if alerts is None and precision is None else Cut(alerts, precision)
        asked: Body | Rows | TableRows = body
        if may_ask_for_more(body):
            wanted = await service.workers.run(parse_predict_request, body)
            asked, probability = wanted.features, probability or wanted.probability
            if wanted.coverage is not None:
                coverage, half_life, interval = wanted.coverage, wanted.half_life, wanted.interval
        check_askable(live, probability=probability, cut=cut)
        if coverage is not None:
            if probability or cut:
                raise InvalidInput("give one of coverage, probability, alerts and precision", field="coverage")
            X = await service.workers.run(parse_predict, asked) if isinstance(asked, Body) else asked
            return await covered(id, request, service, X, WantedCoverage(coverage, half_life, interval), media)
        seen = None
        if probability or cut:
            seen = Calibrated(await calibrated(service.models().get(id), request), cut)
        limit = service.settings.max_predict_rows
        steps = answering(live, asked, limit, service.budget, service.metrics, form, seen)
        if is_quick(live, asked):
            answer = await at_once(steps)
        else:
            answer = await service.readers.run_steps(steps, request.is_disconnected)
    headers = None if live.age is None else {"livesvm-age": f"{live.age:.3f}"}
    return Response(answer, 200, headers, media)


def check_askable(live: Reader, *, probability: bool, cut: Cut | None) -> None:
    """Raise InvalidInput if a model cannot give a requested kind of answer, or cannot combine two requested kinds."""
    if probability and not live.spec.probability:
        raise InvalidInput("the model was created without; it has decision values alone", field="probability")
    if cut is not None and not task_of(live.spec).has_thresholds:
        reason = f"is asked of models of task pu; this one is of task {live.spec.task}"
        raise InvalidInput(reason, field="precision" if cut.alerts is None else "alerts")
    if cut is not None and cut.alerts is not None and cut.precision is not None:
        raise InvalidInput("give one of alerts and precision", field="alerts")


async def calibrated(live: ModelHandle, request: Request) -> Published:
    """Return the newest version with its calibration; if it has none, wait until the model's writer calibrates it."""
    if live.published.calibration is not None:
        return live.published
    solve = Solve()
    return await awaited(request, live.calibrated(solve), solve, changes=False)
