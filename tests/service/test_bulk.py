"""Arrays as bytes: npy and npz."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import httpx
import numpy as np
import pytest

from tests.service.conftest import Make

NPY, NPZ = "application/x-npy", "application/x-npz"


def npy(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def post(http: httpx.Client, model: str, call: str, data: bytes, media: str) -> httpx.Response:
    return http.post(f"/models/{model}/{call}", content=data, headers={"content-type": media})


@pytest.fixture
def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], 40)
    return rng.normal(size=(40, 3)) + y[:, None], y


def test_json_npy_and_npz_are_the_same(http: httpx.Client, make: Make, rows: tuple[Any, Any]) -> None:
    X, y = rows
    by_json, by_npz = make(), make()
    keys = [f"k{n}" for n in range(40)]
    http.post(
        f"/models/{by_json}/update",
        json={"add": {"X": X.tolist(), "y": y.tolist(), "keys": keys, "weights": [2.0] * 40}},
    )
    answer = post(http, by_npz, "update", npz(X=X, y=y.astype(int), keys=keys, weights=np.full(40, 2.0)), NPZ)
    assert answer.json()["added"] == keys
    bodies = [(NPY, npy(X)), (NPY, npy(np.asfortranarray(X))), (NPZ, npz(X=X)), ("application/zip", npz(X=X))]
    answers = [post(http, by_npz, "predict", data, media).json()["decision"] for media, data in bodies]
    answers.append(http.post(f"/models/{by_json}/predict", json={"X": X.tolist()}).json()["decision"])
    assert all(found == answers[0] for found in answers)


def test_npz_removes_by_key_and_by_count(http: httpx.Client, make: Make, rows: tuple[Any, Any]) -> None:
    model, (X, y) = make(), rows
    assert post(http, model, "update", npz(X=X, y=y), NPZ).json()["n_examples"] == 40
    answer = post(http, model, "update", npz(X=X[:2], y=y[:2], remove_keys=[3, 5]), NPZ).json()
    assert (answer["removed"], answer["added"]) == ([3, 5], [40, 41])
    assert post(http, model, "update", npz(remove_oldest=2), NPZ).json()["removed"] == [0, 1]


def test_the_same_request_in_another_format_is_the_same(http: httpx.Client, make: Make, rows: tuple[Any, Any]) -> None:
    model, (X, y) = make(), rows
    header = {"Idempotency-Key": "same"}
    first = http.post(f"/models/{model}/update", json={"add": {"X": X.tolist(), "y": y.tolist()}}, headers=header)
    header["content-type"] = NPZ
    second = http.post(f"/models/{model}/update", content=npz(X=X, y=y), headers=header)
    assert second.content == first.content


def _header(text: str) -> bytes:
    padded = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


def _nan() -> Any:
    X = np.ones((3, 2))
    X[2, 1] = np.nan
    return X


PREDICTS: dict[str, tuple[bytes, str, int, dict[str, Any]]] = {
    "no npy": (b"hello", NPY, 400, {}),
    "empty": (b"", NPY, 400, {}),
    "cut": (npy(np.ones((4, 4)))[:-1], NPY, 400, {}),
    "too long": (npy(np.ones((4, 4))) + b"x", NPY, 400, {}),
    "claims terabytes": (
        _header("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776, 2), }"),
        NPY,
        400,
        {},
    ),
    "negative shape": (_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 0), }"), NPY, 400, {}),
    "code in the header": (_header("__import__('os').getpid()"), NPY, 400, {}),
    "objects": (npy(np.array([[object()]]), allow_pickle=True), NPY, 422, {"field": "X"}),
    "text": (npy(np.array([["a"]])), NPY, 422, {"field": "X"}),
    "booleans": (npy(np.ones((1, 2), dtype=bool)), NPY, 422, {"field": "X"}),
    "complex": (npy(np.ones((1, 2), dtype=complex)), NPY, 422, {"field": "X"}),
    "one dimension": (npy(np.ones(2)), NPY, 422, {"field": "X"}),
    "no rows": (npy(np.ones((0, 2))), NPY, 422, {"field": "X"}),
    "not finite": (npy(_nan()), NPY, 422, {"field": "X", "row": 2, "column": 1}),
    "too wide": (npy(np.ones((2, 3))), NPY, 422, {"field": "X", "row": 0}),
    "no zip": (b"PK\x03\x04 hello", NPZ, 400, {}),
    "no X": (npz(), NPZ, 422, {"field": "X"}),
    "another member": (npz(X=np.ones((1, 2)), Z=np.ones(1)), NPZ, 422, {"field": "Z"}),
    "a bomb": (npz(X=np.zeros((10**6, 2))), NPZ, 413, {}),
}


@pytest.mark.parametrize("case", PREDICTS)
def test_a_bad_array_is_refused(case: str, http: httpx.Client, make: Make) -> None:
    model = make()
    http.post(f"/models/{model}/update", json={"add": {"X": [[0.0, 1.0], [1.0, 0.0]], "y": [1, -1]}})
    data, media, status, expected = PREDICTS[case]
    answer = post(http, model, "predict", data, media)
    assert answer.status_code == status, answer.text
    document = answer.json()
    assert {name: document.get(name) for name in expected} == expected


ONE = {"X": np.ones((2, 2)), "y": np.array([1, -1])}
UPDATES: dict[str, tuple[bytes, str, int, str | None]] = {
    "one array": (npy(np.ones((2, 2))), NPY, 415, None),
    "no y": (npz(X=np.ones((2, 2))), NPZ, 422, "y"),
    "no X": (npz(y=np.ones(2)), NPZ, 422, "X"),
    "keys alone": (npz(keys=np.arange(2)), NPZ, 422, "X"),
    "both weights": (npz(**ONE, weights=np.ones(2), sample_weight=np.ones(2)), NPZ, 422, "sample_weight"),
    "keys as fractions": (npz(**ONE, keys=np.array([0.5, 1.5])), NPZ, 422, "keys"),
    "keys twice": (npz(**ONE, keys=np.array([1, 1])), NPZ, 422, "keys"),
    "removal two ways": (npz(remove_keys=[1], remove_oldest=1), NPZ, 422, "remove_oldest"),
    "removal of a fraction": (npz(remove_oldest=1.5), NPZ, 422, "remove_oldest"),
    "removal of less than none": (npz(remove_oldest=-1), NPZ, 422, "remove_oldest"),
    "a label that is no number": (npz(X=np.ones((1, 2)), y=np.array([np.nan])), NPZ, 422, "y"),
}


@pytest.mark.parametrize("case", UPDATES)
def test_a_bad_bulk_update_is_refused(case: str, http: httpx.Client, make: Make) -> None:
    model = make()
    data, media, status, field = UPDATES[case]
    answer = post(http, model, "update", data, media)
    assert (answer.status_code, answer.json().get("field")) == (status, field), answer.text
    assert http.get(f"/models/{model}").json()["version"] == 0


def test_a_member_that_stands_twice_is_refused(http: httpx.Client, make: Make) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("X.npy", npy(np.ones((1, 2))))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("X.npy", npy(np.ones((1, 2))))
    assert post(http, make(), "predict", stream.getvalue(), NPZ).status_code == 422
