"""The table that the demonstration prints about the model of rises: one row for each month, and a summary."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from livesvm.service.demo.data.fisher_river import Examples

HEADER = (
    "                                       in/   path  update    REST     SVC          right so far"
    "      worst  relative\n"
    "forecast days          window since    out events      ms      ms      ms  ratio    SVM majority"
    " violation       gap"
)


@dataclass(frozen=True)
class Step:
    """Results of one month.

    ``days`` are the examples that were forecast and then learnt; ``window`` has the model's examples afterwards.
    ``update`` and ``certificate`` are the service's answers. Times are in seconds. ``right`` counts the correct
    forecasts of the model. ``majority_right`` counts the correct forecasts if each day gets the most frequent label of
    the earlier window.
    """

    days: Examples
    window: Examples
    update: dict[str, Any]
    certificate: dict[str, Any]
    rest_seconds: float
    svc_seconds: float
    right: int
    majority_right: int

    @property
    def seconds(self) -> float:
        """The time of the update alone, as measured by the service."""
        return float(self.update["seconds"])

    @property
    def ratio(self) -> float:
        """How many times longer scikit-learn takes to train the window than the service to update it."""
        return self.svc_seconds / self.seconds


def row(steps: list[Step]) -> str:
    """Return the row of the newest of ``steps``, with the accuracy of all of them."""
    step = steps[-1]
    days = sum(len(s.days) for s in steps)
    right, majority = sum(s.right for s in steps), sum(s.majority_right for s in steps)
    cells = (
        f"{step.days.dates[0]}..{step.days.dates[-1]} {step.window.dates[0]:>12}",
        f"{len(step.update['added']):3d}/{len(step.update['removed']):<2d} {step.update['events']:6d}",
        f"{1e3 * step.seconds:7.2f} {1e3 * step.rest_seconds:7.2f} {1e3 * step.svc_seconds:7.1f} {step.ratio:5.1f}x",
        f"{right / days:6.1%} {majority / days:8.1%}",
        f"{step.certificate['max_violation']:9.1e} {step.certificate['relative_gap']:9.1e}",
    )
    return " ".join(cells)


def summary(steps: list[Step]) -> str:
    """Return the results of all months together."""
    days = sum(len(s.days) for s in steps)
    right, majority = sum(s.right for s in steps), sum(s.majority_right for s in steps)
    learnt, forgotten = (
        sum(len(s.update["added"]) for s in steps),
        sum(len(s.update["removed"]) for s in steps),
    )
    ratios, rest_ratios = [s.ratio for s in steps], [s.svc_seconds / s.rest_seconds for s in steps]
    return "\n".join(
        [
            f"{len(steps)} updates, {learnt} days learnt and {forgotten} forgotten, "
            f"{sum(s.update['events'] for s in steps)} events on the path",
            f"time: updates {sum(s.seconds for s in steps):.3f} s, their REST calls "
            f"{sum(s.rest_seconds for s in steps):.3f} s, training from nothing instead "
            f"{sum(s.svc_seconds for s in steps):.3f} s",
            f"speed-up over training from nothing (geometric mean): update "
            f"{geometric_mean(ratios):.1f}x, slowest month {min(ratios):.1f}x; "
            f"whole REST call {geometric_mean(rest_ratios):.1f}x",
            f"forecasts: {right} of {days} days right ({right / days:.1%}), "
            f"always saying the majority {majority} ({majority / days:.1%})",
            f"certificates: worst violation {max(s.certificate['max_violation'] for s in steps):.1e}, "
            f"worst relative gap {max(s.certificate['relative_gap'] for s in steps):.1e}",
        ]
    )
