"""A call to the actor of a replica, which is sent again if the actor is lost, until a deadline."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from livesvm.service.errors import ModelUnavailable, QueueFull, Restoring, ServiceError
from livesvm.service.hosting.handle import Reply
from livesvm.service.logs.calls import Call as Logged
from livesvm.service.models.published import Published
from livesvm.service.ray.actors import RemoteActor
from livesvm.service.ray.messages import Answer, Question, packed, unpacked

log = logging.getLogger(__name__)

AGAIN_SECONDS = 0.1
"""Delay before a call is sent again."""


class Subject(Protocol):
    """The replica that is the subject of a call."""

    @property
    def there(self) -> RemoteActor:
        """The actor where the replica lives."""

    @property
    def gone(self) -> type[ServiceError]:
        """The error for a replica that does not exist."""

    def hear(self, at: float) -> None:
        """Note the time of an answer from the replica's actor."""

    def hold(self, copy: Published) -> None:
        """Keep a version of the model that came with an answer, for predictions in this process."""


class Call(Future[Any]):
    """The future of a call to an actor: the result, or the error that the actor raised.

    Raises ModelUnavailable if the actor is not back by the deadline, ``until``. A call that is sent several times has
    one effect: the actor recognizes updates by their request names, and all other commands can be executed twice
    without harm.
    """

    def __init__(self, subject: Subject, asked: Question, until: float, logged: Logged | None) -> None:
        super().__init__()
        self._subject, self._there, self._asked = subject, subject.there, asked
        self._until, self._logged = until, logged
        self._message = packed(asked)
        self._is_sent = False
        self.tries = 0

    def send(self) -> Call:
        """Send the call, without waiting; an actor that is not known yet is looked up in a thread.

        The call's future raises QueueFull if the actor may not have more calls that block its threads.
        """
        if self._asked.command.blocks and not self._there.takes(self):
            name = self._there.place.name
            self._finish(None, QueueFull(f"too many calls wait for actor {name}, which has {self._subject}"))
            return self
        self._there.owner.open.add(self)
        if self._there.is_known:
            self._try()
        else:
            threading.Thread(target=self._try, name="first-call", daemon=True).start()
        return self

    def cancel(self) -> bool:
        """Ask the actor to withdraw the call, because its caller has left; the answer says if it was withdrawn."""
        if not self.done() and self._is_sent and time.monotonic() < self._until:
            self._there.ask("withdraw", self._asked.id)
        return False

    def expire(self, seconds: float) -> None:
        """Give the call up if its deadline has passed and the actor has reported nothing for ``seconds``."""
        if time.monotonic() > self._until and self._there.is_silent(seconds):
            self._fail(None)

    def lost(self) -> None:
        """Send the call again: this front end has rejoined the cluster, and its earlier calls get no answer."""
        if self._is_sent and not self.done():
            self._again(ConnectionError("the connection was lost and made again"))

    def _try(self) -> None:
        self.tries += 1
        self._there.call(self._message, by_line=self._asked.command.by_line).add_done_callback(self._ended)
        self._is_sent = True

    def _ended(self, asked: Future[bytes]) -> None:
        if (error := asked.exception()) is not None:
            self._there.failed(error)
            self._again(error)
            return
        try:
            self._answered(unpacked(asked.result()))
        except Exception as failure:  # such as an answer of another version: what waits for this call has to end
            log.exception("the answer for %s cannot be used", self._subject)
            self._finish(None, failure)

    def _answered(self, answer: Answer) -> None:
        is_back = self._asked.stored in answer.views
        if isinstance(answer.error, Restoring) and not is_back and time.monotonic() < self._until:
            self._again(answer.error)
            return
        self._there.hear(answer.views)
        self._subject.hear(time.monotonic())
        if answer.copy is not None:
            self._subject.hold(answer.copy)
        if self._logged is not None:
            self._logged.facts.update(answer.facts)
        is_new = self._asked.command.is_unnamed and isinstance(answer.value, Reply)
        if isinstance(answer.error, self._subject.gone):
            self._found_gone(answer.error, self.tries > 1)
        else:
            self._finish(replace(answer.value, replayed=False) if is_new else answer.value, answer.error)

    def _found_gone(self, error: BaseException, is_again: bool) -> None:
        """End a call to a missing replica, with success if an earlier attempt of the call may have deleted it."""
        self._finish(None, None if self._asked.command.removes and is_again else error)

    def _again(self, error: BaseException) -> None:
        if time.monotonic() >= self._until:
            self._fail(error)
            return
        timer = threading.Timer(AGAIN_SECONDS, self._once_more)
        timer.daemon = True
        timer.start()

    def _once_more(self) -> None:
        """Send the call again, unless the replica is no longer in the store."""
        try:
            if not self._asked.command.makes and not self._there.owner.is_stored(self._asked.stored):
                self._found_gone(self._subject.gone(f"there is no {self._subject}"), True)
                return
        except Exception:
            pass  # the store may come back as the actor does
        self._try()

    def _fail(self, error: BaseException | None) -> None:
        why = "its actor does not answer" if error is None else f"its actor was lost ({type(error).__name__})"
        self._finish(None, ModelUnavailable(f"{self._subject} is not to be had now: {why}"))

    def _finish(self, value: Any, error: BaseException | None) -> None:
        self._there.owner.open.discard(self)
        with suppress(InvalidStateError):  # it was given up
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(error)
