"""What a model of positive and unlabelled examples chooses: lam, when it begins, and where decisions are cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.solvers import IncrementalPUClassifier, PUClassifier, time_limit
from livesvm.solvers.errors import InvalidInput, TimeLimit
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.pu.held_out import LAM, Folds, HeldOut, zero_one_risk
from livesvm.solvers.pu.starts import from_scores, ranked
from livesvm.solvers.runtime.types import Ints
from livesvm.solvers.sparse import SparseRows
from tests.oracle import Matrix, Vector
from tests.pu_baselines.metrics import scores
from tests.pu_baselines.ramp import _with_sum
from tests.pu_problems import two_clouds
from tests.support.positive_unlabelled import assert_optimal


def rare(seed: int = 0, *, p: int, n: int, prior: float = 0.08) -> tuple[Matrix, Vector, Vector]:
    """Return positives, then unlabelled, few of which are positive: with labels, and with what the latter are."""
    rng = np.random.default_rng(seed)
    k = int(rng.binomial(n, prior))
    shift = 1.4 * (np.arange(8) < 3)
    X = rng.normal(size=(p + n, 8)) + np.where(np.arange(p + n)[:, None] < p + k, shift, 0.0)
    return X, (np.arange(p + n) < p).astype(float), (np.arange(n) < k).astype(float)


def few(seed: int = 0, p: int = 20, n: int = 60) -> tuple[Matrix, Vector]:
    """Return positives, then unlabelled, with their labels."""
    P, U = two_clouds(seed, p, n)
    return np.vstack([P, U]), np.concatenate([np.ones(p), np.zeros(n)])


@pytest.mark.parametrize("n", [1500, pytest.param(5000, marks=pytest.mark.slow)])
def test_at_the_size_of_users_the_default_finds_as_much_as_a_lam_chosen_by_hand(n: int) -> None:
    X, s, true = rare(p=300, n=n)
    unlabelled = X[s == 0]
    found = PUClassifier().fit(X, s)
    by_hand = PUClassifier(found.prior_, lam=0.001).fit(X, s)
    ours, theirs = (scores(model.decision_function(unlabelled), true) for model in (found, by_hand))
    assert ours.f_measure >= 0.95 * theirs.f_measure
    assert min(ours.precision, ours.recall) > 0.5
    assert found.warnings_ == []
    with pytest.warns(UserWarning, match=f"none of {n} unlabelled examples .* set a smaller lam than 0.01"):
        assert not PUClassifier(found.prior_, lam=0.01).fit(X, s).predict(unlabelled).any()
    flagged = found.predict(unlabelled, alerts=0.02)
    assert 0.01 < flagged.mean() < 0.03
    assert true[flagged == 1].mean() > true[found.predict(unlabelled) == 1].mean()


def test_lam_is_that_with_the_least_risk_of_held_out_examples() -> None:
    X, s, _ = rare(p=100, n=600, prior=0.2)
    kernel = Kernel("rbf", 0.2)
    folds = Folds(kernel, X, s, np.ones(s.size))
    best = folds.best_lam(0.2)
    risks = {}
    for lam in (0.1, 0.032, 0.01, 0.0032, 0.001, 0.00032, 0.0001):
        found = folds.held_out(0.2, lam)
        risks[lam] = zero_one_risk(found.positives, found.unlabelled, 0.2)
    assert best == min(risks, key=lambda lam: risks[lam])
    assert risks[best] < risks[0.1] == 0.2
    larger = Folds(Kernel("linear"), 1000.0 * X, s, np.ones(s.size)).best_lam(0.2)
    plain = Folds(Kernel("linear"), X, s, np.ones(s.size)).best_lam(0.2)
    assert 0.2 <= larger / (1e6 * plain) <= 5.0
    assert Folds(kernel, X[97:], s[97:], np.ones(s.size - 97)).best_lam(0.2) == LAM
    sparse = Folds(kernel, SparseRows.of_dense(X), s, np.ones(s.size)).best_lam(0.2)
    assert 0.1 * best <= sparse <= 10.0 * best


def test_each_example_is_decided_by_a_model_that_has_not_seen_it() -> None:
    X, s = few(p=9, n=15)
    weights = np.where(np.arange(24) % 5 == 4, 0.0, 1.0 + np.arange(24) % 3)
    kernel = Kernel("rbf", 0.5)
    folds = Folds(kernel, X, s, weights)
    found = folds.held_out(0.4, 0.01)
    assert (found.positives.size, found.unlabelled.size) == (8, 12)
    rows = [np.flatnonzero((x == X).all(axis=1))[0] for x in folds.X]
    decisions = np.empty(24)
    for fold in range(3):
        rest, out = (np.array(rows)[which] for which in (folds.fold != fold, folds.fold == fold))
        model = PUClassifier(0.4, 0.01, gamma=0.5).fit(X[rest], s[rest], weights[rest])
        decisions[out] = model.decision_function(X[out])
    counted = weights > 0
    for mine, which in ((found.positives, s == 1), (found.unlabelled, s == 0)):
        np.testing.assert_allclose(mine, np.sort(decisions[which & counted]), atol=0.05)


def test_a_live_model_chooses_what_the_batch_classifier_does_and_keeps_it() -> None:
    X, s, _ = rare(p=60, n=240, prior=0.2)
    model, batch = IncrementalPUClassifier().fit(X, s), PUClassifier(lam="auto").fit(X, s)
    assert model.lam_ == batch.lam_
    assert 0.5 / model.lam_ == model.C
    np.testing.assert_allclose(model.decision_function(X), batch.decision_function(X), atol=1e-3)
    asked = {"alerts": 0.1}
    assert model.threshold(**asked) == batch.threshold(**asked)
    assert (model.predict(X, **asked) == (model.decision_function(X) > model.threshold(**asked).value)).all()
    before, cut = model.lam_, model.threshold(0.1)
    model.update(add=(X[:60] + 1.0, np.zeros(60)))
    assert model.lam_ == before
    assert model.threshold(0.1) != cut
    assert_optimal(model)
    back = type(model).from_arrays(model.get_params(), model.to_arrays())
    assert (back.lam, back.lam_) == (None, before)
    cut = back.threshold(0.1)
    back.change(gamma=3.0 * back.gamma_)
    assert back.threshold(0.1) != cut
    other = type(model).from_arrays(model.get_params(), model.to_arrays() | {"chosen_lam": np.array([0.02])})
    other.update(remove=[0])
    assert other.lam_ == 0.02
    model.change(lam="auto")
    assert model.lam_ == IncrementalPUClassifier(model.prior_).fit(model.window_X, model.window_y).lam_
    model.change(lam=0.02)
    assert (model.lam_, model.chosen_lam_) == (0.02, None)
    model.set_params(lam=None).update()
    assert model.lam_ not in (0.02, None)
    assert_optimal(model)
    model.update(C=10.0)
    assert (model.lam, model.lam_) == (0.05, 0.05)


@pytest.mark.parametrize("first", [1.0, 0.0])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_examples_of_one_kind_wait_for_the_other(first: float, kernel: str) -> None:
    X, s = few(p=12, n=40)
    X = X * [1.0, 50.0]
    at = [np.flatnonzero(s == first), np.flatnonzero(s != first)]
    order = np.concatenate(at)
    given = kernel == "precomputed"
    K = np.exp(-0.5 * np.square((X[:, None] - X[None]) / [1.0, 50.0]).sum(axis=2))
    model = IncrementalPUClassifier(kernel=kernel, scale="none" if given else "standard")

    def add(rows: Ints, seen: Ints) -> None:
        block = K[np.ix_(rows, np.concatenate([seen, rows]))] if given else X[rows]
        model.update(add=(block, s[rows]), keys=rows.tolist())

    add(at[0][:-1], at[0][:0])
    add(at[0][-1:], at[0][:-1])
    assert model.is_waiting_
    assert (model.n_window_, model.support_.size) == (at[0].size, 0)
    assert [one.name for one in model.warnings_] == ["waits"]
    what = "unlabelled" if first else "positive"
    for asked in (model.predict, model.decision_function):
        with pytest.raises(InvalidInput, match=f"window: the model waits for {what} examples: it has 0"):
            asked(K[:3, : at[0].size] if given else X[:3])
    with pytest.raises(InvalidInput, match="waits"):
        model.threshold(0.1)
    model = type(model).from_arrays(model.get_params(), model.to_arrays())
    add(at[1][:1], at[0])  # too few to estimate a prior
    assert model.is_waiting_
    before = model.to_arrays()["keys"]
    with pytest.raises(TimeLimit), time_limit(1e-9):
        add(at[1][1:], order[: at[0].size + 1])
    assert (model.is_waiting_, model.keys_) == (True, before)
    add(at[1][1:], order[: at[0].size + 1])
    assert not model.is_waiting_
    whole = IncrementalPUClassifier(kernel=kernel, scale=model.scale)
    whole.fit(K[np.ix_(order, order)] if given else X[order], s[order])
    assert (model.prior_, model.lam_, model.gamma_) == (whole.prior_, whole.lam_, whole.gamma_)
    probes = K[:, order] if given else X
    np.testing.assert_allclose(model.decision_function(probes), whole.decision_function(probes), atol=1e-6)
    assert model.certificate().relative_gap < 1e-8
    with pytest.raises(InvalidInput, match="both kinds"):
        model.update(remove=at[0].tolist())


def test_a_window_that_was_emptied_waits_again_with_what_it_has_chosen() -> None:
    X, s = few(p=12, n=40)
    model = IncrementalPUClassifier(gamma=0.5).fit(X, s)
    chosen = model.prior_, model.lam_
    model.update(remove=model.keys_)
    model.update(add=(X[:12], s[:12]))
    assert model.is_waiting_
    model.update(add=(X[12:], s[12:]))
    assert (model.prior_, model.lam_) == chosen
    assert_optimal(model)


def test_thresholds_are_of_held_out_shares() -> None:
    held = HeldOut(np.array([0.5, 1.5, 2.5, 3.5]), np.arange(10.0) - 6.0, prior=0.3)
    one = held.threshold(alerts=0.25)
    assert (one.value, one.recall) == (1.0, 0.75)
    assert one.alerts == pytest.approx(0.2)
    assert one.precision == pytest.approx(min(1.0, 0.3 * 0.75 / 0.2))
    assert held.threshold(alerts=0.05)[:2] == (3.0, 0.0)
    assert held.threshold(precision=0.6) == held.at(-2.0)  # five are above it, 0.3 / 0.5, and six above -3
    assert held.at(-2.0).precision == pytest.approx(0.6)
    assert held.threshold(precision=0.3).alerts == 1.0
    for wrong, field in (
        ({}, "alerts"),
        ({"alerts": 0.1, "precision": 0.5}, "alerts"),
        ({"alerts": 0.0}, "alerts"),
        ({"precision": 1.0}, "precision"),
    ):
        with pytest.raises(InvalidInput) as caught:
            held.threshold(**wrong)
        assert caught.value.field == field
    with pytest.raises(InvalidInput, match=r"no threshold is estimated to reach 0.9; the highest estimate is 0.2"):
        HeldOut(np.zeros(4), np.zeros(4), prior=0.2).threshold(precision=0.9)


def test_what_is_wrong_with_labels_names_y() -> None:
    X, s = few()
    for estimator in (PUClassifier, IncrementalPUClassifier):
        for y, reason in ((3 * s - 2, "y, row 20: a label is 1"), (np.ones(80), "y: there is no unlabelled")):
            with pytest.raises(InvalidInput, match=reason):
                estimator(0.4).fit(X, y)


def test_a_model_that_flags_everything_warns_too() -> None:
    X, s = few()
    with pytest.warns(UserWarning, match="all of 60 .* set a larger lam"):
        model = IncrementalPUClassifier(0.99, 10.0).fit(X, s)
    assert [one.name for one in model.warnings_] == ["everything_is_flagged"]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 4)), min_size=1, max_size=9), st.floats(0, 1))
def test_starts_fill_boxes_from_the_highest_score_to_their_sum(drawn: list[tuple[int, int]], share: float) -> None:
    scores, tops = (np.array(each, float) for each in zip(*drawn, strict=True))
    total = share * tops.sum()
    sigma = ranked(scores, tops, total)
    assert sigma.sum() == pytest.approx(total)
    assert ((sigma >= 0) & (sigma <= tops)).all()
    for low, high in itertools.permutations(range(len(drawn)), 2):
        if scores[low] < scores[high]:
            assert sigma[low] == 0 or sigma[high] == tops[high]
    both = from_scores(scores, tops, total)  # one half of a box is filled at f = -1, the other at f = 1
    halves = [s for value, top in zip(scores, tops, strict=True) for s in ((value + 1, top / 2), (value - 1, top / 2))]
    filled = sorted(halves, reverse=True)
    cut = next((s for i, (s, _) in enumerate(filled) if sum(t for _, t in filled[: i + 1]) >= total - 1e-12), -np.inf)
    ends = scores[:, None] + [1.0, -1.0]
    full, most = ((tops / 2) * np.count_nonzero(which, axis=1) for which in (ends > cut, ends >= cut))
    assert both.sum() == pytest.approx(total)
    assert ((both >= full - 1e-9) & (both <= most + 1e-9)).all()


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 2)), min_size=1, max_size=8), st.floats(0, 1))
def test_what_is_missing_of_a_sum_is_shared_by_space(drawn: list[tuple[float, float]], share: float) -> None:
    parts, top = (np.array(each) for each in zip(*drawn, strict=True))
    total = share * top.sum()
    found = _with_sum(parts * top, top, total)
    assert found.sum() == pytest.approx(total, abs=1e-9)
    assert ((found >= -1e-9) & (found <= top + 1e-9)).all()
    moved = found - parts * top
    room = (1 - parts) * top if total > (parts * top).sum() else parts * top
    if room.sum() > 1e-6:
        np.testing.assert_allclose(moved * room.sum(), room * moved.sum(), atol=1e-9)


@pytest.mark.parametrize(
    ("risks", "looked_at", "best"),
    [
        ([0.3, 0.2, 0.1, 0.05] + [0.2] * 7, 7, 3),  # three that are worse end it
        ([0.3, 0.2, 0.1, 0.2, 0.2, 0.1, 0.2, 0.05, 0.3, 0.3, 0.3], 6, 2),  # an equal one is no better
        ([0.3, 0.2, 0.1, 0.2, 0.2, 0.05, 0.2, 0.2, 0.2, 0.3, 0.3], 9, 5),
        ([0.4] * 11, 11, 0),  # none is better than to flag nothing: all are looked at
        ([0.5, 0.4, 0.4, 0.4, 0.4, 0.39, 0.41, 0.5, 0.5, 0.5, 0.5], 9, 5),
    ],
)
def test_smaller_lam_are_looked_at_until_three_are_worse(risks: list[float], looked_at: int, best: int) -> None:
    X, s = few(p=9, n=15)
    folds, values = Folds(Kernel("rbf", 0.5), X, s, np.ones(24)), [10.0**-k for k in range(11)]
    seen = list[float]()

    def reported(prior: float) -> Iterator[tuple[float, float]]:
        for lam, risk in zip(values, risks, strict=True):
            seen.append(lam)
            yield lam, risk

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folds, "_risks", reported)
        assert folds.best_lam(0.4) == values[best]
    assert len(seen) == looked_at
