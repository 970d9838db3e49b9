"""The transport of calls to processes where replicas live, which Ray provides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Literal

Done = Callable[[Any, BaseException | None], None]
"""Called with the bytes of an answer, or with why there is none, in any thread."""


@dataclass(frozen=True)
class Place:
    """A process where replicas live.

    Parameters
    ----------
    name : by which it is found, and which it keeps when it is started again
    model : what one is stored under that lives there alone, if there is such a one
    """

    name: str
    model: str | None = None


class Transport:
    """Calls of such processes. A call returns at once but for the first one of a place that is not known."""

    seconds: float  #: for which a call waits for one that was lost
    predictions: Literal["snapshot", "actor"]  #: whether the front end predicts, by copies, or that process
    stale_seconds = 0.0  #: for which a copy is used on after a newer version is known

    def place(self, stored: str) -> Place:
        """Return where what is stored under a name lives."""
        raise NotImplementedError

    def ask(self, place: Place, message: bytes, short: bool, done: Done) -> None:
        """Have a message answered; ``short`` says that its answer is small."""
        raise NotImplementedError

    def leave(self) -> None:
        """Ask nothing any more."""
        raise NotImplementedError

    def is_known(self, place: Place) -> bool:
        """Return whether calls return at once."""
        return True

    def heard(self, place: Place, line: Any) -> None:
        """Know where a place listens, if it says so."""

    def holder(self, place: Place) -> str:
        """Return what the store knows the process of a place as."""
        raise NotImplementedError

    def end(self, place: Place) -> None:
        """Kill the process of a place, whatever it does; it is started again."""

    def lost(self, place: Place, error: BaseException) -> None:
        """Know that a call of a place has failed."""

    def join(self, again: Callable[[], None], spec: Callable[[str], Any]) -> None:
        """Wait until places can be asked.

        ``again`` is called when what was asked before is not answered any more; ``spec`` returns what a replica was
        created as, by its stored name.
        """


def ask_all(transport: Transport, places: Iterable[Place], message: bytes, seconds: float | None = None) -> list[bytes]:
    """Return the answers of those that answer in time, or until all are answered or lost."""
    answers = [_answer(transport, place, message) for place in places]
    return [found for answer in wait(answers, seconds).done if (found := answer.result()) is not None]


def _answer(transport: Transport, place: Place, message: bytes) -> Future[bytes | None]:
    """Return what is answered, None where a place is lost."""
    answer: Future[bytes | None] = Future()
    transport.ask(place, message, False, lambda found, error: answer.set_result(found))
    return answer
