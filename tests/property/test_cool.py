"""A model that gives up what can be made again, at any moment of any history, stays the same model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livesvm.service.models.commands import Removal
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.window import WindowLimits
from livesvm.solvers.models.change import Batch, Change, Edits
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.sparse import SparseRows

CACHE_MB = 16
LIMITS = WindowLimits(10**4, 10**3)
D = 3
PROBE = np.random.default_rng(1).normal(size=(20, D))
KERNEL = {"name": "rbf", "gamma": 0.3}
SPECS: dict[str, dict[str, Any]] = {
    "classes": {"task": "svc", "C": 2.0, "kernel": KERNEL},
    "weighted": {"task": "svc", "C": 2.0, "kernel": KERNEL, "class_weight": {"1": 3.0}, "scale": "standard"},
    "sparse": {"task": "svc", "C": 2.0, "kernel": KERNEL},
    "robust": {"task": "svc", "C": 2.0, "kernel": KERNEL},
    "several": {"task": "svc", "C": 2.0, "kernel": KERNEL},
    "linear": {"task": "svr", "C": 0.5, "kernel": {"name": "linear"}},
    "pinball": {"task": "svr", "loss": "pinball", "quantile": 0.8, "kernel": KERNEL},
    "one class": {"task": "oneclass", "nu": 0.3, "kernel": KERNEL},
    "positive": {"task": "pu", "prior": 0.4, "lam": 0.05, "kernel": KERNEL},
    "large": {"task": "l2svc", "kernel": KERNEL},
}


class History:
    """Updates of one kind of model, drawn one after the other."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind, self.rng = kind, np.random.default_rng(seed)
        self.spec = ModelSpec.model_validate({"id": "m", **SPECS[kind]})

    def batch(self, m: int) -> Batch:
        """New examples."""
        X = self.rng.normal(size=(m, D))
        if self.kind == "sparse":
            X[self.rng.random(X.shape) < 0.3] = 0.0
        y = self.targets(X)
        return Batch(SparseRows.of_dense(X) if self.kind == "sparse" else X, y)

    def targets(self, X: Any) -> Any:
        """Their targets."""
        score = X[:, 0] + 0.7 * self.rng.normal(size=len(X))
        if self.spec.task == "svr":
            return score
        if self.spec.task == "oneclass":
            return None
        if self.spec.task == "pu":
            return np.where((score > 0) & (self.rng.random(len(X)) < 0.5), 1.0, 0.0)
        if self.kind == "several":
            return np.array(["a", "b", "c"])[np.digitize(score, [-0.5, 0.5])]
        return np.where(score > 0, 1.0, -1.0)

    def next(self, state: ModelState, step: int) -> Change:
        """Return an update that adds and removes, and sometimes reweights, corrects, decays or changes C."""
        if step == 0:
            return Change(self.batch(40))
        if step == 3 and self.kind == "robust":
            return Change(edits=Edits(robust=Robustness(0.5, -0.5)))
        keys = list(state.window.arrivals)
        leaving = self.rng.choice(keys, int(self.rng.integers(0, 6)), replace=False).tolist()
        some = [key for key in keys if key not in leaving][:2]
        edits = [
            Edits(reweight=dict.fromkeys(some, 0.5)),
            Edits(decay=0.95),
            Edits(C=3.0) if state.spec.has_C else None,
            None,
        ][int(self.rng.integers(4))]
        add = self.batch(int(self.rng.integers(1, 9)))
        return Change(add, Removal(keys=leaving) if leaving else None, edits)


def applied(state: ModelState, update: Change) -> None:
    state.apply(state.window.plan(update, LIMITS, 1e9, None))


def decisions(state: ModelState) -> Any:
    predictor = state.published().predictor
    if predictor is None:
        return np.zeros(0)
    X = SparseRows.of_dense(PROBE) if state.window.is_sparse else PROBE
    return predictor.decision_function(X)


@pytest.mark.parametrize("kind", SPECS)
@given(seed=st.integers(0, 2**20), cooled=st.lists(st.booleans(), min_size=7, max_size=7))
@settings(max_examples=5)
def test_a_model_that_cools_at_any_moment_is_the_same(kind: str, seed: int, cooled: list[bool]) -> None:
    history = History(kind, seed)
    plain, other = (ModelState.empty(history.spec, CACHE_MB) for _ in range(2))
    for step, cools in enumerate(cooled):
        update = history.next(plain, step)
        applied(plain, update)
        applied(other, update)
        assert other.hot_bytes > 0 or kind == "large"
        if cools:
            found, encoded, held = decisions(other), other.encode(), other.held_bytes
            hot = other.hot_bytes
            other.cool()
            assert other.hot_bytes == 0
            assert other.held_bytes <= held - hot
            assert np.array_equal(decisions(other), found)
            assert other.encode() == encoded
        assert (other.version, other.sizes.n_examples) == (plain.version, plain.sizes.n_examples)
        assert list(other.window.arrivals) == list(plain.window.arrivals) == list(other.estimator.keys_)
        np.testing.assert_allclose(decisions(other), decisions(plain), rtol=1e-9, atol=1e-9)
        if kind != "large":
            assert other.certificate()["relative_gap"] <= max(1e-9, 10 * plain.certificate()["relative_gap"])
