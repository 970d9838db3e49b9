"""Calls of compiled code that do not look at the types of their arguments, which takes as long as a short path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from numba import typeof

P = ParamSpec("P")
R = TypeVar("R")


def kind_of(value: object) -> Any:
    """Return the type that compiled code sees a value as; it is the same object for values of the same type."""
    return typeof(value)  # type: ignore[no-untyped-call]


def entry_point(function: Callable[P, R], *arguments: Any) -> Callable[P, R]:
    """Return a compiled function for arguments of exactly these types; others must not be given to it."""
    found: Callable[P, R] = function.compile(tuple(map(kind_of, arguments)))  # type: ignore[attr-defined]
    return found
