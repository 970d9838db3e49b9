"""Models taken along: as scikit-learn's estimators, as files, as ONNX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from livesvm.solvers import (
    IncrementalOneClassSVM,
    IncrementalPUClassifier,
    IncrementalSVC,
    IncrementalSVR,
    load_model,
    save_model,
)
from livesvm.solvers.errors import InvalidInput

X, Y = load_iris(return_X_y=True)
D, T = load_diabetes(return_X_y=True)
WORDS = np.array(["setosa", "versicolor", "virginica"])

MODELS: dict[str, Any] = {
    "two classes": lambda **p: IncrementalSVC(C=3.0, **p).fit(X[50:], WORDS[Y][50:]),
    "three classes": lambda **p: IncrementalSVC(C=3.0, class_weight={"setosa": 2.0}, **p).fit(X, WORDS[Y]),
    "regression": lambda **p: IncrementalSVR(C=50.0, epsilon=3.0, **p).fit(D[:150], T[:150]),
    "a quantile": lambda **p: IncrementalSVR(loss="pinball", quantile=0.2, **p).fit(D[:150], T[:150]),
    "one class": lambda **p: IncrementalOneClassSVM(nu=0.2, **p).fit(X),
}
KERNELS: dict[str, dict[str, Any]] = {
    "rbf": {"gamma": 0.3},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5},
    "standard": {"scale": "standard"},
    "minmax": {"scale": "minmax", "gamma": 2.0},
}


def features(name: str) -> np.ndarray:
    return np.asarray(D if name in ("regression", "a quantile") else X)


def decisions(model: Any, rows: np.ndarray) -> np.ndarray:
    return np.asarray(model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MODELS)
def test_scikit_learn_says_the_same(name: str, kernel: str) -> None:
    model, rows = MODELS[name](**KERNELS[kernel]), features(name)
    model.update(remove=model.keys_[:5])
    other = model.to_sklearn()
    assert isinstance(other, Pipeline) == (kernel in ("standard", "minmax"))
    np.testing.assert_allclose(decisions(other, rows), decisions(model, rows), atol=1e-9, rtol=1e-9)
    if name not in ("regression", "a quantile"):
        sure = (
            np.abs(decisions(model, rows)).reshape(len(rows), -1).min(axis=1) > 1e-8
        )  # the boundary is a matter of rounding
        assert (other.predict(rows) == model.predict(rows))[sure].all()


@pytest.mark.parametrize("classes", [2, 3])
def test_kernel_values_are_taken_along(classes: int) -> None:
    indices = classes > Y
    K = X[indices] @ X[indices].T
    model = IncrementalSVC(kernel="precomputed").fit(K, Y[indices])
    other = model.to_sklearn()
    np.testing.assert_allclose(other.decision_function(K), model.decision_function(K), atol=1e-9)


def test_a_constant_is_taken_along() -> None:
    other = IncrementalSVR().fit(D, np.ones(len(D))).to_sklearn()
    np.testing.assert_allclose(other.predict(D[:5]), 1.0)


def test_what_is_not_taken_along_is_named() -> None:
    cases = [
        (IncrementalSVC(kernel=lambda A, B: A @ B.T).fit(X, Y), "kernel"),
        (IncrementalSVC(classes=[0, 1, 2]).fit(X, Y), None),
        (IncrementalSVC().fit(X[:5], Y[:5]), "classes"),
    ]
    emptied = IncrementalSVC().fit(X, Y)
    emptied.update(remove=emptied.keys_)
    cases.append((emptied, "window"))
    for model, field in cases:
        if field is None:
            assert isinstance(model.to_sklearn(), SVC)
            continue
        with pytest.raises(InvalidInput) as caught:
            model.to_sklearn()
        assert caught.value.field == field


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MODELS)
def test_a_file_holds_the_whole_model(name: str, kernel: str, tmp_path: Path) -> None:
    model, rows, file = MODELS[name](**KERNELS[kernel]), features(name), tmp_path / "model.npz"
    model.update(remove=model.keys_[:5])
    save_model(model, file)
    other = load_model(file)
    assert type(other) is type(model)
    assert other.get_params() == model.get_params()
    before, after = model.to_arrays(), other.to_arrays()
    assert all(np.array_equal(before[key], after[key]) for key in before)
    np.testing.assert_allclose(decisions(other, rows), decisions(model, rows), atol=1e-9)
    other.update(remove=other.keys_[:5])
    assert other.certificate().relative_gap < 1e-8
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]


def test_files_hold_keys_names_and_other_kinds(tmp_path: Path) -> None:
    file = tmp_path / "model"
    model = IncrementalSVC().fit(X, Y, keys=[f"row {i}" if i % 2 else i for i in range(150)])
    model.feature_names_in_ = np.array(["a", "b", "c", "d"], dtype=object)
    save_model(model, file)
    other = load_model(file)
    assert other.keys_ == model.keys_
    assert other.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    pu = IncrementalPUClassifier().fit(X, (Y == 1) & (np.arange(150) % 2 == 0))
    save_model(pu, file)
    np.testing.assert_allclose(load_model(file).decision_function(X), pu.decision_function(X), atol=1e-8)


def test_what_is_no_model_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "model.npz"
    with pytest.raises(InvalidInput, match="is not kept in files"):
        save_model(IncrementalSVC(kernel=lambda A, B: A @ B.T).fit(X, Y), file)
    assert list(tmp_path.iterdir()) == []
    save_model(IncrementalSVC().fit(X, Y), file)
    whole = file.read_bytes()
    entry = whole.index(b"PK\x01\x02")
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive.files}
    head = json.loads(str(arrays["head"]))

    def with_head(**changed: Any) -> bytes:
        np.savez(file, **{**arrays, "head": np.array(json.dumps({**head, **changed}))})
        return file.read_bytes()

    def with_first(name: str, value: float) -> bytes:
        np.savez(file, **{**arrays, name: np.concatenate([[value], arrays[name][1:]])})
        return file.read_bytes()

    bad = [
        b"",
        b"not an archive",
        whole[: len(whole) // 2],
        with_head(version=99),
        with_head(format="other"),
        with_head(kind="SVC"),
        with_head(keys=[1]),
        with_head(version="1"),
        with_head(parameters=[1]),
        with_head(keys=[1.5, *head["keys"][1:]]),
        with_head(keys=None),
        with_head(next_key="a"),
        with_head(feature_names=3),
        with_head(classes={"array": [0, 1, 1], "dtype": "<i8"}),
        with_head(classes={"array": [2, 1, 0], "dtype": "<i8"}),
        with_head(classes={"array": [0, 1], "dtype": "<i8"}),
        with_first("y", 3.0),
        with_first("y", 0.5),
        with_first("sample_weight", -1.0),
        whole[: entry + 6] + b"\x94\x00" + whole[entry + 8 :],  # a version of the archive that is unknown
    ]
    for content in bad:
        file.write_bytes(content)
        with pytest.raises(InvalidInput):
            load_model(file)
    np.savez(file, **{**arrays, "X": np.array([{}], dtype=object)})
    with pytest.raises(InvalidInput, match="holds no model"):
        load_model(file)
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "nowhere")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MODELS)
def test_onnx_says_the_same(name: str, kernel: str) -> None:
    import onnxruntime

    model, rows = MODELS[name](**KERNELS[kernel]), features(name).astype(np.float32)
    session = onnxruntime.InferenceSession(model.to_onnx(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"X": rows})[0].ravel()
    expected = model.predict(rows)
    if name in ("regression", "a quantile"):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-2)
    else:
        near = np.abs(decisions(model, rows)).reshape(len(rows), -1).min(axis=1) < 1e-3
        assert (found == expected)[~near].all()


def test_onnx_that_is_not_installed_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r"livesvm\[onnx\]"):
        IncrementalSVC().fit(X, Y).to_onnx()
