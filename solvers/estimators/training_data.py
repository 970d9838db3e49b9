"""Checks and conversions of the training data of large-scale estimators: dense or sparse features, and any labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput, MemoryLimit, NotPositiveSemidefinite
from livesvm.solvers.frank_wolfe import one_versus_one
from livesvm.solvers.frank_wolfe.one_versus_one import PairProblem, Training
from livesvm.solvers.frank_wolfe.problem import Known, Problem, check_finite
from livesvm.solvers.frank_wolfe.solution import PER_MILLE, Look, Options
from livesvm.solvers.kernels.definiteness import ROUNDING, indefinite, most_rounding
from livesvm.solvers.kernels.function import FunctionKernel, objects_for, objects_in
from livesvm.solvers.kernels.gram import Gram, precision_of
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.matrix_products import PreparedRows, product
from livesvm.solvers.models import scaling
from livesvm.solvers.models.class_labels import column_of, labels_with
from livesvm.solvers.runtime.progress import Progress, steadily
from livesvm.solvers.runtime.threads import one_blas_thread
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows, checked, columns_of, like

FARTHEST = 1e12
"""Largest gamma |x|^2 at which kernel values by products of features have the digits that distances need."""
LOOKED_AT = 256
"""Examples on which a kernel is tested for being positive semi-definite."""


def matrix_of(X: Any) -> Any:
    """Return ``X`` as finite float64 numbers, (m, d), dense or CSR; raise InvalidInput if this is not possible."""
    if not hasattr(X, "tocsr"):
        return validation.matrix(X)
    if X.ndim != 2:
        raise InvalidInput(f"must have two dimensions, not {X.ndim}", field="X")
    if X.dtype.kind not in "biuf":
        raise InvalidInput(f"must be real numbers, not {X.dtype}; Complex data not supported", field="X")
    rows = sparse.csr_array(X, dtype=np.float64)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    if not np.isfinite(rows.data).all():
        checked(rows.indptr, rows.indices, rows.data, rows.shape[1])  # the error names the first unsuitable one
    return rows


def examples_of(X: Any) -> Any:
    """Return training examples as a matrix (n, d); raise InvalidInput if there is no row or no feature."""
    rows = matrix_of(X)
    validation.check_some(rows.shape)
    return rows


def check_costs(costs: Floats) -> None:
    """Raise InvalidInput if a cost, which is C times a weight, is too small or too large."""
    small = (costs > 0) & (costs < 1e-100)
    if small.any() or costs.max() > validation.LARGEST:
        row = int(np.argmax(small)) if small.any() else int(costs.argmax())
        raise InvalidInput(f"times C is {costs[row]:g}, which is too small or large", field="sample_weight", row=row)


def labels_of(y: ArrayLike | None, n: int) -> NDArray[Any]:
    """Return ``y`` as class labels (n,); raise InvalidInput for anything else, such as targets of a regression."""
    labels = column_of(y, n, "y")
    labels_with(labels[:0], labels, "y")
    return labels


def scale_of(X: Any, weights: Floats) -> float:
    """Return the value that a gamma of "scale" stands for, for weighted rows."""
    return scaling.gamma(validation.features(X) if sparse.issparse(X) else X, weights)


def seed_of(random_state: Any) -> int:
    """Return a seed for a ``random_state`` as in scikit-learn; raise InvalidInput if it is not valid."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    from sklearn.utils import check_random_state

    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31))
    except ValueError as error:
        raise InvalidInput(str(error), field="random_state") from None


def check_kernel(examples: PreparedRows) -> None:
    """Raise InvalidInput, with the row, if kernel values are not finite, or have no accurate digits."""
    check_finite(examples.diagonal())
    if examples.largest_norm > FARTHEST:
        reason = f"gamma |x|^2 is above {FARTHEST:g}, where distances have no digits left; scale the features"
        norms = examples.values[:, [examples.values.shape[1] - 2]]
        raise InvalidInput(reason, field="X", row=int(norms.argmax()))


