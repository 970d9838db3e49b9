"""Problem documents (RFC 9457), and a table with the HTTP status and the title of each class of errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from livesvm.service import errors
from livesvm.service.errors import LONGEST_TEXT, InvalidRequest, NotReady, cut
from livesvm.service.store import base as store
from livesvm.solvers import errors as solver
from livesvm.solvers.errors import DuplicateKey, InvalidInput, UnknownKey

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:livesvm:problem:"
NO_PART_OF_FIELDS = (["add"], ["header"], ["path"], ["query"])
"""Beginnings of a fault's path that the name of its field leaves out."""
MOST_FAULTS = 20
"""Largest number of faults that one problem document lists."""
_NAME = re.compile(r"[A-Za-z_.]{1,128}")
_VALUE = re.compile(r"""'[^']*'|"[^"]*"|[-+]?\d[\w.+-]*""")
_BRANCH = re.compile(r"(constrained-)?(int|float|str|bool)|(literal|list|dict|source)\[.*|\[key\]", re.DOTALL)
"""Parts of a fault's path that name one of the alternative types that pydantic tried."""
_SHOULD_BE = "Input should be "
"""Beginning of pydantic's messages about a wrong type."""
LONGEST_NAME = 64
"""Largest number of characters of a caller's field name that an answer repeats."""


@dataclass(frozen=True)
class Kind:
    """How answers report a class of errors: status, title, and ``slug``, which is the last part of the ``type``."""

    status: int
    slug: str
    title: str
    retry_after: int | None = None


INTERNAL = Kind(500, "internal", "The service failed")
INVALID = Kind(422, "invalid-input", "The request cannot be used")

