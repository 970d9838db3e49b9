"""Suspected labels are those that exact held-out decisions speak against."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score

from livesvm.solvers import (
    FrankWolfeSVC,
    IncrementalOneClassSVM,
    IncrementalPUClassifier,
    IncrementalSVC,
    IncrementalSVR,
    SuspectedLabels,
    leave_one_out,
    suspected_labels,
)
from livesvm.solvers.analyses import suspects
from livesvm.solvers.analyses.leave_one_out import models_without
from livesvm.solvers.analyses.leave_one_out.assessment import held_out_by_class
from livesvm.solvers.errors import Cancelled, InvalidInput
from livesvm.solvers.robust.settings import Robustness


def in_window_order(found: SuspectedLabels, keys: Any) -> Any:
    """Return the margins of a ranking by the place of each example in the window."""
    margins = dict(zip(found.keys, found.margin.tolist(), strict=True))
    return np.array([margins[key] for key in keys])


def noisy(n_classes: int, n: int = 120) -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    X, y = make_blobs(n, centers=n_classes, cluster_std=2.5, random_state=1)
    y[random.choice(n, 8, replace=False)] += 1
    return X, y % n_classes


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_flipped_labels_of_separable_classes_come_first(n_classes: int, C: float) -> None:
    X, y = make_blobs(40 * n_classes, centers=10.0 * np.eye(n_classes), cluster_std=0.6, random_state=0)
    names = np.array(["ash", "beech", "cedar", "elm", "fir"])[:n_classes]
    wrong = np.random.default_rng(0).choice(len(y), 3 * n_classes, replace=False)
    given = y.copy()
    given[wrong] = (y[wrong] + 1) % n_classes
    found = suspected_labels(IncrementalSVC(C=C, gamma=0.1).fit(X, names[given]))
    first = np.array(found.keys[: wrong.size])
    assert set(first.tolist()) == set(wrong.tolist())
    assert found.better[: wrong.size].tolist() == names[y[first]].tolist()
    assert found.labels.tolist() == names[given[np.array(found.keys)]].tolist()
    assert (found.margin[: wrong.size] < 0).all()
    assert (found.margin[wrong.size :] > 0).all()
    assert (found.better != found.labels).all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weights", [None, "balanced", {0: 3.0}])
def test_margins_are_those_of_models_trained_without_each_example(n_classes: int, weights: Any) -> None:
    X, y = noisy(n_classes, 40)
    w = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    parameters: dict[str, Any] = {"C": 2.0, "gamma": 0.3, "class_weight": weights, "decision_function_shape": "ovo"}
    found = suspected_labels(IncrementalSVC(**parameters).fit(X, y, sample_weight=w))
    assert found.method == "leave_one_out"
    for key, margin, better in zip(found.keys[::3], found.margin[::3], found.better[::3], strict=True):
        stay = np.arange(y.size) != key
        model = IncrementalSVC(**parameters).fit(X[stay], y[stay], sample_weight=w[stay])
        decisions = np.atleast_1d(model.decision_function(X[[key]])[0])
        pairs = [(1, 0)] if n_classes == 2 else model.pairs_
        ahead: dict[int, float] = {}
        for (a, b), f in zip(pairs, decisions, strict=True):
            ahead |= {b: f} if y[key] == a else {a: -f} if y[key] == b else {}
        assert margin == pytest.approx(min(ahead.values()), abs=1e-7)
        assert ahead[better] == pytest.approx(margin, abs=1e-7)


def test_confirmed_labels_are_evidence_and_not_in_the_ranking() -> None:
    model = IncrementalSVC(C=5.0, gamma=0.3).fit(*noisy(3))
    whole = suspected_labels(model)
    known = [*whole.keys[:4], whole.keys[9]]
    found = suspected_labels(model, confirmed=[*known, "long gone"])
    stays = np.array([key not in known for key in whole.keys])
    assert found.keys == tuple(key for key in whole.keys if key not in known)
    np.testing.assert_array_equal(found.margin, whole.margin[stays])
    np.testing.assert_array_equal(found.doubt, whole.doubt[stays])
    assert found.why[:20] == tuple(one for one, stay in zip(whole.why, stays, strict=True) if stay)[:20]
    none = suspected_labels(model, confirmed=whole.keys)
    assert (none.keys, none.head()) == ((), [])
    assert "<th>doubt</th>" in none._repr_html_()


def test_doubt_falls_with_the_margin_and_says_the_same() -> None:
    found = suspected_labels(IncrementalSVC(C=5.0, gamma=0.3).fit(*noisy(3)))
    assert (np.diff(found.margin) >= 0).all()
    assert (np.diff(found.doubt) <= 0).all()
    assert ((found.doubt > 0.5) == (found.margin < 0)).all()
    assert found.doubt.min() >= 0
    assert found.doubt.max() <= 1


def test_of_two_classes_the_margin_is_the_decision_for_the_label() -> None:
    X, y = noisy(2)
    model = IncrementalSVC(C=5.0, gamma=0.3).fit(X, y, keys=[f"k{i}" for i in range(len(y))])
    expected = np.where(y == 1, 1.0, -1.0) * leave_one_out(model).decisions
    found = suspected_labels(model)
    np.testing.assert_allclose(in_window_order(found, model.keys_), expected, atol=1e-12)
    head = found.head(3)
    assert [row["key"] for row in head] == list(found.keys[:3])
    assert pd.DataFrame(head).columns.tolist() == ["key", "label", "better", "margin", "doubt", "why", "age"]
    assert len(found.head(1000)) == len(y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_paths_where_pivots_cannot_be_used_lead_to_the_same_ranking(
    n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = IncrementalSVC(C=2.0, gamma=0.3).fit(*noisy(n_classes))
    before, found = model.to_arrays(), suspected_labels(model)
    monkeypatch.setattr(models_without, "leave_by_pivots", lambda *_: None)
    by_paths = suspected_labels(model)
    np.testing.assert_allclose(in_window_order(by_paths, model.keys_), in_window_order(found, model.keys_), atol=1e-8)
    assert np.array_equal(before["beta"], model.to_arrays()["beta"])


def test_equal_margins_stay_in_the_order_of_the_window() -> None:
    X = np.repeat([[0.0], [1.0]], 6, axis=0)
    y = np.repeat([0, 1], 6)
    model = IncrementalSVC(C=1.0, gamma=1.0).fit(X, y, keys=[f"{i:02d}" for i in range(12)])
    found = suspected_labels(model)
    for margin in np.unique(np.round(found.margin, 9)):
        tied = [key for key, own in zip(found.keys, found.margin, strict=True) if own == margin]
        assert tied == sorted(tied)


def test_folds_are_taken_where_no_example_is_free_as_leave_one_out_would_suspect_every_label() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.arange(40) % 2
    X[:, 0] += 3.0 * y
    model = IncrementalSVC(C=1e-4, gamma=0.5).fit(X, y)
    assert (model.window_is_free == 0).all()
    assert leave_one_out(model).error == 1.0
    found = suspected_labels(model)
    assert found.method == "k_fold"
    assert (found.margin < 0).mean() < 0.2
    np.testing.assert_array_equal(in_window_order(found, model.keys_), np.where(y, 1, -1) * held_out_by_class(model))


def test_folds_are_taken_where_they_cost_far_less(monkeypatch: pytest.MonkeyPatch) -> None:
    few = IncrementalSVC(C=2.0, gamma=0.3).fit(*noisy(3))
    assert suspected_labels(few).method == "leave_one_out"
    monkeypatch.setattr(suspects, "SMALL", 50)
    monkeypatch.setattr(suspects, "MOST_FREE", 0.01)
    assert suspected_labels(few).method == "k_fold"


@pytest.mark.parametrize("labels", [["a", "a", "a", "a", "b"], ["a", "a", "b", "b", "c"]])
def test_a_class_of_one_example_is_unknown_without_it(labels: list[str]) -> None:
    found = suspected_labels(IncrementalSVC(C=1.0, gamma=0.5).fit(np.arange(5.0)[:, None], labels))
    at = found.keys.index(4)
    assert found.margin[at] <= -1.0 + 1e-9
    assert found.better[at] != labels[4]


def test_a_class_without_examples_fits_nothing() -> None:
    X, y = noisy(3)
    model = IncrementalSVC(C=1.0, gamma=0.5).fit(X, y)
    model.update(remove=[key for key, label in zip(model.keys_, model.window_y, strict=True) if label == 1])
    assert model.classes_.tolist() == [0, 1, 2]
    assert set(suspected_labels(model).better.tolist()) == {0, 2}


def test_tables_and_parameters_of_their_own() -> None:
    X, y = make_moons(120, noise=0.2, random_state=0)
    wrong = np.random.default_rng(0).choice(120, 6, replace=False)
    y[wrong] = 1 - y[wrong]
    rows = pd.DataFrame({"where": np.where(X[:, 0] > 0.5, "east", "west"), "x": X[:, 0], "y": X[:, 1]})
    rows.loc[::17, "x"] = np.nan
    model = IncrementalSVC(C="auto", gamma="auto", columns="auto").fit(rows, np.where(y, "up", "down"))
    before = model.to_arrays()
    found = suspected_labels(model)
    assert len(set(found.keys[:6]) & set(wrong.tolist())) >= 4
    assert set(found.better.tolist()) == {"up", "down"}
    assert np.array_equal(before["beta"], model.to_arrays()["beta"])


def test_correcting_a_label_is_an_update() -> None:
    X, y = noisy(2)
    model = IncrementalSVC(C=5.0, gamma=0.3).fit(X, y)
    worst = suspected_labels(model).head(1)[0]
    model.update(relabel={worst["key"]: worst["better"]})
    after = suspected_labels(model)
    assert after.margin[after.keys.index(worst["key"])] > 0


def stream(n_classes: int, n: int = 150) -> tuple[Any, Any, Any]:
    """Return rows and labels, and which labels are wrong."""
    rng = np.random.default_rng(5)
    X, y = make_blobs(n, centers=n_classes, cluster_std=2.0, random_state=1)
    wrong = rng.random(n) < 0.1
    return X, np.where(wrong, (y + 1) % n_classes, y), wrong


def holds(found: SuspectedLabels, anew: SuspectedLabels) -> int:
    """Check all that a ranking says of its margins against a fresh one of all; return the number of carried margins."""
    exact = dict(zip(anew.keys, anew.margin, strict=True))
    assert set(found.keys) == exact.keys()
    assert (np.diff(found.margin) >= 0).all()
    for key, margin, age in zip(found.keys, found.margin, found.age, strict=True):
        if age == 0:
            assert margin == pytest.approx(exact[key], abs=1e-8)
        elif age < 0:
            assert margin >= exact[key] - 1e-8
            assert exact[key] >= -1e-8
    return int((found.age > 0).sum())


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("C", [0.5, 10.0])
@pytest.mark.parametrize("at_hand", [24, 0])  # few leave by paths of their own, or all by pivots
def test_a_ranking_from_the_one_before_says_which_margins_are_exact(
    n_classes: int, C: float, at_hand: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models_without, "AT_HAND", at_hand)
    X, y, _ = stream(n_classes)
    model = IncrementalSVC(C=C, gamma=0.2, class_weight={0: 2.0}).fit(X[:90], y[:90], keys=range(90))
    found, carried = suspected_labels(model), 0
    for start in range(90, 150, 6):
        model.update(
            (X[start : start + 6], y[start : start + 6]),
            keys=range(start, start + 6),
            remove=[*range(start - 90, start - 84)],
        )
        before = model.to_arrays()
        found, anew = suspected_labels(model, before=found), suspected_labels(model)
        assert (anew.age == 0).all()
        assert np.array_equal(before["beta"], model.to_arrays()["beta"])
        carried += holds(found, anew)
        why = {key: (str(better), why) for key, better, why in zip(anew.keys, anew.better, anew.why, strict=True)}
        for key, better, near in zip(found.keys, found.better, found.why, strict=True):
            assert not near or not why[key][1] or why[key][0] != str(better) or near == why[key][1]
    assert carried > 100
    again = suspected_labels(model, before=found)
    np.testing.assert_allclose(in_window_order(again, model.keys_), in_window_order(found, model.keys_), atol=1e-12)


def test_a_ranking_from_the_one_before_finds_as_many_wrong_labels() -> None:
    X, y, wrong = stream(2, 600)
    model, off = IncrementalSVC(C=1.0, gamma=0.2).fit(X[:200], y[:200], keys=range(200)), []
    found = suspected_labels(model)
    for start in range(200, 600, 10):
        part = range(start, start + 10)
        model.update((X[part], y[part]), keys=part, remove=[key - 200 for key in part])
        found = suspected_labels(model, before=found)
        first = [
            average_precision_score(wrong[list(one.keys)], -one.margin) for one in (found, suspected_labels(model))
        ]
        off.append(first[0] - first[1])
    assert np.mean(off) > -0.002


def test_examples_that_have_changed_are_new_to_a_ranking() -> None:
    X, y, _ = stream(3)
    model = IncrementalSVC(C=1.0, gamma=0.2).fit(X, y, keys=range(150))
    found = suspected_labels(model)
    worst = [*found.keys[:3]]
    model.update(remove=[worst[0]])
    model.update((X[[worst[0]]] + 0.5, y[[worst[0]]]), keys=[worst[0]])  # another example with the same key
    model.update(relabel={worst[1]: int((y[worst[1]] + 1) % 3)}, reweight={worst[2]: 0.5})
    found = suspected_labels(model, before=found)
    assert all(found.age[found.keys.index(key)] <= 0 for key in worst)
    assert holds(found, suspected_labels(model)) > 10


OTHERS: dict[str, dict[str, Any]] = {
    "another gamma": {"gamma": 0.3},
    "another C": {"C": 2.0},
    "another scale": {"scale": "standard"},
    "balanced": {"class_weight": "balanced"},
    "a matrix": {"kernel": "precomputed"},
    "a function": {"kernel": lambda A, B: A @ B.T + 1.0},
}


@pytest.mark.parametrize("how", [*OTHERS, "another class", "robust losses"])
def test_a_ranking_that_cannot_begin_from_the_one_before_is_exact(how: str) -> None:
    X, y, _ = stream(2)
    model = IncrementalSVC(C=1.0, gamma=0.2).fit(X, y)
    found = suspected_labels(model)
    if how == "another class":
        model.update((X[:2] + 9.0, [7, 7]))
    elif how == "robust losses":
        model.update(robust=Robustness(0.0, -1.0))
    else:
        model = IncrementalSVC(**{"C": 1.0, "gamma": 0.2} | OTHERS[how]).fit(X @ X.T if how == "a matrix" else X, y)
    for _ in range(2):
        found, anew = suspected_labels(model, before=found), suspected_labels(model)
        np.testing.assert_allclose(in_window_order(found, model.keys_), in_window_order(anew, model.keys_), atol=1e-9)
    assert (found.age == 0).all() == (how in ("balanced", "a matrix", "a function", "robust losses"))


@pytest.mark.parametrize(
    "model",
    [
        FrankWolfeSVC(gamma=0.5).fit(*noisy(2)),
        IncrementalSVR().fit([[0.0], [1.0]], [0.0, 1.0]),
        IncrementalOneClassSVM().fit([[0.0], [1.0]]),
        IncrementalPUClassifier(prior=0.4, gamma=0.5).fit(*noisy(2)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_only_a_live_classifier_has_labels_to_suspect(model: Any) -> None:
    with pytest.raises(InvalidInput, match=f"model: must be a live classifier, not {type(model).__name__}"):
        suspected_labels(model)


def test_what_is_refused() -> None:
    with pytest.raises(NotFittedError):
        suspected_labels(IncrementalSVC())
    with pytest.raises(InvalidInput, match="window: has one class only"):
        suspected_labels(IncrementalSVC().fit([[0.0], [1.0]], [1, 1]))
    with pytest.raises(InvalidInput, match="before: must be a ranking of labels, not list"):
        suspected_labels(IncrementalSVC().fit([[0.0], [1.0]], [0, 1]), before=[])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="window: the window holds 1 examples"):
        suspected_labels(IncrementalSVC().fit([[0.0]], [1]))


@pytest.mark.parametrize("C", [1.0, 1e-4])  # leave-one-out, and folds
def test_progress_may_cancel(C: float) -> None:
    model = IncrementalSVC(C=C, gamma=0.3).fit(np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2)
    told: list[tuple[int, int]] = []

    def note(done: int, total: int) -> bool:
        told.append((done, total))
        return True

    suspected_labels(model, progress=note)
    assert told[-1] == (40, 40)
    with pytest.raises(Cancelled):
        suspected_labels(model, progress=lambda done, total: False)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_why_lists_the_nearest_examples_of_the_better_label(n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = noisy(n_classes)
    keys = [f"k{i}" for i in range(len(y))]
    model = IncrementalSVC(C=1.0, gamma=0.2).fit(X, y, keys=keys)
    n_doubted = int((suspected_labels(model).margin < 0).sum())
    for explained in (5, n_doubted + 5):  # all in doubt, or so many
        monkeypatch.setattr(suspects, "EXPLAINED", explained)
        rows = suspected_labels(model).head(len(keys))
        assert [bool(row["why"]) for row in rows] == [i < max(explained, n_doubted) for i in range(len(y))]
        for row in rows[: max(explained, n_doubted)]:
            others = np.flatnonzero(y == row["better"])
            distances = np.linalg.norm(X[others] - X[keys.index(row["key"])], axis=1)
            assert row["why"] == [keys[i] for i in others[np.argsort(distances)[:3]]]


def test_why_is_by_the_kernel_for_tables_and_kernel_values() -> None:
    X, y = noisy(3)
    by_values = suspected_labels(IncrementalSVC(kernel="precomputed").fit(X @ X.T, y))
    assert by_values.why == suspected_labels(IncrementalSVC(kernel="linear").fit(X, y)).why
    table = pd.DataFrame({"place": ["in", "out"] * 6, "x": [0, 5, 0.1, 5.1, 0.2, 5.2, 0.3, 5.3, 0.4, 5.4, 0.5, 0.6]})
    labels = ["a", "b"] * 5 + ["a", "a"]
    worst = suspected_labels(IncrementalSVC(C=5.0, columns="auto").fit(table, labels)).head(1)[0]
    assert (worst["key"], worst["better"], worst["why"]) == (11, "b", [1, 3, 5])
    few = suspected_labels(IncrementalSVC().fit([[0.0], [1.0], [2.0]], [0, 1, 1]))
    assert sorted(map(len, few.why)) == [1, 1, 2]
