"""Live support vector machines as river's online models; needs the extra ``livesvm[river]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from livesvm.solvers import IncrementalSVC, IncrementalSVR
from livesvm.solvers.errors import InvalidInput, UnknownKey
from livesvm.solvers.runtime.types import Floats
from livesvm.solvers.validation import matrix

try:
    from river import base
except ImportError as error:
    raise ImportError("livesvm.river needs river: pip install 'livesvm[river]'") from error

__all__ = ["SVC", "SVR"]

Features = Mapping[Any, float]


class _Stream:
    """A window of examples of named features, and the live model of it.

    A feature that an example does not have is 0. The columns of features to come are zeros, which change no kernel
    value, so that a new feature costs a new solve of the window only when there is no such column left.
    """

    window: int | None
    _model: Any
    _columns: dict[Any, int]
    _width: int

    def _begin(self) -> None:
        self._model, self._columns, self._width = None, {}, 0

    @property
    def _keys(self) -> Any:
        """Keys of the window, oldest first."""
        return [] if self._model is None else self._model.keys_

    def _made(self) -> Any:
        """Return an untrained model with these parameters."""
        raise NotImplementedError

    def _learn(self, names: list[Any], values: Floats, y: Any) -> None:
        """Take in rows (m, k) of these features with their targets (m,), in one update."""
        if self.window is not None and self.window < 1:
            raise InvalidInput("must be at least 1, or None", field="window")
        if not len(values) and not len(y):
            return
        new = dict.fromkeys(name for name in names if name not in self._columns)
        columns = self._columns | {name: len(self._columns) + at for at, name in enumerate(new)}
        width = self._width
        if len(columns) > width:
            width = max(len(columns), 2 * width)
        model = self._made() if self._model is None else self._model if width == self._width else self._widened(width)
        start = 0 if self.window is None else max(0, len(values) - self.window)
        values, y = values[start:], y[start:]
        keys = self._keys
        leaving = 0 if self.window is None else max(0, len(keys) + len(values) - self.window)
        model.update((_placed(columns, width, names, values), y), keys[:leaving])
        self._model, self._columns, self._width = model, columns, width

    def _widened(self, width: int) -> Any:
        """Return a model of the same window with more columns."""
        model, X = self._made(), self._model.window_X
        if keys := self._keys:
            X = np.pad(np.asarray(X), ((0, 0), (0, width - self._width)))
            model.update((X, self._model.window_y), keys=keys)
        return model

    def _rows(self, names: list[Any], values: Floats) -> Floats:
        """Return rows (m, k) of these features as the model has them; features that it does not know are left out."""
        known = [at for at, name in enumerate(names) if name in self._columns]
        return _placed(self._columns, self._width, [names[at] for at in known], values[:, known])

    def forget_one(self, x: Features, y: Any) -> None:
        """Forget the oldest example of the window that is the same; the model is as if it had never learnt it.

        Parameters
        ----------
        x : mapping
            Its features.
        y : label or float
            Its target.

        Raises
        ------
        UnknownKey
            There is none.
        """
        if keys := self._keys:
            row = self._rows(*_of_one(x))[0]
            same = (np.asarray(self._model.window_X) == row).all(axis=1)
            same &= [target == y for target in self._model.window_y.tolist()]
            if same.any() and all(name in self._columns or not value for name, value in x.items()):
                self._model.update(remove=[keys[int(np.argmax(same))]])
                return
        raise UnknownKey("no example of the window has these features and this target", field="x")


class SVC(_Stream, base.MiniBatchClassifier):
    """A support vector classifier that is exactly optimal for the newest examples, after each of them.

    Parameters
    ----------
    C : float, default 1
        Weight of the losses.
    kernel : str, default "rbf"
        "linear", "rbf", "poly", "sigmoid" or "laplacian".
    gamma : float, default 0.1
        Of the kernel, as scikit-learn has it. Put a ``StandardScaler`` before the model.
    degree : int, default 3
        Of the kernel "poly".
    coef0 : float, default 0
        Of the kernels "poly" and "sigmoid".
    window : int or None, default 1000
        How many of the newest examples it knows; None: all.
    probability : bool, default False
        Whether there is ``predict_proba_one``, by exact leave-one-out decisions, each time again after an update.
    """

    def __init__(
        self,
        C: float = 1.0,
        kernel: str = "rbf",
        gamma: float = 0.1,
        degree: int = 3,
        coef0: float = 0.0,
        window: int | None = 1000,
        probability: bool = False,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.window = window
        self.probability = probability
        self._begin()

    @property
    def _multiclass(self) -> bool:
        return True

    def _made(self) -> IncrementalSVC:
        return IncrementalSVC(
            self.C,
            self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            probability=self.probability,
        )

    def learn_one(self, x: Features, y: Any) -> None:
        """Learn one example; the oldest leaves a full window."""
        self._learn(*_of_one(x), np.array([y]))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a data frame ``X``, with labels ``y``, in one update; of none nothing."""
        self._learn(*_of_frame(X), np.asarray(y))

    def predict_one(self, x: Features, **kwargs: Any) -> Any:
        """Return the label of one row; None before there is an example."""
        return self._model.predict(self._rows(*_of_one(x))).tolist()[0] if self._keys else None

    def predict_many(self, X: Any) -> Any:
        """Return the labels of the rows of a data frame, as a series."""
        import pandas as pd

        found = self._model.predict(self._rows(*_of_frame(X))) if self._keys else [None] * len(X)
        return pd.Series(found, index=X.index)

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each label.

        While one of them has fewer than two examples in the window, these are the shares of the labels there.

        Raises
        ------
        NotImplementedError
            The model was made without ``probability``.
        """
        found = self._probabilities(*_of_one(x))
        return {} if found is None else dict(zip(self._model.classes_.tolist(), found[0].tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Return the probability of each label for the rows of a data frame, as another one."""
        import pandas as pd

        found = self._probabilities(*_of_frame(X))
        if found is None:
            return pd.DataFrame(index=X.index)
        return pd.DataFrame(found, columns=self._model.classes_.tolist(), index=X.index)

    def _probabilities(self, names: list[Any], values: Floats) -> Floats | None:
        if not self.probability:
            raise NotImplementedError("the model was made without probability=True")
        if not self._keys:
            return None
        labels, classes = self._model.window_y, self._model.classes_
        shares = np.array([np.mean(labels == one) for one in classes])
        if classes.size < 2 or (shares * len(labels) < 1.5).any():
            return np.tile(shares, (len(values), 1))
        found: Floats = self._model.predict_proba(self._rows(names, values))
        return found


