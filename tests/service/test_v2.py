"""The Open Inference Protocol (V2), as Triton's own client speaks it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from tests.service.conftest import Make
from tests.service.process import ServiceProcess

triton = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")

X = np.random.default_rng(0).normal(size=(40, 3))
TARGETS: dict[str, tuple[dict[str, Any], Any]] = {
    "words": ({"probability": True}, np.array(["a", "b", "ü"])[np.arange(40) % 3]),
    "pairs": ({"decision_function_shape": "ovo"}, np.arange(40) % 4),
    "signs": ({}, np.where(X[:, 0] > 0, 1, -1)),
    "values": ({"task": "svr"}, X[:, 0] ** 2),
    "usual": ({"task": "oneclass"}, None),
}


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[Any]:
    with triton.InferenceServerClient(service.url.removeprefix("http://")) as client:
        yield client


def learnt(make: Make, http: httpx.Client, targets: str) -> str:
    spec, y = TARGETS[targets]
    model = make(kernel={"gamma": "scale"}, **spec)  # versions are those of updates alone
    add = {"X": X.tolist()} | ({} if y is None else {"y": y.tolist()})
    http.post(f"/models/{model}/update", json={"add": add}).raise_for_status()
    return model


def tensor(rows: np.ndarray[Any, Any], datatype: str, binary: bool) -> Any:
    found = triton.InferInput("rows", rows.shape, datatype)
    found.set_data_from_numpy(rows, binary_data=binary)
    return found


@pytest.mark.parametrize("targets", TARGETS)
def test_triton_reads_what_predict_tells(targets: str, make: Make, http: httpx.Client, client: Any) -> None:
    model = learnt(make, http, targets)
    rows, probability = X[:7].astype(np.float32), targets == "words"
    body = {"X": rows.astype(float).tolist(), "probability": probability}
    own = http.post(f"/models/{model}/predict", json=body).json()
    metadata = client.get_model_metadata(model)
    assert (metadata["versions"], metadata["inputs"][0]["shape"]) == (["1"], [-1, 3])
    outputs = {one["name"]: one for one in metadata["outputs"]}
    assert ("probability" in outputs) == probability
    named = [triton.InferRequestedOutput(name, binary_data=binary) for binary in (True, False) for name in outputs]
    for datatype, binary, asked in (("FP32", True, None), ("FP64", False, named[len(outputs) :]), ("FP64", True, None)):
        given = tensor(rows.astype(np.float32 if datatype == "FP32" else np.float64), datatype, binary)
        answer = client.infer(model, [given], outputs=asked, request_id="q", model_version="1" if binary else "")
        reported = answer.get_response()
        assert (reported["model_name"], reported["model_version"], reported["id"]) == (model, "1", "q")
        assert [one["name"] for one in reported["outputs"]] == list(outputs)
        for one in reported["outputs"]:
            assert one["datatype"] == outputs[one["name"]]["datatype"]
            shape = [7 if size == -1 else size for size in outputs[one["name"]]["shape"]]
            assert one["shape"] == shape
            values = answer.as_numpy(one["name"])
            if values.dtype.kind == "O":
                values = np.array([word.decode() if isinstance(word, bytes) else word for word in values])
            expected = own.get(one["name"], [-1, 1])  # classes that go without saying
            assert values.tolist() == expected


def test_only_the_current_version_answers(make: Make, http: httpx.Client, client: Any) -> None:
    model = make()
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    assert not client.is_model_ready(model)
    for y in (1, -1):
        http.post(f"/models/{model}/update", json={"add": {"X": [[float(y)]], "y": [y]}}).raise_for_status()
    assert client.is_model_ready(model)
    assert client.is_model_ready(model, "2")
    assert not client.is_model_ready(model, "1")
    calls: tuple[Callable[[], Any], ...] = (
        lambda: client.infer(model, [tensor(X[:1, :1], "FP64", True)], model_version="1"),
        lambda: client.get_model_metadata(model, "1"),
    )
    for call in calls:
        with pytest.raises(
            triton.InferenceServerException, match=r"version 1 of model .* it is at version 2"
        ) as caught:
            call()
        assert caught.value.status() == "404"
    with pytest.raises(triton.InferenceServerException, match="nothing-here"):
        client.get_model_metadata("nothing-here")


def test_rows_count_as_those_of_predict_do(make: Make, http: httpx.Client, client: Any) -> None:
    def counted() -> float:
        lines = http.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("livesvm_predictions_total{"))

    model = learnt(make, http, "signs")
    before = counted()
    client.infer(model, [tensor(X[:5], "FP64", True)])
    assert counted() - before == 5


GOOD = {"name": "rows", "shape": [2, 3], "datatype": "FP64", "data": [1, 2, 3, 4, 5, 6]}
BAD: list[tuple[dict[str, Any], bytes, str]] = [
    ({"inputs": [GOOD | {"data": [1, 2, 3, 4, None, 6]}]}, b"", "rows, row 1, column 1: must be a number, not null"),
    ({"inputs": [GOOD | {"data": [[1, 2, 3], [4, 5]]}]}, b"", "rows, row 1: has 2 columns"),
    ({"inputs": [GOOD | {"data": [[1, 2, 3]]}]}, b"", "rows: has data of shape [1, 3], and says [2, 3]"),
    ({"inputs": [GOOD | {"data": [1, 2, 3]}]}, b"", "rows: has 3 numbers; its shape [2, 3] takes 6"),
    ({"inputs": [GOOD | {"shape": [2**40, 2**40]}]}, b"", "rows: has 6 numbers"),
    ({"inputs": [GOOD | {"shape": [6]}]}, b"", "rows: must have the shape [rows, columns]"),
    ({"inputs": [GOOD | {"shape": [3, 2]}]}, b"", "rows, row 0: has 2 columns, this model has 3 features"),
    ({"inputs": [GOOD | {"data": None}]}, b"", "rows: has no data"),
    ({"inputs": [GOOD | {"datatype": "BF16"}]}, b"", "#/inputs/0/datatype: "),
    ({"inputs": [GOOD, GOOD]}, b"", "inputs: must be one tensor of rows, not 2"),
    ({"inputs": [GOOD], "outputs": [{"name": "label"}]}, b"", "outputs, row 0: 'label' is not one of prediction"),
    ({"inputs": [GOOD], "outputs": [{"name": "probability"}]}, b"", "outputs, row 0: probability is not one of"),
    ({"inputs": [GOOD]}, bytes(48), "48 bytes follow the JSON, and no tensor has a binary_data_size"),
    ({"inputs": [GOOD | {"parameters": {"binary_data_size": 48}}]}, bytes(48), "rows: has data and a binary_data_size"),
    (
        {"inputs": [GOOD | {"data": None, "parameters": {"binary_data_size": 40}}]},
        bytes(40),
        "rows: has a binary_data_size of 40; FP64 of shape [2, 3] takes 48",
    ),
    (
        {"inputs": [GOOD | {"data": None, "parameters": {"binary_data_size": 48}}]},
        bytes(40),
        "40 bytes follow the JSON, and binary tensors have 48",
    ),
    (
        {"inputs": [GOOD | {"data": None, "parameters": {"binary_data_size": 48}}]},
        bytes(32) + np.array([np.nan, 0.0]).tobytes(),
        "rows, row 1, column 1: is not a number (NaN)",
    ),
]


def test_a_bad_tensor_is_refused_by_name_and_row(make: Make, http: httpx.Client) -> None:
    model = learnt(make, http, "signs")
    for asked, rest, error in BAD:
        head = json.dumps(asked).encode()
        headers = {"inference-header-content-length": str(len(head))} if rest else {}
        answer = http.post(f"/v2/models/{model}/infer", content=head + rest, headers=headers)
        assert 400 <= answer.status_code < 500, asked
        assert error in answer.json()["error"]
    for length in ("0", "-1", "9999", "x"):
        headers = {"inference-header-content-length": length}
        answer = http.post(f"/v2/models/{model}/infer", content=b"{}", headers=headers)
        assert "Inference-Header-Content-Length" in answer.json()["error"]


ROWS = [
    {
        "age": float(20 + at),
        "plan": ("gold", "ü", "free")[at % 3],
        "joined": f"2024-01-{at + 1:02d}",
        "vip": at % 4 == 0,
    }
    for at in range(28)
]


def columns(rows: list[dict[str, Any]], binary: bool) -> list[Any]:
    datatypes = {"age": ("FP64", float), "plan": ("BYTES", object), "joined": ("BYTES", object), "vip": ("BOOL", bool)}
    found = []
    for name, (datatype, dtype) in datatypes.items():
        shape = [len(rows)] if binary else [len(rows), 1]
        found.append(triton.InferInput(name, shape, datatype))
        cells = np.array([row[name] for row in rows], dtype).reshape(shape)
        found[-1].set_data_from_numpy(cells, binary_data=binary)
    return found


def test_a_model_with_columns_has_a_tensor_for_each(make: Make, http: httpx.Client, client: Any) -> None:
    model = make(C=1.0, columns="auto")
    assert client.get_model_metadata(model)["inputs"] == []
    add = {"rows": ROWS, "y": ["a" if row["plan"] == "gold" else "b" for row in ROWS]}
    http.post(f"/models/{model}/update", json={"add": add}).raise_for_status()
    told = {one["name"]: one["datatype"] for one in client.get_model_metadata(model)["inputs"]}
    assert told == {"age": "FP64", "plan": "BYTES", "joined": "BYTES", "vip": "BOOL"}
    own = http.post(f"/models/{model}/predict", json={"rows": ROWS[:5]}).json()
    for binary in (True, False):
        answer = client.infer(model, columns(ROWS[:5], binary))
        assert answer.as_numpy("decision").tolist() == own["decision"]
    gaps = {"age": [None, 31.0], "plan": ["gold", None]}
    inputs = [{"name": name, "shape": [2], "datatype": "BYTES", "data": data} for name, data in gaps.items()]
    found = http.post(f"/v2/models/{model}/infer", json={"inputs": inputs}).json()
    rows = [{"plan": "gold"}, {"age": 31.0}]
    decision = http.post(f"/models/{model}/predict", json={"rows": rows}).json()["decision"]
    assert found["outputs"][1]["data"] == decision
    age, plan = (dict(one) for one in inputs)
    for wrong, error in (
        ([age | {"data": [30.0, "old"]}, plan], "age, row 1"),
        ([age, plan | {"shape": [3], "data": ["a"] * 3}], "plan"),
        ([age, plan | {"name": "colour"}], "colour, row 0"),
        ([age, age], "age: stands twice"),
        ([age | {"data": [1.0]}, plan], "age"),
        ([age | {"shape": [1, 2], "data": [1, 2]}], "age"),
        ([], "inputs"),
        ([{"name": f"c{at}", "shape": [1], "datatype": "FP64", "data": [1]} for at in range(300)], "c0, row 0"),
    ):
        refused = http.post(f"/v2/models/{model}/infer", json={"inputs": wrong})
        assert refused.status_code == 422, refused.text
        assert refused.json()["error"].startswith(error), refused.text
    head = {"inputs": [{"name": "plan", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": 10}}]}
    text = json.dumps(head).encode()
    for words, error in ((b"\x03\0\0\0old\0\0\0", "plan"), (b"\x01\0\0\0\xff\x01\0\0\0a", "plan, row 0")):
        headers = {"inference-header-content-length": str(len(text))}
        refused = http.post(f"/v2/models/{model}/infer", content=text + words, headers=headers)
        assert (refused.status_code, refused.json()["error"].startswith(error)) == (422, True), refused.text
