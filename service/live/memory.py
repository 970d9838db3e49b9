"""What models, and jobs on copies of them, need of the memory budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from livesvm.service.errors import OutOfMemory
from livesvm.service.models.commands import Command
from livesvm.service.models.state import ModelState
from livesvm.service.resources.machine import give_back, resident_bytes
from livesvm.service.resources.memory import MEGABYTE, Budget

FLOAT = 8
COPIES = 4
"""Of the features: the solver's, a larger one while it grows, the support vectors that are shown, a snapshot's."""
BYTES_AN_EXAMPLE = 600
"""Of an example beside its features: its key, its arrival, and what the solver keeps by slot."""
PAIR_BYTES = 2**16
"""Of a pair of more than two classes beside its examples."""
FIXED_BYTES = MEGABYTE
"""Of a model beside its examples: its writer, and the solver's work arrays."""


def model_bytes(n: int, row_bytes: float, n_free: int, cache_mb: int, n_classes: int = 2) -> int:
    """What a model of ``n`` examples may take, whose features have ``row_bytes`` each.

    Its kernel rows take at most ``cache_mb``, with those of the free in them. Of more than two classes every example is
    in as many problems as there are others, and ``n_free`` counts it so.
    """
    others = max(1, n_classes - 1)
    pairs = others * n_classes // 2 if others > 1 else 1
    slots = 64 + n * 5 // 4
    rows = min(cache_mb * MEGABYTE, FLOAT * others * slots**2)
    free = min(n_free, rows // (FLOAT * slots))
    features = int(COPIES * row_bytes * slots)
    factors = FLOAT * free**2 // pairs if pairs > 1 else FLOAT * free**2
    return FIXED_BYTES + PAIR_BYTES * (pairs - 1) + features + rows + factors + BYTES_AN_EXAMPLE * others * slots


def check_grown(budget: Budget) -> None:
    """Raise OutOfMemory if jobs have written down so much that the process nears its limit."""
    try:
        budget.check_lasting(resident_bytes())
    except OutOfMemory:
        give_back()
        budget.check_lasting(resident_bytes())


class ModelMemory:
    """What one model holds of the budget; used by its writer alone, but for the release.

    A window that has become smaller holds what it had before: its arrays stay as large.
    """

    def __init__(self, budget: Budget, model: str, cache_mb: int) -> None:
        self._budget = budget
        self._model = model
        self._cache_mb = cache_mb
        self.size = 0

    def restored(self, state: ModelState) -> None:
        """Hold what the model needs as it came back; it never fails for that."""
        self.size = self.of(state)
        self._budget.insist(self, self.size)

    def __str__(self) -> str:
        return f"model {self._model}"

    def of(self, state: ModelState) -> int:
        """Bytes of a model in this state."""
        sizes = state.sizes
        n_classes = len(state.labels or ())
        return model_bytes(sizes.n_examples, state.row_bytes, sizes.n_free, self._cache_mb, n_classes)

    def after(self, state: ModelState, command: Command) -> int:
        """Bytes that a command may make of a model: who comes is there before others go; who goes gives none back."""
        if command.add is None:
            return 0
        sizes, X, n_classes = state.sizes, command.add.X, state.n_classes_after(command)
        n = sizes.n_examples + len(X)
        row_bytes = (state.row_bytes * sizes.n_examples + X.nbytes) / n
        free = sizes.n_free + len(X) * max(1, n_classes - 1)
        return model_bytes(n, row_bytes, free, self._cache_mb, n_classes)

    @contextmanager
    def growing(self, size: int) -> Iterator[None]:
        """Hold at least so many bytes; raises OutOfMemory. If what is inside fails, the model holds what it did."""
        before = self.size
        self.size = max(before, size)
        try:
            self._budget.resize(self, self.size)
            yield
        except BaseException:
            self.size = before
            self._budget.resize(self, before)
            raise

    def release(self) -> None:
        """The model is gone from memory."""
        self._budget.release(self)
