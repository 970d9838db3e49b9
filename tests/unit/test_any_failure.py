"""A failure at any step of a change: the model is as it was, bit for bit, or the change had its whole effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from livesvm.solvers import (
    FrankWolfeSVC,
    IncrementalOneClassSVM,
    IncrementalPUClassifier,
    IncrementalSVC,
    IncrementalSVR,
    PUClassifier,
)
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.robust.settings import Robustness
from tests.support.interrupts import Calls, Injected

MOST = 40  #: failures a change: half of them among its last calls, where what is found is taken over
RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 2))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=40) > 0, 1, -1)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
FLAGS = (Y + 1) // 2
GRAM = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
WORDS = ["abc"[i % 3] * (i % 4 + 1) for i in range(40)]

Model = Any
Case = tuple[Callable[[], Model], Callable[[Model], Any]]


def shared_letters(rows: list[str], others: list[str]) -> Any:
    """Return a kernel of words."""
    return np.array([[sum(min(a.count(c), b.count(c)) for c in "abc") + 1.0 * (a == b) for b in others] for a in rows])


def svc(y: Any = Y, **parameters: Any) -> Model:
    return IncrementalSVC(**{"C": 2.0, "gamma": 0.5} | parameters).fit(X[:20], y[:20])


def robust() -> Model:
    model = svc(C=10.0)
    model.update(robust=Robustness(0.2, -0.1))
    return model


def large() -> Model:
    model = LiveL2SVC(C=2.0, gamma=0.5)
    model.update(add=(X[:20], Y[:20]))
    model.retrain(tol=0.1)
    return model


def svr() -> Model:
    return IncrementalSVR(C=5.0, gamma=0.5).fit(X[:20], X[:20, 0])


def one_class() -> Model:
    return IncrementalOneClassSVM(nu=0.3, gamma=0.5).fit(X[:20])


def pu() -> Model:
    return IncrementalPUClassifier(prior=0.4, lam=0.003, gamma=0.5).fit(X[:20], FLAGS[:20])


def waiting() -> Model:
    model = IncrementalPUClassifier(prior=0.4, lam=0.003, gamma=0.5)
    model.update((X[:6], np.zeros(6)))
    return model


def slide(rows: Any, y: Any) -> Callable[[Model], Any]:
    return lambda model: model.update(add=(rows[20:24], None if y is None else y[20:24]), remove=model.keys_[:3])


CASES: dict[str, Case] = {
    "first": (lambda: IncrementalSVC(gamma=0.5), lambda m: m.update(add=(X[:9], Y[:9]))),
    "first with classes": (lambda: IncrementalSVC(gamma=0.5), lambda m: m.partial_fit(X[:9], Y[:9], classes=[-1, 1])),
    "fit again": (svc, lambda m: m.fit(X[10:30], THREE[10:30])),
    "slide": (svc, slide(X, Y)),
    "slide of three": (lambda: svc(THREE), slide(X, THREE)),
    "most": (svc, lambda m: m.update(add=(X[20:], Y[20:]), remove=m.keys_[:18])),
    "partial_fit": (svc, lambda m: m.partial_fit(X[20:24], Y[20:24])),
    "a third class": (svc, lambda m: m.update(add=(X[20:22], [5, 0]), remove=[0])),
    "more classes": (lambda: svc(THREE), lambda m: m.update(add=(X[20:22], [-5, 2**60 + 1]))),
    "a second class": (
        lambda: IncrementalSVC(gamma=0.5).fit(X[:3], [1, 1, 1]),
        lambda m: m.update(add=(X[3:5], [2, 2])),
    ),
    "relabel": (svc, lambda m: m.update(relabel={0: 7, 1: -1})),
    "reweight": (svc, lambda m: m.update(reweight={3: 0.5}, decay=0.9, C=3.0)),
    "C of three": (lambda: svc(THREE), lambda m: m.update(C=3.0)),
    "set_params": (lambda: svc().set_params(C=3.0), lambda m: m.update()),
    "balanced": (lambda: svc(class_weight="balanced"), slide(X, Y)),
    "scaled": (lambda: svc(scale="standard"), slide(X, Y)),
    "rescale": (lambda: svc(scale="standard"), lambda m: m.rescale()),
    "change gamma": (svc, lambda m: m.change(gamma=0.9)),
    "change C": (svc, lambda m: m.change(C=9.0)),
    "precomputed": (
        lambda: IncrementalSVC(kernel="precomputed").fit(GRAM[:20, :20], Y[:20]),
        lambda m: m.update(add=(GRAM[20:24, :24], Y[20:24]), remove=m.keys_[:3]),
    ),
    "objects": (
        lambda: IncrementalSVC(kernel=shared_letters).fit(WORDS[:20], Y[:20]),
        slide(WORDS, Y),
    ),
    "become robust": (lambda: svc(C=10.0), lambda m: m.update(robust=Robustness(0.0, 0.0))),
    "stay robust": (robust, slide(X, -Y)),
    "regression": (svr, lambda m: m.update((X[20:24], X[20:24, 1]), m.keys_[:3], reweight={9: 0.2}, relabel={8: 1.0})),
    "one class": (one_class, slide(X, None)),
    "positive and unlabelled": (pu, slide(X, FLAGS)),
    "begin after waiting": (waiting, lambda m: m.update((X[6:20], FLAGS[6:20]))),
    "positive and unlabelled in batch": (
        lambda: PUClassifier(prior=0.4, lam=0.003, gamma=0.5).fit(X[:20], FLAGS[:20]),
        lambda m: m.fit(X[10:30], FLAGS[10:30]),
    ),
    "Frank-Wolfe": (
        lambda: FrankWolfeSVC(gamma=0.5, tol=0.1).fit(X[:20], Y[:20]),
        lambda m: m.fit(X[10:30], THREE[10:30]),
    ),
    "large": (
        large,
        lambda m: m.update((X[20:24], [3, 1, -1, 3]), m.keys_[:3], relabel={9: 3}, reweight={8: 0.5}, C=3.0, decay=0.9),
    ),
    "large that is trained again": (large, lambda m: m.retrain(tol=0.01)),
    "large that is trained on others": (large, lambda m: m.retrain_on(X, THREE, tol=0.1)),
    "large that forgets its training": (large, lambda m: m.forget_training()),
}


def standing(model: Model) -> dict[str, Any]:
    """Return all that is known of a model, as bytes where it is arrays."""
    known = {name: value for name, value in vars(model).items() if name.endswith("_") or name in model.get_params()}
    if hasattr(model, "_window") or isinstance(model, LiveL2SVC):
        known |= model.to_arrays()
    return {name: as_bits(value) for name, value in known.items()}


def as_bits(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.str, value.shape, value.tobytes()
    return repr(value)


def meaning(model: Model) -> list[Any]:
    """Return what a model holds and answers, to be compared but for rounding and times."""
    known = standing(model)
    exact = {name: known[name] for name in ("keys", "y", "sample_weight", "classes", "C", "next_key") if name in known}
    if "objects" in known or isinstance(model, LiveL2SVC):
        return [exact, model.window_coefficients]
    rows = GRAM[:5, : model.n_window_] if getattr(model, "kernel", "") == "precomputed" else X[:5]
    decide = getattr(model, "decision_function", model.predict)
    return [exact, decide(rows)]


def means_the_same(model: Model, other: Model) -> bool:
    mine, its = meaning(model), meaning(other)
    return mine[0] == its[0] and mine[1].shape == its[1].shape and np.allclose(mine[1], its[1], atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_failure_at_any_call_changes_nothing_or_comes_after_all(name: str) -> None:
    make, change = CASES[name]
    change(make())  # so that everything is compiled
    whole, model = make(), make()
    with Calls() as calls:
        change(whole)
    before, failed = standing(model), 0
    last = np.arange(max(1, calls.count - MOST // 2), calls.count + 1)
    for at in np.union1d(np.linspace(1, calls.count, MOST // 2).astype(int), last).tolist():
        with Calls(at) as injected:
            try:
                change(model)
            except Injected:
                failed += 1
        if injected.has_failed and standing(model) == before:
            continue
        assert means_the_same(model, whole), f"at call {at} of {calls.count}"
        model = make()
    assert failed >= min(MOST // 2, calls.count) // 2
    change(model)
    assert means_the_same(model, whole)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_kernel_that_fails_at_any_call_changes_nothing(error: type[BaseException], classes: int) -> None:
    left = [10**9]

    def kernel(rows: list[str], others: list[str]) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise error
        return shared_letters(rows, others)

    labels = [i % classes for i in range(20)]
    model = IncrementalSVC(C=2.0, kernel=kernel).fit(WORDS[:20], labels)
    before = standing(model)
    for n in range(1000):
        left[0] = n
        try:
            model.update((WORDS[20:24], [0, 1, classes, 0]), [2, 3], relabel={9: classes})
            break
        except error:
            left[0] = 10**9
            assert standing(model) == before
    assert n > 1
    left[0] = 10**9
    assert model.certificate().relative_gap < 1e-9
