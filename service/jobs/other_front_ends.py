"""Other front ends of the same models: which of them was asked for a job, and where it is reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from livesvm.service.access.vouching import Vouching


@dataclass(frozen=True)
class FrontEnd:
    """A front end by the name that it keeps, and the address that it announces, as ``http://host:port``.

    Others vouch for callers by ``secret``.
    """

    holder: str
    address: str
    secret: bytes = field(repr=False)

    @property
    def name(self) -> str:
        """Its name as answers and ids of jobs tell it."""
        return short(self.holder)


class FrontEnds(Protocol):
    """What a front end tells of itself, and knows of the others. Its calls wait for the store."""

    holder: str
    """This front end."""
    vouching: Vouching
    """What it believes others of callers."""

    @property
    def mark(self) -> str:
        """What ids of jobs that it is asked for end with."""

    def listens(self, host: str, port: int) -> None:
        """Return the address, which is known before the front end announces itself."""

    def announce(self) -> None:
        """Tell the others where it is; raises StoreUnavailable."""

    def keep(self) -> None:
        """Tell the others again where that has changed; raises StoreUnavailable."""

    def leave(self) -> None:
        """Tell the others that it is not there any more."""

    def holding(self, job: str) -> FrontEnd | None:
        """Return the front end that was asked for a job; None: this one, or none.

        Raises JobElsewhere if that one is away, StoreError.
        """

    def others(self) -> list[FrontEnd]:
        """Return all others that show life; raises StoreError."""

    def is_away(self, holder: str) -> bool:
        """Return whether one has left, or shows no life; raises StoreError."""


def short(holder: str) -> str:
    """Return the beginning of a front end's name, by which it is distinguished from others."""
    return holder[:8]
