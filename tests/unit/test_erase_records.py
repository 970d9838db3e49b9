"""A model that has forgotten, and its requests, next to those that never knew: record by record, not by their bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from livesvm.service.api.requests import UpdateRequest
from livesvm.service.history.erasure import ErasurePart, Intent
from livesvm.service.lifecycle.search import requests_of
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.window import WindowLimits
from livesvm.service.store.base import Remembered
from livesvm.solvers.sparse import SparseRows
from tests.service.test_erase_kinds import GAMMA, GONE, LEFT, Kind, N, kinds

LIMITS = WindowLimits(10**6, 10**4)
OWN = {"version", "sequence", "sizes", "updated_at", "changed"}
"""What counts updates, and may differ."""


def lived(name: str, kind: Kind, without: list[int]) -> ModelState:
    """Return a model of a kind that learnt all of its examples but for some."""
    parameters = {"C": 2.0, "kernel": {"name": "rbf", "gamma": GAMMA}, **kind.more}
    if kind.more.get("task") in ("oneclass", "pu"):
        del parameters["C"]
    state = ModelState.empty(ModelSpec(id=name, **parameters), 64)
    stay = np.setdiff1d(np.arange(N), without)
    for part in (stay[stay < 20], stay[stay >= 20]):
        some = replace(kind, features=kind.features[part], add={k: [v[i] for i in part] for k, v in kind.add.items()})
        update = UpdateRequest.model_validate(some.part(slice(None))).command()
        state.apply(state.window.plan(update, LIMITS, 1.8e9, None))
    return state


@pytest.mark.parametrize("name", ["words", "standard", "minmax", "medians", "sparse", "dated", "numbered", "robust"])
def test_a_model_is_as_one_that_never_knew_them(name: str) -> None:
    kind, gone = kinds()[name], [LEFT, *GONE]
    state, never = lived(name, kind, []), lived(name, kind, gone)
    assert state.forget([kind.keys[indices] for indices in gone]) is not None
    never.forget([])  # a scale is that of the first data; of both it is now that of the window
    one, other = state.document(), never.document()
    assert one["sizes"]["n_examples"] == other["sizes"]["n_examples"]
    for field in one.keys() - OWN - {"arrays"}:
        np.testing.assert_equal(one[field], other[field], err_msg=field)
    one["arrays"].pop("record", None), other["arrays"].pop("record", None)  # which an erasure begins again
    check_arrays(one["arrays"], other["arrays"])


def check_arrays(mine: dict[str, Any], never: dict[str, Any], at: str = "") -> None:
    assert mine.keys() == never.keys()
    for name, value in mine.items():
        if isinstance(value, dict):
            check_arrays(value, never[name], f"{at}{name}.")
        elif isinstance(value, SparseRows):
            check_arrays(value.to_arrays(), never[name].to_arrays(), f"{at}{name}.")
        elif isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
            np.testing.assert_allclose(value, never[name], rtol=1e-6, atol=1e-6, err_msg=at + name)
        else:
            np.testing.assert_equal(value, never[name], err_msg=at + name)


def remembered(sequence: int, **answer: Any) -> Remembered:
    return Remembered(b"", sequence, json.dumps(answer).encode() if answer else None)


def test_requests_that_tell_of_a_key_go_and_the_others_stay() -> None:
    requests = {
        "of customer-17": remembered(1, version=1),
        "cut off": remembered(2),
        "added": remembered(3, added=["customer-17", 4], removed=[]),
        "of customer-18": remembered(4, added=["customer-18"], removed=[5]),
        "tagged store-4": remembered(5, version=5),
        "number": remembered(6, added=[], removed=[7]),
    }
    going = set(requests_of(requests, ["customer-17", 7], ["customer-17", "store-4"]))
    assert going == {"of customer-17", "cut off", "added", "tagged store-4", "number"}
    intent = Intent("m", (ErasurePart("m", sequence=6),))
    intent = replace(intent, keys=(intent.hash("customer-17"),), requests=tuple(map(intent.hash, going)))
    later = {
        "customer-17": remembered(5, version=6),
        "later": remembered(7, removed=["customer-17"]),
        "later, cut off": remembered(8),
        "later, another": remembered(9, removed=["customer-18"]),
    }
    found = Intent.decode(intent.encode()).going("m", requests | later)
    assert found.keys() == going | {"customer-17", "later", "later, cut off"}
    feed = replace(intent, by_time=True)
    assert feed.going("m", requests).keys() == requests.keys()
