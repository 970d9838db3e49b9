"""Updates of every kind for models of every task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from livesvm.service.hosting.model import HostedModel
from livesvm.service.models.commands import Removal
from livesvm.service.models.spec import ModelSpec
from livesvm.service.store.base import StoreUnavailable
from livesvm.solvers.models.change import Change, Edits
from tests.support.live_models import FailingStore, batch

SPEC = ModelSpec.model_validate({"id": "m", "C": 10.0, "window": {"max_examples": 30}})


REGRESSION = ModelSpec.model_validate({"id": "m", "task": "svr", "C": 5.0, "epsilon": 0.1})


ONE_CLASS = ModelSpec.model_validate({"id": "m", "task": "oneclass", "nu": 0.3})


def any_update(rng: np.random.Generator, live: HostedModel) -> Change:
    """Return an update that adds, removes, brings back, relabels, reweights, decays, or changes C."""
    keys = list(live.current.window.arrivals)
    if not keys:
        return batch(int(rng.integers(1000)))
    leaving = [keys[i] for i in rng.choice(len(keys), int(rng.integers(0, min(4, len(keys)))), replace=False)]
    staying = [key for key in keys if key not in leaving]
    remove = Removal(keys=leaving) if leaving else None
    add = batch(int(rng.integers(1000)), int(rng.integers(1, 6))).add
    if add is not None and live.spec.task == "oneclass":
        add = replace(add, y=None)
    if add is not None and rng.random() < 0.3:
        unused = [f"{name}" for name in range(40) if f"{name}" not in keys]
        add = replace(add, keys=[str(key) for key in rng.choice(unused, len(add.X), replace=False)])
    kind = rng.integers(6)
    if kind == 0 or not staying:
        return Change(add, remove, on_repeat="replace")
    some = [staying[i] for i in rng.choice(len(staying), min(2, len(staying)), replace=False)]
    weights = {key: float(rng.uniform(0.5, 2.0)) for key in some}
    labels = {key: float(rng.choice([-1.0, 1.0])) for key in some}
    edits = [
        Edits(reweight=weights),
        Edits(decay=0.9),
        Edits(C=float(rng.uniform(1.0, 9.0))) if live.spec.C is not None else Edits(decay=0.8),
        Edits(relabel=labels) if live.spec.task != "oneclass" else Edits(reweight=weights, decay=0.7),
        Edits(decay=0.99, reweight=weights),
    ]
    return Change(add if rng.random() < 0.5 else None, remove, edits[kind - 1], "replace")


def taken_back(store: FailingStore, ask: Callable[[], Any]) -> None:
    """Have a command logged and taken back: the store says that it failed when it was there already."""
    store.failing, store.after_effect = "append", True
    with pytest.raises(StoreUnavailable):
        ask().result()
    store.failing = ""
