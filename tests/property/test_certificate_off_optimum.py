"""The certificate away from any optimum: at coefficients, sums and decision values that are no solution.

At an optimum all terms of a gap are 0, and every wrong certificate looks right. Here each term is what the oracle makes
of losses and conjugates of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livesvm.solvers.certificate import Certificate, certify
from livesvm.solvers.problem import piecewise_linear
from tests import oracle
from tests.oracle import Vector, Wide

KINDS = ("hinge", "tube", "absolute", "pinball", "one class")


@dataclass(frozen=True)
class Point:
    """Losses, as the solver has them and as the oracle does, and a place anywhere."""

    ours: piecewise_linear.Losses
    theirs: oracle.Losses
    beta: Vector
    f: Vector
    b: float
    total: float
    intercept: bool

    def certificate(self, beta: Vector | None = None) -> Certificate:
        """Return what the solver says of the place, or of other coefficients with the same decision values."""
        coefficients = self.beta if beta is None else beta
        diagonal = np.ones(self.f.size)
        return certify(self.ours, coefficients, self.f, self.b, diagonal, total=self.total, intercept=self.intercept)

    @property
    def inside(self) -> Vector:
        """The coefficients nearest by in their boxes."""
        return np.clip(self.beta, self.theirs.lower, self.theirs.upper)


def losses_of(kind: str, y: Vector, C: float, weight: Vector) -> tuple[piecewise_linear.Losses, oracle.Losses]:
    """Return both tables of the losses of a kind, for labels or targets ``y``."""
    if kind == "hinge":
        labels = np.where(y > 0, 1.0, -1.0)
        return piecewise_linear.hinge(labels, C * weight), oracle.hinge(labels, C, weight)
    if kind == "tube":
        return piecewise_linear.epsilon_insensitive(y, 0.3, C * weight), oracle.epsilon_insensitive(y, C, 0.3, weight)
    if kind == "absolute":
        return piecewise_linear.epsilon_insensitive(y, 0.0, C * weight), oracle.absolute(y, C, weight)
    if kind == "pinball":
        return piecewise_linear.pinball(y, 0.2, C * weight), oracle.pinball(y, C, 0.2, weight)
    return piecewise_linear.one_class(weight), oracle.one_class(weight, 0.5)


@st.composite
def points(draw: st.DrawFn, *, feasible: bool = False) -> Point:
    """Return coefficients inside, at the ends of, and beyond their boxes; decision values on any side of the kinks."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(2, 12))
    C = draw(st.sampled_from([1e-3, 1.0, 50.0]))
    ours, theirs = losses_of(draw(st.sampled_from(KINDS)), random.normal(size=n), C, random.uniform(0.2, 2.0, n))
    width = theirs.upper - theirs.lower
    where = random.choice([0.0, 1.0, 0.5, 0.25] if feasible else [0.0, 1.0, 0.5, 0.25, -0.7, 1.8], n)
    intercept = draw(st.booleans())
    return Point(
        ours=ours,
        theirs=theirs,
        beta=theirs.lower + where * width,
        f=random.choice([0.1, 1.0, 10.0]) * random.normal(size=n),
        b=float(random.normal()),
        total=draw(st.sampled_from([0.0, 0.7])) if intercept else 0.0,
        intercept=intercept,
    )


def slack(point: Point) -> float:
    """Return what the oracle's losses and conjugates leave of Fenchel and Young's inequality, all examples together."""
    beta, f = point.inside.astype(Wide), point.f.astype(Wide)
    return float((point.theirs.values(f) + point.theirs.conjugates(beta) + beta * f).sum())


@given(points())
def test_every_term_of_the_gap_is_there(point: Point) -> None:
    beyond_boxes = float(np.abs((point.beta - point.inside) * point.f).sum())
    off_sum = abs(point.b * (point.beta.sum() - point.total)) if point.intercept else 0.0
    found = point.certificate()
    assert found.duality_gap == pytest.approx(slack(point) + beyond_boxes + off_sum, rel=1e-9, abs=1e-12)
    assert found.dual == pytest.approx(found.primal - found.duality_gap, rel=1e-12)
    assert found.relative_gap == pytest.approx(found.duality_gap / max(abs(found.primal), abs(found.dual)), rel=1e-9)
    assert found.n_examples == point.f.size


@given(points())
def test_the_primal_objective_is_that_of_the_oracle(point: Point) -> None:
    square = float(point.beta @ (point.f - point.b))
    losses = float(point.theirs.values(point.f.astype(Wide)).sum())
    assert point.certificate().primal == pytest.approx(
        0.5 * square + losses + point.total * point.b, rel=1e-9, abs=1e-12
    )


@given(points())
def test_every_violation_is_seen(point: Point) -> None:
    """Of kinks, boxes and the sum; what is beyond a box counts as at its end for the kinks."""
    kinks, levels = point.ours.kinks, np.abs(point.ours.levels).max()
    kink = float(np.abs(kinks[np.isfinite(kinks)]).max())
    off_kink = float(point.theirs.misplacement(point.inside.astype(Wide), point.f.astype(Wide)).max())
    off_box = float(np.abs(point.beta - point.inside).max()) / levels
    off_sum = abs(point.beta.sum() - point.total) / point.f.size / levels if point.intercept else 0.0
    found = point.certificate().max_violation
    assert found >= off_kink * (1 - 1e-9)
    assert found >= max(off_box, off_sum) * min(kink, 1.0) * (1 - 1e-9)
    assert found <= max(off_kink, max(off_box, off_sum) * max(kink, 1.0)) * (1 + 1e-9)


@given(points(feasible=True), st.integers(0, 2**32))
def test_at_feasible_coefficients_the_gap_is_that_of_the_oracle(point: Point, seed: int) -> None:
    """With decision values that belong to them, whatever the intercept."""
    n = point.f.size
    rows = np.random.default_rng(seed).normal(size=(n, 3))
    K = rows @ rows.T
    total = float(point.beta.sum())
    theirs = oracle.Losses(point.theirs.kinks, point.theirs.slopes, total if point.intercept else None)
    b = point.b if point.intercept else 0.0
    found = certify(
        point.ours, point.beta, K @ point.beta + b, b, K.diagonal(),
        total=total if point.intercept else 0.0, intercept=point.intercept,
    )  # fmt: skip
    judged = oracle.gap(K, theirs, point.beta, b)
    close = 1e-9 * max(abs(judged.primal), abs(judged.dual), 1e-6)
    assert found.primal == pytest.approx(judged.primal, abs=close)
    assert found.dual == pytest.approx(judged.dual, abs=close)
    assert found.duality_gap == pytest.approx(judged.gap, abs=close)
