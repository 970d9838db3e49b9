"""Calls of the Open Inference Protocol (V2), for clients of servers such as KServe and Triton."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request
from starlette.responses import Response

from livesvm.service.api.answers.v2 import (
    InferAnswer,
    ModelMetadata,
    ModelReady,
    ServerLive,
    ServerMetadata,
    ServerReady,
    TensorMetadata,
)
from livesvm.service.api.bodies.infer import BINARY, HEAD_LENGTH, Asked, InferRequest, parse_infer, read_infer
from livesvm.service.api.predictions import Calibrated, answering, at_once, is_quick, is_short
from livesvm.service.api.routes.access import ModelId, Parts, response_of, up_to_date
from livesvm.service.api.routes.calls import Calls, answers
from livesvm.service.api.routes.operations import VERSION
from livesvm.service.api.routes.predict import calibrated
from livesvm.service.api.tensors import OF_KINDS, TensorForm, check_outputs, check_version, outputs_of
from livesvm.service.errors import NotReady
from livesvm.service.hosting.handle import Reader
from livesvm.service.lifecycle.parts import Service
from livesvm.solvers.errors import InvalidInput

calls = Calls("open inference protocol")

Version = Annotated[str, Path(max_length=24, description="The current version; no other one answers.")]


@calls("GET /v2", "read", "Describe the service to V2 clients")
@answers(ServerMetadata, "Its version, and what it has of the protocol.")
async def server() -> ServerMetadata:
    """Return the service's name and version, and the extensions of the protocol that it supports."""
    return ServerMetadata(name="livesvm", version=VERSION, extensions=["binary_tensor_data"])


@calls("GET /v2/health/live", None, "Is the process alive? (V2)")
@answers(ServerLive, "It is.")
async def live() -> ServerLive:
    """Answer that the process is alive, as `/health/live` does."""
    return ServerLive(live=True)


@calls("GET /v2/health/ready", None, "Can it do its work? (V2)")
@answers(ServerReady, "It can.")
async def ready(service: Parts) -> ServerReady:
    """Answer whether the service can make predictions, as `/health/serving` does."""
    if reasons := service.health.unserving():
        raise NotReady(reasons)
    return ServerReady(ready=True)


@calls("GET /v2/models/{id}", "read", "Describe a model to V2 clients")
@answers(ModelMetadata, "Its current version, its input and its outputs.")
async def metadata(id: ModelId, service: Parts) -> Response:
    """Return a model's inputs and outputs, with datatypes and shapes; -1 is any number of rows, or an unknown number.

    A model with columns has an input for each column, as soon as it knows its columns.

    With more than two classes, the output `decision` has a column for each of the `classes`, or for each pair of
    classes. A model that was created with `probability` also has an output `probability`.
    """
    return await _metadata(id, service)


@calls("GET /v2/models/{id}/versions/{version}", "read", "Describe a version to V2 clients")
@answers(ModelMetadata, "The same, if that version is the current one.")
async def version_metadata(id: ModelId, version: Version, service: Parts) -> Response:
    """Return the inputs and outputs of a model's current version, which the path must name."""
    return await _metadata(id, service, version)


@calls("GET /v2/models/{id}/ready", "read", "Can a model predict? (V2)")
@answers(ModelReady, "It can.")
async def model_ready(id: ModelId, service: Parts) -> Response:
    """Answer that a model is served and can predict; if it cannot, the problem document says why."""
    return await _ready(id, service)


@calls("GET /v2/models/{id}/versions/{version}/ready", "read", "Can a version predict? (V2)")
@answers(ModelReady, "It can, and is the current one.")
async def version_ready(id: ModelId, version: Version, service: Parts) -> Response:
    """Answer that a version is the model's current version and can predict; otherwise the problem says why not."""
    return await _ready(id, service, version)


_inferred = answers(InferAnswer, "Outputs, and the version that answered.", other=[BINARY])


