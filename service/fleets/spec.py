"""The specification of a fleet: the settings of its feeds, and the column that names the series."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from livesvm.service.feeds.sources.base import Layout
from livesvm.service.feeds.spec import MOST_COLUMNS, FeedSpec, Name
from livesvm.solvers.errors import InvalidInput

OWN = frozenset({"series", "shared", "new", "source"})
"""Settings of a fleet that its series do not have."""


class FleetSpec(FeedSpec):
    """The settings to create a fleet; only ``target`` is required.

    Settings that the service chooses are the same for all series.
    """

    events: int = Field(
        default=20, ge=20, le=200, description="Events that each series keeps for clients that reconnect."
    )
    series: Name = Field(default="series", description="The column that names the series.")
    shared: list[Name] = Field(
        default_factory=list,
        max_length=MOST_COLUMNS,
        description="Those of `features` and `known` that are the same for all series, such as weather: rows without "
        "a series bring them, once for each time.",
    )
    new: Literal["create", "refuse"] = Field(
        default="create", description="What readings of a new series do: create it, or be refused."
    )

    @model_validator(mode="after")
    def _series_apart(self) -> Self:
        if self.series in (*self.columns, self.time):
            raise InvalidInput(f"the column {self.series!r} has two meanings", field="series")
        if self.source is not None and self.time is None:
            raise InvalidInput("needs readings with times, by which one that comes twice is known", field="source")
        for name in self.shared:
            if name not in (*self.features, *self.known):
                raise InvalidInput(f"{name!r} is neither among features nor known", field="shared")
        return self

    @property
    def layout(self) -> Layout:
        """The columns that a source has to provide, with the column that names the series."""
        return Layout(self.columns, self.time, self.series)

    def of_series(self) -> FeedSpec:
        """Return the settings of each series."""
        return FeedSpec.model_validate(self.model_dump(exclude=set(OWN)))
