"""The data of the last training of a model that only jobs train: examples of its window, or rows of a dataset.

Such a model keeps support vectors that have left its window or its dataset, so an erasure must find these vectors too.
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
    """A description of a training's data, by which an erasure finds trainings that used the erased examples.

    Parameters
    ----------
    is_known : whether the origin was stored; earlier versions of the service did not store it
    solver, tol : the solver of the training, and the relative gap that it was to reach
    keys : keys of the support vectors of a training on the window; ``tags`` has the tags of those that had any
    dataset : name, directory and salt of the dataset, for a training on one
    marks : marks (s, 2) of the support vectors, see :mod:`.row_marks`; None if the dataset has no keys
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
        """Return the training that the two parts of an estimator's attribute ``trained_on`` describe."""
        if origin is None:
            return cls()
        common: Document = {"is_known": True, "solver": origin["solver"], "tol": origin["tol"]}
        if origin.get("dataset") is not None:
            return cls(**common, dataset=origin["dataset"], marks=names)
        return cls(**common, keys=list(names or ()), tags=origin.get("tags", {}))

    @classmethod
    def in_arrays(cls, arrays: Mapping[str, Any] | None) -> TrainedOn | None:
        """Return the training in the arrays of a snapshot; None if the snapshot has no trained model of this kind."""
        if arrays is None or not arrays.get("trained", False):
            return None
        return cls.of(arrays.get("names"), arrays.get("origin"))

    def origin(self, names: Any) -> Document:
        """Return the document to store with a training; ``names`` are the keys of the training's support vectors."""
        if self.dataset is not None:
            return {"solver": self.solver, "tol": self.tol, "dataset": dict(self.dataset)}
        tags = {key: list(self.tags[key]) for key in names or () if key in self.tags}
        return {"solver": self.solver, "tol": self.tol, "tags": tags}

    def named(self) -> Iterator[tuple[Key, Sequence[str]]]:
        """Yield the keys of the support vectors with their tags; yield nothing for a dataset, which stores no keys."""
        return ((key, self.tags.get(key, ())) for key in self.keys)

    def marks_among(self, keys: Sequence[Key]) -> dict[Key, str]:
        """Return which of the keys belong to rows of the training's dataset, each with its mark as text."""
        if self.dataset is None or self.marks is None or not keys or not len(self.marks):
            return {}
        wanted = marks_of(self.dataset["salt"], keys)
        there = among(wanted, self.marks).tolist()
        return {key: text for key, text, is_in in zip(keys, to_text(wanted), there, strict=True) if is_in}

    def has_rows(self, rows: Collection[str]) -> bool:
        """Return whether ``rows`` has a mark of one of the training's rows, or the directory of its dataset."""
        if self.dataset is None:
            return False
        own = () if self.marks is None else to_text(self.marks)
        return self.dataset["directory"] in rows or any(mark in rows for mark in own)
