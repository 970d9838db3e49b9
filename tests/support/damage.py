"""Stores that are filled, to be damaged."""

from __future__ import annotations

import numpy as np

from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.window import WindowLimits
from livesvm.service.store.base import Lease, Store
from livesvm.solvers.models.change import Batch, Change

SPEC = ModelSpec(id="m", kernel={"name": "rbf", "gamma": 0.5})  # type: ignore[arg-type]


SNAPSHOTS = (2, 4)


RECORDS = 5


def fill(store: Store, rows: int, d: int) -> Lease:
    """Keep a model of five updates, snapshot after the second and the fourth."""
    rng = np.random.default_rng(0)
    lease = store.create("m", b"")
    state = ModelState.empty(SPEC, 16)
    for sequence in range(1, RECORDS + 1):
        added = Batch(rng.normal(size=(rows, d)), rng.choice([-1.0, 1.0], rows))
        command = state.window.plan(Change(added), WindowLimits(10_000, 1000), 0.0, None)
        store.append(lease, sequence, command.encode(), None, keep=1)
        state.apply(command)
        if sequence in SNAPSHOTS:
            store.save_snapshot(lease, sequence, state.encode(), state.version)
    return lease
