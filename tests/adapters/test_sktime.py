"""A feed's forecaster in sktime's back tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.spec import spec_of

pytest.importorskip("sktime", reason="livesvm[sktime] is not installed")

import pandas as pd
from sktime.forecasting.model_evaluation import evaluate
from sktime.performance_metrics.forecasting import MeanAbsoluteError
from sktime.split import ExpandingWindowSplitter

from livesvm.sktime import FeedForecaster

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # sktime's, of its own next version
SETTINGS = {"lags": 6, "season": 12, "rolling": {}, "represent": "change", "C": 1.0, "gamma": 0.05}
VALUES = np.sin(np.arange(110) * 2 * np.pi / 12) + 0.1 * np.random.default_rng(0).normal(size=110)
INDICES = {
    "times": pd.date_range("2024-01-01", periods=110, freq="h"),
    "periods": pd.period_range("2024-01-01", periods=110, freq="h"),
    "order": pd.RangeIndex(110),
}


@pytest.mark.parametrize("index", INDICES)
def test_a_back_test_has_the_forecasts_of_a_feed(index: str) -> None:
    y = pd.Series(VALUES, INDICES[index], name="load")
    splits = ExpandingWindowSplitter(fh=[1, 3], initial_window=100, step_length=1)
    found = evaluate(
        FeedForecaster(60, SETTINGS),
        splits,
        y,
        strategy="update",
        scoring=MeanAbsoluteError(),
        return_data=True,
        error_score="raise",
    )
    assert len(found) == 8
    spec = {"target": "y", "time": None if index == "order" else "time", "window": 60, "steps": [1, 3], **SETTINGS}
    feed = Forecaster(spec_of(spec))
    rows: list[dict[str, Any]] = [
        {"time": at.isoformat(), "y": value} if index != "order" else {"y": value}
        for at, value in zip(INDICES["times"], VALUES.tolist(), strict=True)
    ]
    feed.observe(rows[:100])
    for at, predicted in zip(range(100, 108), found["y_pred"], strict=True):
        assert predicted.tolist() == [one.value for one in feed.latest]
        assert predicted.index.equals(y.index[[at, at + 2]])
        feed.observe(rows[at : at + 1])


def test_what_cannot_be_forecast_is_said() -> None:
    y = pd.Series(VALUES)
    with pytest.raises(ValueError, match="not those of the window"):
        FeedForecaster(60).fit(y, fh=[0, 1])
    with pytest.raises(ValueError, match="needs two readings"):
        FeedForecaster(200).fit(y[:1], fh=[1]).predict()
    with pytest.raises(ValueError, match="lag: is not one of"):
        FeedForecaster(60, {"lag": 4}).fit(y, fh=[1])
