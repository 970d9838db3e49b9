"""The table of kernels by name: the base of a kernel's values, the function of that base, and the kernel's properties.

A new kernel needs a row in this table; ``CONTRIBUTING.md`` lists what else a new kernel needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.types import Numbers


class Base(IntEnum):
    """The number of two examples from which a kernel value is computed, such as their inner product."""

    PRODUCT = 0  #: x'z
    SQUARES = 1  #: |x - z|^2, the sum of squared differences
    DIFFERENCES = 2  #: the sum of absolute differences
    GIVEN = 3  #: the value itself


@dataclass(frozen=True)
class Form:
    """A row of the table: one kernel function."""

    base: Base
    #: turns values of the base into those of the kernel, in place, with coef0 and degree: products times gamma,
    #: distances times minus gamma
    finish: Callable[[Numbers, float, int], None]
    is_positive: Callable[[float], bool]  #: whether every kernel matrix is positive semi-definite, for a coef0
    has_gamma: bool = True  #: whether there is a gamma; without one products are taken as they are
    #: a faster ``finish`` with other rounding; None: there is none
    quick: Callable[[Numbers, float, int], None] | None = None

    @cached_property
    def is_of_distances(self) -> bool:
        """Whether the kernel is a function of gamma times a distance, so that k(x, x) is 1."""
        return self.base in (Base.SQUARES, Base.DIFFERENCES)

    def scaled_gamma(self, of_squares: float, n_features: int) -> float:
        """Return the gamma called "scale", given its value for squared distances, ``of_squares`` = 1 / (d variance).

        The sum of absolute differences is about d times the standard deviation, so for it gamma is 1 / (d standard
        deviation).
        """
        return (of_squares / n_features) ** 0.5 if self.base == Base.DIFFERENCES else of_squares


def _as_it_is(values: Numbers, coef0: float, degree: int) -> None:
    """Leave values as they are."""


def _exponential(values: Numbers, coef0: float, degree: int) -> None:
    np.exp(values, out=values)


def _power(values: Numbers, coef0: float, degree: int) -> None:
    values += coef0
    np.power(values, degree, out=values)


def _quick_power(values: Numbers, coef0: float, degree: int) -> None:
    values += coef0
    base = values.copy()
    for _ in range(degree - 1):
        values *= base


def _tanh(values: Numbers, coef0: float, degree: int) -> None:
    values += coef0
    np.tanh(values, out=values)


class _Table(dict[str, Form]):
    def __missing__(self, name: str) -> Form:
        raise InvalidInput(f"unknown kernel {name!r}; one of {', '.join(self)}", field="kernel")


TABLE = _Table(
    linear=Form(Base.PRODUCT, _as_it_is, lambda coef0: True, has_gamma=False),
    rbf=Form(Base.SQUARES, _exponential, lambda coef0: True),
    laplacian=Form(Base.DIFFERENCES, _exponential, lambda coef0: True),
    poly=Form(Base.PRODUCT, _power, lambda coef0: coef0 >= 0, quick=_quick_power),
    sigmoid=Form(Base.PRODUCT, _tanh, lambda coef0: False),
    precomputed=Form(Base.GIVEN, _as_it_is, lambda coef0: False, has_gamma=False),
)

ALSO = {"polynomial": "poly"}  #: other names


def form_of(name: Any) -> Form:
    """Return the entry of a kernel by any of its names.

    Raises
    ------
    InvalidInput : there is none
    """
    return TABLE[ALSO.get(name, name)] if isinstance(name, str) else TABLE.__missing__(name)


def has_gamma(name: Any) -> bool:
    """Say whether a kernel, which may be a function, has a gamma; raises InvalidInput for an unknown name."""
    return not callable(name) and form_of(name).has_gamma
