"""The window of several classes: examples by key, features held once, and a problem for every pair of classes.

Targets are class numbers: the indices of labels in ``classes_``, whatever type the labels have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import combinations
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.certificate import Certificate
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.homotopy.optimality import audited
from livesvm.solvers.homotopy.run import Trace
from livesvm.solvers.kernels.kernel import Kernel
from livesvm.solvers.kernels.nystroem import weights_of
from livesvm.solvers.kernels.shared import SharedFeatures
from livesvm.solvers.models.keyed_window import ExampleUpdate, KeyedWindow, standing_of, taken
from livesvm.solvers.models.pair import NO_EXAMPLES, Pair, PairChange, update_each, votes_of
from livesvm.solvers.models.pairs_predictor import (
    PairsCertificate,
    PairsPredictor,
    Two,
    by_other_class,
    summary,
    winners,
)
from livesvm.solvers.models.per_class import PairShares, Parts
from livesvm.solvers.problem.piecewise_linear import NO_LOSSES, Losses, hinge
from livesvm.solvers.problem.state import are_free
from livesvm.solvers.runtime.threads import solve_in_parallel
from livesvm.solvers.runtime.types import Floats, Ints
from livesvm.solvers.sparse import Features, dense
from livesvm.solvers.validation import plain

NAMES = tuple(vars(Trace()))

WORST = ("max_violation", "relative_gap", "retrained", "abandoned")  # counted by the worst, not by the sum


class ClassWindow(KeyedWindow):
    """Examples of several classes, with a problem for every pair; the slot of an example is its number in ``shared``.

    Parameters
    ----------
    n_classes : number of classes so far; see ``rename``
    threads : how many may update pairs at once; None: as many as ``runtime.threads`` allows
    """

    _columns = ("_y", "_weight", "_cost")

    def __init__(
        self, kernel: Kernel, n_classes: int, *, intercept: bool, cache_bytes: int, threads: int | None = None
    ) -> None:
        super().__init__()
        self.shared = self.store = SharedFeatures(kernel)
        self.intercept = intercept
        self.threads = threads
        self._y = np.empty(0, np.int64)  # class, by number
        self._weight = np.empty(0)
        self._cost = np.empty(0)  # C times the weights of example and class
        self.n_classes = n_classes
        self.pairs = {two: self._new_pair(cache_bytes) for two in combinations(range(n_classes), 2)}
        self._shares = PairShares(cache_bytes)
        self.last_events: list[int] = []  #: breakpoints of the last update, pair by pair

    def _new_pair(self, cache_bytes: int) -> Pair:
        return Pair(self.shared, intercept=self.intercept, cache_bytes=cache_bytes)

    # -- what a model asks of its window and of its state --------------------------------------------------------------

    @property
    def state(self) -> ClassWindow:
        """The window itself, which has the methods that callers expect of a path state."""
        return self

    @property
    def n(self) -> int:
        """Number of examples in the window."""
        return len(self.keys)

    @property
    def n_features(self) -> int:
        """How many features an example has."""
        return self.shared.n_features

    @property
    def n_free(self) -> int:
        """Number of free examples, summed over all pairs."""
        return sum(pair.n_free for pair in self.pairs.values())

    def n_bound_supports(self) -> int:
        """Return how many examples have a coefficient at a bound, summed over all pairs."""
        return sum(pair.n_bound_supports() for pair in self.pairs.values())

    def allow(self, cache_bytes: int) -> None:
        """Let the kernel rows of all pairs take ``cache_bytes`` from the next update on."""
        self._shares.limit = cache_bytes

    def prepare(self) -> None:
        """Build the factors and kernel rows that are not built yet."""
        for pair in self.pairs.values():
            pair.state.prepare()

    def cool(self) -> None:
        super().cool()
        for pair in self.pairs.values():
            pair.cool()

    @property
    def hot_bytes(self) -> int:
        return super().hot_bytes + sum(pair.hot_bytes for pair in self.pairs.values())

    @property
    def held_bytes(self) -> int:
        return super().held_bytes + sum(pair.held_bytes for pair in self.pairs.values())

    @property
    def examples(self) -> Any:
        """The examples of the largest pair, which stand for those of all pairs in error messages."""
        return max(self.pairs.values(), key=lambda pair: pair.state.n).state.examples

    @property
    def beta(self) -> Floats:
        """Signed coefficients (n_pairs, n), oldest first; 0 for an example that is in neither class of the pair."""
        numbers, out = self.slots, np.zeros((len(self.pairs), len(self.keys)))
        for row, pair in zip(out, self.pairs.values(), strict=True):
            here = pair.holds(numbers)
            row[here] = pair.coefficients(numbers[here])
        return out

    @property
    def coefficients(self) -> Floats:
        """Coefficients (n, n_classes - 1), by example and a pair's other class; positive for a pair's first class."""
        return by_other_class(self.beta, self.y.astype(np.int64), self.n_classes)

    @property
    def is_free(self) -> NDArray[np.bool_]:
        """Whether each example (n,), oldest first, is free in some pair."""
        numbers = self.slots
        out = np.zeros(numbers.size, np.bool_)
        for pair in self.pairs.values():
            here = np.flatnonzero(pair.holds(numbers))
            out[here] |= are_free(pair.state.examples.segment[pair.slot[numbers[here]]])
        return out

    def rename(self, places: Ints, n_classes: int) -> None:
        """Renumber each class ``i`` as ``places[i]``, ascending; other numbers below ``n_classes`` are new classes."""
        was = {(int(places[a]), int(places[b])): pair for (a, b), pair in self.pairs.items()}
        numbers, by_number = self.slots, self._y.copy()
        by_number[numbers] = y = places[self._y[numbers]]
        pairs = {two: was.get(two) or self._one_sided(two, numbers, y) for two in combinations(range(n_classes), 2)}
        vars(self).update(_y=by_number, n_classes=n_classes, pairs=pairs)

    def _one_sided(self, two: Two, numbers: Ints, y: Ints) -> Pair:
        """Return the problem of two classes, of which at least one has no examples yet."""
        pair = self._new_pair(self._shares.limit)
        indices = np.flatnonzero(np.isin(y, two))
        losses = hinge(np.where(y[indices] == two[1], 1.0, -1.0), self._cost[numbers[indices]])
        if indices.size:
            pair.update(PairChange(NO_EXAMPLES, numbers[indices], losses, NO_EXAMPLES, NO_LOSSES), self._shares.limit)
            pair.settle()
        return pair

    def forget_classes(self, places: Ints) -> None:
        """Keep only the classes ``places``, ascending, and number them from 0; the other classes must be empty."""
        back = np.zeros(self.n_classes, np.int64)
        back[places] = np.arange(places.size)
        self._y = back[self._y]
        kept = set(places.tolist())
        pairs = {two: pair for two, pair in self.pairs.items() if kept.issuperset(two)}
        self.pairs = {(int(back[a]), int(back[b])): pair for (a, b), pair in pairs.items()}
        self.n_classes = places.size

    # -- learning ------------------------------------------------------------------------------------------------------

    def update(self, change: ExampleUpdate, total_per_weight: float, terms: object = None) -> Trace:
        """Apply a checked change to every pair that the change affects; several pairs are solved at the same time.

        Raises
        ------
        NotPositiveSemidefinite, NotOptimal, MemoryLimit, Cancelled, TimeLimit : all pairs are as they were
        """
        undo = cast("list[Callable[[], object]]", self._undo)
        leave, changed, numbers = self._slots_of(change.leaving), self._slots_of(change.changing), self.slots
        undo.append(partial(self.shared.bring_back, self.shared.standing(), numbers))
        come = self.shared.insert(change.X, numbers) if change.y.size else NO_EXAMPLES
        undo.append(partial(self.shared.release, come))
        parts = Parts(self._y, leave, come, change, changed, self.n_classes)
        todo = [two for two in self.pairs if parts.touches(two)]
        limits = self._shares.of(self.pairs, parts.counts(self._y[numbers], self.n_classes))
        from_nothing = come.size > 0 and self.shared.make_positive(numbers, leave, come, self._shares.limit)
        todo = list(self.pairs) if from_nothing else todo
        touched = [self.pairs[two] for two in todo]
        for pair in touched:
            pair.settle()
        undo += [pair.undo for pair in touched]
        self._later = (*[pair.settle for pair in touched], partial(self.shared.release, leave))
        with self.shared.at_hand(come):
            foretold = np.empty(come.size if self.foretells and self.keys else 0, np.int64)
            events, traces = self._walk(todo, parts, limits, from_nothing, (change.X, foretold))
            self.unlearnt = foretold.tolist()
        costs = change.new_losses.levels[:, 0], change.losses.levels[:, 0]
        self._commit(change, changed, come, costs, last_events=[events.get(two, 0) for two in self.pairs])
        return _together(traces)

    def _walk(
        self, todo: list[Two], parts: Parts, limits: dict[Two, int], from_nothing: bool, new: tuple[Features, Ints]
    ) -> tuple[dict[Two, int], list[Trace]]:
        """Update the pairs ``todo``: as many as possible in one compiled call, the others in parallel.

        Returns the events of each pair, and what was done. If kernel values changed, pairs are solved from nothing.
        ``new`` has the new examples, and an array (m,) or (0,) for the class numbers that the pairs predict for them.
        """
        work, (X, foretold) = parts.work(self.shared), new
        if work is not None:
            events, done = update_each(self.pairs, todo, work, limits, foretold)
        else:
            events, done, at_hand = {}, [], self.shared.rows_at_hand()
            if foretold.size and at_hand is None:  # they are too many
                foretold[:] = winners(self.predictor().decide(X), self.n_classes)
            elif foretold.size and at_hand is not None:
                foretold[:] = votes_of(self.pairs, at_hand[1], self.n_classes).argmax(axis=1)
        rest = [two for two in todo if two not in events]
        works = [partial(self.pairs[two].update, parts.of(two), limits[two], from_nothing) for two in rest]
        traces = solve_in_parallel(works, self.threads)
        return events | {two: trace.events for two, trace in zip(rest, traces, strict=True)}, [*done, *traces]

    # -- answers -------------------------------------------------------------------------------------------------------

    def predictor(self) -> PairsPredictor:
        """Return the present decision functions, which later updates do not change."""
        return self.predictor_of(self.beta, self.intercepts)

    def predictor_of(self, coefficients: Floats, intercepts: Floats) -> PairsPredictor:
        """Return decision functions with coefficients (n_pairs, n) and intercepts (n_pairs,) on the window."""
        if self.kernel.is_projected:  # one weight vector of each pair has the place of support vectors
            q, slots = len(self.pairs), self.slots
            W = np.column_stack([weights_of(dense(self.shared.XT), slots, beta) for beta in coefficients])
            each, ones = tuple(np.arange(q)[:, None]), (np.ones(1),) * q
            return PairsPredictor(self.kernel, W, each, ones, intercepts, self.width, self.n_classes)
        places = np.flatnonzero((coefficients != 0.0).any(axis=0))
        given = self.kernel.gram is not None
        support = places[None, :].astype(np.float64) if given else self.shared.columns(self.slots[places])
        indices = tuple(np.flatnonzero(row[places]) for row in coefficients)
        return PairsPredictor(
            self.kernel,
            support,
            indices,
            tuple(row[places[these]] for row, these in zip(coefficients, indices, strict=True)),
            intercepts,
            self.width,
            self.n_classes,
        )

    @property
    def intercepts(self) -> Floats:
        """The intercepts of all pairs, (n_pairs,)."""
        return np.array([pair.intercept for pair in self.pairs.values()])

    def intercepts_in_units(self) -> Floats:
        """Return the intercepts of all decisions in the units of the features, (n_pairs,)."""
        X, intercepts = self.X, self.intercepts
        if self.kernel.center is None:
            return -intercepts
        return -np.array(intercepts - [self.kernel.moved(X, beta) for beta in self.beta])

    def certificate(self) -> PairsCertificate:
        """Return the certificates of all pairs, recomputed from features and coefficients."""
        return summary({two: pair.certificate() for two, pair in self.pairs.items()}, self.n)

    @property
    def relative_gap(self) -> float:
        """The largest relative gap of any pair, computed from the decision values that the solver tracks."""
        return max((audited(pair.state).relative_gap for pair in self.pairs.values()), default=0.0)

    def certificate_of(self, two: Two) -> Certificate:
        """Return the certificate of one pair."""
        return self.pairs[two].certificate()

    def standing_of(self, two: Two, indices: NDArray[np.bool_]) -> tuple[Floats, Ints]:
        """Return the coefficients and segments that the examples ``indices`` (n,) have in a pair."""
        pair = self.pairs[two]
        slots, e = pair.slot[self.slots[indices]], pair.state.examples
        return e.beta[slots], e.segment[slots]

    @contextmanager
    def _states_undone_on_error(self) -> Iterator[None]:
        """Restore all pairs if the block raises an error; the block must not add examples."""
        n_slots, vacant = self.shared.n_slots, list(self.shared.vacant)
        try:
            with ExitStack() as undone:
                for pair in self.pairs.values():
                    undone.enter_context(pair.undone_on_error())
                yield
        except BaseException:
            self.shared.n_slots, self.shared.vacant = n_slots, vacant
            raise

    # -- keeping -------------------------------------------------------------------------------------------------------

    def _solution(self) -> tuple[Floats, Ints, Floats]:
        """Return coefficients and segments pair by pair, and the intercepts of all pairs."""
        numbers = self.slots
        here = [np.isin(self._y[numbers], two) for two in self.pairs]
        found = [self.standing_of(two, mine) for two, mine in zip(self.pairs, here, strict=True)]
        beta, segments = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return beta, segments, self.intercepts

    def _known_of(self, losses: Losses, arrays: Mapping[str, Any]) -> Floats:
        return losses.levels[:, 0]

    def restore(self, arrays: Mapping[str, Any], losses: Losses, total: float, n_others: int = 1) -> None:
        if np.size(arrays["intercept"]) != len(self.pairs):
            raise InvalidInput("the arrays of this checkpoint do not belong together")
        super().restore(arrays, losses, total, self.n_classes - 1)

    def _resume(self, X: Features, y: Floats, losses: Losses, total: float, arrays: Mapping[str, Any]) -> Ints:
        (beta, segments), b = standing_of(arrays), plain(arrays["intercept"], np.float64)
        numbers = self.shared.place(taken(self.kernel, X, arrays, self._shares.limit)) if y.size else NO_EXAMPLES
        start, costs = 0, losses.levels[:, 0]
        for (two, pair), intercept in zip(self.pairs.items(), b, strict=True):
            indices = np.flatnonzero(np.isin(y, two))
            part = slice(start, start + indices.size)
            signs = np.where(y[indices] == two[1], 1.0, -1.0)
            pair.restore(numbers[indices], hinge(signs, costs[indices]), beta[part], segments[part], float(intercept))
            start += indices.size
        return numbers


def _together(traces: list[Trace]) -> Trace:
    """Return one trace for all pairs: the counts summed over pairs, and the largest violation and gap of any pair."""
    columns = zip(*(vars(trace).values() for trace in [Trace(), *traces]), strict=True)
    return Trace(*(max(each) if name in WORST else sum(each) for name, each in zip(NAMES, columns, strict=True)))
