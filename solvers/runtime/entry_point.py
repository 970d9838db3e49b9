"""Calls of compiled code that skip the check of argument types, which would take as long as a short path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numba import typeof

P = ParamSpec("P")
R = TypeVar("R")

ROWS, COLUMNS, OWNED = 1, 2, 4  #: of an array's flags: in C and in Fortran order, and its own memory

_known: dict[Any, Any] = {}  # kinds by themselves, and entry points by function and kinds


def kind_of(value: object) -> Any:
    """Return the kind of a value, which stands for its compiled type: values of one type have the same kind."""
    kind = _kind_of(value)
    return _known.setdefault(kind, kind)


def _kind_of(value: object) -> Any:
    if isinstance(value, np.ndarray):
        flags = value.flags.num  # whether it owns its memory is left out, and that a row is a column too
        return value.dtype, value.ndim, flags & ~(OWNED | COLUMNS if flags & ROWS else OWNED)
    return (type(value), *map(_kind_of, value)) if isinstance(value, tuple) else type(value)


def entry_point(function: Callable[P, R], *arguments: Any, kind: object = None) -> Callable[P, R]:
    """Return a compiled function for arguments of exactly these types; ``kind`` is the arguments' kind, if known."""
    key = function, kind or _kind_of(arguments)
    found: Callable[P, R] | None = _known.get(key)
    if found is None:
        kinds = tuple(map(typeof, arguments))
        found = _known[key] = function.compile(kinds)  # type: ignore[attr-defined]
    return found