@calls("POST /v2/models/{id}/infer", "read", "Predict (V2)", body=InferRequest, media=[BINARY], is_quick=True)
@_inferred
async def infer(id: ModelId, request: Request, service: Parts) -> Response:
    """Predict rows with the newest version; the input is a tensor of rows, or a tensor for each column.

    Tensors are part of the JSON, or follow the JSON in binary. If they follow it, the header
    `Inference-Header-Content-Length` is the length of the JSON. If the request does not name `outputs`, the answer has
    all outputs. After an update, the first call for `probability` waits until the new version is calibrated.
    """
    return await _infer(id, request, service)


@calls(
    "POST /v2/models/{id}/versions/{version}/infer",
    "read",
    "Predict by a version (V2)",
    body=InferRequest,
    media=[BINARY],
)
@_inferred
async def infer_by_version(id: ModelId, version: Version, request: Request, service: Parts) -> Response:
    """Predict rows with the current version, which the path must name; other versions are refused."""
    return await _infer(id, request, service, version)


async def _metadata(id: str, service: Service, version: str | None = None) -> Response:
    model = service.models().find(id)
    await up_to_date(model)
    spec, now = model.spec, model.describe()
    seen = now.published(spec)
    check_version(id, version, seen.version)
    if spec.columns is None:
        inputs = [TensorMetadata(name="X", datatype="FP64", shape=[-1, seen.n_features or spec.n_features or -1])]
    else:
        columns = now.parameters.get("columns") or spec.columns
        inputs = [
            TensorMetadata(name=one["name"], datatype=OF_KINDS[one.get("kind", "number")], shape=[-1])
            for one in ([] if columns == "auto" else columns)
        ]
    outputs = outputs_of(spec, seen)
    platform = f"livesvm_{spec.task}"
    return response_of(
        ModelMetadata(name=id, versions=[str(seen.version)], platform=platform, inputs=inputs, outputs=outputs)
    )


async def _ready(id: str, service: Service, version: str | None = None) -> Response:
    service.models().readable(id)
    model = service.models().find(id)
    await up_to_date(model)
    now = model.describe()
    check_version(id, version, now.version)
    if not now.can_predict and now.state != "held":  # a copy here reads that one
        now.published(model.spec).check_known(model.spec)
    return response_of(ModelReady(name=id, ready=True))


async def _infer(id: str, request: Request, service: Service, version: str | None = None) -> Response:
    live = service.models().readable(id)
    body = await read_infer(request)
    head_length, has_columns = request.headers.get(HEAD_LENGTH), live.spec.columns is not None
    with service.readers.place():
        if is_short(body):
            asked = parse_infer(body, head_length, has_columns)
        else:
            asked = await service.workers.run(parse_infer, body, head_length, has_columns)
        del body
        try:
            head, binary = await _answered(live, asked, request, service, version)
        except InvalidInput as error:
            if error.field not in ("X", "rows"):
                raise
            tensor = error.name if isinstance(error.name, str) else asked.tensor
            raise InvalidInput(error.reason, field=tensor, row=error.row, column=error.column) from None
    headers = {} if live.age is None else {"livesvm-age": f"{live.age:.3f}"}
    if binary is None:
        return Response(head, 200, headers, "application/json")
    return Response(head + binary, 200, headers | {HEAD_LENGTH: str(len(head))}, BINARY)


async def _answered(
    live: Reader, asked: Asked, request: Request, service: Service, version: str | None
) -> tuple[bytes, bytes | None]:
    """Return the JSON of an answer, and the binary outputs that follow the JSON."""
    check_outputs(live, asked)
    seen = None
    if asked.has("probability", bool(live.spec.probability)):
        seen = Calibrated(await calibrated(service.models().get(live.id), request))
    limit = service.settings.max_predict_rows
    steps = answering(
        live,
        asked.X,
        limit,
        service.budget,
        service.metrics,
        lambda published: TensorForm(live.id, asked, version, published),
        seen,
    )
    if is_quick(live, asked.X):
        return await at_once(steps)
    return await service.readers.run_steps(steps, request.is_disconnected)
