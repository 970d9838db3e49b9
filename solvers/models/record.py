"""The record of a model: each labelled example is predicted before it is learnt [Dawid 1984, prequential].

Each prediction is compared to a naive one: the most frequent label of the window, or for numbers the window's median.
With the pinball loss the naive prediction is the window's quantile.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from livesvm.solvers.runtime.html import table_of

LATELY = 200  #: of the newer score, each example counts 1/200 less than the next one
PARTS = 64  #: parts that the history has at least, once it is long; with twice as many, two become one
MOST_NOTES = 256  #: updates, or examples of one, that are noted and then counted, as counting copies what it changes
_GROWTH = LATELY / (LATELY - 1.0)
_HEAVY = 1e100  # weight of an example from which on all are divided by it

Label = Any
#: predicted, given, gone, labels, and the note before or None: see ``Record.judged``
Note = tuple[Sequence[Any], Sequence[Any], Sequence[Any], Any, Any]
Sums = tuple[float, float, float]  #: examples or their weights, losses, losses of the naive predictions
_NOTHING: Sums = (0, 0.0, 0.0)


class Judged(NamedTuple):
    """The losses of consecutive examples and of naive predictions, and for labels, pairs of label and prediction."""

    losses: list[float]
    naive_losses: list[float]
    pairs: list[tuple[Label, Label]]


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


class _Tally:
    """The counts of a record, to which ``count`` adds."""

    def __init__(self, prices: tuple[float, float] | None) -> None:
        self.prices = prices
        self.sums = self.lately = _NOTHING
        self.weight = 1.0  # of the next example, in the sums of the newer ones
        self.pairs: dict[tuple[Label, Label], tuple[int, float]] = {}  # (label, prediction) -> number, weight
        self.history: list[Sums] = [_NOTHING]
        self.part = 1  # examples in each part of it
        #: of the window: the number of examples by label, or ascending targets; None: they are to be counted again
        self.window: Any = None

    def copy(self) -> Self:
        """Return a copy that has the same dicts and lists."""
        out = object.__new__(type(self))
        vars(out).update(vars(self))
        return out

    def count(self, notes: Iterable[Note]) -> None:
        """Add predictions to the scores and the confusion counts."""
        self._add(*(self._judged_labels(notes) if self.prices is None else self._judged_numbers(notes)))

    def _judged_labels(self, notes: Iterable[Note]) -> Judged:
        """Return the losses of examples, and (label, prediction); keep the numbers of the window's labels."""
        window, known, named = self.window, None, dict[Any, Label]()
        naive, lead = _most_frequent(window)
        losses, naive_losses, pairs = Judged([], [], [])
        for predicted, given, gone, labels, _ in notes:
            if labels is None:
                named = {label: label for label in (*predicted, *given, *gone)}
            elif labels is not known:
                names = labels.tolist()
                named = dict(enumerate(names) if len(names) > 2 else ((-1, names[0]), (1, names[-1])))
            known, has_signs, most = labels, labels is not None and labels.size < 3, naive
            for guess, one in zip(predicted, given, strict=False):
                label, guess = named[one], named[guess if not has_signs else 1 if guess > 0.0 else -1]
                losses.append(1.0 if label != guess else 0.0)
                naive_losses.append(1.0 if label != most else 0.0)
                pairs.append((label, guess))
                window[label] = window.get(label, 0) + 1
                lead += 1 if label == naive else -1
            for one in gone:
                label = named[one]
                window[label] -= 1
                lead -= label == naive
            if lead <= 0:
                naive, lead = _most_frequent(window)
        return Judged(losses, naive_losses, pairs)

    def _judged_numbers(self, notes: Iterable[Note]) -> Judged:
        """Return the losses of examples; keep the window's ascending targets."""
        window, (low, high) = self.window, self.prices or (1.0, 1.0)
        level, (losses, naive_losses, pairs) = low / (low + high), Judged([], [], [])
        for predicted, given, gone, *_ in notes:
            place = level * (len(window) - 1)
            below = int(place)
            naive = window[below] if window else 0.0
            if below < place:
                naive += (place - below) * (window[below + 1] - naive)
            for guess, value in zip(predicted, given, strict=False):
                off, naive_off = value - guess, value - naive
                losses.append(low * off if off > 0.0 else -high * off)
                naive_losses.append(low * naive_off if naive_off > 0.0 else -high * naive_off)
                insort(window, value)
            for value in gone:
                del window[bisect_left(window, value)]
        return Judged(losses, naive_losses, pairs)

    def _add(self, losses: list[float], naive_losses: list[float], pairs: list[tuple[Label, Label]]) -> None:
        """Add the losses of consecutive examples, and for labels, the pairs of label and prediction."""
        n, total, naive_total = self.sums
        recent_n, recent, naive_recent = self.lately
        part_n, part, naive_part = self.history.pop()
        weight, until, left, known = self.weight, self.part, iter(pairs), self.pairs
        for loss, naive_loss in zip(losses, naive_losses, strict=True):
            n, total, naive_total = n + 1, total + loss, naive_total + naive_loss
            recent_n, recent = recent_n + weight, recent + weight * loss
            naive_recent += weight * naive_loss
            if (two := next(left, None)) is not None:
                number, before = known.get(two, (0, 0.0))
                known[two] = number + 1, before + weight
            part_n, part, naive_part = part_n + 1, part + loss, naive_part + naive_loss
            if part_n == until:
                self.history.append((part_n, part, naive_part))
                part_n, part, naive_part = _NOTHING
                if len(self.history) == 2 * PARTS:
                    self._merge_parts()
                    until = self.part
            weight *= _GROWTH
            if weight > _HEAVY:
                self.lately, self.weight = (recent_n, recent, naive_recent), weight
                self._lighten()
                (recent_n, recent, naive_recent), weight = self.lately, self.weight
        self.sums, self.lately, self.weight = (n, total, naive_total), (recent_n, recent, naive_recent), weight
        self.history.append((part_n, part, naive_part))

    def _merge_parts(self) -> None:
        """Merge every two consecutive parts of the history into one part."""
        both = zip(self.history[::2], self.history[1::2], strict=True)
        self.history, self.part = [(m + n, a + b, c + d) for (m, a, c), (n, b, d) in both], 2 * self.part

    def _lighten(self) -> None:
        """Divide all weights by the next example's weight."""
        weight, self.weight = self.weight, 1.0
        n, losses, naive_losses = self.lately
        self.lately = n / weight, losses / weight, naive_losses / weight
        self.pairs.update({two: (number, one / weight) for two, (number, one) in self.pairs.items()})


