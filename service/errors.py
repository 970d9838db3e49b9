"""The exceptions of the service; ``api.problem_documents`` defines how HTTP answers report each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Self

LONGEST_TEXT = 1000
"""Most characters of a text in a problem document that has no other limit."""


class ServiceError(Exception):
    """Base class of errors that the service raises on purpose, with a message that is sent to the caller."""


class UnknownModel(ServiceError):
    """No model has the requested id."""


class VersionNotServed(ServiceError):
    """The requested version of a model is not its current version."""


class TooManyModels(ServiceError):
    """The service already has the largest allowed number of models."""


class EmptyModel(ServiceError):
    """The model has no example yet and cannot answer."""


class ModelUnavailable(ServiceError):
    """The model could not be restored or is being deleted."""


class NotReady(ServiceError):
    """The service is not ready to answer the call, for the listed reasons."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class WritebackRefused(ServiceError):
    """A model must not be written back, because the store has newer records of it or another service holds it."""


class NotSolved(ServiceError):
    """A solve was stopped before it reached the optimum; the model is not changed."""


class OutOfTime(NotSolved):
    """A solve has taken longer than its time limit."""


class Withdrawn(NotSolved):
    """A solve was stopped because its caller no longer waits for the result."""


class CutOff(NotSolved):
    """The service stopped before it could answer the call."""


class TurnMissed(NotSolved):
    """The caller's time limit was over before the command could begin."""


class Restoring(ServiceError):
    """The model is still being restored."""


class QueueFull(ServiceError):
    """Too many calls are already waiting."""


class UnknownFeed(ServiceError):
    """No feed has the requested id."""


class UnknownFleet(ServiceError):
    """No fleet has the requested id."""


class FleetExists(ServiceError):
    """A fleet with the id of the new fleet already exists."""


class TooManyFleets(ServiceError):
    """The service already has the largest allowed number of fleets."""


class NoSource(ServiceError):
    """The feed or fleet has no source from which it could read."""


class FeedExists(ServiceError):
    """A feed with the id of the new feed already exists."""


class TooManyFeeds(ServiceError):
    """The service already has the largest allowed number of feeds."""


class UnknownJob(ServiceError):
    """No job has the requested id."""


class UnknownWebhook(ServiceError):
    """No webhook has the requested id."""


class TooManyWebhooks(ServiceError):
    """The service already has the largest allowed number of webhooks."""


class UnknownDataset(ServiceError):
    """No dataset has the requested name, or the dataset was replaced by another one of the same name."""


class DatasetElsewhere(ServiceError):
    """The files of a dataset are on another machine with the same store, to which they were uploaded."""


class TooManyDatasets(ServiceError):
    """Another dataset would exceed the limit of the number of datasets, or of their space on the disk."""


class WorkerLost(ServiceError):
    """A worker process ended without a result, because it was killed or had too little memory."""


class JobNotDone(ServiceError):
    """The job has no result, because it is not done, has failed or was cancelled."""


class JobInterrupted(ServiceError):
    """The service stopped while the job was running."""


class JobElsewhere(ServiceError):
    """The job belongs to another front end, which does not answer now."""

    @classmethod
    def of(cls, job: str, front: str) -> Self:
        """Return the error about the job with the id ``job`` of the front end ``front``, which does not answer."""
        what = "when it is back it knows its jobs again: what was under way has failed, what had ended is as it was"
        return cls(f"job {job} was asked for at front end {front}, which does not answer; {what}")


class NotApplicable(ServiceError):
    """The result of this kind of job cannot be applied to a model."""


class NoDocumentation(ServiceError):
    """The documentation was not built with this package."""


class NoPlot(ServiceError):
    """The results of this kind of job cannot be plotted."""


class IdempotencyConflict(ServiceError):
    """The Idempotency-Key of the request was already used for a different request."""


class NothingToErase(ServiceError):
    """No stored data contain any of the keys and tags to erase."""


class RequestErased(ServiceError):
    """The repeated request has already had its effect, but its answer was erased with the examples that it named."""


class TooManyConnections(ServiceError):
    """The limit of connections is met, and none is idle, so that none can be closed for a new connection."""


class HeadTimeout(ServiceError):
    """The head of the request did not arrive in time."""


class HeadTooLarge(ServiceError):
    """The head of the request is larger than the limit."""


class MalformedRequest(ServiceError):
    """The received bytes are not an HTTP request."""


class WrongHost(ServiceError):
    """The Host header of the request names a host for which the service does not answer."""


class CrossSite(ServiceError):
    """A page of another site requests a change, and no API keys are configured."""


class BodyTooLarge(ServiceError):
    """The request body is larger than the limit."""


class MemoryBusy(ServiceError):
    """Other calls use the memory that this call needs."""


class OutOfMemory(ServiceError):
    """A model or a job does not fit into the memory budget."""


class NoRoom(ServiceError):
    """Models and feeds in use leave no memory to wake this one now; some may soon be at rest."""


class BodyTimeout(ServiceError):
    """The request body did not arrive in time."""


class MalformedBody(ServiceError):
    """The request body does not have the form that its media type requires."""


class UnsupportedMedia(ServiceError):
    """The request body has a media type or an encoding that this call does not read."""


class NotAcceptable(ServiceError):
    """The caller accepts none of the formats in which this call can answer."""


class InvalidRequest(ServiceError):
    """Some parts of the request are not valid.

    Parameters
    ----------
    entries : the faults, as pydantic lists them
    """

    def __init__(self, entries: Sequence[Any]) -> None:
        super().__init__(f"{len(entries)} faults")
        self.entries = entries


class Unauthorized(ServiceError):
    """The request has no valid API key."""


class Forbidden(ServiceError):
    """The scope of the API key does not include this call."""


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return the text, shortened with dots if it is too long, so that a caller's text cannot make answers long."""
    return text if len(text) <= longest else text[:longest] + "..."


def not_among(name: str, known: Iterable[str], inside: Iterable[str] = ()) -> str:
    """Return the message that a name is not one of the known names, with the known name that is most similar.

    Parameters
    ----------
    inside : dotted names of fields inside of the known ones, which may be meant too
    """
    names = list(known)
    meant = {one.rpartition(".")[2].lower(): one for one in inside} | {one.lower(): one for one in names}
    near = get_close_matches(name[:64].lower(), meant, 1)
    hint = f"; did you mean {meant[near[0]]}?" if near else ""
    return f"is not one of {', '.join(names)}{hint}"
