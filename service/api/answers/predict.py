"""Schemas of answers to requests for predictions."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ThresholdAnswer(BaseModel):
    """The threshold for decision values, and its effect on held-out examples of the window."""

    value: float = Field(description="Rows with a larger decision are predicted to be positive.")
    alerts: float = Field(description="Share of the unlabelled above it.")
    precision: float = Field(description="Estimated share of positives above it, which is as accurate as the prior.")
    recall: float = Field(description="Share of the positives above it.")


class PromiseAnswer(BaseModel):
    """The share of targets in the sets or intervals: about `coverage`, and for any distribution at least `at_least`."""

    coverage: float
    at_least: float
    assumes: str


class PredictAnswer(BaseModel):
    """Decision values, predicted labels or values, and the version of the model that computed them.

    If labels are not -1 and 1, the answer lists the `classes`. With two classes, a positive decision value means the
    second class. With more classes, each row has a decision value for each class, or for each of the `pairs`. A
    positive value of a pair means the pair's first class.
    """

    version: int
    decision: list[float] | list[list[float]]
    prediction: list[float | str]
    classes: list[int | str] | None = Field(default=None, description="In the order of decisions and probabilities.")
    pairs: list[list[int | str]] | None = None
    probability: list[list[float]] | None = Field(default=None, description="Of every class, where asked for.")
    promise: PromiseAnswer | None = Field(default=None, description="Of `set`, or `low` and `high`, where asked for.")
    set: list[list[float | str]] | None = Field(default=None, description="Possible classes, none or all of them.")
    low: list[float | None] | None = Field(
        default=None, description="Ends of an interval; null where the window is too small for the coverage."
    )
    high: list[float | None] | None = None
    threshold: ThresholdAnswer | None = Field(default=None, description="Where decisions were cut, if not at 0.")
    stale: bool = Field(description="True when updates are refused now, so that newer data may be unknown.")
