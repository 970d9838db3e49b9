"""After any sequence of updates every pair of classes is optimal, whoever came, left or changed sides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.solvers import IncrementalSVC
from tests.several import gaps

WORDS = np.array(["ape", "bee", "cat", "dog", "eel"])


def check(model: IncrementalSVC) -> None:
    """Assert that every pair is optimal by the oracle, and that the certificate says so."""
    found = gaps(model)
    for two, one in found.items():
        assert one.relative <= 1e-8, (two, one)
        assert max(one.box_violation, one.sum_violation) <= 1e-11 * max(model.n_window_, 1) * model.C, (two, one)
    certificate = model.certificate()
    assert certificate.relative_gap <= 1e-8
    assert certificate.n_examples == model.n_window_


@given(
    seed=st.integers(0, 2**32 - 1),
    n_classes=st.integers(2, 5),
    steps=st.integers(1, 5),
    C=st.sampled_from([0.1, 1.0, 30.0]),
    grid=st.booleans(),
    class_weight=st.sampled_from([None, "balanced", "some"]),
    kernel=st.sampled_from(["rbf", "linear", "poly"]),
)
def test_every_pair_is_optimal_after_every_update(
    seed: int, n_classes: int, steps: int, C: float, grid: bool, class_weight: str | None, kernel: str
) -> None:
    rng = np.random.default_rng(seed)
    weights = {"ape": 2.0, "cat": 0.5} if class_weight == "some" else class_weight
    classes = WORDS if class_weight == "some" else None
    model = IncrementalSVC(C=C, kernel=kernel, gamma=0.7, coef0=1.0, class_weight=weights, classes=classes)
    here: list[int] = []
    for step in range(steps + 1):
        m = int(rng.integers(1, 14)) if step == 0 or rng.random() < 0.8 else 0
        X = rng.normal(size=(m, 2))
        X = np.round(X) if grid else X
        y = WORDS[rng.integers(0, min(n_classes, 1 + step * 2), m)]  # new classes come later
        gone = rng.permutation(here)[: int(rng.integers(0, len(here) + 1)) if step else 0].tolist()
        stay = [key for key in here if key not in gone]
        reported = rng.permutation(stay)[: int(rng.integers(0, 4))].tolist()
        if m == 0 and not gone and not reported:
            continue
        report = model.update(
            add=(X, y) if m else None,
            remove=gone or None,
            sample_weight=rng.choice([0.0, 0.5, 1.0, 3.0], m) if m else None,
            relabel={key: str(rng.choice(model.classes_)) for key in reported} or None,
        )
        here = [*stay, *[int(key) for key in report.added]]
        assert model.keys_ == here
        check(model)
    if model.n_window_:
        model.update(C=2 * C, decay=0.9)
        check(model)


@pytest.mark.parametrize("seed", range(3))
def test_larger_windows_slide(seed: int) -> None:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(6, 4)) * 2
    y = rng.integers(0, 6, 700)
    X = centres[y] + rng.normal(size=(700, 4))
    model = IncrementalSVC(C=10.0, gamma=0.2).fit(X[:400], y[:400])
    for start in range(400, 700, 60):
        model.update(add=(X[start : start + 60], y[start : start + 60]), remove=model.keys_[:60])
    check(model)
