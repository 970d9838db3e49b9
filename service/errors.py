"""Errors of the service, by name; ``api.problems`` says how HTTP shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Self

LONGEST_TEXT = 1000
"""Characters of any other text in a problem document."""


class ServiceError(Exception):
    """Base of what the service raises on purpose; the message is for the caller."""


class UnknownModel(ServiceError):
    """No model has that id."""


class VersionNotServed(ServiceError):
    """A version is asked for that is not the current one."""


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
    """The result of a solve is not wanted any more."""


class CutOff(NotSolved):
    """The service stopped before it could answer."""


class TurnMissed(NotSolved):
    """The time that the caller gave was over before the command's turn came."""


class Restoring(ServiceError):
    """The model is still being brought back."""


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
    """There is no dataset of that name, or no longer the one that was meant."""


class DatasetElsewhere(ServiceError):
    """The files of a dataset are not on this machine: another one, which shares the store, has taken the upload."""


class TooManyDatasets(ServiceError):
    """The quota of datasets is used up."""


class WorkerLost(ServiceError):
    """A process of its own ended without an answer: it was killed, or did not have the memory."""


class JobNotDone(ServiceError):
    """The job has no result, or none yet."""


class JobInterrupted(ServiceError):
    """The service ended while the job was under way."""


class JobElsewhere(ServiceError):
    """Another front end was asked for the job, and does not answer."""

    @classmethod
    def of(cls, job: str, front: str) -> Self:
        """Return that one by its name."""
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
    """Nothing that is stored is named by the keys that are to be erased."""


class RequestErased(ServiceError):
    """A request had its effect, and its answer named examples that were erased since."""


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


class NoRoom(ServiceError):
    """The replica is at rest, and others that are in use leave no memory to wake it; soon one of them may rest."""


class BodyTimeout(ServiceError):
    """The request body did not arrive in time."""


class MalformedBody(ServiceError):
    """The request body is not what its media type says."""


class UnsupportedMedia(ServiceError):
    """The request body has a media type or an encoding that this call does not read."""


class NotAcceptable(ServiceError):
    """The caller accepts no format that this call answers in."""


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


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return the text, or its beginning and that there was more: no answer grows with what a caller names or sends."""
    return text if len(text) <= longest else text[:longest] + "..."


def not_among(name: str, known: Iterable[str], inside: Iterable[str] = ()) -> str:
    """Return that a name is not one of those that are known, and which of them it may stand for.

    Parameters
    ----------
    inside : dotted names of what is inside of these, which may be meant too
    """
    names = list(known)
    meant = {one.rpartition(".")[2].lower(): one for one in inside} | {one.lower(): one for one in names}
    near = get_close_matches(name[:64].lower(), meant, 1)
    hint = f"; did you mean {meant[near[0]]}?" if near else ""
    return f"is not one of {', '.join(names)}{hint}"
