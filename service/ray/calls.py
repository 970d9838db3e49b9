"""A call of a model's actor: sent again when the actor was lost on the way, for as long as that may take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Protocol

from livesvm.service.errors import ModelUnavailable, Restoring, UnknownFeed, UnknownModel
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.history.names import FEEDS, is_feed
from livesvm.service.logs.calls import Call as Logged
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.ray.cluster import Cluster, when_done
from livesvm.service.ray.frames import LARGEST
from livesvm.service.ray.messages import Answer, Asked, FeedView, View, packed, unpacked
from livesvm.service.ray.places import Place

AGAIN_SECONDS = 0.1
"""After so long it is sent again."""
BY_LINE = frozenset({"update", "observe", "decide", "hear", "certificate"})
"""Verbs that are short and many, and whose answers are small: they need not go Ray's way."""


class Office(Protocol):
    """What calls need of who makes them."""

    @property
    def cluster(self) -> Cluster:
        """Where the actors are."""

    @property
    def open(self) -> set[Call]:
        """The calls under way."""

    def saw(self, stored: str, view: View | FeedView | None, copy: Published | None) -> None:
        """A model is now so, or gone; a version to predict by may come with that."""

    def is_stored(self, stored: str) -> bool:
        """Whether the store has it; raises StoreError."""


class Call(Future[Any]):
    """The result of a call, or what the actor raised.

    Raises ModelUnavailable if the actor is not back ``until`` then. Sent again, a call has one effect: updates have
    names of their own, and everything else may be done twice.
    """

    def __init__(
        self,
        office: Office,
        place: Place,
        asked: Asked,
        spec: ModelSpec | FeedSpec | None,
        until: float,
        logged: Logged | None,
    ) -> None:
        super().__init__()
        self._office, self._place, self._asked, self._spec = office, place, asked, spec
        self._until = until
        self._logged = logged
        self._message = packed(asked)
        self._is_sent = False
        self.tries = 0

    def send(self) -> Call:
        """Send it; returns at once, and asks for an actor that is not known yet in a thread."""
        self._office.open.add(self)
        if self._office.cluster.known(self._place) is None:
            threading.Thread(target=self._try, name="ray-first-call", daemon=True).start()
        else:
            self._try()
        return self

    def makes(self, model: str) -> bool:
        """Whether it creates this model."""
        return self._asked.verb == "create" and self._asked.model == model

    def cancel(self) -> bool:
        """Tell the actor that nobody waits any more; what becomes of the call is known when it answers."""
        if not self.done() and self._is_sent and time.monotonic() < self._until:
            self._office.cluster.actor(self._place, self._spec).withdraw.remote(self._asked.id)
        return False

    def expire(self, silent: Callable[[Place], bool]) -> None:
        """Give up if the time is over and the actor says nothing, neither that it is at work nor that it is lost."""
        if time.monotonic() > self._until and silent(self._place):
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
            actor = self._office.cluster.actor(self._place, self._spec)
            reference = actor.ask.remote(self._message)
        except Exception as error:
            self._ended(None, error)
        else:
            self._is_sent = True
            when_done(reference, self._ended)

    def _goes_by_line(self) -> bool:
        """Send it by the actor's line, if it may go there and there is one."""
        if self._asked.verb not in BY_LINE or len(self._message) > LARGEST:
            return False
        self._is_sent = self._office.cluster.lines.ask(self._place.name, self._message, self._ended)
        return self._is_sent

    def _ended(self, message: Any, error: BaseException | None) -> None:
        if error is not None:
            self._office.cluster.lost(self._place, error)
            self._again(error)
            return
        answer: Answer = unpacked(message)
        if isinstance(answer.error, Restoring) and answer.view is None and time.monotonic() < self._until:
            self._again(answer.error)
            return
        self._office.saw(self._asked.model, answer.view, answer.copy)
        if self._logged is not None:
            self._logged.facts.update(answer.facts)
        self._finish(answer.value, answer.error)

    def _again(self, error: BaseException) -> None:
        if time.monotonic() >= self._until:
            self._fail(error)
            return
        timer = threading.Timer(AGAIN_SECONDS, self._once_more)
        timer.daemon = True
        timer.start()

    def _once_more(self) -> None:
        """Send it again, unless there is no such model any more."""
        try:
            if self._asked.verb != "create" and not self._office.is_stored(self._asked.model):
                self._finish(None, self._unknown())
                return
        except Exception:
            pass  # the store may come back as the actor does
        self._try()

    def _fail(self, error: BaseException | None) -> None:
        why = "its actor does not answer" if error is None else f"its actor was lost ({type(error).__name__})"
        self._finish(None, ModelUnavailable(f"{self._name} is not to be had now: {why}"))

    @property
    def _name(self) -> str:
        """Of whom it asks, for people."""
        stored = self._asked.model
        return f"feed {stored.removeprefix(FEEDS)}" if is_feed(stored) else f"model {stored}"

    def _unknown(self) -> UnknownFeed | UnknownModel:
        kind = UnknownFeed if is_feed(self._asked.model) else UnknownModel
        return kind(f"there is no {self._name}")

    def _finish(self, value: Any, error: BaseException | None) -> None:
        self._office.open.discard(self)
        with suppress(InvalidStateError):  # it was given up
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(error)
