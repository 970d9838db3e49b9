"""A record of the last choice of parameters that a self-tuning model made, and the rules for when the next is due."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from livesvm.solvers.analyses.tuning.automatic import LEAST, TunedParameters

Document = dict[str, Any]

HIDDEN = ("columns", "target_unit")
"""Chosen parameters that are not shown with the choice."""

REASONS = ("first", "drift", "doubled", "full", "renewed", "asked")
"""Why a model has chosen: it has enough examples, errors have grown, the window has twice as many examples as at the
last choice, it is full, all its examples have come since, or a request asked for it."""


def chosen(found: TunedParameters, reason: str, *, is_first: bool) -> Document:
    """Return a choice of parameters as a document for the log; only a first or clearly better choice takes effect."""
    return {**asdict(found), "reason": reason, "changes": found.is_better or is_first}


@dataclass
class TuningSchedule:
    """The last choice of a model's parameters, and the counts that decide when the next choice is due.

    Parameters
    ----------
    last : the logged choice, with the ``version`` that it made and its Unix time ``at``; None before the first one
    since : number of examples that came after it
    wait : number of examples that must come before the next try, after one that the window did not allow
    updates : processor seconds of updates
    choices : seconds of choices after the first one
    fitted : number of examples to which the encoding of columns was fitted
    """

    last: Document | None = None
    since: int = 0
    wait: int = 0
    updates: float = 0.0
    choices: float = 0.0
    fitted: int = 0

    def came(self, n: int) -> None:
        """Count ``n`` examples that were added to the window."""
        self.since += n
        self.wait -= n

    def take(self, choice: Document, version: int, at: float | None) -> None:
        """Record a choice that was logged, and the model's version that resulted."""
        self.choices += 0.0 if self.last is None else choice["seconds"]
        self.last, self.since = {**choice, "version": version, "at": at}, 0

    def refused(self, n: int) -> None:
        """Record that a window of ``n`` examples allowed no choice, for instance if a class has too few examples."""
        self.wait = max(LEAST, n // 4)

    def due(self, n: int, most: int | None, alarm: int | None, share: float) -> str | None:
        """Return why a choice is due; None if none is due, or if a choice would exceed its share of processor time.

        Parameters
        ----------
        n : number of examples in the window
        most : largest number of examples of the window, None without a bound
        alarm : version that raised the last alarm of drift, None without one
        share : largest share of the processor time of updates that later choices may take
        """
        last = self.last
        if n < LEAST or self.wait > 0:
            return None
        if last is None:
            return "first"
        before = last["n_examples"]
        reasons = {
            "drift": alarm is not None and alarm > last["version"],
            "doubled": n >= 2 * before,
            "full": most is not None and before < most <= n,
            "renewed": self.since >= n,
        }
        reason = next((name for name, holds in reasons.items() if holds), None)
        cost = last["seconds"] * max(1.0, n / before)
        return reason if self.choices + cost <= share * self.updates else None

    def shown(self) -> Document:
        """Return the last choice as JSON values, without the parameters in ``HIDDEN``."""
        if self.last is None:
            return {"n_since": self.since, "chosen": None}
        parameters = {name: value for name, value in self.last["parameters"].items() if name not in HIDDEN}
        told: Document = {name: _or_none(self.last[name]) for name in ("loss", "present", "defaults")}
        if (at := self.last["at"]) is not None:
            told["at"] = datetime.fromtimestamp(at, UTC).isoformat()
        return {"n_since": self.since, "chosen": {**self.last, **told, "parameters": parameters}}


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
