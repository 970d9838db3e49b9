"""Numbers with names that Python and compiled code both read and write, in place."""

from __future__ import annotations

from collections import namedtuple
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, get_type_hints

import numpy as np

T = TypeVar("T", covariant=True)

if TYPE_CHECKING:

    class _Void:  # that of numpy is final in its stub
        pass
else:
    _Void = np.void


class One(Protocol[T]):
    """An array (1,) of one record, the fastest form to pass to compiled code."""

    def __getitem__(self, index: int, /) -> T:
        """Return the record, which shares its memory with the array."""

    def __setitem__(self, index: int, value: Any, /) -> None:
        """Overwrite the record with the numbers of another record."""


class Scalars(_Void):
    """A record of numbers; a subclass names them, each ``int`` or ``float``. ::

    class Status(Scalars):
        events: int

    status = Status.of(3)
    status[0].events += 1
    told = Status.snapshot(status)

    Python accesses a single number of a record slowly: code that needs several numbers reads or writes the whole record
    at once.
    """

    kind: np.dtype[Any]
    _layout: Struct
    _zeros: tuple[int, ...]
    _told: Any

    def __init_subclass__(cls) -> None:
        hints = {name: hint for name, hint in get_type_hints(cls).items() if hint in (int, float)}
        kinds = [(name, np.int64 if hint is int else np.float64) for name, hint in hints.items()]
        cls.kind = np.dtype((cls, kinds), align=True)
        cls._layout = Struct("".join("q" if hint is int else "d" for hint in hints.values()))
        cls._zeros = len(hints) * (0,)
        cls._told = namedtuple(cls.__name__, hints)  # type: ignore[misc]
        for place, name in enumerate(hints):
            setattr(cls, name, _number(place))

    @classmethod
    def of(cls, *numbers: float) -> One[Self]:
        """Return a new record in an array (1,), with the given numbers in the order of the fields, then zeros."""
        packed = bytearray(cls._layout.pack(*numbers, *cls._zeros[len(numbers) :]))
        return np.ndarray(1, cls.kind, packed)

    @classmethod
    def zeros(cls, count: int) -> Any:
        """Return an array of ``count`` records of zeros; slices of this array are valid records too."""
        return np.ndarray(count, cls.kind, bytearray(count * cls._layout.size))

    @classmethod
    def put(cls, record: One[Self], *numbers: float) -> None:
        """Overwrite the first record of an array that ``of`` or ``zeros`` has made."""
        cls._layout.pack_into(record.base, 0, *numbers, *cls._zeros[len(numbers) :])  # type: ignore[attr-defined]

    @classmethod
    def snapshot(cls, record: One[Self]) -> Self:
        """Return the present numbers of a record as a read-only copy."""
        return cls._told._make(cls._layout.unpack_from(record))  # type: ignore[arg-type, no-any-return]


def _number(place: int) -> property:
    """Return a property that accesses one number of a record several times as fast as numpy's access by name."""

    def read(record: Any) -> Any:
        return record[place]

    def write(record: Any, value: float) -> None:
        record[place] = value

    return property(read, write)
