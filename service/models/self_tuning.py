"""When a model chooses its parameters by its window, and what it chose last: in its snapshots, and shown."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from livesvm.solvers.analyses.tuning.automatic import LEAST, TunedParameters

Document = dict[str, Any]

TUNED = "tuned"
"""Among changes of a model, what it has chosen itself, as :func:`chosen` has it; no client sends that."""

REASONS = ("first", "drift", "doubled", "full", "renewed", "asked")
"""Why a model has chosen: it has enough examples, errors have grown, the window has twice as many examples as then, it
is full, as many have come as it holds, or a request asked for it."""


def chosen(found: TunedParameters, reason: str, *, is_first: bool) -> Document:
    """Return what is logged of a choice; one that is not clearly better than what is there changes nothing."""
    return {**asdict(found), "reason": reason, "changes": found.is_better or is_first}


@dataclass
class Tuning:
    """The last choice of a model, and what has come since.

    Parameters
    ----------
    last : the choice as it was logged, with the ``version`` that it made and its Unix time ``at``; None before one
    since : examples that came after it
    wait : examples that have to come before the next try, after one that the window did not allow
    updates : processor seconds of updates since the first choice
    choices : of later choices
    fitted : examples by which the encoding of columns was fitted
    """

    last: Document | None = None
    since: int = 0
    wait: int = 0
    updates: float = 0.0
    choices: float = 0.0
    fitted: int = 0

    def came(self, n: int) -> None:
        """Know that so many examples have come."""
        self.since += n
        self.wait -= n

    def take(self, choice: Document, version: int, at: float | None) -> None:
        """Know that a choice was logged, as the version that it made."""
        self.choices += 0.0 if self.last is None else choice["seconds"]
        self.last, self.since = {**choice, "version": version, "at": at}, 0

    def refused(self, n: int) -> None:
        """Know that a window of n examples could not be judged by: as one class has too few."""
        self.wait = max(LEAST, n // 4)

    def due(self, n: int, most: int | None, alarm: int | None, share: float) -> str | None:
        """Return why it is time to choose; None where it is not, or would take more than its share of the time.

        Parameters
        ----------
        n : examples in the window
        most : that it may hold, if there is a bound
        alarm : version that gave the last alarm of drift, if there was one
        share : of the processor time of updates, which later choices take at most
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
        """Return what is shown of it; the columns that were chosen are shown with the model's parameters."""
        if self.last is None:
            return {"n_since": self.since, "chosen": None}
        parameters = {name: value for name, value in self.last["parameters"].items() if name != "columns"}
        told: Document = {name: _or_none(self.last[name]) for name in ("loss", "present", "defaults")}
        if (at := self.last["at"]) is not None:
            told["at"] = datetime.fromtimestamp(at, UTC).isoformat()
        return {"n_since": self.since, "chosen": {**self.last, **told, "parameters": parameters}}


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
