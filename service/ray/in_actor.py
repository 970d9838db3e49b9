"""One that lives in an actor, a model or a feed: how its actor is called."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import replace
from typing import Any
from uuid import uuid4

from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.hosting.handle import Reply
from livesvm.service.logs.calls import current
from livesvm.service.models.spec import ModelSpec
from livesvm.service.ray.calls import Call, Office
from livesvm.service.ray.messages import Asked
from livesvm.service.ray.places import Place
from livesvm.service.resources.turns import Solve
from livesvm.service.settings import Settings


class InActor:
    """What has its actor's place, is stored under a name, and was last heard of at some time."""

    def __init__(self, stored: str, place: Place, office: Office, settings: Settings) -> None:
        self.stored = stored
        self.place = place
        self._office, self._settings = office, settings
        self._heard_at = 0.0
        self.is_lost = False

    @property
    def age(self) -> float:
        """Seconds since the actor said last that there is nothing newer, or what is."""
        return max(0.0, time.monotonic() - self._heard_at)

    def _heard(self, at: float) -> None:
        self._heard_at = max(self._heard_at, at)
        self.is_lost = False

    def _ask(
        self,
        verb: str,
        *arguments: Any,
        spec: ModelSpec | FeedSpec | None,
        solve: Solve | None = None,
        predicts: bool = False,
        patience: float | None = None,
    ) -> Call:
        """Call the actor, which is started by this specification where there is none.

        One that is lost has ``patience`` seconds to be back, by default those of the setting.
        """
        logged = current()
        seconds = None if solve is None else solve.rest()
        patience = self._settings.ray_seconds if patience is None else patience
        asked = Asked(
            uuid4().hex,
            self.stored,
            verb,
            arguments,
            seconds,
            None if logged is None else logged.key,
            predicts,
            None if logged is None else logged.id,
        )
        until = time.monotonic() + (patience if seconds is None else min(seconds, patience))
        return Call(self._office, self.place, asked, spec, until, logged).send()


def request_name() -> str:
    """The name of a request that came without one, so that it has one effect if the actor dies on the way."""
    return f"unnamed {uuid4().hex}"


class Unnamed(Future[Reply]):
    """A change without a name of its own: whoever asked never sent it again."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call = call
        call.add_done_callback(self._end)

    def cancel(self) -> bool:
        """As the call's own."""
        return self._call.cancel()

    def _end(self, call: Future[Any]) -> None:
        if (error := call.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(replace(call.result(), replayed=False))
