"""The body of a request that removes old examples from a feed's models, or changes their C."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from livesvm.service.feeds.forecaster import StepUpdate
from livesvm.service.feeds.spec import MOST_STEPS
from livesvm.service.models.fields import SHORT, Cost, Request
from livesvm.solvers.errors import InvalidInput

LEAST_KEPT = 10
"""Fewest examples that a feed's model may keep."""


class StepChange(Request):
    """A change of the models of one forecast step."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 2})

    step: int = Field(ge=1, description="One of the feed's.")
    keep: int | None = Field(
        default=None, ge=LEAST_KEPT, le=10**5, description="Newest examples that its models hold; others are forgotten."
    )
    C: Cost | None = Field(default=None, description="The new C of its models.")

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.keep is None and self.C is None:
            raise ValueError("give keep or C")
        return self


class FeedUpdateRequest(Request):
    """Removal of old examples from the models of some steps, or a new C for the models, completely or not at all."""

    most_bytes = SHORT
    model_config = ConfigDict(json_schema_extra={"examples": [{"steps": [{"step": 1, "keep": 120}]}]})

    steps: Annotated[list[StepChange], Field(min_length=1, max_length=MOST_STEPS)]

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if len({one.step for one in self.steps}) < len(self.steps):
            raise InvalidInput("names a step twice", field="steps")
        return self

    def changes(self) -> list[StepUpdate]:
        """Convert the requested changes to the commands that change the models of a feed's steps."""
        return [StepUpdate(one.step, one.keep, one.C) for one in self.steps]