class SVR(_Stream, base.MiniBatchRegressor):
    """A support vector regression that is exactly optimal for the newest examples, after each of them.

    Parameters
    ----------
    C : float, default 1
        Weight of the losses.
    epsilon : float, default 0.1
        Errors up to this cost nothing.
    kernel : str, default "rbf"
        "linear", "rbf", "poly", "sigmoid" or "laplacian".
    gamma : float, default 0.1
        Of the kernel, as scikit-learn has it. Put a ``StandardScaler`` before the model.
    degree : int, default 3
        Of the kernel "poly".
    coef0 : float, default 0
        Of the kernels "poly" and "sigmoid".
    window : int or None, default 1000
        How many of the newest examples it knows; None: all.
    """

    def __init__(
        self,
        C: float = 1.0,
        epsilon: float = 0.1,
        kernel: str = "rbf",
        gamma: float = 0.1,
        degree: int = 3,
        coef0: float = 0.0,
        window: int | None = 1000,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.window = window
        self._begin()

    def _made(self) -> IncrementalSVR:
        return IncrementalSVR(self.C, self.epsilon, self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    def learn_one(self, x: Features, y: float) -> None:
        """Learn one example; the oldest leaves a full window."""
        self._learn(*_of_one(x), np.array([y], float))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a data frame ``X``, with targets ``y``, in one update; of none nothing."""
        self._learn(*_of_frame(X), np.asarray(y, float))

    def predict_one(self, x: Features) -> float:
        """Return the value of one row; 0 before there is an example."""
        return float(self._model.predict(self._rows(*_of_one(x)))[0]) if self._keys else 0.0

    def predict_many(self, X: Any) -> Any:
        """Return the values of the rows of a data frame, as a series."""
        import pandas as pd

        found = self._model.predict(self._rows(*_of_frame(X))) if self._keys else np.zeros(len(X))
        return pd.Series(found, index=X.index)


def _of_one(x: Features) -> tuple[list[Any], Floats]:
    """Return the names and the values, (1, k), of the features of one row."""
    names = list(x)
    return names, _numbers(names, [list(x.values())]).reshape(1, len(x))


def _of_frame(X: Any) -> tuple[list[Any], Floats]:
    """Return the names and the values, (m, k), of the features of a data frame."""
    names = list(X.columns)
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise InvalidInput(f"has two columns {twice!r}; give each a name of its own", field="X")
    return names, _numbers(names, X)


def _numbers(names: list[Any], rows: Any) -> Floats:
    """Return rows (m, k) as finite numbers; raises InvalidInput, which names the row and the feature."""
    try:
        return matrix(rows)
    except InvalidInput as error:
        name = None if error.column is None else names[error.column]
        raise type(error)(error.reason, field="x", row=error.row, column=error.column, name=name) from None


def _placed(columns: Mapping[Any, int], width: int, names: list[Any], values: Floats) -> Floats:
    """Return values (m, k) in their columns, (m, width)."""
    out = np.zeros((len(values), width))
    out[:, [columns[name] for name in names]] = values
    return out
