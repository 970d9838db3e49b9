"""Rows with keys that come again: refused, left out, or in place of what is there, in every estimator."""

from __future__ import annotations

import random
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from livesvm.solvers import IncrementalOneClassSVM, IncrementalPUClassifier, IncrementalSVC, IncrementalSVR
from livesvm.solvers.errors import DuplicateKey, InvalidInput, UnknownKey
from livesvm.solvers.estimators.large_window import LiveL2SVC

RNG = np.random.default_rng(5)
N = 24
X = RNG.normal(size=(N, 2))
LABELS = np.where(X[:, 0] + 0.3 * RNG.normal(size=N) > 0, 1, -1)
LABELS[:4] = [1, -1, 1, -1]
THREE = np.array(["a", "b", "c"])[np.arange(N) % 3]
KEYS = [f"k{i}" for i in range(N)]
KINDS: dict[str, tuple[Any, Any]] = {
    "two classes": (lambda: IncrementalSVC(C=2.0, gamma=0.5), LABELS),
    "three classes": (lambda: IncrementalSVC(C=2.0, gamma=0.5), THREE),
    "scaled": (lambda: IncrementalSVC(C=2.0, gamma=0.5, scale="standard"), LABELS),
    "regression": (lambda: IncrementalSVR(C=2.0, gamma=0.5), X[:, 1] + X[:, 0] ** 2),
    "one class": (lambda: IncrementalOneClassSVM(nu=0.4, gamma=0.5), None),
    "positive and unlabelled": (lambda: IncrementalPUClassifier(prior=0.4, lam=0.1, gamma=0.5), LABELS > 0),
    "large": (lambda: LiveL2SVC(C=2.0, gamma=0.5), LABELS),
}
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def rows(y: Any, some: Any) -> tuple[Any, Any]:
    return X[some], None if y is None else y[some]


def held(model: Any) -> dict[str, Any]:
    """Return what a model holds, and decides."""
    arrays = model.to_arrays()
    found = {name: np.asarray(arrays[name]).tolist() for name in ("X", "y", "sample_weight", "keys")}
    return found | ({} if isinstance(model, LiveL2SVC) else {"f": model.predictor().decision_function(X)})


def check_same(one: Any, other: Any) -> None:
    mine, theirs = held(one), held(other)
    decided, expected = (found.pop("f", np.zeros(1)) for found in (mine, theirs))
    assert mine == theirs
    np.testing.assert_allclose(decided, expected, rtol=0, atol=1e-6)


@EACH_KIND
@pytest.mark.parametrize("seed", range(2))
def test_batches_that_come_again_have_one_effect(kind: str, seed: int) -> None:
    """Each batch is delivered in order, and any earlier one again at any time."""
    make, y = KINDS[kind]
    draw, once, again = random.Random(seed), make(), make()
    cuts = [0, *sorted(draw.sample(range(6, N), 4)), N]
    batches = [list(range(*cut)) for cut in pairwise(cuts)]
    for number, batch in enumerate(batches):
        names = [KEYS[i] for i in batch]
        once.update(add=rows(y, batch), keys=names)
        doubled = batch + draw.sample(batch, min(2, len(batch)))  # also inside a batch
        report = again.update(add=rows(y, doubled), keys=[KEYS[i] for i in doubled], on_repeat="ignore")
        assert (list(report.added), report.ignored) == (names, tuple(KEYS[i] for i in doubled[len(batch) :]))
        for earlier in draw.choices(batches[: number + 1], k=2):
            known = [KEYS[i] for i in earlier]
            verbs: dict[str, Any] = {"decay": 0.5} if draw.random() < 0.5 else {"remove": ["gone"]}
            report = again.update(add=rows(y, earlier), keys=known, on_repeat="ignore", **verbs)
            assert (report.added, report.removed, report.ignored) == ((), (), tuple(known))
        check_same(once, again)


