"""What can go wrong, by name, and the one table that says how HTTP tells it (RFC 9457 problem documents)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from livesvm.service.store.base import (
    Fenced,
    LeaseHeld,
    ModelExists,
    StoreBehind,
    StoreDamaged,
    StoreError,
    StoreUnavailable,
)
from livesvm.solvers.errors import (
    DuplicateKey,
    InvalidInput,
    MemoryLimit,
    NotOptimal,
    NotPositiveSemidefinite,
    UnknownKey,
)

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:livesvm:problem:"
NO_PART_OF_FIELDS = (["add"], ["header"], ["path"], ["query"])
"""How the place of a fault may begin without its field saying so."""
MOST_FAULTS = 20
"""Faults that one problem document lists."""
LONGEST_NAME = 64
"""Characters of a caller's field name that are told back."""
LONGEST_TEXT = 1000
"""Characters of any other text in a problem document."""


class ServiceError(Exception):
    """Base of what the service raises on purpose; the message is for the caller."""


class UnknownModel(ServiceError):
    """No model has that id."""


class TooManyModels(ServiceError):
    """The quota of models is used up."""


class EmptyModel(ServiceError):
    """The model knows no example yet and cannot answer."""


class ModelUnavailable(ServiceError):
    """The model could not be restored or is being deleted."""


class NotReady(ServiceError):
    """The service cannot do its work now, for one or more reasons."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class WritebackRefused(ServiceError):
    """What the store has of the model is not for this service to replace."""


class NotSolved(ServiceError):
    """A solve was ended before it had reached its optimum; the model is as it was."""


class OutOfTime(NotSolved):
    """A solve had its time."""


class Withdrawn(NotSolved):
    """Nobody wants the result of a solve any more."""


class CutOff(NotSolved):
    """The service stopped before it could answer."""


class TurnMissed(NotSolved):
    """The time that the caller gave was over before the command's turn came."""


class Restoring(ServiceError):
    """The model is still being brought back."""


class QueueFull(ServiceError):
    """Too many calls wait already."""


class UnknownJob(ServiceError):
    """No job has that id."""


class JobNotDone(ServiceError):
    """The job has no result, or none yet."""


class JobInterrupted(ServiceError):
    """The service ended while the job was under way."""


class NotApplicable(ServiceError):
    """The result of this kind of job cannot be applied to a model."""


class NoPlot(ServiceError):
    """There is no picture of the results of this kind of job."""


class IdempotencyConflict(ServiceError):
    """An Idempotency-Key came back with another request."""


class TooManyConnections(ServiceError):
    """No connection rests that could be closed for another one."""


class HeadTimeout(ServiceError):
    """The head of the request did not arrive in time."""


class HeadTooLarge(ServiceError):
    """The head of the request is larger than any that is needed."""


class MalformedRequest(ServiceError):
    """What came is no HTTP request."""


class WrongHost(ServiceError):
    """The request is for another host."""


class CrossSite(ServiceError):
    """A page of another site asks for a change."""


class BodyTooLarge(ServiceError):
    """The request body is larger than the limit."""


class MemoryBusy(ServiceError):
    """The memory that the call needs is held by others now."""


class OutOfMemory(ServiceError):
    """What is to be kept does not fit into the memory budget."""


class BodyTimeout(ServiceError):
    """The request body did not arrive in time."""


class MalformedBody(ServiceError):
    """The request body is not what its media type says."""


class UnsupportedMedia(ServiceError):
    """The request body has a media type or an encoding that this call does not read."""


class InvalidRequest(ServiceError):
    """Parts of the request are not what they should be.

    Parameters
    ----------
    entries : the faults, as pydantic lists them
    """

    def __init__(self, entries: Sequence[Any]) -> None:
        super().__init__(f"{len(entries)} faults")
        self.entries = entries


class Unauthorized(ServiceError):
    """No valid API key came with the request."""


class Forbidden(ServiceError):
    """The API key may not do this."""


