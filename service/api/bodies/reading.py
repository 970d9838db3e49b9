"""Request bodies: received by the event loop with limits of size, time and speed, and parsed in other threads.

The JSON parser itself limits the depth of nesting and the size of numbers. But its error report has a kilobyte of text
for each unknown name, and of two values with the same name it keeps only the last. To prevent huge error reports and
ignored values, this module limits the number of names in a body, and refuses repeated names.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from livesvm.service.api.edge.clients import PACE, client_of
from livesvm.service.api.requests import MOST_OLDEST, PredictRequest, UpdateRequest
from livesvm.service.errors import BodyTimeout, BodyTooLarge, InvalidRequest, MalformedBody, UnsupportedMedia, not_among
from livesvm.service.files import npz
from livesvm.service.files.malformed import Malformed
from livesvm.service.logs.calls import current, stage
from livesvm.service.models import arrays, commands
from livesvm.service.models.arrays import Key, Rows
from livesvm.service.models.fields import Request as RequestBody
from livesvm.service.models.fields import check_weights
from livesvm.service.models.table_rows import TableRows
from livesvm.service.resources.memory import Budget
from livesvm.service.resources.pools import Places
from livesvm.service.settings import Settings
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.change import Batch, Change, Edits
from livesvm.solvers.models.repeats import OnRepeat, checked

JSON = "application/json"
NPY = "application/x-npy"
NPZ = "application/x-npz"
MEDIA = {JSON: JSON, NPY: NPY, NPZ: NPZ, "application/zip": NPZ}

ROW_MEMBERS = frozenset({"X", *arrays.SPARSE})
ADD_MEMBERS = ROW_MEMBERS | {"y", "keys", "weights", "sample_weight", "times", "tags", "on_repeat"}
EDIT_MEMBERS = frozenset({"relabel_keys", "relabel_y", "reweight_keys", "reweight_weights", "decay", "C"})
UPDATE_MEMBERS = ADD_MEMBERS | EDIT_MEMBERS | {"remove_keys", "remove_oldest"}

COPIES = 2
"""Number of copies of a body in memory: its pieces, and the joined bytes."""
READING = 10
"""Bytes of memory for each unpacked byte of an array: one as sent, one unpacked, and eight as float64."""

STREAMED_PACE = 100_000.0
"""Smallest rate, in bytes a second, of a body that is streamed to disk; its total time has no limit."""
MOST_FIELDS = 256
"""Largest number of fields in a body, not counting fields of tables; a request needs about thirty."""
OF_TABLES = frozenset({b"rows", b"columns"})
"""Fields with objects that may have any names; the parser checks such names without listing each fault."""
BYTES_A_NUMBER = 96
"""Largest number of bytes for a number while it is parsed: in the parser, as a Python object, and as float64."""
BYTES_A_LETTER = 6
"""Bytes of memory for a byte of a string: in the parser, and in a Python string, where all characters are as wide."""
BYTES_AN_ITEM = 256
"""Bytes of memory for an array, an object or a string, in addition to its content."""

_STRING = rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"?(\s*+:)?'
_STRINGS = re.compile(_STRING, re.DOTALL)
_OF_OBJECTS = re.compile(_STRING + rb"|([{}])", re.DOTALL)

M = TypeVar("M", bound=RequestBody)
T = TypeVar("T")


@dataclass(frozen=True)
class Body:
    """The bytes of a request's body, their media type, and the limits of parsing them.

    Parameters
    ----------
    limit : bytes that arrays may have when unpacked
    budget : memory budget from which the memory for parsing is taken
    """

    data: bytes
    media: str
    limit: int
    budget: Budget

    def memory(self, size: int) -> AbstractContextManager[None]:
        """Reserve ``size`` bytes of memory for parsing in the ``with`` block; raises BodyTooLarge or MemoryBusy."""
        return self.budget.holding("bodies", size, COPIES * len(self.data))


async def read_body(request: Request, read: Mapping[str, str] = MEDIA) -> Body:
    """Receive the body of a request; its media type must be among the keys of ``read``.

    Raises BodyTooLarge, BodyTimeout, MalformedBody, UnsupportedMedia or QueueFull.
    """
    reception: BodyLimits = request.app.state.reception
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in read:
        raise UnsupportedMedia(f"the body is {media[:64] or 'of no media type'}; this service reads {', '.join(read)}")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMedia("the body is compressed; send it as it is")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > reception.largest:
        raise BodyTooLarge(f"the body has {declared} bytes, the limit is {reception.largest}")
    data = await reception.receive(request)
    stage("check")
    return Body(data, read[media], reception.largest, request.app.state.service.budget)


def parse_json(body: Body, schema: type[M]) -> M:
    """Parse a JSON body as an instance of ``schema``; raises MalformedBody, UnsupportedMedia or InvalidRequest."""
    if body.media != JSON:
        raise UnsupportedMedia(f"this call reads {JSON}")
    if schema.most_bytes is not None and len(body.data) > schema.most_bytes:
        raise BodyTooLarge(f"the body has {len(body.data)} bytes, the limit for this call is {schema.most_bytes}")
    written = few_names(body.data, schema.many)
    try:
        with body.memory(parsed_bytes(body.data)):
            read = schema.model_validate_json(body.data)
            refuse_repeated(body.data, written)
            return read
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        if faults[0]["type"] == "json_invalid":
            raise MalformedBody(faults[0]["msg"]) from None
        for fault in faults:
            if fault["type"] == "extra_forbidden" and (found := _schema_at(schema, fault["loc"][:-1])) is not None:
                inside = [f"{outer}.{name}" for outer in found.model_fields for name in _names_inside(found, outer)]
                fault["msg"] = not_among(str(fault["loc"][-1]), _names_of(found), inside)
        faults.sort(key=lambda fault: fault["type"] != "extra_forbidden")  # as it may be what else is missing
        raise InvalidRequest(faults) from None


def _schema_at(schema: type[BaseModel], place: tuple[int | str, ...]) -> type[BaseModel] | None:
    """Return the schema of the value at a path in the body; None if a value on the path has no single schema."""
    for name in place:
        field = schema.model_fields.get(str(name))
        kinds = () if field is None else (field.annotation, *get_args(field.annotation))
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if len(inner) != 1:
            return None
        schema = inner[0]
    return schema


def _names_inside(schema: type[BaseModel], name: str) -> list[str]:
    inner = _schema_at(schema, (name,))
    return [] if inner is None else _names_of(inner)


def _names_of(schema: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in schema.model_fields.items()]


def with_json(body: Body, use: Callable[[bytes], T]) -> T:
    """Reserve memory for parsing, call ``use`` with the bytes of a JSON body, and return the result of ``use``.

    Raises MalformedBody, UnsupportedMedia.
    """
    if body.media != JSON:
        raise UnsupportedMedia(f"this call reads {JSON}")
    with body.memory(parsed_bytes(body.data)):
        return use(body.data)


def may_ask_for_more(body: Body) -> bool:
    """Return whether a JSON body of rows contains the name of the field ``probability`` or ``coverage``."""
    return body.media == JSON and (b'"probability"' in body.data or b'"coverage"' in body.data)


def parse_predict_request(body: Body) -> PredictRequest:
    """Parse a JSON body with rows to predict and further fields of the request."""
    return parse_json(body, PredictRequest)


def parse_predict(body: Body) -> Rows | TableRows:
    """Parse rows to predict: JSON ``{"X": ..}`` or ``{"rows": ..}``, npy, or npz with ``X`` or with sparse rows."""
    if body.media == NPY:
        with body.memory(READING * len(body.data)), well_formed():
            return arrays.check_matrix(npz.npy_array(body.data, "X"))
    if body.media == NPZ:
        with unpacked(body, ROW_MEMBERS) as found:
            return arrays.npz_rows(found)
    X: Rows | TableRows = parse_json(body, PredictRequest).features
    return X


def parse_update(body: Body) -> Change:
    """Parse an update of a model from JSON, as in :class:`UpdateRequest`, or from npz with :data:`UPDATE_MEMBERS`."""
    if body.media == NPY:
        raise UnsupportedMedia(f"one npy array cannot hold an update; send {NPZ} with X and y")
    if body.media == NPZ:
        with unpacked(body, UPDATE_MEMBERS) as found:
            return _update_from(found)
    return parse_json(body, UpdateRequest).command()


@contextmanager
def unpacked(body: Body, allowed: frozenset[str]) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the arrays of an npz body, and reserve memory for them until the ``with`` block ends.

    Raises MalformedBody, BodyTooLarge, MemoryBusy, or InvalidInput for members that are not allowed.
    """
    with ExitStack() as held:
        with well_formed():
            npz.check_directory(body.data, allowed)
            with npz.opened(io.BytesIO(body.data), allowed) as (archive, members):
                size = sum(member.file_size for member in members.values())
                if size > body.limit:
                    raise BodyTooLarge(f"the arrays have more than {body.limit} bytes when unpacked")
                held.enter_context(body.memory(READING * size))
                found = {name: npz.unpacked(archive, member, name) for name, member in members.items()}
        yield found


