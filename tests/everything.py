"""Every public call with arrays of every kind, after ``warm_up``, which leaves nothing to compile for them.

Arrays come read-only, not aligned, with gaps, backwards, by columns, of single precision, of the other byte order, and
as whole numbers, as files, memory maps, data frames and clients give them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray
from scipy import sparse

from livesvm import solvers
from livesvm.solvers.robust.ramp_losses import Parameter

Array = NDArray[Any]
Kind = Callable[[Array], Array]

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(80, 3)), 1)
Y = np.where(X[:, 0] + RNG.normal(size=80) > 0, 1.0, -1.0)
TARGETS = X[:, 0] + 0.3 * Y
K = np.rint(2 * X) @ np.rint(2 * X).T  # whole numbers, which are the same in single precision


def compiled() -> set[str]:
    """Return every compiled function, by whether it is one that Python calls, name and types."""
    found: list[Any] = [d for d in gc.get_objects() if isinstance(d, Dispatcher)]
    return {f"{type(d).__name__} {d.__name__}{s}" for d in found for s in d.overloads}


def read_only(a: Array) -> Array:
    a = a.copy()
    a.flags.writeable = False
    return a


def unaligned(a: Array) -> Array:
    return np.frombuffer(b"_" + a.tobytes(), a.dtype, offset=1).reshape(a.shape)


def with_gaps(a: Array) -> Array:
    gaps: Array = np.repeat(np.repeat(a, 2, axis=0), 2, axis=-1)[::2, ::2] if a.ndim > 1 else np.repeat(a, 2)[::2]
    return gaps


def backwards(a: Array) -> Array:
    return a[::-1].copy()[::-1]


def other_bytes(a: Array) -> Array:
    swapped: Array = a.astype(a.dtype.newbyteorder(">"))
    return swapped


def single(a: Array) -> Array:
    return a.astype(np.float32)


def all_at_once(a: Array) -> Array:
    """Single precision of the other byte order, read-only and with gaps."""
    return with_gaps(read_only(a.astype(">f4")))


def whole(a: Array) -> Array:
    numbers: Array = np.rint(8 * a).astype(np.int16)
    return numbers


KINDS: tuple[Kind, ...] = (
    np.asarray,
    np.asfortranarray,
    read_only,
    unaligned,
    with_gaps,
    backwards,
    other_bytes,
    single,
    all_at_once,
    whole,
)


def again(model: Any, kind: Kind) -> None:
    """Bring a model back from arrays of a kind."""
    arrays = model.to_arrays()
    given = {name: kind(a) for name, a in arrays.items() if isinstance(a, np.ndarray) and a.ndim and a.dtype == float}
    type(model).from_arrays(model.get_params(), arrays | (given if kind is not whole else {})).prepare()


def life_of(model: Any, kind: Kind, targets: Array | None) -> None:
    """Make every kind of update of a model, and ask it everything."""
    weights = kind(np.linspace(0.5, 1.5, 60))
    y = [] if targets is None else [kind(targets)]
    model.fit(kind(X[:60]), *[a[:60] for a in y], sample_weight=weights)
    come = kind(X[60:70]), y[0][60:70] if y else None
    model.update(add=come, remove=model.keys_[:10], sample_weight=kind(np.full(10, 1.25)))
    model.partial_fit(kind(X[70:75]), *[a[70:75] for a in y])
    keys = model.keys_
    model.update(reweight=dict(zip(keys[:5], kind(np.full(5, 0.5)), strict=True)), decay=0.9)
    if targets is not None:
        model.update(relabel={keys[0]: y[0][1]}, C=2.0)
    model.check_scale(kind(X[:5]), kind(np.ones(5)), reweight={keys[0]: 2.0})
    model.certificate()
    model.predict(kind(X[:7]))
    model.predictor().decision_function(kind(X[:7]))
    solvers.leave_one_out(model)
    solvers.k_fold(model, kind(np.arange(model.n_window_) % 3).tolist())
    again(model, kind)


def paths_of(model: Any, kind: Kind, targets: Array | None) -> None:
    """Follow every path of a model."""
    given = (kind(X),) if targets is None else (kind(X), kind(targets))
    path = model.regularization_path(0.2, 0.9)
    path.validation_error(*given)
    path.best(*given)
    path.at(0.5).certificate()
    path.sizes(0.5)
    parameters: tuple[Parameter, ...] = ("theta", "s")
    for parameter in parameters if targets is not None else ():
        outliers = model.outlier_path(parameter)
        outliers.validation_errors(*given)
        outliers.best(*given)
        robust = outliers.at(outliers.end)
        robust.update(robust=outliers.robustness(outliers.end))
        robust.local_optimality()
        solvers.cccp(model, parameter)


def precomputed(kind: Kind) -> None:
    model = solvers.IncrementalSVC(kernel="precomputed").fit(kind(K[:60, :60]), kind(Y[:60]))
    model.update(add=(kind(K[60:70, :70]), kind(Y[60:70])), remove=model.keys_[:10])
    model.decision_function(kind(K[:5, 10:70]))
    again(model, kind)


def little_room(kind: Kind) -> None:
    """Update where not all kernel rows fit."""
    model = solvers.IncrementalSVC(C=0.1, gamma=0.1, cache_mb=0.05).fit(kind(X), kind(Y))
    model.update(add=(kind(X[:40] + 0.1), kind(Y[:40])), remove=model.keys_[:30])


def classifiers() -> list[Any]:
    """Return one of each kernel, with and without an intercept; of a sigmoid that is positive semi-definite here."""
    kernels: dict[str, dict[str, Any]] = {
        "rbf": {"gamma": 0.1},
        "linear": {},
        "poly": {"gamma": 0.1, "coef0": 1.0},
        "sigmoid": {"gamma": 1e-7},
    }
    return [
        solvers.IncrementalSVC(kernel=kernel, fit_intercept=intercept, **shape)
        for kernel, shape in kernels.items()
        for intercept in (True, False)
    ]


def sparse_life(kind: Kind) -> None:
    """Update with sparse rows, of two classes and of four, one of which comes late."""
    held = sparse.csr_array(X)
    values = kind(held.data)
    if not values.dtype.isnative:
        return  # scipy takes none of these
    rows = sparse.csr_array((values, held.indices.astype(np.int64), held.indptr), shape=held.shape)
    for labels in (Y, np.arange(80) % 3):
        model = solvers.IncrementalSVC(gamma=0.1).fit(rows[:60], kind(labels[:60]))
        model.update(add=(rows[60:70], kind(labels[60:70])), remove=model.keys_[:10])
        model.update(add=(rows[70:71], kind(np.full(1, 3.0))))
        model.predict(rows)
        model.certificate()
        solvers.leave_one_out(model)
        again(model, np.asarray)


def everything(kind: Kind, chosen: slice) -> None:
    """Make every public call with arrays of a kind, of the ``chosen`` classifiers."""
    for model in classifiers()[chosen]:
        life_of(model, kind, Y)
        paths_of(model, kind, Y)
    precomputed(kind)
    little_room(kind)
    life_of(solvers.IncrementalSVC(gamma=0.1), kind, np.arange(80) % 3)
    sparse_life(kind)
    for loss in ("epsilon_insensitive", "absolute", "pinball"):
        regressor = solvers.IncrementalSVR(gamma=0.1, loss=loss)
        life_of(regressor, kind, TARGETS)
        paths_of(regressor, kind, TARGETS)
    tube = solvers.IncrementalSVR(gamma=0.1).fit(kind(X), kind(TARGETS))
    tube.epsilon_path(0.01, 0.2).best(kind(X), kind(TARGETS))
    one_class = solvers.IncrementalOneClassSVM(gamma=0.1)
    life_of(one_class, kind, None)
    paths_of(one_class, kind, None)
    few = solvers.IncrementalSVC(gamma=0.1).fit(kind(X[:20]), kind(Y[:20]))
    solvers.update_singly(few, add=(kind(X[20:25]), kind(Y[20:25])), remove=[0, 1])


def main() -> None:
    """Make all of them, with arrays of each kind."""
    everything(np.asarray, slice(None))
    for number, kind in enumerate(KINDS[1:]):
        everything(kind, slice(number % 8, number % 8 + 1))