KINDS: dict[type[Exception], Kind] = {
    solver.InvalidInput: INVALID,
    ValidationError: INVALID,
    errors.InvalidRequest: INVALID,
    solver.DuplicateKey: Kind(422, "duplicate-key", "A key is there already"),
    solver.UnknownKey: Kind(422, "unknown-key", "A key is not there"),
    solver.NotPositiveSemidefinite: Kind(422, "not-positive-semidefinite", "The kernel is not positive semi-definite"),
    solver.NotOptimal: Kind(422, "not-optimal", "No certified optimum was reached; nothing was changed"),
    solver.MemoryLimit: Kind(422, "memory-limit", "The update does not fit into LIVESVM_CACHE_MB; nothing was changed"),
    errors.UnknownModel: Kind(404, "unknown-model", "There is no such model"),
    errors.VersionNotServed: Kind(404, "version-not-served", "Another version of the model is served"),
    errors.UnknownFeed: Kind(404, "unknown-feed", "There is no such feed"),
    errors.UnknownFleet: Kind(404, "unknown-fleet", "There is no such fleet"),
    errors.NoSource: Kind(409, "no-source", "The feed takes its readings from no source"),
    errors.FeedExists: Kind(409, "feed-exists", "A feed of that id exists"),
    errors.FleetExists: Kind(409, "fleet-exists", "A fleet of that id exists"),
    errors.TooManyFleets: Kind(409, "too-many-fleets", "The quota of fleets is used up"),
    errors.TooManyFeeds: Kind(409, "too-many-feeds", "The quota of feeds is used up"),
    errors.UnknownJob: Kind(404, "unknown-job", "There is no such job"),
    errors.UnknownWebhook: Kind(404, "unknown-webhook", "There is no such webhook"),
    errors.TooManyWebhooks: Kind(409, "too-many-webhooks", "The quota of webhooks is used up"),
    errors.UnknownDataset: Kind(404, "unknown-dataset", "There is no such dataset"),
    errors.DatasetElsewhere: Kind(409, "dataset-elsewhere", "The files of this dataset are not on this machine"),
    errors.TooManyDatasets: Kind(409, "too-many-datasets", "The quota of datasets is used up"),
    errors.WorkerLost: Kind(503, "worker-lost", "The process that was to do this was lost; ask again", retry_after=1),
    errors.JobNotDone: Kind(409, "job-not-done", "The job has no result"),
    errors.JobElsewhere: Kind(503, "job-elsewhere", "The front end that knows this job does not answer", retry_after=5),
    errors.JobInterrupted: Kind(503, "interrupted", "The job was cut off; ask for it again"),
    errors.NotApplicable: Kind(409, "not-applicable", "It does not apply to this"),
    errors.NoPlot: Kind(404, "no-plot", "There is no plot of this"),
    errors.NoDocumentation: Kind(404, "no-documentation", "The documentation is not installed"),
    store.ModelExists: Kind(409, "model-exists", "A model of that id exists"),
    errors.EmptyModel: Kind(409, "empty-model", "The model knows no example yet"),
    errors.IdempotencyConflict: Kind(409, "idempotency-conflict", "The Idempotency-Key was used for another request"),
    errors.NothingToErase: Kind(404, "nothing-to-erase", "Nothing is named so"),
    errors.RequestErased: Kind(409, "request-erased", "The request had its effect; its answer was erased"),
    errors.WritebackRefused: Kind(409, "writeback-refused", "The store's model is not replaced"),
    errors.TooManyModels: Kind(409, "too-many-models", "The quota of models is used up"),
    errors.HeadTimeout: Kind(408, "head-timeout", "The head of the request did not arrive in time"),
    errors.HeadTooLarge: Kind(431, "head-too-large", "The head of the request is too large"),
    errors.MalformedRequest: Kind(400, "malformed-request", "The request cannot be read"),
    errors.WrongHost: Kind(421, "wrong-host", "The request is for another host"),
    errors.CrossSite: Kind(403, "cross-site", "Another site may not do this"),
    errors.TooManyConnections: Kind(429, "too-many-connections", "Too many connections are open", retry_after=1),
    errors.BodyTimeout: Kind(408, "body-timeout", "The body did not arrive in time"),
    errors.BodyTooLarge: Kind(413, "body-too-large", "The body is too large"),
    errors.UnsupportedMedia: Kind(415, "unsupported-media-type", "The media type is not read here"),
    errors.NotAcceptable: Kind(406, "not-acceptable", "This call does not answer in that format"),
    errors.MalformedBody: Kind(400, "malformed-body", "The body cannot be read"),
    errors.QueueFull: Kind(429, "too-busy", "Too many calls wait", retry_after=1),
    errors.NoRoom: Kind(503, "no-room", "Those in use leave no memory to wake it", retry_after=1),
    errors.MemoryBusy: Kind(429, "memory-busy", "The memory that this needs is in use", retry_after=1),
    errors.OutOfMemory: Kind(507, "out-of-memory", "It does not fit into LIVESVM_MEMORY_MB; nothing was changed"),
    errors.Unauthorized: Kind(401, "unauthorized", "A valid API key is needed"),
    errors.Forbidden: Kind(403, "forbidden", "The API key may not do this"),
    errors.NotReady: Kind(503, "not-ready", "The service is not ready", retry_after=1),
    errors.OutOfTime: Kind(422, "time-limit", "No optimum was reached in the time allowed; nothing was changed"),
    errors.Withdrawn: Kind(499, "withdrawn", "The caller no longer waits for the answer"),
    errors.TurnMissed: Kind(503, "turn-missed", "Its turn did not come in time; nothing was changed", retry_after=1),
    errors.Restoring: Kind(503, "restoring", "The model is being restored", retry_after=1),
    errors.CutOff: Kind(503, "cut-off", "The service stopped before it could answer; ask again", retry_after=1),
    errors.ModelUnavailable: Kind(503, "model-unavailable", "The model is not available", retry_after=10),
    store.StoreUnavailable: Kind(503, "store-unavailable", "The store is not available", retry_after=1),
    store.StoreError: Kind(503, "store-refused", "The store did not take it", retry_after=1),
    store.StoreBehind: Kind(503, "store-behind", "The store has lost updates; the model is read-only", retry_after=60),
    store.LeaseHeld: Kind(503, "model-unavailable", "The model is not available", retry_after=5),
    store.StoreDamaged: Kind(503, "store-damaged", "The store is damaged", retry_after=60),
    store.Fenced: Kind(503, "fenced", "Another writer has taken the model over", retry_after=10),
}
"""The table of kinds by class; an error counts as the service's own failure if the table has no base of it."""


def kind_of(error: Exception) -> Kind:
    """Return the table entry for the error's class, or else for its nearest base class."""
    return next((KINDS[base] for base in type(error).__mro__ if base in KINDS), INTERNAL)


def problem(error: Exception) -> dict[str, Any]:
    """Return the problem document of an error; its row and column are counted from 0."""
    if isinstance(error, ValidationError):
        return _told_of(error.errors(include_url=False, include_input=False))
    if isinstance(error, InvalidRequest):
        return _told_of(error.entries)
    kind = kind_of(error)
    if kind is INTERNAL:
        return _internal()
    reasons = {"reasons": list(error.reasons)} if isinstance(error, NotReady) else {}
    return (
        _head(kind)
        | {"detail": cut(str(error))}
        | reasons
        | (_place_of(error) if isinstance(error, InvalidInput) else {})
    )


