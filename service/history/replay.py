"""Replay the last records of a log, on as few solution paths as possible.

One path for several updates together has fewer events than one path for each update [Karasuyama & Takeuchi, sec. 5],
and leads to the same optimum. Updates that only add and remove examples are therefore replayed together, except an
update that adds a new class or has no answer yet.

If such a replay fails in an unforeseen way, a second replay applies one update at a time, to find the update that
fails.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from livesvm.service.errors import NotSolved, OutOfTime
from livesvm.service.history.entries import LogEntry, decode_entry
from livesvm.service.history.journal import Source
from livesvm.service.history.versions import reapply
from livesvm.service.models.arrays import Key
from livesvm.service.models.commands import RULES, Command, Outcome
from livesvm.service.models.state import ModelState
from livesvm.service.resources.solve_scheduler import Solve, SolveScheduler
from livesvm.service.store.base import Lease, LogRecord, StoreDamaged, StoreError
from livesvm.solvers import warm_up
from livesvm.solvers.errors import MemoryLimit, SolverError
from livesvm.solvers.models.change import Batch
from livesvm.solvers.sparse import below
from livesvm.solvers.tables import columns as table_columns
from livesvm.solvers.tables.columns import Codes

log = logging.getLogger(__name__)

LEAST_SECONDS = 10.0
"""Least time of solving before an update is set aside: many times what an update may take that is answered before its
solution is stored (``livesvm.service.history.checkpoints.CERTAIN_SECONDS``)."""

TOGETHER = 1000
"""Examples added or removed by updates that are replayed together; holding more of them would gain little."""

FORESEEN = (SolverError, StoreError, NotSolved, MemoryError, OSError)
"""Errors that refuse an update, or whose cause is not the update."""


@dataclass(frozen=True)
class Patience:
    """The time limits of a replay's solves: of the ``whole`` replay, the last updates ``together``, the ``newest``
    update.

    If the newest update exceeds its limit, OutOfTime ends the replay. If ``sets_aside`` is True, a newest update that
    was never answered is set aside instead.
    """

    whole: Solve
    together: Solve
    newest: Solve
    sets_aside: bool

    @classmethod
    def short(cls, solve: Solve) -> Patience:
        """Return limits in which ``solve`` limits the whole replay, and no update is set aside."""
        return cls(solve, solve, solve, False)

    @classmethod
    def at_last(cls, seconds: float) -> Patience:
        """Return limits for the last updates only; the newest update is set aside after ``seconds``."""
        seconds = max(seconds, LEAST_SECONDS)
        return cls(Solve(), Solve(seconds), Solve(seconds), True)

    def without_end(self) -> Patience:
        """Return limits for a newest update that may have been answered; this update has no limit of its own."""
        return Patience(self.whole, self.whole, self.whole, False)

    def end(self, error: NotSolved) -> None:
        """Make the running solve of the replay stop soon, and the replay end with this error."""
        for solve in (self.whole, self.together, self.newest):
            solve.end(error)


class Inapplicable(SolverError):
    """An update failed in an unforeseen way, both along its solution path and by a new solve."""


@dataclass
class Replay:
    """A replay, which applies records to ``state`` up to number ``newest``, and counts updates that had an effect.

    An error that is not :data:`FORESEEN` destroys the state. If each update is applied ``alone``, the replay copies the
    state before each update; this takes longer, but the state survives an error.
    """

    source: Source
    lease: Lease
    state: ModelState
    newest: int
    turns: SolveScheduler
    patience: Patience
    alone: bool = False
    replayed: int = 0
    set_aside: int = 0
    _waiting: list[Command] = field(default_factory=list)

    def take(self, record: LogRecord) -> None:
        """Apply the next record, or let it wait; raises MemoryLimit, or StoreError for missing or unusable records."""
        follows = self.state.sequence + len(self._waiting) + 1
        if record.sequence != follows:
            raise StoreDamaged(f"the log of model {self.lease.model} lacks record {follows}")
        if record.aborted:
            self.finish()
            self.state.skip()
            return
        entry = decode_entry(record.data)
        if entry.plain is not None and self._can_wait(entry.plain):
            self._waiting.append(entry.plain)
            if sum(len(command.added) + len(command.remove) for command in self._waiting) >= TOGETHER:
                self.finish()
            return
        self.finish()
        self._apply(entry)

    def finish(self) -> None:
        """Apply the waiting updates, together if possible."""
        waiting, self._waiting = self._waiting, []
        try:
            if len(waiting) > 1:
                is_last = self.state.sequence + len(waiting) == self.newest
                with self.turns.turn(self.patience.together if is_last else self.patience.whole):
                    self.state.apply_together(waiting, together(waiting))
                self.replayed += len(waiting)
                return
        except SolverError:
            pass  # the updates succeeded one after the other before
        except OutOfTime:
            if not self.patience.sets_aside:
                raise
        for command in waiting:
            self._apply(command)

    def _can_wait(self, command: Command) -> bool:
        """Return whether a command starts at a unique optimum, adds no new class, and needs no answer.

        A class stays known after its last example has left the window. An update that adds a new class must therefore
        be replayed alone: examples that are added and removed in one combined command would not make their class known.
        """
        state = self.state
        return not self.alone and state.is_convex and not state.meets(command) and not self._owes(command.request)

    def _owes(self, request: str | None) -> bool:
        return owes(self.source, self.lease.model, request)

    def _apply(self, entry: LogEntry) -> None:
        """Apply one entry, and store its answer if none is stored yet."""
        sequence = self.state.sequence + 1
        is_unanswered = sequence == self.newest and not self._may_be_acknowledged(entry)
        solve = self.patience.newest if is_unanswered else self.patience.whole
        try:
            with self.turns.turn(solve):
                outcome = self._reapply(entry)
        except MemoryLimit:
            raise  # the update may have fitted before, so it is not taken back
        except OutOfTime:
            if not (is_unanswered and self.patience.sets_aside):
                raise
            model, seconds = self.lease.model, solve.seconds
            log.error("model %s: record %d, unanswered, is set aside after %g s of solving", model, sequence, seconds)
            self._take_back(sequence)
            self.set_aside += 1
            return
        except SolverError as error:
            if not is_unanswered:
                reason = f"record {sequence} of model {self.lease.model} can no longer be applied: {error}"
                raise StoreDamaged(f"{reason}; {self._advice()}") from error
            self._take_back(sequence)
            return
        if entry.request is not None and self._owes(entry.request):
            answer = entry.answer(self.state.version, outcome, self.source.store.durability())
            self.source.store.remember(self.lease, entry.request, answer)
        self.replayed += 1

    def _take_back(self, sequence: int) -> None:
        """Mark a record as aborted, because the process died before the record was answered."""
        self.source.store.abort(self.lease, sequence)
        self.state.skip()

    def _reapply(self, entry: LogEntry) -> Outcome:
        """Apply an entry that succeeded when it was new; after SolverError the state is unchanged.

        If the solution path fails in an unforeseen way, the entry is applied by a new solve without a path. If the path
        and the new solve both fail, the entry counts as the cause only if the solvers still work on other problems.
        """
        if not self.alone:
            return reapply(self.state, entry)
        before, sequence = self.state.encode(), self.state.sequence + 1
        for attempt in (reapply, _without_path):
            try:
                return attempt(self.state, entry)
            except FORESEEN:
                raise
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
                log.exception("model %s: record %d fails in an unforeseen way", self.lease.model, sequence)
            self.state = ModelState.decode(self.state.spec, self.state.cache_mb, before)
        warm_up("updates")  # raises if it is the solvers that fail, whatever the update
        raise Inapplicable(failure)

    def _may_be_acknowledged(self, entry: LogEntry) -> bool:
        """Return whether the newest entry may be acknowledged: it has an answer, or older rules accepted it."""
        if entry.rules != RULES:
            return True
        return entry.request is not None and not self._owes(entry.request)

    def _advice(self) -> str:
        back = f"go back to version {self.state.version} there (POST /models/{self.lease.model}/restore)"
        return (
            "as it may have been acknowledged, it is not taken back: start the version of LiveSVM that wrote it, "
            f"{back} and stop it, or delete the model"
        )


def _without_path(state: ModelState, entry: LogEntry) -> Outcome:
    return entry.apply_cold(state)


def owes(source: Source, model: str, request: str | None) -> bool:
    """Return whether the store remembers an entry's request without an answer; False without a request."""
    try:
        earlier = None if request is None else source.store.recall(model, request)
    except StoreDamaged as error:  # a retry will see it; what it did is in the log
        log.warning("%s", error)
        return False
    return earlier is not None and earlier.answer is None


def together(commands: Sequence[Command]) -> Command:
    """Return one command with the same result as these commands in order; the commands must not edit examples."""
    leaving: list[Key] = []
    coming: dict[Key, tuple[Batch, int]] = {}
    for command in commands:
        leaving += [key for key in command.remove if coming.pop(key, None) is None]
        if command.add is not None:
            coming.update({key: (command.add, row) for row, key in enumerate(command.added)})
    last = commands[-1]
    return Command(_batch(coming), leaving, arrived=last.arrived, next_key=last.next_key)


def _batch(coming: dict[Key, tuple[Batch, int]]) -> Batch | None:
    """Return a batch of the examples to add, in order; None if there are no examples to add."""
    if not coming:
        return None
    rows = list(coming.values())
    width = rows[0][0].X.shape[1]
    y = [batch.y[row] for batch, row in rows if batch.y is not None]
    weights = [1.0 if batch.weights is None else batch.weights[row] for batch, row in rows]
    X = [batch.X[row] for batch, row in rows]
    return Batch(
        X=table_columns.below(X) if isinstance(X[0], Codes) else below(X, width),
        y=np.array(y) if y else None,
        keys=list(coming),
        weights=np.array(weights),
    )
