"""The settings of a feed, each with its default and its check."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import from_json, to_json

from livesvm.service.errors import not_among
from livesvm.service.feeds.align import Align
from livesvm.service.feeds.holidays import check as check_place
from livesvm.service.feeds.interval import DURATION, duration
from livesvm.service.feeds.sources.base import Layout
from livesvm.service.feeds.sources.spec import SourceSpec
from livesvm.service.feeds.times import zone_of
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.cached import cached_property

MOST_STEPS = 1000
MOST_COLUMNS = 256
LAGS = 24
LEAST_WINDOW = 40
Name = Annotated[str, Field(min_length=1, max_length=256)]
Width = Annotated[int, Field(ge=2, le=10**5)]
Lag = Annotated[int, Field(ge=1, le=10**5)]
Step = Annotated[int, Field(ge=1, le=10**4)]
Limit = Annotated[float, Field(ge=-1e100, le=1e100)]
Auto = Literal["auto"]
Represent = Literal["change", "level", "seasonal-change"]
Statistic = Literal["mean", "min", "max", "std"]


def _rolling() -> dict[Statistic, list[int]]:
    return {"mean": [48, 168]}


class StepRecipe(BaseModel):
    """The chosen settings of one step's models."""

    model_config = ConfigDict(strict=True, extra="forbid")

    represent: Represent
    gamma: Annotated[float, Field(gt=0, le=1e8)]
    C: Annotated[float, Field(gt=0, le=1e8)]


