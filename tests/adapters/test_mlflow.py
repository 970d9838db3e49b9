"""Live models in MLflow: what comes back is the model, and is served as MLflow serves models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from livesvm import IncrementalSVC

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own
mlflow = pytest.importorskip("mlflow", reason="livesvm[mlflow] is not installed")


def test_a_logged_model_comes_back_live_and_with_its_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from livesvm.mlflow import load_model, log_model, save_model

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    model = IncrementalSVC(gamma=0.5).fit(X, np.where(X[:, 0] > 0, "high", "low"))
    save_model(model, "saved", input_example=X[:2])
    with mlflow.start_run():
        logged = log_model(model, "svc", input_example=X[:2])
    for uri in ("saved", logged.model_uri):
        served = mlflow.pyfunc.load_model(uri)
        assert served.predict(X).tolist() == model.predict(X).tolist()
        assert served.metadata.signature.inputs.to_dict()[0]["tensor-spec"] == {"dtype": "float64", "shape": (-1, 3)}
        assert np.array_equal(served.input_example, X[:2])
        with pytest.raises(mlflow.exceptions.MlflowException, match="shape"):
            served.predict(X[:, :2])
        live = load_model(uri)
        assert live.keys_ == model.keys_
        assert live.update(remove=live.keys_[:1]).n == 29
    assert not list((tmp_path / "saved").rglob("*.pkl"))


def test_a_model_with_columns_names_them_and_takes_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from livesvm.mlflow import save_model

    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame({"age": np.arange(40.0), "plan": ["gold", "free"] * 20, "vip": [True, False] * 20})
    rows["joined"] = pd.date_range("2024-01-01", periods=40)
    rows.loc[::7, "age"], rows.loc[3, "plan"] = np.nan, None
    model = IncrementalSVC(C=1.0, columns="auto").fit(rows, np.where(rows["age"] > 20, "left", "stays"))
    types = {"age": "double", "plan": "string", "vip": "boolean", "joined": "datetime"}
    for name, example in (("by columns", None), ("by example", rows[:2])):
        save_model(model, name, input_example=example)
        served = mlflow.pyfunc.load_model(name)
        assert {one["name"]: one["type"] for one in served.metadata.signature.inputs.to_dict()} == types
    served = mlflow.pyfunc.load_model("by columns")
    assert served.predict(rows[reversed(rows.columns)]).tolist() == model.predict(rows).tolist()
    with pytest.raises(mlflow.exceptions.MlflowException, match="column age"):
        served.predict(rows.assign(age="old"))
