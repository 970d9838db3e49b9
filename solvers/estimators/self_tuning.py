"""Estimators that choose the parameters called "auto" by their window, and choose again as it changes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import update_wrapper
from typing import Any, Self, cast

from livesvm.solvers.analyses.tuning.automatic import LEAST, TunedParameters, choose
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.report import UpdateReport

TUNE_SHARE = 1.0  #: of the processor time of updates since the first choice, which later ones take at most


class SelfTuning:
    """Goes before a live estimator among the bases.

    With ``C="auto"`` the first choice is made once there are 40 examples, by ``fit`` or by an update; the next one when
    the window has twice as many as at the last, or as many have come since as it has. Later choices take no more
    processor time than updates have taken since the first.
    """

    choice_: TunedParameters  #: the last that was made: parameters, their score, and that of the defaults
    _of_updates = 0.0  #: seconds of processor time of updates since the first choice
    _of_choices = 0.0  #: and of later choices
    _since = 0  #: examples since the last choice

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, keys: Any = None) -> Self:
        model: Any = super()
        model.fit(X, y, sample_weight, keys)
        self._of_updates = self._of_choices = 0.0
        self._consider(0.0, 0)
        return self

    def update(self, add: Any = None, remove: Any = None, **more: Any) -> UpdateReport:
        started, model = time.thread_time(), cast(Any, super())
        report: UpdateReport = model.update(add, remove, **more)
        self._consider(time.thread_time() - started, len(report.added))
        return report

    def to_arrays(self) -> dict[str, Any]:
        arrays: dict[str, Any] = cast(Any, super()).to_arrays()
        return arrays | {"choice": vars(self.choice_)} if "choice_" in vars(self) else arrays

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        cast(Any, super())._restore(arrays)
        if "choice" in arrays:
            self.choice_ = TunedParameters(**arrays["choice"])

    def _consider(self, seconds: float, came: int) -> None:
        """Choose anew where that is due, after an update of so many seconds; what cannot be chosen stays as it is."""
        model: Any = self
        if not isinstance(model.C, str) or model.n_window_ < LEAST:
            return
        last: TunedParameters | None = vars(self).get("choice_")
        if last is not None:
            self._of_updates += seconds
            self._since += came
            n = model.n_window_
            cost = last.seconds * max(1.0, n / last.n_examples)
            is_due = n >= 2 * last.n_examples or self._since >= n
            if not is_due or self._of_choices + cost > TUNE_SHARE * self._of_updates:
                return
        try:
            found = choose(self)
        except InvalidInput:  # as one class has too few examples to judge by
            return
        if last is not None:
            self._of_choices += found.seconds
        if found.is_better or last is None:
            model._adopt(found.parameters)
        self.choice_, self._since = found, 0


for _name in ("fit", "update", "to_arrays"):  # they are the estimator's, and documented there
    update_wrapper(vars(SelfTuning)[_name], vars(LiveEstimator)[_name])
