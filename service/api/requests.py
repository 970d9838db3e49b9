"""Schemas of request bodies; a request with an unknown field is refused."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.wanted import WantedReadings
from livesvm.service.fleets.names import FLEET_ID
from livesvm.service.fleets.spec import FleetSpec
from livesvm.service.hosting.what_if import WhatIfQuestion
from livesvm.service.lifecycle.search import Sought
from livesvm.service.models import commands
from livesvm.service.models.arrays import Key
from livesvm.service.models.fields import (
    EITHER,
    SHORT,
    Columns,
    Cost,
    Decay,
    Features,
    Gamma,
    HalfWidth,
    Id,
    Keys,
    Matrix,
    MayBeEmpty,
    Name,
    NamedRows,
    Number,
    OlderThan,
    Request,
    RowKeys,
    TagList,
    TagsOfEach,
    Targets,
    Times,
    Weights,
    with_none,
    without_default,
)
from livesvm.service.models.spec import ClassWeights, Components, KernelSpec, Lam, Prior, Scale, TargetScale
from livesvm.service.webhooks.spec import WebhookSpec
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.change import DRIFT_ALARMS, Change, Edits
from livesvm.solvers.models.repeats import OnRepeat

Coverage = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
HalfLife = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
Time = Annotated[str, StringConstraints(max_length=64)] | Annotated[float, Field(allow_inf_nan=False)]
SeriesName = str | int | float
MOST_TIMES = 10_000
MOST_UPDATES = 1000
"""Models that one call updates."""
MOST_OLDEST = 10**9
"""Examples that a removal may ask for."""


def _may_be_empty(schema: dict[str, Any]) -> None:
    """Change the schema of an optional array so that the array may also be empty."""
    without_default(schema)
    with_none(schema)


class AddBatch(Features):
    """Examples to add to the window; without keys, the service generates keys. Empty lists add nothing."""

    model_config = ConfigDict(json_schema_extra={**EITHER})

    X: MayBeEmpty[Matrix] = Field(default=None, json_schema_extra=_may_be_empty)
    rows: MayBeEmpty[NamedRows] = Field(
        default=None, json_schema_extra=_may_be_empty, description="In place of `X`, for a model with `columns`."
    )
    y: MayBeEmpty[Targets] | None = None
    keys: MayBeEmpty[RowKeys] | None = None
    weights: MayBeEmpty[Weights] | None = None
    times: MayBeEmpty[Times] | None = Field(default=None, description="Times for `older_than`, `oldest` and ages.")
    tags: MayBeEmpty[TagsOfEach] | None = Field(
        default=None, description="Words by which examples are erased together."
    )
    on_repeat: OnRepeat = Field(
        default="refuse",
        description="For a row with a known key, in the window, since it left, or in an earlier row. `refuse`: the "
        "update. `ignore`: the row, and the whole update if all rows are. `replace`: the example with this key.",
    )


class RemoveSpec(Request):
    """Examples to remove from the window: those with given keys, a number of the oldest, or those before a time."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    keys: MayBeEmpty[Keys] | None = None
    oldest: int | None = Field(default=None, ge=0, le=MOST_OLDEST)
    older_than: OlderThan | None = Field(
        default=None, description="ISO 8601 with a UTC offset, or Unix seconds; there need not be any."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [value for value in (self.keys, self.oldest, self.older_than) if value is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of keys, oldest and older_than")
        return self


class RelabelSpec(Request):
    """New targets for examples in the window."""

    keys: MayBeEmpty[Keys]
    y: MayBeEmpty[Targets]

    def by_key(self) -> dict[int | str, Any]:
        """Return the new targets in a mapping by example key."""
        return commands.paired(self.keys, self.y, "relabel.y")


class ReweightSpec(Request):
    """New weights for examples in the window."""

    keys: MayBeEmpty[Keys]
    weights: MayBeEmpty[Weights]

    def by_key(self) -> dict[int | str, float]:
        """Return the new weights in a mapping by example key."""
        return commands.paired(self.keys, self.weights, "reweight.weights")


class ChangeSpec(Request):
    """New parameters for a model; the model's task determines which parameters are allowed."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    C: Cost | Literal["auto"] | None = Field(
        default=None, description="`auto`: the model tunes itself from now on; a number ends that."
    )
    epsilon: HalfWidth | Literal["auto"] | None = Field(default=None, description="`auto`: chosen with C.")
    quantile: float | None = Field(default=None, gt=0, lt=1, allow_inf_nan=False)
    nu: float | None = Field(default=None, gt=0, le=1, allow_inf_nan=False)
    prior: Prior | None = Field(default=None, description="`pu`; `estimate`: from the window as it is now.")
    lam: Lam | None = Field(default=None, description="`pu`: C is 1 / (2 lam); `auto`: by the window as it is now.")
    target_scale: TargetScale | None = Field(default=None, description="`svr`; `auto`: chosen with C.")
    class_weight: ClassWeights | None = Field(default=None, description="`null`: none any more.")
    fit_intercept: bool | None = None
    kernel: KernelSpec | None = Field(default=None, description="The whole kernel.")
    gamma: Gamma | None = Field(default=None, description="Of the kernel alone; `scale`: by the window as it is now.")
    scale: Scale | None = None
    components: Components | None = Field(default=None, description="A rank; `null`: the whole kernel from now on.")
    columns: Columns | None = Field(default=None, description="Of a model that has some: all of them, or `auto`.")
    drift_alarms: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        allow_inf_nan=False,
        description="`svc`, `svr`: test for drift from now on, with at most this probability of a false alarm in 5,000 "
        "examples; `null`: no more.",
    )

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("name a parameter at least")
        if self.kernel is not None and self.gamma is not None:
            raise InvalidInput("is a part of the kernel, which is given", field="change.gamma")
        for name in self.model_fields_set - {"class_weight", "components", DRIFT_ALARMS}:
            if getattr(self, name) is None:
                raise InvalidInput("must have a value", field=f"change.{name}")
        return self

    def parameters(self) -> dict[str, Any]:
        """Return the new parameters under the names that these have in the estimators."""
        named = self.model_dump(include=self.model_fields_set - {"kernel"})
        if self.kernel is not None:
            kernel = self.kernel.model_dump()
            named |= {"kernel": kernel.pop("name"), **kernel}
        return named


class UpdateRequest(Request):
    """One update of a model, applied completely or not at all, along one path.

    An update may combine `add`, `remove` and other verbs. An empty update changes nothing, and its answer has the
    model's present version.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"add": {"X": [[0.1, 0.7], [0.9, 0.2]], "y": [1, -1], "keys": ["mon", "tue"]}},
                {"relabel": {"keys": ["tue"], "y": [1]}, "remove": {"keys": ["mon"]}},
            ],
        }
    )

    add: AddBatch | None = None
    remove: RemoveSpec | None = None
    relabel: RelabelSpec | None = None
    reweight: ReweightSpec | None = None
    decay: Decay | None = Field(
        default=None, description="Multiplies the weights of all examples that stay and are not reweighted."
    )
    C: Cost | None = Field(default=None, description="`svc`, `svr`, `pu`: the model's new C.")

    robust: None = Field(default=None, description="`null`: a robust model's losses are convex again.")
    change: ChangeSpec | None = Field(
        default=None,
        description="New parameters: those of the losses along a path; kernel, intercept and scale by solving again, "
        "in one step as readers see it. Only alone in an update.",
    )
    rescale: Literal[True] | None = Field(
        default=None,
        description="Fit the scale of the features, and a gamma `scale`, to the present window. Only alone.",
    )

    def _check_verbs(self) -> Self:
        """Raise InvalidInput if ``change`` or ``rescale`` is combined with another verb."""
        verbs = (self.add, self.remove, self.relabel, self.reweight, self.decay, self.C, self.change, self.rescale)
        n_given = (
            len(verbs) - verbs.count(None) + ("robust" in self.model_fields_set)
        )  # leaving it out asks for nothing
        for alone in ("change", "rescale") if n_given > 1 else ():
            if getattr(self, alone) is not None:
                raise InvalidInput("stands alone; send the rest as another update", field=alone)
        return self

    _does_something = model_validator(mode="after")(_check_verbs)

    def command(self) -> Change:
        """Convert the request to an update command for the model."""
        add, remove = self.add, self.remove
        batch = None
        if add is not None:
            columns = add.y, add.keys, add.weights, add.times, add.tags
            batch = commands.batch_of(add.X if add.rows is None else add.rows, *columns)
        return Change(
            batch,
            None if remove is None else commands.Removal(remove.keys, remove.oldest, remove.older_than),
            self._edits() if self.model_fields_set - {"add", "remove"} else None,
            "refuse" if add is None else add.on_repeat,
        )

    def _edits(self) -> Edits | None:
        if self.change is not None or self.rescale:
            change = None if self.change is None else self.change.parameters()
            return Edits(change=change, rescale=bool(self.rescale))
        is_convex = "robust" in self.model_fields_set
        if not (self.relabel or self.reweight or self.decay or self.C or is_convex):
            return None
        return Edits(
            {} if self.relabel is None else self.relabel.by_key(),
            {} if self.reweight is None else self.reweight.by_key(),
            1.0 if self.decay is None else self.decay,
            self.C,
            commands.CONVEX if is_convex else None,
        )