@contextmanager
def well_formed() -> Iterator[None]:
    """Convert an error about a file's format, raised inside the ``with`` block, into MalformedBody."""
    try:
        yield
    except Malformed as error:
        raise MalformedBody(f"{'the body' if error.field == 'body' else error.field} {error.reason}") from error
    except UnicodeDecodeError as error:
        raise MalformedBody(f"the body is no text in UTF-8: {error}") from None


def _update_from(found: dict[str, NDArray[Any]]) -> Change:
    add = _batch_from(found) if found.keys() & ADD_MEMBERS else None
    edits = _edits_from(found) if found.keys() & EDIT_MEMBERS else None
    return Change(add, _removal_from(found), edits, _rule_from(found))


def _rule_from(found: dict[str, NDArray[Any]]) -> OnRepeat:
    rule = found.get("on_repeat", np.array("refuse"))
    return checked(str(rule.item() if rule.size == 1 else rule))


def _batch_from(found: dict[str, NDArray[Any]]) -> Batch | None:
    if "weights" in found and "sample_weight" in found:
        raise InvalidInput("is the same as weights; give one of them", field="sample_weight")
    weights = found.get("weights", found.get("sample_weight"))
    if "X" in found and found["X"].shape[:1] == (0,):
        columns = [found.get(name) for name in ("y", "keys")]
        return commands.batch_of(found["X"], *columns, weights, found.get("times"), found.get("tags"))
    return Batch(
        arrays.npz_rows(found),
        arrays.check_targets(found["y"], "y") if "y" in found else None,
        arrays.npy_keys(found["keys"], "keys", arrays.row_keys) if "keys" in found else None,
        None if weights is None else check_weights(arrays.check_vector(weights, "weights")),
        arrays.check_times(found["times"]) if "times" in found else None,
        arrays.npy_tags(found["tags"]) if "tags" in found else None,
    )