@dataclass(frozen=True)
class Kind:
    """How HTTP tells one error: its status, the stable end of its ``type``, its title."""

    status: int
    slug: str
    title: str
    retry_after: int | None = None


INTERNAL = Kind(500, "internal", "The service failed")
INVALID = Kind(422, "invalid-input", "The request cannot be used")

KINDS: dict[type[Exception], Kind] = {
    InvalidInput: INVALID,
    ValidationError: INVALID,
    InvalidRequest: INVALID,
    DuplicateKey: Kind(422, "duplicate-key", "A key is there already"),
    UnknownKey: Kind(422, "unknown-key", "A key is not there"),
    NotPositiveSemidefinite: Kind(422, "not-positive-semidefinite", "The kernel is not positive semi-definite"),
    NotOptimal: Kind(422, "not-optimal", "No certified optimum was reached; nothing was changed"),
    MemoryLimit: Kind(422, "memory-limit", "The update does not fit into LIVESVM_CACHE_MB; nothing was changed"),
    UnknownModel: Kind(404, "unknown-model", "There is no such model"),
    UnknownJob: Kind(404, "unknown-job", "There is no such job"),
    JobNotDone: Kind(409, "job-not-done", "The job has no result"),
    JobInterrupted: Kind(503, "interrupted", "The job was cut off; ask for it again"),
    NotApplicable: Kind(409, "not-applicable", "The result cannot be applied"),
    NoPlot: Kind(404, "no-plot", "There is no plot of this"),
    ModelExists: Kind(409, "model-exists", "A model of that id exists"),
    EmptyModel: Kind(409, "empty-model", "The model knows no example yet"),
    IdempotencyConflict: Kind(409, "idempotency-conflict", "The Idempotency-Key was used for another request"),
    WritebackRefused: Kind(409, "writeback-refused", "The store's model is not replaced"),
    TooManyModels: Kind(409, "too-many-models", "The quota of models is used up"),
    HeadTimeout: Kind(408, "head-timeout", "The head of the request did not arrive in time"),
    HeadTooLarge: Kind(431, "head-too-large", "The head of the request is too large"),
    MalformedRequest: Kind(400, "malformed-request", "The request cannot be read"),
    WrongHost: Kind(421, "wrong-host", "The request is for another host"),
    CrossSite: Kind(403, "cross-site", "Another site may not do this"),
    TooManyConnections: Kind(429, "too-many-connections", "Too many connections are open", retry_after=1),
    BodyTimeout: Kind(408, "body-timeout", "The body did not arrive in time"),
    BodyTooLarge: Kind(413, "body-too-large", "The body is too large"),
    UnsupportedMedia: Kind(415, "unsupported-media-type", "The media type is not read here"),
    MalformedBody: Kind(400, "malformed-body", "The body cannot be read"),
    QueueFull: Kind(429, "too-busy", "Too many calls wait", retry_after=1),
    MemoryBusy: Kind(429, "memory-busy", "The memory that this needs is in use", retry_after=1),
    OutOfMemory: Kind(507, "out-of-memory", "It does not fit into LIVESVM_MEMORY_MB; nothing was changed"),
    Unauthorized: Kind(401, "unauthorized", "A valid API key is needed"),
    Forbidden: Kind(403, "forbidden", "The API key may not do this"),
    NotReady: Kind(503, "not-ready", "The service is not ready", retry_after=1),
    OutOfTime: Kind(422, "time-limit", "No optimum was reached in the time allowed; nothing was changed"),
    Withdrawn: Kind(499, "withdrawn", "Nobody waits for the answer any more"),
    TurnMissed: Kind(503, "turn-missed", "Its turn did not come in time; nothing was changed", retry_after=1),
    Restoring: Kind(503, "restoring", "The model is being restored", retry_after=1),
    CutOff: Kind(503, "cut-off", "The service stopped before it could answer; ask again", retry_after=1),
    ModelUnavailable: Kind(503, "model-unavailable", "The model is not available", retry_after=10),
    StoreUnavailable: Kind(503, "store-unavailable", "The store is not available", retry_after=1),
    StoreError: Kind(503, "store-refused", "The store did not take it", retry_after=1),
    StoreBehind: Kind(503, "store-behind", "The store has lost updates; the model is read-only", retry_after=60),
    LeaseHeld: Kind(503, "model-unavailable", "The model is not available", retry_after=5),
    StoreDamaged: Kind(503, "store-damaged", "The store is damaged", retry_after=60),
    Fenced: Kind(503, "fenced", "Another writer has taken the model over", retry_after=10),
}
"""The table. An error that is not in it, nor any base of it, is the service's own failure."""


