"""A feed's forecaster for sktime's back tests; needs the extra ``livesvm[sktime]``."""

from __future__ import annotations

from typing import Any, ClassVar

from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.spec import spec_of

try:
    import pandas as pd
    from sktime.forecasting.base import BaseForecaster
except ImportError as error:
    raise ImportError("livesvm.sktime needs sktime: pip install 'livesvm[sktime]'") from error

__all__ = ["FeedForecaster"]

TARGET, TIME = "y", "time"


class FeedForecaster(BaseForecaster):
    """The forecaster of a feed: one live model for each step ahead, exactly optimal for its window.

    ``update`` moves the window by the readings that came, as a feed does, where others are fitted again.

    Parameters
    ----------
    window : int, default 1000
        How many readings are remembered; ``fit`` needs them and as many more as the longest step and the lags take.
    settings : dict or None, default None
        What else ``POST /feeds`` takes, such as ``lags``, ``season`` or ``represent``.
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": "The LiveSVM developers",
        "y_inner_mtype": "pd.Series",
        "capability:exogenous": False,
        "capability:missing_values": True,
        "capability:update": True,
        "requires-fh-in-fit": True,
    }

    def __init__(self, window: int = 1000, settings: dict[str, Any] | None = None) -> None:
        self.window = window
        self.settings = settings
        super().__init__()
        self.set_config(remember_data=False)  # the feed has its window

    def _fit(self, y: Any, X: Any = None, fh: Any = None) -> FeedForecaster:
        steps = [int(step) for step in fh.to_relative(self.cutoff)]
        if min(steps) < 1:
            raise ValueError("fh: a feed forecasts readings to come, not those of the window")
        has_times = isinstance(y.index, pd.DatetimeIndex | pd.PeriodIndex)
        asked = {"target": TARGET, "time": TIME if has_times else None, "window": self.window, "steps": steps}
        self.feed_ = Forecaster(spec_of(asked | (self.settings or {})))
        self.last_: Any = None
        self.name_ = y.name
        return self._update(y)

    def _update(self, y: Any, X: Any = None, update_params: bool = True) -> FeedForecaster:
        """Take the readings that the feed does not have yet."""
        new = y if self.last_ is None else y[y.index > self.last_]
        if len(new):
            values = [None if pd.isna(value) else float(value) for value in new]
            self.feed_.observe([self._row(at, value) for at, value in zip(new.index, values, strict=True)])
            self.last_ = new.index[-1]
        return self

    def _row(self, at: Any, value: float | None) -> dict[str, Any]:
        if self.feed_.spec.time is None:
            return {TARGET: value}
        return {TIME: (at.start_time if isinstance(at, pd.Period) else at).isoformat(), TARGET: value}

    def _predict(self, fh: Any, X: Any = None) -> Any:
        found = {one.step: one.value for one in self.feed_.latest}
        if not found:
            raise ValueError("a forecast needs two readings; fit more")
        values = [found[int(step)] for step in fh.to_relative(self.cutoff)]
        return pd.Series(values, index=fh.to_absolute_index(self.cutoff), name=self.name_)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters for sktime's own tests."""
        return [{"window": 40, "settings": {"lags": 4, "season": 0, "rolling": {}}}]