def check_convex(problem: Problem) -> None:
    """Raise NotPositiveSemidefinite if the kernel matrix of a sample shows that the problem is not convex."""
    kernel = problem.examples.kernel
    if kernel.always_positive:
        return
    chosen = np.arange(0, problem.n, max(1, -(-problem.n // LOOKED_AT)))
    examples = problem.examples.take(chosen)
    matrix = product(examples, examples, np.eye(chosen.size), problem.threads) + 1.0
    matrix[np.diag_indices_from(matrix)] += problem.ridge[chosen]
    tolerance = ROUNDING * float(np.abs(matrix.diagonal()).sum())
    if np.linalg.eigvalsh(matrix)[0] < -tolerance:
        raise indefinite(kernel, matrix, tolerance)


def convex_costs(kernel: Kernel, X: Any, costs: Floats) -> Floats:
    """Reduce costs so that a problem stays convex although its kernel values ``X`` (n, n) were rounded.

    The ridge 1 / C of each example is then at least as large as the error of an eigenvalue due to rounding.
    """
    if kernel.name != "precomputed":
        return costs
    values = X.data if sparse.issparse(X) else X
    precision = precision_of(values) if values.size else 0.0
    if not precision:
        return costs
    least = np.sqrt(X.shape[0]) * 2.0 * precision * float(np.abs(X.diagonal()).max())
    least = min(least, most_rounding(precision, np.abs(X.diagonal())))
    return np.minimum(costs, 1.0 / least) if least else costs


def read_by_function(function: Any, X: Any) -> tuple[FunctionKernel, Features]:
    """Return the function kernel for training examples ``X``, and the examples in the form that the kernel takes."""
    given = objects_in(X)
    if given is None:
        return FunctionKernel(function=function), validation.any_examples(X)
    return FunctionKernel(function=function).only(np.empty((0, 1)), given)


def values_by_function(kernel: FunctionKernel, rows: Features, limit: int) -> Floats:
    """Compute the kernel matrix (n, n) of training examples by a function kernel.

    Raises
    ------
    InvalidInput : it is not symmetric, or not of finite numbers
    MemoryLimit : it takes more than ``limit`` bytes
    """
    n = len(rows)
    if 8 * n * n > limit:
        raise MemoryLimit(8 * n * n, limit)
    gram = Gram()
    numbers = gram.admit(kernel.matrix(rows, columns_of(rows)), np.empty(0, np.int64))
    return gram.values[np.ix_(numbers, numbers)]


def values_with(kernel: FunctionKernel, support: Features, X: Any) -> Floats:
    """Return the kernel values of ``X``, rows or objects, with the support vectors, (m, n_support)."""
    given = objects_for(X, kernel.objects)
    if given is None:
        rows = like(validation.features(X, width=support.shape[1]), isinstance(support, SparseRows))
        return kernel.matrix(rows, columns_of(support))
    of_both, numbers = kernel.only(support, given)
    return of_both.matrix(numbers, columns_of(support))


def solved(
    own: Sequence[PairProblem],
    options: Options,
    starts: Sequence[Known | None],
    threads: int,
    progress: Progress | None,
    look: Look | None = None,
) -> Training:
    """Solve the problems of all pairs, and return their solutions (see ``one_versus_one.train``).

    Raises NotPositiveSemidefinite if a'K~a of a solution is not positive, which no convex problem allows.
    """
    with steadily(progress, PER_MILLE if len(own) == 1 else len(own)) as tell, one_blas_thread():
        found = one_versus_one.train(own, options, starts, threads, tell, look)
    for pair, solution in zip(own, found.solutions, strict=True):
        if not solution.R > 0.0:
            name = pair.problem.examples.kernel.name
            reason = f"the {name} kernel has a negative eigenvalue on these examples; it must be positive semi-definite"
            raise NotPositiveSemidefinite(reason, field="kernel")
    return found


def problems_of(
    kernel: Kernel, X: Any, codes: Ints, costs: Floats, classes: NDArray[Any], threads: int
) -> tuple[PreparedRows, list[PairProblem]]:
    """Return the examples ``X`` (n, d), prepared for products, and the problem of each pair; raises InvalidInput.

    Parameters
    ----------
    codes : (n,) numbers of classes; -1: an example that does not count
    costs : (n,) positive where it does
    """
    if codes.size == 0:
        raise InvalidInput("there is no example with a weight", field="sample_weight")
    if classes.size < 2:
        reason = f"all examples with weight are of one class, {classes[0]}; two classes are needed"
        raise InvalidInput(reason, field="y")
    check_costs(costs)
    costs = convex_costs(kernel, X, costs)
    examples = PreparedRows.of(kernel, X)
    check_kernel(examples)
    found = one_versus_one.problems(examples, codes, costs, classes.size, threads)
    for pair in found:
        check_convex(pair.problem)
    return examples, found
