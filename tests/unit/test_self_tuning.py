"""Parameters that are "auto": chosen by the window alone, within a budget, and never for the worse."""

from __future__ import annotations

import pickle
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from livesvm.solvers import IncrementalPUClassifier, IncrementalSVC, IncrementalSVR
from livesvm.solvers.analyses.tuning import automatic, relevance
from livesvm.solvers.analyses.tuning.automatic import LEAST, choose
from livesvm.solvers.analyses.tuning.folds import splits
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators import self_tuning

RNG = np.random.default_rng(11)
N = 300
ROWS = pd.DataFrame(RNG.normal(size=(N, 4)), columns=["a", "b", "noise", "more noise"]).assign(
    word=RNG.choice(["red", "green", "blue"], N)
)
INSIDE = np.where((ROWS["a"] ** 2 + ROWS["b"] ** 2 < 1.4) ^ (ROWS["word"] == "red"), "in", "out")
VALUE = np.sin(2 * ROWS["a"]) + 0.5 * (ROWS["word"] == "red") + 0.1 * RNG.normal(size=N)


def svc(**given: Any) -> IncrementalSVC:
    return IncrementalSVC(C="auto", gamma="auto", columns="auto", **given)


def test_the_gradient_of_the_evidence_is_that_of_its_differences() -> None:
    X, places = RNG.normal(size=(50, 4)), np.array([0, 0, 1, 2])
    t = relevance.outputs_of(RNG.integers(0, 3, 50).astype(float), classes=True)
    theta = RNG.normal(size=5) * 0.3 - 1.0
    _, gradient = relevance._loss(theta, X, places, t)
    steps = 1e-6 * np.eye(5)
    differences = [
        (relevance._loss(theta + step, X, places, t)[0] - relevance._loss(theta - step, X, places, t)[0]) / 2e-6
        for step in steps
    ]
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-6)


def test_a_classifier_finds_what_counts() -> None:
    model = svc().fit(ROWS[:200], INSIDE[:200])
    assert isinstance(model.C, str)
    found = model.choice_
    assert found.loss < 0.8 * found.defaults
    relevances = {one.name: one.relevance for one in model.columns_.each}
    assert max(relevances["noise"], relevances["more noise"]) < 0.3 * min(relevances["a"], relevances["b"])
    plain = IncrementalSVC(columns="auto").fit(ROWS[:200], INSIDE[:200])
    assert model.score(ROWS[200:], INSIDE[200:]) > plain.score(ROWS[200:], INSIDE[200:]) + 0.05
    assert model.certificate().relative_gap < 1e-9


def test_a_regressor_chooses_its_tube() -> None:
    model = IncrementalSVR(C="auto", epsilon="auto", columns="auto").fit(ROWS[:200], VALUE[:200])
    assert model.choice_.loss < 0.7 * model.choice_.defaults
    assert 0.0 < model.epsilon_ < 0.1
    assert np.abs(model.predict(ROWS[200:]) - VALUE[200:]).mean() < 0.2
    given = IncrementalSVR(C="auto", gamma=0.2, epsilon=0.05).fit(ROWS[["a", "b"]], VALUE)
    assert (given.gamma_, given.epsilon_) == (0.2, 0.05)


def test_several_classes_and_matrices_are_tuned() -> None:
    three = np.digitize(ROWS["a"], [-0.5, 0.5])
    model = IncrementalSVC(C="auto", scale="standard").fit(ROWS[["a", "b", "noise"]].to_numpy(), three)
    assert model.choice_.loss <= min(model.choice_.present, model.choice_.defaults)
    assert model.gamma_ == model.choice_.parameters["gamma"]


