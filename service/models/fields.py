"""The fields of requests, each with its check and its OpenAPI schema."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)

from livesvm.service.models import arrays, table_rows
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.tables import columns
from livesvm.solvers.tables.cells import KINDS, LONGEST

T = TypeVar("T")
MODEL_ID = r"^[a-z0-9][a-z0-9_-]{0,63}$"
ID_IN_WORDS = "has 1 to 64 letters a to z, digits, _ and -, and begins with a letter or a digit"
JOB_ID = r"^j-[0-9a-f]{12}(-[0-9a-f]{8})?$"

LEAST_WEIGHT = 1e-100
"""The least weight that is not 0: the product of a smaller one with C might become 0."""

_NUMBER = {"type": "number", "minimum": -arrays.MAX_MAGNITUDE, "maximum": arrays.MAX_MAGNITUDE}


def _array(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the schema of an array that has at least one item."""
    return {"type": "array", "minItems": 1, **more, "items": items}


_NUMBERS = _array(_NUMBER)
_WORD = {"type": "string", "minLength": 1, "maxLength": arrays.LONGEST_LABEL}
KEY_SCHEMA = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": arrays.MAX_KEY_LENGTH},
        {"type": "integer", "minimum": 0, "maximum": arrays.MAX_KEY - 1},
    ]
}

