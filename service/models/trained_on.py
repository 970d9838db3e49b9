"""What the last training of a model was on that updates do not lead to an optimum of: which examples, or which rows.

The support vectors stay in such a model when they have left its window, or its dataset. So an erasure has to find them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from livesvm.service.models.arrays import Key
from livesvm.service.models.row_marks import among, marks_of, to_text

Document = dict[str, Any]


@dataclass(frozen=True)
class TrainedOn:
    """A training, by what an erasure finds it by.

    Parameters
    ----------
    is_known : whether it was kept what the training was on; it is not of trainings of earlier versions of the service
    solver, tol : by which and to which relative gap it was made
    keys : of the support vectors, where it was on the window; with ``tags`` of those that had any
    dataset : name, directory and salt of the dataset, where it was on one
    marks : (s, 2) of the support vectors, see :mod:`.row_marks`; None where the dataset has no keys
    """

    is_known: bool = False
    solver: str = "auto"
    tol: float | None = None
    keys: Sequence[Key] = ()
    tags: Mapping[Key, Sequence[str]] = field(default_factory=dict)
    dataset: Mapping[str, Any] | None = None
    marks: Any = None

    @classmethod
    def of(cls, names: Any, origin: Mapping[str, Any] | None) -> TrainedOn:
        """Return the training that an estimator's ``trained_on`` tells of."""
        if origin is None:
            return cls()
        common: Document = {"is_known": True, "solver": origin["solver"], "tol": origin["tol"]}
        if origin.get("dataset") is not None:
            return cls(**common, dataset=origin["dataset"], marks=names)
        return cls(**common, keys=list(names or ()), tags=origin.get("tags", {}))

    @classmethod
    def in_arrays(cls, arrays: Mapping[str, Any] | None) -> TrainedOn | None:
        """Return the training that is in the arrays of a snapshot; None if there is none that needs a name."""
        if arrays is None or not arrays.get("trained", False):
            return None
        return cls.of(arrays.get("names"), arrays.get("origin"))

    def origin(self, names: Any) -> Document:
        """Return what is kept with a training by the names of its support vectors."""
        if self.dataset is not None:
            return {"solver": self.solver, "tol": self.tol, "dataset": dict(self.dataset)}
        tags = {key: list(self.tags[key]) for key in names or () if key in self.tags}
        return {"solver": self.solver, "tol": self.tol, "tags": tags}

    def named(self) -> Iterator[tuple[Key, Sequence[str]]]:
        """Yield the keys of its support vectors, with their tags; of a dataset only marks are known."""
        return ((key, self.tags.get(key, ())) for key in self.keys)

    def marks_among(self, keys: Sequence[Key]) -> dict[Key, str]:
        """Return which of the keys its rows of a dataset have, with the mark of each as text."""
        if self.dataset is None or self.marks is None or not keys or not len(self.marks):
            return {}
        wanted = marks_of(self.dataset["salt"], keys)
        there = among(wanted, self.marks).tolist()
        return {key: text for key, text, is_in in zip(keys, to_text(wanted), there, strict=True) if is_in}

    def has_rows(self, rows: Collection[str]) -> bool:
        """Return whether it rests on rows of a dataset: with these marks, or of one in such a directory."""
        if self.dataset is None:
            return False
        own = () if self.marks is None else to_text(self.marks)
        return self.dataset["directory"] in rows or any(mark in rows for mark in own)
