"""The call that returns the examples of a model's window, for callers that may update the model."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from livesvm.service.api.answers.examples import ExamplePage
from livesvm.service.api.examples import MEDIA, MOST, PAGE, Format, encoded, format_for, memory
from livesvm.service.api.routes.access import ModelId, Parts, awaited
from livesvm.service.api.routes.calls import Calls, answers
from livesvm.service.models.arrays import MAX_KEY_LENGTH
from livesvm.service.models.examples import WantedExamples
from livesvm.service.resources.solve_scheduler import Solve

calls = Calls("examples")

MOST_KEYS = 1000
_Key = Annotated[str, Query(max_length=MAX_KEY_LENGTH)]


@calls("GET /models/{id}/examples", "learn", "See the examples of a window")
@answers(ExamplePage, "The examples, oldest first.", other=[*MEDIA.values()][1:])
async def examples(
    id: ModelId,
    request: Request,
    service: Parts,
    keys: Annotated[
        list[_Key] | None, Query(max_length=MOST_KEYS, description="Only these, each as text or a whole number.")
    ] = None,
    offset: Annotated[int, Query(ge=0, le=2**53, description="Examples to pass over, oldest first.")] = 0,
    limit: Annotated[
        int | None, Query(ge=1, le=2**53, description=f"Examples at most. JSON: {PAGE}, if absent, and at most {MOST}.")
    ] = None,
    format: Annotated[Format | None, Query(description="In place of what `Accept` says.")] = None,
) -> Response:
    """Return the examples of a model's window, with their keys, features, targets, weights and coefficients.

    An API key that may update models may read their windows; an API key that may only predict may not. The answer is a
    page in JSON, csv, Arrow or npz; an update can read the arrays `X`, `y`, `keys` and `weights` of npz. The call waits
    until earlier updates of the model are done.
    """
    live, format = service.models().get(id), format_for(request.headers.get("accept", ""), format)
    if format == "json" and keys is None:
        limit = min(MOST, limit or PAGE)
    size = memory(live.describe(), limit if keys is None else len(keys), format)
    with service.control.place(), service.budget.holding("predictions", size):
        page = await awaited(request, live.examples(WantedExamples(keys, offset, limit)), Solve(), changes=False)
        body = await service.control.run(encoded, page, format)
    return Response(body, 200, {"cache-control": "no-store"}, MEDIA[format])