_ROWS = _array({"type": "array", "items": {"type": "integer", "minimum": 0}})
Matrix = Annotated[
    Any,
    PlainValidator(arrays.rows),
    WithJsonSchema(
        {
            "anyOf": [
                _array(_NUMBERS, description="(n, d), finite numbers"),
                {
                    "type": "object",
                    "description": "Sparse rows: of each the features that are not 0, by index from 0, ascending.",
                    "required": ["indices", "values", "n_features"],
                    "additionalProperties": False,
                    "properties": {
                        "indices": _ROWS,
                        "values": _array({"type": "array", "items": _NUMBER}),
                        "n_features": {"type": "integer", "minimum": 1},
                    },
                },
            ]
        }
    ),
]
_CELL = {"anyOf": [{"type": "string", "maxLength": LONGEST}, _NUMBER, {"type": "boolean"}, {"type": "null"}]}
_NAME = {"type": "string", "minLength": 1, "maxLength": arrays.MAX_KEY_LENGTH}
NamedRows = Annotated[
    Any,
    PlainValidator(table_rows.checked),
    WithJsonSchema(
        _array(
            {"type": "object", "minProperties": 1, "propertyNames": _NAME, "additionalProperties": _CELL},
            description="(n,) rows of a model with `columns`, by name; what is absent or null is missing",
        )
    ),
]
Columns = Annotated[
    Any,
    PlainValidator(lambda value: value if value == "auto" else columns.given(value).documents()),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": "auto"},
                _array(
                    {
                        "type": "object",
                        "required": ["name"],
                        "additionalProperties": False,
                        "properties": {
                            "name": _NAME,
                            "kind": {"enum": list(KINDS), "default": "number"},
                            "encoding": {"enum": list(get_args(columns.Encoding))},
                            "relevance": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e6, "default": 1},
                        },
                    }
                ),
            ]
        }
    ),
]
Targets = Annotated[
    Any,
    PlainValidator(arrays.targets),
    WithJsonSchema(
        {
            "anyOf": [_NUMBERS, {"type": "array", "minItems": 1, "items": _WORD}],
            "description": "(n,): labels for `svc` and `l2svc`, strings or whole numbers; numbers for `svr`, none for "
            "`oneclass`, 1 or 0 for `pu`",
        }
    ),
]
Weights = Annotated[
    Any,
    PlainValidator(lambda value: _weights(value)),
    WithJsonSchema(
        _array(
            {"anyOf": [{"const": 0}, {"type": "number", "minimum": LEAST_WEIGHT, "maximum": 1e8}]},
            description="(n,), each multiplies C for its example",
        )
    ),
]
_TIME = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "number"}]}
Times = Annotated[
    Any,
    PlainValidator(arrays.times),
    WithJsonSchema(
        _array(_TIME, description="(n,), ISO 8601 with a UTC offset, or Unix seconds: when each example happened")
    ),
]
OlderThan = Annotated[Any, PlainValidator(partial(arrays.moment, field="older_than")), WithJsonSchema(_TIME)]
Keys = Annotated[
    Any,
    PlainValidator(arrays.keys),
    WithJsonSchema(_array(KEY_SCHEMA, uniqueItems=True)),
]
RowKeys = Annotated[Any, PlainValidator(arrays.row_keys), WithJsonSchema(_array(KEY_SCHEMA))]
_TAG = {"type": "string", "minLength": 1, "maxLength": arrays.MAX_KEY_LENGTH}
TagsOfEach = Annotated[
    Any,
    PlainValidator(arrays.tags),
    WithJsonSchema(
        _array(
            {"anyOf": [_TAG, {"type": "array", "items": _TAG, "maxItems": arrays.MOST_TAGS}, {"type": "null"}]},
            description="(n,), of each example a tag, a list of them, or null",
        )
    ),
]
TagList = Annotated[
    Any,
    PlainValidator(arrays.tag_list),
    WithJsonSchema(_array(_TAG, uniqueItems=True)),
]
Gamma = Annotated[
    Any,
    PlainValidator(lambda value: _gamma(value)),
    WithJsonSchema(
        {
            "anyOf": [{"const": "scale"}, {"type": "number", "exclusiveMinimum": 0, "maximum": 1e8}],
            "description": "`scale`: 1 / (features x variance) of the first examples",
        }
    ),
]
Id = Annotated[
    str, AfterValidator(lambda value: check_id(value)), WithJsonSchema({"type": "string", "pattern": MODEL_ID})
]
Cost = Annotated[float, Field(gt=0, le=1e8, allow_inf_nan=False)]
HalfWidth = Annotated[float, Field(ge=0, le=1e8, allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=64)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Decay = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


def with_none(schema: dict[str, Any]) -> None:
    """Change the schema of an array to allow an empty one."""
    schema.pop("minItems", None)
    if parts := schema.get("anyOf"):  # fields share them: they are not changed
        schema["anyOf"] = [{name: said for name, said in part.items() if name != "minItems"} for part in parts]


MayBeEmpty = Annotated[T, WrapValidator(arrays.or_empty), Field(json_schema_extra=with_none)]
"""A field that may also be an empty list, as on a day without data."""


def check_id(value: str) -> str:
    """Return ``value`` if it is a valid id; raises ValueError otherwise."""
    if re.fullmatch(MODEL_ID, value) is None:
        raise ValueError(ID_IN_WORDS)
    return value


def _gamma(value: Any) -> float | str:
    if value == "scale":
        return "scale"
    if type(value) not in (int, float) or not 0 < value <= 1e8:
        raise ValueError("must be 'scale' or a number above 0 and at most 1e8")
    return float(value)


def _weights(value: Any) -> arrays.Vector:
    return check_weights(arrays.vector(value, "weights"))


def check_weights(weights: arrays.Vector, field: str = "weights") -> arrays.Vector:
    """Return the weights (n,) if each is 0, or from 1e-100 to 1e8; raises InvalidInput otherwise."""
    wrong = np.flatnonzero((weights != 0) & ((weights < LEAST_WEIGHT) | (weights > 1e8)))
    if wrong.size:
        row = int(wrong[0])
        raise InvalidInput(
            f"a weight is 0, or from {LEAST_WEIGHT:g} to 1e8, not {weights[row]:g}", field=field, row=row
        )
    return weights


SHORT = 2**16
"""Most bytes of a request without examples."""


class Request(BaseModel):
    """The base class of request bodies."""

    most_bytes: ClassVar[int | None] = None
    """Most bytes of the body, a longer one is not parsed; None for requests with examples."""
    many: ClassVar[int] = 1
    """How many times the fields of a usual request it may hold."""

    model_config = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)


def without_default(schema: dict[str, Any]) -> None:
    """Remove the default from the schema of a field, because a client cannot send this default."""
    schema.pop("default", None)


EITHER: dict[str, Any] = {"oneOf": [{"required": ["X"]}, {"required": ["rows"]}]}
"""Part of the schema of a request that must have features, in one of two forms."""


class Features(Request):
    """The base class of requests with rows: arrays of numbers, or objects for a model with named columns."""

    X: Matrix = Field(default=None, json_schema_extra=without_default)
    rows: NamedRows = Field(
        default=None, json_schema_extra=without_default, description="In place of `X`, for a model with `columns`."
    )

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if self.X is not None and self.rows is not None:
            raise InvalidInput("is the same as X; give one of them", field="rows")
        if self.X is None and self.rows is None and self._has_rows:
            raise InvalidInput("is required; of a model with columns `rows`", field="X")
        return self

    _has_rows: ClassVar[bool] = True
    """Whether the request must have rows."""

    @property
    def features(self) -> Any:
        """The rows in the form in which the client sent them; None if the client sent no rows."""
        return self.X if self.rows is None else self.rows
