"""JSON and npz are two ways to say the same: whatever is said, the verdict is one, and so is the field."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest

from livesvm.service.api.bodies.reading import JSON, NPZ, Body, parse_update
from livesvm.service.api.problem_documents import problem
from livesvm.service.errors import InvalidRequest
from livesvm.service.models.commands import digest_of
from livesvm.service.resources.memory import Budget
from livesvm.solvers.errors import InvalidInput

NUMBERS: list[Any] = [
    *(float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 5e-324, -5e-324, 1e-308, 1e-101, 1e-100, 1e-12, 0.5, 1.0),
    *(1.0000001, 2.0, -1.0, -1e-9, 1e8, 1.0000001e8, 1e150, -1e150, 1.0000001e150, 1e308, -1e308),
    *(0, 1, 2, -1, 10**8, 10**8 + 1, 10**9, 10**9 + 1, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
    *(True, False, "", "1", "k" * 128, "k" * 129, "\x7f"),
]
ROW = [1.0, 2.0]
FIELDS: dict[str, Any] = {
    "X": lambda v: ({"add": {"X": [ROW, [1, v]]}}, {"X": [ROW, [1, v]]}),
    "y": lambda v: ({"add": {"X": [ROW, ROW], "y": [1, v]}}, {"X": [ROW, ROW], "y": [1, v]}),
    "weights": lambda v: ({"add": {"X": [ROW, ROW], "weights": [1, v]}}, {"X": [ROW, ROW], "weights": [1, v]}),
    "keys": lambda v: ({"add": {"X": [ROW], "keys": [v]}}, {"X": [ROW], "keys": [v]}),
    "remove_keys": lambda v: ({"remove": {"keys": [v]}}, {"remove_keys": [v]}),
    "remove_oldest": lambda v: ({"remove": {"oldest": v}}, {"remove_oldest": v}),
    "relabel_keys": lambda v: ({"relabel": {"keys": [v], "y": [1]}}, {"relabel_keys": [v], "relabel_y": [1]}),
    "relabel_y": lambda v: ({"relabel": {"keys": [3], "y": [v]}}, {"relabel_keys": [3], "relabel_y": [v]}),
    "reweight_keys": lambda v: (
        {"reweight": {"keys": [v], "weights": [1]}},
        {"reweight_keys": [v], "reweight_weights": [1]},
    ),
    "reweight_weights": lambda v: (
        {"reweight": {"keys": [3], "weights": [v]}},
        {"reweight_keys": [3], "reweight_weights": [v]},
    ),
    "decay": lambda v: ({"decay": v}, {"decay": v}),
    "C": lambda v: ({"C": v}, {"C": v}),
}


def verdict(data: bytes, media: str) -> tuple[Any, ...]:
    """Return what an update says, by its digest; or by which error it is refused, for which field, row and column."""
    try:
        return ("accepted", digest_of(parse_update(Body(data, media, 2**20, Budget()))))
    except (InvalidInput, InvalidRequest) as error:
        reported = problem(error)
        return (reported["type"], reported["field"].replace(".", "_"), reported.get("row"), reported.get("column"))


def as_npz(members: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    arrays: Any = {name: np.array(value) for name, value in members.items()}
    np.savez(stream, **arrays)
    return stream.getvalue()


def is_held(value: Any, column: Any) -> bool:
    """Return whether an array of ``column`` holds its entries, the last of them ``value``, in their type.

    Next to numbers a boolean becomes one, next to text a number becomes text, and no array holds integers of any size.
    """
    held, given = np.array(column).reshape(-1).tolist(), np.array(column, dtype=object).reshape(-1).tolist()
    return all(
        type(one) in (type(was), *({float} if type(was) is int else ())) for one, was in zip(held, given, strict=True)
    )


@pytest.mark.parametrize("field", FIELDS)
def test_hostile_values_have_one_verdict(field: str) -> None:
    for value in NUMBERS:
        spoken, held = FIELDS[field](value)
        if np.array(held[field]).dtype == object or not is_held(value, held[field]):
            continue
        reported, other = verdict(json.dumps(spoken).encode(), JSON), verdict(as_npz(held), NPZ)
        assert reported[:2] == other[:2], (value, reported, other)
        if other[2:] != (None, None):  # an array of another type is refused as a whole
            assert reported == other, (value, reported, other)


def test_what_is_too_much_for_any_array_is_refused() -> None:
    for field, say in FIELDS.items():
        found = verdict(json.dumps(say(10**399)[0]).encode(), JSON)
        assert found[:2] == ("urn:livesvm:problem:invalid-input", field), found
