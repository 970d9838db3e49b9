"""A call of an actor: sent again when the actor was lost on the way, for as long as that may take."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from livesvm.service.errors import ModelUnavailable, Restoring, ServiceError
from livesvm.service.hosting.handle import Reply
from livesvm.service.logs.calls import Call as Logged
from livesvm.service.models.published import Published
from livesvm.service.ray.cluster import when_done
from livesvm.service.ray.frames import LARGEST
from livesvm.service.ray.membership import MEMBERSHIP, NotJoined
from livesvm.service.ray.messages import Answer, Asked, View, packed, unpacked
from livesvm.service.ray.office import Office
from livesvm.service.ray.there import There

AGAIN_SECONDS = 0.1
"""After so long it is sent again."""


class Subject(Protocol):
    """Of whom something is asked."""

    @property
    def there(self) -> There:
        """The actor where it lives."""

    @property
    def spec(self) -> Any:
        """What it was created as, by which an actor of its own is started."""

    @property
    def gone(self) -> type[ServiceError]:
        """Says that there is no such thing."""

    def hear(self, view: View | None, at: float) -> None:
        """It is so now."""

    def hold(self, copy: Published) -> None:
        """A version to predict by came along."""


class Call(Future[Any]):
    """The result of a call, or what the actor raised.

    Raises ModelUnavailable if the actor is not back ``until`` then. Sent again, a call has one effect: updates have
    names of their own, and everything else may be done twice.
    """

    def __init__(self, office: Office, subject: Subject, asked: Asked, until: float, logged: Logged | None) -> None:
        super().__init__()
        self._office, self._subject, self._asked = office, subject, asked
        self._until = until
        self._logged = logged
        self._message = packed(asked)
        self._is_sent = False
        self.tries = 0

    @property
    def _there(self) -> There:
        return self._subject.there

    def send(self) -> Call:
        """Send it; returns at once, and asks for an actor that is not known yet in a thread."""
        self._office.open.add(self)
        if self._office.cluster.known(self._there.place) is None:
            threading.Thread(target=self._try, name="ray-first-call", daemon=True).start()
        else:
            self._try()
        return self

    def cancel(self) -> bool:
        """Tell the actor that nobody waits any more; what becomes of the call is known when it answers."""
        if not self.done() and self._is_sent and time.monotonic() < self._until:
            with suppress(NotJoined), MEMBERSHIP.inside():
                self._actor().withdraw.remote(self._asked.id)
        return False

    def _actor(self) -> Any:
        return self._office.cluster.actor(self._there.place, lambda: self._subject.spec)

    def expire(self, seconds: float) -> None:
        """Give up if the time is over and the actor has said nothing for so long, not even that it is at work."""
        if time.monotonic() > self._until and self._there.is_silent(seconds):
            self._fail(None)

    def lost(self) -> None:
        """Send it again: the cluster in which it was sent is not there any more."""
        if self._is_sent and not self.done():
            self._again(ConnectionError("the cluster was joined anew"))

    def _try(self) -> None:
        self.tries += 1
        if self._goes_by_line():
            return
        try:
            with MEMBERSHIP.inside():
                reference = self._actor().ask.remote(self._message)
                when_done(reference, self._ended)
        except Exception as error:
            self._ended(None, error)
        else:
            self._is_sent = True

    def _goes_by_line(self) -> bool:
        """Send it by the actor's line, if it may go there and there is one."""
        if not self._asked.command.by_line or len(self._message) > LARGEST:
            return False
        self._is_sent = self._office.cluster.lines.ask(self._there.place.name, self._message, self._ended)
        return self._is_sent

    def _ended(self, message: Any, error: BaseException | None) -> None:
        if error is not None:
            self._office.cluster.lost(self._there.place, error)
            self._again(error)
            return
        answer: Answer = unpacked(message)
        if isinstance(answer.error, Restoring) and answer.view is None and time.monotonic() < self._until:
            self._again(answer.error)
            return
        self._subject.hear(answer.view, time.monotonic())
        if answer.copy is not None:
            self._subject.hold(answer.copy)
        if self._logged is not None:
            self._logged.facts.update(answer.facts)
        is_new = self._asked.command.unnamed and isinstance(answer.value, Reply)
        self._finish(replace(answer.value, replayed=False) if is_new else answer.value, answer.error)

    def _again(self, error: BaseException) -> None:
        if time.monotonic() >= self._until:
            self._fail(error)
            return
        timer = threading.Timer(AGAIN_SECONDS, self._once_more)
        timer.daemon = True
        timer.start()

    def _once_more(self) -> None:
        """Send it again, unless there is no such thing any more."""
        try:
            if not self._asked.command.makes and not self._office.is_stored(self._asked.stored):
                self._finish(None, self._subject.gone(f"there is no {self._subject}"))
                return
        except Exception:
            pass  # the store may come back as the actor does
        self._try()

    def _fail(self, error: BaseException | None) -> None:
        why = "its actor does not answer" if error is None else f"its actor was lost ({type(error).__name__})"
        self._finish(None, ModelUnavailable(f"{self._subject} is not to be had now: {why}"))

    def _finish(self, value: Any, error: BaseException | None) -> None:
        self._office.open.discard(self)
        with suppress(InvalidStateError):  # it was given up
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(error)
