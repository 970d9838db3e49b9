"""The runtime of compiled code; as it uses Numba's internals, only versions of Numba that were tested are accepted."""

from __future__ import annotations

import numba

from livesvm.solvers.errors import UnsupportedNumba

TRIED = ("0.67", "0.68")  #: minor versions; the range of ``pyproject.toml`` names the same


def check_version(found: str) -> None:
    """Raise UnsupportedNumba for a version of Numba that was not tested, as its internals may differ."""
    if ".".join(found.split(".")[:2]) not in TRIED:
        reason = f"Numba {found} has not been tried with the solvers"
        raise UnsupportedNumba(f'{reason}; install one of {" and ".join(TRIED)}: pip install "numba=={TRIED[-1]}.*"')


check_version(numba.__version__)
