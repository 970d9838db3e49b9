"""The transport of calls to processes where replicas live, which Ray and a service's own workers provide."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from prometheus_client.core import Metric

Done = Callable[[Any, BaseException | None], None]
"""Called with the bytes of an answer, or with why there is none, in any thread."""


@dataclass(frozen=True)
class Terms:
    """What a front end may expect of such a process.

    Parameters
    ----------
    word : what people call it
    seconds : for which a call waits for one that was lost
    predictions : whether the front end predicts, by copies, or the process where the model lives
    stale_seconds : for which a copy is used on after a newer version is known
    """

    word: str
    seconds: float
    predictions: Literal["snapshot", "actor"]
    stale_seconds: float = 0.0


class Place(Protocol):
    """A process where replicas live; it keeps its name when it is started again."""

    @property
    def name(self) -> str:
        """By which it is found."""

    @property
    def model(self) -> str | None:
        """What one is stored under that lives there alone, if there is such a one."""


P = TypeVar("P", bound=Place)


class Since(NamedTuple):
    """What a front end was sent last: a moment of an incarnation; ``rows`` were predicted here since, by name."""

    incarnation: str
    moment: int
    rows: dict[str, int]


class Transport(Protocol[P]):
    """Calls of such processes. A call returns at once but for the first one of a place that is not known."""

    @property
    def terms(self) -> Terms:
        """What may be expected."""

    def place(self, stored: str) -> P:
        """Return where what is stored under a name lives."""

    def is_known(self, place: P) -> bool:
        """Return whether calls return at once."""

    def ask(self, place: P, spec: Callable[[], Any], message: bytes, short: bool, done: Done) -> None:
        """Have a call answered; ``short`` says that its answer is small. May raise what the place is lost by."""

    def withdraw(self, place: P, spec: Callable[[], Any], call: str) -> None:
        """Say that nothing waits for a call any more."""

    def watch(self, place: P, spec: Callable[[], Any], since: Since, done: Done) -> None:
        """Return the news since then, as soon as there are any; may raise the error that lost the place."""

    def heard(self, place: P, line: Any) -> None:
        """Know where a place listens, if it says so."""

    def lost(self, place: P, error: BaseException) -> None:
        """Know that a call of a place has failed."""

    def scrape(self, places: Iterable[P]) -> list[Metric]:
        """Return the metrics of those that answer in time."""

    def join(self, again: Callable[[], None]) -> None:
        """Wait until places can be asked; ``again`` is called when what was asked before is not answered any more."""

    def leave(self) -> None:
        """Ask nothing any more."""