class ModelUpdateRequest(UpdateRequest):
    """One update, with the id of the model that it updates."""

    model: Id


class UpdatesRequest(Request):
    """Updates of many models, with one update for each model."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"updates": [{"model": "meter-7", "add": {"X": [[0.2, 0.5]], "y": [1]}}]}]}
    )

    updates: list[ModelUpdateRequest] = Field(max_length=MOST_UPDATES)


class PredictRequest(Features):
    """Rows to predict, and what the answer shall contain."""

    model_config = ConfigDict(json_schema_extra={**EITHER, "examples": [{"X": [[0.2, 0.5]]}]})

    probability: bool = Field(
        default=False,
        description="Whether to return probabilities of classes; only for a model that was created with them.",
    )
    coverage: Coverage | None = Field(
        default=None,
        description="`svc`, `svr`: return a `set` of classes, or `low` and `high`, with this share of targets.",
    )
    half_life: HalfLife | None = Field(
        default=None, description="With `coverage`: seconds after which an example counts half, by its time."
    )
    interval: Literal["plus", "minmax"] = Field(
        default="plus", description="With `coverage`, `svr`: jackknife+, or the wider jackknife-minmax."
    )


class ApplyRequest(Request):
    """The part of a job's result to apply to its model; the kind of the job determines which fields are allowed."""

    most_bytes = SHORT
    choice: dict[Name, Number] = Field(default_factory=dict, max_length=8)


