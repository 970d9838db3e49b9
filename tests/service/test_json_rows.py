"""A long body that is read in pieces says what it says when it is read as a whole."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.service.api import predictions
from livesvm.service.api.bodies import json_rows
from livesvm.service.api.bodies.json_rows import NotRows
from livesvm.service.api.bodies.reading import JSON, Body, parse_predict
from livesvm.service.api.problem_documents import problem
from livesvm.service.errors import ServiceError
from livesvm.service.resources.memory import Budget
from livesvm.service.resources.shared_threads import Steps

Entry = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**30), 10**30) | st.floats(-1e3, 1e3)
Rows = st.integers(1, 4).flatmap(lambda d: st.lists(st.lists(Entry, min_size=d, max_size=d), min_size=1, max_size=30))
ODD = ['{"X": []}', '{"X": [[]]}', '{"X": [[[1]], [[2]]]}', '{"X": [[1], [2, 3]]}', '{"X": [[1] [2]]}', "", "]]}"]
ODD += ['{"X": [[1],, [2]]}', '{"X": [[1], [2],]}', '{"X": [[1], 2]}', '{"X": [[1], [true]]}', '{"X": [[1], [2]] 3}']
ODD += ['{"X": [[1], [2]], "Y": 1}', '{"X": [[1], [2]]} 3', '{"x": [[1], [2]]}', "[[1], [2]]", '{"X": [[1], [2]]']
ODD += ['{"X": [[1], {"a": 2}]}', '{"X": [[1], [1e200]]}']


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "PIECE", 10)
    monkeypatch.setattr(predictions, "BLOCK", 0.0)


def outcome(steps: Steps[Any]) -> tuple[object, ...]:
    """Return the rows, or the refusal."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value.tobytes(), end.value.shape
    except (ServiceError, ValueError) as error:
        return (json.dumps(problem(error)),)


def whole(body: Body) -> Steps[Any]:
    return parse_predict(body)
    yield


def body_of(text: str) -> Body:
    return Body(text.encode(), JSON, 2**20, Budget())


@given(Rows, st.sampled_from([None, 0, 3]))
def test_pieces_hold_the_same_rows(rows: list[list[float]], indent: int | None) -> None:
    body = body_of(json.dumps({"X": rows}, indent=indent))
    assert outcome(predictions._read(body)) == outcome(whole(body))


@pytest.mark.parametrize("text", ODD)
def test_pieces_have_the_same_faults(text: str) -> None:
    body = body_of(text)
    assert outcome(predictions._read(body)) == outcome(whole(body))


def test_there_are_many_pieces() -> None:
    data = json.dumps({"X": [[float(number)] for number in range(100)]}).encode()
    found = list(json_rows.pieces(data))
    assert len(found) > 10
    np.testing.assert_array_equal(np.concatenate(found)[:, 0], np.arange(100.0))
    with pytest.raises(NotRows):
        list(json_rows.pieces(data[:-1]))
