"""The report of an update."""

from __future__ import annotations

from typing import NamedTuple

from livesvm.solvers.runtime.html import html_of
from livesvm.solvers.validation import Key


class UpdateReport(NamedTuple):
    """What one update did.

    Attributes
    ----------
    added, removed : tuple of str or int
        Keys, in the order in which they were given.
    changed : int
        How many examples that stayed got another target or weight.
    events : int
        Breakpoints of the path: examples that changed sides.
    seconds : float
        Wall time of the update.
    n, n_free, n_bound : int
        Examples in the window, how many of them are at a kink, and how many have a coefficient at a bound.
    max_violation : float
        Largest violation of the optimality conditions after the update, in units of f.
    relative_gap : float
        Duality gap over the objective, by the f that the solver tracks.
    rounds, exchanges, stalls, refreshes, refactorizations : int, default 0
        How the path was walked, see ``homotopy.solve``.
    retrained : bool, default False
        Whether the window was solved from nothing, because that was less work or because the path failed.
    abandoned : bool, default False
        Whether a path was given up, as it failed or would have been more work than solving from nothing.
    ignored : tuple of str or int, default ()
        Keys of rows that were left out, as ``on_repeat`` asked for.
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
    rounds: int = 0
    exchanges: int = 0
    stalls: int = 0
    refreshes: int = 0
    refactorizations: int = 0
    retrained: bool = False
    abandoned: bool = False
    ignored: tuple[Key, ...] = ()

    def _repr_html_(self) -> str:
        return html_of(self)