class EraseRequest(Request):
    """Keys or tags of the examples to erase, which may be in the window or may have left it."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "examples": [{"keys": ["customer-17"]}]})

    keys: Keys | None = None
    tags: TagList | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.keys is None and self.tags is None:
            raise ValueError("give keys or tags")
        return self

    def named(self) -> list[Key]:
        """Return all keys and tags of the request in one list."""
        return [*(self.keys or ()), *(self.tags or ())]

    def sought(self) -> Sought:
        """Return the keys and tags to search for."""
        return Sought(tuple(self.keys or ()), tuple(self.tags or ()))


class WhatIfRequest(UpdateRequest, Features):
    """An update or an erasure to try on a copy of a model, and rows to predict before and after this change."""

    model_config = ConfigDict(
        json_schema_extra={
            "minProperties": 1,
            "examples": [
                {"remove": {"keys": ["mon"]}, "X": [[0.2, 0.5]]},
                {"erase": {"tags": ["customer-17"]}},
            ],
        }
    )

    _has_rows: ClassVar[bool] = False

    X: Matrix | None = None
    rows: NamedRows | None = Field(default=None, description="In place of `X`, for a model with `columns`.")

    erase: EraseRequest | None = Field(
        default=None, description="Try an erasure, as `POST /models/{id}/erase` makes it. Alone, or with rows."
    )

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("ask about an update or an erasure; this asks about nothing")
        if self.erase is None:
            self._check_verbs()
        elif self.model_fields_set - {"erase", "X", "rows"}:
            raise InvalidInput("stands alone; ask for the rest as another question", field="erase")
        return self

    def question(self) -> WhatIfQuestion:
        """Convert the request to a question that the model's copy answers."""
        if self.erase is None:
            return WhatIfQuestion(self.command(), X=self.features)
        return WhatIfQuestion(keys=tuple(self.erase.keys or ()), tags=tuple(self.erase.tags or ()), X=self.features)


