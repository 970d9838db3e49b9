"""Convert the payload of a message, which is JSON, a line of CSV or a number, to the columns of a reading."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from livesvm.service.feeds.cells import cell
from livesvm.service.feeds.sources.base import Layout
from livesvm.service.feeds.sources.spec import MqttSpec

LARGEST = 256 * 1024
"""Bytes of a message."""

Row = dict[str, Any]


class Payload:
    """The reader of a source's messages; it omits columns that the feed does not use."""

    def __init__(self, spec: MqttSpec, layout: Layout) -> None:
        self._spec, self._layout = spec, layout
        self._names = spec.names_of(layout)
        self._time = None if spec.stamps else spec.time or layout.time
        self._series = spec.series if isinstance(spec.series, str) else layout.series
        self._texts = {self._time, self._series}

    def row(self, topic: str, data: bytes, came_at: float) -> Row:
        """Return the columns of a reading that arrived at a Unix time; raises ValueError if ``data`` is no reading."""
        if len(data) > LARGEST:
            raise ValueError(f"has {len(data)} bytes, the limit is {LARGEST}")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise ValueError("is no UTF-8") from None
        row = self._named(self._cells(text))
        if self._spec.stamps and self._layout.time is not None:
            row[self._layout.time] = came_at
        if isinstance(self._spec.series, int) and self._layout.series is not None:
            row[self._layout.series] = _level(topic, self._spec.series)
        return row

    def _cells(self, text: str) -> Mapping[str, Any]:
        if self._spec.payload == "json":
            return self._object(text)
        if self._spec.payload == "csv":
            return self._line(text)
        return {self._layout.columns[0]: cell(text, False)}

    def _object(self, text: str) -> Mapping[str, Any]:
        try:
            found = from_json(text)
        except ValueError as error:
            raise ValueError(f"is no JSON: {error}") from None
        if not isinstance(found, dict):
            raise ValueError("is no object of columns")
        return {name: self._value(name, value) for name, value in found.items()}

    def _value(self, name: str, value: Any) -> Any:
        """Return a field's value, with numbers as floats; a number that names a series stays unchanged."""
        if isinstance(value, str):
            return cell(value, name in self._texts)
        if isinstance(value, bool) or not isinstance(value, int | float) or name == self._series:
            return value
        try:
            return float(value)
        except OverflowError:
            return math.inf

    def _line(self, text: str) -> Mapping[str, Any]:
        lines = [line for line in csv.reader(text.splitlines()) if line]
        if len(lines) != 1 or len(lines[0]) != len(self._names):
            shown = f"{len(lines)} lines" if len(lines) != 1 else f"{len(lines[0])} cells"
            raise ValueError(f"has {shown}, not one line of {', '.join(self._names)}")
        pairs = zip(self._names, lines[0], strict=True)
        return {name: cell(text, name in self._texts) for name, text in pairs}

    def _named(self, cells: Mapping[str, Any]) -> Row:
        """Return the columns that the feed uses, under the feed's names for them."""
        layout = self._layout
        pairs = [(name, name) for name in layout.columns] + [(layout.time, self._time), (layout.series, self._series)]
        found = {own: cells[name] for own, name in pairs if own is not None and name is not None and name in cells}
        for name, value in found.items():
            if isinstance(value, dict | list):
                raise ValueError(f"the field {name!r} holds no single value")
        return found


def _level(topic: str, number: int) -> str | None:
    """Return the part of a topic at level ``number``, from 1; None if the topic has fewer levels."""
    levels = topic.split("/")
    return levels[number - 1] if number <= len(levels) else None
