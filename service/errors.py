"""Errors of the service, by name; ``api.problems`` says how HTTP shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Self

LONGEST_TEXT = 1000
"""Most characters of a text in a problem document that has no other limit."""


class ServiceError(Exception):
    """Base class of errors that the service raises on purpose; the message is for the caller."""


class UnknownModel(ServiceError):
    """No model has that id."""


class VersionNotServed(ServiceError):
    """A version is asked for that is not the current one."""


class TooManyModels(ServiceError):
    """The quota of models is used up."""


class EmptyModel(ServiceError):
    """The model has no example yet and cannot answer."""


class ModelUnavailable(ServiceError):
    """The model could not be restored or is being deleted."""


class NotReady(ServiceError):
    """The service cannot do its work now, for one or more reasons."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class WritebackRefused(ServiceError):
    """The store has newer records of the model, or another service holds it, so that it must not be written back."""


class NotSolved(ServiceError):
    """A solve was ended before it had reached its optimum; the model is as it was."""


class OutOfTime(NotSolved):
    """A solve used up its time."""


class Withdrawn(NotSolved):
    """The result of a solve is not wanted any more."""


class CutOff(NotSolved):
    """The service stopped before it could answer."""


class TurnMissed(NotSolved):
    """The time that the caller gave was over before the command's turn came."""


class Restoring(ServiceError):
    """The model is still being restored."""


class QueueFull(ServiceError):
    """Too many calls wait already."""


class UnknownFeed(ServiceError):
    """No feed has that id."""


class UnknownFleet(ServiceError):
    """No fleet has that id."""


class FleetExists(ServiceError):
    """A fleet of that id exists."""


class TooManyFleets(ServiceError):
    """The quota of fleets is used up."""


class NoSource(ServiceError):
    """The feed takes its readings from no source."""


class FeedExists(ServiceError):
    """A feed of that id exists."""


class TooManyFeeds(ServiceError):
    """The quota of feeds is used up."""


class UnknownJob(ServiceError):
    """No job has that id."""


class UnknownWebhook(ServiceError):
    """No webhook has that id."""


class TooManyWebhooks(ServiceError):
    """The quota of webhooks is used up."""


class UnknownDataset(ServiceError):
    """No dataset has that name, or it was replaced by another one."""


class DatasetElsewhere(ServiceError):
    """The files of a dataset are not on this machine, but on another one with the same store, which took the upload."""


class TooManyDatasets(ServiceError):
    """The quota of datasets is used up."""


class WorkerLost(ServiceError):
    """A worker process ended without an answer: it was killed, or had too little memory."""


class JobNotDone(ServiceError):
    """The job has no result, or none yet."""


class JobInterrupted(ServiceError):
    """The service ended while the job was under way."""


class JobElsewhere(ServiceError):
    """Another front end was asked for the job, and does not answer."""

    @classmethod
    def of(cls, job: str, front: str) -> Self:
        """Return the error about a job at a front end, by their names."""
        what = "when it is back it knows its jobs again: what was under way has failed, what had ended is as it was"
        return cls(f"job {job} was asked for at front end {front}, which does not answer; {what}")


class NotApplicable(ServiceError):
    """The result of this kind of job cannot be applied to a model."""


class NoDocumentation(ServiceError):
    """The documentation was not built with this package."""


class NoPlot(ServiceError):
    """There is no picture of the results of this kind of job."""


class IdempotencyConflict(ServiceError):
    """An Idempotency-Key came back with another request."""


class NothingToErase(ServiceError):
    """Nothing in the store has one of the keys or tags to erase."""


class RequestErased(ServiceError):
    """A request had its effect, and its answer named examples that were erased since."""


class TooManyConnections(ServiceError):
    """All connections are in use, so that none can be closed for another one."""


class HeadTimeout(ServiceError):
    """The head of the request did not arrive in time."""


class HeadTooLarge(ServiceError):
    """The head of the request is larger than the limit."""


class MalformedRequest(ServiceError):
    """The received bytes are no HTTP request."""


class WrongHost(ServiceError):
    """The request is for another host."""


class CrossSite(ServiceError):
    """A page of another site asks for a change."""


class BodyTooLarge(ServiceError):
    """The request body is larger than the limit."""


class MemoryBusy(ServiceError):
    """Other calls hold the memory that this call needs."""


class OutOfMemory(ServiceError):
    """A model or a job does not fit into the memory budget."""


class NoRoom(ServiceError):
    """Other replicas in use leave no memory to wake this one now; one of them may soon go to rest."""


class BodyTimeout(ServiceError):
    """The request body did not arrive in time."""


class MalformedBody(ServiceError):
    """The request body does not match its media type."""


class UnsupportedMedia(ServiceError):
    """The request body has a media type or an encoding that this call does not read."""


class NotAcceptable(ServiceError):
    """The caller accepts no format that this call answers in."""


class InvalidRequest(ServiceError):
    """Parts of the request are not valid.

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


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return the text, cut off with dots if it is too long, so that no answer grows with a caller's text."""
    return text if len(text) <= longest else text[:longest] + "..."


def not_among(name: str, known: Iterable[str], inside: Iterable[str] = ()) -> str:
    """Return the message that a name is not one of the known ones, with the known name that it may be meant for.

    Parameters
    ----------
    inside : dotted names of fields inside of the known ones, which may be meant too
    """
    names = list(known)
    meant = {one.rpartition(".")[2].lower(): one for one in inside} | {one.lower(): one for one in names}
    near = get_close_matches(name[:64].lower(), meant, 1)
    hint = f"; did you mean {meant[near[0]]}?" if near else ""
    return f"is not one of {', '.join(names)}{hint}"
