"""Datasets: files of examples that models can be retrained on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Header, Path, Query, Request
from starlette.responses import Response

from livesvm.service.api.answers.datasets import Dataset, DatasetList
from livesvm.service.api.bodies.reading import BodyLimits
from livesvm.service.api.edge.clients import is_admitted
from livesvm.service.api.routes.access import Parts, response_of
from livesvm.service.api.routes.calls import Calls, answers, binary
from livesvm.service.datasets.catalogue import Upload, UploadFormat
from livesvm.service.datasets.parsing import Format
from livesvm.service.errors import BodyTooLarge, Unauthorized, UnsupportedMedia
from livesvm.service.models.fields import MODEL_ID, check_id
from livesvm.solvers.errors import InvalidInput

calls = Calls("datasets")

MEDIA: dict[str, Format] = {
    "application/x-npz": "npz",
    "application/zip": "npz",
    "text/x-svmlight": "svmlight",
    "text/csv": "csv",
    "application/vnd.apache.parquet": "parquet",
}
"""Format of a dataset for each media type."""
PIECE = 2**20
"""Number of bytes that are written at a time."""
DatasetName = Annotated[str, Path(json_schema_extra={"pattern": MODEL_ID, "maxLength": 64})]
ColumnName = Annotated[str | None, Query(min_length=1, max_length=64, description="Name of a column, or its number.")]


@calls("PUT /datasets/{name}", "learn", "Upload a dataset", body=binary(*MEDIA))
@answers(Dataset, "The dataset, which has replaced another one.")
@answers(Dataset, "The new dataset.", status=201)
async def put(
    name: DatasetName,
    request: Request,
    service: Parts,
    target: ColumnName = None,
    weights: ColumnName = None,
    key: ColumnName = None,
    sha256: Annotated[str | None, Header(alias="x-content-sha256", pattern="^[0-9A-Fa-f]{64}$")] = None,
) -> Response:
    """Store a dataset, whole or not at all; an earlier one of this name stays until the new one is complete.

    `npz`: `X` (n, d), `y` (n,), or, as SciPy's `save_npz` writes them, `data`, `indices`, `indptr` and `shape` of a CSR
    array, and `y`; `weights` and `keys`, if there are any. svmlight is sparse too. Tables, csv in UTF-8 and parquet:
    without `target`, the column `y` or the last has the targets; a first line of csv with numbers alone is an example,
    not a head. Rows and columns of a fault count from 0.

    `key` is the column, of text or whole numbers, that names each row's owner: an erasure of these keys in any model
    removes these rows. Keys are kept as salted hashes.
    """
    service.models()
    check_name(name)
    asked = UploadFormat(_format(request), target, weights, key)
    expected, largest = request.headers.get("content-length", "0"), service.settings.dataset_bytes
    if expected.isdigit() and int(expected) > largest:
        raise BodyTooLarge(f"the dataset has {expected} bytes, the limit is {largest} (LIVESVM_DATASET_BYTES)")
    with service.uploads.place():
        upload = await service.uploads.run(service.datasets.begin, name)
        try:
            await receive(request, service, upload)
            described, is_new = await service.uploads.run(service.datasets.finish, upload, name, asked, sha256)
        except BaseException:
            upload.discard()
            raise
    return response_of(_dataset(described), 201 if is_new else 200, {"location": f"/datasets/{name}"})


@calls("GET /datasets", "read", "List the datasets")
@answers(DatasetList, "Every dataset, by name.")
def list_all(service: Parts) -> Response:
    """List every dataset, by name."""
    service.models()
    return response_of(DatasetList(datasets=[_dataset(found) for found in service.datasets.all()]))


@calls("GET /datasets/{name}", "read", "Describe a dataset")
@answers(Dataset, "The dataset.")
def describe(name: DatasetName, service: Parts) -> Response:
    """Show one dataset."""
    service.models()
    return response_of(_dataset(service.datasets.get(name)))


@calls("DELETE /datasets/{name}", "learn", "Delete a dataset")
@answers(None, "The dataset is gone.", status=204)
def delete(name: DatasetName, service: Parts) -> Response:
    """Delete a dataset; a job that waits to use it will fail, but a job that uses it now goes on."""
    service.models()
    service.datasets.delete(name)
    return Response(status_code=204)


def check_name(name: str) -> None:
    """Raise InvalidInput unless a new dataset may have this name."""
    try:
        check_id(name)
    except ValueError as error:
        raise InvalidInput(str(error), field="name") from None


def _format(request: Request) -> Format:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in MEDIA:
        raise UnsupportedMedia(f"the body is {media[:64] or 'of no media type'}; this call reads {', '.join(MEDIA)}")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMedia("the body is compressed; send it as it is")
    return MEDIA[media]


async def receive(request: Request, service: Parts, upload: Upload) -> None:
    """Write the body to disk, a piece at a time."""
    reception: BodyLimits = request.app.state.reception
    piece = bytearray()
    async for chunk in reception.stream(request):
        if not is_admitted(request):
            raise Unauthorized("the API key of this upload was removed")
        piece += chunk
        if len(piece) >= PIECE:
            await service.uploads.run(upload.write, bytes(piece))
            piece.clear()
    await service.uploads.run(upload.write, bytes(piece))


def _dataset(described: dict[str, Any]) -> Dataset:
    created = datetime.fromtimestamp(described["created_at"], UTC)
    return Dataset.model_validate(described | {"created_at": created})
