"""Conversion of a live model to a scikit-learn estimator or to ONNX, with the same predictions but no updates."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels.nystroem import Nystroem
from livesvm.solvers.models.feature_scale import FeatureScale
from livesvm.solvers.models.pairs_predictor import by_other_class
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.sparse import like


def to_sklearn(model: Any) -> Any:
    """Return a fitted ``SVC``, ``SVR`` or ``OneClassSVM`` with the decisions of a live model as it is now.

    A model with a ``scale`` becomes a pipeline with the scaler as its first step. A model with a ``target_scale``
    becomes a ``TransformedTargetRegressor``. Losses that scikit-learn does not have, such as robust ones, do not
    matter, because predictions do not depend on the loss. The result has no ``predict_proba``. If the features of a
    linear kernel are centered, the support vectors are centered too. Centering changes no decision, because the
    coefficients sum to 0, and it reduces rounding errors. The support vectors of a model with components are its
    landmarks.

    Raises
    ------
    InvalidInput : the kernel is a function, rows are a table, the window is empty, or there is one class only
    """
    model._check_fitted()
    if callable(model.kernel):
        raise InvalidInput("a function is not taken along", field="kernel")
    if model.columns is not None:
        raise InvalidInput("a table is not taken along: scikit-learn has no such encoding", field="columns")
    if not model.n_window_:
        raise InvalidInput("is empty: there is nothing to take along", field="window")
    if hasattr(model, "classes_") and model.classes_.size < 2:
        raise InvalidInput("a model of one class is nothing that scikit-learn has", field="classes")
    scale = model.feature_scale_
    scale = scale.scale if isinstance(scale, Nystroem) else scale
    machine = _filled(_empty(model), model, has_names=scale is None)
    if scale is not None:
        scaler = _scaler(scale)
        if hasattr(model, "feature_names_in_"):  # the step that takes the columns refuses another order
            scaler.feature_names_in_ = model.feature_names_in_
        machine = Pipeline([("scale", scaler), ("svm", machine)])
    kind = model.target_scale_
    return machine if kind == "none" else _with_targets(machine, model, *FUNCTIONS[kind])


FUNCTIONS = {"log": (np.log, np.exp), "log1p": (np.log1p, np.expm1)}
"""Of a scale of targets, and back."""


def _with_targets(machine: Any, model: Any, func: Any, inverse_func: Any) -> TransformedTargetRegressor:
    """Return a fitted regressor that turns the predictions of ``machine`` back into units of y."""
    own = {"func": func, "inverse_func": inverse_func, "check_inverse": False}
    out = TransformedTargetRegressor(machine, **own)
    out.regressor_, out._training_dim = machine, 1
    out.transformer_ = FunctionTransformer(**own, validate=True).fit(model.window_y[:, None])
    return out


def _empty(model: Any) -> Any:
    """Return an unfitted scikit-learn estimator with the parameters of a live model."""
    names = ("kernel", "degree", "coef0")
    parameters = {name: getattr(model, name) for name in names} | {"gamma": model.gamma_}
    if hasattr(model, "nu"):
        return OneClassSVM(nu=model.nu, **parameters)
    if hasattr(model, "epsilon"):
        return SVR(C=model.C_, epsilon=model.epsilon_, **parameters)
    shape, ties = model.decision_function_shape, model.break_ties
    weight = model.class_weight
    return SVC(C=model.C_, class_weight=weight, decision_function_shape=shape, break_ties=ties, **parameters)


def _filled(machine: Any, model: Any, *, has_names: bool) -> Any:
    """Set the fitted attributes of a scikit-learn estimator from a live model, and return the estimator.

    ``has_names`` says whether the estimator gets the names of the features.
    """
    given = model.kernel == "precomputed"
    if isinstance(model.feature_scale_, Nystroem):
        X, dual, counts = _of_landmarks(model, model.feature_scale_)
        support = np.arange(len(X), dtype=np.int32)
    else:
        X = model._learnt.kernel.centered(like(model._learnt.X, False))
        support, dual, counts = model.support_, model.dual_coef_, model.n_support_
    dual = dual.toarray() if hasattr(dual, "toarray") else dual
    if support.size == 0:  # a constant: libsvm needs a support vector
        support, dual = np.zeros(1, np.int32), np.zeros((dual.shape[0], 1))
        counts = np.eye(1, max(counts.size, 1), dtype=np.int32)[0]
    n = model.n_window_
    machine.n_features_in_ = n if given else X.shape[1]
    machine.shape_fit_ = (n, machine.n_features_in_)
    machine.support_ = support
    machine.support_vectors_ = np.empty((0, 0)) if given else np.ascontiguousarray(X[support])
    machine._n_support = counts if isinstance(machine, SVC) else np.array([support.size, 0], np.int32)
    machine.dual_coef_, machine.intercept_ = np.ascontiguousarray(dual), np.asarray(model.intercept_, np.float64)
    machine._dual_coef_, machine._intercept_ = machine.dual_coef_, machine.intercept_
    if isinstance(machine, SVC):
        machine.classes_, machine.class_weight_ = model.classes_, np.asarray(model.class_weight_)
        if model.classes_.size == 2:  # libsvm's own are positive for the first class
            machine._dual_coef_, machine._intercept_ = -machine.dual_coef_, -machine.intercept_
    else:
        machine.class_weight_ = np.empty(0)
    if isinstance(machine, OneClassSVM):
        machine.offset_ = -machine.intercept_
    machine._sparse, machine._gamma, machine.fit_status_ = False, model.gamma_, 0
    machine._probA = machine._probB = np.empty(0)
    machine._num_iter = machine.n_iter_ = getattr(model, "n_iter_", 1)
    if hasattr(model, "feature_names_in_") and has_names:
        machine.feature_names_in_ = model.feature_names_in_
    return machine


def _of_landmarks(model: Any, map: Nystroem) -> tuple[Floats, Floats, NDArray[np.int32]]:
    """Return the landmarks, their coefficients for the decisions of a model, and how many landmarks each class has.

    With B the basis of the map, ``w' map(x) = (B w)' k(Z, x)``. With more than two classes, each class except the last
    has a copy of the landmarks, for its pairs with later classes.
    """
    points, own = map.points, map.basis @ model.predictor().support
    n_classes = model.classes_.size if hasattr(model, "classes_") else 2
    copies = n_classes - 1
    counts = np.array([len(points)] * copies + [0], np.int32)
    if copies == 1:
        return points, own.T, counts
    y, rows = np.repeat(np.arange(copies), len(points)), np.zeros((own.shape[1], copies * len(points)))
    for q, (first, _) in enumerate(combinations(range(n_classes), 2)):
        rows[q, y == first] = own[:, q]
    return np.tile(points, (copies, 1)), by_other_class(rows, y, n_classes).T, counts


def _scaler(scale: FeatureScale) -> StandardScaler:
    """Return a scikit-learn scaler with the same offset and factor as ``scale``."""
    out = StandardScaler()
    out.mean_, out.scale_, out.var_ = scale.offset, scale.factor, scale.factor**2
    out.n_features_in_, out.n_samples_seen_ = scale.offset.size, 1
    return out


def to_onnx(model: Any) -> bytes:
    """Return a live model in the ONNX format, whose one input ``X`` is (m, d) in single precision.

    Raises
    ------
    InvalidInput : as ``to_sklearn``, the kernel is precomputed, or targets have a scale
    ImportError : skl2onnx is not installed; the extra ``livesvm[onnx]`` has it
    """
    if model.target_scale_ != "none":
        raise InvalidInput("a scale of targets is not taken along as ONNX", field="target_scale")
    machine = to_sklearn(model)
    if model.kernel == "precomputed":
        raise InvalidInput("a precomputed kernel is not taken along as ONNX", field="kernel")
    try:
        from skl2onnx import convert_sklearn
        from skl2onnx.common.data_types import FloatTensorType
    except ImportError as error:
        raise ImportError("ONNX needs skl2onnx: pip install 'livesvm[onnx]'") from error
    inputs = [("X", FloatTensorType([None, model.n_features_in_]))]
    options = {"zipmap": False} if hasattr(model, "classes_") else None
    last = machine[-1] if isinstance(machine, Pipeline) else machine
    asked = None if options is None else {id(last): options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of attributes that skl2onnx still reads
        return bytes(convert_sklearn(machine, initial_types=inputs, options=asked).SerializeToString())
