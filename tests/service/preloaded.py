"""What every service loads at its start, loaded once for those that are forked: see ``tests.service.starts``."""

from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path

from livesvm.service.cli.serve import BEFORE_NUMPY

gc.disable()  # as in a start
for name, value in BEFORE_NUMPY.items():
    os.environ.setdefault(name, value)
for name in [name for name in os.environ if name.startswith("LIVESVM_")]:
    del os.environ[name]

import uvicorn.lifespan.on  # noqa: E402
import uvicorn.loops.uvloop  # noqa: E402, F401
from threadpoolctl import threadpool_limits  # noqa: E402

import livesvm.service.cli.main  # noqa: E402
import livesvm.service.logs.lines  # noqa: E402, F401
from livesvm.service.api.app import create_app  # noqa: E402
from livesvm.service.lifecycle import parts  # noqa: E402
from livesvm.service.process import rehearsal, server, start  # noqa: E402, F401
from livesvm.service.settings import Settings  # noqa: E402
from livesvm.solvers.warm_up import warm_up  # noqa: E402

warm_up("updates")
rehearsal.play = lambda *_: None  # longer than all else of a start; what is started afresh does it
threadpool_limits(1)
for module, name in ((parts, "warm_up"), (start, "threadpool_limits")):
    setattr(module, name, lambda _: None)
with tempfile.TemporaryDirectory() as directory:  # which fills caches of what every start asks for
    service = parts.Service(Settings(data_dir=Path(directory)))
    create_app(service.settings, service=service)
    service.close()
gc.freeze()
