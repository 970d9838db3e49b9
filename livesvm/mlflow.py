"""Live models in MLflow: log, load and serve them; needs the extra ``livesvm[mlflow]``.

A model is stored as the file of ``livesvm.save_model``: nothing is unpickled, and what comes back is live.
"""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from livesvm.solvers import load_model as _read
from livesvm.solvers import save_model as _write

try:
    from mlflow import pyfunc
    from mlflow.artifacts import download_artifacts
    from mlflow.models import ModelSignature, infer_signature
    from mlflow.types.schema import ColSpec, Schema
except ImportError as error:
    raise ImportError("livesvm.mlflow needs MLflow: pip install 'livesvm[mlflow]'") from error

__all__ = ["load_model", "log_model", "save_model"]

FILE = "model.npz"
TYPES = {"number": "double", "category": "string", "yes-no": "boolean", "time": "datetime"}
"""MLflow's types of columns of a kind."""


def save_model(model: Any, path: str, *, input_example: Any = None, signature: Any = None, **settings: Any) -> None:
    """Write a live model as an MLflow model.

    Parameters
    ----------
    model : live estimator
        A fitted one of ``livesvm``.
    path : str
        A directory that is not there yet.
    input_example : array_like or data frame, or None, default None
        Some rows, (m, d).
    signature : mlflow.models.ModelSignature or None, default None
        Of inputs and predictions; None: it is inferred from the input example, or without one it has the columns of
        the model, of which any cell may be missing.
    settings
        What else ``mlflow.pyfunc.save_model`` takes.
    """
    with tempfile.TemporaryDirectory() as place:
        pyfunc.save_model(path, **_flavor(model, place, input_example, signature), **settings)


def log_model(model: Any, name: str, *, input_example: Any = None, signature: Any = None, **settings: Any) -> Any:
    """Log a live model with the current run.

    Parameters
    ----------
    model : live estimator
        A fitted one of ``livesvm``.
    name : str
        What MLflow calls the model.
    input_example : array_like or data frame, or None, default None
        Some rows, (m, d).
    signature : mlflow.models.ModelSignature or None, default None
        Of inputs and predictions; None: it is inferred from the input example, or without one it has the columns of
        the model, of which any cell may be missing.
    settings
        What else ``mlflow.pyfunc.log_model`` takes, such as ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Its ``model_uri`` is what ``load_model`` takes.
    """
    with tempfile.TemporaryDirectory() as place:
        return pyfunc.log_model(name=name, **_flavor(model, place, input_example, signature), **settings)


def load_model(model_uri: str) -> Any:
    """Return the live model of an MLflow model, which can be updated.

    Parameters
    ----------
    model_uri : str
        As "runs:/...", "models:/..." or a path.

    Returns
    -------
    live estimator
        As it was when it was stored.
    """
    return _load_pyfunc(str(Path(download_artifacts(model_uri)) / "data" / FILE))


def _flavor(model: Any, place: str, input_example: Any, signature: Any) -> dict[str, Any]:
    """Return what MLflow stores of a model, with its file in a directory."""
    file = Path(place) / FILE
    _write(model, file)
    if signature is None and input_example is not None:
        signature = infer_signature(input_example, model.predict(input_example))
    elif signature is None and getattr(model, "columns_", None) is not None:
        each = model.columns_.each
        signature = ModelSignature(Schema([ColSpec(TYPES[one.kind], one.name, required=False) for one in each]))
    return {
        "loader_module": "livesvm.mlflow",
        "data_path": str(file),
        "signature": signature,
        "input_example": input_example,
        "pip_requirements": [f"livesvm[mlflow]=={version('livesvm')}"],
    }


def _load_pyfunc(path: str) -> Any:
    """Return the model of a file; MLflow calls this."""
    return _read(path)
