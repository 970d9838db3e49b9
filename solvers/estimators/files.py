"""Saving live models to files and loading them: a file is an npz archive of arrays and JSON, and holds no code."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput, NotOptimal
from livesvm.solvers.estimators import scikit
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.sparse import SPARSE, SparseRows

FORMAT = "livesvm model"
VERSION = 7
"""2: sparse features. 3: unscaled features of a model with a scale. 4: a center. 5: tables. 6: components. 7: a scale
of targets. Others: 1"""
OF_TABLES = ("encoding", "words", "chosen", "choice")  #: parts of models with columns, or that tune themselves
KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        scikit.IncrementalSVC,
        scikit.IncrementalSVR,
        scikit.IncrementalOneClassSVM,
        scikit.IncrementalPUClassifier,
    )
}
PLAIN = (str, int, float, bool, type(None))


def _version(parameters: Mapping[str, Any], arrays: Mapping[str, Any], X: Any) -> int:
    """Return the lowest version of the file format that can hold ``parameters`` and ``arrays``."""
    if "target_scale" in parameters:
        return VERSION
    if "landmarks" in arrays:
        return 6
    if any(name in arrays for name in OF_TABLES):
        return 5
    if "center" in arrays:
        return 4
    return 3 if "scale_offset" in arrays else 2 if isinstance(X, SparseRows) else 1


def _parameters(model: LiveEstimator) -> dict[str, Any]:
    """Return the parameters of a model, except for unused newer parameters, which older readers do not know."""
    found = model.get_params(deep=False)
    for name in ("columns", "components", "target_scale"):
        if found.get(name) in (None, "none"):
            found.pop(name, None)
    return found


def save_model(model: LiveEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted live model to a file, whole or not at all; ``load_model`` reads it.

    Parameters
    ----------
    model : live estimator
        A fitted one of ``livesvm``.
    path : str or path
        The file; one that is there is replaced.

    Raises
    ------
    InvalidInput
        A parameter or a label is nothing that JSON has, as a function for a kernel.
    OSError
        It cannot be written.
    """
    kind = type(model).__name__
    if KINDS.get(kind) is not type(model):
        raise InvalidInput(f"a {kind} is not kept in files", field="model")
    arrays, parameters = model.to_arrays(), _parameters(model)
    X = arrays["X"]
    if isinstance(X, SparseRows):
        del arrays["X"]
        arrays |= {f"X_{name}": value for name, value in X.to_arrays().items()}
    head = {
        "format": FORMAT,
        "version": _version(parameters, arrays, X),
        "kind": kind,
        "parameters": {name: _plain(value, name) for name, value in parameters.items()},
        "keys": arrays.pop("keys"),
        "next_key": int(arrays.pop("next_key")),
    }
    head |= {name: arrays.pop(name) for name in (*OF_TABLES, "record") if name in arrays}
    if "classes" in arrays:
        head["classes"] = _plain(np.asarray(arrays.pop("classes")), "classes")
    if hasattr(model, "feature_names_in_"):
        head["feature_names"] = _plain(model.feature_names_in_, "feature_names")
    where = Path(path)
    handle, name = tempfile.mkstemp(dir=where.parent, prefix=f".{where.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, head=np.array(json.dumps(head)), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, where)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load_model(path: str | os.PathLike[str]) -> Any:
    """Return the live model that a file holds, at its optimum.

    Parameters
    ----------
    path : str or path
        A file that :func:`save_model` wrote.

    Returns
    -------
    live estimator
        The model, at its optimum.

    Raises
    ------
    InvalidInput
        It holds none, or one of a newer version.
    NotOptimal
        Its coefficients are damaged.
    OSError
        It cannot be read.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays: dict[str, Any] = {name: archive[name] for name in archive.files}
        head = json.loads(str(arrays.pop("head")))
        known, version = head["format"] == FORMAT, head["version"]
    except (ValueError, KeyError, TypeError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidInput(f"{path} holds no model ({error})", field="path") from None
    if not known:
        raise InvalidInput(f"{path} holds no model", field="path")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise InvalidInput(f"{path} is of version {version}; this package reads 1 to {VERSION}", field="path")
    try:
        return _model(head, arrays)
    except (InvalidInput, NotOptimal):
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise InvalidInput(f"{path} holds no whole model ({error!r})", field="path") from None


def _model(head: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """Return the model that a file's head and arrays describe; raise various errors if the two do not match."""
    kind, parameters = KINDS[head["kind"]], {name: _back(value) for name, value in head["parameters"].items()}
    arrays |= {"keys": head["keys"], "next_key": int(head["next_key"])}
    if "X_width" in arrays:
        arrays["X"] = SparseRows.from_arrays({name: arrays.pop(f"X_{name}") for name in SPARSE})
    arrays |= {name: head[name] for name in (*OF_TABLES, "record") if name in head}
    if "classes" in head:
        arrays["classes"] = _back(head["classes"])
    _check(arrays)
    model = kind.from_arrays(parameters, arrays)
    if "feature_names" in head:
        names = _back(head["feature_names"])
        if np.shape(names) != (model.n_features_in_,):
            raise InvalidInput("are not those of the features", field="feature_names")
        model.feature_names_in_ = names
    return model


def _check(arrays: Mapping[str, Any]) -> None:
    """Raise InvalidInput if keys, targets, weights or class labels in ``arrays`` are not valid for any model."""
    n = len(validation.new_keys(arrays["keys"], len(arrays["keys"]), (), ()))
    y = validation.vector(arrays["y"], n, field="y")
    validation.sample_weights(arrays["sample_weight"], n)
    if "classes" not in arrays:
        return
    labels = np.asarray(arrays["classes"])
    several, found = labels.size > 2, np.unique(labels)
    if labels.shape != found.shape or (several and not np.array_equal(labels, found)):
        raise InvalidInput("are not distinct and in order", field="classes")
    wrong = np.flatnonzero(~np.isin(y, np.arange(labels.size) if several else (-1.0, 1.0)[-labels.size :]))
    if wrong.size:
        raise InvalidInput("is of no class", field="y", row=int(wrong[0]))


def _plain(value: Any, name: str) -> Any:
    """Convert a value to JSON types; an array, mapping or list becomes an object that names its type."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        items = [_plain(item, name) for item in value.tolist()]
        return {"array": items, "dtype": "object" if value.dtype == object else value.dtype.str}
    if isinstance(value, Mapping):
        return {"mapping": [[_plain(key, name), _plain(item, name)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_plain(item, name) for item in value]}
    if not isinstance(value, PLAIN):
        raise InvalidInput(f"a {type(value).__name__} is not kept in files", field=name)
    return value


def _back(value: Any) -> Any:
    """Convert a value from JSON types back to what it was before ``_plain``."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return np.array(value["array"], dtype=value["dtype"])
    if "mapping" in value:
        return {key: _back(item) for key, item in value["mapping"]}
    return [_back(item) for item in value["list"]]
