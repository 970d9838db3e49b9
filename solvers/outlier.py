"""Outlier paths of a live window: which labels or targets look wrong, and models that do not follow them.

OP-theta cuts the weight of the examples beyond their walls down from 1 to 0; OP-s lets the walls, beyond which examples
have no weight, come in from far out [Suzumura et al., Algorithm 1]. A path starts from the convex model and ends at
the most robust one; every model on it is a local optimum of its own robust problem, by the paper's Theorems 4 and 5.
The live model is not touched: all of it happens on a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from solvers.assessment import Progress
from solvers.errors import Cancelled, InvalidInput
from solvers.live_estimator import LiveEstimator
from solvers.outlier_path import OutlierPath
from solvers.outlier_steps import stay, walk_s, walk_theta
from solvers.robust_losses import Parameter, true_sides
from solvers.robustness import Robustness, checked, share

PERMILLE = 1000  # progress is told in these
NOBODY = "nobody is beyond the walls: there is nothing to be robust against, and the path is a single model"


def outlier_path(
    model: LiveEstimator,
    parameter: Parameter = "theta",
    *,
    theta: float = 0.0,
    s: float | None = None,
    progress: Progress | None = None,
) -> OutlierPath:
    """Follow the outlier path of a model's window from its convex optimum.

    Parameters
    ----------
    parameter : "theta": theta falls from 1 to ``theta`` while the walls stand at ``s``; "s": the walls come in until
        ``s`` while beyond them a loss keeps the share ``theta`` of its slope
    theta : in [0, 1)
    s : classification: a margin, <= 0, by default 0; regression: the size of a residual, > 0, in units of y, by default
        with "theta" 3.7 times their median, 2.5 standard deviations of normal ones, with "s" a fifth of the largest
    progress : called with how many thousandths are done, and 1000; returning False cancels

    Raises
    ------
    InvalidInput : a parameter cannot be used, or the model has no robust losses
    Cancelled : ``progress`` said so
    NotOptimal : the path could not be followed
    """
    if parameter not in ("theta", "s"):
        raise InvalidInput(f'must be "theta" or "s", not {parameter!r}', field="parameter")
    if share(theta) == 1.0:
        raise InvalidInput("with a theta of 1 nothing is robust: there is no path", field="theta")
    copy = _convex_copy(model)
    window = copy._window
    y = window.y
    walling = copy._walling()
    reach = walling.reach(y, window.state.examples.f[window.slots])
    robust = checked(Robustness(theta, walling.default(parameter, reach) if s is None else s), ())
    copy._walling(robust.s)
    outermost = float(reach[np.argmin(walling.inwards * reach)])
    beyond = walling.inwards * reach < walling.inwards * robust.s
    start, end = (1.0, robust.theta) if parameter == "theta" else (outermost if beyond.any() else robust.s, robust.s)
    first = Robustness(start, robust.s) if parameter == "theta" else Robustness(robust.theta, start)
    partition = window.partition(copy._terms(first))
    partition.sides = true_sides(partition.walls, partition.f)
    arrays = copy.to_arrays()
    if not beyond.any():
        walked = stay(partition, start, end)
    elif parameter == "theta":
        walked = walk_theta(partition, end, _teller(progress))
    else:
        walked = walk_s(partition, walling, y, start, end, _teller(progress))
    _teller(progress)(1.0)
    worst = np.argsort(walling.inwards * reach, kind="stable")
    return OutlierPath(
        parameter=parameter,
        fixed=robust.s if parameter == "theta" else robust.theta,
        start=start,
        end=end,
        keys=tuple(copy.keys_),
        note="" if beyond.any() else NOBODY,
        walked=walked,
        worst=tuple(j for j in worst.tolist() if walked.legs[0].sides[j]),
        grows=parameter == "s" and walling.inwards > 0,
        restored=partial(type(model).from_arrays, model.get_params(deep=False)),
        arrays=arrays,
    )


def _convex_copy(model: LiveEstimator) -> LiveEstimator:
    """Return a private copy of a model, with convex losses."""
    copy = type(model).from_arrays(model.get_params(deep=False), model.to_arrays())
    if copy.n_window_ == 0:
        raise InvalidInput("the window is empty", field="window")
    if copy._robust is not None:
        copy.update(robust=replace(copy._robust, theta=1.0))
    return copy


def _teller(progress: Progress | None) -> Callable[[float], None]:
    """Return what passes on how much of a path is done."""

    def tell(done: float) -> None:
        if progress is not None and not progress(round(PERMILLE * done), PERMILLE):
            raise Cancelled("cancelled on an outlier path")

    return tell


class OutlierPaths:
    """What estimators with robust losses can do besides."""

    def outlier_path(
        self,
        parameter: Parameter = "theta",
        *,
        theta: float = 0.0,
        s: float | None = None,
        progress: Progress | None = None,
    ) -> OutlierPath:
        """Return the path of robust models of the window, see ``solvers.outlier.outlier_path``; this one stays."""
        return outlier_path(self, parameter, theta=theta, s=s, progress=progress)  # type: ignore[arg-type]
