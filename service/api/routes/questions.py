"""Calls that answer questions about a model; they work on a copy, so the model itself does not change."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Annotated, Any, Protocol, TypeVar

from fastapi import Depends, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from livesvm.service.api.answers.questions import DriftAnswer, ExplainAnswer, WhatIfAnswer
from livesvm.service.api.arrow import OF_ROWS, of_answer
from livesvm.service.api.bodies.reading import parse_json, read_body
from livesvm.service.api.bodies.rows import ARROW
from livesvm.service.api.predictions import BLOCK, of_rows
from livesvm.service.api.requests import WhatIfRequest
from livesvm.service.api.routes.access import ModelId, Parts, Within, awaited
from livesvm.service.api.routes.calls import Calls, answers
from livesvm.service.datasets.arrays import blocks
from livesvm.service.hosting.coverage import Covering, WantedCoverage, check, cover, memory_without_each
from livesvm.service.hosting.drift import COPIES, DriftQuestion, look_for_drift
from livesvm.service.hosting.explain import ExplainRequest, check_task, explain, memory_of_answer
from livesvm.service.hosting.handle import ModelHandle
from livesvm.service.hosting.what_if import memory_of_answer as memory_of_change
from livesvm.service.hosting.what_if import what_if
from livesvm.service.lifecycle.parts import Service
from livesvm.service.models.arrays import Rows
from livesvm.service.models.state import ModelCopy
from livesvm.service.models.table_rows import TableRows
from livesvm.service.resources.shared_threads import A_SECOND, Steps
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.solvers.errors import InvalidInput

calls = Calls("learning")

T = TypeVar("T")
C = TypeVar("C")


def _asked(
    false_alarms: Annotated[
        float | None,
        Query(gt=0, lt=1, description="Largest probability of an alarm where nothing has changed, in 5,000 examples."),
    ] = None,
    newest: Annotated[int | None, Query(ge=2, le=10**9, description="Number of examples that judge remedies.")] = None,
) -> DriftQuestion:
    return DriftQuestion(false_alarms, newest)


Asked = Annotated[DriftQuestion, Depends(_asked)]


class Copyable(Protocol[C]):
    """A model or a feed that can return a copy of itself."""

    def copy(self) -> Future[C]:
        """Return a future for a copy, which the writer makes when earlier commands are done."""


@calls("POST /models/{id}/what-if", "learn", "Ask what an update or an erasure would do", body=WhatIfRequest)
@answers(WhatIfAnswer, "What the model would be; it is as it was.")
async def weigh(id: ModelId, request: Request, service: Parts, solve: Within) -> Response:
    """Try an update or an erasure on a copy of a model, and return how the model and its predictions would change.

    The body is that of an update, or has the keys or tags to `erase`. With rows `X`, the answer has predictions for
    these rows before and after the change. The model itself is not changed, and nothing is logged. Only the copying
    occupies the model's writer; after that, updates of the model continue.
    """
    body = await read_body(request)
    with service.questions.place():
        asked = (await service.workers.run(parse_json, body, WhatIfRequest)).question()
        with service.budget.holding("updates", asked.memory()):

            def weighed(copy: ModelCopy) -> bytes:
                """Reserve memory for the answer, compute it, and return it."""
                with service.budget.holding("predictions", memory_of_change(copy, asked)):
                    return to_json(what_if(copy, asked, service.settings))

            reported = await _worked_out(id, request, service, solve, weighed)
    return Response(reported, media_type="application/json")


@calls(
    "POST /models/{id}/explain",
    "learn",
    "Ask why rows are decided as they are, and what examples are worth",
    body=ExplainRequest,
)
@answers(ExplainAnswer, "The examples that matter most.")
async def tell_why(id: ModelId, request: Request, service: Parts, solve: Within) -> Response:
    """List for each row the examples of the window with the largest influence on the row's decision value.

    The influence of an example is the row's decision value minus the row's decision value by a model trained without
    this example. The influence is computed exactly, by unlearning the example on a copy. If the request has targets
    `y`, the answer has the value of each example instead: how much the mean loss over the rows would grow if the model
    were trained without the example. The examples with the smallest values, which are the most harmful, come first.
    """
    body = await read_body(request)
    with service.questions.place():
        asked = await service.workers.run(parse_json, body, ExplainRequest)
        check_task(service.models().get(id).spec)
        with service.budget.holding("updates", asked.features.nbytes):

            def explained(copy: ModelCopy) -> bytes:
                """Reserve memory for the answer, compute it, and return it."""
                with service.budget.holding("predictions", memory_of_answer(copy, asked)):
                    return to_json(explain(copy, asked, service.settings))

            reported = await _worked_out(id, request, service, solve, explained, memory_without_each)
    return Response(reported, media_type="application/json")


@calls("GET /models/{id}/drift", "learn", "Ask whether the window has changed, and what would help")
@answers(DriftAnswer, "What has changed, and remedies.")
async def tell_drift(id: ModelId, request: Request, service: Parts, solve: Within, asked: Asked) -> Response:
    """Test a model's window for drift by exact leave-one-out decisions, with a known rate of false alarms.

    The call also tries two kinds of remedies, a window of only the newest examples and another C, and returns the error
    that each would have had on the newest examples. `remedy` is the best remedy, or null if no remedy is significantly
    better than the present model. `remedy.update` is the body of the update that applies this remedy.
    """
    live = service.models().get(id)
    with service.questions.place():
        reported = await _worked_out(
            id,
            request,
            service,
            solve,
            lambda copy: to_json(look_for_drift(copy, asked)),
            lambda copy: COPIES * live.describe().memory,
        )
    return Response(reported, media_type="application/json")


async def covered(
    id: str, request: Request, service: Service, rows: Rows | TableRows, wanted: WantedCoverage, media: str
) -> Response:
    """Return an interval or a set of classes for each row; the first such call for a version calibrates it."""
    live = service.models().get(id)
    check(live.spec, wanted)
    found = service.coverings.get(id, live.published)
    if found is None:
        with service.questions.place():
            found = await _worked_out(id, request, service, Solve(), cover, memory_without_each)
        service.coverings.keep(id, found)
    X = found.seen.checked(live.spec, rows, service.settings.max_predict_rows)
    steps = _decided(live, found, X, wanted, service, of_answer if media == ARROW else to_json)
    answer = await service.readers.run_steps(steps, request.is_disconnected)
    service.metrics.predictions.labels(live.spec.task).inc(len(X))
    live.recent.note_predicted(len(X))
    return Response(answer, media_type=media)


def _decided(
    live: ModelHandle,
    covering: Covering,
    X: Rows,
    wanted: WantedCoverage,
    service: Service,
    written: Callable[[dict[str, Any]], bytes],
) -> Steps[bytes]:
    """Compute the answer for rows in blocks; raises InvalidInput for more rows than the time limit allows.

    The answer for one row takes as long as the plain prediction of hundreds of rows. Other calls can run between two
    blocks of rows.
    """
    work, seconds = covering.work(X), service.settings.solve_seconds
    most = max(1, int(seconds * A_SECOND / work))
    if len(X) > most:
        limit = f"of this model {most} can be decided with a coverage in {seconds:g} s (LIVESVM_SOLVE_SECONDS)"
        raise InvalidInput(f"has {len(X)} rows; {limit}: send at most so many in a call", field="X")
    with service.budget.holding("predictions", covering.memory(X)):
        reported: dict[str, Any] = {}
        for rows in blocks(len(X), int(BLOCK / work)):
            if rows.start:
                yield (rows.stop - rows.start) * work
            with of_rows(rows):
                found = covering.answer(live.spec, X[rows], wanted)
            for name in OF_ROWS:
                if name in reported:
                    reported[name] += found[name]
            reported = found | reported
        return written(reported | {"stale": live.stale})


async def _worked_out(
    id: str,
    request: Request,
    service: Service,
    solve: Solve,
    answer: Callable[[ModelCopy], T],
    more: Callable[[ModelCopy], int] = lambda copy: 0,
) -> T:
    """Return the result of ``answer`` for a copy of a model; ``more`` returns the memory that ``answer`` needs."""
    live = service.models().get(id)
    return await worked_out(live, request, service, solve, answer, lambda copy: live.describe().memory + more(copy))


async def worked_out(
    live: Copyable[C],
    request: Request,
    service: Service,
    solve: Solve,
    answer: Callable[[C], T],
    memory: Callable[[C], int],
) -> T:
    """Call ``answer`` with a copy of a model or feed when a solve may begin, and return its result.

    ``memory`` returns how many bytes the copy and ``answer`` need, and these are reserved. Raises OutOfMemory if the
    memory for the copy and the answer is not available.
    """
    solve.seconds = min(solve.seconds, service.settings.solve_seconds)
    copy = await awaited(request, live.copy(), solve, changes=False)

    def work() -> T:
        """Compute the answer as soon as a solve may begin."""
        with service.budget.holding("jobs", memory(copy)), service.turns.turn(solve):
            return answer(copy)

    return await awaited(request, service.questions.begin(work), solve, changes=False)
