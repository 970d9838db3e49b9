"""Calls of compiled code that do not look at the types of their arguments, which takes as long as a short path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numba import typeof

P = ParamSpec("P")
R = TypeVar("R")

_known: dict[Any, Any] = {}  # kinds by themselves, and entry points by function and kinds


def kind_of(value: object) -> Any:
    """Return what the type depends on that compiled code sees a value as: the same object for the same type."""
    kind = _kind_of(value)
    return _known.setdefault(kind, kind)


def _kind_of(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    return (type(value), *map(_kind_of, value)) if isinstance(value, tuple) else type(value)


def entry_point(function: Callable[P, R], *arguments: Any, given: object = None) -> Callable[P, R]:
    """Return a compiled function for arguments of exactly these types; ``given``: those that may have others."""
    key = function, _kind_of(arguments if given is None else given)
    found: Callable[P, R] | None = _known.get(key)
    if found is None:
        kinds = tuple(map(typeof, arguments))
        found = _known[key] = function.compile(kinds)  # type: ignore[attr-defined]
    return found
