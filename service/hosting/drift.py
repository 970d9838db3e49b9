"""What has changed in a model's window, and the update that would help: worked out on a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from livesvm.service.models.learners import task_of
from livesvm.service.models.published import Published
from livesvm.service.models.state import ModelCopy
from livesvm.solvers.analyses.drift.martingale import Alarm
from livesvm.solvers.analyses.drift.window import Drift, Remedy, drift
from livesvm.solvers.errors import InvalidInput

Document = dict[str, Any]
COPIES = 3
"""Of a model that are in memory while remedies are tried."""


@dataclass(frozen=True)
class DriftQuestion:
    """How drift is looked for.

    Parameters
    ----------
    false_alarms : largest probability of an alarm where nothing has changed; None: as the model is watched, or 0.01
    newest : examples that remedies are judged by; None: as :func:`~livesvm.solvers.analyses.drift.window.drift` does
    """

    false_alarms: float | None = None
    newest: int | None = None


def look_for_drift(copy: ModelCopy, asked: DriftQuestion) -> Document:
    """Return what has changed in a window, and what would help.

    Returns
    -------
    JSON values, as ``DriftAnswer`` names them

    Raises
    ------
    InvalidInput : a task without leave-one-out errors, or too few examples
    NotSolved, SolverError : a path could not be followed
    """
    task = task_of(copy.spec)
    if not (task.is_exact and (task.has_labels or task.has_values)):
        raise InvalidInput(f"models of task {copy.spec.task} have no leave-one-out errors", field="id")
    state = copy.state()
    Published.of(state).check_known(copy.spec)
    rate = asked.false_alarms or copy.spec.drift_alarms or 0.01
    found = drift(state.estimator, false_alarms=rate, times=copy.times, newest=asked.newest)
    times = sorted(copy.times.tolist())
    return {
        "version": copy.version,
        "n_examples": found.n,
        "error": found.error,
        "classes": [{"label": label, "error": error} for label, error in found.errors.items()] or None,
        "rolling": found.rolling.tolist(),
        "false_alarms": rate,
        "evidence": found.evidence,
        "alarm": None if found.alarm is None else _alarm(found.alarm, times),
        "before_learning": copy.watched,
        "newest": found.newest,
        "present": found.present,
        "remedies": [_remedy(one, found) for one in found.remedies],
        "remedy": None if found.proposed is None else _remedy(found.proposed, found),
        "seconds": found.seconds,
    }


def _alarm(found: Alarm, times: list[float]) -> Document:
    return {
        "began": times[found.began - 1],
        "n_since": len(times) + 1 - found.began,
        "at": times[found.at - 1],
        "classes": list(found.kinds),
        "log10_evidence": found.log10_evidence,
    }


def _remedy(one: Remedy, found: Drift) -> Document:
    update = {"C": one.value} if one.kind == "C" else {"remove": {"oldest": found.n - int(one.value)}}
    return {**vars(one), "update": update}
