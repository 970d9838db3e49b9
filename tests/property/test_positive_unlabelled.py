"""Live models of positive and unlabelled examples: after any updates they are what USMO makes of the window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livesvm.solvers import IncrementalPUClassifier
from tests.support.positive_unlabelled import assert_optimal

pytestmark = pytest.mark.filterwarnings("ignore:.* would be predicted to be positive")  # of tiny windows


def drawn_update(model: IncrementalPUClassifier, rng: np.random.Generator, grid: bool) -> dict[str, Any]:
    """Return an update by some of the verbs, which leaves examples of both kinds."""
    verbs: dict[str, Any] = {}
    y, keys = model.window_y, model.keys_
    rest = rng.permutation(np.concatenate([np.flatnonzero(y == 1)[2:], np.flatnonzero(y == 0)[2:]]))
    leave, relabel, reweight = rest[: rng.integers(0, 5)], rest[6 : 6 + rng.integers(0, 3)], rest[8:11]
    if rng.random() < 0.7:
        X = rng.normal(size=(int(rng.integers(1, 7)), 2)) * 1.5
        labels = (rng.random(len(X)) < 0.3).astype(int)
        verbs["add"] = np.round(X) if grid else X, labels
        verbs["sample_weight"] = rng.uniform(0.2, 2.0, len(X)) if rng.random() < 0.5 else None
    if leave.size:
        verbs["remove"] = [keys[i] for i in leave]
    if relabel.size:
        verbs["relabel"] = {keys[i]: int(1 - y[i]) for i in relabel}
    if rng.random() < 0.3:
        verbs["reweight"] = {keys[i]: float(rng.choice([0.0, 0.5, 3.0])) for i in reweight}
    if rng.random() < 0.3:
        verbs["decay"] = 0.8
    if rng.random() < 0.3 or not verbs:
        verbs["lam"] = float(10.0 ** rng.uniform(-3, 0))
    return verbs


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(["linear", "rbf"]), st.booleans(), st.floats(0.05, 0.95))
def test_any_updates_end_at_what_usmo_finds_from_nothing(seed: int, kernel: str, grid: bool, prior: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(26, 2)) * 1.5
    model = IncrementalPUClassifier(prior, 0.03, kernel, gamma=0.5)
    model.fit(np.round(X) if grid else X, np.arange(26) % 3 == 0)
    assert_optimal(model)
    for _ in range(4):
        model.update(**drawn_update(model, rng, grid))
        assert_optimal(model)
        if rng.random() < 0.3:
            model.change(prior=float(rng.uniform(0.05, 0.95)))
            assert_optimal(model)
