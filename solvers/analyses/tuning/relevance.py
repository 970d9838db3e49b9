"""Relevance of columns: the widths of a Gaussian kernel along a table's columns, found by maximizing the evidence.

The targets are modelled as values of a Gaussian process with noise. The evidence, which is the likelihood of the
targets given the widths, has a closed form, and so has its gradient [Rasmussen & Williams 2006, section 5.4, "automatic
relevance determination"]. L-BFGS finds the widths with the largest evidence. A log-normal prior keeps each width near
the mean width, so that a small window does not reduce the relevant columns to a few. The support vector problem of the
window is solved exactly with the widths that were found.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Floats, Ints

EXAMPLES = 500  #: of the window by which widths are found, spread over it; an evaluation takes their number cubed
SPREAD = 0.75  #: standard deviation of the logarithms of widths around their mean, of the prior
MOST_OUTPUTS = 10  #: classes that are looked at, the most frequent ones
NOISE = 0.3  #: from which the search sets out
_LIMIT = 8.0  #: logarithms of widths go so far from the start
_FAILED = 1e10  #: what stands for a likelihood of 0


class Evidence(NamedTuple):
    """The widths, signal and noise with the largest evidence."""

    widths: Floats  #: (p,) gamma of each column, in one over squared units of its features
    signal: float  #: variance of f, in units of the targets' variance
    noise: float  #: variance of what f leaves, in the same
    loss: float  #: minus the logarithm of the evidence and the prior


def spread_evenly(n: int, most: int = EXAMPLES) -> Ints:
    """Return the positions of at most ``most`` of ``n`` examples, evenly spaced and ascending."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def gaussian(Z: Floats) -> Floats:
    """Return the Gaussian kernel values (n, n) of features (n, d) for gamma 1, quickly, with some cancellation."""
    squares = np.einsum("ij,ij->i", Z, Z)
    K = Z @ Z.T
    K *= 2.0
    K -= squares[:, None]
    K -= squares[None]
    np.minimum(K, 0.0, out=K)
    return np.exp(K, out=K)


def outputs_of(y: Floats, *, classes: bool) -> Floats:
    """Return standardized targets (n, k) of the Gaussian process; with several classes an indicator of each class."""
    if not classes:
        t = y[:, None]
    else:
        values, counts = np.unique(y, return_counts=True)
        kept = values[np.argsort(-counts, kind="stable")[:MOST_OUTPUTS]] if values.size > 2 else values[1:]
        t = (y[:, None] == kept).astype(np.float64)
    t = t - t.mean(axis=0)
    return np.asarray(t / np.where((deviation := t.std(axis=0)) > 0, deviation, 1.0))


def evidence(
    X: Floats, places: Ints, t: Floats, *, iterations: int, start: Evidence | None = None, fixed: float | None = None
) -> Evidence:
    """Return the widths of the columns with the largest evidence, by L-BFGS.

    Parameters
    ----------
    X : (n, d) features
    places : (d,) the column that each is made of, from 0 without a gap; 0 for all: one width
    t : (n, k) targets, as ``outputs_of`` returns them
    start : where the search sets out; None: from one width for all
    fixed : a width that all have, so that noise and signal alone are sought
    """
    from scipy.optimize import minimize

    p = int(places.max()) + 1
    begin = math.log(fixed) if fixed is not None else math.log(0.5 / (X.shape[1] * max(float(X.var()), 1e-12)))
    first = np.concatenate([np.full(p, begin), [math.log(0.7), math.log(NOISE)]])
    if start is not None:
        first = np.log(np.concatenate([start.widths, [start.signal, start.noise]]))
    reach = _LIMIT if fixed is None else 0.0
    limits = [(begin - reach, begin + reach)] * p + [(-4.0, 4.0), (-7.0, 3.0)]
    found = minimize(
        _loss,
        first,
        args=(X, places, t),
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": iterations, "ftol": 1e-5},
    )
    widths, (signal, noise) = np.exp(found.x[:p]), np.exp(found.x[p:])
    return Evidence(widths, float(signal), float(noise), float(found.fun))


def _loss(theta: Floats, X: Floats, places: Ints, t: Floats) -> tuple[float, Floats]:
    """Return minus the logarithm of evidence times prior, and its gradient with respect to the logarithmic parameters.

    All matrices are symmetric, and only one triangle of each is computed: the upper triangle in Fortran order, which is
    the lower one in NumPy's row order.
    """
    from scipy.linalg import blas, lapack

    check()
    (n, k), p = t.shape, theta.size - 2
    g, signal, noise = np.exp(theta[:p])[places], math.exp(theta[p]), math.exp(theta[p + 1])
    K = gaussian(X * np.sqrt(g))
    K *= signal
    A = K.copy()
    A[np.diag_indices(n)] += noise
    R, failed = lapack.dpotrf(A.T, lower=0, overwrite_a=1)
    if failed:
        return _FAILED, np.zeros_like(theta)
    half_determinant = float(np.log(np.diagonal(R)).sum())
    a, _ = lapack.dpotrs(R, t, lower=0)
    loss = 0.5 * float(np.vdot(t, a)) + k * half_determinant
    inverse, _ = lapack.dpotri(R, lower=0, overwrite_c=1)
    of_A = blas.dsyrk(-0.5, a, beta=0.5 * k, c=inverse, lower=0, overwrite_c=1)  # the derivative by A
    of_noise = noise * float(np.trace(of_A))
    K *= of_A.T
    by_row = blas.dsymv(1.0, K.T, np.ones(n), lower=0)
    of_widths = -2.0 * g * (by_row @ X**2 - np.einsum("ij,ij->j", X, blas.dsymm(1.0, K.T, X, lower=0)))
    away = theta[:p] - theta[:p].mean()
    loss += 0.5 * float(away @ away) / SPREAD**2
    gradient = np.bincount(places, of_widths, p) + away / SPREAD**2
    return loss, np.concatenate([gradient, [float(by_row.sum()), of_noise]])
