"""One place that says how hot loops are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

from solvers.runtime.machine_code import MachineCode

P = ParamSpec("P")
R = TypeVar("R")

#: Sums may be reassociated and fused, which lets them use vector instructions. Infinities and NaN keep their
#: meaning: limits that do not exist are infinite.
FAST_MATH = frozenset({"reassoc", "contract", "nsz"})


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that makes no arrays to machine code that releases the GIL.

    It borrows the arrays it is given, so no references are counted: with tuples of arrays as arguments that would take
    longer than the work of a small event. The result is kept on disk where there is a place.
    """
    return _machine_code(function, counts_references=False)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """The same for a function that is called at every event: its code becomes part of whoever calls it.

    To hand over a walk takes hundreds of words, and a few such calls as long as the work of a small event.
    """
    return _machine_code(function, counts_references=False, inline=True)


def compiled_allocating(function: Callable[P, R]) -> Callable[P, R]:
    """The same for a function that makes arrays, or is returned some."""
    return _machine_code(function, counts_references=True)


def _machine_code(function: Callable[P, R], counts_references: bool, inline: bool = False) -> Callable[P, R]:
    options: dict[str, Any] = {
        "nogil": True,
        "fastmath": set(FAST_MATH),
        "error_model": "numpy",
        "_nrt": counts_references,
        "forceinline": inline,
    }
    dispatcher = numba.njit(**options)(function)
    dispatcher._cache = MachineCode(dispatcher)
    return cast("Callable[P, R]", dispatcher)