def reason_for_log(error: Exception) -> dict[str, Any]:
    """Return an error's reason for the log, without numbers and quoted texts, which may come from callers' data."""
    if kind_of(error) is INTERNAL or isinstance(error, DuplicateKey | UnknownKey):
        return {}
    if not isinstance(error, InvalidInput | InvalidRequest | ValidationError):
        return {"detail": cut(str(error))}
    document = problem(error)
    reported = {name: document[name] for name in ("field", "row", "column") if name in document}
    if not _NAME.fullmatch(reported.get("field", "")):
        reported.pop("field", None)
    return reported | {"detail": _VALUE.sub("..", document.get("reason", ""))}


def problem_of_failure(failure: dict[str, Any]) -> dict[str, Any]:
    """Return the problem document of a job's stored error."""
    by_name = {error.__name__: kind for error, kind in KINDS.items()}
    kind = next((by_name[name] for name in failure["names"] if name in by_name), INTERNAL)
    if kind is INTERNAL:
        return _internal()
    return _head(kind) | {"detail": cut(failure["detail"])} | _cut_place(failure.get("place", {}))


def _internal() -> dict[str, Any]:
    return _head(INTERNAL) | {"detail": "The service failed; its log says more."}


def _head(kind: Kind) -> dict[str, Any]:
    return {"type": TYPE_PREFIX + kind.slug, "title": kind.title, "status": kind.status}


def _told_of(entries: Sequence[Any]) -> dict[str, Any]:
    """Return the problem document for validation faults; the first fault determines the status and the title."""
    cause = entries[0].get("ctx", {}).get("error")
    return _head(kind_of(cause) if isinstance(cause, InvalidInput) else INVALID) | _faults(entries)


def _place_of(error: InvalidInput) -> dict[str, Any]:
    name = {} if error.name is None else {"name": str(error.name)}
    return _cut_place({"field": error.field, "row": error.row, "column": error.column, **name, "reason": error.reason})


def _cut_place(place: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a fault's position that are not None, and shorten long texts."""
    limits = {"field": 2 * LONGEST_NAME, "name": 2 * LONGEST_NAME, "reason": LONGEST_TEXT}
    return {
        name: cut(value, limits[name]) if name in limits else value
        for name, value in place.items()
        if value is not None
    }


def _faults(entries: Sequence[Any]) -> dict[str, Any]:
    """Return a problem document's fields about validation faults; its top level repeats the first fault's fields."""
    each = [_fault(entry) for entry in entries[:MOST_FAULTS]]
    faults = _of_alternatives(each)
    first, others = faults[0], len(entries) - len(each) + len(faults) - 1
    more = f" (and {others} more)" if others else ""
    return first | {"detail": f"{first['pointer']}: {first['reason']}{more}", "errors": faults}


def _of_alternatives(faults: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge faults of one value: if the value has none of several allowed types, one fault lists these types."""
    found: dict[str, dict[str, Any]] = {}
    for fault in faults:
        where, of_type = fault["pointer"], fault["reason"].startswith(_SHOULD_BE)
        if of_type and any(other["pointer"].startswith(f"{where}/") for other in faults):
            continue
        if of_type and where in found:
            found[where]["reason"] += f", or {fault['reason'].removeprefix(_SHOULD_BE)}"
        else:
            found.setdefault(where, fault)
    return list(found.values())


def _fault(entry: Any) -> dict[str, Any]:
    """Convert one of pydantic's errors to ``{"field", "row"?, "column"?, "pointer", "reason"}``.

    The value of ``field`` is the dotted path to the faulty value, without a first part that is in
    ``NO_PART_OF_FIELDS``.
    """
    parts = [part for part in entry["loc"] if not (isinstance(part, str) and _BRANCH.fullmatch(part))]
    place = [cut(part, LONGEST_NAME) if isinstance(part, str) else part for part in parts]
    cause = entry.get("ctx", {}).get("error")
    fault: dict[str, Any] = {"reason": cut(str(cause) if type(cause) is ValueError else entry["msg"])}
    if isinstance(cause, InvalidInput):
        fault |= (position := _place_of(cause))
        place += [position["field"]] if cause.field is not None and position["field"] not in place[-1:] else []
    names = [part for part in place if isinstance(part, str)]
    fault["field"] = ".".join(names[1:] if names[0:1] in NO_PART_OF_FIELDS and len(names) > 1 else names) or "body"
    if isinstance(cause, InvalidInput):
        cell = cause.column if cause.name is None else cut(str(cause.name), LONGEST_NAME)
        place += [index for index in (cause.row, cell) if index is not None]
    return fault | {"pointer": "#/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in place)}
