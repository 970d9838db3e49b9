"""One place that says how hot loops are compiled, and where the machine code is kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

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
    directory = cache_directory()
    options: dict[str, Any] = {
        "nogil": True,
        "fastmath": set(FAST_MATH),
        "error_model": "numpy",
        "cache": directory is not None,
        "_nrt": counts_references,
        "forceinline": inline,
    }
    before = getattr(numba.config, "CACHE_DIR")  # noqa: B009 - its attributes are made at run time
    setattr(numba.config, "CACHE_DIR", directory or "")  # noqa: B010
    try:
        machine_code = numba.njit(**options)(function)
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
    source = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for file in sorted(source.rglob("*.py")):
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