def _removal_from(found: dict[str, NDArray[Any]]) -> commands.Removal | None:
    if "remove_keys" in found and "remove_oldest" in found:
        raise InvalidInput("give one of remove_keys and remove_oldest", field="remove_oldest")
    if "remove_keys" in found:
        if not found["remove_keys"].size:
            return None
        return commands.Removal(keys=arrays.npy_keys(found["remove_keys"], "remove_keys"))
    if "remove_oldest" not in found:
        return None
    count = found["remove_oldest"]
    if count.size != 1 or count.dtype.kind not in "iu" or not 0 <= int(count.reshape(())) <= MOST_OLDEST:
        raise InvalidInput(f"must be one integer from 0 to {MOST_OLDEST}", field="remove_oldest")
    return commands.Removal(oldest=int(count.reshape(())))


def _edits_from(found: dict[str, NDArray[Any]]) -> Edits:
    return Edits(
        _by_key(found, "relabel_keys", "relabel_y", arrays.check_targets),
        _by_key(found, "reweight_keys", "reweight_weights"),
        _scalar(found, "decay", 1.0) if "decay" in found else 1.0,
        _scalar(found, "C", 1e8) if "C" in found else None,
    )


def _by_key(
    found: dict[str, NDArray[Any]],
    keys: str,
    values: str,
    check: Callable[[NDArray[Any], str], NDArray[Any]] = arrays.check_vector,
) -> dict[Key, Any]:
    if all(name not in found or not found[name].size for name in (keys, values)):
        return {}
    given = check(_member(found, values), values)
    if values == "reweight_weights":
        check_weights(given, values)
    return commands.paired(arrays.npy_keys(_member(found, keys), keys), given, values)


def _scalar(found: dict[str, NDArray[Any]], name: str, largest: float) -> float:
    """Return the number in the array ``name`` of an npz file; raises InvalidInput unless 0 < number <= ``largest``."""
    value = found[name]
    if value.size != 1 or value.dtype.kind not in "iuf" or not 0 < float(value.reshape(())) <= largest:
        raise InvalidInput(f"must be one number above 0 and at most {largest:g}", field=name)
    return float(value.reshape(()))


def _member(found: dict[str, NDArray[Any]], name: str) -> NDArray[Any]:
    if name not in found:
        raise InvalidInput("is missing from the file", field=name)
    return found[name]


