"""One place that says how hot loops are compiled, and where the machine code is kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

#: Sums may be reassociated and fused, which lets them use vector instructions. Infinities and NaN keep their
#: meaning: limits that do not exist are infinite.
FAST_MATH = frozenset({"reassoc", "contract", "nsz"})


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function to machine code that releases the GIL; the result is kept on disk where there is a place."""
    directory = cache_directory()
    before = getattr(numba.config, "CACHE_DIR")  # noqa: B009 - its attributes are made at run time
    setattr(numba.config, "CACHE_DIR", directory or "")  # noqa: B010
    try:
        machine_code = numba.njit(
            nogil=True, cache=directory is not None, fastmath=set(FAST_MATH), error_model="numpy"
        )(function)
    finally:
        setattr(numba.config, "CACHE_DIR", before)  # noqa: B010
    return cast("Callable[P, R]", machine_code)


@cache
def cache_directory() -> str | None:
    """Return where machine code of exactly this source is kept; None: nowhere can be written to.

    Numba's own cache looks at a function's file only, and would go on using code that called an older version of
    another file. So each state of the package has a directory of its own, named by its fingerprint: below
    ``NUMBA_CACHE_DIR`` if that is set, else beside the source, else in the user's cache; never where others could put
    code for us to run.
    """
    source = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(source.glob("*.py")):
        digest.update(file.read_bytes())
    name = f"livesvm-{digest.hexdigest()[:16]}"
    given = os.environ.get("NUMBA_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    places = [Path(given)] if given else [source / "__pycache__", user / "livesvm"]
    for place in places:
        directory = place / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(directory, os.R_OK | os.W_OK | os.X_OK):
            return str(directory)
    return None
