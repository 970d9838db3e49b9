"""The call that tells how the service reads a file, and converts its rows for feeds and models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from livesvm.service.api.answers.files import InspectedFile
from livesvm.service.api.routes.access import Parts, response_of
from livesvm.service.api.routes.calls import Calls, answers, binary
from livesvm.service.api.routes.datasets import Decimal, Separator, Skip, Text, receive
from livesvm.service.errors import BodyTooLarge
from livesvm.solvers.errors import InvalidInput

calls = Calls("files")
WORK = "livesvm.service.feeds.file_report:work"
CSV = "text/csv"
Name = Annotated[str, Query(max_length=255, description="Of the file, by which its format may be known.")]


@calls("POST /inspect", "learn", "Understand a file", body=binary("application/octet-stream"))
@answers(InspectedFile, "What was understood, with the first rows.", other=(CSV,))
async def inspect(
    request: Request,
    service: Parts,
    name: Name = "file",
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Text = None,
    skip: Skip = None,
    header: bool | None = None,
    time: Text = None,
    time_format: Text = None,
    zone: Text = None,
    missing: Annotated[list[str] | None, Query(max_length=32)] = None,
    series: Text = None,
    wide: bool = False,
    align: Text = None,
    member: Text = None,
    examples: Annotated[bool, Query(description="Whether rows are examples for a model, not readings.")] = False,
) -> Response:
    """Tell how a file is read, as the command `livesvm inspect` does. The file is not stored.

    Parameters that the call does not set are inferred from the file. If a file can be read in two ways, the problem
    document names the parameter that decides. With `Accept: text/csv` the answer has all rows in the form that feeds,
    fleets and models accept: times in ISO 8601, numbers with a decimal point.
    """
    given: dict[str, Any] = {
        "separator": separator,
        "decimal": decimal,
        "encoding": encoding,
        "skip": skip,
        "header": header,
        "time": time,
        "time_format": time_format,
        "zone": zone,
        "missing": missing or [],
        "series": series,
        "wide": wide,
        "align": align,
        "member": member,
    }
    largest, length = service.settings.dataset_bytes, request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > largest:
        raise BodyTooLarge(f"the file has {length} bytes, the limit is {largest} (LIVESVM_DATASET_BYTES)")
    with service.uploads.place():
        upload = await service.uploads.run(service.datasets.passing)
        try:
            await receive(request, service, upload)
            file = await service.uploads.run(_placed, upload.directory, upload, name)
            sent = file.with_name("sent.csv.rows") if CSV in request.headers.get("accept", "") else None
            asked = {"file": str(file), "name": name, "options": given, "of_examples": examples}
            asked["sent"] = None if sent is None else str(sent)
            found = await service.uploads.run(service.datasets.worked, WORK, asked)
            if sent is not None:
                return Response(await service.uploads.run(sent.read_bytes), media_type=CSV)
        finally:
            await service.uploads.run(upload.discard)
    return response_of(InspectedFile.model_validate(found))


def _placed(directory: Path, upload: Any, name: str) -> Path:
    """Rename an uploaded file so that it has the extension of ``name``; raises InvalidInput if the file is empty."""
    upload.received(None)
    if not upload.size:
        raise InvalidInput("is empty", field="body")
    ending = re.search(r"\.[A-Za-z0-9]{1,8}$", name)
    return Path(upload.path.rename(directory / f"file{ending[0].lower() if ending else ''}"))
