"""A conformal test martingale: it tests whether scores of examples grow, with a given rate of false alarms.

For each score the test computes a conformal p-value among earlier scores of the same kind, and bets capital that the
p-value is small. If scores are exchangeable, the capital reaches c with probability 1/c at most, at any time [Ville
1939; Vovk, Gammerman & Shafer 2022, chapter 8]. At first a bank has all the capital, and makes no bets. With each
score, the bank gives a share of ``1 / run`` of its capital to the bettors. ``run`` is the number of scores after which
the test begins again. So the total capital is a mixture over all scores at which a change can begin [Shiryaev 1963].
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from livesvm.solvers import validation
from livesvm.solvers.errors import InvalidInput

RUN = 5000
"""Scores after which a test begins again, so that it finds late changes as soon as early ones."""
CARRIED = 5
"""The next run compares with the newest ``run / CARRIED`` scores; no bets are made on these again."""
POWERS = (0.5, 0.8)
"""Powers of bettors on extreme scores: each multiplies its capital by power * p^(power - 1)."""
STEPS = ((0.1, 0.4), (0.2, 0.5))
"""Steps of bettors on errors: each expects a p-value below the first number with the second as probability."""
BETTORS = len(POWERS) + len(STEPS)
LEAST_P = 1e-9
_WHOLE: Any = ("all",)
"""Name of the test over all kinds together."""


@dataclass(frozen=True)
class Alarm:
    """A change that the test has found.

    Attributes
    ----------
    kinds : tuple
        The kinds with a test that found it; none where only that of all together did.
    began : int
        Number of the score at which the change most likely began, from 1 on.
    at : int
        Number of the score that gave the alarm.
    log10_evidence : float
        Decimal logarithm of the capital, which starts at 1.
    """

    kinds: tuple[Any, ...]
    began: int
    at: int
    log10_evidence: float


class _Capital:
    """The capital of one test, and the score at which a change most likely began."""

    def __init__(self, run: int) -> None:
        self.run = run
        self.bank, self.bets = 1.0, [0.0] * BETTORS
        self.risen, self.began = [0.0] * BETTORS, [0] * BETTORS

    def bet(self, factors: Sequence[float], number: int) -> None:
        """Move 1 / ``run`` of the bank to the bets, and then multiply each bet by its factor for score ``number``."""
        share = self.bank / self.run / len(factors)
        self.bank -= self.bank / self.run
        bets, risen = self.bets, self.risen
        for i, factor in enumerate(factors):
            bets[i] = (bets[i] + share) * factor
            if risen[i] <= 0.0:
                risen[i], self.began[i] = 0.0, number
            risen[i] += math.log(factor)

    @property
    def value(self) -> float:
        """The present capital of the bank and all bettors; it starts at 1."""
        return self.bank + sum(self.bets)

    @property
    def likely(self) -> int:
        """The number of the score at which a change most likely began."""
        return self.began[max(range(BETTORS), key=self.risen.__getitem__)]


class DriftTest:
    """Test whether scores grow; in a run of ``run`` scores, a false alarm has at most the probability ``false_alarms``.

    If scores have no kinds, the one test of all scores gets the whole false alarm rate. If scores have kinds, the test
    of all scores gets half of the rate. The test of the i-th kind that appears gets 1 / (i (i + 1)) of the other half,
    so that new kinds may appear at any time. The bound on false alarms assumes that while nothing changes, the scores
    of each kind are exchangeable or fall.

    Parameters
    ----------
    false_alarms : float, default 0.01
        Largest probability of a false alarm in a run, whatever the distribution of the scores.
    run : int, default 5000
        How many scores a run has; then the test begins again. The test stores 8 bytes for each score of the run, and
        for the newest scores of the run before, which are a fifth as many.

    Raises
    ------
    InvalidInput
        A rate that is not between 0 and 1, or a run of fewer than 10.

    Examples
    --------
    >>> import numpy as np
    >>> from livesvm.solvers import DriftTest
    >>> rng = np.random.default_rng(0)
    >>> test = DriftTest(0.01)
    >>> test.learn(np.abs(rng.normal(size=500))) is None
    True
    >>> alarm = test.learn(np.abs(rng.normal(scale=3.0, size=100)))
    >>> alarm.began
    501
    """

    def __init__(self, false_alarms: float = 0.01, *, run: int = RUN) -> None:
        rate = validation.fraction(false_alarms, "false_alarms")
        if run < 10:
            raise InvalidInput(f"must be a whole number of at least 10, not {run!r}", field="run")
        self.false_alarms, self.run = rate, run
        self.n = 0
        """Scores so far."""
        self._forget()

    def _forget(self) -> None:
        self._since = self.n
        self._capital: dict[Any, _Capital] = {_WHOLE: _Capital(self.run)}
        self._scores: dict[Any, array[float]] = {}
        self._sorted: dict[Any, array[float]] = {}
        self._strongest: float | None = None  # what is known of the property

    def learn(self, scores: ArrayLike, kinds: Iterable[Any] | None = None) -> Alarm | None:
        """Take scores in their order; return the newest alarm, if there is one. After an alarm the test begins again.

        Parameters
        ----------
        scores : array-like of shape (m,)
            The larger, the less an example fits the model that has not learnt it.
        kinds : iterable of m hashable values or None
            Of each score, as its class; None: all belong to one kind.

        Returns
        -------
        Alarm or None
            The newest change that was found among these scores.
        """
        values = np.asarray(scores, np.float32).tolist()
        names = [None] * len(values) if kinds is None else list(kinds)
        found = None
        for score, kind in zip(values, names, strict=True):
            found = self._take(score, kind) or found
        return found

    def _take(self, score: float, kind: Any) -> Alarm | None:
        self.n, self._strongest = self.n + 1, None
        if self.n - self._since > self.run:
            self._begin_run()
        ordered = self._sorted.get(kind)
        if ordered is None:
            ordered, self._scores[kind] = self._sorted.setdefault(kind, array("f")), array("f")
        first, last = bisect_left(ordered, score), bisect_right(ordered, score)
        p = (len(ordered) - last + _chance(self.n) * (last - first + 1)) / (len(ordered) + 1)
        ordered.insert(last, score)
        self._scores[kind].append(score)
        factors = _factors(p if p > LEAST_P else LEAST_P)
        self._capital[_WHOLE].bet(factors, self.n)
        if kind is not None:
            self._capital.setdefault(kind, _Capital(self.run)).bet(factors, self.n)
        return self._alarm(kind)

    def _begin_run(self) -> None:
        """Start a new run, which compares later scores with the newest earlier scores of each kind."""
        kept = {kind: scores[-(self.run // CARRIED) :] for kind, scores in self._scores.items()}
        self._forget()
        self._since = self.n - 1
        self._scores = kept
        self._sorted = {kind: array("f", sorted(scores)) for kind, scores in kept.items()}

    def _alarm(self, kind: Any) -> Alarm | None:
        if kind is None and self.evidence() < 1.0:
            return None
        names = (_WHOLE,) if kind is None else (_WHOLE, kind)
        crossed = [name for name in names if self.evidence(name) >= 1.0]
        if not crossed:
            return None
        strongest = self._capital[max(crossed, key=lambda name: self._capital[name].value)]
        kinds = tuple(name for name in self._capital if name is not _WHOLE and self.evidence(name) >= 1.0)
        found = Alarm(kinds, strongest.likely, self.n, math.log10(strongest.value))
        self._forget()
        return found

    def evidence(self, kind: Any = _WHOLE) -> float:
        """Return the capital of a test, divided by the capital that gives an alarm.

        Parameters
        ----------
        kind : hashable, default all together
            The kind that the test is for.

        Returns
        -------
        float
            At 1 there is an alarm.
        """
        return self._capital[kind].value * self._rate(0 if kind is _WHOLE else list(self._capital).index(kind))

    def _rate(self, place: int) -> float:
        """Return the false alarm rate of test number ``place``: test 0 is for all scores, any other for one kind."""
        if place == 0:
            return self.false_alarms if len(self._capital) == 1 else self.false_alarms / 2
        return self.false_alarms / 2 / (place * (place + 1))

    @property
    def nbytes(self) -> int:
        """The number of bytes of the stored scores."""
        return 2 * sum([scores.itemsize * len(scores) for scores in self._scores.values()])

    @property
    def strongest(self) -> float:
        """The largest :meth:`evidence` of all tests; at 1 there is an alarm."""
        if self._strongest is None:
            capitals = enumerate(self._capital.values())
            self._strongest = max([capital.value * self._rate(place) for place, capital in capitals])
        return self._strongest

    def to_arrays(self) -> dict[str, Any]:
        """Return the state of the test.

        Returns
        -------
        dict
            Numbers, arrays, and lists of kinds and numbers, from which :meth:`restore` makes the same test.
        """
        capital = [[c.bank, *c.bets, *c.risen, *map(float, c.began)] for c in self._capital.values()]
        return {
            "n": self.n,
            "since": self._since,
            "tested": [kind for kind in self._capital if kind is not _WHOLE],
            "capital": np.array(capital),
            "kinds": list(self._scores),
            "counts": [len(scores) for scores in self._scores.values()],
            "scores": np.array([score for scores in self._scores.values() for score in scores], np.float32),
        }

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state of another test with the same rate and run.

        Parameters
        ----------
        arrays : mapping
            What :meth:`to_arrays` returned.
        """
        k = BETTORS
        self.n, self._since, self._strongest = int(arrays["n"]), int(arrays["since"]), None
        for name, row in zip([_WHOLE, *arrays["tested"]], np.asarray(arrays["capital"]).tolist(), strict=True):
            self._capital[name] = capital = _Capital(self.run)
            capital.bank, capital.bets, capital.risen = row[0], row[1 : 1 + k], row[1 + k : 1 + 2 * k]
            capital.began = list(map(int, row[1 + 2 * k :]))
        parts = np.split(np.asarray(arrays["scores"]), np.cumsum(arrays["counts"])[:-1])
        for kind, scores in zip(arrays["kinds"], parts, strict=False):
            self._scores[kind] = array("f", scores.tolist())
            self._sorted[kind] = array("f", sorted(self._scores[kind]))


def _chance(number: int) -> float:
    """Return a pseudorandom number between 0 and 1 for score ``number``, which breaks ties of scores [splitmix64]."""
    z = (number * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return ((z ^ (z >> 31)) >> 11) / 2.0**53


def _factors(p: float) -> list[float]:
    """Return the factor by which each bettor's capital grows at a p-value; its mean over uniform p-values is 1."""
    powers = [power * p ** (power - 1.0) for power in POWERS]
    return powers + [share / below if p < below else (1.0 - share) / (1.0 - below) for below, share in STEPS]
