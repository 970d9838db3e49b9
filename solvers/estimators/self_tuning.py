"""Estimators that choose their parameters "auto" by the window, and choose these again as the window changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from livesvm.solvers.analyses.tuning.automatic import LEAST, TunedParameters, choose
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.changing import ChangingEstimator
from livesvm.solvers.models.report import UpdateReport

TUNE_SHARE = 0.2  #: of the time of updates since the first choice, which later ones take at most


class SelfTuning(ChangingEstimator):
    """A base class for self-tuning estimators, listed before the live estimator.

    If the encoding of columns was fitted to fewer than 40 rows, it is fitted again when the window has twice as many.

    With ``C="auto"`` or an open ``lam``, ``fit`` or an update makes the first choice once there are 40 examples. The
    next choice is due when the window has twice as many examples as at the last choice, or when as many new examples
    have come as the window holds. All later choices together take at most a fifth of the time of all updates since the
    first choice.
    """

    choice_: TunedParameters  #: the last that was made: parameters, their score, and that of the defaults
    _of_updates = 0.0  #: seconds of updates since the first choice
    _of_choices = 0.0  #: and of later choices
    _since = 0  #: examples since the last choice
    _of_encoding = 0  #: by which the encoding of columns was fitted

    def to_arrays(self) -> dict[str, Any]:
        """Return everything a checkpoint needs, with the last choice.

        Returns
        -------
        dict
            Arrays and numbers by name, from which :meth:`from_arrays` makes the model.
        """
        arrays = super().to_arrays()
        return arrays | {"choice": vars(self.choice_)} if "choice_" in vars(self) else arrays

    def _restore(self, arrays: Mapping[str, Any]) -> None:
        super()._restore(arrays)
        if "choice" in arrays:
            self.choice_ = TunedParameters(**arrays["choice"])

    def _hand_over(self, fresh: Self) -> None:
        super()._hand_over(fresh)
        if "choice_" in vars(self):
            fresh.choice_ = self.choice_

    def _consider(self, report: UpdateReport | None) -> None:
        n = self.n_window_
        if report is None or not self._of_encoding:
            self._of_encoding = n
        elif self.columns is not None and n >= 2 * self._of_encoding and self._of_encoding < LEAST:
            self._of_encoding = n
            self._resolved()  # the first rows said little of the columns
        if not self.tunes_itself:
            return
        if report is None:
            self._of_updates = self._of_choices = 0.0
        if self.n_window_ >= LEAST:
            self._choose(*(0.0, 0) if report is None else (report.seconds, len(report.added)))

    def _choose(self, seconds: float, came: int) -> None:
        """Choose parameters if a choice is due after an update that took ``seconds`` and added ``came`` examples."""
        last: TunedParameters | None = vars(self).get("choice_")
        if last is not None:
            self._of_updates += seconds
            self._since += came
            n = self.n_window_
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
            self.adopt(found.parameters)
        self.choice_, self._since = found, 0
