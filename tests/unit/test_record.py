"""The record of a model: predictions of examples before they are learnt, next to the majority or the median."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR, load_model, save_model
from livesvm.solvers.models import path_problem
from livesvm.solvers.models.path_problem import votes_of
from livesvm.solvers.models.record import LATELY, MOST_NOTES, PARTS, Record

RNG = np.random.default_rng(5)
X = RNG.normal(size=(160, 3))
VALUES = X[:, 0] + 0.5 * RNG.normal(size=160)
TWO = np.where(VALUES > 0.3, "yes", "no")
FOUR = np.digitize(VALUES, [-0.8, 0.0, 0.8])


def record_of(model: Any) -> Record:
    found = model.record
    assert isinstance(found, Record)
    return found


SIZES = [40, 1, 1, 3, 1, 60, 2, 1, 1, 50]
"""Rows of each update: single ones, few, and more than the window holds, which is solved from nothing."""


def naive_of(y: Any) -> Any:
    """Return the majority of labels, the first of equals, or the median of numbers."""
    if y.dtype.kind == "f":
        return float(np.median(y))
    counts = Counter(y.tolist())
    return min(label for label, count in counts.items() if count == max(counts.values()))


@pytest.mark.parametrize("y", [TWO, FOUR, VALUES], ids=["two", "four", "values"])
@pytest.mark.parametrize("keep", [30, 100])
def test_a_record_is_what_predict_said_before_each_update(y: Any, keep: int) -> None:
    model = IncrementalSVR(C=2.0, gamma=0.5) if y.dtype.kind == "f" else IncrementalSVC(C=2.0, gamma=0.5)
    model.fit(X[: SIZES[0]], y[: SIZES[0]])
    told, naive, start = list[Any](), list[Any](), SIZES[0]
    assert model.record is None
    for size in SIZES[1:]:
        part = slice(start, start + size)
        told += model.predict(X[part]).tolist()
        naive += [naive_of(model.window_y)] * size
        leaving = model.keys_[: max(0, model.n_window_ + size - keep)]
        model.update(add=(X[part], y[part]), remove=leaving)
        start += size
    given = y[SIZES[0] : start]
    losses = [np.array(one) != given if y is not VALUES else np.abs(np.array(one) - given) for one in (told, naive)]
    found = model.record
    assert found is not None
    assert found.n == len(given)
    np.testing.assert_allclose(found.overall[1:], [loss.mean() for loss in losses], rtol=1e-7)
    weights = (1 - 1 / LATELY) ** np.arange(len(given))[::-1]
    np.testing.assert_allclose(found.lately[0], weights.sum())
    np.testing.assert_allclose(found.lately[1:], [np.average(loss, weights=weights) for loss in losses], rtol=1e-7)
    pairs = Counter(zip(given.tolist(), told, strict=True)) if y is not VALUES else {}
    assert found.confusion == pairs
    np.testing.assert_allclose(sum(found.confusion_lately.values()), found.lately.n if pairs else 0.0)


def test_a_new_class_is_an_error_and_relabelled_examples_count_for_the_majority() -> None:
    model = IncrementalSVC(gamma=0.5).fit(X[:10], ["b"] * 10)
    model.update(add=(X[10:12], ["a", "b"]))
    assert record_of(model).confusion == {("a", "b"): 1, ("b", "b"): 1}
    model.update(add=(X[12:13], ["c"]))
    assert next(guess for label, guess in record_of(model).confusion if label == "c") in ("a", "b")
    model.update(relabel=dict.fromkeys(model.keys_[:9], "c"))
    before: Any = record_of(model).overall
    model.update(add=(X[13:14], ["c"]))
    after: Any = record_of(model).overall
    assert after.n * after.naive_error == pytest.approx(before.n * before.naive_error)


def test_a_class_that_has_left_the_window_can_still_be_named() -> None:
    model = IncrementalSVC(gamma=0.5).fit(X[:60], FOUR[:60])
    model.update(remove=[key for key, label in zip(model.keys_, FOUR[:60].tolist(), strict=True) if label in (1, 2)])
    told = model.predict(X[60:90]).tolist()
    for place in range(60, 90):
        model.update(add=(X[place : place + 1], FOUR[place : place + 1]), remove=[], keys=[f"new {place}"])
        model.update(remove=[f"new {place}"])
    assert record_of(model).confusion == Counter(zip(FOUR[60:90].tolist(), told, strict=True))


def test_a_refused_update_and_a_change_of_parameters_leave_the_record() -> None:
    model = IncrementalSVC(gamma=0.5).fit(X[:60], TWO[:60])
    model.update(add=(X[60:90], TWO[60:90]))
    before = record_of(model).to_document()
    with pytest.raises(ValueError, match="finite"):
        model.update(add=([[np.nan] * 3], ["yes"]))
    model.change(gamma=0.7)
    model.change(C=3.0)
    model.update(remove=model.keys_[:5])
    assert record_of(model).to_document() == before
    model.update(add=(X[90:91], TWO[90:91]))
    assert record_of(model).n == 31
    model.fit(X, TWO)
    assert model.record is None


def test_a_record_is_of_the_loss_that_the_model_has() -> None:
    model = IncrementalSVR(loss="pinball", quantile=0.8, gamma=0.5).fit(X[:60], VALUES[:60])
    told, quantile = model.predict(X[60:61])[0], np.quantile(VALUES[:60], 0.8)
    model.update(add=(X[60:61], VALUES[60:61]))
    off = VALUES[60] - np.array([told, quantile])
    np.testing.assert_allclose(np.array(record_of(model).overall[1:], float), np.maximum(0.8 * off, -0.2 * off))
    model.change(loss="absolute")
    model.update(add=(X[61:63], VALUES[61:63]))
    assert (record_of(model).loss, record_of(model).n) == ("mean absolute error", 2)


def test_a_record_is_kept_in_files_and_copies(tmp_path: Path) -> None:
    model = IncrementalSVC(gamma=0.5).fit(X[:60], FOUR[:60])
    model.update(add=(X[60:90], FOUR[60:90]))
    path = tmp_path / "model.npz"
    save_model(model, path)
    again, other = load_model(path), copy.deepcopy(model)
    for one in (model, again, other):
        one.update(add=(X[90:120], FOUR[90:120]), remove=one.keys_[:30])
    assert record_of(again).to_document() == record_of(model).to_document() == record_of(other).to_document()


@pytest.mark.parametrize("y", [TWO, FOUR, VALUES], ids=["two", "four", "values"])
def test_a_record_is_the_same_however_often_it_is_read(y: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[Any] = [(IncrementalSVR if y is VALUES else IncrementalSVC)(gamma=0.5).fit(X, y) for _ in range(2)]
    counted, count = list[int](), Record.count

    def counting(record: Record) -> Any:
        counted.append(record._held[2])
        return count(record)

    monkeypatch.setattr(Record, "count", counting)
    rows = RNG.normal(size=(MOST_NOTES + 9, 3))
    for i, row in enumerate(rows):
        for model in models:
            model.update(add=([row], y[[i % len(y)]]), remove=model.keys_[:1])
        assert record_of(models[0]).n == i + 1
    assert max(counted) == MOST_NOTES
    assert record_of(models[0]) == record_of(models[1])


def test_of_several_classes_votes_are_counted_where_pairs_are_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """With random labels few classes win all their pairs, and many have as many votes as others."""
    rows, labels = RNG.normal(size=(420, 3)), RNG.integers(0, 7, 420)
    model = IncrementalSVC(gamma=0.5).fit(rows[:210], labels[:210])
    by_pair = Mock(side_effect=votes_of)
    monkeypatch.setattr(path_problem, "votes_of", by_pair)
    wrong, start = 0, 210
    for size in [1, 3] * 50:
        new = slice(start, start := start + size)
        told = model.predict(rows[new])
        model.update(add=(rows[new], labels[new]), remove=model.keys_[:size])
        wrong += int((told != labels[new]).sum())
    assert record_of(model).overall.error == wrong / (start - 210)
    assert by_pair.call_count <= 2  # the first update has yet to make ready what compiled code reads


def test_models_without_labels_and_models_told_so_keep_none() -> None:
    model = IncrementalSVC(gamma=0.5)
    model.keeps_record = False
    alone = IncrementalOneClassSVM(gamma=0.5).fit(X[:20])
    model.fit(X[:20], TWO[:20]).update(add=(X[20:40], TWO[20:40]))
    alone.update(add=(X[20:40], None))
    assert model.record is alone.record is None


def test_a_history_has_parts_of_the_same_size_however_long_it_is() -> None:
    record = Record((1.0, 1.0))
    record.window = [0.0]
    losses = np.random.default_rng(2).random(1000)
    for loss in losses.tolist():
        record = record.judged([0.0], [loss], [loss])
    parts = record.history
    assert PARTS <= len(parts) <= 2 * PARTS
    size = int(parts[0].n)
    assert [part.n for part in parts[:-1]] == [size] * (len(parts) - 1)
    means = [part.mean() for part in np.split(losses, range(size, 1000, size))]
    np.testing.assert_allclose(np.array([part.error for part in parts], float), means)


def test_weights_of_a_long_record_stay_finite() -> None:
    record = Record(None)
    record.window = {"a": 1}
    record = record.judged(["a", "b"] * 30_000, ["a"] * 60_000)
    assert record.lately.n == pytest.approx(LATELY)
    assert record.lately.error == pytest.approx(0.5, abs=0.01)
    assert sum(record.confusion_lately.values()) == pytest.approx(LATELY)


@pytest.mark.parametrize("y", [FOUR, VALUES], ids=["four", "values"])
def test_naive_predictions_follow_a_small_window_example_by_example(y: Any) -> None:
    record, given, size = Record(None if y is FOUR else (1.0, 1.0)), y.tolist(), 7
    record.window = dict(Counter(given[:size])) if y is FOUR else sorted(given[:size])
    off = 0.0
    for i in range(size, len(given)):
        naive = naive_of(y[i - size : i])
        off += float(naive != given[i]) if y is FOUR else abs(naive - given[i])
        record = record.judged([given[i]], [given[i]], [given[i - size]])
    assert record.overall.error == 0.0
    assert record.overall.naive_error == pytest.approx(off / (len(given) - size))


def test_copies_and_cold_models_have_no_notes() -> None:
    record = Record(None)
    record.window = {0: 1}
    for _ in range(MOST_NOTES - 1):
        record = record.judged([0], [0], [0])
    assert copy.deepcopy(record) == record
    model = IncrementalSVC(gamma=0.5).fit(X[:60], TWO[:60])
    model.update(add=(X[60:61], TWO[60:61]))
    assert model._record is not None
    assert model._record._held[1:] != (None, 0)
    model.cool()
    assert model._record._held[1:] == (None, 0)
