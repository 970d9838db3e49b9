"""``livesvm serve``: run the service."""

from __future__ import annotations

import gc
import os
import sys

BEFORE_NUMPY = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMPY_MADVISE_HUGEPAGE": "0",
}
"""Environment variables that libraries read once, as they are loaded. NumPy requests no huge pages: a virtual machine
may have to find memory for each page at its first write, which would delay the restoring of a large model."""

UNSUPPORTED = "livesvm: the service does not run on Windows: run it on Linux, in WSL or in a container"


def serve() -> int:
    """Run the service with settings from the environment, and return its exit status: 2 if settings are not valid."""
    if sys.platform == "win32":
        print(UNSUPPORTED, file=sys.stderr)
        return 2
    gc.disable()  # nothing that a start makes is garbage; the restored service collects again
    for name, value in BEFORE_NUMPY.items():
        os.environ.setdefault(name, value)
    from pydantic import ValidationError

    from livesvm.service.process.start import start
    from livesvm.service.settings import PREFIX, Settings

    try:
        settings = Settings()
    except ValidationError as error:
        for fault in error.errors():
            name = PREFIX + str(fault["loc"][0]).upper() + ": " if fault["loc"] else ""
            print(f"livesvm: {name}{fault['msg'].removeprefix('Value error, ')}", file=sys.stderr)
        return 2
    return start(settings)
