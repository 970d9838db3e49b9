"""Calls for datasets, which are uploaded files of examples that models can be retrained on."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Header, Path, Query, Request
from pydantic import AfterValidator
from starlette.responses import Response

from livesvm.service.api.answers.datasets import Dataset, DatasetList
from livesvm.service.api.bodies.reading import BodyLimits
from livesvm.service.api.edge.clients import is_admitted
from livesvm.service.api.routes.access import Parts, Ready, response_of
from livesvm.service.api.routes.calls import Calls, answers, binary
from livesvm.service.datasets.catalogue import Upload, UploadFormat
from livesvm.service.datasets.parsing import Format
from livesvm.service.errors import BodyTooLarge, Unauthorized, UnsupportedMedia
from livesvm.service.models.fields import MODEL_ID, check_id
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.tables import columns as columns_of

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


def _one(text: str | None) -> str | None:
    return text if text is None else _MARKS.get(text, text)


_MARKS = {"tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "bar": "|"}
Text = Annotated[str | None, Query(max_length=256)]
Separator = Annotated[str | None, AfterValidator(_one), Query(pattern=f"^(.|{'|'.join(_MARKS)})$")]
Decimal = Annotated[str | None, Query(pattern="^[.,]$")]
Skip = Annotated[int | None, Query(ge=0)]


@calls("PUT /datasets/{name}", "learn", "Upload a dataset", body=binary(*MEDIA))
@answers(Dataset, "The dataset, which has replaced another one.")
@answers(Dataset, "The new dataset.", status=201)
async def put(
    name: DatasetName,
    request: Request,
    service: Ready,
    target: ColumnName = None,
    weights: ColumnName = None,
    key: ColumnName = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Text = None,
    skip: Skip = None,
    header: bool | None = None,
    columns: Annotated[str | None, Query(max_length=2**16, description="Keep a table: `auto`, or JSON.")] = None,
    sha256: Annotated[str | None, Header(alias="x-content-sha256", pattern="^[0-9A-Fa-f]{64}$")] = None,
) -> Response:
    """Store a dataset completely or not at all; an earlier dataset of this name is kept until the new one is complete.

    An `npz` file has the arrays `X` (n, d) and `y` (n,), and may have `weights` and `keys`. In place of `X`, an `npz`
    file may have the arrays `data`, `indices`, `indptr` and `shape` of a CSR array, as SciPy's `save_npz` writes them.
    A dataset in svmlight format is stored as a sparse array. In a table, which is csv or parquet, the parameter
    `target` names the column of targets. Without this parameter, the targets are in the column `y`, or in the last
    column if no column is named `y`. A csv file may have any separator, encoding, decimal mark and lines before its
    header. The service infers these in the same way as `POST /inspect`, unless parameters give them; `understood` in
    the answer says how the file was read. In a problem document, rows and columns are counted from 0, without the
    header.

    With the parameter `columns`, a table may hold words, times and missing cells, and models of task `l2svc` that have
    `columns` can learn from the table. The parameter is a JSON list as in the `columns` of a model, or `auto`, with
    which the first rows decide the kind of each column. A later cell that is not of its column's kind is refused with
    its row and the name of the column.

    The parameter `key` names a column of text or whole numbers that identifies the owner of each row. If examples with
    the key of a row are erased from any model, the dataset's rows with this key are removed. The dataset stores only
    salted hashes of the keys.
    """
    check_name(name)
    options = {"separator": separator, "decimal": decimal, "encoding": encoding, "skip": skip, "header": header}
    options = {option: value for option, value in options.items() if value is not None}
    asked = UploadFormat(_format(request), target, weights, key, options, _columns(columns))
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
def list_all(service: Ready) -> Response:
    """List all datasets, sorted by name."""
    return response_of(DatasetList(datasets=[_dataset(found) for found in service.datasets.all()]))


@calls("GET /datasets/{name}", "read", "Describe a dataset")
@answers(Dataset, "The dataset.")
def describe(name: DatasetName, service: Ready) -> Response:
    """Describe one dataset."""
    return response_of(_dataset(service.datasets.get(name)))


@calls("DELETE /datasets/{name}", "learn", "Delete a dataset")
@answers(None, "The dataset is gone.", status=204)
def delete(name: DatasetName, service: Ready) -> Response:
    """Delete a dataset. A queued job that needs the dataset will fail, but a job that already uses it continues."""
    service.datasets.delete(name)
    return Response(status_code=204)


def _columns(text: str | None) -> Any:
    """Return the columns that a query gives: "auto", or a mapping for each column; raises InvalidInput."""
    if text is None or text == "auto":
        return text
    try:
        columns = json.loads(text)
    except ValueError:
        raise InvalidInput("must be auto, or a JSON list", field="columns") from None
    return columns_of.given(columns).documents()


def check_name(name: str) -> None:
    """Raise InvalidInput if a new dataset cannot have this name."""
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
    """Write the body of the request to the disk, piece by piece."""
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
