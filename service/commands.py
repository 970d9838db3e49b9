"""What a client asks of a model, and what its log keeps of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from service.arrays import Key, Matrix, Vector
from service.store import codec


@dataclass(frozen=True)
class Batch:
    """Examples to add: X (n, d), y (n,), and where given keys (n) and weights (n,)."""

    X: Matrix
    y: Vector
    keys: list[Key] | None = None
    weights: Vector | None = None


@dataclass(frozen=True)
class Removal:
    """Examples to remove, in one of three ways; ``older_than`` is a Unix time in seconds."""

    keys: list[Key] | None = None
    oldest: int | None = None
    older_than: float | None = None


@dataclass(frozen=True)
class Update:
    """One update, as it was asked for; at least one of the two is there."""

    add: Batch | None = None
    remove: Removal | None = None

    def digest(self) -> bytes:
        """SHA-256 of what was asked, the same in whichever format it came."""
        add = None if self.add is None else vars(self.add)
        remove = None if self.remove is None else vars(self.remove)
        return hashlib.sha256(codec.encode({"add": add, "remove": remove})).digest()


@dataclass(frozen=True)
class Command:
    """One update with nothing left open: which examples come, under which keys, and which go.

    ``next_key`` is the model's counter for handing out keys after it; ``arrived`` is a Unix time in seconds;
    ``request`` is the Idempotency-Key that it came with.
    """

    add: Batch | None
    remove: list[Key]
    arrived: float
    next_key: int
    request: str | None

    @property
    def added(self) -> list[Key]:
        """Keys of the examples that come."""
        return [] if self.add is None or self.add.keys is None else self.add.keys

    def encode(self) -> bytes:
        """Bytes for the log."""
        return codec.encode(vars(self) | {"add": None if self.add is None else vars(self.add)})

    @classmethod
    def decode(cls, data: bytes) -> Command:
        """The command in a record of the log; raises StoreDamaged or StoreTooNew."""
        document: dict[str, Any] = codec.decode(data)
        add = document.pop("add")
        return cls(add=None if add is None else Batch(**add), **document)
