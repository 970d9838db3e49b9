"""The record of a model: each labelled example is predicted before it is learnt [Dawid 1984, prequential].

Each prediction is compared to a naive one: the most frequent label of the window, or for numbers the window's median.
With the pinball loss the naive prediction is the window's quantile.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, Self

from livesvm.solvers.runtime.html import table_of

LATELY = 200  #: of the newer score, each example counts 1/200 less than the next one
PARTS = 64  #: parts that the history has at least, once it is long; with twice as many, two become one
MOST_NOTES = 64  #: updates that are noted before they are counted, as counting copies what it changes
_GROWTH = LATELY / (LATELY - 1.0)
_HEAVY = 1e100  # weight of an example from which on all are divided by it

Label = Any
Note = tuple[Sequence[Any], Sequence[Any], Sequence[Any], Any]  #: what ``Record.judged`` takes
Sums = tuple[float, float, float]  #: examples or their weights, losses, losses of the naive predictions
_NOTHING: Sums = (0, 0.0, 0.0)


class Score(NamedTuple):
    """The mean losses of a model's predictions and of naive predictions.

    Attributes
    ----------
    n : float
        Number of examples; of the newer ones the sum of their weights.
    error : float or None
        Share of wrong labels, or the mean absolute error or pinball loss in units of y; None without examples.
    naive_error : float or None
        The same of the naive predictions.
    """

    n: float
    error: float | None
    naive_error: float | None

    @classmethod
    def of(cls, sums: Sums, weight: float = 1.0) -> Self:
        """Return the score from weighted sums, in which the newest example has the weight ``weight``."""
        n, losses, naive_losses = sums
        return cls(n / weight, losses / n, naive_losses / n) if n else cls(0, None, None)


class Record:
    """How often a model was right about examples that it had not learnt.

    Parameters
    ----------
    prices : the cost of a unit by which a predicted number is too low, and too high; None: labels are predicted
    """

    def __init__(self, prices: tuple[float, float] | None) -> None:
        self.prices = prices
        self._sums = self._lately = _NOTHING
        self._weight = 1.0  # of the next example, in the sums of the newer ones
        self._pairs: dict[tuple[Label, Label], tuple[int, float]] = {}  # (label, prediction) -> number, weight
        self._history: list[Sums] = [_NOTHING]
        self._part = 1  # examples in each part of it
        #: of the window: the number of examples by label, or ascending targets; None: they are to be counted again
        self.window: Any = None
        self._notes: tuple[Note, ...] = ()

    def judged(
        self, predicted: Sequence[Any], given: Sequence[Any], gone: Sequence[Any] = (), labels: Any = None
    ) -> Self:
        """Return the record with predictions and the labels or numbers of their examples, which the window now holds.

        Parameters
        ----------
        predicted, given : labels or numbers of the same examples, in order
        gone : those of examples that have left the window
        labels : array of the classes, if these are their places or, of two classes, f or -1 and 1
        """
        out = object.__new__(type(self))
        vars(out).update(vars(self), _notes=(*self._notes, (predicted, given, gone, labels)))
        if len(out._notes) >= MOST_NOTES:
            out.count()
        return out

    def count(self) -> None:
        """Add the noted predictions to the scores and the confusion counts."""
        if self._notes:
            out = copy(self)
            out._pairs, out._history, out.window = self._pairs.copy(), self._history.copy(), self.window.copy()
            out._notes = ()
            known = names = None
            for predicted, given, gone, labels in self._notes:
                if labels is not known:
                    known, names = labels, labels if labels is None else labels.tolist()
                out._judge(_named(predicted, names), _named(given, names), _named(gone, names))
            vars(self).update(vars(out))

    def _judge(self, predicted: Iterable[Any], given: Sequence[Any], gone: Iterable[Any]) -> None:
        window, pairs, prices, naive = self.window, self._pairs, self.prices, None
        if prices is None:
            most = -1
            for label, count in window.items():
                if count > most or (count == most and label < naive):
                    naive, most = label, count
        elif window:
            low, high = prices
            place = low / (low + high) * (len(window) - 1)
            below = int(place)
            naive = window[below] + (place - below) * (window[min(below + 1, len(window) - 1)] - window[below])
        sums, lately, part, weight = self._sums, self._lately, self._history.pop(), self._weight
        for guess, value in zip(predicted, given, strict=True):
            if prices is None:
                loss, naive_loss = float(value != guess), float(value != naive)
                number, before = pairs.get((value, guess), (0, 0.0))
                pairs[value, guess] = number + 1, before + weight
            else:
                loss = max(low * (value - guess), high * (guess - value))
                naive_loss = max(low * (value - naive), high * (naive - value))
            sums = sums[0] + 1, sums[1] + loss, sums[2] + naive_loss
            lately = lately[0] + weight, lately[1] + weight * loss, lately[2] + weight * naive_loss
            part = part[0] + 1, part[1] + loss, part[2] + naive_loss
            if part[0] == self._part:
                self._history.append(part)
                part = _NOTHING
                if len(self._history) == 2 * PARTS:
                    self._merge_parts()
            weight *= _GROWTH
            if weight > _HEAVY:
                self._lately, self._weight = lately, weight
                self._lighten()
                lately, weight = self._lately, self._weight
        self._sums, self._lately, self._weight = sums, lately, weight
        self._history.append(part)
        if prices is None:
            for label in given:
                window[label] = window.get(label, 0) + 1
            for label in gone:
                window[label] -= 1
        else:
            for value in given:
                insort(window, value)
            for value in gone:
                del window[bisect_left(window, value)]

    def _merge_parts(self) -> None:
        """Merge every two consecutive parts of the history into one part."""
        both = zip(self._history[::2], self._history[1::2], strict=True)
        self._history, self._part = [(m + n, a + b, c + d) for (m, a, c), (n, b, d) in both], 2 * self._part

    def _lighten(self) -> None:
        """Divide all weights by the next example's weight."""
        weight, self._weight = self._weight, 1.0
        n, losses, naive_losses = self._lately
        self._lately = n / weight, losses / weight, naive_losses / weight
        self._pairs.update({two: (number, one / weight) for two, (number, one) in self._pairs.items()})

    # -- answers -------------------------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of examples that were predicted before they were learnt."""
        self.count()
        return int(self._sums[0])

    @property
    def loss(self) -> str:
        """The kind of error: the share of wrong labels, the mean absolute error, or the mean pinball loss."""
        if self.prices is None:
            return "share of wrong labels"
        return "mean absolute error" if self.prices == (1.0, 1.0) else "mean pinball loss"

    @property
    def overall(self) -> Score:
        """The score of all examples."""
        self.count()
        return Score.of(self._sums)

    @property
    def lately(self) -> Score:
        """The score of recent examples: each example weighs 1/200 less than the next newer one."""
        self.count()
        return Score.of(self._lately, self._newest)

    @property
    def history(self) -> list[Score]:
        """The scores of consecutive parts, oldest first: all but the newest have the same number of examples."""
        self.count()
        return [Score.of(part) for part in self._history if part[0]]

    @property
    def confusion(self) -> dict[tuple[Label, Label], int]:
        """Number of examples by (label, predicted label); empty for numbers."""
        self.count()
        return {two: number for two, (number, _) in self._pairs.items()}

    @property
    def confusion_lately(self) -> dict[tuple[Label, Label], float]:
        """Sums of the weights of examples by (label, predicted label); recent examples weigh most."""
        self.count()
        return {two: weight / self._newest for two, (_, weight) in self._pairs.items()}

    @property
    def _newest(self) -> float:
        """The weight of the newest example."""
        return self._weight / _GROWTH

    def shown(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        self.count()
        pairs = [
            {"label": label, "predicted": guess, "n": number, "lately": weight / self._newest}
            for (label, guess), (number, weight) in sorted(self._pairs.items())
        ]
        return {
            "loss": self.loss,
            **self.overall._asdict(),
            "lately": self.lately._asdict(),
            "confusion": pairs if self.prices is None else None,
            "history": [part._asdict() for part in self.history],
        }

    def _repr_html_(self) -> str:
        rows = [[name, *score] for name, score in (("all", self.overall), ("lately", self.lately))]
        table = table_of(f"Record: {self.loss}", rows, ("", *Score._fields))
        lately = self.confusion_lately
        pairs = [[*two, number, lately[two]] for two, number in sorted(self.confusion.items())]
        return table + (table_of("Confusion", pairs, ("label", "predicted", "n", "lately")) if pairs else "")

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.to_document() == other.to_document()

    # -- keeping -------------------------------------------------------------------------------------------------------

    def frozen(self) -> Self:
        """Return a copy that later updates do not change, and that has no reference to the window."""
        self.count()
        out = copy(self)  # counting replaces what it changes
        out.window = None
        return out

    def to_document(self) -> dict[str, Any]:
        """Return the record as numbers, texts and lists."""
        self.count()
        return {
            "prices": None if self.prices is None else list(self.prices),
            "sums": list(self._sums),
            "lately": list(self._lately),
            "weight": self._weight,
            "pairs": [[*two, *values] for two, values in self._pairs.items()],
            "history": list(map(list, self._history)),
            "part": self._part,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the record that ``to_document`` turned into ``document``."""
        prices = document["prices"]
        found = cls(None if prices is None else (prices[0], prices[1]))
        found._sums, found._lately = tuple(document["sums"]), tuple(document["lately"])
        found._weight, found._part = document["weight"], document["part"]
        found._pairs = {(label, guess): (number, weight) for label, guess, number, weight in document["pairs"]}
        found._history = [(n, losses, naive_losses) for n, losses, naive_losses in document["history"]]
        return found


def _named(values: Sequence[Any], names: list[Label] | None) -> Sequence[Any]:
    """Return the labels for class positions or, for two classes, for decisions or targets; without ``names``,
    ``values``."""
    if names is None:
        return values
    return [names[int(value)] for value in values] if len(names) > 2 else [names[-(value > 0.0)] for value in values]
