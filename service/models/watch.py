"""A model's errors on examples before the model learns these examples, and a test for drift on these errors."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from livesvm.service.models.arrays import Vector
from livesvm.service.models.commands import Command
from livesvm.service.models.labels import as_labels
from livesvm.solvers.analyses.drift.martingale import DriftTest
from livesvm.solvers.analyses.drift.window import before_learning, means
from livesvm.solvers.models.base import LiveEstimator

KEPT = 1000
"""How many of the newest errors are kept."""
MOST_SCORED = 20_000
"""Most examples of one update that are scored, the newest ones; an update with more fills a window."""

BYTES_EACH = 136
"""Bytes of one of the newest errors: a tuple with a time and a loss."""

Document = dict[str, Any]


@dataclass(frozen=True)
class ScoredExamples:
    """Scores of an update's examples before the model learnt them, with losses, labels and Unix times, each (m,)."""

    scores: Vector
    losses: Vector
    labels: list[Any]
    times: Vector


@dataclass
class Watch:
    """The errors of one model on examples before learning, and the test for drift on these errors.

    Parameters
    ----------
    false_alarms : largest probability of a false alarm in a run of 5,000 examples
    """

    false_alarms: float
    test: DriftTest = field(init=False)
    newest: deque[tuple[float, float, Any]] = field(init=False)  #: time, loss, label
    alarms: int = 0  #: number of alarms so far
    alarm: Document | None = None  #: the present alarm, None if there is none
    raised: Document | None = None  #: the newest alarm of this process, also if it has ended

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin the drift test again, without any errors so far and without an alarm."""
        self.test, self.newest, self.alarm = DriftTest(self.false_alarms), deque(maxlen=KEPT), None

    def score(self, estimator: LiveEstimator, command: Command) -> ScoredExamples | None:
        """Return the scores of the examples in a command; None if it adds none, or if the model cannot predict.

        Examples of a class that the model does not know are skipped.
        """
        add = command.add
        if add is None or add.y is None or not estimator.is_trained:
            return None
        which = np.arange(len(add.X))[-MOST_SCORED:]
        y: Any = add.y
        classes: Any = getattr(estimator, "classes_", None)
        if classes is not None:
            y = as_labels(y)
            which = which[np.isin(y[which], classes)] if len(classes) > 1 else which[:0]
        if not which.size:
            return None
        scores, losses = before_learning(estimator, add.X[which], y[which])
        labels = [None] * which.size if classes is None else np.asarray(y)[which].tolist()
        times = np.full(which.size, command.arrived) if add.times is None else add.times[which]
        return ScoredExamples(scores, losses, labels, times)

    def learn(self, scored: ScoredExamples, version: int, n_examples: int) -> Document | None:
        """Pass the scores of newly learnt examples to the drift test; return the alarm that they raise, if any.

        Parameters
        ----------
        version : the version that has learnt the examples
        n_examples : number of examples in the window now
        """
        self.newest.extend(zip(scored.times.tolist(), scored.losses.tolist(), scored.labels, strict=True))
        kinds = None if scored.labels[0] is None else scored.labels
        found = self.test.learn(scored.scores, kinds)
        if found is None:
            self._settle(n_examples)
            return None
        since = self.test.n + 1 - found.began
        self.alarms += 1
        self.alarm = {
            "version": version,
            "at": float(scored.times[-1]),
            "began": self.newest[-min(since, len(self.newest))][0],
            "n_since": since,
            "number": self.test.n,
            "classes": list(found.kinds),
            "log10_evidence": found.log10_evidence,
        }
        self.raised = self.alarm
        return self.standing()

    def _settle(self, n_examples: int) -> None:
        """End the alarm if the window holds no example from before the reported change."""
        if self.alarm is not None and self._since_change >= n_examples:
            self.alarm = None

    def answered(self, n_examples: int, *, with_C: bool) -> None:
        """End the alarm if an update has removed the examples from before the change, or has changed C."""
        if with_C:
            self.alarm = None
        self._settle(n_examples)

    @property
    def _since_change(self) -> int:
        """The number of examples since the change that the alarm reports."""
        return 0 if self.alarm is None else int(self.alarm["n_since"]) + self.test.n - int(self.alarm["number"])

    @property
    def held_bytes(self) -> int:
        """Bytes of the test's scores and of the newest errors."""
        return self.test.nbytes + BYTES_EACH * len(self.newest)

    def standing(self) -> Document | None:
        """Return the present alarm as JSON values, None if there is none."""
        if self.alarm is None:
            return None
        names = ("version", "at", "began", "classes", "log10_evidence")
        return {name: self.alarm[name] for name in names} | {"n_since": self._since_change}

    def shown(self) -> Document:
        """Return a summary of errors and alarm as JSON values, which each version of the model shows."""
        n = len(self.newest)
        error = sum(loss for _, loss, _ in self.newest) / n if n else None
        counts = {"n_scored": self.test.n, "alarms": self.alarms}
        evidence = self.test.strongest
        return {"false_alarms": self.false_alarms, **counts, "error": error, "evidence": evidence} | {
            "alarm": self.standing()
        }

    def report(self) -> Document:
        """Return all figures about errors before learning, as JSON values."""
        losses = np.array([loss for _, loss, _ in self.newest])
        labels: Sequence[Any] = [label for _, _, label in self.newest]
        of_label = {label: np.array([one == label for one in labels]) for label in dict.fromkeys(labels)}
        errors = [
            {"label": label, "n": int(those.sum()), "error": float(losses[those].mean())}
            for label, those in of_label.items()
            if label is not None
        ]
        return self.shown() | {"n": len(losses), "rolling": means(losses).tolist(), "classes": errors or None}

    def to_document(self) -> Document:
        """Return the watch as numbers, lists and arrays."""
        columns = list(zip(*self.newest, strict=True)) or [(), (), ()]
        return {
            "false_alarms": self.false_alarms,
            "test": self.test.to_arrays(),
            "times": np.array(columns[0], np.float64),
            "losses": np.array(columns[1], np.float64),
            "labels": list(columns[2]),
            "alarms": self.alarms,
            "alarm": self.alarm,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Watch:
        """Return the watch that a document describes."""
        found = cls(document["false_alarms"])
        found.test.restore(document["test"])
        columns = document["times"].tolist(), document["losses"].tolist(), document["labels"]
        found.newest.extend(zip(*columns, strict=True))
        found.alarms, found.alarm = document["alarms"], document["alarm"]
        return found