@pytest.mark.parametrize("gamma", [0.3, "auto"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_folds_of_a_model_with_components_are_of_its_map(classes: int, gamma: Any) -> None:
    X = ROWS[["a", "b", "noise"]].to_numpy()[:150]
    y = np.digitize(ROWS["a"][:150] + 0.7 * RNG.normal(size=150), [-0.5, 0.5][: classes - 1])
    model = IncrementalSVC(C="auto", gamma=gamma, components=12).fit(X, y)
    assert (model.C_, model.gamma_) == (model.choice_.parameters["C"], model.choice_.parameters["gamma"])
    mapped, losses = model.feature_scale_.apply(X), []
    fold = np.empty(150, np.int64)
    for name, (_, held_out) in enumerate(splits(y, "k_fold", automatic.FOLDS, classes=True)):
        fold[held_out] = name
    for two in combinations(range(classes), 2):
        mine = np.isin(y, two)
        f = np.empty(150)
        for name in range(automatic.FOLDS):
            linear = IncrementalSVC(C=model.C_, kernel="linear").fit(*(of[mine & (fold != name)] for of in (mapped, y)))
            f[fold == name] = linear.decision_function(mapped[fold == name])
        truth = y[mine] == two[1]
        losses.append(automatic._log_losses(f[None, mine], truth)[0] + 2.0 * ((f[mine] > 0) != truth).mean())
    assert model.choice_.loss == pytest.approx(np.mean(losses), abs=1e-5)
    assert model.choice_.loss <= min(model.choice_.present, model.choice_.defaults)


def test_a_regressor_with_components_chooses_too() -> None:
    X = ROWS[["a", "b"]].to_numpy()
    model = IncrementalSVR(C="auto", epsilon="auto", components=40).fit(X[:200], np.sin(2 * X[:200, 0]))
    assert model.choice_.loss <= min(model.choice_.present, model.choice_.defaults)
    assert (model.C_, model.gamma_, model.epsilon_) == tuple(
        model.choice_.parameters[k] for k in ("C", "gamma", "epsilon")
    )
    own: Any = model.certificate()
    assert (own.components, own.relative_gap < 1e-8) == (40, True)


@pytest.mark.parametrize("seed", range(6))
def test_no_choice_is_worse_by_its_own_score(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(80, 5)), rng.integers(0, 2, 80)  # nothing to be found
    found = choose(IncrementalSVC(C=0.3, columns="auto").fit(X, y))
    assert found.loss <= min(found.present, found.defaults)


def test_a_table_that_comes_row_by_row_becomes_what_it_is() -> None:
    model = svc()
    for at in range(60):
        model.update((ROWS[at : at + 1], INSIDE[at : at + 1]))
    assert model.choice_.n_examples == LEAST
    assert model.score(ROWS[60:], INSIDE[60:]) > 0.65
    given = IncrementalSVC(C=3.0, columns="auto")
    for at in range(40):
        given.update((ROWS[at : at + 1], INSIDE[at : at + 1]))
    of_32 = IncrementalSVC(C=3.0, columns="auto").fit(ROWS[:32], INSIDE[:32])
    assert given.feature_scale_.fitted == of_32.feature_scale_.fitted


def test_what_is_judged_has_the_numbers_that_were_given() -> None:
    X, y = RNG.normal(size=(60, 3)), np.arange(60) % 2  # nothing to be found: the defaults are as good
    assert choose(IncrementalSVC(C="auto", gamma=5.0).fit(X, y)).parameters["gamma"] == 5.0
    found = choose(IncrementalSVR(C="auto", gamma=5.0, epsilon=0.02).fit(X, RNG.normal(size=60)))
    assert (found.parameters["gamma"], found.parameters["epsilon"]) == (5.0, 0.02)


def test_a_number_for_C_keeps_what_was_chosen_with_it() -> None:
    X, y = ROWS[["a", "b"]], (INSIDE == "in").astype(float)
    for verb in ("update", "change"):
        model = IncrementalSVR(C="auto", epsilon="auto", scale="standard").fit(X, y)
        chosen = dict(model.chosen_)
        getattr(model, verb)(C=3.0)
        assert (model.C, model.epsilon, model.gamma) == (3.0, chosen["epsilon"], chosen["gamma"])
        assert not model.update((X[:1], y[:1])).retrained
        assert model.certificate().relative_gap < 1e-8


def test_parameters_stay_what_they_were_given_and_what_was_chosen_is_kept() -> None:
    model = svc(probability=True).fit(ROWS, INSIDE)
    assert clone(model).get_params() == model.get_params() == svc(probability=True).get_params()
    assert cross_val_score(svc(), ROWS, INSIDE, cv=3).min() > 0.7
    for again in (
        pickle.loads(pickle.dumps(model)),
        IncrementalSVC.from_arrays(model.get_params(), pickle.loads(pickle.dumps(model.to_arrays()))),
    ):
        assert (again.C_, again.gamma_) == (model.C_, model.gamma_)
        np.testing.assert_array_equal(again.decision_function(ROWS), model.decision_function(ROWS))
    assert model.regularization_path(0.5, 2.0).at(1.0).certificate().relative_gap < 1e-7
    model.change(C=2.0)
    assert (model.C, model.C_) == (2.0, 2.0)
    assert model.gamma_ == model.choice_.parameters["gamma"]


def test_models_choose_when_there_are_enough_examples_and_again_within_their_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen: list[int] = []

    def counted(model: Any) -> automatic.TunedParameters:
        chosen.append(model.n_window_)
        return choose(model)

    monkeypatch.setattr(self_tuning, "choose", counted)
    monkeypatch.setattr(self_tuning, "TUNE_SHARE", 1e6)
    model = svc()
    for start in range(0, N, 10):
        model.update((ROWS[start : start + 10], INSIDE[start : start + 10]))
    assert chosen[0] == LEAST
    assert all(later >= 2 * earlier for earlier, later in pairwise(chosen))
    chosen.clear()
    monkeypatch.setattr(self_tuning, "TUNE_SHARE", 0.0)
    for start in range(0, N, 10):
        model.update((ROWS[start : start + 10], INSIDE[start : start + 10]), remove=model.keys_[:10])
    assert chosen == []


@pytest.mark.parametrize("change", [{"gamma": 0.2}, {"fit_intercept": False}, {}], ids=str)
def test_a_model_that_is_solved_again_keeps_its_last_choice(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next choice is a later one, within the budget, and not another first one."""
    monkeypatch.setattr(self_tuning, "TUNE_SHARE", 0.0)
    for model, y in ((svc(), INSIDE), (IncrementalSVR(C="auto", epsilon="auto", columns="auto"), VALUE)):
        model.fit(ROWS[:60], y[:60])
        last = model.choice_
        _ = model.change(**change) if change else model.rescale()
        assert model.choice_ is last
        model.update((ROWS[60:], y[60:]))
        assert model.choice_ is last


def test_a_window_that_cannot_be_judged_by_stays_as_it_is() -> None:
    one = np.array(["in"] * 59 + ["out"])
    model = svc().fit(ROWS[:60], one)
    assert not hasattr(model, "choice_")
    with pytest.raises(InvalidInput, match="40 are needed"):
        choose(IncrementalSVC().fit(ROWS[["a", "b"]][:39], INSIDE[:39]))
    with pytest.raises(InvalidInput, match="kernel 'rbf'"):
        choose(IncrementalSVC(kernel="linear").fit(ROWS[["a", "b"]], INSIDE))


def test_nothing_of_the_future_decides() -> None:
    """A marker: rows after the window have a column that tells everything; models before them know nothing of it."""
    marked = ROWS.assign(marker=np.where(np.arange(N) < 200, 0.0, np.where(INSIDE == "in", 1e6, -1e6)))
    marked.loc[:199, "marker"] = RNG.normal(size=200)
    before = svc().fit(marked[:200], INSIDE[:200])
    other = marked.assign(marker=np.where(np.arange(N) < 200, marked["marker"], 0.0), word=ROWS["word"])
    without = svc().fit(other[:200], INSIDE[:200])
    assert before.choice_.parameters == without.choice_.parameters
    np.testing.assert_array_equal(
        before.decision_function(ROWS.assign(marker=0.0)), without.decision_function(ROWS.assign(marker=0.0))
    )


@pytest.mark.filterwarnings("ignore::UserWarning")  # the first few are all predicted alike
def test_lam_is_chosen_again_as_the_window_changes_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    positive = RNG.random(N) < 0.3
    X = RNG.normal(size=(N, 3)) + 1.5 * positive[:, None]
    s = (positive & (RNG.random(N) < 0.4)).astype(float)
    order = np.concatenate([np.flatnonzero(s)[:8], np.flatnonzero(s == 0)[:12]])
    order = np.concatenate([order, np.setdiff1d(np.arange(N), order)])
    X, s = X[order], s[order]
    monkeypatch.setattr(self_tuning, "TUNE_SHARE", 1e6)
    model = IncrementalPUClassifier(prior=0.2, gamma=0.3).fit(X[:20], s[:20])
    assert "choice_" not in vars(model)  # lam is by too few examples to be judged
    seen, lams = [], {model.lam_}
    for start in range(20, N, 20):
        report = model.update((X[start : start + 20], s[start : start + 20]))
        assert not report.retrained
        found = model.choice_
        assert found.loss <= min(found.present, found.defaults)
        seen.append(found.n_examples)
        lams.add(model.lam_)
    assert sorted({*seen}) == [40, 80, 160]
    assert len(lams) > 1
    again = IncrementalPUClassifier(0.2, model.lam_, gamma=0.3).fit(X, s)
    np.testing.assert_allclose(model.decision_function(X), again.decision_function(X), atol=1e-6)
    assert model.certificate().relative_gap < 1e-8
    back = IncrementalPUClassifier.from_arrays(model.get_params(), pickle.loads(pickle.dumps(model.to_arrays())))
    assert (back.lam, back.lam_, back.choice_) == (None, model.lam_, model.choice_)
    model.update(remove=model.keys_[:150])
    monkeypatch.setattr(self_tuning, "TUNE_SHARE", 0.0)
    model.update((X[:150], s[:150]))
    assert model.choice_ == back.choice_
    model.update(lam=0.02)
    monkeypatch.setattr(self_tuning, "TUNE_SHARE", 1e6)
    model.update((X[:200], s[:200]))
    assert (model.lam_, model.choice_) == (0.02, back.choice_)
