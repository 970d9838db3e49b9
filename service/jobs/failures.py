"""Errors of failed jobs as JSON: class names, message, and the field, row and column of an invalid input."""

from __future__ import annotations

from typing import Any

from livesvm.service.errors import ServiceError
from livesvm.service.store.base import StoreError
from livesvm.solvers.errors import InvalidInput, SolverError

Document = dict[str, Any]


def is_foreseen(error: Exception) -> bool:
    """Return whether an error is of a class that the service defines, and not an unforeseen failure."""
    return isinstance(error, ServiceError | SolverError | StoreError)


def recorded(error: Exception) -> Document:
    """Return an error as JSON: its class names, the most specific first, its message, and the place in the input."""
    names = [base.__name__ for base in type(error).__mro__ if issubclass(base, Exception)]
    document: Document = {"names": names, "detail": str(error) if is_foreseen(error) else ""}
    if isinstance(error, InvalidInput):
        place = {"field": error.field, "row": error.row, "column": error.column, "reason": error.reason}
        document["place"] = {name: value for name, value in place.items() if value is not None}
    return document
