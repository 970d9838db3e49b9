"""What feeds are compared with: learners on a feed's features, and the statistical methods of one series.

A learner is shown one example at a time, and forecasts one at a time. The statistical methods are those of
statsforecast; each is fitted to the newest window now and then, and otherwise goes on with its parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.svm import SVC, SVR

Floats = NDArray[np.float64]

AGAIN = 48  #: readings after which a learner or a method is fitted again
ARIMA_AGAIN = 1000  #: the same of AutoARIMA, whose fit takes up to a minute
WINDOW = 1000
COMPONENTS = 300  #: of RBFSampler
LONGEST_SEASON = 24  #: of the statistical methods, in readings


class Again:
    """A learner of scikit-learn's kind, trained again now and then on the newest window."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.X: list[Floats] = []
        self.y: list[float] = []
        self.since, self.trained = 0, False

    def predict_one(self, x: Floats) -> float:
        """Return the forecast of features (d,)."""
        return float(self.model.predict(x[None])[0]) if self.trained else 0.0

    def learn_one(self, x: Floats, y: float) -> None:
        """Take an example; train when it is time."""
        self.X, self.y = [*self.X[-WINDOW:], x], [*self.y[-WINDOW:], y]
        self.since += 1

    def train_if_due(self) -> None:
        """Train on the window if so many examples have come."""
        if (self.since >= AGAIN or not self.trained) and len(set(self.y)) > 1:
            self.model.fit(np.array(self.X), np.array(self.y))
            self.since, self.trained = 0, True


class RandomFeatures:
    """A linear model on RBFSampler, which takes one step of gradient descent for each example."""

    def __init__(self, gamma: float, task: str) -> None:
        self.map = RBFSampler(gamma=gamma, n_components=COMPONENTS, random_state=0)
        self.classes = (False, True) if task == "direction" else None
        common = {"learning_rate": "constant", "eta0": 0.1, "random_state": 0}
        self.model: Any = (
            SGDClassifier(**common)
            if self.classes
            else SGDRegressor(loss="epsilon_insensitive", epsilon=0.05, **common)
        )
        self.trained = False

    def predict_one(self, x: Floats) -> float:
        """Return the forecast of features (d,)."""
        return float(self.model.predict(self.map.transform(x[None]))[0]) if self.trained else 0.0

    def learn_one(self, x: Floats, y: float) -> None:
        """Take an example."""
        if not self.trained:
            self.map.fit(x[None])
        known = {"classes": self.classes} if self.classes else {}
        self.model.partial_fit(self.map.transform(x[None]), [y], **known)
        self.trained = True

    def train_if_due(self) -> None:
        """Do nothing: each example is learnt as it comes."""


class River:
    """One of river's learners."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict_one(self, x: Floats) -> float:
        """Return the forecast of features (d,)."""
        return float(self.model.predict_one(dict(enumerate(x.tolist()))) or 0.0)

    def learn_one(self, x: Floats, y: float) -> None:
        """Take an example."""
        self.model.learn_one(dict(enumerate(x.tolist())), y)

    def train_if_due(self) -> None:
        """Do nothing: each example is learnt as it comes."""


def learners(C: float, gamma: float, task: str, quick: bool) -> dict[str, Any]:
    """Return the learners by name; those with a kernel have the feed's parameters."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from river import forest, linear_model, optim, tree

    forest_of: Any
    svm, boosted = {"C": C, "gamma": gamma, "cache_size": 200}, {"n_jobs": 1, "verbose": -1}
    if task == "direction":
        out: dict[str, Any] = {
            "river linear": River(linear_model.LogisticRegression(optimizer=optim.SGD(0.01))),
            "river tree": River(tree.HoeffdingTreeClassifier()),
        }
        forest_of, again = forest.ARFClassifier, [SVC(**svm), LGBMClassifier(**boosted)]
    else:
        out = {
            "river linear": River(linear_model.LinearRegression(optimizer=optim.SGD(0.001), intercept_lr=0.001)),
            "river tree": River(tree.HoeffdingAdaptiveTreeRegressor(seed=0)),
        }
        forest_of, again = forest.ARFRegressor, [SVR(epsilon=0.05, **svm), LGBMRegressor(**boosted)]
    if not quick:
        out["river forest"] = River(forest_of(n_models=5, seed=0))
    out["RBFSampler, SGD"] = RandomFeatures(gamma, task)
    return out | dict(zip(("SVR again", "LightGBM again"), map(Again, again), strict=True))


def statistical(
    values: Floats, origins: range, steps: Sequence[int], period: int
) -> dict[str, tuple[NDArray[np.float64], float]]:
    """Return the forecasts of AutoTheta, AutoETS and AutoARIMA, and their processor time.

    Parameters
    ----------
    values : (n,) all readings; a method sees those up to an origin, and not more than the newest window
    origins : the slots of the readings after which forecasts are made
    steps : how many readings ahead
    period : readings of a season; longer than 24 is not modelled, but for the day of a week of hours

    Returns
    -------
    By name, forecasts (origins, steps) and the seconds an origin and step.
    """
    from statsforecast.models import AutoARIMA, AutoETS, AutoTheta

    season = 24 if period == 168 else period if period <= LONGEST_SEASON else 1
    methods: dict[str, tuple[Callable[..., Any], int]] = {
        "Theta": (AutoTheta, AGAIN),
        "ETS": (AutoETS, AGAIN),
        "ARIMA": (AutoARIMA, ARIMA_AGAIN),
    }
    out = {}
    for name, (make, again) in methods.items():
        began, made, model = process_time(), [], None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for count, origin in enumerate(origins):
                history = values[max(0, origin + 1 - WINDOW) : origin + 1]
                if model is None or count % again == 0:
                    model = make(season_length=season).fit(history)
                made.append(model.forward(history, max(steps))["mean"][[step - 1 for step in steps]])
        out[name] = np.array(made), (process_time() - began) / (len(origins) * len(steps))
    return out
