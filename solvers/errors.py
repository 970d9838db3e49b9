"""Errors of the solvers, by name. The errors know nothing of HTTP."""

from __future__ import annotations

import math

ROOM = 1.5  #: advised memory as a multiple of what one step needs, as the next ones may need more


class SolverError(Exception):
    """Base of every error this package raises on purpose."""


class InvalidInput(SolverError, ValueError):
    """An argument cannot be used; nothing was changed.

    Parameters
    ----------
    reason : what is wrong, as a sentence fragment
    field : the argument at fault, such as ``"X"``, ``"y"``, ``"keys"`` or ``"C"``
    row, column : position of the offending entry, counted from 0, when there is one
    name : of the column, where it has one
    """

    def __init__(
        self,
        reason: str,
        *,
        field: str | None = None,
        row: int | None = None,
        column: int | None = None,
        name: object = None,
    ) -> None:
        self.reason = reason
        self.field = field
        self.row = row
        self.column = column
        self.name = name
        where = [f"{field}"] if field is not None else []
        where += [f"row {row}"] if row is not None else []
        where += [f"column {column if name is None else repr(name)}"] if column is not None else []
        super().__init__(f"{', '.join(where)}: {reason}" if where else reason)


class InvalidType(InvalidInput, TypeError):
    """An argument has a type that cannot be used."""


class DuplicateKey(InvalidInput):
    """A key that is added is already in the window, or stands twice in the batch."""


class UnknownKey(InvalidInput):
    """A key that is to be removed is not in the window."""


class NotPositiveSemidefinite(InvalidInput):
    """The kernel matrix of the window has a negative eigenvalue: the problem is not convex."""


class NotOptimal(SolverError):
    """The path could not be followed to a certified optimum; the model is as it was before."""


class TooCostly(NotOptimal):
    """A path was given up, as solving from nothing takes less work; the model is as it was before."""


class MemoryLimit(SolverError):
    """The request cannot fit into the memory it was given; nothing was changed.

    Parameters
    ----------
    needed, limit : bytes of kernel rows that have to be cached at once, and that may be
    """

    def __init__(self, needed: int, limit: int) -> None:
        enough = math.ceil(ROOM * needed / 2**20)
        super().__init__(
            f"the kernel rows of this step need {needed / 2**20:.1f} MiB; the cache may take {limit / 2**20:.1f} MiB; "
            f"cache_mb={enough} would do, with room to grow"
        )


class TimeLimit(SolverError):
    """The time that a solve was given is over; the model is as it was before.

    Parameters
    ----------
    seconds : float
        The limit, in wall time.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"not solved within the limit of {seconds:g} s; the model is as it was before")


class Cancelled(SolverError):
    """The caller asked the solver to stop; the model is as it was before."""


class UnsupportedNumba(SolverError, ImportError):
    """The solvers have not been tested with this version of Numba."""
