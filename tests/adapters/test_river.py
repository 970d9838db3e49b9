"""Live models as river's: its own checks, and laws of the window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from livesvm import IncrementalSVC, IncrementalSVR
from livesvm.solvers.errors import InvalidInput, UnknownKey

pytest.importorskip("river", reason="livesvm[river] is not installed")

from river import checks, datasets

from livesvm.river import SVC, SVR


def stream(n: int) -> Iterator[tuple[dict[str, float], float]]:
    """Rows in which features come and go."""
    rng = np.random.default_rng(0)
    for at in range(n):
        names = [name for name in "abcdefgh"[: 2 + at // 5] if rng.random() < 0.8] or ["a"]
        x = {name: float(value) for name, value in zip(names, rng.normal(size=len(names)), strict=True)}
        yield x, x.get("a", 0.0) - x.get("c", 0.0)


def matrix(rows: list[dict[str, float]]) -> Any:
    return np.array([[x.get(name, 0.0) for name in "abcdefgh"] for x in rows])


@pytest.mark.slow
@pytest.mark.parametrize("model", [SVC(), SVR()], ids=["SVC", "SVR"])
def test_river_checks_it(model: Any) -> None:
    checks.check_estimator(model)


def test_probabilities_are_as_river_asks() -> None:
    model, rows = SVC(probability=True, window=20), list(datasets.Phishing().take(50))
    checks.clf.check_predict_proba_one(model.clone(), rows)
    checks.clf.check_classifier_tracks_seen_labels(model.clone(), rows)
    checks.common.check_predict_proba_many_matches_predict_proba_one(model.clone(), rows)


def test_the_window_is_what_the_newest_examples_alone_teach() -> None:
    svc, svr = SVC(window=25, gamma=0.3), SVR(window=25, gamma=0.3, epsilon=0.01)
    seen = list(stream(60))
    for x, value in seen:
        svc.learn_one(x, "up" if value > 0 else "down")
        svr.learn_one(x, value)
    X, y = matrix([x for x, _ in seen]), np.array([value for _, value in seen])
    labels = IncrementalSVC(gamma=0.3).fit(X[-25:], np.where(y[-25:] > 0, "up", "down")).predict(X)
    values = IncrementalSVR(gamma=0.3, epsilon=0.01).fit(X[-25:], y[-25:]).predict(X)
    assert [svc.predict_one(x) for x, _ in seen] == labels.tolist()
    assert [svr.predict_one(x) for x, _ in seen] == pytest.approx(values.tolist(), abs=1e-7)


def test_what_is_forgotten_was_never_learnt() -> None:
    kept, forgets = SVR(gamma=0.3), SVR(gamma=0.3)
    for at, (x, y) in enumerate(stream(30)):
        forgets.learn_one(x, y)
        if at % 3:
            kept.learn_one(x, y)
    for at, (x, y) in enumerate(stream(30)):
        if not at % 3:
            forgets.forget_one(x, y)
    for x, y in stream(30):
        assert forgets.predict_one(x) == pytest.approx(kept.predict_one(x), abs=1e-7)
        with pytest.raises(UnknownKey, match="no example"):
            forgets.forget_one(x, y + 1.0)
        with pytest.raises(UnknownKey, match="no example"):
            forgets.forget_one(x | {"never": 1.0}, y)


@pytest.mark.parametrize("kind", [SVC, SVR])
def test_an_empty_frame_teaches_nothing(kind: Any) -> None:
    pd = pytest.importorskip("pandas")
    model, empty = kind(), pd.DataFrame({"a": [], "b": []})
    model.learn_many(empty, pd.Series([], dtype=float))
    assert len(model.predict_many(empty)) == 0
    model.learn_many(pd.DataFrame({"a": [-1.0, 1.0], "b": [0.0, 0.0]}), pd.Series([0, 1]))
    before = model.predict_one({"a": 0.7})
    model.learn_many(empty, pd.Series([], dtype=float))
    assert model.predict_one({"a": 0.7}) == before
    with pytest.raises(InvalidInput, match="for 0 rows"):
        model.learn_many(empty, pd.Series([1]))


@pytest.mark.parametrize("kind", [SVC, SVR])
def test_wrong_features_are_named(kind: Any) -> None:
    pd = pytest.importorskip("pandas")
    model = kind()
    with pytest.raises(InvalidInput, match="two columns 'a'"):
        model.learn_many(pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), pd.Series([1]))
    with pytest.raises(InvalidInput, match="row 1, column 'b': contains NaN"):
        model.learn_many(pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, np.nan]}), pd.Series([0, 1]))
    for value in (None, "x"):
        with pytest.raises(InvalidInput, match="column 'b'"):
            model.learn_one({"a": 1.0, "b": value}, 1)
    assert model.predict_one({"a": 1.0}) in (None, 0.0)
