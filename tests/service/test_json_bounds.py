"""Names of JSON are found whatever stands in its strings; what no request needs is refused before it is parsed."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.service.api.bodies.reading import MOST_FIELDS, few_names, parsed_bytes, refuse_repeated
from livesvm.solvers.errors import InvalidInput
from tests.service.conftest import Make

ROWS = 1000
HOSTILE = st.text(alphabet='\\"{}[]:,a\u00e9\U0001f600\x00 ', max_size=6)
Values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | HOSTILE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HOSTILE, inner, max_size=3),
    max_leaves=12,
)


def names_in(value: Any) -> int:
    """Return how many names the objects in a value have."""
    inner = value if isinstance(value, list) else [*value.values()] if isinstance(value, dict) else []
    return sum(map(names_in, inner)) + (len(value) if isinstance(value, dict) else 0)


@given(Values, st.booleans(), st.sampled_from([None, 2]))
def test_every_name_of_a_json_text_is_found(value: Any, ascii: bool, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=ascii, indent=indent).encode()
    assert len(few_names(data)) == names_in(value)


@given(st.binary(max_size=40))
def test_any_bytes_are_counted_or_refused(data: bytes) -> None:
    try:
        assert parsed_bytes(data) >= len(few_names(data))
    except InvalidInput:
        return


@pytest.mark.parametrize("name", ["[", "{", '"', "\\", "\\\\", '\\"', "[[[[", ":", "\u2028", "\U0001f600"])
def test_keys_may_be_any_text(name: str) -> None:
    keys = [name * 10 + str(number) for number in range(ROWS)]
    lists = {"add": {"X": [[1.0, 2.0]] * ROWS, "keys": keys}, "remove": {"keys": keys}}
    rest = {"relabel": {"keys": keys, "y": [1] * ROWS}, "reweight": {"keys": keys, "weights": [1] * ROWS}}
    data = json.dumps(lists | rest).encode()
    written = b"add X keys remove keys relabel keys y reweight keys weights".split()
    assert few_names(data) == written
    refuse_repeated(data, few_names(data))


class Pairs(list[tuple[str, Any]]):
    """An object, whose names may stand twice."""

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {value!r}" for name, value in self) + "}"


Objects = st.recursive(
    st.none() | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(HOSTILE, inner), max_size=3).map(Pairs),
    max_leaves=10,
)


def written(value: Any, ascii: bool) -> str:
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{json.dumps(n, ensure_ascii=ascii)} :{written(v, ascii)}" for n, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(one, ascii) for one in value) + "]"
    return json.dumps(value, ensure_ascii=ascii)


def repeats(value: Any) -> bool:
    if isinstance(value, Pairs):
        return len(dict(value)) < len(value) or any(repeats(one) for _, one in value)
    return isinstance(value, list) and any(repeats(one) for one in value)


@given(Objects, st.booleans())
def test_names_that_stand_twice_are_found_and_no_others(value: Any, ascii: bool) -> None:
    data = written(value, ascii).encode()
    if repeats(value):
        with pytest.raises(InvalidInput, match="stands twice"):
            refuse_repeated(data, few_names(data))
    else:
        refuse_repeated(data, few_names(data))


TWICE = {
    "C": '{"C": 1, "kernel": {"name": "rbf"}, "\\u0043": 2}',
    "kernel.gamma": '{"kernel": {"gamma": 1, "name": "rbf", "gamma": 2}}',
    "class_weight.a": '{"class_weight": {"a": 1, "b": 1, "a": 3}}',
}


@pytest.mark.parametrize("field", TWICE)
def test_a_model_whose_parameters_stand_twice_is_refused(field: str, http: httpx.Client) -> None:
    answer = http.post("/models", content=TWICE[field], headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["field"], answer.json()["reason"]) == (422, field, "stands twice")


def test_an_update_that_says_something_twice_changes_nothing(http: httpx.Client, make: Make) -> None:
    model = make()
    batch = '{"X": [[0.0], [1.0]], "y": [1, -1], "keys": ["a", "y"]}'
    for body, field in (
        (f'{{"add": {batch}, "add": {batch}}}', "add"),
        (f'{{"add": {batch[:-1]}, "y": [1, 1]}}}}', "add.y"),
        (f'{{"add": {batch}, "C": 1, "decay": 1, "C": 2}}', "C"),
    ):
        answer = http.post(f"/models/{model}/update", content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["field"], answer.json()["reason"]) == (422, field, "stands twice")
    assert http.get(f"/models/{model}").json()["version"] == 0


BLOW_UPS: dict[str, bytes] = {
    "empty arrays": b'{"X":[' + b"[]," * 300_000 + b"[]]}",
    "empty objects": b'{"X":[' + b"{}," * 300_000 + b"{}]}",
    "strings": b'{"X":[' + b'"a",' * 240_000 + b'"a"]}',
    "unknown fields": b"{" + b",".join(b'"%x":1' % number for number in range(90_000)) + b"}",
    "one field again and again": b"{" + b'"X":[[1]],' * 100_000 + b'"X":[[1]]}',
    "a long name": b'{"' + b"n" * 1_000_000 + b'":1}',
    "a long name of escapes": b'{"' + b"\\u0001" * 170_000 + b'":1}',
    "long names": b"{" + b",".join(b'"%s%d":1' % (b"n" * 9000, number) for number in range(100)) + b"}",
    "a long string": b'{"X":"' + b"s" * 1_000_000 + b'"}',
    "deep arrays": b'{"X":' + b"[" * 150 + b"]" * 150 + b"}",
    "deep objects": b'{"a":' * 60 + b"1" + b"}" * 60,
    "unclosed arrays": b"[" * 1_000_000,
    "a long integer": b'{"X":[[' + b"1" * 1_000_000 + b"]]}",
    "a long choice": b'{"choice":{"C":"' + b"c" * 1_000_000 + b'"}}',
    "a choice of arrays": b'{"choice":{"C":[' + b"1," * 400_000 + b"1]}}",
    "a choice by a long name": b'{"choice":{"' + b"c" * 1_000_000 + b'":1}}',
}
ROUTES = ("predict", "update", "regularization-path", "outlier-path", "assessment", "restore")


@pytest.mark.parametrize("case", BLOW_UPS)
def test_no_body_makes_a_large_answer(case: str, http: httpx.Client, make: Make) -> None:
    model = make()
    added = {"X": [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], "y": [1, -1, 1]}
    assert http.post(f"/models/{model}/update", json={"add": added}).status_code == 200
    job = http.post(f"/models/{model}/assessment", json={"method": "leave-one-out"}).json()["id"]
    places = ["/models", f"/jobs/{job}/apply", *(f"/models/{model}/{route}" for route in ROUTES)]
    for place in places:
        answer = http.post(place, content=BLOW_UPS[case], headers={"content-type": "application/json"})
        assert answer.status_code in (400, 409, 413, 422), (place, answer.text[:300])
        assert len(answer.content) < 8192, place


def test_long_headers_paths_and_queries_are_not_echoed(http: httpx.Client) -> None:
    for path in ("/models/" + "m" * 5000, "/jobs/" + "j" * 5000, "/" + "p" * 5000, "/models?" + "q" * 5000):
        assert len(http.get(path).content) < 8192
    long = {"content-type": "application/" + "x" * 5000, "Idempotency-Key": "k" * 5000}
    for headers in (long, {**long, "content-type": "application/json"}):
        assert len(http.post("/models/none/update", content=b"{}", headers=headers).content) < 8192


def test_the_bounds_are_those_that_are_reported() -> None:
    fields = ",".join(f'"f{number}":1' for number in range(MOST_FIELDS + 1))
    with pytest.raises(InvalidInput, match="more than the 256 fields"):
        few_names(b"{" + fields.encode() + b"}")


def test_a_text_that_ends_too_soon_is_looked_through_once() -> None:
    quotes = b'"' + b'\\"' * 2**20
    assert few_names(quotes) == []
