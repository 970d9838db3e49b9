"""Send a dataset to shards on other nodes: a process on the node with the dataset's files reads the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from livesvm.service.datasets.arrays import Arrays
from livesvm.service.ray.membership import MEMBERSHIP
from livesvm.service.ray.messages import Answer, answered, unpacked
from livesvm.service.resources.memory import MEGABYTE
from livesvm.service.store.base import StoreUnavailable
from livesvm.solvers.runtime.cached import cached_property
from livesvm.solvers.tables.columns import TableColumns
from livesvm.solvers.tables.encoding import TableEncoding, fitted

PIECE = 16 * MEGABYTE
"""Bytes that are read and sent at once."""

Document = dict[str, Any]


class Reader:
    """Reads the files of one dataset, in a process on the node where they are."""

    def __init__(self, directory: str, described: Document) -> None:
        self._directory, self._described = Path(directory), described
        self._encoding: TableEncoding | None = None
        self._places: list[int] = []

    def ask(self, what: str, *which: Any) -> bytes:
        """Call the method named ``what``, and return its packed result or error."""
        return answered(getattr(self, what), *which)

    def columns(self) -> tuple[Any, Any]:
        """Return targets (n,), and weights (n,) or None."""
        y, weights = self._arrays.y(), self._arrays.weights()
        return np.array(y), None if weights is None else np.array(weights)

    def marks(self) -> Any:
        """Return the marks (hashes) of the rows' keys, (n, 2), or None if the rows have no keys."""
        marks = self._arrays.marks()
        return None if marks is None else np.array(marks)

    def fit(self, table: TableColumns, places: list[int], counts: Any) -> TableEncoding:
        """Fit the encoding of a table to rows with a positive weight, and return it; ``counts`` (n,) selects the rows.

        ``places`` are the indexes of the table's columns. After this call, :meth:`take` returns encoded rows.
        """
        weights = self._arrays.weights()
        counts = np.flatnonzero(counts if weights is None else counts & (weights > 0))
        own = np.ones(counts.size) if weights is None else np.array(weights[counts])
        self._places, self._encoding = places, fitted(table, self._arrays.X()[np.ix_(counts, places)], own)
        return self._encoding

    def take(self, rows: Any) -> Any:
        """Return the features of rows, selected by a slice or by their indexes."""
        found = self._arrays.X()[rows]
        if self._encoding is not None:
            return self._encoding.apply(found[:, self._places])
        return np.array(found) if isinstance(found, np.ndarray) else found

    @cached_property
    def _arrays(self) -> Arrays:
        return Arrays(self._directory, self._described)


class Reading:
    """A dataset that a :class:`Reader` on another node reads for this process."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def ask(self, what: str, *which: Any) -> Any:
        """Return the result of a method of the reader; raises its errors, or StoreUnavailable if the reader is lost."""
        try:
            with MEMBERSHIP.inside():
                answer: Answer = unpacked(ray.get(self.asked(what, *which)))
        except RayError as error:
            raise StoreUnavailable(f"the reader of the dataset was lost ({type(error).__name__})") from error
        return answer.result()

    def asked(self, what: str, *which: Any) -> Any:
        """Return Ray's reference to the packed result of a reader's method, which another worker can resolve."""
        return self._reader.ask.remote(what, *which)


@contextmanager
def reading(where: Mapping[str, Any], described: Mapping[str, Any]) -> Iterator[Reading]:
    """Start a reader of a dataset on the node of its files, and end it with the context."""
    there = NodeAffinitySchedulingStrategy(where["node"], soft=False)
    made: Any = ray.remote(Reader)
    with MEMBERSHIP.inside():
        reader = made.options(num_cpus=0, scheduling_strategy=there).remote(where["directory"], dict(described))
    try:
        yield Reading(reader)
    finally:
        with suppress(RayError), MEMBERSHIP.inside():
            ray.kill(reader)
