"""One place that says how hot loops are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

#: Sums may be reassociated and fused, which lets them use vector instructions. Infinities and NaN keep their meaning:
#: limits that do not exist are infinite.
FAST_MATH = frozenset({"reassoc", "contract", "nsz"})


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function to machine code that releases the GIL; the result is cached on disk."""

    def build(*, cache: bool) -> Callable[P, R]:
        machine_code = numba.njit(nogil=True, cache=cache, fastmath=set(FAST_MATH), error_model="numpy")(function)
        return cast("Callable[P, R]", machine_code)

    try:
        return build(cache=True)
    except RuntimeError:  # no directory to cache in can be written to
        return build(cache=False)
