"""Outlier paths of a live window: they find labels or targets that look wrong, and models that ignore these.

OP-theta reduces the weight of the examples beyond their cutoffs from 1 to 0. OP-s moves the cutoffs, beyond which
examples have no weight, towards the decision boundary [Suzumura et al., Algorithm 1]. A path starts at the convex model
and ends at the most robust one; every model on the path is a local optimum of the robust problem for its parameter
value, by the paper's Theorems 4 and 5. The live model is not changed: the path is followed on a copy.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from livesvm.solvers.analyses.outlier.result import OutlierPath
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.model_view import View, restored
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.snapshot import compact_copy
from livesvm.solvers.robust.partition import Partition
from livesvm.solvers.robust.path import stay, walk_s, walk_theta
from livesvm.solvers.robust.ramp_losses import CutoffRule, Parameter, true_sides
from livesvm.solvers.robust.settings import Robustness, checked, share
from livesvm.solvers.runtime.progress import Progress, steadily
from livesvm.solvers.runtime.types import Floats

PERMILLE = 1000  # progress is reported in these
NO_EXAMPLES = "no example is beyond the cutoffs: there are no outliers, and the path is a single model"


def outlier_path(
    model: LiveEstimator,
    parameter: Parameter = "theta",
    *,
    theta: float = 0.0,
    s: float | None = None,
    progress: Progress | None = None,
) -> OutlierPath:
    """Follow the outlier path of a model's window from its convex optimum.

    The parameters are those of the models' method ``outlier_path``; ``progress`` is called with the progress in
    thousandths.

    Raises
    ------
    InvalidInput : a parameter cannot be used, or the model has no robust losses
    Cancelled : ``progress`` said so
    NotOptimal : the path could not be followed
    """
    with steadily(progress, PERMILLE) as teller:

        def tell(done: float) -> None:
            teller(round(PERMILLE * done), PERMILLE)

        begun = begin(model, parameter, theta, s)
        path, walked = begun.path, begun.path.walked
        if not path.note and parameter == "theta":
            walked = walk_theta(begun.partition, path.end, tell)
        elif not path.note:
            walked = walk_s(begun.partition, begun.cutoff_rule, begun.y, path.start, path.end, tell)
        tell(1.0)
    return replace(path, walked=walked)


class Begun(NamedTuple):
    """A path before its first step: the convex model at the start, and the range of the parameter."""

    partition: Partition  #: of a private copy of the model
    cutoff_rule: CutoffRule
    y: Floats  #: (n,) targets
    path: OutlierPath  #: on which nothing happens yet


def begin(model: LiveEstimator, parameter: Parameter, theta: float, s: float | None) -> Begun:
    """Check the parameters of ``outlier_path``, and return the start of the path, at a copy's convex optimum."""
    if parameter not in ("theta", "s"):
        raise InvalidInput(f'must be "theta" or "s", not {parameter!r}', field="parameter")
    if share(theta) == 1.0:
        raise InvalidInput("with a theta of 1 nothing is robust: there is no path", field="theta")
    view = _convex(View(model))
    slots, arrays = view.window.slots, view.model.to_arrays()
    y, state, order = arrays["y"], compact_copy(view.state, slots), np.arange(slots.size)
    cutoff_rule = view.cutoff_rule()
    reach = cutoff_rule.reach(y, state.examples.f)
    robust = checked(Robustness(theta, cutoff_rule.default(parameter, reach, view.on_scale(y)) if s is None else s), ())
    view.cutoff_rule(robust.s)
    depth = cutoff_rule.inwards * reach
    has_outliers = bool((depth < cutoff_rule.inwards * robust.s).any())
    outermost = float(reach[np.argmin(depth)]) if has_outliers else robust.s
    start, end = (1.0, robust.theta) if parameter == "theta" else (outermost, robust.s)
    terms = view.terms(Robustness(1.0, robust.s) if parameter == "theta" else Robustness(robust.theta, outermost))
    partition = Partition(
        state,
        order,
        Losses(state.examples.kinks.copy(), state.examples.levels.copy(), state.examples.n_kinks.copy()),
        terms.cutoffs(y),
        terms.theta,
        np.zeros(slots.size, np.int8),
    )
    if parameter == "theta":
        partition.sides = true_sides(partition.cutoffs, partition.f)
    path = OutlierPath(
        parameter=parameter,
        fixed=robust.s if parameter == "theta" else robust.theta,
        start=start,
        end=end,
        keys=tuple(view.window.keys),
        note="" if has_outliers else NO_EXAMPLES,
        walked=stay(partition, start, end),
        depth=depth,
        grows=parameter == "s" and cutoff_rule.inwards > 0,
        restored=partial(restored, type(model), view.names, view.model.get_params(deep=False)),
        arrays=arrays,
    )
    return Begun(partition, cutoff_rule, y, path)


def _convex(view: View) -> View:
    """Return a view of the model with convex losses: ``view`` itself, or a view of a copy if its losses are robust."""
    if view.model.n_window_ == 0:
        raise InvalidInput("the window is empty", field="window")
    if view.robustness is None:
        return view
    copy = view.copy()
    copy.model.update(robust=replace(view.robustness, theta=1.0))
    return copy
