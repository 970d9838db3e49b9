"""What every service loads at its start, loaded once for those that are forked: see ``tests.service.starts``."""

from __future__ import annotations

import gc
import os

from livesvm.service.cli.serve import BEFORE_NUMPY

gc.disable()  # as in a start
for name, value in BEFORE_NUMPY.items():
    os.environ.setdefault(name, value)

import uvicorn.lifespan.on  # noqa: E402
import uvicorn.loops.uvloop  # noqa: E402, F401

import livesvm.service.cli.main  # noqa: E402
import livesvm.service.logs.lines  # noqa: E402
import livesvm.service.process.server  # noqa: E402
import livesvm.service.process.start  # noqa: E402, F401
from livesvm.service.process import rehearsal  # noqa: E402
from livesvm.solvers.warm_up import warm_up  # noqa: E402

warm_up("updates")
rehearsal.play = lambda *_: None  # longer than all else of a start; what is started afresh does it
gc.freeze()
