"""What replicas, and jobs on copies of models, need of the memory budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from livesvm.service.errors import OutOfMemory
from livesvm.service.models.commands import Command
from livesvm.service.models.size import FIXED_BYTES, model_bytes
from livesvm.service.models.state import ModelState
from livesvm.service.resources.machine import give_back, resident_bytes
from livesvm.service.resources.memory import Budget


def check_grown(budget: Budget) -> None:
    """Raise OutOfMemory if jobs have written down so much that the process nears its limit."""
    try:
        budget.check_lasting(resident_bytes())
    except OutOfMemory:
        give_back()
        budget.check_lasting(resident_bytes())


def bytes_of(state: ModelState, cache_mb: int) -> int:
    """Return the bytes of a model in this state once an update has rebuilt what cooling gives up."""
    sizes = state.sizes
    n_classes = len(state.labels or ())
    size = model_bytes(sizes.n_examples, state.row_bytes, sizes.n_free, cache_mb, n_classes)
    return size + state.window.left_bytes


def bytes_after(state: ModelState, command: Command, cache_mb: int) -> int:
    """Return the bytes of a model after a command: new examples come before old ones leave, which free nothing."""
    if command.add is None:
        return bytes_of(state, cache_mb)
    sizes, X, n_classes = state.sizes, command.add.X, state.n_classes_after(command)
    n = sizes.n_examples + len(X)
    row_bytes = (state.row_bytes * sizes.n_examples + X.nbytes) / n
    free = sizes.n_free + len(X) * max(1, n_classes - 1)
    return model_bytes(n, row_bytes, free, cache_mb, n_classes) + state.window.left_bytes


class HeldMemory:
    """What one replica holds of the budget while it is awake; changed in its mailbox alone, but for the release.

    A window that has become smaller holds what it had before: its arrays stay as large.

    Parameters
    ----------
    budget : of the process
    name : of the replica, for people
    make_room : puts others to rest until so many bytes are free; raises NoRoom
    """

    def __init__(self, budget: Budget, name: str, make_room: Callable[[int], None]) -> None:
        self._budget, self._name, self._make_room = budget, name, make_room
        self.size = 0

    def __str__(self) -> str:
        return self._name

    def insist(self, size: int) -> None:
        """Hold so many bytes, whether they fit or not: it is what was acknowledged."""
        self.size = size
        self._budget.insist(self, size)

    def cooled(self, size: int) -> None:
        """Hold no more than these bytes of the state, as an update makes the rest again."""
        self.size = min(self.size, FIXED_BYTES + size)
        self._budget.insist(self, self.size)

    @contextmanager
    def growing(self, size: int) -> Iterator[None]:
        """Hold at least so many bytes; raises OutOfMemory. If what is inside fails, the replica holds what it did."""
        before = self.size
        after = max(before, size)
        try:
            self._resize(after)
            yield
        except BaseException:
            self._resize(before)
            raise

    def _resize(self, size: int) -> None:
        try:
            self._budget.resize(self, size)
        except OutOfMemory:
            self._make_room(size - self.size)
            self._budget.resize(self, size)
        self.size = size

    def release(self) -> None:
        """Hold nothing more: the replica is not in memory."""
        self.size = 0
        self._budget.release(self)
