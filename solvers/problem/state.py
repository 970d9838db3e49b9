"""The state of one model: arrays by slot, the only mutable data of this package.

Glossary. An example lives in a *slot* for as long as it is in the window.

===========  ==================================================================================================
``f``        decision values, f(x) = sum_j beta_j k(x_j, x) + b
``beta``     signed coefficients; for classification alpha_i y_i of the papers
``b``        intercept
``segment``  piece or kink of the loss: at ``2q`` it is bound on piece ``q``, at ``2q + 1`` free at kink ``q``
``level``    the beta that a piece demands; the *box* of kink ``q`` is [level q+1, level q]
``free``     with f fixed at a kink, while beta moves; the set F of the papers' margin vectors
``tau``      the rest of the path, from 1 down to 0; kinks and levels move linearly in it
===========  ==================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.errors import MemoryLimit
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.row_cache import RowCache
from livesvm.solvers.linalg.cholesky import Factor, delete, empty_factor, grown, with_room
from livesvm.solvers.problem.piecewise_linear import MAX_KINKS, Losses, leaving
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.runtime.interrupt import AT_ONCE, COPY, parts
from livesvm.solvers.runtime.memory import BYTES, LINE, aligned, padded
from livesvm.solvers.runtime.types import Bools, Floats, Ints
from livesvm.solvers.sparse import Features, SparseRows, dense

Build = Callable[["PathState", Ints], None]

NOTHING = np.empty((0, 0))
MOST_SPARE = 4096  #: slots for new examples that arrays have at most when they grow
AT_HAND = 2**16  #: kernel values that are made side by side, as they stay near the processor
LITTLE = AT_ONCE // COPY  #: features that are moved in one go


@by_reference
class Examples(NamedTuple):
    """Losses, coefficients and segments of all examples, by slot; ``c`` slots."""

    kinks: Floats  #: (c, MAX_KINKS) at the end of the path
    levels: Floats  #: (c, MAX_KINKS + 1) at the end of the path
    dkinks: Floats  #: (c, MAX_KINKS) their motion: now they are at kinks - tau dkinks
    dlevels: Floats  #: (c, MAX_KINKS + 1) the same for levels
    n_kinks: Ints  #: (c,)
    segment: Ints  #: (c,)
    f: Floats  #: (c,)
    beta: Floats  #: (c,)
    diagonal: Floats  #: (c,) k(x, x)


@by_reference
class Motion(NamedTuple):
    """Rates of the current direction and the limits of the current segments; by slot."""

    low: Floats  #: (c,) lower limit of f (bound) or beta (free)
    high: Floats  #: (c,) upper limit
    dlow: Floats  #: (c,) rates of the limits
    dhigh: Floats  #: (c,)
    v: Floats  #: (c,) velocity of beta of bound examples
    bound_rate: Floats  #: (c,) sum of v_j k_j over bound examples
    df: Floats  #: (c,) rate of f
    dbeta: Floats  #: (c,) rate of beta of free examples
    work: Floats  #: (c,) work of the ratio test


class Numbers(NamedTuple):
    """The scalars of a state, which a checkpoint stores next to the arrays."""

    b: float
    kappa: float
    total: float
    events_since_refresh: int
    heaviest: float
    drift: float


@compiled
def is_free(segment: int) -> bool:
    """Say whether an example on this segment of its loss is free, at a kink; otherwise it is bound, on a piece."""
    return segment & 1 == 1


def are_free(segment: NDArray[np.integer[Any]]) -> Bools:
    """Say which of these segments are those of free examples."""
    return np.asarray(segment & 1 == 1)


def empty_examples(c: int) -> Examples:
    """Return ``c`` slots without examples."""
    kinks, levels, n_kinks = leaving(c)
    return Examples(
        kinks, levels, np.zeros_like(kinks), np.zeros_like(levels), n_kinks, np.zeros_like(n_kinks), *np.zeros((3, c))
    )


def empty_motion(c: int) -> Motion:
    """Return a motion of ``c`` slots in which all rates are 0."""
    return Motion(*aligned(len(Motion._fields), c, make=np.zeros))


def resized(a: NDArray[Any], capacity: int, fill: float = 0) -> NDArray[Any]:
    """Return an array by slot with ``capacity`` slots, of which new ones hold ``fill``."""
    new = aligned(capacity, *a.shape[1:], make=np.zeros).view(a.dtype)
    if fill or a.any():  # memory that is never written to takes no space
        new[: a.shape[0]] = a[:capacity]
        new[a.shape[0] :] = fill
    return new


def capacity_for(n: int) -> int:
    """Return how many slots to allocate for ``n`` examples: enough to add a batch before another batch leaves."""
    return padded(64 + n + min(n // 4, MOST_SPARE))


class FeatureTable:
    """Features of examples by slot, and the kernel between them."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.capacity = 0  #: number of slots
        self.n_slots = 0  #: slots 0 to n_slots - 1 are or were in use
        self.vacant: list[int] = []
        self.XT: Features = NOTHING  #: (d, capacity) features; of sparse examples capacity rows
        self.n_features, self.is_sparse = 0, False  #: whether only nonzero features are held

    @property
    def n(self) -> int:
        """Number of examples in the window."""
        return self.n_slots - len(self.vacant)

    def expect(self, X: Features) -> None:
        """Allocate space for features with the width of ``X`` (m, d), dense or sparse like ``X``."""
        self.n_features, self.is_sparse = X.shape[1], isinstance(X, SparseRows)
        shape = self.capacity, self.n_features
        self.XT = SparseRows.empty(*shape) if self.is_sparse else np.zeros(shape[::-1])

    def _new_slots(self, X: Features) -> Ints:
        """Return slots for new examples ``X`` (m, d): vacant ones first, then others."""
        m = X.shape[0]
        if self.n_features != X.shape[1] or self.is_sparse != isinstance(X, SparseRows):
            self.expect(X)
        fresh = max(0, m - len(self.vacant))
        if self.n_slots + fresh > self.capacity:
            self.resize(capacity_for(self.n_slots + fresh))
        staying = len(self.vacant) - (m - fresh)
        slots = np.array([*self.vacant[staying:][::-1], *range(self.n_slots, self.n_slots + fresh)], np.int64)
        del self.vacant[staying:]
        self.n_slots += fresh
        return slots

    def resize(self, capacity: int) -> None:
        """Resize the arrays to ``capacity`` slots, which must not be fewer than are in use."""
        self.capacity = capacity
        if isinstance(self.XT, SparseRows):
            self.XT = self.XT.resized(capacity)
        else:
            XT = aligned(self.XT.shape[0], capacity, make=np.zeros)
            XT[:, : self.n_slots] = self.XT[:, : self.n_slots]
            self.XT = XT

    def cool(self) -> None:
        """Free the space for new examples."""
        if self._spare:
            self.resize(self.capacity - self._spare)

    def features(self, slots: Ints) -> Features:
        """Return the features of examples, (m, d)."""
        columns = self.columns(slots)
        return columns if isinstance(columns, SparseRows) else columns.T.copy()

    def columns(self, slots: Ints) -> Features:
        """Return the features of examples in the form that kernels expect: transposed, (d, m), or sparse rows."""
        if isinstance(self.XT, SparseRows):
            return self.XT[slots]
        if self.n_features * slots.size <= LITTLE:
            return np.take(self.XT, slots, axis=1, mode="clip")
        out = np.empty((self.n_features, slots.size))
        for part in parts(self.n_features, COPY * slots.size):
            np.take(self.XT[part], slots, axis=1, out=out[part], mode="clip")  # the other modes copy twice
        return out

    @property
    def hot_bytes(self) -> int:
        """Bytes that :meth:`cool` would free."""
        spare = self._spare
        return self._made_bytes + (self._data_bytes * spare // self.capacity if spare else 0)

    @property
    def held_bytes(self) -> int:
        """Bytes that all arrays take, including those that :meth:`cool` would free."""
        gram = self.kernel.gram
        held = self.XT.values.nbytes + self.XT.indices.nbytes if isinstance(self.XT, SparseRows) else 0
        return self._made_bytes + self._data_bytes + held + (0 if gram is None else gram.values.nbytes)

    @property
    def _made_bytes(self) -> int:
        """Bytes of all that is made again when it is needed."""
        return 0

    @property
    def _arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays by slot, other than features."""
        raise AssertionError("every table of features says what it holds besides")

    @property
    def _data_bytes(self) -> int:
        """Bytes that the arrays indexed by slot take, without the values of sparse rows."""
        features = 2 * self.XT.start.nbytes if isinstance(self.XT, SparseRows) else self.XT.nbytes
        return features + sum(map(BYTES, self._arrays))

    @property
    def _spare(self) -> int:
        """How many slots no example has used, except those that fill up a cache line."""
        return max(0, self.capacity - padded(self.n_slots))


class PathState(FeatureTable):
    """One model: examples by slot, their coefficients, the factor of the free block and a cache of kernel rows."""

    def __init__(self, kernel: Kernel, build: Build, *, intercept: bool, total: float = 0.0, cache_bytes: int) -> None:
        super().__init__(kernel)
        self.build = build  #: makes the factor and the kernel rows of free examples if that was put off
        self.intercept = intercept
        self.total = total  #: the sum of the betas; only with an intercept
        self.b = 0.0
        self.examples = empty_examples(0)
        self._factor: Factor = empty_factor(0, 0)
        self._put_off: Ints | None = None  #: free examples whose factor and kernel rows are not made yet
        self._rows = RowCache(cache_bytes)
        self._motion = empty_motion(0)
        self.buffers: Any = None  #: memory of the solver, which is not part of the state
        self.kappa = 1.0  #: weight of 1 1' in the factor
        self.unlearnt: list[float] = []  #: f of the newest examples before they were learnt, (m,)
        self.events = 0.0  #: the most that a recent update took
        self.events_since_refresh = 0
        self.heaviest = 0.0  #: largest sum of |beta| k(x, x) since then, at the end of an update
        self.drift = 0.0  #: errors of the f of free examples, summed over the updates since then

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle or copy, without kernel rows, factor and work arrays, which are rebuilt."""
        made = ("_factor", "_rows", "rows", "_motion", "buffers", "XT", "examples", "_put_off")
        kept = {name: value for name, value in self.__dict__.items() if name not in made}
        n, e = self.n_slots, self.examples
        places = e.n_kinks[:n].astype(np.int8), e.segment[:n].astype(np.int8)
        arrays = [a[:n].copy() for a in (e.kinks, e.levels, e.f, e.beta)]
        XT = self.XT.resized(n).packed() if isinstance(self.XT, SparseRows) else self.XT[:, :n].copy()
        kept |= {"XT": XT, "arrays": arrays, "places": places, "unlearnt": []}
        return kept | {"free": self.free_slots(), "limit": self.cache_bytes}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Restore the attributes; the factor and kernel rows, which were not pickled, are built when needed."""
        (kinks, levels, f, beta), (n_kinks, segment) = kept.pop("arrays"), kept.pop("places")
        self._put_off, self._rows, n = kept.pop("free"), RowCache(kept.pop("limit")), f.size
        self.buffers = None
        self.__dict__.update(kept)
        at_rest = np.zeros_like(kinks), np.zeros_like(levels)
        counts = n_kinks.astype(np.int64), segment.astype(np.int64)
        X = self.XT if isinstance(self.XT, SparseRows) else np.ascontiguousarray(self.XT.T)
        diagonal = self.kernel.diagonal(X)
        arrays = (kinks, levels, *at_rest, *counts, f, beta, diagonal)
        self.examples, self.capacity = Examples(*(resized(a, n) for a in arrays)), n
        self._factor, self._motion = empty_factor(0, 0), empty_motion(0)

    @property
    def numbers(self) -> Numbers:
        """The present scalars."""
        return Numbers(self.b, self.kappa, self.total, self.events_since_refresh, self.heaviest, self.drift)

    @numbers.setter
    def numbers(self, numbers: Numbers) -> None:
        self.b, self.kappa, self.total, self.events_since_refresh, self.heaviest, self.drift = numbers

    @property
    def diagonal(self) -> Floats:
        """``k(x, x)`` by slot."""
        return self.examples.diagonal

    @property
    def n_free(self) -> int:
        return int(self._factor.size[1]) if self._put_off is None else self._put_off.size

    @property
    def factor(self) -> Factor:
        """The factor of the free block, see :meth:`prepare`."""
        if self._put_off is not None:
            self.prepare()
        return self._factor

    @factor.setter
    def factor(self, factor: Factor) -> None:
        self._factor = factor

    @cached_property
    def rows(self) -> RowCache:
        """The cache of kernel rows, see :meth:`prepare`; it is the same object until :meth:`put_off` is called."""
        if self._put_off is not None:
            self.prepare()
        return self._rows

    @property
    def motion(self) -> Motion:
        """Work arrays of ``follow``, kept because allocating them is slow; their old contents are not used."""
        if self._motion.v.size != self.capacity:
            self._motion = empty_motion(self.capacity)
        return self._motion

    def put_off(self, free: Ints) -> None:
        """Postpone filling the empty factor and cache for the examples ``free`` until one of the two is needed."""
        self._put_off = free
        vars(self).pop("rows", None)

    def forget_rows(self, free: Ints) -> None:
        """Free the kernel rows, factor and work arrays; they are rebuilt for the examples ``free`` when needed."""
        self.put_off(free)
        self._factor, self._motion, self._rows = empty_factor(0, 0), empty_motion(0), RowCache(self.cache_bytes)
        self.buffers = None

    def cool(self) -> None:
        """Free memory that the next update allocates again: rows, factor, work arrays, space for new examples."""
        self.forget_rows(self.free_slots())
        super().cool()

    @property
    def _made_bytes(self) -> int:
        *arrays, _size = self._factor
        buffers = 0 if self.buffers is None else self.buffers.nbytes
        return buffers + self._rows.nbytes + sum(map(BYTES, (*arrays, *self._motion)))

    @property
    def _arrays(self) -> Examples:
        return self.examples

    def prepare(self) -> None:
        """Build the factor and kernel rows now if they are not built yet.

        Raises
        ------
        MemoryLimit : they do not fit into the cache
        """
        put_off, self._put_off = self._put_off, None
        if put_off is None:
            return
        try:
            self._make_room()
            self.build(self, put_off)
        except BaseException:
            # A factor that was interrupted halfway must be built again.
            self.put_off(put_off)
            raise

    @property
    def is_prepared(self) -> bool:
        """Whether the factor and kernel rows are built."""
        return self._put_off is None

    def _make_room(self) -> None:
        """Resize factor and cache to all slots, because examples may have been added since both were emptied."""
        if self._factor.position.size != self.capacity:
            self._factor = grown(self._factor, self._factor.R.shape[0], self.capacity)
        if self._rows.row_of.size != self.capacity:
            self._rows.resize(self.capacity)

    def empty_factor(self) -> None:
        """Empty the factor and cancel a postponed filling; the caller must add the free examples to the factor."""
        self._put_off = None
        self._factor = empty_factor(self._factor.R.shape[0], self.capacity)
        self._make_room()

    def free_slots(self) -> Ints:
        """Return the slots of the free examples, in the factor's order."""
        if self._put_off is not None:
            return self._put_off.copy()
        factor = self._factor
        size, live = factor.size.tolist()
        slots = factor.slot[:size]
        return slots.copy() if live == size else slots[slots >= 0]

    def insert(self, X: Features, losses: Losses) -> Ints:
        """Store new examples ``X`` (m, d) with beta = 0 and without decision values. Returns the slots."""
        m = X.shape[0]
        if m == 0 and X.shape[1] == self.n_features:
            return np.empty(0, np.int64)
        slots = self._new_slots(X)
        diagonal = self.kernel.diagonal(X)
        if isinstance(X, SparseRows):
            assert isinstance(self.XT, SparseRows)
            self.XT = self.XT.put(slots, X, self.vacant)  # drops rows of removed examples when space is made
            _set_out(self.examples, NOTHING, slots, np.empty((m, 0)), diagonal, *losses)
            return slots
        XT = self.XT
        assert not isinstance(XT, SparseRows)
        if X.size <= LITTLE:
            _set_out(self.examples, XT, slots, X, diagonal, *losses)
            return slots
        for part in parts(m, COPY * X.shape[1]):
            mine = losses.kinks[part], losses.levels[part], losses.n_kinks[part]
            _set_out(self.examples, XT, slots[part], X[part], diagonal[part], *mine)
        return slots

    def make_vacant(self, m: int) -> bool:
        """Add vacant slots, in full cache lines, until there are ``m``; return False if the arrays are too small.

        The features must be dense.
        """
        n, more, e, XT = self.n_slots, m - len(self.vacant), self.examples, dense(self.XT)
        if more > 0:
            self.n_slots = max(n, min(LINE * -(-(n + more) // LINE), self.capacity))
            fresh = np.arange(n, self.n_slots)
            self.vacant = [*fresh[::-1].tolist(), *self.vacant]
            self.drop_losses(fresh)  # an update that was undone may have used them
            e.beta[fresh] = e.f[fresh] = e.diagonal[fresh] = XT[:, fresh] = 0.0
            self.rows.values[self.rows.slot_of >= 0, n : self.n_slots] = 0.0
        return len(self.vacant) >= m

    def set_losses(self, slots: Ints, losses: Losses) -> None:
        """Give examples new losses, with rates of 0."""
        _set_losses(self.examples, slots, *losses)

    def drop_losses(self, slots: Ints) -> None:
        """Remove the losses of examples, so that these examples are bound, with a level of 0."""
        drop_losses(self.examples, self.factor, slots)

    def losses(self, slots: Ints) -> Losses:
        """Return the losses of examples."""
        e = self.examples
        return Losses(e.kinks.take(slots, axis=0), e.levels.take(slots, axis=0), e.n_kinks.take(slots))

    def release(self, slots: Ints) -> None:
        """Make the slots of removed examples vacant, and drop their kernel rows; they must not have a loss."""
        self.examples.beta[slots] = 0.0
        self.rows.forget(slots)
        self.vacate(slots)

    def vacate(self, slots: Ints) -> None:
        """Make the slots of examples vacant, if they have no coefficient, loss or kernel row any more."""
        self.vacant.extend(slots[::-1].tolist())
        if len(self.vacant) == self.n_slots:
            self.n_slots, self.vacant, self.b = 0, [], 0.0

    def resize(self, capacity: int) -> None:
        """Resize the arrays to ``capacity`` slots, which must not be fewer than are in use."""
        fills = [np.inf, *([0.0] * (len(Examples._fields) - 1))]
        self.examples = Examples(*(resized(a, capacity, fill) for a, fill in zip(self.examples, fills, strict=True)))
        super().resize(capacity)
        if self._put_off is None:
            self._make_room()

    @property
    def cache_bytes(self) -> int:
        """Memory that the kernel rows may take."""
        return self._rows.limit

    def allow(self, cache_bytes: int) -> None:
        """Set the memory limit of the kernel rows to ``cache_bytes``.

        Raises
        ------
        MemoryLimit : the kernel rows of the free examples do not fit into the cache
        """
        if self._rows.limit == cache_bytes:
            return
        needed = 8 * self.capacity * self.n_free
        if needed > cache_bytes:
            raise MemoryLimit(needed, cache_bytes)
        self.rows.limit = cache_bytes
        self.rows.resize(self.capacity)

    def make_room_for_free(self, extra: int = 1) -> None:
        """Enlarge the factor, if needed, so that ``extra`` more examples fit."""
        self.factor = with_room(self.factor, extra)

    def n_bound_supports(self) -> int:
        """Return how many examples that are not free have a coefficient that is not zero."""
        return int(count_bound_supports(self.examples.beta, self.examples.segment, self.n_slots))

    def mirror(self, undo: list[Callable[[], object]]) -> None:
        """Change the sign of all decisions, which keeps an optimum; append the reverse of this change to ``undo``."""
        e, b = self.examples, self.b
        before = {name: getattr(e, name).copy() for name in ("kinks", "levels", "segment", "f", "beta")}

        def take_back() -> None:
            """Restore the values from before the mirroring; the arrays may have grown since."""
            for name, values in before.items():
                getattr(self.examples, name)[: len(values)] = values
            self.b = b

        undo.append(take_back)
        self._mirror(e)

    def _mirror(self, e: Examples) -> None:
        for j in range(self.n_slots):
            p = int(e.n_kinks[j])
            e.kinks[j, :p] = -e.kinks[j, :p][::-1]
            e.levels[j, : p + 1] = -e.levels[j, : p + 1][::-1]
            e.levels[j, p + 1 :] = e.levels[j, p]
            e.segment[j] = 2 * p - e.segment[j]
        e.f[:] = -e.f
        e.beta[:] = -e.beta
        self.b = -self.b

    def kernel_rows(self, slots: Ints) -> Floats:
        """Compute ``k(x_i, x_j)`` for ``i`` in ``slots`` and every slot ``j`` in use, (m, n_slots)."""
        return self.kernel.matrix(self.features(slots), self.XT, self.n_slots)

    def cache_rows(self, slots: Ints, keep: Ints) -> None:
        """Compute the kernel rows of ``slots``, which are not cached, and cache them; the rows of ``keep`` stay cached.

        Raises
        ------
        MemoryLimit : when they do not fit together
        """
        if slots.size == 0:
            return
        n, m, cache, A = self.n_slots, slots.size, self.rows, self.features(slots)
        rows = cache.vacate(m, keep)
        if m > 1 and n < self.capacity and m * n <= AT_HAND and self.kernel.has_gamma:
            cache.values[rows, :n] = self.kernel.matrix(A, self.XT, n)
        else:
            self.kernel.write(A, self.XT, n, cache.values, rows)
        cache.hold(slots, rows)

    def cache_what_fits(self, slots: Ints, keep: Ints) -> tuple[Ints, Ints]:
        """Cache as many kernel rows of ``slots`` as fit, without dropping the rows of the slots ``keep``.

        Returns the slots that got a row, and the slots that did not.
        """
        count = slots.size
        if count + keep.size > self.rows.slot_of.size:  # perhaps; not all examples to keep need have a row
            count = min(count, self.rows.room_beside(keep))
        self.cache_rows(slots[:count], keep)
        return slots[:count], slots[count:]


@compiled
def count_bound_supports(beta: Floats, segment: Ints, n: int) -> int:
    count = 0
    for j in range(n):
        count += beta[j] != 0.0 and not is_free(segment[j])
    return count


@compiled
def _set_losses(e: Examples, slots: Ints, kinks: Floats, levels: Floats, n_kinks: Ints) -> None:
    for i, slot in enumerate(slots):
        e.n_kinks[slot] = n_kinks[i]
        for k in range(MAX_KINKS):
            e.kinks[slot, k] = kinks[i, k]
            e.dkinks[slot, k] = 0.0
        for k in range(MAX_KINKS + 1):
            e.levels[slot, k] = levels[i, k]
            e.dlevels[slot, k] = 0.0


@compiled
def _set_out(
    e: Examples, XT: Floats, slots: Ints, X: Floats, diagonal: Floats, kinks: Floats, levels: Floats, n_kinks: Ints
) -> None:
    _set_losses(e, slots, kinks, levels, n_kinks)
    for i, slot in enumerate(slots):
        e.beta[slot] = 0.0
        e.diagonal[slot] = diagonal[i]
    for k in range(X.shape[1]):
        for i, slot in enumerate(slots):
            XT[k, slot] = X[i, k]


@compiled
def drop_losses(e: Examples, factor: Factor, slots: Ints) -> None:
    for slot in slots:
        if factor.position[slot] >= 0:
            delete(factor, slot)
        e.n_kinks[slot] = 0
        e.segment[slot] = 0
        for k in range(MAX_KINKS):
            e.kinks[slot, k] = np.inf
            e.dkinks[slot, k] = 0.0
        for k in range(MAX_KINKS + 1):
            e.levels[slot, k] = 0.0
            e.dlevels[slot, k] = 0.0