class FeedSpec(BaseModel):
    """The settings with which a feed is created; only ``target`` is required."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        json_schema_extra={"examples": [{"target": "demand", "steps": [1, 6, 24], "window": 1000}]},
    )

    target: Name = Field(description="The column that is forecast.")
    time: Name | None = Field(default="time", description="Column of times; null: readings have none, but an order.")
    timezone: str | None = Field(
        default=None, max_length=64, description="IANA name: where times without a zone are, and where days begin."
    )
    every: float | str | None = Field(
        default=None, description="How far apart readings are, like 15min, 1h, 1d, 1mo or seconds; found when absent."
    )
    features: list[Name] = Field(
        default_factory=list, max_length=MOST_COLUMNS, description="Columns known up to the newest reading."
    )
    known: list[Name] = Field(
        default_factory=list, max_length=MOST_COLUMNS, description="Columns known ahead for the times forecast."
    )
    lags: Annotated[int, Field(ge=1, le=1000)] | Annotated[list[Lag], Field(min_length=1, max_length=1000)] | None = (
        Field(
            default=None,
            description="How many of the newest readings are features, or which: 1 is the newest. 24 when absent, or a "
            "quarter of a smaller window.",
        )
    )
    rolling: dict[Statistic, list[Width]] = Field(
        default_factory=_rolling, description="Statistics over so many of the newest readings."
    )
    calendar: bool = Field(default=True, description="Time of day, weekday and day of year, where readings allow.")
    holidays: str | None = Field(
        default=None,
        max_length=16,
        description="Country, or one of its parts, whose holidays are known ahead, such as AU or AU-VIC; null: none. "
        "Needs livesvm[holidays].",
    )
    season: int | None = Field(
        default=None,
        ge=0,
        le=10**5,
        description="Its period in readings, up to half of the window; 0: none; found by autocorrelation when absent.",
    )
    steps: Step | Annotated[list[Step], Field(min_length=1, max_length=MOST_STEPS)] = Field(
        default=1, description="How far ahead: 1 to so many readings, or exactly these."
    )
    task: Literal["value", "direction"] = Field(
        default="value", description="`direction`: whether the target is then above the newest reading."
    )
    represent: Represent | Auto = Field(default="auto", description="What models learn of the target.")
    window: int = Field(default=1000, ge=LEAST_WINDOW, le=10**5, description="The most readings that are remembered.")
    batch: int = Field(default=24, ge=1, le=1000, description="Most readings of one call that are learnt at once.")
    band: float | None = Field(default=0.9, ge=0.5, lt=1, description="Share of readings in the band; null: none.")
    quantiles: list[Annotated[float, Field(gt=0, lt=1)]] | None = Field(
        default=None, min_length=2, max_length=2, description="Two levels: the band starts from pinball models of them."
    )
    missing: Literal["hold", "skip", "refuse"] = Field(
        default="hold", description="Of a reading that is not there: hold the last, close the gap, or refuse."
    )
    unannounced: Literal["hold", "refuse"] = Field(
        default="hold",
        description="For known columns that were not announced: hold their last values, and learn so where "
        "that is usual, or make none.",
    )
    outliers: Literal["hold", "learn"] = Field(
        default="hold",
        description="Of a reading that is far from all before it, alone: hold the last value in its place, and "
        "announce it, or learn it. Two in a row are a new level.",
    )
    minimum: Limit | Auto | None = Field(
        default="auto",
        description="The least value that can be: forecasts and bands stay above, and lower readings are outliers. "
        "`auto`: 0 while 200 readings, or a smaller window, hold nothing below it, for forecasts alone; null: none.",
    )
    maximum: Limit | None = Field(default=None, description="The largest value that can be; null: none.")
    align: Align | None = Field(
        default=None,
        description="Puts readings on the grid of `every`, for sensors that are irregular. `nearest`: each gets the "
        "nearest time. `mean`, `last`: those of an interval become one, once a later interval has a reading; the "
        "mean gets the time of its begin, the last that of its end.",
    )
    late: Literal["refuse", "correct"] = Field(default="refuse", description="Of readings older than the newest.")
    ahead: Literal["refuse", "accept"] = Field(
        default="refuse",
        description="Of readings more than two intervals, and 10 minutes, ahead of the service's clock; `accept` is "
        "for simulated data.",
    )
    C: Annotated[float, Field(gt=0, le=1e8)] | Auto = "auto"
    gamma: Annotated[float, Field(gt=0, le=1e8)] | Auto = Field(
        default="auto", description="Of the kernel exp(-gamma |x-z|^2) over standardized features."
    )
    epsilon: Annotated[float, Field(ge=0, le=1e3)] | Auto = Field(
        default="auto",
        description="Half width of the tube without loss, in standard deviations of the target; 0.05, or less where "
        "two thirds of what is learnt is the same.",
    )
    components: Annotated[int, Field(ge=1, le=5000)] | None = Field(
        default=None,
        description="Models have a kernel of this rank, of landmarks among the window's readings; for windows "
        "of thousands of readings. null: the whole kernel.",
    )
    events: int = Field(
        default=200,
        ge=20,
        le=200,
        description="Events that are kept for clients that reconnect; fewer where steps are many.",
    )
    recipes: Annotated[list[StepRecipe], Field(min_length=1, max_length=MOST_STEPS)] | None = Field(
        default=None,
        description="In place of `represent`, `gamma` and `C`, one a step, as another feed has `chosen` them; needs "
        "`season`.",
    )
    generation: Literal[1, 2] = Field(
        default=2, description="Which features models see; a feed keeps those that it was created with."
    )
    source: SourceSpec | None = Field(
        default=None, description="Where readings come from, besides those that are sent; null: from nowhere."
    )
    on_drift: Literal["announce", "choose"] = Field(
        default="announce", description="`choose`: what is `auto` is chosen again, over the window."
    )

    @field_validator("timezone")
    @classmethod
    def _zone(cls, name: str | None) -> str | None:
        if name is not None:
            zone_of(name)
        return name

    @field_validator("holidays")
    @classmethod
    def _place(cls, place: str | None) -> str | None:
        if place is not None:
            check_place(place)
        return place

    @field_validator("steps", "window", "season", "lags", "batch", mode="before")
    @classmethod
    def _counted(cls, value: Any) -> Any:
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str):
                hint = "; divide the duration by `every`" if DURATION.match(one) else ""
                raise ValueError(f"is a number of readings, such as 24, not {one[:32]!r}{hint}")
        return value

    @field_validator("every")
    @classmethod
    def _duration(cls, value: float | str | None) -> float | str | None:
        if value is not None:
            duration(value)
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.holidays is not None and (self.time is None or self.generation == 1):
            raise InvalidInput("are of feeds whose readings have times", field="holidays")
        if self.align is not None and (self.time is None or self.every is None):
            raise InvalidInput("needs times, and `every`, the interval of its grid", field="align")
        names = [self.target, *self.features, *self.known, *([] if self.time is None else [self.time])]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInput(f"the column {name!r} has two meanings", field="features")
        if self.horizons[-1] > self.window // 4:
            raise InvalidInput(f"steps go up to a quarter of the window, {self.window // 4}", field="steps")
        if isinstance(self.minimum, float) and self.maximum is not None and self.minimum >= self.maximum:
            raise InvalidInput(f"lies below the maximum, {self.maximum:g}", field="minimum")
        if self.quantiles is not None and self.quantiles[0] >= self.quantiles[1]:
            raise InvalidInput("two levels, the lower one first", field="quantiles")
        for field, longest in (("lags", max(self.lag_list)), ("season", self.season or 0)):
            if longest > self.longest_back:
                raise InvalidInput(f"go up to half of the window, {self.longest_back}, not {longest}", field=field)
        if self.recipes is not None and (self.season is None or len(self.recipes) != len(self.horizons)):
            raise InvalidInput(f"are one a step, {len(self.horizons)}, beside a season", field="recipes")
        if self.represent == "seasonal-change" and (self.season == 0 or self.task == "direction"):
            raise InvalidInput("'seasonal-change' is for values of a series with a season", field="represent")
        if self.source is not None:
            self.source.check(self.layout)
        return self

    @cached_property
    def dumped(self) -> dict[str, Any]:
        """All settings by name, in a dictionary that must not be changed."""
        return self.model_dump()

    @cached_property
    def horizons(self) -> tuple[int, ...]:
        """The forecast steps, ascending: how many readings ahead each lies."""
        return tuple(range(1, self.steps + 1)) if isinstance(self.steps, int) else tuple(sorted(set(self.steps)))

    @cached_property
    def lag_list(self) -> tuple[int, ...]:
        """The lags, ascending; the newest reading, 1, is always among them."""
        if isinstance(self.lags, list):
            return tuple(sorted({1, *self.lags}))
        return tuple(range(1, (min(LAGS, self.window // 4) if self.lags is None else self.lags) + 1))

    @property
    def longest_back(self) -> int:
        """How many readings back a lag or a season may reach at most."""
        return self.window // 2

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that the feed reads, the target first."""
        return (self.target, *self.features, *self.known)

    @property
    def layout(self) -> Layout:
        """The layout of columns that a source has to provide."""
        return Layout(self.columns, self.time)

    @property
    def coverage(self) -> float | None:
        """The share of readings that the band is to contain; None if there is no band."""
        if self.task == "direction" or (self.band is None and self.quantiles is None):
            return None
        return self.levels[1] - self.levels[0] if self.levels else self.band

    @cached_property
    def levels(self) -> tuple[float, ...]:
        """The levels of the quantiles that models learn; empty for directions."""
        return () if self.task == "direction" else tuple(self.quantiles or ())

    @cached_property
    def has_blends(self) -> bool:
        """Whether forecasts are blends of the model with naive forecasts and linear models."""
        return self.generation > 1 and self.task == "value" and self.quantiles is None

    @cached_property
    def finds_outliers(self) -> bool:
        """Whether a single reading that is far from all before it is treated as missing."""
        return self.generation > 1 and self.outliers == "hold"

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """The least and the largest possible value of the target, as the settings give them."""
        if self.task == "direction":
            return None, None
        return self.minimum if isinstance(self.minimum, float) else None, self.maximum

    def rolling_widths(self) -> list[tuple[Statistic, int]]:
        """Return every rolling statistic with its width, which is at most a quarter of the window."""
        pairs = {(name, min(width, self.window // 4)) for name, widths in self.rolling.items() for width in widths}
        return sorted(pairs)


def early_size(spec: FeedSpec, readings: int) -> int:
    """Return the window size of models while a longer window fills: 40, doubled as often as fits; 0 without models."""
    size = LEAST_WINDOW << max(0, (readings // LEAST_WINDOW).bit_length() - 1)
    while 3 * size >= 2 * spec.window:
        size //= 2
    is_enough = LEAST_WINDOW <= size <= readings and spec.horizons[0] <= size // 4
    return size if spec.has_blends and is_enough else 0


def early_spec(spec: FeedSpec, size: int) -> FeedSpec:
    """Return the settings of models of ``size`` readings: lags, season and steps that do not fit are left out."""
    return _early_spec(spec.model_dump_json(), size)


@lru_cache(maxsize=64)
def _early_spec(text: str, size: int) -> FeedSpec:
    spec = FeedSpec.model_validate_json(text)
    changes = {
        "window": size,
        "steps": [step for step in spec.horizons if step <= size // 4],
        "lags": spec.lags if max(spec.lag_list) <= size // 2 else None,
        "season": spec.season if (spec.season or 0) <= size // 2 else None,
        "represent": "auto" if spec.represent == "seasonal-change" else spec.represent,
        "on_drift": "announce",
        "recipes": None,
        "source": None,
    }
    return FeedSpec.model_validate({**spec.model_dump(), **changes})


@lru_cache(maxsize=64)
def stored_spec(text: str) -> FeedSpec:
    """Return a stored specification, one object for equal texts; missing settings get defaults of older versions."""
    before = {"generation": 1, "outliers": "learn", "minimum": None}
    return FeedSpec.model_validate_json(to_json(before | from_json(text)))


def spec_of(settings: dict[str, Any]) -> FeedSpec:
    """Return the settings as a specification; raises pydantic's ValidationError or InvalidInput."""
    for name in settings:
        if name not in FeedSpec.model_fields:
            raise InvalidInput(not_among(name, FeedSpec.model_fields), field=name)
    return FeedSpec.model_validate(settings)
