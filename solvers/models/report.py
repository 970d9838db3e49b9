"""What an update reports."""

from __future__ import annotations

from typing import NamedTuple

from livesvm.solvers.validation import Key


class UpdateReport(NamedTuple):
    """What one update did.

    Attributes
    ----------
    added, removed : keys, in the order in which they were given
    changed : how many examples that stayed got another target or weight
    events : breakpoints of the path: examples that changed sides
    seconds : wall time of the update
    n, n_free, n_bound : examples in the window, how many of them are at a kink, and how many have a coefficient at a
        bound
    max_violation : largest violation of the optimality conditions after the update, in units of f
    relative_gap : duality gap over the objective, by the f that the solver tracks
    rounds, exchanges, stalls, refreshes, refactorizations : how the path was walked, see ``homotopy.solve``
    retrained : whether the window was solved from nothing, because that was less work or because the path failed
    abandoned : whether a path was given up, as it failed or would have been more work than solving from nothing
    """

    added: tuple[Key, ...]
    removed: tuple[Key, ...]
    changed: int
    events: int
    seconds: float
    n: int
    n_free: int
    n_bound: int
    max_violation: float
    relative_gap: float
    rounds: int
    exchanges: int
    stalls: int
    refreshes: int
    refactorizations: int
    retrained: bool
    abandoned: bool = False
