"""Targets that are learnt on another scale: answers in units of y, analyses on the scale, its choice and its end."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor

from livesvm.solvers import (
    IncrementalSVR,
    before_learning,
    conformal,
    data_values,
    drift,
    influences,
    k_fold,
    leave_one_out,
    load_model,
    save_model,
)
from livesvm.solvers.analyses.conformal import Method
from livesvm.solvers.errors import InvalidInput

RNG = np.random.default_rng(63)
N = 160
X = RNG.normal(size=(N, 3))
PRICE = np.exp(6.0 + X @ [0.8, 0.4, 0.0] + 0.3 * RNG.normal(size=N))
ROWS = RNG.normal(size=(20, 3))
INTO = {"log": np.log, "log1p": np.log1p}
BACK = {"log": np.exp, "log1p": np.expm1}
LOSSES: list[dict[str, Any]] = [{"epsilon": 0.05}, {"loss": "absolute"}, {"loss": "pinball", "quantile": 0.8}]


def both(kind: str = "log", n: int = 100, **given: Any) -> tuple[IncrementalSVR, IncrementalSVR]:
    """Return a model of prices on a scale, and a model of prices that were put on it before."""
    given = {"C": 3.0, "gamma": 0.3} | given
    models = IncrementalSVR(target_scale=kind, **given), IncrementalSVR(**given)
    return models[0].fit(X[:n], PRICE[:n]), models[1].fit(X[:n], INTO[kind](PRICE[:n]))


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["log", "log1p"])
@pytest.mark.parametrize("given", LOSSES, ids=str)
def test_everything_but_answers_in_units_of_y_is_that_of_a_model_of_logarithms(
    kind: str, given: dict[str, Any]
) -> None:
    scaled, plain = both(kind, **given)
    into, back = INTO[kind], BACK[kind]
    for model, y in ((scaled, PRICE), (plain, into(PRICE))):
        new = {100: y[0], 90: y[1]}
        model.update((X[100:120], y[100:120]), remove=model.keys_[:20], relabel={90: new[90]}, reweight={95: 0.5})
        model.update(C=2.0)
    same(scaled.predict(ROWS), back(plain.predict(ROWS)))
    assert scaled.window_y.tolist()[-20:] == PRICE[100:120].tolist()
    truth = np.exp(6.0 + ROWS[:, 0])
    for ask in (leave_one_out, lambda one: k_fold(one, 5), drift):
        same(ask(scaled).error, ask(plain).error)
    same(data_values(scaled, ROWS, truth).values, data_values(plain, ROWS, into(truth)).values)
    same(influences(scaled, ROWS).without, influences(plain, ROWS).without)
    methods: tuple[Method, ...] = ("plus", "minmax")
    for level in (0.5, 0.9, 0.999):
        for method in methods:
            ends, logarithms = (conformal(one).intervals(ROWS, level, method) for one in (scaled, plain))
            same(ends, back(logarithms))
    curves = [
        one.regularization_path(0.1, 10.0).validation_error(ROWS, y)
        for one, y in ((scaled, truth), (plain, into(truth)))
    ]
    same(curves[0].best().error, curves[1].best().error)
    assert curves[0].best().value == pytest.approx(curves[1].best().value)


def test_robust_losses_have_their_cutoffs_on_the_scale() -> None:
    scaled, plain = both()
    for parameter in ("theta", "s"):
        found, expected = (one.outlier_path(parameter, theta=0.2) for one in (scaled, plain))
        assert found.order_of_outliers()
        assert found.start == pytest.approx(expected.start)
        middle = 0.5 * (found.start + found.end)
        same(found.at(middle).predict(ROWS), np.exp(expected.at(middle).predict(ROWS)))
        same(found.validation_errors(ROWS, np.exp(ROWS[:, 0])), expected.validation_errors(ROWS, ROWS[:, 0]))
    robust = found.at(found.end)
    assert robust.local_optimality().violation < 1e-9
    with pytest.raises(InvalidInput, match="target_scale: stays while losses are robust"):
        robust.change(target_scale="none")


def test_the_record_and_errors_before_learning_are_in_units_of_y() -> None:
    model, _ = both()
    off = np.abs(model.predict(X[100:130]) - PRICE[100:130])
    same(before_learning(model, X[100:130], PRICE[100:130]), [off, off])
    model.update((X[100:130], PRICE[100:130]))
    assert model.record is not None
    shown = model.record.shown()
    assert shown["error"] == pytest.approx(off.mean())
    assert shown["naive_error"] > shown["error"]
    assert model.record.to_document() == model.record_with([]).to_document()  # type: ignore[union-attr]


@pytest.mark.parametrize(("kind", "bad"), [("log", 0.0), ("log", -1.0), ("log1p", -0.5)])
def test_a_target_that_the_scale_does_not_have_is_named_and_changes_nothing(kind: str, bad: float) -> None:
    model, _ = both(kind)
    before = pickle.dumps(model.to_arrays())
    reason = "must be above 0" if kind == "log" else "must be 0 or above"
    with pytest.raises(InvalidInput, match=f"y, row 1: {reason}"):
        model.update((X[100:103], [1.0, bad, 2.0]))
    with pytest.raises(InvalidInput, match=f"relabel, row 0: {reason}"):
        model.update(relabel={5: bad})
    with pytest.raises(InvalidInput, match=reason):
        model.fit(X[:3], [1.0, 1.0, bad])
    assert pickle.dumps(model.to_arrays()) == before


def test_the_scale_is_changed_on_a_whole_window_or_not_at_all() -> None:
    model, logarithms = both()
    model.change(target_scale="none")
    same(model.predict(ROWS), IncrementalSVR(C=3.0, gamma=0.3).fit(X[:100], PRICE[:100]).predict(ROWS))
    model.change(target_scale="log")
    same(model.predict(ROWS), np.exp(logarithms.predict(ROWS)))
    model.change(target_scale="none")
    model.update((X[:1], [-3.0]), keys=["debt"])
    with pytest.raises(InvalidInput, match="target_scale: cannot be 'log': example 'debt' must be above 0"):
        model.change(target_scale="log")
    with pytest.raises(InvalidInput, match="target_scale: must be one of none, log, log1p, or 'auto', not 'sqrt'"):
        model.change(target_scale="sqrt")
    assert model.target_scale_ == "none"
    assert model.certificate().relative_gap < 1e-9


def auto(**given: Any) -> IncrementalSVR:
    return IncrementalSVR(C="auto", epsilon="auto", target_scale="auto", **given)


def test_a_scale_is_chosen_where_it_lowers_the_error_in_units_of_y() -> None:
    model = auto().fit(X, PRICE)
    assert (model.target_scale_, model.choice_.parameters["target_scale"]) == ("log", "log")
    plain = IncrementalSVR(C="auto", epsilon="auto").fit(X, PRICE)
    truth = np.exp(6.0 + ROWS @ [0.8, 0.4, 0.0])
    assert np.abs(model.predict(ROWS) - truth).mean() < np.abs(plain.predict(ROWS) - truth).mean()
    assert model.choice_.loss < plain.choice_.loss
    counts = np.floor(PRICE / 400.0)
    assert counts.min() == 0.0
    assert auto().fit(X, counts).target_scale_ in ("none", "log1p")
    additive = 5.0 + RNG.gamma(1.0, 2.0, N)
    assert auto().fit(np.column_stack([additive, X]), additive + 0.1 * X[:, 0]).target_scale_ == "none"
    assert auto().fit(X, PRICE - 2000.0).target_scale_ == "none"
    assert IncrementalSVR(target_scale="auto").fit(X, PRICE).target_scale_ == "none"  # nothing chooses


def test_a_chosen_scale_ends_with_a_target_that_it_does_not_have() -> None:
    model = auto().fit(X, PRICE)
    chosen, foretold = dict(model.chosen_), model.predict(ROWS[:1])[0]
    assert model.record is None or not model.record.shown()["n"]
    model.update((ROWS[:1], [-5.0]))
    assert model.record is not None
    assert model.record.shown()["error"] == pytest.approx(foretold + 5.0)
    assert model.target_scale_ == "none"
    unit = chosen["target_unit"]
    assert unit == pytest.approx(PRICE.std() / np.log(PRICE).std())
    assert (model.C_, model.epsilon_) == (unit * chosen["C"], unit * chosen["epsilon"])
    anew = IncrementalSVR(C=model.C_, epsilon=model.epsilon_, gamma=model.gamma_)
    anew.fit(np.vstack([X, ROWS[:1]]), [*PRICE, -5.0])
    np.testing.assert_allclose(model.predict(ROWS), anew.predict(ROWS), rtol=1e-6, atol=1e-4)
    again = auto().fit(X, PRICE)
    with pytest.raises(InvalidInput):
        again.update((ROWS[:2], [-5.0, np.nan]))
    assert again.target_scale_ == "log"
    again.update(relabel={3: 0.0})
    assert again.target_scale_ == "none"


def test_a_number_for_C_keeps_the_chosen_scale() -> None:
    model = auto().fit(X, PRICE)
    before = model.predict(ROWS)
    model.update(C=model.C_)
    assert (model.target_scale, model.target_scale_) == ("log", "log")
    same(model.predict(ROWS), before)
    with pytest.raises(InvalidInput, match="y, row 0"):
        model.update((ROWS[:1], [0.0]))


def test_copies_files_and_scikit_learn_have_the_scale(tmp_path: Path) -> None:
    for model in (both()[0], both("log1p", scale="standard")[0], auto().fit(X, PRICE)):
        expected = model.predict(ROWS)
        save_model(model, tmp_path / "prices.npz")
        for other in (load_model(tmp_path / "prices.npz"), pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(other.predict(ROWS), expected)
            other.update((ROWS[:3], [3.0, 4.0, 5.0]))
            assert other.target_scale_ == model.target_scale_
        assert clone(model).get_params() == model.get_params()
        exported = model.to_sklearn()
        assert isinstance(exported, TransformedTargetRegressor)
        np.testing.assert_allclose(exported.predict(ROWS), expected, rtol=1e-9)
        with pytest.raises(InvalidInput, match="target_scale: a scale of targets is not taken along as ONNX"):
            model.to_onnx()


def test_models_without_a_scale_have_the_files_that_they_had(tmp_path: Path) -> None:
    save_model(IncrementalSVR(C=1.0).fit(X, PRICE), tmp_path / "prices.npz")
    with np.load(tmp_path / "prices.npz") as archive:
        head = str(archive["head"])
    assert "target_scale" not in head
    assert '"version": 1' in head