class FeedEraseRequest(Request):
    """Times, or a range of times, of the readings to erase, written as in the feed's readings."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "examples": [{"times": ["2024-01-01T00:00"]}]})

    times: list[Time] = Field(default_factory=list, max_length=MOST_TIMES)
    begin: Time | None = Field(default=None, alias="from", description="The first; with `to` alone, all before.")
    end: Time | None = Field(default=None, alias="to", description="The last; with `from` alone, all since.")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.times and self.begin is None and self.end is None:
            raise ValueError("give times, from, or to")
        return self

    def named(self) -> list[Key]:
        """Return all requested times as text."""
        return [str(time) for time in self.times]

    def wanted(self) -> WantedReadings:
        """Return the times and the range of times of the readings to erase."""
        return WantedReadings(tuple(str(time) for time in self.times), _text(self.begin), _text(self.end))


def _text(time: str | float | None) -> str | None:
    return None if time is None else str(time)


class RestoreRequest(Request):
    """The earlier version of a model to restore."""

    most_bytes = SHORT
    version: int = Field(ge=0, le=2**53)


class FleetEraseRequest(FeedEraseRequest):
    """Readings to erase from some series of a fleet, or from all of its series."""

    series: list[SeriesName] | None = Field(default=None, min_length=1, max_length=MOST_TIMES)


class SeriesRequest(Request):
    """Series to create in a fleet before their first readings arrive."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"series": ["meter-1", "meter-2"]}]})

    series: Annotated[list[SeriesName], Field(min_length=1, max_length=MOST_TIMES)]


class FleetRequest(Request, FleetSpec):
    """The id and the settings of a fleet to create."""

    most_bytes = SHORT
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"id": "meters", "target": "load", "series": "meter", "every": "1h", "steps": [1, 24]}]
        }
    )

    id: Annotated[str, StringConstraints(pattern=FLEET_ID)]

    def spec(self) -> FleetSpec:
        """Return the settings in the request, without its other fields."""
        return FleetSpec.model_validate(self.model_dump(exclude={"id"}))


class FeedRequest(Request, FeedSpec):
    """The settings of a feed to create; without an id, the service generates one and returns it."""

    most_bytes = SHORT

    id: Id | None = None

    def spec(self) -> FeedSpec:
        """Return the settings in the request, without its other fields."""
        return FeedSpec.model_validate(self.model_dump(exclude={"id"}))


class WebhookRequest(Request, WebhookSpec):
    """The settings of a webhook to create, and its secret."""

    most_bytes = SHORT
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"url": "https://hooks.example.org/livesvm", "events": ["drift", "job.finished"]}]
        }
    )

    secret: Annotated[str, StringConstraints(max_length=200)] | None = Field(
        default=None, description="`whsec_` and 24 to 64 bytes in base64; generated and returned once if absent."
    )

    def spec(self) -> WebhookSpec:
        """Return the settings in the request, without its other fields."""
        return WebhookSpec.model_validate(self.model_dump(exclude={"secret"}))
