"""What compiled code runs on: of Numba the inside too, so that only versions are accepted that it was tried with."""

from __future__ import annotations

import numba

from livesvm.solvers.errors import UnsupportedNumba

TRIED = ("0.67", "0.68")  #: minor versions; the range of ``pyproject.toml`` names the same


def check_version(found: str) -> None:
    """Raise UnsupportedNumba for a version that was not tried: its inside may be another one."""
    if ".".join(found.split(".")[:2]) not in TRIED:
        reason = f"Numba {found} has not been tried with the solvers"
        raise UnsupportedNumba(f'{reason}; install one of {" and ".join(TRIED)}: pip install "numba=={TRIED[-1]}.*"')


check_version(numba.__version__)