def kind_of(error: Exception) -> Kind:
    """The entry of the error's class or of its nearest base."""
    return next((KINDS[base] for base in type(error).__mro__ if base in KINDS), INTERNAL)


def problem(error: Exception) -> dict[str, Any]:
    """The problem document of an error; positions count from 0."""
    if isinstance(error, ValidationError):
        return _told_of(error.errors(include_url=False, include_input=False))
    if isinstance(error, InvalidRequest):
        return _told_of(error.entries)
    kind = kind_of(error)
    document = _head(kind)
    if kind is INTERNAL:
        return document | {"detail": "The service failed; its log says more."}
    reasons = {"reasons": list(error.reasons)} if isinstance(error, NotReady) else {}
    return document | {"detail": cut(str(error))} | reasons | _position(error)


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text, or its beginning and that there was more: no answer grows with what a caller names or sends."""
    return text if len(text) <= longest else text[:longest] + "..."


def _head(kind: Kind) -> dict[str, Any]:
    return {"type": TYPE_PREFIX + kind.slug, "title": kind.title, "status": kind.status}


def _told_of(entries: Sequence[Any]) -> dict[str, Any]:
    """The document of what validation found, of the kind of its first fault."""
    cause = entries[0].get("ctx", {}).get("error")
    return _head(kind_of(cause) if isinstance(cause, InvalidInput) else INVALID) | _faults(entries)


def _position(error: object) -> dict[str, Any]:
    if not isinstance(error, InvalidInput):
        return {}
    field = None if error.field is None else cut(error.field, 2 * LONGEST_NAME)
    found = {"field": field, "row": error.row, "column": error.column, "reason": cut(error.reason)}
    return {name: value for name, value in found.items() if value is not None}


def _faults(entries: Sequence[Any]) -> dict[str, Any]:
    """The faults that validation found; the first one's position stands at the top too."""
    faults = [_fault(entry) for entry in entries[:MOST_FAULTS]]
    first = faults[0]
    more = f" (and {len(entries) - 1} more)" if len(entries) > 1 else ""
    return first | {"detail": f"{first['pointer']}: {first['reason']}{more}", "errors": faults}


def _fault(entry: Any) -> dict[str, Any]:
    """One of pydantic's errors as ``{"field", "row"?, "column"?, "pointer", "reason"}``.

    The field is the way to it, with dots; of the examples to add its name alone, as elsewhere.
    """
    place = [cut(part, LONGEST_NAME) if isinstance(part, str) else part for part in entry["loc"]]
    cause = entry.get("ctx", {}).get("error")
    fault: dict[str, Any] = {"reason": cut(str(cause) if type(cause) is ValueError else entry["msg"])}
    if isinstance(cause, InvalidInput):
        fault |= (position := _position(cause))
        place += [position["field"]] if cause.field is not None and position["field"] not in place[-1:] else []
    names = [part for part in place if isinstance(part, str)]
    fault["field"] = ".".join(names[1:] if names[0:1] in NO_PART_OF_FIELDS and len(names) > 1 else names) or "body"
    if isinstance(cause, InvalidInput):
        place += [index for index in (cause.row, cause.column) if index is not None]
    return fault | {"pointer": "#/" + "/".join(map(str, place))}