@EACH_KIND
def test_what_replaces_is_removed_and_added(kind: str) -> None:
    make, y = KINDS[kind]
    models = [make(), make()]
    for model in models:
        model.update(add=rows(y, np.arange(12)), keys=KEYS[:12])
    mine, theirs = models
    new, names = np.array([12, 13, 14]), ["k3", "new", "k0"]
    report = mine.update(add=rows(y, new), keys=names, on_repeat="replace", remove=["k5"])
    theirs.update(add=rows(y, new), keys=names, remove=["k5", "k3", "k0"])
    assert (report.added, report.removed, report.ignored) == (("k3", "new", "k0"), ("k5", "k3", "k0"), ())
    check_same(mine, theirs)
    assert list(mine.keys_)[-3:] == names
    report = mine.update(add=rows(y, np.array([15, 16])), keys=["k1", "k1"], on_repeat="replace")
    theirs.update(add=rows(y, np.array([16])), keys=["k1"], remove=["k1"])
    assert (report.added, report.ignored) == (("k1",), ("k1",))
    check_same(mine, theirs)


@EACH_KIND
def test_a_refusal_names_all_and_changes_nothing(kind: str) -> None:
    make, y = KINDS[kind]
    model = make()
    model.update(add=rows(y, np.arange(12)), keys=KEYS[:12])
    before = held(model)
    with pytest.raises(DuplicateKey, match=r"3 keys .*'k2', 'k0' are in .*'n' stands twice; on_repeat") as caught:
        model.update(add=rows(y, np.arange(12, 17)), keys=["k2", "n", "k0", "n", "m"])
    assert (caught.value.field, caught.value.row) == ("keys", 0)
    with pytest.raises(InvalidInput, match="'refuse', 'ignore', 'replace', not 'both'"):
        model.update(add=rows(y, np.arange(12, 13)), keys=["n"], on_repeat="both")
    with pytest.raises(UnknownKey):
        model.update(add=rows(y, np.arange(11, 13)), keys=["k2", "n"], remove=["none"], on_repeat="ignore")
    after = held(model)
    assert str(after) == str(before)


def test_twenty_keys_are_named_and_the_others_counted() -> None:
    model = IncrementalSVC(gamma=0.5).fit(X, LABELS, keys=KEYS)
    with pytest.raises(
        DuplicateKey, match=r"^keys, row 0: 24 keys are repeated: .*'k19' are in .*, and 4 more;"
    ) as found:
        model.update(add=(X, LABELS), keys=KEYS)
    assert "'k20'" not in str(found.value)


def test_an_ignored_row_brings_no_class() -> None:
    model = IncrementalSVC(gamma=0.5).fit(X, LABELS, keys=KEYS)
    report = model.update(add=(X[:2], [7, 1]), keys=["k3", "new"], on_repeat="ignore")
    assert (report.added, report.ignored, model.classes_.tolist()) == (("new",), ("k3",), [-1, 1])


FRAME = partial(pd.DataFrame, columns=["a", "b"])


@pytest.mark.parametrize("form", [np.asarray, csr_array, np.ndarray.tolist, FRAME])
def test_rows_of_any_form_are_left_out(form: Any) -> None:
    model = IncrementalSVC(gamma=0.5)
    model.partial_fit(form(X[:4]), pd.Series(LABELS[:4]), keys=pd.Series(KEYS[:4]))
    model.partial_fit(form(X[2:6]), pd.Series(LABELS[2:6], [9, 8, 7, 6]), keys=KEYS[2:6], on_repeat="ignore")
    assert model.keys_ == KEYS[:6]
    held = model.window_X
    np.testing.assert_array_equal(held.toarray() if hasattr(held, "toarray") else held, X[:6])


def test_kernel_values_of_rows_that_are_left_out_are_too() -> None:
    gram = X @ X.T
    mine, theirs = IncrementalSVC(kernel="precomputed"), IncrementalSVC(kernel="precomputed")
    for model in (mine, theirs):
        model.update(add=(gram[:8, :8], LABELS[:8]), keys=KEYS[:8])
    here = [*range(8), 8, 3, 9]
    mine.update(add=(gram[np.ix_([8, 3, 9], here)], LABELS[[8, 3, 9]]), keys=["k8", "k3", "k9"], on_repeat="ignore")
    theirs.update(add=(gram[8:10, :10], LABELS[8:10]), keys=["k8", "k9"])
    assert mine.keys_ == theirs.keys_
    decided, expected = (model.decision_function(gram[:, :10]) for model in (mine, theirs))
    np.testing.assert_allclose(decided, expected, rtol=0, atol=1e-8)
