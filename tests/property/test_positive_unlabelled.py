"""Live models of positive and unlabelled examples: after any updates they are what USMO makes of the window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livesvm.solvers import IncrementalPUClassifier
from tests.support.positive_unlabelled import assert_optimal, assert_optimal_with_negatives

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


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(["linear", "rbf"]), st.floats(0.05, 0.95))
def test_any_updates_with_confirmed_negatives_end_at_the_optimum(seed: int, kernel: str, prior: float) -> None:
    rng = np.random.default_rng(seed)
    X, confirmed = rng.normal(size=(30, 2)) * 1.5, rng.random(4) < 0.7
    model = IncrementalPUClassifier(prior, 0.03, kernel, gamma=0.5)
    model.fit(X, np.where(np.arange(30) % 3 == 0, 1, np.append(-confirmed.astype(int), np.zeros(26))))
    assert_optimal_with_negatives(model)
    for _ in range(4):
        verbs = drawn_update(model, rng, grid=False)
        removed, y = set(verbs.get("remove", ())), model.window_y
        open_cases = [key for key, label in zip(model.keys_, y, strict=True) if label != 1 and key not in removed]
        verbs.setdefault("relabel", {}).update({key: int(rng.integers(-1, 1)) for key in open_cases[:5]})
        model.update(**verbs)
        assert_optimal_with_negatives(model)
    known = np.flatnonzero(model.window_y == -1)
    model.update(relabel={model.keys_[place]: 0 for place in known})
    assert_optimal(model)
    assert_optimal_with_negatives(model)
