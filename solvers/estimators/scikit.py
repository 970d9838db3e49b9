"""The live estimators as scikit-learn's: its base class, mixins and tags, and its checks of feature names.

They are apart so that a process that only serves models need not import scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from livesvm.solvers.errors import InvalidInput, InvalidType
from livesvm.solvers.estimators.frank_wolfe import FrankWolfeClassifier
from livesvm.solvers.estimators.one_class import LiveOneClassSVM
from livesvm.solvers.estimators.positive_unlabelled import LivePUClassifier
from livesvm.solvers.estimators.regression import LiveSVR
from livesvm.solvers.estimators.several_classes import LiveMultiClassSVC


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What scikit-learn adds to every one of them; goes before the live estimator among the bases."""

    kernel: str
    n_features_in_: int

    def _check_features(self, X: ArrayLike, *, reset: bool) -> None:
        """Let scikit-learn note or compare the number and the names of the features.

        That takes longer than a small update, and need not be done for a plain array where no names are known.
        """
        nameless = type(X) is np.ndarray and not hasattr(self, "feature_names_in_")
        if nameless and not reset and X.shape[1:] == (self.n_features_in_,):  # type: ignore[union-attr]
            return
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except TypeError as error:
            raise InvalidType(str(error), field="X") from None
        except ValueError as error:
            raise InvalidInput(str(error), field="X") from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


class IncrementalSVC(ClassifierMixin, _Estimator, LiveMultiClassSVC):  # type: ignore[misc]
    __doc__ = LiveMultiClassSVC.__doc__


class IncrementalSVR(RegressorMixin, _Estimator, LiveSVR):  # type: ignore[misc]
    __doc__ = LiveSVR.__doc__


class IncrementalPUClassifier(ClassifierMixin, _Estimator, LivePUClassifier):  # type: ignore[misc]
    __doc__ = LivePUClassifier.__doc__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class IncrementalOneClassSVM(OutlierMixin, _Estimator, LiveOneClassSVM):  # type: ignore[misc]
    __doc__ = LiveOneClassSVM.__doc__


class FrankWolfeSVC(ClassifierMixin, _Estimator, FrankWolfeClassifier):  # type: ignore[misc]
    __doc__ = FrankWolfeClassifier.__doc__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