def schema_content(schema: str, *binary: str) -> dict[str, Any]:
    """Return the OpenAPI description of a request body that is JSON of the named schema, or has a binary media type."""
    content: dict[str, Any] = {JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    content |= {media: {"schema": {"type": "string", "format": "binary"}} for media in binary}
    return {"requestBody": {"required": True, "content": content}}


class OpenObject(NamedTuple):
    """A JSON object that is being parsed: the name of the field that holds it, and the names already read inside it."""

    name: str
    names: set[str]


def parsed_bytes(data: bytes, of_field: int = 0) -> int:
    """Return a bound of the memory, in bytes, that parsing a JSON text needs; each value adds ``of_field`` bytes.

    Commas and brackets inside strings are counted too, as if they separated values.
    """
    is_plain = data.isascii() and b"\\u" not in data
    commas, items = data.count(b","), data.count(b"[") + data.count(b"{")
    text = (2 if is_plain else BYTES_A_LETTER) * len(data)
    return text + (BYTES_A_NUMBER + of_field) * (commas + items) + BYTES_AN_ITEM * (items + data.count(b'"') // 2)


def names(data: bytes) -> Iterator[bytes]:
    """Yield the field names in a JSON text, or in a malformed text, those before the fault; escapes stay as written."""
    return (found[1] for found in _STRINGS.finditer(data) if found[2])


def few_names(data: bytes, requests: int = 1) -> list[bytes]:
    """Return the field names in a JSON text, except the names of table columns inside ``rows`` and ``columns``.

    Raises
    ------
    InvalidInput : the text has more names than that number of ``requests`` needs
    """
    most, found, name = MOST_FIELDS * requests, list[bytes](), b""
    around: list[bytes] = []  # the names that the objects here stand under
    for text in _OF_OBJECTS.finditer(data):
        if text[3] == b"{":
            around.append(name)
        elif text[3] == b"}":
            name = around.pop() if around else b""
        elif text[2]:
            name = text[1]
            if around and around[-1] in OF_TABLES:
                continue
            found.append(name)
            if len(found) > most:
                raise InvalidInput(f"holds more than the {most} fields that any request needs", field="body")
    return found


def refuse_repeated(data: bytes, written: list[bytes]) -> None:
    """Raise InvalidInput if an object in a well-formed JSON text has two fields of the same name.

    ``written`` holds the field names that :func:`few_names` returned for this text.
    """
    # If all names of the text differ, and none is escaped, no object can have one twice.
    has_tables = not OF_TABLES.isdisjoint(written)
    if len(set(written)) == len(written) and b"\\" not in b"".join(written) and not has_tables:
        return
    objects: list[OpenObject] = []
    name = ""
    for found in _OF_OBJECTS.finditer(data):
        if found[3] == b"{":
            objects.append(OpenObject(name, set()))
        elif found[3] == b"}":
            name = objects.pop().name
        elif found[2]:
            name = json.loads(b'"' + found[1] + b'"') if b"\\" in found[1] else found[1].decode()
            if name in objects[-1].names:
                raise InvalidInput("stands twice", field=".".join([*(one.name for one in objects[1:]), name]))
            objects[-1].names.add(name)


class BodyLimits:
    """Receiver of request bodies, which enforces limits of size, time and speed; for use from one event loop.

    No worker thread waits for a body to arrive, so a slow client delays no other request. The bytes of a body are
    counted against the memory budget until its request is answered.
    """

    def __init__(self, settings: Settings, budget: Budget) -> None:
        self.largest, self._budget = settings.max_body_bytes, budget
        self._patience, self._seconds = settings.header_seconds, settings.body_seconds
        full = "too many bodies are on their way already; send this one again"
        self._held = Places(settings.max_bodies * self.largest, full, full)  # each byte takes a place

    async def receive(self, request: Request) -> bytes:
        """Receive a request's whole body; raises BodyTooLarge, BodyTimeout, MalformedBody, MemoryBusy or QueueFull."""
        client = client_of(request.client.host) if request.client else ""
        data, call = bytearray(), current()
        try:
            async for piece in self._pieces(request, PACE, self._seconds):
                if len(data) + len(piece) > self.largest:
                    raise BodyTooLarge(f"the body has more than {self.largest} bytes")
                if call is not None:
                    self._budget.take("bodies", COPIES * len(piece))
                    call.held += COPIES * len(piece)
                self._held.take(client, len(piece))
                data += piece
        finally:
            self._held.give(client, len(data))
        return bytes(data)

    def stream(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the pieces of a body as they arrive, and keep none in memory; raises BodyTimeout or MalformedBody."""
        return self._pieces(request, STREAMED_PACE)

    async def _pieces(self, request: Request, pace: float, seconds: float = inf) -> AsyncIterator[bytes]:
        """Yield the pieces of a body; raises BodyTimeout after ``seconds``, or earlier if the client is too slow."""
        loop = asyncio.get_running_loop()
        end, due = loop.time() + seconds, loop.time() + self._patience
        has_more = True
        while has_more:
            try:
                async with asyncio.timeout_at(min(end, due)):
                    message = await request.receive()
            except TimeoutError:
                whole = f"has {seconds:g} s, and " if seconds < inf else ""
                late = f"{whole}is cut off if it stands still for {self._patience:g} s or has fewer than {pace:g} bytes"
                raise BodyTimeout(f"the body did not arrive in time: it {late} a second") from None
            if message["type"] == "http.disconnect":
                raise MalformedBody("the client left before the body was whole")
            piece, has_more = message.get("body", b""), message.get("more_body", False)
            begun = loop.time()
            if piece:
                yield piece
            due += loop.time() - begun  # what is done with it, such as writing to a disk, is not the client's time
            due = min(loop.time() + self._patience, due + len(piece) / pace)
