"""Stored errors of failed jobs: their names, and the place of the fault."""

from __future__ import annotations

from typing import Any

from livesvm.service.errors import ServiceError
from livesvm.service.store.base import StoreError
from livesvm.solvers.errors import InvalidInput, SolverError

Document = dict[str, Any]


def is_foreseen(error: Exception) -> bool:
    """Return whether an error is one by name, and not the service's own failure."""
    return isinstance(error, ServiceError | SolverError | StoreError)


def recorded(error: Exception) -> Document:
    """Return the names of an error, from its own to the most general; its message; what is at fault, and where."""
    names = [base.__name__ for base in type(error).__mro__ if issubclass(base, Exception)]
    document: Document = {"names": names, "detail": str(error) if is_foreseen(error) else ""}
    if isinstance(error, InvalidInput):
        place = {"field": error.field, "row": error.row, "column": error.column, "reason": error.reason}
        document["place"] = {name: value for name, value in place.items() if value is not None}
    return document
