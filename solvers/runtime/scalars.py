"""Numbers with names that Python and compiled code both read and write, in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast, get_type_hints

import numpy as np

T = TypeVar("T", covariant=True)

if TYPE_CHECKING:

    class _Void:  # that of numpy is final in its stub
        pass
else:
    _Void = np.void


class One(Protocol[T]):
    """An array (1,) of one record: what compiled code is handed fastest."""

    def __getitem__(self, index: int, /) -> T:
        """Return the record, which shares its memory with the array."""


class Scalars(_Void):
    """A record of numbers; a subclass names them, each ``int`` or ``float``. ::

    class Status(Scalars):
        events: int

    at = Status.zeros()[0]
    at.events += 1
    """

    kind: np.dtype[Any]

    def __init_subclass__(cls) -> None:
        hints = {name: hint for name, hint in get_type_hints(cls).items() if hint in (int, float)}
        kinds = [(name, np.int64 if hint is int else np.float64) for name, hint in hints.items()]
        cls.kind = np.dtype((cls, kinds), align=True)
        for place, name in enumerate(hints):
            setattr(cls, name, _number(place))

    @classmethod
    def zeros(cls) -> One[Self]:
        """Return a new record of zeros, in an array."""
        return cast("One[Self]", np.zeros(1, cls.kind))


def _number(place: int) -> property:
    """Return what reads and writes one of the numbers, several times as fast as records of numpy find it by name."""

    def read(record: Any) -> Any:
        return record[place]

    def write(record: Any, value: float) -> None:
        record[place] = value

    return property(read, write)
