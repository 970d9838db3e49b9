"""The live estimators as scikit-learn estimators, with its base class, mixins, tags and checks of feature names.

These estimators are separate from the live models, so that a process that only serves models need not import
scikit-learn.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from livesvm.solvers.errors import InvalidInput, InvalidType
from livesvm.solvers.estimators.classification import LiveSVC
from livesvm.solvers.estimators.drop_in import IGNORED, DropIn
from livesvm.solvers.estimators.one_class import LiveOneClassSVM
from livesvm.solvers.estimators.positive_unlabelled import LivePUClassifier
from livesvm.solvers.estimators.probabilities import PROBABILITY, Probabilities
from livesvm.solvers.estimators.regression import LiveSVR
from livesvm.solvers.estimators.self_tuning import SelfTuning
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.class_labels import in_type_of
from livesvm.solvers.models.predictor import Gate
from livesvm.solvers.models.warnings import ModelWarning
from livesvm.solvers.sparse import as_scipy

GATE = ("feature_names_in_", "n_features_in_", "kernel")  #: attributes that features which come in are compared with


def warn_of(found: Sequence[ModelWarning]) -> None:
    """Issue a Python warning, to the caller of ``fit``, for each condition that makes the model useless."""
    for one in found:
        warnings.warn(one.message, UserWarning, stacklevel=3)


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """scikit-learn's parts of every estimator; a class lists this base before the live estimator."""

    kernel: str
    columns: Any = None
    n_features_in_: int
    _get_param_names: Any = classmethod(cache(BaseEstimator._get_param_names.__func__))  # type: ignore[arg-type]

    def _check_features(self, X: ArrayLike, *, reset: bool) -> None:
        """Let scikit-learn store the number and names of the features, or compare them with the stored ones.

        The check takes longer than a small update, and is skipped for a plain array if no feature names are known.
        """
        if self.columns is not None:
            return  # which the columns themselves do
        nameless = type(X) is np.ndarray and not hasattr(self, "feature_names_in_")
        if nameless and not reset and X.shape[1:] == (self.n_features_in_,):  # type: ignore[union-attr]
            return
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except TypeError as error:
            raise InvalidType(str(error), field="X") from None
        except ValueError as error:
            raise InvalidInput(str(error), field="X") from None

    def _gate(self) -> Gate | None:
        if self.columns is not None:
            return None
        named: Any = object.__new__(type(self))  # an object with the names, and nothing learnt
        known = vars(self)
        vars(named).update({name: known[name] for name in GATE if name in known})
        return partial(named._check_features, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        is_live = isinstance(self, LiveEstimator)
        tags.input_tags.sparse = is_live and self.kernel != "precomputed"
        return tags


#: Parameters and attributes that several estimators have: the type, unit and meaning of each.
SHARED = {
    "kernel": (
        'str or callable, default "rbf"',
        """One of "linear", "rbf", "laplacian", "poly", "sigmoid", see ``livesvm.solvers.kernels.kernel``, or
        "precomputed": then X is a kernel matrix, see ``update``; or a function that returns (m, n) values of rows
        (m, d) and (n, d), or of lists of examples of any other type.""",
    ),
    "gamma": (
        'float, "scale" or "auto", default "scale"',
        """Coefficient of rbf, laplacian, poly and sigmoid, above 0, in one over the units of what it multiplies.
        "scale" is 1 / (d * variance of the first data seen, rows weighted), for the laplacian with the standard
        deviation in place of the variance, and stays, see ``gamma_``; "auto" is 1 / d. With ``C="auto"`` either is
        chosen by the window.""",
    ),
    "degree": ("int, default 3", "Degree of the kernel poly, at least 1."),
    "coef0": ("float, default 0", "What is added in poly and sigmoid, in units of gamma x'z."),
    "class_weight": (
        'mapping, "balanced" or None, default None',
        """Multiplies C by class, {label: weight}; 1 for a label that it does not name. "balanced": by
        ``n / (n_classes * count)``, of the window as it is at any time.""",
    ),
    "fit_intercept": ("bool, default True", "Whether f has an intercept."),
    "cache_mb": ("float, default 512", "Memory that all kernel rows together may take, in MiB."),
    "scale": (
        '{"none", "standard", "minmax", "robust"}, default "none"',
        """What features go through first, fitted to the first data seen, and then kept, as ``feature_scale_``;
        ``rescale`` fits it to the window as it is.""",
    ),
    "columns": (
        'None, "auto" or list of mappings, default None',
        """Of a table: name, kind and encoding of each column, see ``livesvm.solvers.tables.columns``; "auto" finds
        them in the first rows. Then rows are a data frame, a list of mappings, or a mapping of columns.""",
    ),
    "components": (
        'int, "auto" or None, default None',
        """The model has the kernel of this rank that some more landmarks make of the whole one, see
        ``livesvm.solvers.kernels.nystroem``: for windows in which thousands of examples are on the margin. Landmarks
        are chosen from the first examples. ``left_out`` tells how far the two kernels differ. "auto", with
        ``C="auto"``: the whole kernel while few examples are on the margin, else 100, 300 or 600, by the errors of
        folds; see ``components_``.""",
    ),
    "support_": ("ndarray, shape (n_support,)", "Places in the window, oldest first, of examples with a coefficient."),
    "support_vectors_": ("ndarray or csr_array, shape (n_support, d)", "Their features, on the model's scale."),
    "dual_coef_": (
        "ndarray or csr_array, shape (1, n_support)",
        "Their signed coefficients beta; of several classes (n_classes - 1, n_support).",
    ),
    "intercept_": ("ndarray, shape (1,)", "b, in units of f; of several classes (n_pairs,)."),
    "keys_": ("list of str or int", "Keys of the window, oldest first."),
    "n_window_": ("int", "How many examples the window holds."),
}


def _entry(name: str, kind: str, meaning: str) -> str:
    return f"    {name} : {kind}\n        {meaning}\n"


def _written_out(doc: str | None, ignored: Iterable[str] = (), more: str = "") -> str:
    """Return a docstring with its shared entries written out, and with the ignored parameters and the reasons."""

    def said(line: re.Match[str]) -> str:
        return "".join(_entry(name, *SHARED[name]) for name in line[1].split(", ")).rstrip("\n")

    out = re.sub(r"^    ([a-zC_, 0-9]+) : as in ``IncrementalSVC``$", said, doc or "", flags=re.MULTILINE)
    entries = "".join(_entry(name, "Any", f"Taken and ignored: {IGNORED[name]}.") for name in ignored)
    mark = "\n    Attributes\n" if "\n    Attributes\n" in out else "\n    Examples\n"
    before, mark, after = out.partition(mark)
    return f"{before.rstrip()}\n{more}{entries}{mark}{after}"


_OF_REGRESSION = tuple(name for name in IGNORED if name != "random_state")


class _Classifier(ClassifierMixin):  # type: ignore[misc]
    """scikit-learn's parts of a classifier with any number of classes."""

    classes_: NDArray[Any]

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of rows with a correct prediction.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, d)
            Rows, as ``predict`` takes them.
        y : array_like, shape (m,)
            Their labels; of positive and unlabelled examples 1 for a positive, and 0 or -1 for a negative.
        sample_weight : array_like, shape (m,), or None, default None
            Weights of the rows; ones by default.

        Returns
        -------
        float
            Between 0 and 1.
        """
        return float(super().score(X, self._truth(y), sample_weight))

    def _truth(self, y: ArrayLike) -> Any:
        """Return labels (m,) in the form in which ``predict`` returns them."""
        return in_type_of(getattr(self, "classes_", np.empty(0)), y)


class IncrementalSVC(SelfTuning, _Classifier, _Estimator, DropIn, Probabilities, LiveSVC):  # type: ignore[misc]
    __doc__ = _written_out(LiveSVC.__doc__, IGNORED, PROBABILITY)

    keeps_record = True

    n_support_ = LiveSVC.n_support_

    @property
    def class_weight_(self) -> NDArray[np.float64]:
        """The factor of C for each class, (n_classes,)."""
        self._check_fitted()
        n = self.classes_.size
        targets = np.arange(n, dtype=np.float64) if n > 2 else np.array([-1.0, 1.0])[-n:]
        return self._class_weights(targets)

    def _iterations(self, events: int) -> Any:
        several = self._window.last_events if self._has_several() else (events,)
        return np.array([max(1, count) for count in several], np.int32)

    def _weights(self) -> Any:
        if not self._has_several():
            return super()._weights()
        window = self._window
        return -(window.beta @ window.kernel.centered(as_scipy(window.X)))


class IncrementalSVR(SelfTuning, RegressorMixin, _Estimator, DropIn, LiveSVR):  # type: ignore[misc]
    __doc__ = _written_out(LiveSVR.__doc__, _OF_REGRESSION)

    keeps_record = True


class _TwoClassEstimator(_Classifier, _Estimator):
    """Additions of scikit-learn to a classifier of positive and unlabelled examples."""

    def _truth(self, y: ArrayLike) -> Any:
        given = np.asarray(y)
        return np.where(given == -1, 0, given)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class IncrementalPUClassifier(SelfTuning, _TwoClassEstimator, LivePUClassifier):  # type: ignore[misc]
    __doc__ = _written_out(LivePUClassifier.__doc__)

    def _warn(self) -> None:
        warn_of(self.flagged_warnings)


class IncrementalOneClassSVM(OutlierMixin, _Estimator, DropIn, LiveOneClassSVM):  # type: ignore[misc]
    __doc__ = _written_out(LiveOneClassSVM.__doc__, _OF_REGRESSION)
