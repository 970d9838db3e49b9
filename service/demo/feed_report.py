"""The table that the demonstration prints about the feed: one row for each month, and a summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

HEADER = (
    "              mean absolute error so far, m3/s: feed, naive, SVR         in the 90% band     ms a day   relative\n"
    "until         1 day ahead          3 days ahead         7 days ahead       1     3     7    feed    SVR       gap"
)


@dataclass(frozen=True)
class StepErrors:
    """The mean absolute errors of one step so far, and the share of readings inside the step's forecast band."""

    feed: float
    naive: float
    svr: float
    coverage: float

    @classmethod
    def of(cls, score: dict[str, Any], svr: float) -> Self:
        """Return the errors of one step, from the feed's scores and the error of the retrained SVR."""
        naive = min(score["last_value_mae"], score["seasonal_mae"])
        return cls(score["mae"], naive, svr, score["coverage"])


@dataclass(frozen=True)
class Month:
    """Results of one month: errors by step so far, mean seconds of a reading's call, and seconds to train the SVR."""

    last_day: str
    steps: list[StepErrors]
    seconds: float
    svr_seconds: float
    gap: float


def row(month: Month) -> str:
    """Return the table's row of one month."""
    errors = "  ".join(f"{step.feed:6.3f} {step.naive:5.3f} {step.svr:5.3f}" for step in month.steps)
    covered = " ".join(f"{step.coverage:5.0%}" for step in month.steps)
    times = f"{1e3 * month.seconds:6.1f} {1e3 * month.svr_seconds:6.1f}"
    return f"{month.last_day} {errors}  {covered}  {times}  {month.gap:8.1e}"


def summary(months: list[Month], feed: dict[str, Any]) -> str:
    """Return the results of all months, and the settings that the feed chose."""
    last = months[-1]
    chosen = "; ".join(
        f"{step['step']} ahead: {step['represent']}, gamma {step['gamma']:.2g}, C {step['C']:g}"
        for step in feed["settings"]["chosen"]["steps"]
    )
    against = ", ".join(
        f"{score['step']} ahead {step.feed / step.naive:.2f} and {step.feed / step.svr:.2f}"
        for score, step in zip(feed["scores"], last.steps, strict=True)
    )
    return "\n".join(
        [
            f"chosen by the feed: {chosen}",
            f"error over naive, and over SVR of up to a month ago: {against}",
            f"certificates: worst relative gap {max(month.gap for month in months):.1e}",
        ]
    )
