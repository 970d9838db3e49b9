"""Kernels that need not be positive semi-definite are refused where they are not, within the memory there is."""

from __future__ import annotations

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.errors import MemoryLimit, NotPositiveSemidefinite
from livesvm.solvers.kernels.definiteness import check_positive
from livesvm.solvers.kernels.gram import Gram
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.linalg.cholesky import PANEL
from tests.interrupts import Looks, Stop
from tests.support.interrupts import looked_at

ROOM = 1 << 30


def gram(values: np.ndarray) -> tuple[Kernel, np.ndarray]:
    """Return a precomputed kernel, and its examples by number."""
    given = Gram()
    numbers = given.admit(values, np.empty(0, np.int64))
    return Kernel("precomputed", gram=given), numbers[:, None].astype(np.float64)


def with_eigenvalue(least: float, n: int) -> np.ndarray:
    """Return a symmetric matrix whose smallest eigenvalue is given; the others lie between 1 and 2."""
    rng = np.random.default_rng(n)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = rng.uniform(1.0, 2.0, n)
    values[0] = least
    K = (Q * values) @ Q.T
    symmetric: np.ndarray = 0.5 * (K + K.T)
    return symmetric


@pytest.mark.parametrize("n", [3, PANEL + 1, 2 * PANEL + 30])
@pytest.mark.parametrize(("least", "is_refused"), [(0.0, False), (-1e-13, False), (-1e-6, True), (-1.0, True)])
def test_the_smallest_eigenvalue_decides(n: int, least: float, is_refused: bool) -> None:
    kernel, X = gram(with_eigenvalue(least, n))
    if not is_refused:
        check_positive(kernel, X, ROOM)
        return
    with pytest.raises(NotPositiveSemidefinite, match=r"the eigenvalue -.* below -"):
        check_positive(kernel, X, ROOM)


def test_it_takes_no_more_memory_than_the_cache_may() -> None:
    kernel, X = gram(np.eye(100))
    check_positive(kernel, X, 8 * 100 * 100)
    with pytest.raises(MemoryLimit, match="cache_mb"):
        check_positive(kernel, X, 8 * 100 * 100 - 1)
    rng = np.random.default_rng(0)
    model = IncrementalSVC(kernel="sigmoid", gamma=1e-7, cache_mb=0.05, classes=(-1, 1))
    with pytest.raises(MemoryLimit):
        model.update(add=(rng.normal(size=(100, 2)), rng.choice([-1, 1], 100)))
    assert not hasattr(model, "_window")


def test_it_can_be_interrupted() -> None:
    kernel, X = gram(np.eye(3 * PANEL))
    with looked_at(Looks()) as looks:
        check_positive(kernel, X, ROOM)
    assert looks.count > 3
    with looked_at(Looks(end_at=3)), pytest.raises(Stop):
        check_positive(kernel, X, ROOM)