class Record:
    """How often a model was right about examples that it had not learnt.

    Parameters
    ----------
    prices : the cost of a unit by which a predicted number is too low, and too high; None: labels are predicted
    """

    __slots__ = ("_held",)

    def __init__(self, prices: tuple[float, float] | None) -> None:
        # The counts, the newest note with all notes before it, and their number. One attribute, as threads read it.
        self._held: tuple[_Tally, Any, int] = (_Tally(prices), None, 0)

    def judged(
        self, predicted: Sequence[Any], given: Sequence[Any], gone: Sequence[Any] = (), labels: Any = None
    ) -> Self:
        """Return the record with predictions for new examples; their labels or numbers ``given`` are in the window.

        Parameters
        ----------
        predicted : labels or numbers of the new examples, in order; others after them do not count
        given : their labels or numbers
        gone : those of examples that have left the window
        labels : array of the classes, if these are their places or, of two classes, f or -1 and 1
        """
        counts, notes, number = self._held
        out = object.__new__(type(self))
        out._held = counts, (predicted, given, gone, labels, notes), number + 1
        if max(number + 1, len(given)) >= MOST_NOTES:
            out.count()
        return out

    def count(self) -> _Tally:
        """Add the noted predictions to the scores and the confusion counts, and return the updated tally."""
        counts, notes, number = self._held
        if number:
            noted = []
            while notes is not None:
                noted.append(notes)
                notes = notes[4]
            counts = counts.copy()
            counts.pairs, counts.history = counts.pairs.copy(), counts.history.copy()
            counts.window = counts.window.copy()
            counts.count(reversed(noted))
            self._held = counts, None, 0
        return counts

    @property
    def prices(self) -> tuple[float, float] | None:
        """The costs of a prediction one unit too low and one unit too high; None if labels are predicted."""
        return self._held[0].prices

    @property
    def window(self) -> Any:
        """The number of the window's examples by label, or their targets, ascending; None if a new count is needed."""
        return self._held[0].window

    @window.setter
    def window(self, found: Any) -> None:
        self.count().window = found

    # -- answers -------------------------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of examples that were predicted before they were learnt."""
        return int(self.count().sums[0])

    @property
    def loss(self) -> str:
        """The kind of error: the share of wrong labels, the mean absolute error, or the mean pinball loss."""
        if self.prices is None:
            return "share of wrong labels"
        return "mean absolute error" if self.prices == (1.0, 1.0) else "mean pinball loss"

    @property
    def overall(self) -> Score:
        """The score of all examples."""
        return Score.of(self.count().sums)

    @property
    def lately(self) -> Score:
        """The score of recent examples: each example weighs 1/200 less than the next newer one."""
        return Score.of(self.count().lately, self._newest)

    @property
    def history(self) -> list[Score]:
        """The scores of consecutive parts, oldest first: all but the newest have the same number of examples."""
        return [Score.of(part) for part in self.count().history if part[0]]

    @property
    def confusion(self) -> dict[tuple[Label, Label], int]:
        """Number of examples by (label, predicted label); empty for numbers."""
        return {two: number for two, (number, _) in self.count().pairs.items()}

    @property
    def confusion_lately(self) -> dict[tuple[Label, Label], float]:
        """Sums of the weights of examples by (label, predicted label); recent examples weigh most."""
        return {two: weight / self._newest for two, (_, weight) in self.count().pairs.items()}

    @property
    def _newest(self) -> float:
        """The weight of the newest example."""
        return self.count().weight / _GROWTH

    def shown(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        pairs = [
            {"label": label, "predicted": guess, "n": number, "lately": weight / self._newest}
            for (label, guess), (number, weight) in sorted(self.count().pairs.items())
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

    def __getstate__(self) -> object:
        self.count()  # notes are nested too deeply to be pickled or copied
        return None, {"_held": self._held}

    def frozen(self) -> Self:
        """Return a copy that later updates do not change, and that has no reference to the window."""
        counts = self.count().copy()  # counting replaces what it changes
        counts.window = None
        out = object.__new__(type(self))
        out._held = counts, None, 0
        return out

    def to_document(self) -> dict[str, Any]:
        """Return the record as numbers, texts and lists."""
        counts = self.count()
        return {
            "prices": None if counts.prices is None else list(counts.prices),
            "sums": list(counts.sums),
            "lately": list(counts.lately),
            "weight": counts.weight,
            "pairs": [[*two, *values] for two, values in counts.pairs.items()],
            "history": list(map(list, counts.history)),
            "part": counts.part,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the record that ``to_document`` turned into ``document``."""
        prices = document["prices"]
        found = cls(None if prices is None else (prices[0], prices[1]))
        counts = found.count()
        counts.sums, counts.lately = tuple(document["sums"]), tuple(document["lately"])
        counts.weight, counts.part = document["weight"], document["part"]
        counts.pairs = {(label, guess): (number, weight) for label, guess, number, weight in document["pairs"]}
        counts.history = [(n, losses, naive_losses) for n, losses, naive_losses in document["history"]]
        return found


def _most_frequent(window: Mapping[Label, int]) -> tuple[Label | None, int]:
    """Return the most frequent label, the first of equally frequent ones, and its lead over the next label's count."""
    if not window:
        return None, 0
    most = max(window.values())
    first, *others = sorted(label for label, count in window.items() if count == most)
    return first, 0 if others else most - max((count for count in window.values() if count < most), default=0)
